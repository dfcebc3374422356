"""The protocol of graphs, which are models that `diff` cuts into smaller models, and functions on their nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Protocol, runtime_checkable

from sliceport.defects.defect import Defect
from sliceport.engines.engine import Array, Value, WholeModel
from sliceport.engines.inputs import ModelToRun
from sliceport.engines.sizes import InputShapes

Runner = Callable[[WholeModel, Mapping[str, Array]], dict[str, Value]]
"""Runs a model and returns its outputs."""


@dataclass(frozen=True)
class GraphNode:
    """A node of a graph. Constants are not nodes.

    Attributes:
        name: Its name; for a node without a name, the name of its first output.
        op_type: Its operator.
        reads: The names of the values that the node and its bodies read, except constants.
        writes: The names of the values that it writes.
        moves: Whether it only moves elements.
        is_shape: Whether it returns the shape or the size of its input, so that its values follow from shapes alone.
        is_random: Whether it draws random numbers, so that two engines may compute different values.
        constants: The names of the constants that it reads.
        written_name: For a node that was inlined from a function, the names of the function and of the node in it;
            otherwise empty.
    """

    name: str
    op_type: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    moves: bool = False
    is_shape: bool = False
    is_random: bool = False
    constants: tuple[str, ...] = ()
    written_name: str = ""

    @property
    def written_names(self) -> tuple[str, ...]:
        """The names to find it by in the user's model: `written_name` if there is one, else its outputs and name."""
        return (self.written_name,) if self.written_name else (*self.writes, self.name)

    def __str__(self) -> str:
        return f"{self.op_type} {self.name!r}"


@dataclass(frozen=True)
class Body:
    """One run of a body of control flow, as a model of its own.

    Attributes:
        title: The name of the run, such as `then_branch` or `iteration 3`.
        graph: The body.
        inputs: The values that the node passes to the body.
        is_run: Whether the node runs the body; engines also load a branch that is not taken.
    """

    title: str
    graph: Graph
    inputs: Mapping[str, Array]
    is_run: bool = True


class Graph(ModelToRun, Protocol):
    """A model that can be cut.

    Attributes:
        format: The name of its format.
        nodes: Its nodes without those inside bodies, each after the nodes that it reads from.
        default_against: The engine that computes expected outputs by default, with its options.
        example_engine: An engine to test, for messages.
    """

    format: str
    default_against: str
    example_engine: str
    nodes: Sequence[GraphNode]

    def cut(
        self,
        nodes: Collection[int],
        outputs: Sequence[str],
        inputs: Mapping[str, Array],
        constants: Mapping[str, Array],
        *,
        has_fixed_shapes: bool = False,
    ) -> WholeModel:
        """Return a model of some nodes.

        Args:
            nodes: The numbers of the nodes, which are their positions in `self.nodes`.
            outputs: The names of the values that become outputs.
            inputs: Values that the nodes read but do not write. They become inputs.
            constants: More values that the nodes read but do not write. They become constants.
            has_fixed_shapes: Whether inputs get the sizes of the arrays, even if the model leaves sizes open.
        """

    def read_value(self, place: FilePath, name: str) -> Array:
        """Read a recorded input or output.

        Args:
            place: The path of the file without its suffix, which depends on the format.
            name: The name of the value.

        Raises:
            UsageError: The file cannot be read.
        """

    def bodies(self, node: int, values: Mapping[str, Array], run: Runner) -> Iterator[Body]:
        """Yield the bodies of a control flow node with their inputs, such as one for each iteration of a Loop.

        The last body may be one that the node does not run; see `Body.is_run`. Yield nothing for other nodes.

        Args:
            node: The number of the node.
            values: The values that the node reads.
            run: A function that runs a body and returns its outputs, for the next iteration to read. Errors of
                this function pass through, such as `RunFailed` from `Side.run`.
        """

    def find_defects(self, nodes: Collection[GraphNode], shapes: InputShapes, engine: str) -> Sequence[Defect]:
        """Return the known defects that some nodes have in the whole model.

        A model that was cut from this graph may have more defects, because it has other constants and known sizes.

        Args:
            nodes: Nodes of this graph, or of bodies in it.
            shapes: The shapes of the inputs.
            engine: The name of the engine with the defects.
        """

    def write(
        self, model: WholeModel, inputs: Mapping[str, Array], outputs: Mapping[str, Value], folder: FilePath
    ) -> str:
        """Write a model with data for it into a folder.

        Returns:
            Lines of Python that read these files from the current folder. They set `path` to the name of the model's
            file, `inputs` to the arrays of inputs by name, and `expected` to the arrays of outputs.
        """

    def write_cuts(self, models: Iterable[WholeModel], folder: FilePath) -> list[str]:
        """Write models that were cut from this graph into a folder, and return the names of their files.

        Large weights are in files whose names end in `.bin`. Models share these files if the format allows it.
        """

    def anonymised(self, mode: str, seed: int, /) -> Graph:
        """Return the same graph with other names, and possibly other weights.

        Args:
            mode: `names`, or `weights` to also replace the weights by random ones of a similar distribution.
            seed: For the random weights.

        Raises:
            UsageError: Models of this format cannot be anonymised.
        """


@runtime_checkable
class Diffable(Protocol):
    """A format with an optional method that opens models for `diff`."""

    def open_graph(self, model: Any) -> Graph:
        """Read a model from a file's path or from an object of its format's package.

        Raises:
            ModelError: The model cannot be read.
        """


def find_ancestors(graph: Graph, outputs: Collection[str], known: Collection[str] = ()) -> list[int]:
    """Return the numbers of the nodes that compute outputs from known values.

    The order is depth-first: each node comes after the nodes that it reads from. Nodes that are needed for known values
    alone are left out, unless these values are outputs.
    """
    available = set(known).difference(outputs)
    producers = {name: i for i, node in enumerate(graph.nodes) for name in node.writes if name not in available}
    ordered: dict[int, None] = {}
    stack = [producers[name] for name in reversed(list(outputs)) if name in producers]
    while stack:
        reads = [producers[name] for name in graph.nodes[stack[-1]].reads if name in producers]
        missing = [i for i in dict.fromkeys(reads) if i not in ordered]
        if missing:
            stack += reversed(missing)
        else:
            ordered[stack.pop()] = None
    return list(ordered)


def find_boundary(graph: Graph, numbers: Collection[int]) -> set[str]:
    """Return the names of the values that nodes read from outside. `numbers` are the positions of the nodes."""
    nodes = [graph.nodes[i] for i in numbers]
    return {name for node in nodes for name in node.reads} - {name for node in nodes for name in node.writes}


def find_frontier(graph: Graph, numbers: Collection[int], path: Collection[int], outputs: Collection[str]) -> list[str]:
    """Return the values that nodes of `numbers` write, if other nodes of `path` read them or `outputs` has them."""
    needed = set(outputs) | {name for i in path if i not in numbers for name in graph.nodes[i].reads}
    return [name for i in sorted(numbers) for name in graph.nodes[i].writes if name in needed]


def find_predecessors(graph: Graph, number: int, steps: int) -> set[int]:
    """Return the numbers of a node and of all nodes that lead to it in at most `steps` steps."""
    producers = {name: i for i, node in enumerate(graph.nodes) for name in node.writes}
    nodes = {number}
    for _ in range(steps):
        nodes |= {producers[name] for name in find_boundary(graph, nodes) if name in producers}
    return nodes


def find_static_values(graph: Graph) -> set[str]:
    """Return the values that depend on constants, shapes and random numbers alone, not on elements of inputs."""
    static: set[str] = set()
    for node in graph.nodes:
        if node.is_shape or static.issuperset(node.reads):
            static.update(node.writes)
    return static


def only_moves(graph: Graph, numbers: Collection[int], output: str) -> bool:
    """Return whether the nodes of `numbers` that compute an output only move elements."""
    inside = set(numbers)
    return all(graph.nodes[i].moves for i in find_ancestors(graph, [output]) if i in inside)
