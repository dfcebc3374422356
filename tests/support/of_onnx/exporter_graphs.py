"""Small graphs that slice as exporters write it, from `data/exporter_graphs.toml`, which describes their text."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, parser, shape_inference

LIMITS = {"max": str(2**63 - 1), "min": str(-(2**63))}
_FILE = Path(__file__).parents[2] / "data" / "exporter_graphs.toml"
GRAPHS: dict[str, str] = tomllib.loads(_FILE.read_text(encoding="utf-8"))


def build(name: str, opset: int) -> onnx.ModelProto:
    """Return the model of a graph in operator set 13 or later."""
    tensors: dict[str, onnx.TensorProto] = {}

    def add_constant(match: re.Match[str]) -> str:
        values = [int(LIMITS.get(word, word)) for word in match[1].split(",")]
        tensor = helper.make_tensor(f"constant_{len(tensors)}", TensorProto.INT64, [len(values)], values)
        return tensors.setdefault(match[1], tensor).name

    text = re.sub(r"\$(\d)", r", num_outputs = \1" if opset >= 18 else "", GRAPHS[name])
    text = re.sub(r"@((?:-?\d+|max|min)(?:,(?:-?\d+|max|min))*)", add_constant, text)
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')
    model.graph.initializer.extend(tensors.values())
    return shape_inference.infer_shapes(model)


def make_inputs(model: onnx.ModelProto, size: int) -> dict[str, npt.NDArray[Any]]:
    """Return an array of distinct elements for each input, whose open axes get a size."""
    shapes = {
        value.name: [dim.dim_value if dim.HasField("dim_value") else size for dim in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    return {
        name: (np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32) / 64).reshape(shape)
        for name, shape in shapes.items()
    }
