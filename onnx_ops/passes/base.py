"""What the passes have in common: walking a model, what is known of sizes, and what is not applied."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import onnx_ir as ir

from onnx_ops.defaults import defaults_aside
from onnx_ops.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.nodes import has_its_values, is_standard, is_strided_slice
from onnx_ops.passes.builders import drop_unread, mark_new, name_apart
from onnx_ops.passes.gating import GATED, becomes_gated
from onnx_ops.passes.value_info import (
    Knowledge,
    Sizes,
    every_node,
    infer,
    unmark,
)
from sliceport.hardening import Change, Defect

Outcome = tuple[str | None, tuple[Defect, ...]] | None


class NotApplied(Exception):
    """Carries the reason why a rule does not hold for a node that it looked at: half a sentence."""


@dataclass(frozen=True)
class Left:
    """A node that a pass would have rewritten but for a reason.

    Attributes:
        node: Its name.
        op: Its operator.
        reason: Why it was not rewritten.
    """

    node: str
    op: str
    reason: str


class SlicingPass(ir.passes.InPlacePass):
    """A pass over the slicing of a model, subgraphs and functions included.

    Attributes:
        changes: What was found and done, when it last ran.
        left: What was not done, and why.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.left: list[Left] = []
        self.known = Knowledge()
        self._shared: Knowledge | None = None

    def share(self, known: Knowledge) -> None:
        """Let the pass use and keep up what is known of values, instead of inferring it each time that it runs.

        Whoever shares it looks after the model's defaults (`defaults_aside`) as well.
        """
        self._shared = known

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the pass; `modified` is true exactly when a node was rewritten."""
        self.changes, self.left = [], []
        with defaults_aside(model) if self._shared is None else nullcontext():  # whoever shares has them aside
            self.known = infer(model) if self._shared is None else self._shared
            self.apply(model)
            if self._shared is None:
                unmark(model)
        self.known = Knowledge()
        name_apart(model)
        return ir.passes.PassResult(model, modified=any(change.form is not None for change in self.changes))

    @abstractmethod
    def apply(self, model: ir.Model) -> None:
        """Rewrite what there is to rewrite, and put it down in `changes` and `left`."""

    def sizes(self, value: ir.Value | None) -> Sizes | None:
        """What is known of a value's shape."""
        return None if value is None else self.known.sizes.get(value)

    def size(self, value: ir.Value | None, axis: int) -> int | None:
        """The size of an axis, counted from the front, if it is known."""
        shape = self.sizes(value)
        return shape[axis] if shape is not None and axis < len(shape) else None

    def describe(self, value: ir.Value, data: ir.Value, sizes: Sizes | None, beside: ir.Value) -> None:
        """Give a new value the type of the data that it is of, its sizes, and a name like that of a value beside it."""
        value.name = f"{beside.name}_part"
        mark_new(value)
        value.type = self.known.types.get(data)
        if value.type is not None:
            self.known.types[value] = value.type
        if sizes is not None:
            self.known.sizes[value] = sizes
            value.shape = None if value.type is None else ir.Shape(sizes)

    def take_away(self, node: ir.Node) -> None:
        """Remove a node that nothing reads any more, and what only it read."""
        graph = node.graph
        assert graph is not None
        read = node.inputs
        graph.remove(node, safe=True)
        for value in read:
            drop_unread(value)

    def replace_by(self, node: ir.Node, values: Mapping[ir.Value, ir.Value | None]) -> str:
        """Let values take the place of a node's outputs, as an Identity where one makes an output of its graph.

        Raises:
            NotApplied: Parts of a Split would gate one another.
        """
        if becomes_gated(values):
            raise NotApplied(GATED)
        form, graph = "nothing", node.graph
        assert graph is not None
        for output, value in values.items():
            assert value is not None
            if output.is_graph_output():
                form = "Identity"
                identity = ir.node(form, [value])
                identity.outputs[0].metadata_props.update(output.metadata_props)
                self.known.inherit(identity.outputs[0], output)
                ir.convenience.replace_nodes_and_values(graph, node, [], [identity], [output], identity.outputs)
            elif output.uses():
                ir.convenience.replace_all_uses_with(output, value)
        self.take_away(node)
        return form

    def put_in_place(
        self,
        old: Sequence[ir.Node],
        new: Sequence[ir.Node],
        values: Mapping[ir.Value, ir.Value],
        heir: ir.Node | None = None,
        place: ir.Node | None = None,
    ) -> None:
        """Put nodes in the place of others; values of those get successors with their names, types and shapes.

        Args:
            old: The nodes that go.
            new: The nodes that come.
            values: The successor of each value of the old nodes that something reads.
            heir: The new node that the old ones' metadata go to; the last one if None.
            place: The old node whose place they come to; the last one if None.
        """
        for before, after in values.items():
            after.metadata_props.update(before.metadata_props)
            self.known.inherit(after, before)
        for node in reversed(old):
            (heir or new[-1]).metadata_props.update(node.metadata_props)
        graph = old[-1].graph
        assert graph is not None
        read = [value for node in old for value in node.inputs]
        ir.convenience.replace_nodes_and_values(
            graph, place or old[-1], list(old), list(new), list(values), list(values.values())
        )
        for value in read:
            drop_unread(value)


class NodePass(SlicingPass):
    """A pass that looks at every node of some operators by itself.

    Attributes:
        op_types: The operators.
    """

    op_types: tuple[str, ...]

    def nodes(self, model: ir.Model) -> list[tuple[ir.Node, int]]:
        """The nodes to look at, with the version of the standard operator set where they are."""
        return list(nodes_of(model, *self.op_types))

    def apply(self, model: ir.Model) -> None:
        """Rewrite node by node."""
        for node, opset in self.nodes(model):
            if node.graph is None:  # gone with one that was rewritten
                continue
            name = name_of(node)
            if not (is_strided_slice(node) or has_its_values(node)):
                reason = f"{node.op_type} does not have {len(node.inputs)} inputs and {len(node.outputs)} outputs"
                self.left.append(Left(name, node.op_type, reason))
                continue
            try:
                found = self.rewrite(node, opset)
            except NotApplied as reason:
                self.left.append(Left(name, node.op_type, str(reason)))
                continue
            if found is not None:
                form, defects = found
                self.changes.append(Change(name, node.op_type, form, defects))

    @abstractmethod
    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """Rewrite a node if it is one to rewrite.

        Args:
            node: The node.
            opset: Version of the operator set that it is of.

        Returns:
            What stands in its place, None if nothing helps, and what was wrong; None if there is nothing to do.

        Raises:
            NotApplied: The rule nearly holds.
        """


def nodes_of(model: ir.Model, *op_types: str) -> Iterator[tuple[ir.Node, int]]:
    """The nodes of standard operators with the version of their operator set."""
    return ((node, opset) for node, opset in all_nodes(model) if is_standard(node, *op_types))


def all_nodes(model: ir.Model) -> Iterator[tuple[ir.Node, int]]:
    """The nodes of graphs, subgraphs and functions with the version of the standard operator set where they are.

    Not those of `ov_ext::StridedSlice`, which is looked at as a whole.
    """
    functions = [function for key, function in model.functions.items() if key[0] == STRIDED_SLICE_DOMAIN]
    inside = {node for function in functions for node in function.all_nodes()}
    return ((node, opset) for node, opset in every_node(model) if node not in inside)


def name_of(node: ir.Node) -> str:
    """A node's name, or that of its first output."""
    return node.name or next((output.name for output in node.outputs if output.name), "") or ""
