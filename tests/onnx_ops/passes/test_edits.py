"""Changes of graphs of many outputs and of nodes of many inputs."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_ops.passes.edits import MANY, GraphEdits


def make_graph(count: int) -> tuple[ir.Graph, ir.Value, ir.Node, ir.Node]:
    """Build a graph whose outputs and the inputs of a Concat are `x` and the output of an Abs in turns."""
    x = ir.Value(name="x")
    first = ir.node("Abs", [x], name="first")
    concat = ir.node("Concat", [x, first.outputs[0]] * count, {"axis": 0}, name="concat")
    outputs = [first.outputs[0], concat.outputs[0]] * count
    return ir.Graph([x], outputs, nodes=[first, concat], name="g"), x, first, concat


@pytest.mark.parametrize("count", [2, MANY])
def test_a_value_is_replaced_wherever_it_is(count: int) -> None:
    graph, x, first, concat = make_graph(count)
    new = ir.node("Neg", [x], name="new")
    GraphEdits().replace_nodes(first, [first], [new], {first.outputs[0]: new.outputs[0]})
    assert list(graph) == [new, concat]
    assert list(concat.inputs) == [x, new.outputs[0]] * count
    assert list(graph.outputs) == [new.outputs[0], concat.outputs[0]] * count
    assert new.outputs[0].is_graph_output()
    assert not first.outputs[0].is_graph_output()
    assert not first.outputs[0].uses()
    assert {(use.node.name, use.idx) for use in x.uses()} == {("new", 0), *(("concat", 2 * i) for i in range(count))}
    assert [use.idx for use in new.outputs[0].uses()] == [2 * i + 1 for i in range(count)]


def test_nodes_of_many_inputs_change_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """One input after another would take the square of their number."""
    _, x, first, concat = make_graph(MANY)
    changed = []
    monkeypatch.setattr(ir.Node, "replace_input_with", lambda *args: changed.append(args))
    GraphEdits().replace_value(first.outputs[0], x)
    assert list(concat.inputs) == [x] * (2 * MANY)
    assert not changed
