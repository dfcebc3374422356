"""Models that OpenVINO reads slowly, because it computes the inputs of slicing nodes, even in Loops."""

from __future__ import annotations

import os
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from command_line import Invoke
from openvino import opset13

import ov_ext
from ov_ext.operators.error_text import last_sentence
from ov_ext.running.compare import compare
from sliceport.errors import ModelError

MODELS = Path(__file__).parents[3] / "models"
FEW, ENDLESS = 12345, 2**63 - 1


def saved(folder: Path, iterations: int) -> Path:
    """Write a model of a Slice that starts at 1, which a Loop of constants computes."""
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


def test_loop_that_ends_is_read(tmp_path: Path) -> None:
    assert list(ov_ext.read_model(saved(tmp_path, 3)).output(0).shape) == [4]


@pytest.mark.parametrize("words", [["lower"], ["harden", "-o", "hard.xml"]], ids=lambda words: words[0])
def test_timeout_ends_an_endless_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, ENDLESS)
    printed = invoke(*words, path, "--timeout", "3", code=2)
    assert printed.err == f"sliceport: '{path}': it takes more than 3 s; --timeout 0 disables the limit.\n"
    assert not (tmp_path / "hard.xml").exists()


def test_damaged_file_with_a_loop_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text("<net name='Loop'>")
    with pytest.raises(ModelError, match="model '.*m.xml' cannot be read by OpenVINO: "):
        ov_ext.read_model(tmp_path / "m.xml")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
@pytest.mark.parametrize("name", ["m.xml", "m.bin"])
def test_pipe_is_refused(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, 3)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(ModelError, match=f"'{tmp_path / name}' is not a file"):
        ov_ext.read_model(path)


def test_onnx_model_is_read_beside_a_folder_of_its_name_in_bin(tmp_path: Path) -> None:
    shutil.copy(MODELS / "rule_coalesce.onnx", tmp_path / "m.onnx")
    (tmp_path / "m.bin").mkdir()
    assert ov_ext.read_model(tmp_path / "m.onnx").outputs


def test_message_of_openvino_is_shortened() -> None:
    assert last_sentence(RuntimeError("x" * 10_000)) == f"{'x' * 300}…."


def test_message_of_openvino_keeps_a_minus_at_its_beginning() -> None:
    assert last_sentence(RuntimeError("Check failed:\n-1 is not an axis.\n")) == "-1 is not an axis."
    assert last_sentence(RuntimeError("---- The axis is wrong! ----")) == "The axis is wrong."


def test_rank_beyond_that_of_arrays_is_not_compared(tmp_path: Path) -> None:
    data = opset13.parameter([1] * 70, np.float32, name="x")
    one = opset13.constant([1])
    cut = opset13.slice(data, opset13.constant([0]), one, one, name="cut")
    ov.save_model(ov.Model([cut], [data], "m"), tmp_path / "m.xml")
    (found,) = {(each.status, each.executor) for each in compare(tmp_path / "m.xml").comparisons}
    assert found == ("error", "openvino")
