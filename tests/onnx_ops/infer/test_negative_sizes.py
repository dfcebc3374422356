"""Sizes below 0 that are not the inputs': some exporters write -1 for a size that is open, and inference makes others.

onnx's shape inference ends the process when a Slice meets one, so each model is lowered in a process of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from forked import run
from onnx import TensorProto, helper, numpy_helper

import onnx_ops

CROP = ("starts", "ends", "axes")


def model_of(
    nodes: list[onnx.NodeProto],
    outputs: list[onnx.ValueInfoProto],
    value_info: list[onnx.ValueInfoProto] | None = None,
    *,
    opset: int = 13,
) -> onnx.ModelProto:
    """Build a model of input `x` of shape [1, 1, 4, 4]; `starts`, `ends` and `axes` are those of `[:, :, 0:2]`."""
    constants = {"starts": [0], "ends": [2], "axes": [2], "pads": [0, 0, -9, 0, 0, 0, 0, 0]}
    initializers = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    data = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])
    graph = helper.make_graph(nodes, "g", [data], outputs, initializers, value_info=value_info or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def floats(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def crop(source: str) -> onnx.NodeProto:
    return helper.make_node("Slice", [source, *CROP], ["y"], "crop")


def lowered_apart(model: onnx.ModelProto, folder: Path) -> dict[str, dict[str, Any]]:
    """Run `sliceport lower --format json` and return its nodes by name."""
    onnx.save(model, folder / "model.onnx")
    done = run(["-m", "sliceport", "lower", str(folder / "model.onnx"), "--format", "json"])
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    return {node["name"]: node for node in json.loads(done.stdout)["nodes"]}


def test_declared_for_a_value_that_can_be_inferred_it_is_open(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), crop("r")]
    model = model_of(nodes, [floats("y", "a", "b", "c", "d")], [floats("r", 1, 1, -1, 4)])
    found = lowered_apart(model, tmp_path)["crop"]
    assert (found["verdict"], found["reason"]) == ("lowered", None)
    assert found["operators"][0]["desc"]["OutputTensor"]["Sizes"] == [8]


def test_declared_for_an_output_that_can_be_inferred_it_is_open() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), crop("r")]
    model = model_of(nodes, [floats("y", "a", "b", "c", "d"), floats("r", 1, 1, -1, 4)])
    (found,) = onnx_ops.lower(model).nodes
    assert found.verdict == "lowered"
    assert found.resolved.cuts[0].region.output_shape == (1, 1, 2, 4)


def test_declared_for_a_value_that_cannot_be_inferred_it_is_missing(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("Slice", ["found", "starts", "ends"], ["y"], "crop"),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, ["a", "b"])
    declared = helper.make_tensor_value_info("found", TensorProto.INT64, [4, -1])
    found = lowered_apart(model_of(nodes, [output], [declared]), tmp_path)["crop"]
    assert found["verdict"] == "refused"
    assert found["reason"]["code"] == "missing_shape"
    assert "dimension 1 of its input 'found'" in found["reason"]["message"]


TOO_SMALL = {
    "a pooling window that is larger than the image": helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[7, 7]),
    "padding that takes away more than there is": helper.make_node("Pad", ["x", "pads"], ["p"]),
}


@pytest.mark.parametrize("node", TOO_SMALL.values(), ids=TOO_SMALL.keys())
def test_inferred_it_is_no_size(tmp_path: Path, node: onnx.NodeProto) -> None:
    found = lowered_apart(model_of([node, crop("p")], [floats("y", "a", "b", "c", "d")]), tmp_path)["crop"]
    assert found["verdict"] == "refused"
    assert found["reason"]["code"] in ("missing_shape", "invalid")


def test_inferred_for_the_last_of_too_many_parts_it_leaves_the_rest_of_the_model_alone(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["x", "x"], ["c"], axis=2),
        helper.make_node("Split", ["c"], ["p0", "p1", "p2", "p3", "p4", "p5"], "parts", axis=2, num_outputs=6),
        helper.make_node("Neg", ["p5"], ["n"]),
        helper.make_node("Slice", ["n", *CROP], ["y"], "crop"),
        helper.make_node("Slice", ["c", *CROP], ["z"], "whole"),
    ]
    outputs = [floats("y", "a", "b", "c", "d"), floats("z", "e", "f", "g", "h")]
    found = lowered_apart(model_of(nodes, outputs, opset=18), tmp_path)
    assert found["parts"]["reason"]["code"] == "invalid"
    assert found["crop"]["verdict"] == "refused"
    assert found["whole"]["verdict"] == "lowered"
