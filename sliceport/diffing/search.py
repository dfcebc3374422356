"""The search for the smallest part of a model that fails. It cuts models, as more outputs would disable fusions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sliceport import progress
from sliceport.diffing.difference import EXACT, Failure, Tolerance, compare_values, narrow_tolerance_of
from sliceport.diffing.graph import Graph, GraphNode
from sliceport.diffing.side import BudgetSpent, RunFailed, Side
from sliceport.engines.engine import WholeModel

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A part of a model that fails.

    Attributes:
        graph: The graph that it is cut from: the main graph, or one run of a body.
        numbers: The numbers of its nodes in the graph, in order.
        outputs: The names of its outputs.
        inputs: The values that it reads, from the good side.
        constants: More of these values, which follow from shapes and constants alone; they are constants of the case.
        failure: The failure.
        scope: The nodes of control flow around it, each with the title of the body.
        holder: The outermost of these nodes; None for a case of the main graph.
        is_fusion: Whether the failure is gone once the values between the nodes are outputs.
        has_fixed_shapes: Whether its inputs have the sizes of the arrays, even if the model leaves them open.
        note: Why the case is not smaller, or an empty string.
    """

    graph: Graph
    numbers: tuple[int, ...]
    outputs: tuple[str, ...]
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array]
    failure: Failure
    scope: tuple[str, ...] = ()
    holder: GraphNode | None = None
    is_fusion: bool = False
    has_fixed_shapes: bool = False
    note: str = ""

    @property
    def nodes(self) -> tuple[GraphNode, ...]:
        """Its nodes, in order."""
        return tuple(self.graph.nodes[i] for i in self.numbers)

    @property
    def culprit(self) -> GraphNode:
        """The last of its nodes, whose values are the first that differ."""
        return self.nodes[-1]

    @property
    def given(self) -> dict[str, Array]:
        """All values that it reads."""
        return {**self.inputs, **self.constants}

    @property
    def model(self) -> WholeModel:
        """The case as a model."""
        return self.graph.cut(
            self.numbers, self.outputs, self.inputs, self.constants, has_fixed_shapes=self.has_fixed_shapes
        )


def find_static_values(graph: Graph) -> set[str]:
    """Return the values that follow from constants and shapes alone."""
    static: set[str] = set()
    for node in graph.nodes:
        if node.is_shape or static.issuperset(node.reads):
            static.update(node.writes)
    return static


def only_moves(graph: Graph, numbers: Collection[int], output: str) -> bool:
    """Return whether all of these nodes that an output is computed from only move elements."""
    inside = set(numbers)
    return all(graph.nodes[i].moves for i in find_ancestors(graph, [output]) if i in inside)


def find_ancestors(graph: Graph, outputs: Collection[str]) -> list[int]:
    """Return the nodes that outputs are computed from. Each follows what it reads, and related ones are neighbours."""
    makers = {name: i for i, node in enumerate(graph.nodes) for name in node.writes}
    done: dict[int, None] = {}
    waiting = [makers[name] for name in reversed(list(outputs)) if name in makers]
    while waiting:
        reads = [makers[name] for name in graph.nodes[waiting[-1]].reads if name in makers]
        missing = [i for i in dict.fromkeys(reads) if i not in done]
        if missing:
            waiting += reversed(missing)
        else:
            done[waiting.pop()] = None
    return list(done)


def make_case(
    graph: Graph,
    numbers: Collection[int],
    outputs: Sequence[str],
    given: Mapping[str, Array],
    failure: Failure,
    static: Collection[str],
) -> Case:
    """Return a part of a model as a case; of the given values, those in `static` become constants."""
    inputs = {name: array for name, array in given.items() if name not in static}
    constants = {name: array for name, array in given.items() if name in static}
    return Case(graph, tuple(sorted(numbers)), tuple(outputs), inputs, constants, failure)


class Search:
    """A search for the smallest case of a failure.

    Args:
        graph: The model.
        bad: The side that is searched.
        good: The side that computes expected values, and the inputs of cases.
        inputs: The inputs of the model.
        failure: The failure of the whole model.
        tolerance: The accepted difference of computed values; None for the default of their type.

    Attributes:
        best: The smallest case so far; None before the first.
    """

    def __init__(
        self,
        graph: Graph,
        bad: Side,
        good: Side,
        inputs: Mapping[str, Array],
        failure: Failure,
        tolerance: Tolerance | None = None,
    ) -> None:
        self._graph, self._bad, self._good, self._inputs = graph, bad, good, inputs
        self._failure, self._tolerance = failure, tolerance
        self._targets = list(graph.outputs) if failure.is_of_run else [failure.output]
        self._path = find_ancestors(graph, self._targets)
        self._static = find_static_values(graph)
        self.best: Case | None = None

    def run(self) -> Case | None:
        """Return the smallest case; None if no part of the model fails like the model."""
        try:
            if self._find_window():
                self._reduce()
                self._name_refused()
                self._name_fusion()
                self._enter_body()
                self._fix_shapes()
        except BudgetSpent as spent:
            if self.best is not None:
                self.best = replace(self.best, note=f"{spent}: the case may not be the smallest")
        return self.best

    def _find_window(self) -> bool:
        """Find the first node with which the model up to there fails, and the last one from which it does."""
        path = self._path
        if self._failure.is_of_run and not self._test(path, self._inputs):  # a node that no output needs may fail
            path = self._path = list(range(len(self._graph.nodes)))
            self._targets = [name for node in self._graph.nodes for name in node.writes]
        high = self._bisect(len(path), lambda size: self._test(path[:size], self._inputs))
        if self.best is None:
            return False
        low, given = 0, dict(self._inputs)
        least, most = 1, high - 1
        while least <= most:
            middle = (least + most) // 2
            progress.say(f"looking for the first node that differs: {high - low} nodes left")
            rest = path[middle:high]
            computed = self._compute(path[low:middle], given, self._boundary(rest))
            if computed is not None and self._test(rest, computed):
                low, given, least = middle, computed, middle + 1
            else:
                most = middle - 1
        return True

    def _bisect(self, size: int, fails: Any) -> int:
        """Return the least size that fails, if all greater ones fail, too."""
        if not size or not fails(size):
            return size
        least = 1
        while least < size:
            middle = (least + size) // 2
            progress.say(f"looking for the first node that differs: {size} nodes left")
            if fails(middle):
                size = middle
            else:
                least = middle + 1
        return size

    def _reduce(self) -> None:
        """Remove nodes whose values the good side can compute instead, many at a time, then fewer."""
        assert self.best is not None
        if not self.best.failure.is_of_run:
            # Keep one output only, with the nodes that it needs.
            outputs = [self.best.failure.output]
            ancestors = set(find_ancestors(self._graph, outputs))
            self._test([i for i in self.best.numbers if i in ancestors], self.best.given, outputs)
        size = (len(self.best.numbers) + 1) // 2
        while size and len(self.best.numbers) > 1:
            at, count = 0, len(self.best.numbers)
            while at < len(self.best.numbers):
                progress.say(f"reducing the model: {len(self.best.numbers)} nodes left")
                at = at if self._remove(self.best.numbers[at : at + size]) else at + size
            size = size if len(self.best.numbers) < count else size // 2

    def _remove(self, removed: Sequence[int]) -> bool:
        best = self.best
        assert best is not None
        rest = [i for i in best.numbers if i not in removed]
        written = {name for i in rest for name in self._graph.nodes[i].writes}
        if not rest or not (best.failure.is_of_run or written.issuperset(best.outputs)):
            return False
        given = self._compute(best.numbers, best.given, self._boundary(rest))
        return given is not None and self._test(rest, given, None if best.failure.is_of_run else best.outputs)

    def _name_refused(self) -> None:
        """Choose the one of several nodes that the engine refuses alone, if with another message."""
        best = self.best
        assert best is not None
        if len(best.numbers) == 1 or not best.failure.is_of_run:
            return
        for i in best.numbers:
            given = self._compute(best.numbers, best.given, self._boundary([i]))
            case = None if given is None else self._cut([i], self._graph.nodes[i].writes, given)
            if case is None:
                continue
            try:
                self._bad.run(case.model, case.inputs)
            except RunFailed as failed:
                nodes = ", ".join(map(str, best.nodes))
                note = f"in the model it fails together with others ({nodes}: {best.failure.message})"
                self._failure = failed.failure
                self.best = replace(case, failure=failed.failure, note=note)
                return

    def _name_fusion(self) -> None:
        """Find out whether the failure is gone once the values between the nodes are outputs."""
        best = self.best
        assert best is not None
        if len(best.numbers) > 1:
            written = tuple(name for node in best.nodes for name in node.writes)
            self.best = replace(best, is_fusion=self._runs_right(replace(best, outputs=written)))

    def _enter_body(self) -> None:
        """Search a body of control flow, if one fails on the inputs that the good side hands to it."""
        best = self.best
        assert best is not None
        if len(best.numbers) != 1:
            return
        try:
            for body in self._graph.bodies(best.numbers[0], best.given, self._good.run):
                progress.say(f"running {body.title} of {best.culprit}")
                inner = Search(body.graph, self._bad, self._good, body.inputs, best.failure, self._tolerance)
                failure = inner.fail_as_whole()
                if failure is None:
                    continue
                deeper = Search(body.graph, self._bad, self._good, body.inputs, failure, self._tolerance).run()
                if deeper is not None:
                    scope = (f"{best.culprit}, {body.title}", *deeper.scope)
                    self.best = replace(deeper, scope=scope, holder=best.culprit)
                return
        except RunFailed:  # the good side runs the body only within its node
            return

    def _runs_right(self, case: Case) -> bool:
        """Return whether the bad side runs a case, and no output differs."""
        try:
            self._bad.run(case.model, case.inputs)
        except RunFailed:
            return False
        return self._failure_of(case) is None

    def fails(self, case: Case) -> bool:
        """Return whether a case fails."""
        return self._failure_of(case) is not None

    def fail_as_whole(self) -> Failure | None:
        """Return the failure of the whole graph if it is like the failure that is searched."""
        written = {name for node in self._graph.nodes for name in node.writes}
        outputs = [name for name in self._graph.outputs if name in written]
        case = self._cut(range(len(self._graph.nodes)), outputs, self._inputs)
        return None if case is None else self._failure_of(case)

    def _fix_shapes(self) -> None:
        """Give the inputs of the case the sizes of their arrays, unless it fails only with open ones."""
        assert self.best is not None
        fixed = replace(self.best, has_fixed_shapes=True)
        if self._failure_of(fixed) is not None:
            self.best = fixed

    def _test(self, numbers: Sequence[int], given: Mapping[str, Array], outputs: Sequence[str] | None = None) -> bool:
        """Return whether a part of the model fails like the model; if so, it becomes the best case."""
        case = self._cut(numbers, self._frontier(numbers) if outputs is None else outputs, given)
        failure = None if case is None else self._failure_of(case)
        if case is None or failure is None:
            return False
        case = replace(case, failure=failure)
        if len(case.outputs) > 1 and not failure.is_of_run:
            narrow = replace(case, outputs=(failure.output,))
            case = narrow if self._failure_of(narrow) else case
        self.best = case
        return True

    def _cut(self, numbers: Collection[int], outputs: Sequence[str], given: Mapping[str, Array]) -> Case | None:
        """Return a part of the model on given values; None if a value is missing."""
        reads = self._boundary(numbers)
        if not given.keys() >= reads:
            return None
        chosen = {name: given[name] for name in sorted(reads)}
        return make_case(self._graph, numbers, outputs, chosen, self._failure, self._static)

    def _failure_of(self, case: Case) -> Failure | None:
        """Return the failure of a part of the model if it is like that of the model."""
        model = case.model
        try:
            got = self._bad.run(model, case.inputs)
        except RunFailed as failed:
            return failed.failure if failed.failure.is_like(self._failure) else None
        if self._failure.is_of_run:
            return None
        try:
            expected = self._good.run(model, case.inputs)
        except RunFailed:
            return None
        for name in case.outputs:
            if name in got and name in expected:
                tolerance = self._tolerance or narrow_tolerance_of(expected[name])
                tolerance = EXACT if only_moves(case.graph, case.numbers, name) else tolerance
                failure = compare_values(name, got[name], expected[name], tolerance).failure
                if failure is not None:
                    return failure
        return None

    def _compute(
        self, numbers: Collection[int], given: Mapping[str, Array], names: Collection[str]
    ) -> dict[str, Array] | None:
        """Return values by name, computed by the good side where they are not given; None if that fails."""
        missing = sorted(set(names) - given.keys())
        values = {name: given[name] for name in names if name in given}
        if not missing:
            return values
        related = set(find_ancestors(self._graph, missing))
        case = self._cut([i for i in numbers if i in related], missing, given)
        if case is None:
            return None
        try:
            computed = self._good.run(case.model, case.inputs)
        except RunFailed:
            return None
        values |= {name: value for name, value in computed.items() if isinstance(value, np.ndarray)}
        return values if values.keys() >= set(names) else None

    def _boundary(self, numbers: Collection[int]) -> set[str]:
        """Return the values that nodes read from outside: no node of `numbers` writes them."""
        nodes = [self._graph.nodes[i] for i in numbers]
        return {name for node in nodes for name in node.reads} - {name for node in nodes for name in node.writes}

    def _frontier(self, numbers: Collection[int]) -> list[str]:
        """Return the values that nodes write for others on the path, or as outputs of the model."""
        inside = set(numbers)
        read = {name for i in self._path if i not in inside for name in self._graph.nodes[i].reads}
        read.update(self._targets)
        return [name for i in sorted(inside) for name in self._graph.nodes[i].writes if name in read]
