"""Search for the smallest part of a model that fails, by cutting the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sliceport.engines.engine import Array
from sliceport.engines.failure import Failure
from sliceport.engines.side import BudgetSpent, RunFailed
from sliceport.sandbox import progress
from sliceport.search.case import Case, Subject, compute, make_case, select_arrays
from sliceport.search.graph import Body, Graph, find_ancestors, find_boundary, find_frontier, find_predecessors
from sliceport.verdict.difference import OutputDiff, Tolerances, compare_values
from sliceport.wording import count_of

_WORDS = re.compile(r"'([^']+)'|([^\s'\"(),;]+)")
"""Words of a message that may be names, in quotes or not."""
_MAX_NAMED = 3
"""At most this many of the nodes that a message names are tried."""
_MAX_STEPS = 3
"""The largest number of steps back from a node to the nodes that are tried together with it."""
_MAX_PIECES = 4
"""The largest number of pieces that a case is divided into, if `Search._is_decided_by_rounding`."""
RANDOM_NOTE = "this node draws random numbers: given equal numbers, no other node is found to differ"


class Search:
    """A search for the smallest case of a failure.

    Args:
        subject: The model and the engines.
        failure: The failure of the whole model.
        tolerances: The accepted differences. That of the output that fails is for all values that lead to it.

    Attributes:
        best: The smallest case so far that fails like the model; before the first, a case without nodes.
    """

    def __init__(self, subject: Subject, failure: Failure, tolerances: Tolerances) -> None:
        self._graph, self._bad, self._good, self._inputs = graph, _, _, inputs = subject
        self._failure, self._tolerances = failure, tolerances.narrow(failure.output)
        self._targets = list(graph.outputs) if failure.is_of_run else [failure.output]
        self._path = find_ancestors(graph, self._targets, inputs)  # the nodes that compute the targets, depth-first
        # A difference of any other value is not the failure that is searched.
        self._relevant = {name for i in self._path for name in graph.nodes[i].writes}
        self._suspects: Sequence[int] = ()  # the nodes that may be the first one that fails
        self._note = ""  # the note of the best case
        self.best = Case(graph, (), (), {}, {})

    def run(self) -> Case | None:
        """Return the smallest part of the model that fails like the model. Return None if no part was found.

        Raises:
            BudgetSpent: The time limit is reached before a case is found.
            MissingExtra, UsageError, ChildLost: See `Side.run`.
        """
        try:
            # The message of a failed run may name the node at fault.
            named = find_named(self._graph, self._failure)[:_MAX_NAMED] if self._failure.is_of_run else []
            if any(self._try_predecessors(i, self._inputs) for i in named) or self._bisect_path():
                self._reduce()
                for refine in (self._test_alone, self._check_fusion, self._enter_body, self._fix_shapes):
                    self.best = refine(self.best)
        except BudgetSpent as spent:
            if not self.best.numbers:
                raise
            note = f"{spent}: the case may not be the smallest"
            suspects = tuple(self._graph.nodes[i] for i in self._suspects)
            self.best = replace(self.best, note="; ".join(filter(None, (self.best.note, note))), suspects=suspects)
        return self.best if self.best.numbers else None

    def fails(self, case: Case) -> bool:
        """Return whether a case fails like the model."""
        return self._failure_of(case) is not None

    def find_failing(self, outputs: Sequence[str], tolerances: Tolerances) -> list[str]:
        """Return the outputs that differ. Return all if the engine `bad` fails, or if `inputs` lacks a needed value.

        Return no outputs if `good` fails, or if the whole model fails to run on `bad` but the part for `outputs` runs.
        """
        case = make_case(self._graph, find_ancestors(self._graph, outputs, self._inputs), outputs, self._inputs)
        result = None if case is None else self._compare(case, tolerances)
        if result is None or isinstance(result, Failure):
            return list(outputs)
        return [each.name for each in result if each.kind]

    def _bisect_path(self) -> bool:
        """Bisect `_path` for the shortest prefix that fails, and make it the best case. Return whether there is one."""
        is_failing = self._try_part(self._path, self._inputs)
        if self._failure.is_of_run and not is_failing:  # perhaps no output needs the node that fails: search all nodes
            self._path = list(range(len(self._graph.nodes)))
            self._targets = [name for node in self._graph.nodes for name in node.writes]
            is_failing = self._try_part(self._path, self._inputs)
        is_failing = is_failing or self._try_all_outputs()
        least, size = 1, len(self._path)
        while is_failing and least < size:  # a prefix is expected to fail if a shorter prefix fails
            self._suspects = self._path[least - 1 : size]
            middle = (least + size) // 2
            if self._try_part(self._path[:middle], self._inputs):
                size = middle
            else:
                least = middle + 1
        self._suspects = ()
        return is_failing

    def _try_all_outputs(self) -> bool:
        """Test all outputs of the model, because nodes that the targets do not need may take part in the failure."""
        graph = self._graph
        if not self._path:  # an input or a constant is the output
            return False
        self._targets = list(graph.outputs)
        self._path = find_ancestors(graph, self._targets, self._inputs)
        if self._inputs.keys() != set(graph.inputs):
            return self._try_part(self._path, self._inputs)
        # The whole model is known to fail.
        numbers, inputs = tuple(range(len(graph.nodes))), {name: self._inputs[name] for name in graph.inputs}
        self.best = Case(graph, numbers, tuple(graph.outputs), inputs, {}, self._failure)
        return True

    def _try_predecessors(self, number: int, known: Mapping[str, Array]) -> bool:
        """Test a node alone, then with more and more nodes before it. Return whether a case fails like the model.

        Each case has the outputs of the node.
        """
        groups = (frozenset(find_predecessors(self._graph, number, steps)) for steps in range(_MAX_STEPS + 1))
        outputs = self._graph.nodes[number].writes
        return any(self._try_part(sorted(numbers), known, outputs) for numbers in dict.fromkeys(groups))

    def _reduce(self) -> None:
        """Shrink the best case. The engine `good` computes the values of removed nodes.

        If an output differs, first remove the other outputs. If the run fails, first try the last node with a few nodes
        before it. In both cases, then try to remove each half of the nodes, each quarter, and so on. If rounding
        decides, stop after the quarters.
        """
        if self.best.failure.is_of_run:
            if len(self.best.numbers) > _MAX_STEPS:  # a smaller case is reduced below in few runs
                self._try_predecessors(self.best.numbers[-1], self.best.values)
        elif self._targets == [self._failure.output]:
            self._reduce_to_one_output()
        else:
            self._shrink(_list_right_outputs, self._remove_outputs, len(self.best.outputs))
        # If rounding decides, the errors of many nodes add up, so that removing small pieces would not succeed.
        self._shrink(lambda best: best.numbers, self._remove, _MAX_PIECES if self._note else len(self.best.numbers))

    def _reduce_to_one_output(self) -> None:
        """Try the node that differs with a few nodes before it, then its output alone. Note if rounding decides."""
        node = next(i for i in self.best.numbers if self.best.failure.output in self._graph.nodes[i].writes)
        needs_few_nodes = self._try_predecessors(node, self.best.values)
        if len(self.best.outputs) > 1:  # the failing output alone, unless the failure needs the other outputs
            self._try_part(self.best.numbers, self.best.values, [self.best.failure.output])
        ancestors = set(find_ancestors(self._graph, self.best.outputs))
        numbers = [i for i in self.best.numbers if i in ancestors]
        if not needs_few_nodes and len(numbers) < len(self.best.numbers):
            self._try_part(numbers, self.best.values, self.best.outputs)
        if not needs_few_nodes and self._is_decided_by_rounding(self.best, node):
            self._note = (
                f"rounding decides: the inputs of {self._graph.nodes[node]} on {self._bad.engine.name} are right "
                f"within the tolerance, and {self._good.engine.name} computes the same output from them"
            )
            self.best = replace(self.best, note=self._note, is_rounding=True)

    def _shrink(
        self, list_items: Callable[[Case], Sequence[Any]], remove: Callable[..., bool], most_pieces: int
    ) -> None:
        """Call `remove` for each half of the items of the best case, for each quarter, and so on."""
        items = list_items(self.best)
        size = (len(items) + 1) // 2
        while size and len(items) // size <= most_pieces:
            start, count_before = 0, len(items)
            while start < len(items):
                progress.say(f"reducing the model: {len(self.best.numbers)} nodes left")
                if not remove(items[start : start + size]):
                    start += size
                items = list_items(self.best)
            size = size if len(items) < count_before else size // 2  # the same size after a success

    def _is_decided_by_rounding(self, best: Case, number: int) -> bool:
        """Return whether rounding before node `number` explains the wrong value that the node computes on `bad`.

        It does if the inputs that `bad` computes for the node are right within the tolerance, and `good` computes the
        same wrong value from these inputs.
        """
        output, names = best.failure.output, find_boundary(self._graph, [number]) - best.values.keys()
        case = replace(best, outputs=tuple(dict.fromkeys([*best.outputs, *sorted(names)])))
        actual, expected = case.run(self._bad), case.run(self._good)
        if isinstance(actual, Failure) or isinstance(expected, Failure):
            return False
        outputs = case.compare(actual, expected, self._tolerances.of_inner)
        # Rounding does not decide if an input of the node is wrong, too. Nor does it if the output is right now: then a
        # fusion is to blame, which does not happen in this run, because the inputs of the node are outputs.
        if [each.name for each in outputs if each.kind] != [output]:
            return False
        inputs = {name: value for name, value in select_arrays(actual).items() if name in names}
        repeated = compute(self._graph, self._good, best.values | inputs, [output]) or {}
        tolerance = self._tolerances.of_inner(output, expected[output])
        return output in repeated and not compare_values(output, actual[output], repeated[output], tolerance).kind

    def _remove_outputs(self, removed: Sequence[str]) -> bool:
        """Remove outputs from the best case, and the nodes that they alone need, if the case still fails."""
        outputs = [name for name in self.best.outputs if name not in removed]
        ancestors = set(find_ancestors(self._graph, outputs, self.best.values))
        return self._try_part([i for i in self.best.numbers if i in ancestors], self.best.values, outputs)

    def _remove(self, removed: Sequence[int]) -> bool:
        """Remove nodes from the best case if it still fails without them, and return whether it does."""
        best = self.best
        remaining = [i for i in best.numbers if i not in removed]
        written = {name for i in remaining for name in self._graph.nodes[i].writes}
        # If the only output differs, the node that writes it must remain: no shorter prefix was found to fail. If a run
        # fails, any nodes may remain, because the node at fault may be one that no output needs.
        is_end = not best.failure.is_of_run and not written.issuperset(best.outputs)
        if not remaining or (is_end and len(best.outputs) == 1):
            return False
        # The case gets no new outputs, because these may make the failure vanish, except in place of outputs of the
        # removed nodes. Only if none of its outputs remains, `_try_part` chooses outputs.
        outputs = [name for name in best.outputs if name in written]
        if is_end:
            read = dict.fromkeys(name for i in removed for name in self._graph.nodes[i].reads)
            outputs += [name for name in read if name in written and name not in outputs]
        return self._try_part(remaining, best.values, outputs or None)

    def _test_alone(self, best: Case) -> Case:
        """Test each node of the best case alone, until one fails. Return `best` if none fails, or if `best` runs.

        The node may fail in another way than the best case. If the message of the best case names the node, return the
        case of the node, and let the next steps search for its failure. Otherwise return `best`, with `alone` set.
        """
        if len(best.numbers) == 1 or not best.failure.is_of_run:
            return best
        named = find_named(self._graph, best.failure)
        for i in sorted(best.numbers, key=lambda i: i not in named):  # the named nodes come first
            values = compute(self._graph, self._good, best.values, find_boundary(self._graph, [i])) or {}
            case = make_case(self._graph, [i], self._graph.nodes[i].writes, values)
            result = None if case is None else case.run(self._bad)
            if case is not None and isinstance(result, Failure):
                others = ", ".join(str(self._graph.nodes[number]) for number in best.numbers if number != i)
                note = f"in the model, it fails together with other nodes ({others}: {best.failure.message})"
                alone = replace(case, failure=result, note=note)
                if i in named:
                    self._failure = result
                    return alone
                return replace(best, alone=alone, note=f"{case.culprit} also fails alone: {result.message}")
        return best

    def _check_fusion(self, best: Case) -> Case:
        """Return the case, with `is_fusion` set if the failure vanishes when all values of its nodes are outputs.

        These outputs prevent an engine from fusing the nodes.
        """
        if len(best.numbers) == 1 or self._note:  # one node is not a fusion, or the note blames rounding
            return best
        case = replace(best, outputs=tuple(name for node in best.nodes for name in node.writes))
        result = self._compare(case)
        is_right = not isinstance(result, Failure) and not any(each.kind for each in result)
        # If `bad` runs, and no values are compared, only a failure of the run has vanished.
        return replace(best, is_fusion=is_right and (bool(result) or self._failure.is_of_run))

    def _enter_body(self, best: Case) -> Case:
        """Return a smaller case from a body of a control flow node. Without a smaller case, return `best`.

        If a body runs alone although the engine names a node of it, `best` gets a note.
        """
        if len(best.numbers) != 1:
            return best
        notes: dict[str, None] = {}  # without the repetitions of later iterations

        def locate(body: Body) -> Case | None:
            failure = self._run_body_alone(body)
            if failure is not None:
                subject = Subject(body.graph, self._bad, self._good, {**body.inputs})
                return Search(subject, failure, self._tolerances).run()
            for node in (body.graph.nodes[i] for i in find_named(body.graph, best.failure)):
                notes[f"the engine's message names {node}, but the body that contains it runs alone"] = None
            return None

        bodies = self._graph.bodies(best.numbers[0], best.values, self._good.run)
        located = enter_body(best, ((body,) for body in bodies), locate)
        return located or replace(best, note="; ".join(filter(None, (best.note, *notes))))

    def _run_body_alone(self, body: Body) -> Failure | None:
        """Return the failure of a run of a body. Its message need not be that of the node, which is longer."""
        written = {name for node in body.graph.nodes for name in node.writes}
        outputs = [name for name in body.graph.outputs if name in written]
        whole = make_case(body.graph, range(len(body.graph.nodes)), outputs, body.inputs)
        return None if whole is None else self._failure_of(whole)

    def _fix_shapes(self, best: Case) -> Case:
        """Return the case with fixed sizes of inputs, unless it fails only with open sizes."""
        fixed = replace(best, has_fixed_shapes=True)
        return fixed if fixed.model == best.model or self.fails(fixed) else best

    def _try_part(
        self, numbers: Sequence[int], values: Mapping[str, Array], outputs: Sequence[str] | None = None
    ) -> bool:
        """Test some nodes. If they fail like the model, make them the best case and return True.

        The engine `good` computes the inputs of the nodes from `values`.
        """
        progress.say(f"looking for the smallest part at fault: testing {count_of(len(numbers), 'node')}")
        if outputs is None:  # by default, the values that the rest of the path reads, and the targets
            outputs = find_frontier(self._graph, set(numbers), self._path, self._targets)
        boundary = compute(self._graph, self._good, values, find_boundary(self._graph, numbers)) or {}
        case = make_case(self._graph, numbers, outputs, boundary) if numbers else None
        if case is None:
            return False
        result = self._compare(case)
        fixed = replace(case, has_fixed_shapes=True)
        # If the whole model runs, perhaps only the rest of it determines the sizes of the inputs of this part.
        if isinstance(result, Failure) and not self._failure.is_of_run and fixed.model != case.model:
            case, result = fixed, self._compare(fixed)
        failure = self._select_failure(case, result)
        if failure is not None:
            self.best = replace(case, failure=failure, note=self._note, is_rounding=bool(self._note))
        return failure is not None

    def _failure_of(self, case: Case) -> Failure | None:
        """Return the failure of a case, or None; see `_select_failure`."""
        return self._select_failure(case, self._compare(case))

    def _select_failure(self, case: Case, result: tuple[OutputDiff, ...] | Failure) -> Failure | None:
        """Return the failure in a result of a case if it is like that of the model, or in a body of its kind."""
        is_part = case.graph is self._graph
        if isinstance(result, Failure):
            is_alike = result.is_like(self._failure) if is_part else result.kind == self._failure.kind
            return result if is_alike else None
        # Any two differences of outputs count as alike, but another output of the model may differ for another reason.
        names = self._relevant if is_part else case.outputs
        return next((each.failure for each in result if each.failure is not None and each.name in names), None)

    def _compare(self, case: Case, tolerances: Tolerances | None = None) -> tuple[OutputDiff, ...] | Failure:
        """Compare the outputs that both engines return for a case, or return the failure of the engine `bad`.

        The result is empty if the engine `good` fails. It is also empty if the case runs, but the whole model does not,
        because then outputs do not matter. The default of `tolerances` is that of the search for every output.
        """
        actual = case.run(self._bad)
        if isinstance(actual, Failure):
            return actual
        expected = {} if self._failure.is_of_run else case.run(self._good)
        if isinstance(expected, Failure):
            return ()
        comparable = {name: value for name, value in expected.items() if name in actual}
        actual = {name: actual[name] for name in comparable}
        return case.compare(actual, comparable, (tolerances or self._tolerances).of_inner)


def _list_right_outputs(case: Case) -> list[str]:
    """Return the outputs of a case except the one that differs."""
    return [name for name in case.outputs if name != case.failure.output]


def find_named(graph: Graph, failure: Failure) -> list[int]:
    """Return the positions of the nodes that a failure's message names, or whose outputs the message names."""
    # One of the two groups of each match is empty. An empty word would match each node without a name.
    words = {word for pair in _WORDS.findall(failure.message) for word in pair if word}
    return [i for i, node in enumerate(graph.nodes) if not words.isdisjoint((node.name, *node.writes))]


def enter_body(node: Case, bodies: Iterable[tuple[Body, ...]], locate: Callable[..., Case | None]) -> Case | None:
    """Return the first part that `locate` finds in the runs of the bodies of a control flow node.

    Args:
        node: The node as a case.
        bodies: The runs in order, as the arguments of `locate`; of two models, the run that may be wrong is the last.
        locate: A function that searches a run. Its error RunFailed ends the search.
    """
    with suppress(RunFailed):  # the engine cannot run a body outside its node
        for runs in bodies:
            body = runs[-1]
            progress.say(f"running {body.title} of {node.culprit}")
            # Engines also load a branch that does not run, and may name its nodes.
            if not body.is_run and not (node.failure.is_of_run and find_named(body.graph, node.failure)):
                continue
            case = locate(*runs)
            if case is not None:
                return replace(case, scope=(f"{node.culprit}, {body.title}", *case.scope), holder=node.culprit)
    return None


def search_each(subject: Subject, failures: Sequence[Failure], tolerances: Tolerances) -> Iterator[Case | None]:
    """Search for each failure of a model, and yield its smallest case. See `Search` for the arguments.

    The case is None if no part of the model fails, or if the output is right once earlier parts compute right values.
    """
    subject = subject._replace(values={**subject.values})
    graph, _, good, right_values = subject
    failing_outputs = [failure.output for failure in failures]
    for i, failure in enumerate(failures, 1):
        case = _search(subject, failure, tolerances) if failure.output in failing_outputs else None
        yield case
        if case is not None and i < len(failures):  # some later outputs may be right once this part is right
            right_values |= compute(graph, good, right_values, case.main_node.writes) or {}
            outputs = [each.output for each in failures[i:] if each.output not in right_values]
            # Of `failure`, `find_failing` reads only `is_of_run`, which is the same for all of `failures`.
            failing_outputs = Search(subject, failure, tolerances).find_failing(outputs, tolerances)


def _search(subject: Subject, failure: Failure, tolerances: Tolerances) -> Case | None:
    """Search for a failure; see `Search`. If the case draws random numbers, search again, with numbers drawn by `good`.

    These numbers are added to the values of `subject`, so that both engines use them. If no part then fails, return the
    case that draws them, with a note.
    """
    case = Search(subject, failure, tolerances).run()
    # Other numbers do not explain a failed run, and cannot be given to a body. Suspects remain if the time is over.
    if case is None or case.failure.is_of_run or case.scope or case.suspects:
        return case
    graph, _, good, values = subject
    drawn = {name for node in case.nodes if node.is_random for name in node.writes} - values.keys()
    try:
        numbers = compute(graph, good, values, drawn) if drawn else None
        if numbers is None:
            return case
        values |= numbers
        return _search(subject, failure, tolerances) or replace(case, note=RANDOM_NOTE)
    except BudgetSpent as spent:
        return replace(case, note=f"{spent}: this node draws random numbers, and another node may differ")
