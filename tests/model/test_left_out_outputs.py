"""Outputs that a Split leaves out: parts that count although they have no name.

onnx-ir drops trailing outputs without a name when it writes a model, which changes how many equal parts there are; and
onnxruntime's CPU provider dies of a Split that leaves one out, so what it is given must name them all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnx_ops

LEFT_OUT = [["", "b"], ["a", ""], ["a", "", "c"], ["a", "", ""]]
IDS = ["the first", "the last", "one between", "the last two"]


def float_vector(name: str, size: int | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n" if size is None else size])


def model_of(
    nodes: list[onnx.NodeProto], results: list[onnx.ValueInfoProto], **constants: list[int]
) -> onnx.ModelProto:
    """A model of input `x` with 6 elements."""
    initializers = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [float_vector("x", 6)], results, initializers)
    opset = 18 if any(node.op_type == "Split" and len(node.input) > 1 for node in nodes) else 13
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize("outputs", LEFT_OUT, ids=IDS)
def test_what_comes_after_has_the_size_of_the_part_and_not_of_fewer_parts(outputs):
    """The parts are equal and not written out, and shapes have to be inferred through nodes before and behind."""
    part = next(name for name in outputs if name)
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Split", ["r"], outputs, "cut", axis=0),
        helper.make_node("Neg", [part], ["negative"]),
        helper.make_node("Slice", ["negative", "starts", "ends"], ["y"], "crop"),
    ]
    cut, crop = onnx_ops.lower(model_of(nodes, [float_vector("y", None)], starts=[0], ends=[99])).nodes
    size = 6 // len(outputs)
    assert [c.region.output_shape for c in cut.node.cuts] == [(size,)] * len(outputs)
    assert crop.node.cuts[0].region.input_shape == (size,)
    assert crop.verdict == "alias"


@pytest.mark.parametrize("outputs", LEFT_OUT, ids=IDS)
def test_compare_names_them(tmp_path: Path, outputs):
    """In a process of its own, since a crash of onnxruntime would end the test run."""
    sizes = [1] * (len(outputs) - 1) + [7 - len(outputs)]
    node = helper.make_node("Split", ["x", "sizes"], outputs, "cut", axis=0)
    results = [float_vector(name, size) for name, size in zip(outputs, sizes, strict=True) if name]
    onnx.save(model_of([node], results, sizes=sizes), tmp_path / "model.onnx")
    command = [sys.executable, "-m", "onnx_ops", "compare", str(tmp_path / "model.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
