"""Base classes of the passes: they walk a model, replace nodes, and report the changes."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, TypeVar, cast

import onnx_ir as ir

from onnx_ops.defects.placement import adapt_to_placement
from onnx_ops.model.cached_read import caching_reads
from onnx_ops.model.nodes import SLICING, has_valid_arity, is_strided_slice, is_valid_operator, node_name
from onnx_ops.model.views import Sizes, static_sizes
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.analysis import CUTTING, Analysis
from onnx_ops.passes.builders import build_tensor_constant
from onnx_ops.passes.contested_nodes import ready_for_passes
from onnx_ops.passes.edits import (
    GraphEdits,
    annotate_nodes,
    annotate_value,
    detach_inputs,
    is_used,
    origin_of,
    remove_nodes,
    remove_unread,
)
from onnx_ops.passes.gating import WOULD_BE_GATED, would_be_gated
from onnx_ops.passes.matchers import is_forbidden_shape
from onnx_ops.passes.names import make_names_unique, mark_new
from onnx_ops.passes.outcome import SKIPS, Skip, Skipped
from onnx_ops.passes.reshape_fusion import WOULD_FAIL, would_fail
from onnx_ops.passes.value_info import ValueInfo
from sliceport.defects.defect import Defect
from sliceport.hardening import NOTHING, Change, Hardening
from sliceport.wording import count_of

T = TypeVar("T")


class SlicingPass(ir.passes.InPlacePass):
    """Base class of the passes, which report the nodes that they change or skip.

    A class `(NodePass, name="…", after="…")` in a file of `onnx_ops/passes/rewrite` is one of `PASSES`. Its docstring
    has the summary in `docs/rewrite.md`, the numbered rules, an example, and the cases that
    `tests/pass_cases/conditions.py` describes.

    Attributes:
        name: The name for `--passes`; empty for a pass that is not one of `PASSES`.
        after: The name of the pass that runs before it. Of several passes that name the same one, all run after it, in
            the order of their names.
        op_types: The operators of the nodes that it changes. `rewrite` leaves a model as it is if it has none of them.
        is_default: Whether `rewrite` runs the pass by default, if it is one of `PASSES`.
        reveals_shapes: Whether more shapes can be inferred after the pass has changed a model.
        changes: The changes and the unfixable nodes of the last run.
        skipped: The nodes that the last run skipped, and why.
        analysis: Facts inferred for the model.
        edits: Replaces nodes and values in the graphs of the model.
    """

    name: ClassVar[str] = ""
    after: ClassVar[str] = ""
    op_types: ClassVar[tuple[str, ...]] = CUTTING
    is_default: ClassVar[bool] = True
    reveals_shapes: ClassVar[bool] = False
    analysis: Analysis
    edits: GraphEdits

    def __init_subclass__(cls, *, name: str = "", after: str = "") -> None:
        super().__init_subclass__()
        cls.name, cls.after = name, after

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.skipped: list[Skipped] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the pass. `modified` of the result is true exactly if the model was changed.

        Raises:
            ModelError: The model is not well-formed.
        """
        with ready_for_passes(model):
            modified = self.run(Analysis(model))
        return ir.passes.PassResult(model, modified=modified)

    def run(self, analysis: Analysis) -> bool:
        """Run the pass over an analysed model and return whether the model changed.

        Call this method inside `ready_for_passes`, so that the default of a model input does not count as a constant.
        """
        self.changes, self.skipped = [], []
        self.analysis, self.edits = analysis, GraphEdits()
        with caching_reads():
            self._apply()
        modified = any(change.replacement is not None for change in self.changes)
        if modified:
            make_names_unique(analysis.model)
        return modified

    @abstractmethod
    def _apply(self) -> None:
        """Rewrite the nodes that match. Report them by `report_change`, and nodes that nearly match by `skip`."""

    def report_change(
        self,
        node: ir.Node,
        replacement: str | None,
        defects: tuple[Defect, ...] = (),
        obstacle: str = "",
    ) -> None:
        """Add a node to `changes`.

        Args:
            node: A node that was replaced, or a node with defects that has no correct replacement.
            replacement: The operators that replaced the node; `NOTHING` if it was removed; None if it stays.
            defects: The defects of engines that the node triggers.
            obstacle: The reason why the node has no replacement, if it is known.
        """
        self.changes.append(Change(node_name(node), node.op_type, replacement, defects, obstacle, origin_of(node)))
        if replacement is not None:
            self.analysis.forget()  # the cached nodes are out of date

    def skip(self, node: ir.Node, reason: object) -> None:
        """Add a node to `skipped`. `reason` is a string, or an exception whose text is the reason."""
        self.skipped.append(Skipped(node_name(node), node.op_type, str(reason)))

    @property
    def value_info(self) -> ValueInfo:
        """Sizes, types and elements of values, as far as they are known."""
        return self.analysis.value_info

    def sizes(self, value: ir.Value | None) -> Sizes | None:
        """Return the size of each axis, None for an unknown size. Return None for no value or an unknown rank."""
        return None if value is None else self.value_info.sizes.get(value)

    def static_shape(self, value: ir.Value | None) -> tuple[int, ...] | None:
        """Return the shape of a value. Return None unless every size is known."""
        return static_sizes(self.sizes(value))

    def size(self, value: ir.Value | None, axis: int) -> int | None:
        """Return the size of a non-negative axis. Return None if the size is unknown or there is no such axis."""
        shape = self.sizes(value)
        return shape[axis] if shape is not None and axis < len(shape) else None

    def on_directml(self, node: ir.Node, defects: tuple[Defect, ...]) -> tuple[Defect, ...]:
        """Return the defects of a node as they show where onnxruntime places it; see `adapt_to_placement`."""
        adapted = [adapt_to_placement(node, defect, self.value_info.dtype, self.sizes) for defect in defects]
        return tuple([defect for defect in adapted if defect is not None])

    def set_value_info(self, value: ir.Value, data: ir.Value, sizes: Sizes | None, sibling: ir.Value) -> None:
        """Set the name, type and sizes of a new value. Record its type and sizes in `value_info`.

        The provisional name is `sibling.name` with a suffix. The type is the type of `data`. Unknown `sizes` are None.
        """
        value.name = f"{sibling.name or ''}_part"
        mark_new(value)
        value.type = self.value_info.types.get(data)
        if value.type is not None:
            self.value_info.types[value] = value.type
        if sizes is not None:
            self.value_info.sizes[value] = sizes
            value.shape = None if value.type is None else ir.Shape(sizes)  # onnx stores a shape inside a type

    def breaks_reshape(self, successors: Mapping[ir.Value, ir.Value], new: Sequence[ir.Node] = ()) -> bool:
        """Return whether a Reshape that runs would fail if `successors` replaced their keys; see `would_fail`.

        If so, detach the nodes in `new`, because they would count as readers of their inputs.
        """
        breaks = would_fail(successors, self.value_info, self.edits.identities)
        for node in new if breaks else ():
            detach_inputs(node)
        return breaks

    def remove_node(self, node: ir.Node) -> None:
        """Remove a node that nothing reads. Then remove what nothing reads any more; see `remove_unread`."""
        inputs = node.inputs
        remove_nodes([node])
        for value in inputs:
            remove_unread(value)

    def replace_outputs(self, node: ir.Node, successors: Mapping[ir.Value, ir.Value]) -> None:
        """Remove a node and report it. Readers of its outputs read existing values instead.

        `successors` maps each used output to an existing value. For an output of the graph, an Identity copies the
        existing value, because the output and the value must keep their names.

        Raises:
            Skip: One output of a Split would be multiplied by the Sigmoid of another; see `would_be_gated`. Or a
                Reshape would fail; see `would_fail`.
        """
        if self.breaks_reshape(successors):
            raise Skip(WOULD_FAIL)
        # For each Split, the outputs of `node` that parts of this Split replace.
        replaced_outputs: dict[ir.Node, list[ir.Value]] = defaultdict(list)
        for output, value in successors.items():
            split = self.edits.identities.source_of(value).producer()
            if is_valid_operator(split, "Split"):
                replaced_outputs[split].append(output)
        for split, outputs in replaced_outputs.items():
            if would_be_gated(split.outputs, outputs, self.edits.identities):
                raise Skip(WOULD_BE_GATED)
        replacement = NOTHING
        for output, value in successors.items():
            if output.is_graph_output():
                replacement = "Identity"
                identity = ir.node("Identity", [value])
                annotate_nodes([identity], [node])
                annotate_value(identity.outputs[0], output)
                self.value_info.copy_entry(identity.outputs[0], output)
                self.edits.replace_nodes(node, [], [identity], {output: identity.outputs[0]})
            elif count_uses(output):
                self.edits.replace_value(output, value)
        self.remove_node(node)
        self.report_change(node, replacement)

    def replace_node(
        self, node: ir.Node, new: Sequence[ir.Node], defects: tuple[Defect, ...] = (), replacement: str = ""
    ) -> None:
        """Replace a node that has one output by the nodes in `new`, and report it.

        The last new node gets the name of the old node, and its output replaces the old output. `replacement` names the
        new nodes in the report. By default, the report lists their operators: Constant only if there is no other.
        """
        new[-1].name = node.name
        self.replace_nodes([node], new, {node.outputs[0]: new[-1].outputs[0]})
        operators = [new_node.op_type for new_node in new if new_node.op_type != "Constant"]
        self.report_change(node, replacement or ", ".join(operators) or "Constant", defects)

    def replace_nodes(
        self,
        old: Sequence[ir.Node],
        new: Sequence[ir.Node],
        successors: Mapping[ir.Value, ir.Value],
        annotated: Sequence[ir.Node] | None = None,
        position: ir.Node | None = None,
    ) -> None:
        """Replace nodes. Remove nodes and initializers that only the old nodes read. The caller reports the change.

        Args:
            old: The nodes to remove.
            new: The nodes to insert.
            successors: For each used output of the old nodes, the new value that replaces it. The new value takes over
                the name, type, shape and annotations.
            annotated: The new nodes that get the annotations of the old nodes. None stands for the last new node.
            position: The old node after which the new nodes are inserted. None stands for the last old node.
        """
        for value, successor in successors.items():
            annotate_value(successor, value)
            self.value_info.copy_entry(successor, value)
        annotate_nodes(new[-1:] if annotated is None else annotated, old)
        inputs = [source for node in old for source in node.inputs]  # read now, because removed nodes lose their inputs
        self.edits.replace_nodes(position or old[-1], old, new, successors)
        for source in inputs:
            remove_unread(source)

    def replace_each_output(self, node: ir.Node, new: Mapping[ir.Value, Sequence[ir.Node]]) -> None:
        """Replace a node by separate nodes for each used output. The caller reports the change.

        `new` maps each used output to its new nodes. The last of these nodes writes the output, and is renamed.
        """
        last_nodes = {output: nodes[-1] for output, nodes in new.items()}
        for output, last in last_nodes.items():
            last.name = f"{node_name(node)}_{output.name or ''}" if len(new) > 1 else node.name
        successors = {output: last.outputs[0] for output, last in last_nodes.items()}
        self.replace_nodes([node], list(chain.from_iterable(new.values())), successors, list(last_nodes.values()))

    def replace_by_constants(self, node: ir.Node, tensors: Sequence[ir.TensorProtocol]) -> None:
        """Replace a node by constants and report it. `tensors` holds one tensor for each used output, in order.

        Skip the node instead if engines would refuse a model with one of the constants (see `is_forbidden_shape`), or
        if a Reshape would fail (see `would_fail`).
        """
        constants = dict(zip(filter(is_used, node.outputs), tensors, strict=True))
        if any(is_forbidden_shape(output, tensor.numpy) for output, tensor in constants.items()):
            reason = "engines refuse a constant that is the shape of a Reshape with allowzero=1 and has a 0 and a -1"
            self.skip(node, reason)
            return
        nodes = {output: [build_tensor_constant(tensor)] for output, tensor in constants.items()}
        successors = {output: new_nodes[-1].outputs[0] for output, new_nodes in nodes.items()}
        if self.breaks_reshape(successors):
            self.skip(node, WOULD_FAIL)
            return
        self.replace_each_output(node, nodes)
        self.report_change(node, "Constant")


class NodePass(SlicingPass):
    """A pass that looks at the nodes of `op_types` one at a time.

    Attributes:
        visits: Further operators whose nodes it looks at.
        spares_siblings: Whether the pass uses `split_members`.
        split_members: The nodes that `SiblingsToSplitPass` can replace. Empty unless `spares_siblings` is true.
    """

    visits: ClassVar[tuple[str, ...]] = ()
    spares_siblings: ClassVar[bool] = False
    split_members: frozenset[ir.Node] = frozenset()

    def _apply(self) -> None:
        # By node: the result of `read_once`, or the Skip that it raises.
        self._read_results: dict[ir.Node, Any] = {}
        self.split_members = self.analysis.siblings.split_members if self.spares_siblings else frozenset()
        for node, opset in self.analysis.nodes_of(*self.op_types, *self.visits):
            if node.graph is not None:  # otherwise the rewriting of another node has removed it
                self._visit(node, opset)
        self.split_members = frozenset()  # the pass keeps no nodes after its run
        self._read_results.clear()

    def read_once(self, node: ir.Node, read: Callable[[], T]) -> T:
        """Call `read` and return its result. Later calls for the same node in this run of the pass return it again.

        Raises:
            Skip: `read` raised one of `SKIPS` when it was called for the node.
        """
        if node not in self._read_results:
            try:
                self._read_results[node] = read()
            except SKIPS as reason:
                self._read_results[node] = Skip(str(reason))
        result = self._read_results[node]
        if isinstance(result, Skip):
            raise result
        return cast("T", result)

    def _visit(self, node: ir.Node, opset: int) -> None:
        """Call `_rewrite` for a node. Skip the node if it is invalid, or if `_rewrite` raises one of `SKIPS`."""
        if node in self.value_info.invalid:
            self.skip(node, self.value_info.invalid[node])
            return
        # `has_valid_arity` is for standard operators only. ExpandStridedSlicePass checks a StridedSlice itself.
        if not (is_strided_slice(node) or has_valid_arity(node)):
            counts = f"{count_of(len(node.inputs), 'input')} and {count_of(len(node.outputs), 'output')}"
            is_data_missing = bool(node.inputs) and node.inputs[0] is None
            self.skip(node, "its first input is missing" if is_data_missing else f"{node.op_type} cannot have {counts}")
            return
        try:
            self._rewrite(node, opset)
        except SKIPS as reason:
            self.skip(node, reason)

    @abstractmethod
    def _rewrite(self, node: ir.Node, opset: int) -> None:
        """Rewrite a node of operator set `opset` if it matches, and report it.

        Raises:
            Skip, InvalidSlice, DynamicSlice: The node nearly matches, and stays. The error's text is the reason.
        """


@caching_reads()
def run_until_stable(passes: Sequence[SlicingPass], analysis: Analysis) -> list[list[Change]]:
    """Run passes over an analysed model again and again until none of the passes changes the model.

    Returns:
        For each pass, its changes in all rounds, then the nodes that it could not fix in the last round.
    """
    all_changes: list[list[Change]] = [[] for _ in passes]
    is_stale, modified = False, True
    while modified or is_stale:
        # Inference takes longer than the passes, so it runs only after a round without changes, after a pass that
        # reveals shapes, and in a pass that needs the newest facts. When a round without changes follows a change, all
        # passes run once more, because not all of them used the newest facts.
        if not modified:
            if not analysis.is_current:
                analysis.infer()
            is_stale = False
        modified = False
        for slicing_pass, changes in zip(passes, all_changes, strict=True):
            if slicing_pass.run(analysis):
                modified = is_stale = True
                if slicing_pass.reveals_shapes:
                    analysis.infer()
            changes += [change for change in slicing_pass.changes if change.replacement is not None]
    for slicing_pass, changes in zip(passes, all_changes, strict=True):
        changes += [change for change in slicing_pass.changes if change.replacement is None]
    return all_changes


def harden_by(model: ir.Model, passes: Sequence[SlicingPass], report: Hardening) -> Hardening:
    """Run passes until none of them changes the model any more, and complete the report of a model without nodes.

    Raises:
        ModelError: The model is not well-formed.
    """
    with ready_for_passes(model):
        analysis = Analysis(model)
        nodes, invalid = len(analysis.nodes_of(*SLICING)), tuple(analysis.value_info.list_invalid())
        changes = tuple(chain.from_iterable(run_until_stable(passes, analysis)))
    return replace(report, nodes=nodes, changes=changes, invalid=invalid)
