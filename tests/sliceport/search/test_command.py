"""The command `sliceport diff`, alone and in a batch."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import Invoke
from onnx_models import save

from sliceport.cli.main import main
from sliceport.commands.diff import _list_findings
from sliceport.engines.failure import Failure
from sliceport.search.report import DiffReport

# onnxruntime drops the steps of a Slice whose axes are omitted.
DROPPED = """(float[6] x) => (y) <int64[1] s = {0}, int64[1] e = {9223372036854775807}, int64[1] two = {2}> {
    [i] a = Neg (x)  [slice] b = Slice (a, s, e, , two)  [n] y = Neg (b)
}"""
FALSE = "(float[4] x) => (y, z) <float big = {3.0}> { y = Mul (x, big)  z = Add (x, big) }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save(DROPPED, tmp_path / "dropped.onnx")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_tolerance_of_one_output_is_an_option(invoke: Invoke) -> None:
    save(FALSE, Path("a.onnx"))
    save(FALSE.replace("3.0", "3.5"), Path("b.onnx"))
    invoke("diff", "a.onnx", "b.onnx", "--tolerance", "y:abs=100", "--tolerance", "rel=9")
    assert "outputs: 1 close, 1 different" in invoke("diff", "a.onnx", "b.onnx", "--tolerance", "y:abs=100", code=1).out
    printed = invoke("diff", "a.onnx", "b.onnx", "--tolerance", "y:abs", code=2)
    assert "ulp=Z with at least one bound, got 'y:abs'" in printed.err


@pytest.mark.usefixtures("folder")
def test_batch_takes_a_tolerance() -> None:
    options = ["--on", "onnxruntime-cpu", "--tolerance", "y:abs=1"]
    assert main(["batch", "diff", "dropped.onnx", "-o", "run", *options, "--jobs", "1"]) == 1


def test_finding_without_a_node_names_the_engine_that_failed() -> None:
    on, against = "openvino-cpu:precision=f32 2026.4.0", "onnxruntime-cpu:level=none 1.27.0"
    for failed in ("", against):
        report = DiffReport(on, against, (), 0, failed, failures=(Failure("error", "", "it fails"),))
        assert _list_findings(report)[0]["engine"] == (failed or on).partition(":")[0]


@pytest.mark.usefixtures("folder")
def test_batch_gives_a_model_whose_outputs_are_untested_the_exit_code_of_the_command(invoke: Invoke) -> None:
    save("(float[4] x) => (y) { a = Abs (x)  y = Sqrt (a) }", Path("tested.onnx"))
    save("(float[4] x) => (bool[4] z) { z = IsNaN (x) }", Path("untested.onnx"))
    invoke("diff", "untested.onnx", "--on", "onnxruntime-cpu", code=2)
    words = ("diff", "tested.onnx", "untested.onnx", "--on", "onnxruntime-cpu", "-o", "run", "--jobs", "1")
    printed = invoke("batch", *words, code=2).out
    assert printed.startswith("2 models: 1 clean, 1 untested\n")
    assert printed.endswith("  untested  untested.onnx: output 'z': all of its elements are False\n")


@pytest.mark.usefixtures("folder")
def test_files_of_the_user_are_not_overwritten(invoke: Invoke) -> None:
    model = save("(float[4] x) => (y) { y = Neg (x) }", Path("model.onnx"))
    mine = Path("mine")
    mine.mkdir()
    words = ["diff", model, "--on", "onnxruntime-cpu", "--save", mine, "--overwrite"]
    for text in ("{}", '{"schema_version": 1}', "[1]", "[" * 99999, "", "\xff"):
        (mine / "report.json").write_bytes(text.encode("latin-1"))
        assert "'mine' is not a folder of an earlier run, so it is not overwritten" in invoke(*words, code=2).err
    assert os.listdir(mine) == ["report.json"]
    (mine / "report.json").unlink()
    mine.rmdir()
    invoke(*words)
    assert json.loads((mine / "report.json").read_text())["outputs"][0]["files"] == ["00_y.npy"]
    invoke(*words)


@pytest.mark.usefixtures("folder")
def test_folder_with_a_file_that_is_read_is_not_overwritten(invoke: Invoke) -> None:
    model = save("(float[4] x) => (y) { y = Neg (x) }", Path("model.onnx"))
    saved = Path("saved")
    words = ["--on", "onnxruntime-cpu", "--save", saved, "--overwrite"]
    invoke("diff", "dropped.onnx", *words, code=1)
    np.save(saved / "x.npy", np.arange(1, 5, dtype=np.float32))
    cases: list[list[object]] = [
        ["saved/model.onnx"],
        [model, "saved/model.onnx"],
        [model, "--input", "x=saved/x.npy"],
        [model, "--against", "saved"],
        [model, "--against", "saved/test_data_set_0"],
    ]
    if sys.platform != "win32":  # links need a permission there
        Path("link.npy").symlink_to(saved / "x.npy")
        Path("saved/other.npy").symlink_to(Path("dropped.onnx").absolute())
        cases += [[model, "--input", "x=link.npy"], [model, "--input", "x=saved/other.npy"]]
    before = sorted(saved.rglob("*"))
    for case in cases:
        error = invoke("diff", *case, *words, code=2).err
        assert error.startswith("sliceport: output 'saved' holds '")
        assert error.endswith("', which this command reads; give another name.\n")
    assert sorted(saved.rglob("*")) == before
    invoke("diff", model, *words)  # the name of the engine is not a file
