"""ONNX models from text, and of one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper, parser

from onnx_ops.model.io import read_to_change, to_ir
from sliceport.engines.engine import Array


def element_type(array: Array) -> int:
    """Return TensorProto's number for the elements of an array."""
    return ir.DataType.from_numpy(array.dtype).value


def parse(graph: str, opset: int = 18, ir_version: int = 8, **domains: int) -> onnx.ModelProto:
    """Parse `(inputs) => (outputs) <initializers> { nodes }`, followed by functions; `domains` are more imports."""
    imports = ", ".join(f'"{domain}" : {version}' for domain, version in {"": opset, **domains}.items())
    return parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{imports}]> g {graph}")


def integers(**lists: Sequence[int]) -> str:
    """Return lists of integers as the text of a graph's initializers."""
    return ", ".join(
        f"int64[{len(values)}] {name} = {{{', '.join(map(str, values))}}}" for name, values in lists.items()
    )


def read_model(path: Path) -> ir.Model:
    """Read a model's file into onnx-ir, as the commands do that change it."""
    return to_ir(read_to_change(path))


def save(model: str | onnx.ModelProto, path: Path, opset: int = 18, ir_version: int = 8) -> Path:
    """Save a model, or the one that `parse` returns for a graph."""
    onnx.save(parse(model, opset, ir_version) if isinstance(model, str) else model, path)
    return path


def one_node(
    op_type: str,
    opset: int,
    data: Array,
    parameters: Sequence[tuple[str, Array | None]] = (),
    attributes: Mapping[str, Any] | None = None,
    outputs: int = 1,
    *,
    run_time: bool = False,
) -> onnx.ModelProto:
    """Return a model of one node that cuts `data`.

    Args:
        parameters: Name and value of each further input in order; None leaves one out.
        run_time: Whether these are inputs of the model instead of initializers.
    """
    names = [name if value is not None else "" for name, value in parameters]
    while names and not names[-1]:
        names.pop()
    given = [(name, value) for name, value in parameters if value is not None]
    results = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(op_type, ["data", *names], results, "node", **dict(attributes or {}))
    inputs = [helper.make_tensor_value_info("data", element_type(data), data.shape)]
    if run_time:
        inputs += [helper.make_tensor_value_info(name, element_type(value), value.shape) for name, value in given]
    graph = helper.make_graph(
        [node],
        "one_node",
        inputs,
        [helper.make_tensor_value_info(name, element_type(data), None) for name in results],
        [] if run_time else [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in given],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
