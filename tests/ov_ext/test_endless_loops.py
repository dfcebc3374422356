"""Models that OpenVINO does not end to read: it runs a Loop of constants when a slicing node reads what comes out."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13

import ov_ext
from ov_ext import files
from sliceport.cli.main import main
from sliceport.errors import ModelError

FEW, ENDLESS = 12345, 2**63 - 1


def saved(folder: Path, iterations: int) -> Path:
    """A Slice that starts at what a Loop of constants computes, which is 1."""
    carried = opset13.parameter([1], np.int64)
    step = opset13.multiply(carried, opset13.constant(np.array([1])))
    go_on = opset13.constant(np.array(True))
    body = ov.Model([opset13.result(go_on), opset13.result(step)], [carried], "body")
    loop = opset13.loop(opset13.constant(np.array(FEW)), opset13.constant(np.array(True)))
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(carried, opset13.constant(np.array([1])).output(0), step.output(0))
    start = loop.get_iter_value(step.output(0), -1)
    data = opset13.parameter([6], np.float32, name="x")
    cut = opset13.slice(data, start, opset13.constant([5]), opset13.constant([1]), name="cut")
    ov.save_model(ov.Model([cut], [data], "m"), folder / "m.xml", compress_to_fp16=False)
    weights = (folder / "m.bin").read_bytes()
    old, new = (struct.pack("<q", count) for count in (FEW, iterations))
    assert weights.count(old) == 1
    (folder / "m.bin").write_bytes(weights.replace(old, new))
    return folder / "m.xml"


def test_a_loop_that_ends_is_read(tmp_path: Path) -> None:
    assert list(ov_ext.read_model(saved(tmp_path, 3)).output(0).shape) == [4]


@pytest.mark.skipif(sys.platform == "win32", reason="processor time is not limited there")
@pytest.mark.parametrize("words", [["lower"], ["compare"], ["harden", "-o", "hard.xml"]], ids=lambda words: words[0])
def test_a_loop_that_does_not_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr(files, "SECONDS", 1.0)
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, ENDLESS)
    assert main([*words, str(path)]) == 2
    said = f"sliceport: model '{path}' cannot be read by OpenVINO, which takes more than 1 s of processor time to run"
    assert capsys.readouterr().err == f"{said} a Loop of constants in it.\n"
    assert not (tmp_path / "hard.xml").exists()


def test_what_is_wrong_with_a_file_is_said_as_without_a_loop(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text("<net name='Loop'>")
    with pytest.raises(ModelError, match="model '.*m.xml' cannot be read by OpenVINO: "):
        ov_ext.read_model(tmp_path / "m.xml")
