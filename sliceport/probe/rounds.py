"""The rounds of a search on another device. A probe is a folder with the cut models and the programs of one round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil
from operator import index
from typing import Any, Literal, get_args

from sliceport.engines.engine import Array
from sliceport.engines.failure import Failure
from sliceport.errors import UsageError
from sliceport.search.case import Case, make_case
from sliceport.search.graph import Graph, find_ancestors, find_frontier, find_predecessors

WAYS = 16
"""The number of parts that a round divides the open range into. The range contains the first node that fails."""
_VERSION = 3
_DEPTHS = (0, 1, 2, 3, 4, 6, 8, 12)
"""Numbers of steps back from the last node. The last round tries them to find the nodes that an engine fuses."""
_CutKind = Literal["prefix", "around", "spread"]
_NUMBERS = ("seed", "round", "low", "high", "front", "size", "start", "depth")
"""The fields of `State` and `Cut` that are numbers, none of them negative."""


@dataclass(frozen=True)
class Cut:
    """A choice of nodes on the `NodePath`, which are cut out as a model.

    Attributes:
        kind: `prefix` for the nodes from `start` up to `size`; `around` for the last of these nodes and the nodes that
            are at most `depth` steps before it; `spread` for the same nodes as `around`, with all values as outputs.
        size: The number of nodes on the path up to and including the last node of the cut.
        start: The position on the path of the first node of a prefix.
        depth: See `kind`.
        outputs: The outputs, as positions in `NodePath.values`.
    """

    kind: _CutKind
    size: int
    start: int = 0
    depth: int = 0
    outputs: tuple[int, ...] = ()

    def is_whole(self, state: State) -> bool:
        """Return whether the cut is the whole model, which only the first round runs."""
        return state.round == 1 and self.kind == "prefix" and self.size == state.high


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a search, which a probe and its results contain.

    Attributes:
        model: The digest of the model.
        inputs: The digest of its inputs.
        shapes: Shapes of the inputs that have open sizes, by name.
        seed: The seed of the random inputs.
        reference: The engine that computes the expected values.
        anonymise: The mode of `Graph.anonymised`; empty if the model is not anonymised.
        round: The number of this round, from 1.
        low: The number of nodes of the longest prefix known to be right.
        high: The number of nodes of the shortest prefix known to fail; in the first round, of the whole path.
        front: The position on the path of the first node of each `prefix`. Values of earlier nodes are inputs.
        is_last: Whether this round looks for the smallest cut that fails, among those that end with node `high`.
        failure: The failure of the whole model; None before the first results.
        cuts: The cuts of this round by the names of their files.
        version: The version of these fields.
    """

    model: str
    inputs: str
    shapes: Mapping[str, tuple[int, ...]]
    seed: int
    reference: str
    anonymise: str = ""
    round: int = 1
    low: int = 0
    high: int
    front: int = 0
    is_last: bool = False
    failure: Failure | None = None
    cuts: Mapping[str, Cut]
    version: int = _VERSION

    def renamed(self, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> State:
        """Return the state with other names of inputs and outputs of the model. Raise KeyError for an unknown name."""
        shapes, failure = {inputs[name]: sizes for name, sizes in self.shapes.items()}, self.failure
        if failure is not None and failure.output:
            failure = replace(failure, output=outputs[failure.output])
        return replace(self, shapes=shapes, failure=failure)

    @classmethod
    def from_json(cls, data: Any) -> State:
        """Read a state from the JSON values of a file of results.

        Raises:
            UsageError: The state is damaged, or its fields have another version.
        """
        with refuse_damage("their state"):
            if data["version"] != _VERSION:
                raise UsageError("the results are of a probe of another version of sliceport; write the probe again.")
            numbers = [part.get(name, 0) for part in (data, *data["cuts"].values()) for name in _NUMBERS]
            lists = [*data["shapes"].values(), *(cut["outputs"] for cut in data["cuts"].values())]
            kinds = {cut["kind"] for cut in data["cuts"].values()}
            # `index` raises a TypeError for floats and strings.
            if any(index(number) < 0 for number in (*numbers, *chain(*lists))):
                raise ValueError("a number is negative")
            if not kinds <= {*get_args(_CutKind)}:
                raise ValueError("the kind of a cut is not known")
            failure = None if data["failure"] is None else Failure(**data["failure"])
            cuts = {name: Cut(**cut | {"outputs": tuple(cut["outputs"])}) for name, cut in data["cuts"].items()}
            shapes = {name: tuple(sizes) for name, sizes in data["shapes"].items()}
            reference = str(data["reference"])
            return cls(**data | {"failure": failure, "cuts": cuts, "shapes": shapes, "reference": reference})


@contextmanager
def refuse_damage(part: str) -> Iterator[None]:
    """Raise a UsageError in place of errors that malformed JSON values cause. The message names `part`."""
    try:
        yield
    except UsageError:  # it is a ValueError, too, but has its own message
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        raise UsageError(f"the results are damaged: {part} cannot be read.") from None


class NodePath:
    """The nodes that the outputs of a model are computed from, each after the nodes that it reads from.

    Attributes:
        graph: The model.
        numbers: The numbers of the nodes in the graph, in the order of the path.
        values: The names of the values that the nodes write.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers = find_ancestors(graph, graph.outputs)
        self.values = [name for number in self.numbers for name in graph.nodes[number].writes]

    def plan(self, state: State) -> Iterator[Cut]:
        """Yield the parts of the model to run in a round of the search.

        The node at fault is among the first `state.high` nodes of the path, but not among the first `state.low`. In the
        last round, the part to report is the first one that fails and is not a `spread`.
        """
        low, high = state.low, state.high
        if state.is_last:
            for depth in _DEPTHS:
                yield Cut("around", high, depth=depth)
                yield Cut("spread", high, depth=depth)  # all values are outputs, so the device cannot fuse nodes
            yield Cut("prefix", high, state.front)  # reported if no smaller part fails
            return
        count = min(WAYS, high - low)
        sizes = [low + ceil((high - low) * i / count) for i in range(1, count + 1)]  # the ends of equal parts
        yield from (Cut("prefix", size, state.front) for size in sizes)
        # If each prefix adds one node to the one before it, each node also runs alone. If the node at fault fails
        # alone, the search then ends without the last round.
        if high - low <= WAYS:
            yield from (Cut("around", size) for size in sizes)

    def nodes_of(self, cut: Cut) -> list[int]:
        """Return the numbers of the nodes of a cut: for a prefix in the order of the path, otherwise sorted."""
        if cut.kind == "prefix":
            return self.numbers[cut.start : cut.size]
        return sorted(find_predecessors(self.graph, self.numbers[cut.size - 1], cut.depth))

    def outputs_of(self, cut: Cut) -> list[str]:
        """Return the names of all outputs of a cut, including those that a probe is unable to store."""
        nodes = self.nodes_of(cut)
        if cut.kind == "spread":
            return [name for number in nodes for name in self.graph.nodes[number].writes]
        return find_frontier(self.graph, set(nodes), self.numbers, self.graph.outputs)

    def case_of(self, cut: Cut, values: Mapping[str, Array]) -> Case | None:
        """Return a cut as a case with inputs from `values`, which are correct; None if one of the inputs is missing."""
        return make_case(self.graph, self.nodes_of(cut), [self.values[i] for i in cut.outputs], values)
