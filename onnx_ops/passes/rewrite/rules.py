"""Two of the passes as rewrite rules of onnxscript, for pipelines that consist of such rules."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_ops.model.nodes import CONTESTED, SLICE_INPUTS_OPSET
from onnx_ops.model.views import Sizes
from onnx_ops.passes.contested_nodes import unmark
from onnx_ops.passes.edits import Identities
from onnx_ops.passes.matchers import drop_whole_axes, read_slice, sizes_after
from onnx_ops.passes.outcome import SKIPS, Skip
from onnx_ops.passes.reshape_fusion import WOULD_FAIL, would_fail
from onnx_ops.passes.rewrite.compose_slices import compose_entries
from onnx_ops.passes.value_info import ValueInfo, infer_value_info
from sliceport.slicing import AxisSlice


def rules() -> Any:
    """Return a set of rules: from opset 10 on, two Slices become one, and a whole Slice an Identity.

    The rules share the arithmetic of `ComposeSlicesPass` and `RemoveIdentitySlicesPass`. Sizes are inferred when the
    set is applied to a model, because declared sizes may be wrong. A rule that is used outside this set knows no sizes.

    Returns:
        A `RewriteRuleSet` for `onnxscript.rewriter.rewrite(model, pattern_rewrite_rules=rules())`.
    """
    from onnxscript.rewriter import MatchResult, RewriteRuleClassBase, RewriteRuleSet

    info = ValueInfo()

    class InferringRuleSet(RewriteRuleSet):
        """Rules that are applied after inference."""

        def apply_to_model(self, model: ir.Model, **options: Any) -> int:
            nonlocal info
            info = infer_value_info(model)
            unmark(model, [CONTESTED])
            try:
                return int(super().apply_to_model(model, **options))
            finally:
                info = ValueInfo()

    def copy_info(value: ir.Value, source: ir.Value) -> ir.Value:
        info.copy_entry(value, source)
        return value

    class ComposeSlices(RewriteRuleClassBase):
        """Slice of a Slice."""

        def pattern(self, op: Any, x: Any) -> Any:
            first = op.Slice(x, _allow_other_inputs=True, _outputs=["first"])
            return op.Slice(first, _allow_other_inputs=True, _outputs=["second"])

        def check(self, context: Any, x: ir.Value, first: ir.Value, second: ir.Value) -> Any:
            result = MatchResult()
            shape = info.sizes.get(x)
            try:
                entries = _read_bounds(first, shape)
                shape_between = None if shape is None else sizes_after(entries, shape)
                self._entries = compose_entries(entries, _read_bounds(second, shape_between), shape)
            except SKIPS as reason:
                return result.fail(str(reason))
            return result

        def rewrite(self, op: Any, x: ir.Value, first: ir.Value, second: ir.Value) -> Any:
            # `check` has just set the entries for this match.
            return copy_info(_write_slice(op, x, self._entries), second)

    class RemoveIdentitySlices(RewriteRuleClassBase):
        """A Slice that keeps all elements."""

        def pattern(self, op: Any, x: Any) -> Any:
            return op.Slice(x, _allow_other_inputs=True, _outputs=["sliced"])

        def check(self, context: Any, x: ir.Value, sliced: ir.Value) -> Any:
            result = MatchResult()
            shape = info.sizes.get(x)
            try:
                is_whole = not drop_whole_axes(_read_bounds(sliced, shape), shape)
            except SKIPS as reason:
                return result.fail(str(reason))
            if not is_whole:
                return result.fail("the Slice does not keep all elements")
            return result.fail(WOULD_FAIL) if would_fail({sliced: x}, info, Identities()) else result

        def rewrite(self, op: Any, x: ir.Value, sliced: ir.Value) -> Any:
            return copy_info(op.Identity(x), sliced)

    rule_classes: list[Any] = [ComposeSlices, RemoveIdentitySlices]
    return InferringRuleSet([rule_class.rule() for rule_class in rule_classes])


def _read_bounds(output: ir.Value, shape: Sizes | None) -> dict[int, AxisSlice]:
    """Return the start, end and step of each axis that a Slice names. `output` is the output of the Slice.

    `shape` holds the sizes of the Slice's data. Raise one of `SKIPS` if the bounds are not known.
    """
    node = output.producer()
    assert node is not None
    if len(node.inputs) == 1:
        raise Skip("its bounds are attributes, as before opset 10")
    if any(value is not None and value.is_graph_input() for value in node.inputs[1:]):
        raise Skip("its bounds are inputs of the model, which a caller may replace")
    return read_slice(node, SLICE_INPUTS_OPSET, shape)


def _write_slice(op: Any, x: ir.Value, entries: dict[int, AxisSlice]) -> Any:
    """Add a Slice of `x` by `op`, onnxscript's builder of nodes, and return its output."""
    starts, ends, steps = zip(*entries.values(), strict=True) if entries else ((), (), ())
    inputs = (starts, ends, tuple(entries), steps)
    return op.Slice(x, *[op.Constant(value=ir.tensor(list(values), dtype=ir.DataType.INT64)) for values in inputs])
