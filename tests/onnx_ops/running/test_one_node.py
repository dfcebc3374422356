"""A slicing node alone: `ov_ext::StridedSlice`, too, is a model that any runtime runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from onnx_ops.lowering import lower
from onnx_ops.running.compare import compare
from onnx_ops.running.one_node import build_model

CONSTANTS = "<int64[2] begin = {-1, 0}, int64[2] end = {-9, 1}, int64[2] strides = {-2, 1}>"
NODE = "StridedSlice <end_mask = [1, 0], new_axis_mask = [0, 1]>"
MASKED = f"(float[6, 3] x) => (float[a, b, c] y) {CONSTANTS} {{ y = ov_ext.{NODE}(x, begin, end, strides) }}"
WITHOUT_STRIDES = (
    "(float[6] x) => (float[a] y) <int64[1] s = {1}, int64[1] e = {4}> { y = ov_ext.StridedSlice(x, s, e) }"
)
IN_A_BODY = f"""(float[6, 3] x) => (float[a, b, c] y) {CONSTANTS} {{
    total = ReduceSum<keepdims = 0>(x)
    is_true = Cast<to = 9>(total)
    y = If (is_true) <
        then_branch = one () => (float[d, e, f] u) {{ u = ov_ext.{NODE}(x, begin, end, strides) }},
        else_branch = two () => (float[g, h, i] v) {{ v = ov_ext.{NODE}(x, begin, end, strides) }}
    >
}}"""


def model_of(graph: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17, "ov_ext" : 1]> g {graph}')


@pytest.mark.parametrize(("graph", "expected"), [(MASKED, (3, 1, 3)), (WITHOUT_STRIDES, (3,))])
def test_a_runtime_computes_it(graph: str, expected: tuple[int, ...]) -> None:
    (lowered,) = lower(model_of(graph)).nodes
    node = lowered.resolved
    shape = node.cuts[0].region.input_shape
    x = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    (got,) = ReferenceEvaluator(build_model(node)).run(None, {"data": x})
    assert isinstance(got, np.ndarray)
    assert got.tolist() == (x[::-2][:, None] if graph == MASKED else x[1:4]).tolist()
    assert got.shape == expected


def test_in_a_body_it_is_compared_alone(tmp_path: Path) -> None:
    onnx.save(model_of(IN_A_BODY), tmp_path / "m.onnx")
    report = compare(tmp_path / "m.onnx")
    assert [(found.status, found.alone) for found in report.comparisons] == [("equal", True)] * 2
