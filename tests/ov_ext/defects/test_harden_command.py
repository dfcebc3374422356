"""`sliceport harden` for OpenVINO's CPU plugin."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path

import numpy as np
import onnx
import openvino as ov
import pytest
from command_line import Invoke
from onnx_models import parse, save
from openvino_models import constant, make, one_slice

import sliceport
from sliceport.defects.table import find_defect

NEW_AND_SHRINK = find_defect("new axis and shrink with entries left out")

MASKS = {"new_axis_mask": [0, 1], "shrink_axis_mask": [1, 0]}


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """Write an IR file with a node that the plugin computes wrongly, and one that it computes right."""
    model = one_slice("StridedSlice", [2, 3], ([1, 0], [2, 0], [1, 1]), MASKS, name="row")
    result = model.get_results()[0].input(0)
    right = make("Slice", [result.get_source_output(), *map(constant, ([1], [3], [1], [1]))], ours=False)
    result.replace_source_output(right.output(0))
    path = tmp_path / "wrong.xml"
    ov.save_model(model, str(path), compress_to_fp16=False)
    return path


def test_hardened_file_is_computed_right(wrong: Path, tmp_path: Path, invoke: Invoke) -> None:
    out = tmp_path / "out" / "right.xml"
    said = invoke("harden", wrong, "-o", out)
    assert said.out.splitlines()[0] == f"1 StridedSlice 'row': {NEW_AND_SHRINK.reason}: now another StridedSlice"
    assert (
        said.out.splitlines()[-1]
        == f"1 node with a defect of openvino-cpu {metadata.version('openvino')}: 1 rewritten, 0 not fixed"
    )
    assert f"wrote {out}" in said.err
    assert sorted(path.name for path in out.parent.iterdir()) == ["right.bin", "right.xml"]
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    core = ov.Core()
    assert core.compile_model(str(out), "CPU")([data])[0].tolist() == [[4, 5]]


def test_json_report_names_the_changes(wrong: Path, tmp_path: Path, invoke: Invoke) -> None:
    report = json.loads(invoke("harden", wrong, "-o", tmp_path / "o.xml", "--format", "json").out)
    assert report["nodes"] == 2
    assert report["needs_extension"] is False
    assert [change["node"] for change in report["changes"]] == ["row"]


def test_files_are_kept_without_overwrite(wrong: Path, tmp_path: Path, invoke: Invoke) -> None:
    out = tmp_path / "o.xml"
    (tmp_path / "o.bin").write_text("mine")
    assert invoke("harden", wrong, "-o", out, code=2).err.endswith("o.bin' exists; give another name or --overwrite.\n")
    assert (tmp_path / "o.bin").read_text() == "mine"
    assert not out.exists()
    invoke("harden", wrong, "-o", out, "--overwrite")
    assert invoke("harden", out, "-o", out, "--overwrite").out.startswith("0 nodes with a defect")


@pytest.mark.parametrize(
    ("model", "output", "sentence"),
    [
        ("none.xml", "o.xml", "model '{}none.xml' is not a file."),
        ("wrong.xml", "o.onnx", "output '{}o.onnx' must end in .xml, because only OpenVINO's own format is written."),
        ("text.onnx", "o.xml", "model '{}text.onnx' cannot be read by OpenVINO: "),
    ],
)
def test_bad_arguments_are_refused(
    wrong: Path, tmp_path: Path, invoke: Invoke, model: str, output: str, sentence: str
) -> None:
    assert wrong.is_file()
    (tmp_path / "text.onnx").write_text("not a model")
    printed = invoke("harden", tmp_path / model, "-o", tmp_path / output, code=2)
    assert "sliceport: " + sentence.format(f"{tmp_path}{os.sep}") in printed.err
    assert not (tmp_path / output).exists()


EMPTY_AXES = "(float[4,2] x) => (float[4,2] y) <int64[0] none = {}> { z = Slice(x, none, none, none) y = Neg(z) }"


def test_slicing_that_openvino_does_not_convert_is_rewritten_first(tmp_path: Path) -> None:
    proto = parse(EMPTY_AXES, 13)
    proto.graph.initializer[0].raw_data = b""  # OpenVINO reads the empty list if no field holds its elements
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    with pytest.raises(RuntimeError):
        ov.Core().read_model(path)
    result = sliceport.harden(path, tmp_path / "o.xml", target="openvino-cpu")
    assert result.text().startswith("OpenVINO does not read the file as it is, so its slicing was simplified first")
    data = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert ov.Core().compile_model(tmp_path / "o.xml", "CPU")([data])[0].tolist() == (-data).tolist()


def test_file_that_openvino_never_reads_keeps_its_error(tmp_path: Path) -> None:
    path = save("(float[4] x) => (float[4] y) { y = no.domain.Thing(x) }", tmp_path / "m.onnx", 13)
    with pytest.raises(sliceport.ModelError, match="cannot be read by OpenVINO"):
        sliceport.harden(path, tmp_path / "o.xml", target="openvino-cpu")
    assert not (tmp_path / "o.xml").exists()
