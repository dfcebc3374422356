"""Construction of nodes, whose form depends on the operator set.

A function that returns several nodes returns the operator last, after the Constants that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_ops.model.nodes import SLICE_INPUTS_OPSET, SPLIT_INPUT_OPSET
from onnx_ops.passes.names import mark_new
from onnx_ops.passes.outcome import Skip
from sliceport.slicing import AxisSlice
from sliceport.slicing.axis import INT64_MAX

SHAPE_INPUT_OPSET = 5
"""The first operator set whose Reshape has its shape as an input."""
AXES_INPUT_OPSET = 13
"""The first operator set whose Squeeze, Unsqueeze and ReduceSum have their axes as an input."""


class NodeList(list[ir.Node]):
    """New nodes, in the order of the graph."""

    def add(self, *nodes: ir.Node) -> ir.Value:
        """Append nodes, and return the first output of the last one."""
        self += nodes
        return nodes[-1].outputs[0]


def build_constant(values: Sequence[int] | int) -> ir.Node:
    """Return a Constant node of a list of int64 or of one int64 scalar. Its output gets a unique name later."""
    node = build_tensor_constant(ir.Tensor(np.array(values, np.int64), dtype=ir.DataType.INT64))
    mark_new(node.outputs[0])
    return node


def build_tensor_constant(tensor: ir.TensorProtocol) -> ir.Node:
    """Return a Constant node that holds a tensor."""
    return ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])


def build_empty(shape: Sequence[int], dtype: ir.DataType) -> ir.Node:
    """Return a Constant node of a tensor without elements.

    Raises:
        Skip: NumPy refuses the shape, because the product of the sizes other than 0 is too large.
    """
    try:
        empty = np.zeros(shape, dtype.numpy())
    except ValueError:
        raise Skip(f"a constant of shape {list(shape)} is beyond what NumPy can hold, although it is empty") from None
    # onnx-ir cannot write a plain tensor of strings.
    is_text = dtype == ir.DataType.STRING
    return build_tensor_constant(ir.StringTensor(empty) if is_text else ir.tensor(empty, dtype=dtype))


def build_slice(
    data: ir.Value, entries: Mapping[int, AxisSlice], opset: int, *, lists_steps: bool = False
) -> list[ir.Node]:
    """Return the nodes of a Slice. `entries` holds the start, end and step of each axis that it cuts.

    The steps are left out if all of them are 1 and `lists_steps` is false. Before opset 10, Slice has no steps.

    Raises:
        Skip: A step is not 1, and the operator set is older than 10.
    """
    axes = list(entries)
    starts, ends, steps = ([entry[field] for entry in entries.values()] for field in range(3))
    if opset < SLICE_INPUTS_OPSET:
        for axis, step in zip(axes, steps, strict=True):
            if step != 1:
                raise Skip(
                    f"the new Slice needs step {step} on axis {axis}, but Slice has no steps before opset "
                    f"{SLICE_INPUTS_OPSET}, and this is opset {opset}"
                )
        return [ir.node("Slice", [data], {"starts": starts, "ends": ends, "axes": axes})]
    lists = [starts, ends, axes] + ([steps] if lists_steps or any(step != 1 for step in steps) else [])
    constants = [build_constant(values) for values in lists]
    return [*constants, ir.node("Slice", [data, *(node.outputs[0] for node in constants)])]


def build_gather(data: ir.Value, axis: int, indices: Sequence[int] | int) -> list[ir.Node]:
    """Return the nodes of a Gather by a list of indices, or by one index, which drops the axis."""
    constant = build_constant(indices)
    return [constant, ir.node("Gather", [data, constant.outputs[0]], {"axis": axis})]


def build_split(data: ir.Value, axis: int, sizes: Sequence[int], opset: int) -> list[ir.Node]:
    """Return the nodes of a Split of an axis into parts of these sizes."""
    if opset < SPLIT_INPUT_OPSET:
        return [ir.node("Split", [data], {"axis": axis, "split": list(sizes)}, num_outputs=len(sizes))]
    constant = build_constant(sizes)
    node = ir.node("Split", [data, constant.outputs[0]], {"axis": axis}, num_outputs=len(sizes))
    return [constant, node]


def build_reshape(data: ir.Value, shape: Sequence[int]) -> list[ir.Node]:
    """Return the nodes of a Reshape whose shape is an input, which requires opset `SHAPE_INPUT_OPSET` or later.

    Raises:
        Skip: A size is beyond 64 bits.
    """
    if max(shape, default=0) > INT64_MAX:
        raise Skip(f"a Reshape to {list(shape)} has a size beyond 64 bits")
    constant = build_constant(shape)
    return [constant, ir.node("Reshape", [data, constant.outputs[0]])]


def build_with_axes(op_type: str, data: ir.Value, axes: Sequence[int], opset: int, **attributes: int) -> list[ir.Node]:
    """Return the nodes of a Squeeze, Unsqueeze or ReduceSum. Before opset 13, the axes are an attribute."""
    if opset < AXES_INPUT_OPSET:
        return [ir.node(op_type, [data], {"axes": list(axes), **attributes})]
    constant = build_constant(axes)
    return [constant, ir.node(op_type, [data, constant.outputs[0]], attributes)]
