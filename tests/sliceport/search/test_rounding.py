"""A difference that close values decide is rounding, not a fault."""

from __future__ import annotations

import numpy as np
import onnx
from planted_faults import Differ, part_of

CONSTANTS = "float s = {0.00001}, uint8 z = {0}, float small = {0.0003}"
QUANTISED = f"""(float[400] x) => (y) <{CONSTANTS}> {{
    a = Abs (x)  b = Mul (a, small)  t = Selu<alpha = 1.0, gamma = 1.0>(b)
    q = QuantizeLinear (t, s, z)  y = DequantizeLinear (q, s, z)
}}"""


def scale_selu(proto: onnx.ModelProto, factor: float = 1 + 1e-6) -> None:
    """Let the engine round in each Selu."""
    for node in proto.graph.node:
        for attribute in node.attribute if node.op_type == "Selu" else ():
            attribute.f *= factor


def test_selection_by_close_values_is_rounding(differ: Differ) -> None:
    chain = [f"[n{i}] v{i} = Selu<alpha = 1.0, gamma = 1.0>(v{i - 1})" for i in range(1, 40)]
    nodes = "  ".join([*chain, "p = Concat<axis = 0>(v39, limit)", "[top] y, z = TopK(p, one)"])
    constants = "float[1] limit = {1.00002}, int64[1] one = {1}"
    graph = f"(float[1] v0, float[2] x) => (z, s) <{constants}> {{ {nodes}  s = Neg (x) }}"
    report = differ(graph, scale_selu, inputs={"v0": np.ones(1, np.float32)})
    assert report.is_equal
    assert [output.status for output in report.outputs] == ["rounding", "equal"]
    part = part_of(report)
    assert (part.case.culprit.name, part.case.is_rounding) == ("top", True)
    assert report.runs < 70


def test_step_of_a_quantised_value_is_rounding(differ: Differ) -> None:
    report = differ(QUANTISED, scale_selu)
    assert report.is_equal
    assert {output.status for output in report.outputs} <= {"rounding", "equal", "close"}


def test_wrong_value_is_no_rounding(differ: Differ) -> None:
    chain = "  ".join(f"[n{i}] v{i} = Selu<alpha = 1.0, gamma = 1.0>(v{i - 1})" for i in range(1, 4))
    assert not differ(f"(float[8] v0) => (v3) {{ {chain} }}", lambda proto: scale_selu(proto, 1.001)).is_equal
