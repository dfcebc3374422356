"""Slice, where onnxruntime's DirectML provider refuses it, with its bounds written otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from onnx_ops.errors import DynamicSlice, InvalidSlice
from onnx_ops.hardening import Defect
from onnx_ops.model.nodes import slice_spec
from onnx_ops.passes.base import NodePass, Sizes, constant_node, empty_node, put_in_place
from onnx_ops.slicing import SliceSpec

NO_AXES = Defect("steps without axes", "the provider refuses a Slice that has steps and leaves out its axes")
BELOW = Defect("backwards from below the axis", "the provider refuses a backward Slice that starts below the axis")
LEAST_START = Defect(
    "from the least integer to a negative end",
    "the provider refuses a forward Slice that starts at or below -2^31 and has a negative end",
)
EMPTY = Defect(
    "nothing is selected",
    "the provider skips all that it fuses with a Slice that selects nothing, so the others are never written",
)
_INT32_MIN = -(2**31)
_SLICE_INPUTS_OPSET = 10
_STEPS = 4


class SliceForDirectMLPass(NodePass):
    """Write the bounds of a Slice as onnxruntime-directml 1.24.4 takes them; it selects the same.

    1. Steps are given and axes are not: the axes are written out.
    2. A step is negative and its start is below the axis (below -2^31, or the size of the axis is known): it becomes 0.
    3. A step is positive, its start at or below -2^31 and its end negative: the start becomes 0.

    4. Nothing is selected, of a shape that is known: the Slice becomes a constant.

    Given: y = Slice(x[4], starts=[-100], ends=[-200], axes=[0], steps=[-1])
    Result: y = Slice(x, starts=[0], ends=[-200], axes=[0], steps=[-1])

    Not seen: bounds that are not constants.
    """

    op_type = "Slice"

    def rewrite(
        self, node: ir.Node, opset: int, sizes: Mapping[str, Sizes]
    ) -> tuple[str | None, tuple[Defect, ...]] | None:
        """See the class."""
        if opset < _SLICE_INPUTS_OPSET:
            return None
        try:
            spec = slice_spec(node, opset)
        except (InvalidSlice, DynamicSlice):
            return None
        data = node.inputs[0]
        shape = sizes.get(data.name or "") if data is not None else None
        empty = _empty_shape(spec, shape)
        if empty is not None and data is not None and data.dtype is not None:
            new = empty_node(empty, data.dtype)
            new.name = node.name
            put_in_place(node, [new], {node.outputs[0]: new.outputs[0]})
            return "Constant", (EMPTY,)
        starts, found = _starts(spec, shape)
        if spec.axes is None and len(node.inputs) > _STEPS and node.inputs[_STEPS] is not None:
            found.append(NO_AXES)
        if not found:
            return None
        spec = replace(spec, starts=starts, axes=spec.axes or tuple(range(len(spec.starts))))
        for index, values in ((1, spec.starts), (3, spec.axes)):
            made = constant_node(values or ())
            assert node.graph is not None
            node.graph.insert_before(node, made)
            node.resize_inputs(max(len(node.inputs), index + 1))
            node.replace_input_with(index, made.outputs[0])
        return "Slice", tuple(found)


def _empty_shape(spec: SliceSpec, shape: Sizes | None) -> tuple[int, ...] | None:
    """The shape of what is selected of a known shape, if it has no elements and the data has some."""
    known = [size for size in shape or () if size]
    if shape is None or len(known) != len(shape):
        return None
    try:
        region = spec.resolve(known)
    except InvalidSlice:
        return None
    return region.output_shape if region.is_empty else None


def _starts(spec: SliceSpec, shape: Sizes | None) -> tuple[tuple[int, ...], list[Defect]]:
    starts, found = [], []
    axes = spec.axes if spec.axes is not None else tuple(range(len(spec.starts)))
    steps = spec.steps or (1,) * len(spec.starts)
    for start, end, axis, step in zip(spec.starts, spec.ends, axes, steps, strict=False):
        size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
        is_below = start <= _INT32_MIN or (size is not None and start < -size)
        if step < 0 and is_below:
            found.append(BELOW)
        elif step > 0 and start <= _INT32_MIN and end < 0:
            found.append(LEAST_START)
        else:
            starts.append(start)
            continue
        starts.append(0)
    return tuple(starts), list(dict.fromkeys(found))
