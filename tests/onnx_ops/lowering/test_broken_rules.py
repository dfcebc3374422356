"""Nodes that keep every rule, and nodes that break one: we refuse exactly what onnxruntime's CPU provider refuses.

The fuzzer of one node draws the nodes, and holds each against the oracle and against onnxruntime.
"""

from __future__ import annotations

from random import Random

import pytest
from amounts import amount
from fuzz import one_node
from fuzz.modules import Case
from oracle import OracleError

CASES = amount(80)


def is_allowed(case: Case) -> bool:
    try:
        one_node.expected_indices(case)
    except OracleError:
        return False
    return True


@pytest.mark.usefixtures("inferred_once")
@pytest.mark.parametrize(
    ("op", "rule"), [(op, rule) for op, rules in one_node.RULES.items() for rule in (None, *rules)]
)
def test_nodes_are_refused_where_onnxruntime_refuses_them(op: str, rule: str | None) -> None:
    refused = 0
    for number in range(CASES):
        case = one_node.draw(Random(f"{op} {rule} {number}"), op, rule)
        assert one_node.check(case) is None, case
        refused += not is_allowed(case)
    assert refused > CASES // 10 if rule else refused < CASES // 2
