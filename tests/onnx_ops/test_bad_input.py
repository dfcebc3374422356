"""Bad input: one sentence and exit 2, or a refusal and exit 1 where one node is at fault; never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import Invoke
from onnx import TensorProto
from onnx_models import parse

import sliceport
from sliceport.errors import ModelError

GOOD = "(float[4,6] x) => (float[2,6] a, float[2,6] b) { a, b = Split (x) }"


Refusal = Callable[[Path | onnx.ModelProto], str]


@pytest.fixture
def refusal(invoke: Invoke, tmp_path: Path) -> Refusal:
    """Return a function that returns the one sentence that `lower` prints about a model, after exit code 2."""

    def lower(model: Path | onnx.ModelProto) -> str:
        out, err = invoke("lower", model if isinstance(model, Path) else write(tmp_path, model), code=2)
        assert out == ""
        assert err.startswith("sliceport: ")
        assert err.count("\n") == 1
        assert err.endswith(".\n")
        assert "Traceback" not in err
        return err

    return lower


def write(tmp_path: Path, model: onnx.ModelProto) -> Path:
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def model_with(**fields: Any) -> onnx.ModelProto:
    """Return a good model with one more initializer."""
    model = parse(GOOD, 13)
    model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, **fields))
    return model


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("none.onnx", None, "it cannot be read (No such file or directory)"),
            ("", None, "is a folder, and lower takes a file"),
            ("m.onnx", "", "it holds no graph or no IR version, so it is not an ONNX model"),
            ("m.onnx", GOOD, "it is not an ONNX model"),
        ],
        ids=["missing", "a folder", "empty", "text"],
    )
    def test_paths_without_a_model_are_refused(
        self, tmp_path: Path, refusal: Refusal, name: str, content: str | None, message: str
    ) -> None:
        if content is not None:
            (tmp_path / name).write_text(content)
        assert message in refusal(tmp_path / name)

    def test_truncated_files_and_random_bytes_are_refused(self, tmp_path: Path, refusal: Refusal, models: Path) -> None:
        data = (models / "rule_subgraphs.onnx").read_bytes()
        contents = [data[: int(len(data) * part)] for part in (0.001, 0.1, 0.5, 0.9, 0.999)]
        for content in (*contents, *(np.random.default_rng(seed).bytes(997) for seed in range(5))):
            (tmp_path / "m.onnx").write_bytes(content)
            refusal(tmp_path / "m.onnx")


class TestGraphs:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("(float[4] x) => (float[4] y) { a = Relu (b) b = Relu (a) y = Relu (a) }", "a graph has a cycle"),
            ("(float[4] x) => (float[4] y) { y = Relu (y) }", "a graph has a cycle"),
            ("(float[4] x) => (float[4] y) { y = Relu (x) y = Neg (x) }", "graph 'g' defines value 'y' twice"),
            ("(float[4] x) => (float[4] x) { x = Relu (x) }", "graph 'g' defines value 'x' twice"),
            ("(float[4] x, float[4] x) => (float[4] y) { y = Relu (x) }", "graph 'g' defines input 'x' twice"),
            ("(float[4] x) => (float[4] y) { y = Slice (x, s, e) }", "node 'y' (Slice) reads value 's', which nothing"),
            ("(float[4] x) => (float[4] y) { z = Relu (x) }", "graph 'g' has output 'y', which nothing in it defines"),
        ],
    )
    def test_names_that_break_the_rules_are_refused(self, refusal: Refusal, text: str, message: str) -> None:
        assert message in refusal(parse(text, 13))

    def test_unsorted_graphs_are_sorted(self) -> None:
        text = "(float[4,6] x) => (float[2,6] a, float[2,6] b) { a, b = Split (h) h = Relu (x) }"
        assert sliceport.lower(parse(text, 13)).summary["lowered"] == 1

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"dims": [2, -3]}, "tensor 'w' has a negative dimension in [2, -3]"),
            ({"dims": [4], "data_location": TensorProto.EXTERNAL}, "stored in an external file that it does not name"),
        ],
        ids=["negative", "external"],
    )
    def test_bad_tensors_are_refused(self, refusal: Refusal, fields: dict[str, Any], message: str) -> None:
        assert message in refusal(model_with(**fields))

    def test_two_initializers_of_one_name_are_refused(self, refusal: Refusal) -> None:
        model = model_with(dims=[1], float_data=[0.0])
        model.graph.initializer.append(model.graph.initializer[0])
        assert "defines initializer 'w' twice" in refusal(model)

    def test_a_model_without_operator_set_is_refused(self, refusal: Refusal) -> None:
        model = parse(GOOD, 13)
        del model.opset_import[:]
        assert "it imports no operator set" in refusal(model)

    def test_a_subgraph_that_reads_an_undefined_value_is_refused(self, refusal: Refusal, models: Path) -> None:
        model = onnx.load(models / "rule_subgraphs.onnx")
        branch = next(a.g for n in model.graph.node for a in n.attribute if a.name == "else_branch")
        branch.node[0].input[0] = "nowhere"
        assert "reads value 'nowhere', which nothing defines" in refusal(model)

    @pytest.mark.parametrize(
        "location", ["../secret", "/etc/passwd", "a/../../b", "C:\\secret", "\\\\host\\share", "..\\secret", "\\root"]
    )
    def test_paths_that_leave_the_folder_are_refused(self, refusal: Refusal, location: str) -> None:
        model = model_with(dims=[4], data_location=TensorProto.EXTERNAL)
        model.graph.initializer[0].external_data.add(key="location", value=location)
        message = refusal(model)
        assert "tensor 'w' is stored at" in message
        assert "which leaves the model's folder" in message


@pytest.mark.parametrize("command", ["lower", "compare", "rewrite", "harden"])
def test_errors_after_reading_name_the_file(
    tmp_path: Path, invoke: Invoke, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise ModelError("something is wrong.")

    monkeypatch.setattr("onnx_ops.lowering.read_slicing_nodes", failing)
    monkeypatch.setattr("onnx_ops.passes.rewrite", failing)
    monkeypatch.setattr("onnx_ops.passes.directml.harden.harden_for_directml", failing)
    path = write(tmp_path, parse(GOOD, 13))
    output = ["-o", str(tmp_path / "out.onnx")] if command in ("rewrite", "harden") else []
    assert invoke(command, path, *output, code=2).err == f"sliceport: '{path}': something is wrong.\n"
