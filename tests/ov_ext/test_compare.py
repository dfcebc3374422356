"""`sliceport compare` of OpenVINO models: built-in operators, ours, and what they are lowered to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset1
from openvino_models import constant, fixed, make, parameter

import ov_ext
from onnx_ops.cli import main
from ov_ext.compare import DEFAULT_EXECUTORS, compare

MODELS = Path(__file__).parents[2] / "models"


@pytest.fixture
def path(tmp_path):
    """A StridedSlice of ours with masks, a built-in Slice, and a VariadicSplit."""
    source = parameter([4, 6, 5])
    source.output(0).get_tensor().set_names({"x"})
    masks = {"shrink_axis_mask": [1], "new_axis_mask": [0, 1], "ellipsis_mask": [0, 0, 1]}
    first = ov_ext.StridedSlice([source, [-2, 0, 0], [0, 0, 0]], **masks)
    second = make("Slice", [source, *map(constant, ([5, -1], [0, -9], [-2, -1], [1, 2]))], ours=False)
    third = opset1.variadic_split(source, fixed(np.array(1)), constant([1, 0, -1]))
    ov.save_model(
        ov.Model([first.output(0), second.output(0), *third.outputs()], [source], "m"), str(tmp_path / "m.xml")
    )
    return tmp_path / "m.xml"


def test_all_agree(path, capsys):
    assert main(["compare", str(path)]) == 0
    assert "8 comparisons with openvino" in capsys.readouterr().out
    report = compare(path)
    assert {c.executor for c in report.comparisons} == set(DEFAULT_EXECUTORS[1:])
    assert all(c.status == "equal" and c.bytes_compared > 0 for c in report.comparisons)


def test_the_real_directml(path, directml):
    assert directml.facts()
    report = compare(path, executors=["openvino", "directml"])
    assert [c.status for c in report.comparisons] == ["equal"] * 3


def test_what_the_plugin_computes_wrongly_is_a_finding(tmp_path, capsys):
    source = parameter([3, 2])
    masks = {"begin_mask": [1], "shrink_axis_mask": [1]}
    node = make("StridedSlice", [source, *map(constant, ([1], [2], [1]))], masks, ours=False)
    ov.save_model(ov.Model([node], [source], "m"), str(tmp_path / "m.xml"))
    assert main(["compare", str(tmp_path / "m.xml"), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert {c["executor"]: c["status"] for c in report["comparisons"]} == {
        "openvino-cpu": "mismatch",
        "ov_ext": "equal",
        "dml-emulator": "equal",
    }


@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "f8e5m2", "i64", "u16", "u8", "boolean"])
def test_element_types(tmp_path, element):
    source = parameter([7, 3], element)
    node = make("Slice", [source, *map(constant, ([6], [-9], [-2], [0]))], ours=False)
    ov.save_model(ov.Model([node], [source], "m"), str(tmp_path / "m.xml"), compress_to_fp16=False)
    assert compare(tmp_path / "m.xml").is_clean


@pytest.mark.parametrize("name", ["dynamo_phi_dyn", "ts_focus_10", "ts_state_space_17", "dynamo_branches"])
def test_exports(tmp_path, name):
    shapes = {e["file"]: e["input_shapes"] for e in json.loads((MODELS / "models.json").read_text())}
    ov_ext.write_model(ov_ext.read_model(MODELS / f"{name}.onnx"), tmp_path / "m.xml")
    report = compare(tmp_path / "m.xml", input_shapes=shapes[f"{name}.onnx"])
    assert report.is_clean
    assert any(c.status == "equal" for c in report.comparisons)


def test_bad_arguments(path, capsys):
    for more, sentence in (
        (["--executors", "openvino,onnxruntime-cpu"], "executor of OpenVINO models 'onnxruntime-cpu' is not known"),
        (["--executors", "openvino"], "nothing to compare 'openvino' with"),
        (["--input", "x=a.npy"], "--input is for ONNX models"),
        (["--input-shapes", "y:1"], "the model has no input 'y'"),
    ):
        assert main(["compare", str(path), *more]) == 2
        assert sentence in capsys.readouterr().err
