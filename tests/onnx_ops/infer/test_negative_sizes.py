"""Sizes below 0: some exporters write -1 for a size that is open, and inference makes others.

onnx's shape inference ends the process when a Slice meets one inside the model, so such models are lowered in processes
of their own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from command_line import Invoke
from forked import run
from onnx import TensorProto
from onnx_models import parse, save

import sliceport

CONSTANTS = "int64[1] starts = {0}, int64[1] ends = {2}, int64[1] axes = {2}, int64[8] pads = {0, 0, -9, 0, 0, 0, 0, 0}"
CROP = "Slice (%s, starts, ends, axes)"


def model_of(nodes: str, outputs: str = "float[a,b,c,d] y", opset: int = 13) -> onnx.ModelProto:
    """Parse a model of input `x` of shape [1, 1, 4, 4]; `starts`, `ends` and `axes` are those of `[:, :, 0:2]`."""
    return parse(f"(float[1,1,4,4] x) => ({outputs}) <{CONSTANTS}> {{ {nodes} }}", opset)


def declare(model: onnx.ModelProto, name: str, kind: int, *sizes: int) -> None:
    model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, kind, sizes))


def lowered_apart(model: onnx.ModelProto, folder: Path) -> dict[str, dict[str, Any]]:
    """Run `sliceport lower --format json` and return its nodes by their first output."""
    done = run(["-m", "sliceport", "lower", str(save(model, folder / "model.onnx")), "--format", "json"])
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    return {node["outputs"][0]: node for node in json.loads(done.stdout)["nodes"]}


def test_a_negative_size_of_a_value_that_can_be_inferred_is_open(tmp_path: Path) -> None:
    model = model_of(f"r = Relu (x)  y = {CROP % 'r'}")
    declare(model, "r", TensorProto.FLOAT, 1, 1, -1, 4)
    found = lowered_apart(model, tmp_path)["y"]
    assert (found["verdict"], found["reason"]) == ("lowered", None)
    assert found["operators"][0]["desc"]["OutputTensor"]["Sizes"] == [8]


def test_a_negative_size_of_an_output_that_can_be_inferred_is_open() -> None:
    model = model_of(f"r = Relu (x)  y = {CROP % 'r'}", "float[a,b,c,d] y, float[1,1,4,4] r")
    model.graph.output[1].type.tensor_type.shape.dim[2].dim_value = -1
    (found,) = sliceport.lower(model).nodes
    assert found.verdict == "lowered"
    assert found.resolved.cuts[0].region.output_shape == (1, 1, 2, 4)


def test_a_negative_size_of_a_value_that_cannot_be_inferred_is_missing(tmp_path: Path) -> None:
    model = model_of("found = NonZero (x)  y = Slice (found, starts, ends)", "int64[a,b] y")
    declare(model, "found", TensorProto.INT64, 4, -1)
    found = lowered_apart(model, tmp_path)["y"]
    assert found["verdict"] == "refused"
    assert found["reason"]["code"] == "missing_shape"
    assert "dimension 1 of its input 'found'" in found["reason"]["message"]


@pytest.mark.parametrize(
    "node",
    ["MaxPool <kernel_shape = [7, 7]> (x)", "Pad (x, pads)"],
    ids=["a pooling window that is larger than the image", "padding that takes away more than there is"],
)
def test_an_inferred_negative_size_is_not_used(tmp_path: Path, node: str) -> None:
    found = lowered_apart(model_of(f"p = {node}  y = {CROP % 'p'}"), tmp_path)["y"]
    assert found["verdict"] == "refused"
    assert found["reason"]["code"] in ("missing_shape", "invalid")


def test_a_negative_last_part_leaves_the_rest_of_the_model_alone(tmp_path: Path) -> None:
    nodes = f"""c = Concat <axis = 2> (x, x)  p0, p1, p2, p3, p4, p5 = Split <axis = 2, num_outputs = 6> (c)
        n = Neg (p5)  y = {CROP % "n"}  z = {CROP % "c"}"""
    found = lowered_apart(model_of(nodes, "float[a,b,c,d] y, float[e,f,g,h] z", 18), tmp_path)
    assert found["p0"]["reason"]["code"] == "invalid"
    assert found["y"]["verdict"] == "refused"
    assert found["z"]["verdict"] == "lowered"


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["lower"],
        ["compare"],
        ["diff", "--on", "onnxruntime-cpu"],
        ["rewrite", "-o", "out.onnx", "--verify"],
        ["harden", "-o", "out.onnx", "--verify"],
        ["harden", "--target", "portable", "-o", "out.onnx", "--verify"],
        ["probe", "-o", "out"],
    ],
    ids=lambda words: " ".join(words[:3:2]),
)
def test_every_command_reads_a_negative_size_of_an_input_as_open(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """Paddle2ONNX writes -1 for the open sizes of inputs."""
    monkeypatch.chdir(tmp_path)
    model = parse("""(float[4,6] x) => (y) <int64[1] s = {0}, int64[1] e = {2}> { r = Relu (x)  t = Slice (r, s, e, s)
        y = Slice (t, s, e, s) }""")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    path = save(model, tmp_path / "m.onnx")
    # Without sizes, `lower` cannot know the size of an open axis.
    sizes = ["--input-shapes", "x:5,6"] if words == ["lower"] else []
    printed = invoke(*words, path, *sizes, code=0)
    runs_model = words[0] not in ("check", "lower") and "nothing to change" not in printed.out
    assert ("sizes: x 2,6 (chosen; --input-shapes x:… for others)" in printed.err) is runs_model
    if (tmp_path / "out.onnx").exists():
        (dim, _) = onnx.load(tmp_path / "out.onnx").graph.input[0].type.tensor_type.shape.dim
        assert dim.dim_value <= 0
