"""Base classes of the passes: walking a model, replacing nodes, and reporting it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Self, TypeVar, cast

import onnx_ir as ir

from onnx_ops.model.cached_read import caching_reads
from onnx_ops.model.defaults import defaults_aside
from onnx_ops.model.nodes import has_its_values, is_strided_slice, node_name
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.annotations import annotate_nodes, annotate_value
from onnx_ops.passes.builders import build_tensor
from onnx_ops.passes.cleanup import is_used, remove_unread
from onnx_ops.passes.contested_nodes import unmark
from onnx_ops.passes.edits import GraphEdits, remove_nodes
from onnx_ops.passes.gating import WOULD_BE_GATED, would_be_gated
from onnx_ops.passes.matchers import is_forbidden_shape
from onnx_ops.passes.names import NodeNames, derive_name, make_names_unique, make_node_names_unique, mark_new
from onnx_ops.passes.outcome import Rewritten, Skip, Skipped, Unfixable
from onnx_ops.passes.value_info import Sizes, ValueInfo
from onnx_ops.passes.walk import nodes_of
from sliceport.hardening import NOTHING, Change

T = TypeVar("T")


class SlicingPass(ir.passes.InPlacePass):
    """A pass over the slicing of a model, subgraphs and functions included.

    Attributes:
        is_default: Whether `rewrite` runs it unless told otherwise.
        reveals_shapes: Whether more shapes can be inferred after it has changed a model.
        changes: The changes and the unfixable nodes of the last run.
        skipped: The nodes that the last run skipped, and why.
        analysis: Facts inferred for the model, while the pass runs.
        edits: The changes of the graphs of the model.
    """

    is_default: ClassVar[bool] = True
    reveals_shapes: ClassVar[bool] = False
    analysis: Analysis

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.skipped: list[Skipped] = []
        self._shared: Analysis | None = None
        self._model: ir.Model | None = None
        self._names: NodeNames | None = None
        self.edits = GraphEdits()

    @classmethod
    def create(cls, kinds: Collection[type[SlicingPass]]) -> Self:  # noqa: ARG003 - for those that override it
        """Return the pass as it is to run in turn with those of `kinds`."""
        return cls()

    def share(self, analysis: Analysis) -> None:
        """Let the pass use an analysis of the model and keep it up to date, instead of making its own each time.

        The caller sets the defaults of the model aside as well (`defaults_aside`).
        """
        self._shared = analysis

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the pass; `modified` is true exactly when the model was changed."""
        self.changes, self.skipped = [], []
        self._model, self._names, self.edits = model, None, GraphEdits()
        with defaults_aside(model) if self._shared is None else nullcontext(), caching_reads():
            self.analysis = self._shared or Analysis(model)
            self.apply(model)
            if self._shared is None:
                unmark(model)
        modified = any(change.replacement is not None for change in self.changes)
        if modified:
            make_names_unique(model)
            if self._names is not None:
                make_node_names_unique(model, self._names)
            self.analysis.forget()
        self._model = self._names = None
        self.edits = GraphEdits()
        del self.analysis
        return ir.passes.PassResult(model, modified=modified)

    @abstractmethod
    def apply(self, model: ir.Model) -> None:
        """Rewrite what there is to rewrite, and add it to `changes` or `skipped`."""

    def nodes_of(self, model: ir.Model, *op_types: str) -> list[tuple[ir.Node, int]]:
        """Return the nodes of these operators, while the pass runs; see `Analysis.nodes_of`."""
        return list(nodes_of(model, *op_types)) if self.changes else self.analysis.nodes_of(*op_types)

    @property
    def value_info(self) -> ValueInfo:
        """Shapes and types, as far as they are known."""
        return self.analysis.value_info

    def sizes(self, value: ir.Value | None) -> Sizes | None:
        """Return the sizes of a value's axes, None if not even its rank is known."""
        return None if value is None else self.value_info.sizes.get(value)

    def size(self, value: ir.Value | None, axis: int) -> int | None:
        """Return the size of an axis, counted from the front, if it is known."""
        shape = self.sizes(value)
        return shape[axis] if shape is not None and axis < len(shape) else None

    def skip_identities(self, value: ir.Value | None) -> ir.Value | None:
        """Return the value before all Identity nodes that lead to this one."""
        return None if value is None else self.edits.identities.skip(value)

    def set_value_info(self, value: ir.Value, data: ir.Value, sizes: Sizes | None, sibling: ir.Value) -> None:
        """Give a new value the type of the data that it is cut from, its sizes, and a name after that of a sibling."""
        value.name = derive_name(sibling.name or "", "part")
        mark_new(value)
        value.type = self.value_info.types.get(data)
        if value.type is not None:
            self.value_info.types[value] = value.type
        if sizes is not None:
            self.value_info.sizes[value] = sizes
            value.shape = None if value.type is None else ir.Shape(sizes)

    def remove_node(self, node: ir.Node) -> None:
        """Remove a node that nothing reads any more, and what only it read."""
        read = node.inputs
        remove_nodes([node])
        for value in read:
            remove_unread(value)

    def remember_names(self) -> None:
        """Note which names nodes have before the first one is added, so that new ones get others."""
        if self._names is None and self._model is not None:
            self._names = NodeNames.of(self._model)

    def replace_outputs(self, node: ir.Node, values: Mapping[ir.Value, ir.Value | None]) -> str:
        """Remove a node and let other values replace its outputs, through an Identity for an output of its graph.

        Returns:
            The replacement: Identity, or nothing.

        Raises:
            Skip: One part of a Split would gate another.
        """
        if would_be_gated(values, self.edits.identities):
            raise Skip(WOULD_BE_GATED)
        replacement = NOTHING
        for output, value in values.items():
            assert value is not None
            if output.is_graph_output():
                replacement = "Identity"
                identity = ir.node("Identity", [value])
                self.remember_names()
                annotate_nodes([identity], [node])
                annotate_value(identity.outputs[0], output)
                self.value_info.copy_entry(identity.outputs[0], output)
                self.edits.replace_nodes(node, [], [identity], [output], identity.outputs)
            elif count_uses(output):
                self.edits.replace_value(output, value)
        self.remove_node(node)
        return replacement

    def replace_node(self, node: ir.Node, new: Sequence[ir.Node]) -> None:
        """Replace a node of one output by nodes. The last one takes over its output and its name."""
        new[-1].name = node.name
        self.replace_nodes([node], new, {node.outputs[0]: new[-1].outputs[0]})

    def replace_nodes(
        self,
        old: Sequence[ir.Node],
        new: Sequence[ir.Node],
        values: Mapping[ir.Value, ir.Value],
        heirs: Sequence[ir.Node] | None = None,
        place: ir.Node | None = None,
    ) -> None:
        """Replace nodes by others; the new values get the names, types, shapes and annotations of the old ones.

        Args:
            old: The nodes to remove.
            new: The nodes to insert.
            values: The successor of each value of the old nodes that something reads.
            heirs: The new nodes that get the annotations of the old ones; the last one if None.
            place: The old node at which the new ones are inserted; the last one if None.
        """
        self.remember_names()
        for before, after in values.items():
            annotate_value(after, before)
            self.value_info.copy_entry(after, before)
        annotate_nodes(new[-1:] if heirs is None else heirs, old)
        read = [value for node in old for value in node.inputs]
        self.edits.replace_nodes(place or old[-1], old, new, list(values), list(values.values()))
        for value in read:
            remove_unread(value)

    def replace_by_constants(self, node: ir.Node, tensors: Sequence[ir.TensorProtocol]) -> None:
        """Replace a node by one constant for each of its outputs that are used, and report the change."""
        used = [output for output in node.outputs if is_used(output)]
        if any(is_forbidden_shape(output, tensor.numpy) for output, tensor in zip(used, tensors, strict=True)):
            reason = "a Reshape with allowzero=1 reads it, and engines refuse a constant shape with a 0 and a -1 there"
            self.skipped.append(Skipped(node_name(node), node.op_type, reason))
            return
        new = [build_tensor(tensor) for tensor in tensors]
        for made, output in zip(new, used, strict=True):
            made.name = derive_name(node_name(node), output.name or "") if len(used) > 1 else node.name
        self.replace_nodes([node], new, {old: made.outputs[0] for old, made in zip(used, new, strict=True)}, new)
        self.changes.append(Change(node_name(node), node.op_type, "Constant", ()))


class NodePass(SlicingPass):
    """A pass that looks at every node of some operators by itself.

    Attributes:
        op_types: The operators.
        spares_siblings: Whether it leaves the nodes that a Split is to replace: `split_members`.
        split_members: The nodes that it leaves, while the pass runs.
    """

    op_types: ClassVar[tuple[str, ...]]
    spares_siblings: ClassVar[bool] = False
    split_members: frozenset[ir.Node] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[ir.Node, Any] = {}

    def nodes(self, model: ir.Model) -> list[tuple[ir.Node, int]]:
        """Return the nodes to look at, with the version of the standard operator set where they are."""
        return self.nodes_of(model, *self.op_types)

    def apply(self, model: ir.Model) -> None:
        """Rewrite node by node."""
        self.split_members = self.analysis.siblings.split_members if self.spares_siblings else frozenset()
        for node, opset in self.nodes(model):
            if node.graph is not None:  # else removed together with one that was rewritten
                self._visit(node, opset)
        self.split_members = frozenset()
        self._read = {}

    def read_once(self, node: ir.Node, read: Callable[[], T]) -> T:
        """Return what `read` returns for a node, or raise its `Skip`; `read` is called once in a run of the pass."""
        if node not in self._read:
            try:
                self._read[node] = read()
            except Skip as reason:
                self._read[node] = reason
        result = self._read[node]
        if isinstance(result, Skip):
            raise Skip(str(result))
        return cast("T", result)

    def _visit(self, node: ir.Node, opset: int) -> None:
        """Rewrite a node and report it."""
        name = node_name(node)
        if node in self.value_info.invalid:
            self.skipped.append(Skipped(name, node.op_type, self.value_info.invalid[node]))
            return
        if not (is_strided_slice(node) or has_its_values(node)):
            reason = f"{node.op_type} does not have {len(node.inputs)} inputs and {len(node.outputs)} outputs"
            self.skipped.append(Skipped(name, node.op_type, reason))
            return
        try:
            outcome = self.rewrite(node, opset)
        except Skip as reason:
            self.skipped.append(Skipped(name, node.op_type, str(reason)))
            return
        match outcome:
            case Rewritten(replacement, defects):
                self.changes.append(Change(name, node.op_type, replacement, defects))
            case Unfixable(defects):
                self.changes.append(Change(name, node.op_type, None, defects))

    @abstractmethod
    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | Unfixable | None:
        """Rewrite a node if it matches.

        Args:
            node: The node.
            opset: Version of the operator set that it is of.

        Returns:
            What was done, or None if the node does not match.

        Raises:
            Skip: The node nearly matches.
        """
