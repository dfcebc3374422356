"""The values before chains of Identity nodes, while values are replaced."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_ops.passes.edits import GraphEdits, source_of


def make_chain(data: ir.Value, count: int) -> list[ir.Value]:
    values = [data]
    for _ in range(count):
        values += ir.node("Identity", [values[-1]]).outputs
    return values


@pytest.mark.parametrize("at", [0, 1, 5, 9])
def test_what_is_replaced_in_a_chain_counts(at: int) -> None:
    """Before the chain and inside of it."""
    values = make_chain(ir.node("Abs", [ir.Value(name="x")]).outputs[0], 10)
    edits = GraphEdits()
    assert source_of(values[-1]) is values[0]
    other, third = ir.node("Neg", [ir.Value(name="y")]).outputs[0], ir.Value(name="z")
    edits.replace_value(values[at], other)
    assert source_of(values[-1]) is other
    assert source_of(values[at + 1]) is other
    edits.replace_value(other, third)
    assert source_of(values[-1]) is third
