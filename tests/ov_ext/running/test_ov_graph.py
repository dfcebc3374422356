"""OpenVINO models as graphs that `diff` cuts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset8
from openvino_models import parameter

from ov_ext.running.ov_graph import OpenVINOGraph
from ov_ext.running.run_model import evaluate, run_model


def test_nodes_of_one_name_have_values_of_their_own() -> None:
    nodes = [parameter([2])]
    for _ in range(3):
        nodes.append(opset8.add(nodes[-1], nodes[-1]))
        nodes[-1].set_friendly_name("same")
    graph = OpenVINOGraph(ov.Model([opset8.result(node) for node in nodes[1::2]], nodes[:1], "m"))
    assert [node.reads for node in graph.nodes[1:]] == [node.writes for node in graph.nodes[:2]]
    inputs = {graph.inputs[0]: np.array([1, 2], np.float32)}
    values = run_model(graph.cut((), graph.outputs, inputs, {}), inputs, evaluate)
    assert [np.asarray(values[name]).tolist() for name in graph.outputs] == [[2, 4], [8, 16]]


@pytest.mark.parametrize(
    ("start", "stride", "part_size", "end", "expected"),
    [
        (0, 1, 1, -1, [[0], [1], [2], [3], [4], [5]]),
        (1, 1, 1, -1, [[1], [2], [3], [4], [5]]),
        (0, 1, 1, 3, [[0], [1], [2], [3]]),
        (-2, -1, 1, 0, [[4], [3], [2], [1], [0]]),
        (2, 2, 2, -1, [[2, 3], [4, 5]]),
    ],
)
def test_iterations_read_the_parts_between_start_and_end(
    start: int, stride: int, part_size: int, end: int, expected: list[list[int]]
) -> None:
    part, data = parameter([part_size]), parameter([6])
    body = ov.Model([opset8.result(opset8.negative(part))], [part], "body")
    iterator = opset8.tensor_iterator()
    iterator.set_body(body)
    iterator.set_sliced_input(part, data.output(0), start, stride, part_size, end, 0)
    output = iterator.get_iter_value(body.get_results()[0].output(0), -1)
    graph = OpenVINOGraph(ov.Model([opset8.result(output)], [data], "m"))
    assert iterator.get_num_iterations() == len(expected)
    values = {graph.inputs[0]: np.arange(6, dtype=np.float32)}
    bodies = graph.bodies(0, values, lambda model, inputs: run_model(model, inputs, evaluate))
    assert [next(iter(body.inputs.values())).tolist() for body in bodies] == expected


def test_lines_load_no_outputs_if_an_output_has_a_packed_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = parameter([2])
    graph = OpenVINOGraph(ov.Model([opset8.convert(data, "i4"), opset8.relu(data)], [data], "m"))
    inputs = {graph.inputs[0]: np.array([1, 2], np.float32)}
    outputs = run_model(graph.whole(), inputs, evaluate)
    assert len(outputs) == 1
    state: dict[str, dict[str, np.ndarray]] = {}
    lines = graph.write(graph.whole(), inputs, outputs, tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(lines, state)
    assert (list(state["inputs"]), state["expected"]) == (list(graph.inputs), {})


def test_inputs_of_one_name_have_names_of_their_own() -> None:
    first, second = parameter([2]), parameter([2])
    first.output(0).set_names({"x"})
    second.set_friendly_name("x")
    graph = OpenVINOGraph(ov.Model([opset8.subtract(first, second)], [first, second], "m"))
    inputs = dict(zip(graph.inputs, (np.array([5, 7], np.float32), np.array([1, 2], np.float32)), strict=True))
    (difference,) = run_model(graph.whole(), inputs, evaluate).values()
    assert np.asarray(difference).tolist() == [4, 5]


def test_body_that_reads_elements_of_a_packed_type_has_no_runs() -> None:
    """NumPy has no array of such elements to pass to the body."""
    condition, branch_input = opset8.parameter([], bool), opset8.parameter([2], ov.Type.u4)
    branches = [
        ov.Model([opset8.result(opset8.convert(value, "f32"))], [value] if value is branch_input else [], "branch")
        for value in (branch_input, ov.op.Constant(ov.Type.u4, ov.Shape([2]), [3, 4]))
    ]
    op = opset8.if_op(condition.output(0))
    op.set_then_body(branches[0])
    op.set_else_body(branches[1])
    op.set_input(ov.op.Constant(ov.Type.u4, ov.Shape([2]), [1, 2]).output(0), branch_input, None)
    output = op.set_output(*(branch.get_results()[0] for branch in branches))
    graph = OpenVINOGraph(ov.Model([opset8.result(output)], [condition], "m"))
    titles = [
        [body.title for body in graph.bodies(0, {graph.inputs[0]: np.array(value)}, lambda *_: {})]
        for value in (True, False)
    ]
    assert titles == [[], ["else_branch"]]
