"""The values before chains of Identity nodes, while values are replaced."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_ops.passes.edits import GraphEdits, Identities


def make_chain(data: ir.Value, count: int) -> list[ir.Value]:
    values = [data]
    for _ in range(count):
        values += ir.node("Identity", [values[-1]]).outputs
    return values


def test_each_node_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many nodes may read through a long chain."""
    values = make_chain(ir.Value(name="x"), 100)
    asked: list[ir.Value] = []
    producer = ir.Value.producer

    def ask(value: ir.Value) -> ir.Node | None:
        asked.append(value)
        return producer(value)

    monkeypatch.setattr(ir.Value, "producer", ask)
    identities = Identities()
    assert [identities.source_of(value) for value in values[::-1]] == [values[0]] * 101
    assert len(asked) < 400


@pytest.mark.parametrize("at", [0, 1, 5, 9])
def test_what_is_replaced_in_a_chain_counts(at: int) -> None:
    """Before the chain and inside of it."""
    values = make_chain(ir.node("Abs", [ir.Value(name="x")]).outputs[0], 10)
    edits = GraphEdits()
    assert edits.identities.source_of(values[-1]) is values[0]
    other, third = ir.node("Neg", [ir.Value(name="y")]).outputs[0], ir.Value(name="z")
    edits.replace_value(values[at], other)
    assert edits.identities.source_of(values[-1]) is other
    assert edits.identities.source_of(values[at + 1]) is other
    edits.replace_value(other, third)
    assert edits.identities.source_of(values[-1]) is third
