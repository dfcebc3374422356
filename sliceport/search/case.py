"""A part of a model that is run alone, and the values that it computes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sliceport.defects.defect import Defect
from sliceport.engines.engine import Array, Value, WholeModel
from sliceport.engines.failure import Failure
from sliceport.engines.side import Result, Side
from sliceport.sandbox import progress
from sliceport.search.graph import (
    Graph,
    GraphNode,
    Runner,
    find_ancestors,
    find_boundary,
    find_static_values,
    only_moves,
)
from sliceport.verdict.difference import EXACT, OutputDiff, Outputs, Tolerance, ToleranceFor, compare_outputs

_CHUNK_BYTES = 2**28
"""The intended total size of the values that one run returns. They are in memory at the same time."""
_FIRST_CHUNK, _MAX_CHUNK = 16, 512
"""The number of values that the first run returns, before any size is known, and the most that a later run returns."""
NOT_RUN = Failure("values", "", "")


@dataclass(frozen=True)
class Case:
    """A part of a model, which is tested on one engine. Another engine computes the expected values.

    Attributes:
        graph: The graph that it is cut from: the main graph, or one run of a body.
        numbers: The numbers of its nodes in the graph, in order.
        outputs: The names of its outputs.
        inputs: The values that it reads, as the other engine computed them.
        constants: More values that it reads. They depend on no elements of inputs, so they become constants.
        failure: Its failure; `NOT_RUN` before it has run.
        scope: The control flow nodes that contain it, outermost first, as texts that include the titles of the bodies.
        holder: The outermost control flow node that contains it; None for a case of the main graph.
        is_fusion: Whether the failure disappears if the values between its nodes become outputs, too.
        has_fixed_shapes: Whether its inputs have the sizes of the arrays, even if the model leaves sizes open.
        is_rounding: Whether rounding in nodes before the culprit decides, each of whose values is within the tolerance.
        note: A caveat, such as that the search ran out of time; or an empty string.
        suspects: The nodes that may be the culprit, if the search ended early, or if no values between these nodes
            could be compared; otherwise empty.
        alone: One node of this case that fails alone, but in another way; None if no such node was found.
        expected: The expected outputs, as the first of two models computed them; None for a search in one model.
        counterpart: The case of the first of two models that computes the same values; None for a search in one model.
    """

    graph: Graph
    numbers: tuple[int, ...]
    outputs: tuple[str, ...]
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array]
    failure: Failure = NOT_RUN
    scope: tuple[str, ...] = ()
    holder: GraphNode | None = None
    is_fusion: bool = False
    has_fixed_shapes: bool = False
    is_rounding: bool = False
    note: str = ""
    suspects: tuple[GraphNode, ...] = ()
    alone: Case | None = None
    expected: Outputs | None = None
    counterpart: Case | None = None

    @property
    def nodes(self) -> tuple[GraphNode, ...]:
        """The nodes of the case, in order."""
        return tuple(self.graph.nodes[i] for i in self.numbers)

    @property
    def culprit(self) -> GraphNode:
        """The node at fault: the node that writes the output that differs or, if the run fails, the last node."""
        return next((node for node in self.nodes if self.failure.output in node.writes), self.nodes[-1])

    @property
    def culprit_text(self) -> str:
        """The culprit as text. If there are several suspects, the range of nodes that contains it."""
        if len(self.suspects) < 2:
            return str(self.culprit)
        return f"one of the {len(self.suspects)} nodes from {self.suspects[0]} to {self.suspects[-1]}"

    @property
    def main_node(self) -> GraphNode:
        """The culprit. For a case in a body, the node of the main graph that contains the culprit."""
        return self.holder or self.culprit

    @property
    def values(self) -> dict[str, Array]:
        """The values that the nodes of the case read from outside: `inputs` and `constants`."""
        return {**self.inputs, **self.constants}

    @cached_property
    def model(self) -> WholeModel:
        """The nodes of the case as a model of their own; the whole model if the case has all nodes and outputs."""
        graph = self.graph
        is_whole = len(self.numbers) == len(graph.nodes) and self.outputs == tuple(graph.outputs)
        if is_whole and not self.has_fixed_shapes and tuple(self.inputs) == tuple(graph.inputs):  # in the same order
            return graph.whole()
        return graph.cut(
            self.numbers, self.outputs, self.inputs, self.constants, has_fixed_shapes=self.has_fixed_shapes
        )

    def run(self, side: Side) -> Result:
        """Run the case on an engine. Return its outputs by name, or the failure of the run."""
        return side.try_run(self.model, self.inputs)

    def compare(self, actual: Outputs, expected: Outputs, tolerance_for: ToleranceFor) -> tuple[OutputDiff, ...]:
        """Compare outputs of the case by name. An output whose elements are only moved must be equal bit for bit."""

        def choose(name: str, *values: Value) -> Tolerance:
            return EXACT if only_moves(self.graph, self.numbers, name) else tolerance_for(name, *values)

        return compare_outputs(actual, expected, choose)


class Subject(NamedTuple):
    """A model whose parts are tested on two engines.

    Attributes:
        graph: The model, or one run of a body.
        bad: The engine that runs the parts.
        good: The engine that computes expected values, and the inputs of the parts.
        values: The inputs of the model, and possibly values of nodes, which are then not computed again.
    """

    graph: Graph
    bad: Side
    good: Side
    values: dict[str, Array]

    def find_defects(self, nodes: Collection[GraphNode], engine: str) -> Sequence[Defect]:
        """Return the known defects of an engine that some nodes have in the whole model."""
        shapes = {name: self.values[name].shape for name in self.graph.inputs}
        return self.graph.find_defects(nodes, shapes, engine)


def make_case(
    graph: Graph, numbers: Collection[int], outputs: Sequence[str], values: Mapping[str, Array]
) -> Case | None:
    """Return the nodes with these `numbers` as a case, or None if `values` lacks a value that the nodes read."""
    reads = sorted(find_boundary(graph, numbers))
    if not values.keys() >= set(reads):
        return None
    # Values that depend on no element of an input become constants: engines infer shapes of other values from them.
    static = find_static_values(graph)
    inputs = {name: values[name] for name in reads if name not in static}
    constants = {name: values[name] for name in reads if name in static}
    return Case(graph, tuple(sorted(numbers)), tuple(outputs), inputs, constants)


def compute(graph: Graph, side: Side, known: Mapping[str, Array], names: Collection[str]) -> dict[str, Array] | None:
    """Return the values called `names`: those in `known`, and the others as an engine computes them from `known`.

    Computed values that are not arrays are left out. Return None if the run fails, or if it needs an input of the model
    that is missing in `known`.
    """
    missing = sorted(set(names) - known.keys())
    values = {name: known[name] for name in names if name in known}
    if not missing:
        return values
    ancestors = find_ancestors(graph, missing, known)
    case = make_case(graph, ancestors, missing, known) if ancestors else None
    computed = None if case is None else case.run(side)
    return None if computed is None or isinstance(computed, Failure) else values | select_arrays(computed)


def select_arrays(values: Outputs) -> dict[str, Array]:
    """Return the values that are arrays."""
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def compute_all(
    graph: Graph, side: Side, inputs: Mapping[str, Array], wanted: Collection[str] | None = None
) -> Iterator[tuple[str, Array]]:
    """Yield the names and arrays of the inputs, and of the values that an engine computes from the inputs.

    The result lacks values that are not arrays, values that cannot be an output, and all values that depend on a node
    that fails. A value stays in memory only as long as other values are still computed from it. One run computes the
    `wanted` values, if possible. If `wanted` is None, several runs compute all values, a few in each run.
    """
    yield from inputs.items()
    names = [name for node in graph.nodes for name in node.writes if wanted is None or name in wanted]
    computed = dict(inputs)
    chunk_size = _FIRST_CHUNK if wanted is None else len(names)
    while names:
        progress.say(f"computing the values of the model: {len(names)} left")
        chunk, later = names[:chunk_size], names[chunk_size:]
        values = compute(graph, side, computed, chunk)
        if values is None and len(chunk) > 1:  # some value cannot be an output, or its node fails
            chunk_size = max(1, len(chunk) // 4)
            continue
        if values is None:  # the chunk is one value
            names = _leave_out_failed(graph, side, computed, chunk[0], later)
            continue
        names = later
        yield from values.items()
        computed |= values
        still_read = find_boundary(graph, find_ancestors(graph, names, computed))
        computed = {name: array for name, array in computed.items() if name in still_read}
        byte_count = sum(array.nbytes for array in values.values())
        chunk_size = max(1, min(_MAX_CHUNK, len(chunk) * _CHUNK_BYTES // max(byte_count, 1)))


def compute_node_by_node(graph: Graph, inputs: Mapping[str, Array], run: Runner) -> dict[str, Value]:
    """Return the outputs of a graph. `run` computes each node in a model of its own.

    A node that reads a value that is not an array, such as a sequence, runs together with the node that computes it.
    """
    values: dict[str, Any] = dict(inputs)
    for names in [*(node.writes for node in graph.nodes), graph.outputs]:
        missing = [name for name in names if name not in values]
        case = make_case(graph, find_ancestors(graph, missing, values), missing, values) if missing else None
        if case is not None:
            computed = run(replace(case, has_fixed_shapes=True).model, case.inputs)
            # The values of nodes that are not arrays cannot be inputs of other nodes. Those of outputs are returned.
            values |= computed if names is graph.outputs else select_arrays(computed)
    return {name: values[name] for name in graph.outputs if name in values}


def _leave_out_failed(graph: Graph, side: Side, known: Mapping[str, Array], value: str, later: list[str]) -> list[str]:
    """Return the names in `later` that may still be computed after a run for `value` alone has failed."""
    dependents = _find_dependents(graph, value)
    untried = [name for name in later if name in dependents]
    # A dependent that can be computed shows that `value` fails only as an output. Then `later` stays as it is. The last
    # dependent is tried first, because it is usually an output of the model. If it fails, a node after `value` may be
    # the reason, so the last dependent of the first half is tried next, and so on.
    while untried:
        if compute(graph, side, known, untried[-1:]) is not None:
            return later
        untried = untried[: len(untried) // 2]
    return [name for name in later if name not in dependents]


def _find_dependents(graph: Graph, value: str) -> set[str]:
    """Return a value and all values that are computed from it."""
    dependents = {value}
    for node in graph.nodes:
        if not dependents.isdisjoint(node.reads):
            dependents.update(node.writes)
    return dependents
