"""A search on a device that is elsewhere, in rounds: each round cuts a model at up to 16 places for a run there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from sliceport.diffing.case import Case, make_case
from sliceport.diffing.difference import Failure
from sliceport.diffing.graph import Graph, find_ancestors
from sliceport.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

WAYS = 16
"""The number of parts that a round cuts the open range into."""
VERSION = 1
_DEPTHS = (1, 2, 3, 4, 6, 8, 12)
"""Numbers of steps back from the last node, to find the nodes that it takes together."""


@dataclass(frozen=True)
class Cut:
    """A model to be cut.

    Attributes:
        kind: `prefix`, the nodes from `start` up to `size`; `around`, the last of these nodes with those that are at
            most `start` steps before it; or `spread`, the same with all values as outputs.
        start: See `kind`.
        size: The number of nodes up to the last one.
        outputs: Its outputs, each as a node, counted on the path, and an output of that node.
    """

    kind: Literal["prefix", "around", "spread"]
    start: int
    size: int
    outputs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a search, which results bring back. Nodes are counted on the path to the outputs of the model.

    Attributes:
        model: The digest of the model.
        inputs: The digest of its inputs.
        shapes: Sizes of inputs that the model leaves open.
        seed: For the random inputs.
        attempt: See `ModelToRun.make_inputs`.
        reference: The engine that computes the expected values.
        anonymise: `names` or `weights` if these are replaced.
        round: The number of this round, from 1.
        low: The model is right up to this node.
        high: The model fails up to this node.
        front: The first node of cuts; nodes in front of it are not run, but their right values are inputs.
        is_last: Whether only nodes around the last one are run.
        failure: The failure of the whole model; None before the first results.
        cuts: The cuts of this round by the names of their files.
        version: The version of this form.
    """

    model: str
    inputs: str
    shapes: Mapping[str, tuple[int, ...]]
    seed: int
    attempt: int
    reference: str
    anonymise: str = ""
    round: int = 1
    low: int = 0
    high: int
    front: int = 0
    is_last: bool = False
    failure: Failure | None = None
    cuts: Mapping[str, Cut]
    version: int = VERSION

    def to_json(self) -> str:
        """Return the state as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, data: Any) -> State:
        """Return the state in results.

        Raises:
            UsageError: The results are damaged, or of another version of sliceport.
        """
        if not isinstance(data, dict) or data.get("version") != VERSION:
            raise UsageError("the results are of a probe of another version of sliceport; write the probe again.")
        try:
            failure = data["failure"] and Failure(**data["failure"])
            cuts = {
                str(name): Cut(**cut | {"outputs": tuple((int(i), int(j)) for i, j in cut["outputs"])})
                for name, cut in data["cuts"].items()
            }
            shapes = {str(name): tuple(map(int, sizes)) for name, sizes in data["shapes"].items()}
            return cls(**data | {"failure": failure, "cuts": cuts, "shapes": shapes})
        except (TypeError, ValueError, KeyError, AttributeError):
            raise UsageError("the results are damaged: their state cannot be read.") from None

    def advance(self, **changes: Any) -> State:
        """Return the state of the next round, without cuts."""
        return replace(self, round=self.round + 1, cuts={}, **changes)


def digest(*parts: bytes) -> str:
    """Return the digest of parts, in 32 hexadecimal digits."""
    return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()[:32]


def digest_inputs(inputs: Mapping[str, Array]) -> str:
    """Return the digest of inputs."""
    arrays = (inputs[name] for name in sorted(inputs))
    return digest(*(part for each in arrays for part in (repr((each.dtype.name, each.shape)).encode(), each.tobytes())))


def is_results(file: str | None) -> bool:
    """Whether the text of `--against` names a file of results."""
    return file is not None and file.endswith(".json")


class Path:
    """The nodes that the outputs of a model are computed from, each after those that it reads from."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers = find_ancestors(graph, graph.outputs)
        self._places = {
            name: (place, i)
            for place, number in enumerate(self.numbers)
            for i, name in enumerate(graph.nodes[number].writes)
        }

    def plan(self, state: State) -> Iterator[Cut]:
        """Yield the cuts of a round; the first one that fails ends the open range."""
        low, high = state.low, state.high
        if state.is_last:
            for depth in (0, *_DEPTHS):
                yield Cut("around", depth, high)
                yield Cut("spread", depth, high)
            yield Cut("prefix", state.front, high)
            return
        step = max(high - low, WAYS)
        sizes = sorted({low + -(-step * i // WAYS) for i in range(1, WAYS + 1)} & set(range(low + 1, high + 1)))
        yield from (Cut("prefix", state.front, size) for size in sizes)
        if high - low <= WAYS:
            yield from (Cut("around", 0, size) for size in sizes)

    def nodes_of(self, cut: Cut) -> list[int]:
        """Return the numbers of the nodes of a cut in the graph."""
        if cut.kind == "prefix":
            return self.numbers[cut.start : cut.size]
        nodes, front = {cut.size - 1}, {cut.size - 1}
        for _ in range(cut.start):
            reads = (name for place in front for name in self.graph.nodes[self.numbers[place]].reads)
            front = {self._places[name][0] for name in reads if name in self._places} - nodes
            nodes |= front
        return [self.numbers[place] for place in sorted(nodes)]

    def outputs_of(self, cut: Cut) -> list[str]:
        """Return the values that a cut has as outputs, before those that cannot be compared are left out."""
        numbers = self.nodes_of(cut)
        inside = set(numbers)
        read = {name for number in self.numbers if number not in inside for name in self.graph.nodes[number].reads}
        read.update(self.graph.outputs)
        written = [name for number in numbers for name in self.graph.nodes[number].writes]
        return [name for name in written if name in read or cut.kind == "spread"]

    def places_of(self, names: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """Return the places of values on the path; see `Cut`."""
        return tuple(self._places[name] for name in names)

    def names_of(self, cut: Cut) -> list[str]:
        """Return the names of the outputs of a cut.

        Raises:
            UsageError: The results are damaged.
        """
        try:
            return [self.graph.nodes[self.numbers[place]].writes[i] for place, i in cut.outputs]
        except IndexError:
            raise UsageError("the results are damaged: they name nodes that the model does not have.") from None

    def case_of(self, cut: Cut, values: Mapping[str, Array]) -> Case | None:
        """Return a cut on right values; None if one of the values that it reads is missing."""
        return make_case(self.graph, self.nodes_of(cut), self.names_of(cut), values)
