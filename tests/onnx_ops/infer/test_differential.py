"""Facts that are inferred for one node hold for the tensors that onnxruntime computes."""

from __future__ import annotations

import pytest
from node_cases import OPERATORS, check_case, draw_case

from onnx_ops.infer import exact, rules, shape_arithmetic

CASES = 200


@pytest.mark.parametrize("op_type", OPERATORS)
def test_facts_hold_for_real_tensors(op_type: str) -> None:
    verdicts = [check_case(draw_case(op_type, number)) for number in range(CASES)]
    assert {number: verdict.wrong for number, verdict in enumerate(verdicts) if verdict.wrong} == {}
    ran = [verdict for verdict in verdicts if verdict.ran]
    assert len(ran) > CASES / 3
    assert op_type == "Scan" or sum(verdict.claims for verdict in ran) > len(ran) / 4


def test_each_operator_with_own_rules_has_cases() -> None:
    own = {*rules._RULES, *shape_arithmetic._MOVES, *shape_arithmetic._ELEMENTWISE, *exact.OPERATORS}
    assert own <= set(OPERATORS)
