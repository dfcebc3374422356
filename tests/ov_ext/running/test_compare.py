"""`sliceport compare` of OpenVINO models: built-in operators, ours, and what they are lowered to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from command_line import Invoke
from forked import run
from openvino import opset1, opset8
from openvino_forms_child import Built
from openvino_models import constant, fixed, make, one_slice, parameter

import ov_ext
from ov_ext.format import FORMAT
from ov_ext.model.read import read_slicing_nodes, slicing_nodes
from ov_ext.running.compare import compare
from ov_ext.running.one_node import OneNode
from sliceport import device
from sliceport.defects.cases import OpenVINOCase
from sliceport.defects.table import DEFECTS
from sliceport.slicing.node import Resolved

MODELS = Path(__file__).parents[3] / "models"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a model of a StridedSlice of ours with masks, a built-in Slice, and a VariadicSplit."""
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


def test_executors_agree_on_each_operator(path: Path, invoke: Invoke) -> None:
    assert "8 comparisons with openvino" in invoke("compare", path).out
    report = compare(path)
    assert {c.executor for c in report.comparisons} == set(FORMAT.default_executors[1:])
    assert all(c.status == "equal" and c.bytes_compared > 0 for c in report.comparisons)


@pytest.mark.parametrize("element", ["u4", "u2"])
def test_packed_random_data_use_all_bits(element: str) -> None:
    data = parameter([5, 21], element)
    model = ov.Model([opset8.slice(data, constant([0]), constant([4]), constant([1]), constant([0]))], [data], "m")
    ((_, node),) = slicing_nodes(model)
    (resolved,) = read_slicing_nodes(model)
    assert isinstance(resolved, Resolved)
    packed = OneNode(resolved, node).random_data(0)
    assert np.bitwise_or.reduce(packed) == 255
    assert packed[-1] < (16 if element == "u4" else 4)  # 105 elements leave bits of the last byte unused
    comparisons = compare(model, executors=["ov_ext", "dml-emulator"]).comparisons
    assert [c.status for c in comparisons if c.executor != "openvino"] == ["equal", "equal"]


@pytest.mark.parametrize("kind", ["Split", "VariadicSplit"])
@pytest.mark.parametrize("element", ["u2", "i4"])
def test_split_that_evaluate_writes_beyond_its_outputs_is_not_run(element: str, kind: str) -> None:
    data, axis = parameter([4, 4, 6], element), fixed(np.array(0))
    node = opset1.split(data, axis, 2) if kind == "Split" else opset1.variadic_split(data, axis, constant([1, -1]))
    model = ov.Model(node.outputs(), [data], "m")
    refused, emulated = compare(model, executors=["dml-emulator"]).comparisons
    assert (refused.status, emulated.status) == ("error", "equal")
    assert "ends the process on such a node (Split of less than a byte, evaluated: " in refused.detail


def test_directml_agrees(path: Path, directml: device.Device) -> None:
    assert directml.facts()
    report = compare(path, executors=["openvino", "directml"])
    assert [c.status for c in report.comparisons] == ["equal"] * 3


def test_wrong_result_of_the_plugin_is_a_finding(tmp_path: Path, invoke: Invoke) -> None:
    masks = {"begin_mask": [1], "shrink_axis_mask": [1]}
    ov.save_model(one_slice("StridedSlice", [3, 2], ([1], [2], [1]), masks), str(tmp_path / "m.xml"))
    report = json.loads(invoke("compare", tmp_path / "m.xml", "--format", "json", code=1).out)
    assert {c["executor"]: c["status"] for c in report["comparisons"]} == {
        "openvino-cpu": "mismatch",
        "ov_ext": "equal",
        "dml-emulator": "equal",
    }


COMPARE_ALL = """
import contextlib, io, json, sys
from sliceport.cli.main import main
from sliceport.defects.cases import OpenVINOCase
from sliceport.defects.table import DEFECTS
for path in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main(["compare", path, "--format", "json"])
    print(json.dumps([code, json.loads(said.getvalue())["comparisons"]]), flush=True)
"""


def test_known_defects_are_blamed_on_their_engine(tmp_path: Path) -> None:
    """Neither ov_ext nor the emulator is blamed for a defect of OpenVINO, and no defect ends the process."""
    found = [defect for defect in DEFECTS if defect.handling != "found"]  # nodes that `compare` does not run
    entries = [(defect.id, example.case) for defect in found for example in defect.examples]
    cases = [(name, case) for name, case in entries if isinstance(case, OpenVINOCase) and not any(case.run_time)]
    paths = [str(tmp_path / f"{i}.xml") for i in range(len(cases))]
    for (_, case), path in zip(cases, paths, strict=True):
        ov.save_model(Built(case.to_json(), folding=False).model, path, compress_to_fp16=False)
    done = run(["-c", COMPARE_ALL, *paths])
    assert done.returncode == 0, done.stderr
    blamed = set()
    for (name, _), line in zip(cases, done.stdout.splitlines(), strict=True):
        code, comparisons = json.loads(line)
        assert code == (0 if all(c["status"] in ("equal", "folded", "accepted") for c in comparisons) else 1), (
            comparisons
        )
        for comparison in comparisons:
            if comparison["executor"] in ("ov_ext", "dml-emulator"):
                assert comparison["status"] == "equal", comparison
            elif comparison["status"] in ("mismatch", "error"):
                assert name in comparison["detail"]
                blamed.add((name, comparison["executor"]))
    assert blamed == {
        ("new axis and shrink with entries left out", "openvino-cpu"),
        ("begin mask on a shrunk axis", "openvino-cpu"),
        ("mask bits beyond the entries", "openvino-cpu"),
        ("masks shorter than the entries", "openvino-cpu"),
        ("ellipsis shares its bit", "openvino"),
        ("backward through an empty axis", "openvino"),
        ("of a scalar", "openvino"),
        ("stride beyond 32 bits", "openvino-cpu"),
        ("more than 2^24 elements on an axis", "openvino-cpu"),
        ("unsigned index beyond 63 bits", "openvino"),
    }


@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "f8e5m2", "i64", "u16", "u8", "boolean"])
def test_executors_agree_on_element_types(tmp_path: Path, element: str) -> None:
    model = one_slice("Slice", [7, 3], ([6], [-9], [-2], [0]), element=element)
    ov.save_model(model, str(tmp_path / "m.xml"), compress_to_fp16=False)
    assert compare(tmp_path / "m.xml").is_clean


@pytest.mark.parametrize("name", ["dynamo_phi_dyn", "ts_focus_10", "ts_state_space_17", "dynamo_branches"])
def test_executors_agree_on_exports(tmp_path: Path, name: str) -> None:
    shapes = {e["file"]: e["input_shapes"] for e in json.loads((MODELS / "models.json").read_text())}
    ov_ext.write_model(ov_ext.read_model(MODELS / f"{name}.onnx"), tmp_path / "m.xml")
    report = compare(tmp_path / "m.xml", input_shapes=shapes[f"{name}.onnx"])
    assert report.is_clean
    assert any(c.status == "equal" for c in report.comparisons)


def test_bad_arguments_are_refused(path: Path, tmp_path: Path, invoke: Invoke) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    for more, sentence in (
        (["--executors", "openvino,onnxruntime-cpu"], "--executors: 'onnxruntime-cpu' runs whole models"),
        (["--executors", "openvino"], "nothing to compare 'openvino' with"),
        (["--input", f"x={tmp_path / 'a.npy'}"], "--input is for ONNX models"),
        (["--input-shapes", "y:1"], "the model has no input 'y'"),
    ):
        assert sentence in invoke("compare", path, *more, code=2).err
