"""`diff`, which compares one model on two engines, or two models, and finds the first node that differs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, SupportsIndex

from sliceport import progress
from sliceport.arguments import is_path, read_inputs, read_seed
from sliceport.defects.defect import Defect
from sliceport.engines.engine import Array, NamesCause, Value
from sliceport.engines.failure import Failure
from sliceport.engines.inputs import FoundInputs, describe_failed_search, find_inputs, more_inputs
from sliceport.engines.kept_runs import open_kept_runs
from sliceport.engines.registry import model_engines
from sliceport.engines.side import Budget, BudgetSpent, Result, Side
from sliceport.engines.sizes import InputShapes, sizes_to_try
from sliceport.errors import ModelError, SliceportError, UsageError
from sliceport.search.case import Case, Located
from sliceport.search.graph import Graph, find_ancestors, find_static_values
from sliceport.search.matching import Matches
from sliceport.search.pair import Pair
from sliceport.search.refusals import find_other_refusals
from sliceport.search.report import DiffReport, Part
from sliceport.search.search import Search, search_each
from sliceport.search.setup import match_names, open_graph, read_engines, read_shapes, read_tolerances
from sliceport.shell import join
from sliceport.verdict.difference import (
    EXACT,
    OutputDiff,
    Tolerance,
    describe_missing,
    inner_tolerance_of,
    tolerance_of,
)
from sliceport.verdict.untested import excuse_nan, find_untested, mark_untested
from sliceport.verdict.verification import Verification
from sliceport.wording import spell

if TYPE_CHECKING:
    from sliceport.device import NodeRun

_SECONDS_TO_EXPLAIN = 60.0
"""Limit for the search for the node that decides a verification."""
_FEW = {True: 16, False: 1024}
"""The largest number of elements of an output that is compared on further inputs, for floats and for other elements."""
_RUNS_OF_FEW = 6
"""The number of these inputs, which are of ordinary magnitude: on others, engines round more."""
_MAX_CHOICES = 12
"""The number of choices of sizes to try if the engine under test does not run the model with the first one."""
_MATCHING_RUNS = 3
"""The number of sets of inputs to match values of two models. Values match if they agree on all of these sets."""
_SEED_STEP = 60
"""The distance of their seeds: seeds at this distance choose the same of up to 5 constants; see `DeclaredInput`."""


def diff(
    model: Any,
    other: Any = None,
    *,
    on: str | None = None,
    against: str | None = None,
    input_shapes: InputShapes | None = None,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    seeds: int = 1,
    open_sizes: int | str | None = None,
    tolerance: Tolerance | Mapping[str, Tolerance] | None = None,
    budget: float | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> DiffReport:
    """Run a model on two engines, or two models, and compare the outputs; find the first node that differs.

    Args:
        model: A file's path, an `onnx.ModelProto`, an `onnx_ir.Model` or an `openvino.Model`; it is not changed.
        other: A second model that should compute the same, such as the model after an optimizer.
        on: With one model, the engine to test, which is required. With two models, the engine of the first model, which
            computes the expected outputs. Options follow the name, as in `onnxruntime-cpu:level=basic`.
        against: With one model, the engine that computes the expected outputs, or a folder of recorded outputs. With
            two models, the engine of the second one. The default is onnxruntime's CPU provider without optimization for
            ONNX, and `Model.evaluate` for OpenVINO. For two models of one format, the default is the engine `on`.
        input_shapes: Sizes for inputs whose shape the model leaves open, by name. Other open sizes are chosen.
        inputs: Arrays for inputs, by name; all other inputs get random arrays.
        seed: The seed of the first random inputs.
        seeds: The number of sets of random inputs to try. `diff` stops at the first set on which outputs differ.
        open_sizes: The size of all axes that the model leaves open; "primes" for distinct primes.
        tolerance: The accepted difference of computed outputs. A mapping has a tolerance for each named output, and one
            under an empty name for all other outputs. None stands for the default of each element type. An output
            whose elements are only moved must be equal.
        budget: Seconds for the comparison and the search; None for no limit.
        resume: A folder that keeps the results of runs, so that a later call with the same folder continues this call.

    Raises:
        UsageError: An option does not fit, `diff` cannot cut models of a format, the two models have different inputs
            or outputs, a recorded value cannot be read, or the folder of `resume` cannot be made.
        ModelError: A model cannot be read, neither engine runs its model, or the only model runs on `on` alone.
        MissingExtra: A package is not installed.
        BudgetSpent: The budget ends before the outputs are compared.
        ChildLost: The machine ended the process of a run, or did not start it.
    """
    if not isinstance(seeds, SupportsIndex) or seeds < 1:
        raise UsageError(f"{spell('seeds', '--seeds')} must be an integer from 1 up, got {seeds!r}.")
    search_budget = Budget(budget)
    first = open_graph(model)
    second = first if other is None else open_graph(other)
    arrays = read_inputs(inputs)
    # The name of an engine has priority over a folder of the same name.
    is_engine = (against or "").partition(":")[0] in model_engines()
    recorded = FilePath(against) if against and not is_engine and os.path.isdir(against) else None
    if recorded and (input_shapes or open_sizes is not None or inputs or seed or seeds > 1):
        options = spell("input_shapes, open_sizes, inputs, seed or seeds", "--input-shapes, --input, --seed or --seeds")
        raise UsageError(f"the inputs are those recorded in '{recorded}'; give no {options}.")
    shapes = {} if recorded else read_shapes(model, arrays, input_shapes, open_sizes)
    sides = read_engines(first, second, on, against, is_recorded=recorded is not None)
    kept_runs = None if resume is None else open_kept_runs(resume)
    # `sides` are the engines `on` and `against`. With one model, `against` is right by definition. With two models, the
    # first model is right by definition, and it runs on `on`.
    good_and_bad = sides if other is not None else sides[::-1]
    good, bad = (replace(side, budget=search_budget, kept_runs=kept_runs) for side in good_and_bad)
    tolerances = read_tolerances(second, tolerance)
    comparison = _Comparison(first, second, good, bad, match_names(first, second), tolerances, (model, other))
    if recorded is not None:
        return comparison.run_recorded(recorded)
    return comparison.run(arrays, shapes, range(read_seed(seed), seed + seeds))


def name_deciding_node(verification: Verification, first: Graph, second: Graph, reference: Side) -> Verification:
    """Return a verification that failed, with a note on the first node of the changed model that decides, if found.

    Args:
        verification: The verification.
        first: The original model.
        second: The changed model.
        reference: The engine that computed the expected outputs of the original model.
    """
    if verification.failed_on is None:
        return verification
    side, run = verification.failed_on
    good, bad = (replace(each, budget=Budget(_SECONDS_TO_EXPLAIN)) for each in (reference, side))
    tolerances = {"": EXACT if side == reference else None}
    try:
        names = match_names(first, second)
        report = _Comparison(first, second, good, bad, names, tolerances, (None, None)).run(run.inputs, {}, [0])
    except SliceportError:  # no explanation is better than the loss of the verification
        return verification
    if report.part is None:
        return verification
    note = f"the first node that decides: {report.part.case.culprit_text} of the changed model"
    return replace(verification, notes=(*verification.notes, note))


@dataclass(frozen=True)
class _Run:
    """The runs of both engines on one set of inputs.

    Attributes:
        inputs: The inputs, by their names in the first model.
        actual: The outputs to test, by their names in the second model, or the failure of the run.
        expected: The expected outputs, by the same names, or the failure of the run.
        more_inputs: Inputs from other seeds, to match values of two models.
    """

    inputs: Mapping[str, Array]
    actual: Result
    expected: Result
    more_inputs: Sequence[Mapping[str, Array]] = ()


@dataclass(frozen=True)
class _Comparison:
    """A comparison of two models, or of one model on two engines.

    Attributes:
        first: The model that computes the expected outputs.
        second: The model to test; for one model, the same object as `first`.
        good: The engine that runs `first`.
        bad: The engine that runs `second`.
        names: For each input and output of the second model, its name in the first.
        tolerances: The accepted differences by output, and under an empty name for all other outputs; see `diff`.
        models: Both models as the caller gave them.
        places: The nodes of the last run of `second` with their providers, if `bad` tells.
    """

    first: Graph
    second: Graph
    good: Side
    bad: Side
    names: Mapping[str, str]
    tolerances: Mapping[str, Tolerance | None]
    models: tuple[Any, Any]
    places: list[NodeRun] = field(default_factory=list)

    def run(self, arrays: Mapping[str, Array], shapes: InputShapes, seeds: Sequence[int]) -> DiffReport:
        """Compare the outputs for each seed until they differ, and search for the cause. Return the last report.

        Outputs that show nothing are compared on further inputs.
        """
        expected: list[Mapping[str, Value]] = []
        chosen: InputShapes = {}
        notes: list[str] = []
        for seed in seeds:
            run, found = self._run_both(arrays, {**shapes, **chosen}, seed)
            chosen = chosen or found.sizes.chosen
            self._check_reference(run)
            if self.first is self.second and found.sizes.chosen and isinstance(run.actual, Failure):
                run, chosen, note = self._try_other_sizes(run, chosen, arrays, shapes, seed)
                notes += filter(None, [note])
            report = replace(self._compare(run, seed), input_shapes=chosen, notes=tuple(notes))
            if not report.is_equal:
                return self._explain(report, run)
            assert not isinstance(run.expected, Failure)
            expected.append(run.expected)
        others = more_inputs(self.first, {**found.sizes.shapes, **chosen}, arrays, seed, found.attempt)
        return self._test_more(report, run, expected, others)

    def _test_more(
        self,
        report: DiffReport,
        run: _Run,
        expected: list[Mapping[str, Value]],
        others: Iterator[dict[str, Array]],
    ) -> DiffReport:
        """Compare the outputs that show nothing on other inputs, too, until each shows something.

        Args:
            report: The report on the last of the runs so far, whose outputs are equal or close.
            run: The run of that report.
            expected: The expected outputs of all runs so far.
            others: Other inputs.
        """
        fixed = find_static_values(self.second)
        # Few elements, such as a saturated probability or the index of a class, tell little in one run.
        has_few = any(prod(each.shape) <= _FEW["float" in each.element] for each in report.outputs)
        every = list(expected)  # also the expected outputs of inputs on which the second model did not run
        for number, inputs in enumerate(others):
            has_few = has_few and number < _RUNS_OF_FEW
            untested = find_untested(every, fixed)
            pending = {each.name for each in report.outputs if each.status == "untested"}
            if len(every) > len(expected) and not untested and not pending and not has_few:
                break
            result = self._run_first(inputs)
            if isinstance(result, Failure):
                continue
            every.append(result)
            told = find_untested(expected, fixed).keys() - find_untested([*expected, result], fixed).keys()
            if told or pending or has_few:
                other = replace(run, inputs=inputs, actual=self._run_second(inputs), expected=result)
                other_report = self._compare(other, report.seed)
                if not other_report.is_equal:
                    return self._explain(other_report, other)
                expected.append(result)
                better = {each.name: each for each in other_report.outputs if each.name in pending | told}
                report = replace(report, outputs=tuple(better.get(each.name, each) for each in report.outputs))
        outputs = mark_untested(report.outputs, find_untested(every, fixed))
        return replace(report, outputs=outputs, runs=self.bad.budget.runs)

    def run_recorded(self, folder: FilePath) -> DiffReport:
        """Compare the outputs for each recorded data set in a folder until they differ, and search for the cause.

        An output is tested if it shows something in one of the data sets, or in all of them together.
        """
        fixed = find_static_values(self.second)
        every: list[Mapping[str, Value]] = []
        tested: dict[str, OutputDiff] = {}
        for data_set in sorted(folder.glob("test_data_set_*")) or [folder]:  # a folder without data sets is one itself
            inputs, recorded = (
                {name: self.first.read_value(data_set / f"{kind}_{i}", name) for i, name in enumerate(names)}
                for kind, names in (("input", self.first.inputs), ("output", self.first.outputs))
            )
            expected = {name: recorded[self.names[name]] for name in self.second.outputs}
            run = _Run(inputs, self._run_second(inputs), expected)
            report = replace(self._compare(run), against=f"the recorded outputs in '{folder}'")
            marked = mark_untested(report.outputs, find_untested([expected], fixed))
            if not report.is_equal:
                report = replace(report, outputs=marked)
                # A search takes the values within the model from `good`, so `good` must compute the recorded outputs.
                computed = self._run_first(inputs)
                if self._compare(replace(run, actual=computed)).is_equal:
                    return self._explain(report, replace(run, expected=computed))
                note = f"there is no search for a node, because {self.good} does not compute the recorded outputs"
                return replace(report, notes=(note,), runs=self.bad.budget.runs)
            every.append(expected)
            tested |= {each.name: each for each in marked if each.status != "untested"}
        outputs = mark_untested(report.outputs, find_untested(every, fixed))
        return replace(report, outputs=tuple(tested.get(each.name, each) for each in outputs))

    def _run_both(self, arrays: Mapping[str, Array], shapes: InputShapes, seed: int) -> tuple[_Run, FoundInputs]:
        """Run both engines on the caller's `arrays`, and on random arrays for the other inputs; see `find_inputs`.

        Return the runs, and the choice of their inputs.

        Raises:
            ModelError: Neither engine runs its model.
        """
        progress.say(f"running the model on {self.good}")
        found = find_inputs(self.first, self.good, shapes, arrays, seed)
        is_pair = self.first is not self.second
        seeds = range(seed + _SEED_STEP, seed + _MATCHING_RUNS * _SEED_STEP, _SEED_STEP) if is_pair else ()
        more = [self.first.make_inputs(arrays, found.sizes.shapes, each, found.attempt) for each in seeds]
        expected = self._rename_outputs(found.result)
        run = _Run(found.arrays, self._run_second(found.arrays), expected, more)
        if isinstance(run.actual, Failure) and isinstance(run.expected, Failure):
            title = "the first model" if is_pair else "the model"
            reason = describe_failed_search(self.good, found, arrays, title)
            problem = "neither model runs: the second one" if is_pair else "neither engine runs the model:"
            raise ModelError(f"{problem} on {self.bad}, {run.actual.message}; {reason}")
        return run, found

    def _try_other_sizes(
        self, run: _Run, chosen: InputShapes, arrays: Mapping[str, Array], shapes: InputShapes, seed: int
    ) -> tuple[_Run, InputShapes, str]:
        """Try other sizes than the `chosen` ones of a run in which the engine under test fails, until both engines run.

        Return the run, its chosen sizes and a note on the failure. Return the given run and sizes if no others serve.
        """
        assert isinstance(run.actual, Failure)
        choices = sizes_to_try(self.first.declared_shapes, shapes, self.first.size_factors)
        for sizes in sorted(choices, key=lambda each: sum(map(prod, each.shapes.values())))[:_MAX_CHOICES]:
            with suppress(ModelError, UsageError):
                other, _ = self._run_both(arrays, sizes.shapes, seed)
                if not isinstance(other.actual, Failure) and not isinstance(other.expected, Failure):
                    failed, used = (
                        "; ".join(f"{name} {list(shape)}" for name, shape in each.items())
                        for each in (chosen, sizes.chosen)
                    )
                    reason = f"{self.bad} does not run the model ({run.actual.message})"
                    return other, sizes.chosen, f"with {failed}, {reason}; compared with {used}"
        return run, chosen, ""

    def _check_reference(self, run: _Run) -> None:
        """Raise ModelError if the only model runs on the engine under test alone: then the model is not at fault."""
        if self.first is not self.second or not isinstance(run.expected, Failure):
            return
        used = (self.good.engine.name, self.bad.engine.name)
        others = [name for name, each in model_engines().items() if self.first.format in each.model_formats]
        choices = [self.first.default_against, *(name for name in others if name not in used)]
        choices = [choice for choice in choices if choice and choice not in (str(self.good), str(self.bad))]
        raise ModelError(
            f"nothing can be compared, because {self.good.title}, which computes the expected outputs, does not run "
            f"the model: {run.expected.message}; choose another engine with {spell('against', '--against')}: "
            f"{', '.join(choices)}."
        )

    def _run_first(self, inputs: Mapping[str, Array]) -> Result:
        """Run the first model. Return its outputs by their names in the second model, or the failure of the run."""
        return self._rename_outputs(self._run_side(self.good, self.first, inputs))

    def _rename_outputs(self, outputs: Result) -> Result:
        """Return outputs of the first model by their names in the second model. Return a failure as it is."""
        if isinstance(outputs, Failure):
            return outputs
        # Engines leave out outputs of types that they cannot return.
        return {name: outputs[self.names[name]] for name in self.second.outputs if self.names[name] in outputs}

    def _run_second(self, inputs: Mapping[str, Array]) -> Result:
        self.places.clear()
        inputs = {name: inputs[self.names[name]] for name in self.second.inputs}
        return self._run_side(self.bad, self.second, inputs, self.places)

    def _run_side(
        self, side: Side, graph: Graph, inputs: Mapping[str, Array], places: list[NodeRun] | None = None
    ) -> Result:
        progress.say(f"running the model on {side}")
        return side.try_run(graph.whole(), inputs, places)

    def _tolerance_for(self, output: str) -> Tolerance | None:
        return self.tolerances.get(output, self.tolerances.get(""))

    def _compare(self, run: _Run, seed: int = 0) -> DiffReport:
        """Return a report on the outputs of a run. The report has no results of a search yet."""
        is_pair = self.first is not self.second
        # `on` and `against` are the engines of the arguments of `diff`. With one model, `on` is the engine under test,
        # so it is `bad`. With two, `on` runs the first model, so it is `good`.
        on, against = (self.good, self.bad) if is_pair else (self.bad, self.good)
        report = DiffReport(on.title, against.title, (), seed, runs=self.bad.budget.runs)
        for side, result, ordinal in ((self.bad, run.actual, "second"), (self.good, run.expected, "first")):
            if isinstance(result, Failure):
                model = f"{ordinal} model" if is_pair else "model"
                return replace(report, failed=side.title, failed_model=model, failures=(result,))
        assert not isinstance(run.actual, Failure)
        assert not isinstance(run.expected, Failure)
        # `Case.compare` requires equal outputs if nodes only move elements, so the whole model is compared as a case.
        whole = Case(self.second, tuple(range(len(self.second.nodes))), (), {}, {})
        outputs = excuse_nan(whole.compare(run.actual, run.expected, self._tolerance_for, tolerance_of), run.expected)
        failures = tuple(each.failure for each in outputs if each.failure is not None)
        return replace(report, outputs=outputs, failures=failures, values=run.actual, places=tuple(self.places))

    def _explain(self, report: DiffReport, run: _Run) -> DiffReport:
        """Return the report with the part of the model that causes each failure, and with notes on the search."""
        parts: list[Part] = []
        notes = [*report.notes]
        rounded: set[str] | None = None
        self.bad.budget.end_before_timeout()
        try:
            unsteady, failures = self._repeat(run, report.failures)
            if unsteady is not None:
                ending = "" if failures else ", so no node is searched for"
                notes.append(f"{unsteady} gives different results in two equal runs{ending}")
            if unsteady is None:
                rounded = self._search_in_declared_types(run, report, parts, notes)
            if rounded is None:
                self._find_parts(run, failures, parts, notes)
            if self.first is self.second and failures and failures[0].is_of_run:
                self._find_more_refusals(run, parts)
                notes += self._note_other_defects(run, parts)
        except BudgetSpent as error:
            notes.append(f"{error}, before a node was found{' for each output' if parts else ''}")
        report = replace(report, parts=tuple(parts), notes=tuple(notes), runs=self.bad.budget.runs)
        # `explained` is empty for a part that is the only one.
        by_rounding = [part.explained or [report.failures[0].output] for part in parts if part.case.is_rounding]
        rounded = (rounded or set()).union(*by_rounding)
        outputs = tuple(
            replace(each, status="rounding", kind="") if each.name in rounded else each for each in report.outputs
        )
        failures = tuple(failure for failure in report.failures if failure.output not in rounded)
        return replace(report, outputs=outputs, failures=failures)

    def _search_in_declared_types(
        self, run: _Run, report: DiffReport, parts: list[Part], notes: list[str]
    ) -> set[str] | None:
        """Search on engines that compute in the types that the model declares, unless their options say otherwise.

        If all outputs are right there, add a note instead of parts. Return the outputs that differ only in narrower
        types, or None if there was no such search.
        """
        exact = replace(self, good=self.good.in_declared_types(), bad=self.bad.in_declared_types())
        if exact == self:
            return None
        exact_run = replace(run, actual=exact._run_second(run.inputs), expected=exact._run_first(run.inputs))
        exact_report = exact._compare(exact_run)
        if bool(exact_report.failed) != bool(report.failed):  # what runs in one type need not run in another
            return None
        if not exact_report.is_equal:
            exact._find_parts(exact_run, exact_report.failures, parts, notes)
        else:
            old, new = next(pair for pair in ((self.bad, exact.bad), (self.good, exact.good)) if pair[0] != pair[1])
            default = f"a narrower type decides, in which {old} computes by default on this machine"
            notes.append(f"{default}: with {new}, all outputs are equal or close")
        return {each.output for each in report.failures} - {each.output for each in exact_report.failures}

    def _find_more_refusals(self, run: _Run, parts: list[Part]) -> None:
        """Add to `parts` the other nodes that the engine does not run, unless they run when they are repeated."""
        for case in find_other_refusals(self.second, self.bad, self.good, run.inputs, [part.case for part in parts]):
            located = Located(case)
            part = _build_part(located, self.bad, self.good, None)
            if isinstance(part.actual, Failure):
                parts.append(replace(part, defects=tuple(self._find_defects(run, located, self.bad, self.good))))

    def _note_other_defects(self, run: _Run, parts: Sequence[Part]) -> Iterator[str]:
        """Yield a sentence about the known defects of the model that a refusal may hide."""
        named = {defect for part in parts for defect in part.defects}
        shapes = {name: array.shape for name, array in run.inputs.items()}
        for defect in self.second.find_defects(self.second.nodes, shapes, self.bad.engine.name):
            if defect not in named:
                yield f"the model also has a known defect of {self.bad.engine.name}: {defect.id} ({defect.reason})"

    def _repeat(self, run: _Run, failures: Sequence[Failure]) -> tuple[Side | None, Sequence[Failure]]:
        """Run both engines again. Return the engine whose result differs, if any, and the failures that occur again."""
        # A kept result would always be the same, so these runs do not use the folder of kept results.
        bad, good = (replace(side, kept_runs=None) for side in (self.bad, self.good))
        repeats = replace(self, good=good, bad=bad)
        again = replace(run, actual=repeats._run_second(run.inputs), expected=repeats._run_first(run.inputs))
        for side, result, repeated in (
            (self.bad, run.actual, again.actual),
            (self.good, run.expected, again.expected),
        ):
            if isinstance(result, Failure):
                is_steady = isinstance(repeated, Failure) and repeated.is_like(result)
            else:
                is_steady = self._compare(replace(run, actual=repeated, expected=result)).is_equal
            if not is_steady:
                # Values that were never written differ in each run, but are always wrong.
                outputs = [failure.output for failure in self._compare(again).failures]
                return side, [failure for failure in failures if failure.output in outputs]
        return None, failures

    def _find_parts(self, run: _Run, failures: Sequence[Failure], parts: list[Part], notes: list[str]) -> None:
        """Add the part of each failure to `parts`. If no part is found, extend an earlier part or add a note."""
        # If the engine of the expected outputs fails, the part at fault is one that fails on this engine.
        sides = (self.good, self.bad) if isinstance(run.expected, Failure) else (self.bad, self.good)
        for failure, located in self._locate_each(run, failures, notes):
            if located is not None:
                defects = tuple(dict.fromkeys(self._find_defects(run, located, *sides)))
                part = replace(_build_part(located, *sides, self._tolerance_for(failure.output)), defects=defects)
                parts.append(replace(part, explained=(failure.output,) if len(failures) > 1 else ()))
                continue
            # The part that was found for an earlier output may also explain this output, if they share a node.
            ancestors = [self.second.nodes[i] for i in find_ancestors(self.second, [failure.output])]
            nodes = [(part.case.main_node, *part.case.nodes) for part in parts]
            explaining = [i for i, each in enumerate(nodes) if any(node in ancestors for node in each)]
            if explaining:
                part = parts[explaining[-1]]
                parts[explaining[-1]] = replace(part, explained=(*part.explained, failure.output))
            else:
                texts = ["no part of the model that was cut out fails like the whole", *self._advise()]
                notes += [text for text in texts if text not in notes]  # once for several outputs

    def _find_defects(self, run: _Run, located: Located, bad: Side, good: Side) -> Iterator[Defect]:
        """Yield the known defects that the nodes of a part have in their whole model."""
        first = self.first, {name: run.inputs[name].shape for name in self.first.inputs}
        second = self.second, {name: run.inputs[self.names[name]].shape for name in self.second.inputs}
        graph, shapes = first if isinstance(run.expected, Failure) else second
        yield from graph.find_defects(located.case.nodes, shapes, bad.engine.name)
        # If engines disagree about a node, the engine of the expected outputs may also cause the difference.
        defects = graph.find_defects(located.case.nodes, shapes, good.engine.name)
        yield from (defect for defect in defects if defect.is_contested)
        if located.counterpart is not None:  # an optimizer or a converter may have removed the node with the defect
            yield from self.first.find_defects(located.counterpart.nodes, first[1], bad.engine.name)

    def _locate_each(
        self, run: _Run, failures: Sequence[Failure], notes: list[str]
    ) -> Iterator[tuple[Failure, Located | None]]:
        """Yield each failure with the part that causes it, or with None. Add sentences about the search to `notes`.

        If no computed values of the two models match, yield nothing, unless a single node computes an output that
        differs.
        """
        if self.first is self.second or isinstance(run.expected, Failure):
            yield from self._locate_in_one_model(run, failures)
            return
        runs = [run.inputs, *run.more_inputs]
        pair = Pair(Matches(self.first, self.second, self.good, self.bad, self.names, runs))
        notes.append(pair.matches.note)
        if failures[0].is_of_run:
            cause = pair.find_failing_part(failures[0])
            # If the cause is several nodes that do not run, search the second model alone, which may find fewer nodes.
            # A cause with a note is kept: it fails in another way than the model, so that search would not find it.
            if cause is None or (len(cause.case.nodes) > 1 and cause.case.failure.is_of_run and not cause.case.note):
                for failure, located in self._locate_in_one_model(run, failures):
                    yield failure, located or cause
            else:
                yield failures[0], cause
        elif not pair.matches.has_computed and all(
            len(find_ancestors(self.second, [each.output])) > 1 for each in failures
        ):
            # Without matches, a part has all nodes that lead to its output. Such a part helps only if it is one node.
            notes.append("the models share no values that diff can match, so that only their outputs are compared")
        else:
            for failure in failures:
                yield failure, pair.find_next_part(failure.output, self._tolerance_for(failure.output))

    def _advise(self) -> Iterator[str]:
        """Yield a sentence with commands to compare each model alone, if both ran on the same, non-default engine."""
        # A default engine would be compared with itself. The text of a model object would hold all weights.
        engine, paths = str(self.bad), filter(is_path, self.models)
        if self.first is not self.second and engine == str(self.good) and engine != self.second.default_against:
            commands = "; ".join(join(["sliceport", "diff", str(path), "--on", engine]) for path in paths)
            yield f"compare each model alone: {spell(f'diff(model, on={engine!r})', commands)}"

    def _locate_in_one_model(self, run: _Run, failures: Sequence[Failure]) -> Iterator[tuple[Failure, Located | None]]:
        """Search the model that fails, or the only model. Yield each failure with the part that causes it, or None."""
        if isinstance(run.expected, Failure):  # the first model does not run, so its engine is the one to test
            graph, bad, good, inputs = self.first, self.good, self.bad, run.inputs
        else:
            graph, bad, good = self.second, self.bad, self.good
            inputs = {name: run.inputs[self.names[name]] for name in graph.inputs}
        return search_each(graph, bad, _choose_good(graph, bad, good), inputs, failures, self._tolerance_for)


def _choose_good(graph: Graph, bad: Side, good: Side) -> Side:
    """Return the engine that computes the values at cuts of a graph: `good` if it runs the format, otherwise `bad`.

    If `good` does not run it, the two models differ in format, and one of them failed to run. Then `bad` is enough to
    repeat the failure.
    """
    return good if graph.format in good.engine.model_formats else bad


def _build_part(located: Located, bad: Side, good: Side, tolerance: Tolerance | None) -> Part:
    """Run a failing part of a model, and return it with the results and perhaps the cause."""
    case, counterpart = located.case, located.counterpart
    good = good if located.expected is not None else _choose_good(case.graph, bad, good)
    # The runs below have no limit of time, because the search may have used up its budget.
    bad, good = (replace(side, budget=Budget()) for side in (bad, good))
    model, cause = case.model, ""
    actual = bad.try_run(model, case.inputs)
    expected: Result | None = located.expected
    if expected is None:  # a search in two matched models has the expected outputs, and looks for no cause
        expected = good.try_run(model, case.inputs)
        if isinstance(bad.engine, NamesCause):

            def fails(options: Mapping[str, str]) -> bool:
                other = replace(bad, options=options)
                return Search(case.graph, other, good, case.inputs, case.failure, tolerance).fails(case)

            cause = bad.engine.find_cause(bad.options, fails)
    outputs: tuple[OutputDiff, ...] = ()
    if isinstance(actual, Failure) and not isinstance(expected, Failure):
        outputs = describe_missing(expected, actual)
    elif not isinstance(actual, Failure) and not isinstance(expected, Failure):
        outputs = case.compare(actual, expected, lambda _: tolerance, inner_tolerance_of)
    counterpart_text = ""
    if counterpart is not None:
        counterpart_text = ", ".join(map(str, counterpart.nodes)) or "an input or a constant"
    return Part(case, bad, good, model, actual, expected, outputs, cause, counterpart=counterpart_text)
