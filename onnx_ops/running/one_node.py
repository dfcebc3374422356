"""A model of one resolved node, with the parameters of its spec."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.model.io import from_proto
from onnx_ops.strided_slice_op import embed_function
from sliceport.slicing import SliceSpec, SplitSpec, StridedSliceSpec
from sliceport.slicing.node import Resolved


def element_dtype(element: str) -> np.dtype[Any]:
    """Return the type in NumPy or ml_dtypes for an ONNX element type, such as `FLOAT`; `object` for `STRING`."""
    return np.dtype(ir.DataType[element].numpy())


def output_names(node: Resolved) -> list[str]:
    """Return names for the outputs of a node in `build_model`: `out0`, `out1` and so on."""
    return [f"out{i}" for i in range(len(node.cuts))]


def build_model(node: Resolved) -> onnx.ModelProto:
    """Build a model of one node, a Slice-13, Split-13 or ov_ext::StridedSlice that reads `data`; see `output_names`.

    The model of an ov_ext::StridedSlice contains the operator's function. The shapes are those of the node's Regions.
    """
    names = output_names(node)
    node_proto, constants = _make_node(node, names)
    make_info = onnx.helper.make_tensor_value_info
    element = ir.DataType[node.element].value
    graph = onnx.helper.make_graph(
        [node_proto],
        "one_node",
        [make_info("data", element, node.cuts[0].region.input_shape)],
        [make_info(name, element, cut.region.output_shape) for name, cut in zip(names, node.cuts, strict=True)],
        [onnx.numpy_helper.from_array(np.array(values, np.int64), name) for name, values in constants.items()],
    )
    if not node_proto.domain:  # a standard operator
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    # The function of StridedSlice is written in opset 17.
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(STRIDED_SLICE_DOMAIN, 1)]
    model = from_proto(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))
    embed_function(model)
    return ir.serde.serialize_model(model)


def _make_node(node: Resolved, outputs: list[str]) -> tuple[onnx.NodeProto, dict[str, tuple[int, ...]]]:
    """Return the node, and the integers of each constant input by the name of the input."""
    spec = node.spec
    if isinstance(spec, SplitSpec):
        return onnx.helper.make_node("Split", ["data", "split"], outputs, axis=spec.axis), {"split": spec.sizes}
    if isinstance(spec, SliceSpec):
        parameters = {"starts": spec.starts, "ends": spec.ends, "axes": spec.axes, "steps": spec.steps}
    else:
        assert isinstance(spec, StridedSliceSpec)
        parameters = {"begin": spec.begin, "end": spec.end, "strides": spec.strides}
    constants = {name: values for name, values in parameters.items() if values is not None}
    inputs = ["data", *(name if name in constants else "" for name in parameters)]
    while not inputs[-1]:  # absent inputs at the end are left out, others have an empty name
        inputs.pop()
    if isinstance(spec, SliceSpec):
        return onnx.helper.make_node("Slice", inputs, outputs), constants
    masks: dict[str, Any] = {name: list(mask) for name, mask in spec.masks.attributes.items() if mask}
    return onnx.helper.make_node("StridedSlice", inputs, outputs, domain=STRIDED_SLICE_DOMAIN, **masks), constants
