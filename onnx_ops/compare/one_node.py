"""A resolved node as a model of its own, its parameters as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from sliceport.slicing import SliceSpec, SplitSpec
from sliceport.slicing.node import Resolved


def element_dtype(element: str) -> np.dtype[Any]:
    """NumPy's type for an ONNX element type."""
    return np.dtype(ir.DataType[element].numpy())


def output_names(node: Resolved) -> list[str]:
    """The names that `one_node` gives to what the node's cuts select, in order."""
    return [f"out{i}" for i in range(len(node.cuts))]


def one_node(node: Resolved, names: Sequence[str]) -> onnx.ModelProto:
    """A model of one Slice-13 or Split-13 that reads `data` and writes the given names."""
    spec = node.spec
    assert isinstance(spec, SliceSpec | SplitSpec)
    if isinstance(spec, SplitSpec):
        parameters = {"split": spec.sizes}
        made = onnx.helper.make_node("Split", ["data", "split"], list(names), axis=spec.axis)
    else:
        given = {"starts": spec.starts, "ends": spec.ends, "axes": spec.axes, "steps": spec.steps}
        parameters = {name: values for name, values in given.items() if values is not None}
        made = onnx.helper.make_node("Slice", ["data", *(n if n in parameters else "" for n in given)], list(names))
        while not made.input[-1]:
            made.input.pop()
    element = ir.DataType[node.element].value
    graph = onnx.helper.make_graph(
        [made],
        "one_node",
        [onnx.helper.make_tensor_value_info("data", element, list(node.cuts[0].region.input_shape))],
        [
            onnx.helper.make_tensor_value_info(name, element, list(cut.region.output_shape))
            for name, cut in zip(names, node.cuts, strict=True)
        ],
        [onnx.numpy_helper.from_array(np.array(values, np.int64), name) for name, values in parameters.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
