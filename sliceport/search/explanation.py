"""The explanation of a difference: the parts of a model that cause it, and their known defects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sliceport.arguments import is_path
from sliceport.defects.defect import Defect
from sliceport.engines.engine import NamesCause
from sliceport.engines.failure import Failure
from sliceport.engines.side import Budget, BudgetSpent, Result, Side
from sliceport.search.case import Case, Subject
from sliceport.search.comparison import Comparison, Run
from sliceport.search.graph import find_ancestors
from sliceport.search.pair import Pair
from sliceport.search.refusals import find_other_refusals
from sliceport.search.report import DiffReport, Part
from sliceport.search.search import Search, search_each
from sliceport.verdict.difference import OutputDiff, Tolerances, describe_missing
from sliceport.wording import spell
from sliceport.wording.shell import join


def explain(comparison: Comparison, run: Run, report: DiffReport) -> DiffReport:
    """Return a report with the part of the model that causes each failure, and with notes on the search.

    Args:
        comparison: The models and engines.
        run: A run in which outputs differ, or one of the engines fails.
        report: The report on this run.

    Raises:
        MissingExtra, UsageError, ChildLost: See `Side.run`.
    """
    parts: list[Part] = []
    notes = [*report.notes]
    rounded: set[str] | None = None
    comparison.bad.budget.end_before_timeout()
    try:
        unsteady, failures = _repeat(comparison, run, report.failures)
        if unsteady is None:
            rounded = _search_in_declared_types(comparison, run, report, parts, notes)
        else:
            ending = "" if failures else ", so no node is searched for"
            notes.append(f"{unsteady} gives different results in two equal runs{ending}")
        finder = _PartFinder(comparison, run, parts, notes)
        if rounded is None:
            finder.find_parts(failures)
        if not comparison.is_pair and failures and failures[0].is_of_run:
            finder.find_more_refusals()
    except BudgetSpent as error:
        notes.append(f"{error}, before a node was found{' for each output' if parts else ''}")
    # `explained` is empty for a part that is the only one.
    by_rounding = [part.explained or [report.failures[0].output] for part in parts if part.case.is_rounding]
    rounded = (rounded or set()).union(*by_rounding)
    outputs = tuple(
        replace(each, status="rounding", kind="") if each.name in rounded else each for each in report.outputs
    )
    failures = tuple(failure for failure in report.failures if failure.output not in rounded)
    runs = comparison.bad.budget.runs
    return replace(report, outputs=outputs, failures=failures, parts=tuple(parts), notes=tuple(notes), runs=runs)


def _repeat(comparison: Comparison, run: Run, failures: Sequence[Failure]) -> tuple[Side | None, Sequence[Failure]]:
    """Run both engines again. Return the engine whose result differs, if any, and the failures that occur again."""
    # A kept result would always be the same, so these runs do not use the folder of kept results.
    good, bad = (replace(side, kept_runs=None) for side in (comparison.good, comparison.bad))
    again = replace(comparison, good=good, bad=bad).repeat(run)
    pairs = (run.actual, again.actual), (run.expected, again.expected)
    for side, (result, repeated) in zip((comparison.bad, comparison.good), pairs, strict=True):
        if isinstance(result, Failure):
            is_steady = isinstance(repeated, Failure) and repeated.is_like(result)
        else:
            is_steady = comparison.report(replace(run, actual=repeated, expected=result)).is_equal
        if not is_steady:
            # Values that were never written differ in each run, but are always wrong.
            outputs = [failure.output for failure in comparison.report(again).failures]
            return side, [failure for failure in failures if failure.output in outputs]
    return None, failures


def _search_in_declared_types(
    comparison: Comparison, run: Run, report: DiffReport, parts: list[Part], notes: list[str]
) -> set[str] | None:
    """Search on engines that compute in the types that the model declares, unless their options say otherwise.

    If all outputs are right there, add a note instead of parts. Return the outputs that differ only in narrower types,
    or None if there was no such search.
    """
    bad, good = comparison.bad, comparison.good
    exact = replace(comparison, bad=bad.in_declared_types(), good=good.in_declared_types())
    if (exact.bad, exact.good) == (bad, good):
        return None
    exact_run = exact.repeat(run)
    exact_report = exact.report(exact_run)
    if bool(exact_report.failed) != bool(report.failed):  # what runs in one type need not run in another
        return None
    if not exact_report.is_equal:
        _PartFinder(exact, exact_run, parts, notes).find_parts(exact_report.failures)
    else:
        old, new = (bad, exact.bad) if exact.bad != bad else (good, exact.good)
        default = f"a narrower type decides, in which {old} computes by default on this machine"
        notes.append(f"{default}: with {new}, all outputs are equal or close")
    return {each.output for each in report.failures} - {each.output for each in exact_report.failures}


class _PartFinder:
    """A search for the parts of a model that cause the failures of a run, which adds to `parts` and `notes`."""

    def __init__(self, comparison: Comparison, run: Run, parts: list[Part], notes: list[str]) -> None:
        self._comparison, self._run, self._parts, self._notes = comparison, run, parts, notes
        graph, self._bad, self._good = comparison.second, comparison.bad, comparison.good
        inputs = comparison.inputs_of_second(run.inputs)
        if isinstance(run.expected, Failure):  # the first model does not run, so its engine is the one to test
            graph, self._bad, self._good, inputs = comparison.first, comparison.good, comparison.bad, {**run.inputs}
        # If the other engine does not run the format of the model, the models differ in format, and one of them failed
        # to run. Then the engine that fails is enough to repeat the failure.
        runs_format = graph.format in self._good.engine.model_formats
        self._subject = Subject(graph, self._bad, self._good if runs_format else self._bad, inputs)

    def find_parts(self, failures: Sequence[Failure]) -> None:
        """Add the part of each failure. If no part is found, extend an earlier part or add a note."""
        second, tolerances = self._comparison.second, self._comparison.tolerances
        for failure, case in zip(failures, self._locate_each(failures), strict=False):  # there may be no cases at all
            if case is not None:
                explained = (failure.output,) if len(failures) > 1 else ()
                self._parts.append(self._build_part(case, tolerances.narrow(failure.output), explained))
                continue
            # The part that was found for an earlier output may also explain this output, if they share a node.
            ancestors = [second.nodes[i] for i in find_ancestors(second, [failure.output])]
            nodes = [(part.case.main_node, *part.case.nodes) for part in self._parts]
            explaining = [i for i, each in enumerate(nodes) if any(node in ancestors for node in each)]
            if explaining:
                part = self._parts[explaining[-1]]
                self._parts[explaining[-1]] = replace(part, explained=(*part.explained, failure.output))
            else:
                texts = ["no part of the model that was cut out fails like the whole", *self._advise()]
                self._notes += [text for text in texts if text not in self._notes]  # once for several outputs

    def find_more_refusals(self) -> None:
        """Add the other nodes that the engine does not run, unless they run when they are repeated.

        Also add notes about the known defects of the model that a refusal may hide.
        """
        for case in find_other_refusals(self._subject, self._parts[0].case) if self._parts else ():
            part = self._build_part(case, Tolerances())
            if isinstance(part.actual, Failure):
                self._parts.append(part)
        named = {defect for part in self._parts for defect in part.defects}
        engine = self._bad.engine.name
        for defect in self._subject.find_defects(self._subject.graph.nodes, engine):
            if defect not in named:
                self._notes.append(f"the model also has a known defect of {engine}: {defect.id} ({defect.reason})")

    def _locate_each(self, failures: Sequence[Failure]) -> Iterator[Case | None]:
        """Yield the part that causes each failure, or None. Add sentences about the search to the notes.

        If no computed values of the two models match, yield nothing, unless a single node computes an output that
        differs.
        """
        second, tolerances = self._comparison.second, self._comparison.tolerances
        if not self._comparison.is_pair or isinstance(self._run.expected, Failure):
            yield from search_each(self._subject, failures, tolerances)
            return
        pair = Pair(self._comparison, [self._run.inputs, *self._run.more_inputs])
        self._notes.append(pair.matches.note)
        if failures[0].is_of_run:
            cause = pair.find_failing_part(failures[0])
            # If the cause is several nodes that do not run, search the second model alone, which may find fewer nodes.
            # A cause with a note is kept: it fails in another way than the model, so that search would not find it.
            if cause is None or (len(cause.nodes) > 1 and cause.failure.is_of_run and not cause.note):
                cause = next(search_each(self._subject, failures, tolerances)) or cause
            yield cause
        elif not pair.matches.has_computed and all(len(find_ancestors(second, [each.output])) > 1 for each in failures):
            # Without matches, a part has all nodes that lead to its output. Such a part helps only if it is one node.
            self._notes.append(
                "the models share no values that diff can match, so that only their outputs are compared"
            )
        else:
            for failure in failures:
                yield pair.find_next_part(failure.output, tolerances.narrow(failure.output))

    def _build_part(self, case: Case, tolerances: Tolerances, explained: tuple[str, ...] = ()) -> Part:
        """Run a failing case, and return it with the results, its known defects and perhaps the cause."""
        # These runs have no limit of time, because the search may have used up its budget.
        good = self._subject.good if case.expected is None else self._good
        bad, good = (replace(side, budget=Budget()) for side in (self._bad, good))
        cause, actual = "", case.run(bad)
        expected: Result | None = case.expected
        if expected is None:  # a search in two matched models has the expected outputs, and looks for no cause
            expected = case.run(good)
            if isinstance(bad.engine, NamesCause):

                def fails(options: Mapping[str, str]) -> bool:
                    subject = Subject(case.graph, replace(bad, options=options), good, {**case.inputs})
                    return Search(subject, case.failure, tolerances).fails(case)

                cause = bad.engine.find_cause(bad.options, fails)
        outputs: tuple[OutputDiff, ...] = ()
        if isinstance(actual, Failure) and not isinstance(expected, Failure):
            outputs = describe_missing(expected, actual)
        elif not isinstance(actual, Failure) and not isinstance(expected, Failure):
            outputs = case.compare(actual, expected, tolerances.of_inner)
        defects = tuple(dict.fromkeys(self._find_defects(case)))
        return Part(case, bad, good, actual, expected, outputs, cause, defects, explained)

    def _find_defects(self, case: Case) -> Iterator[Defect]:
        """Yield the known defects that the nodes of a case have in their whole model."""
        yield from self._subject.find_defects(case.nodes, self._bad.engine.name)
        # If engines disagree about a node, the engine of the expected outputs may also cause the difference.
        defects = self._subject.find_defects(case.nodes, self._good.engine.name)
        yield from (defect for defect in defects if defect.is_contested)
        if case.counterpart is not None:  # an optimizer or a converter may have removed the node with the defect
            first = self._subject._replace(graph=self._comparison.first, values={**self._run.inputs})
            yield from first.find_defects(case.counterpart.nodes, self._bad.engine.name)

    def _advise(self) -> Iterator[str]:
        """Yield a sentence with commands to compare each model alone, if both ran on the same, non-default engine."""
        # A default engine would be compared with itself. The text of a model object would hold all weights.
        comparison, engine = self._comparison, str(self._comparison.bad)
        is_default = engine == comparison.second.default_against
        if comparison.is_pair and engine == str(comparison.good) and not is_default:
            paths = filter(is_path, comparison.models)
            commands = "; ".join(join(["sliceport", "diff", str(path), "--on", engine]) for path in paths)
            yield f"compare each model alone: {spell(f'diff(model, on={engine!r})', commands)}"
