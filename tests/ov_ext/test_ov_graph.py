"""OpenVINO models as graphs that `diff` cuts."""

from __future__ import annotations

import numpy as np
import openvino as ov
from openvino import opset8
from openvino_models import parameter

from ov_ext.ov_graph import OpenVINOGraph
from ov_ext.run_model import run_model


def test_nodes_of_one_name_have_values_of_their_own() -> None:
    data = parameter([3])
    first = opset8.relu(data)
    second = opset8.exp(first)
    third = opset8.negative(second)
    for node in (first, second, third):
        node.set_friendly_name("same")
    for node in (first, third):
        node.output(0).set_names(set())
    graph = OpenVINOGraph(ov.Model([opset8.result(node) for node in (first, second, third)], [data], "m"))
    assert len(graph.outputs) == 3
    assert [node.reads for node in graph.nodes[1:]] == [node.writes for node in graph.nodes[:2]]
    array = np.array([-1, 0, 1], np.float32)
    cut = graph.cut((), graph.outputs, {graph.inputs[0]: array}, {})
    values = run_model(cut, {graph.inputs[0]: array}, {}, is_compiled=False)
    computed = [np.maximum(array, 0), np.exp(np.maximum(array, 0)), -np.exp(np.maximum(array, 0))]
    for name, expected in zip(graph.outputs, computed, strict=True):
        np.testing.assert_allclose(np.asarray(values[name]), expected, rtol=1e-6)
