"""Reshapes that run on onnxruntime run after rewriting, at each level of graph optimization and at size 0, too."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import onnx
import onnx_ir as ir
import onnxruntime as ort
from amounts import amount
from pass_cases.equivalence import outputs
from pass_cases.shape_lists import build_graph

from onnx_ops.model.io import from_proto
from onnx_ops.passes import BY_DEFAULT, rewrite

LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")
SIZES = (0, 1, 2, 3)


def open_at(proto: onnx.ModelProto, level: str) -> ort.InferenceSession | None:
    """Return a session at a level of graph optimization; None if onnxruntime does not load the model."""
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception:
        return None


def list_shapes(proto: onnx.ModelProto) -> list[tuple[int, ...]]:
    """Return the shapes of the input, with each of `SIZES` for each open size."""
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    return list(itertools.product(*[SIZES if dim.dim_param else (dim.dim_value,) for dim in dims]))


def find_failures(before: onnx.ModelProto, after: onnx.ModelProto) -> Iterator[str]:
    """Yield each level and shape at which `before` is right, as without optimization, and `after` is not."""
    unoptimized = open_at(before, LEVELS[0])
    if unoptimized is None:
        return
    expected = {shape: outputs(unoptimized, shape) for shape in list_shapes(before)}
    for level in LEVELS:
        first, second = open_at(before, level), open_at(after, level)
        for shape, values in expected.items():
            is_right = values is not None and first is not None and outputs(first, shape) == values
            if is_right and (second is None or outputs(second, shape) != values):
                yield f"{level} {shape}"


def test_reshapes_by_computed_sizes_run_as_before() -> None:
    for seed in range(amount(360)):
        proto = build_graph(seed)
        model = from_proto(proto)
        rewrite(model, BY_DEFAULT)
        failures = list(find_failures(proto, ir.serde.serialize_model(model)))
        assert not failures, f"seed {seed}: {failures}"
