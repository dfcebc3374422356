"""Random graphs: what NumPy computes is what an engine without graph optimisation computes, at every operator set."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import openvino as ov
import pytest
from amounts import amount
from command_line import Invoke
from onnx import numpy_helper

from onnx_ops.running import session
from sliceport.cases.graph import Graph
from sliceport.cases.ir_file import to_ir
from sliceport.cases.onnx_file import to_model
from sliceport.cases.random_graphs import RandomGraph, draw_graph, draw_graphs
from sliceport.engines.engine import Value, WholeModel

OPSETS = range(9, 25)


def check_outputs(case: RandomGraph, outputs: list[Value]) -> None:
    for right, output in zip(case.outputs.values(), outputs, strict=True):
        assert isinstance(output, np.ndarray)
        assert (output.shape, output.dtype) == (right.shape, right.dtype)
        if case.tolerance:
            np.testing.assert_allclose(output.astype(float), right.astype(float), 1e-4, case.tolerance)
        else:
            np.testing.assert_array_equal(output, right)


@pytest.mark.parametrize("opset", OPSETS)
def test_onnxruntime_without_optimisation_computes_the_same(opset: int) -> None:
    for seed in range(amount(60)):
        case = draw_graph(seed, opset)
        data = to_model(case.graph, opset)
        onnx.checker.check_model(data)
        outputs = session.run(
            WholeModel("onnx", data, tuple(case.inputs), tuple(case.outputs)), case.inputs, level="none"
        )
        check_outputs(case, list(outputs.values()))


def test_openvino_reads_every_graph() -> None:
    core = ov.Core()
    for seed in range(amount(200)):
        case = draw_graph(seed, None)
        text, weights = to_ir(case.graph)
        model = core.read_model(text.encode(), ov.Tensor(np.frombuffer(weights or b"\0", np.uint8).copy()))
        assert [value.any_name for value in model.inputs] == list(case.inputs)
        for value, right in zip(model.outputs, case.outputs.values(), strict=True):
            assert value.partial_shape.rank.is_dynamic or len(value.partial_shape) == right.ndim


def operators(graph: Graph) -> Counter[str]:
    counts = Counter(node.operator for node in graph.nodes)
    return counts + sum((operators(body) for node in graph.nodes for body in node.bodies), Counter())


def test_graphs_have_every_operator_and_every_kind_of_size() -> None:
    cases = draw_graphs(600, 0, [12, 18])
    onnx_counts = sum((operators(case.graph) for case in cases if case.opset), Counter[str]())
    ir_counts = sum((operators(case.graph) for case in cases if not case.opset), Counter[str]())
    assert {"Slice", "Split", "Reshape", "Shape", "Gather", "If", "Loop", "Scan", "Sigmoid"} <= onnx_counts.keys()
    assert {"Slice", "StridedSlice", "Split", "VariadicSplit", "If", "Loop", "TensorIterator"} <= ir_counts.keys()
    inputs = [type_ for case in cases for type_ in case.graph.inputs.values()]
    assert any(isinstance(size, str) for type_ in inputs for size in type_.sizes)
    assert any(0 in type_.sizes for type_ in inputs)
    assert any(not name.startswith("x") for case in cases for name in case.inputs)


def test_export_has_the_graphs_and_their_data(tmp_path: Path, invoke: Invoke) -> None:
    printed = invoke("cases", "--export", tmp_path / "g", "--graphs", 8, "--opsets", "13,17", "--seed", 5)
    assert printed.out == f"8 graphs are in {tmp_path / 'g'}\n"
    entries = json.loads((tmp_path / "g" / "cases.json").read_text())["cases"]
    assert [entry["opset"] for entry in entries] == [13, 17, None, None, 13, 17, None, None]
    for entry, case in zip(entries, draw_graphs(8, 5, [13, 17]), strict=True):
        folder = tmp_path / "g" / entry["name"]
        assert (folder / ("model.onnx" if entry["opset"] else "model.xml")).exists()
        for kind, arrays in (("input", case.inputs), ("output", case.outputs)):
            for number, (name, array) in enumerate(arrays.items()):
                tensor = onnx.load_tensor(folder / "test_data_set_0" / f"{kind}_{number}.pb")
                assert tensor.name == name
                np.testing.assert_array_equal(numpy_helper.to_array(tensor), array)
    assert "--opsets must be" in invoke("cases", "--export", tmp_path / "h", "--graphs", 1, "--opsets", "8", code=2).err
