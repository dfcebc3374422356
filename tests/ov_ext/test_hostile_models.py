"""Models that take OpenVINO long to read, or much memory: it computes what slicing nodes read, Loops included."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13

import ov_ext
from ov_ext import files
from ov_ext.compare import compare
from ov_ext.error_text import last_sentence
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
    said = f"sliceport: model '{path}' cannot be read by OpenVINO, which takes more than 1 s of processor time for"
    assert capsys.readouterr().err == f"{said} it, as for a Loop of constants.\n"
    assert not (tmp_path / "hard.xml").exists()


def test_what_is_wrong_with_a_file_is_said_as_without_a_loop(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text("<net name='Loop'>")
    with pytest.raises(ModelError, match="model '.*m.xml' cannot be read by OpenVINO: "):
        ov_ext.read_model(tmp_path / "m.xml")


def with_computed_start(folder: Path, shape: str, size: int) -> Path:
    """A Slice that starts at 1, the greatest of so many ones."""
    count = opset13.constant(np.array([FEW]))
    many = opset13.broadcast(opset13.constant(np.array([1])), count)
    start = opset13.reduce_max(many, opset13.constant(np.array([0])), keep_dims=True)
    data = opset13.parameter(ov.PartialShape(shape), np.float32, name="x")
    cut = opset13.slice(data, start, opset13.constant([5]), opset13.constant([1]), name="cut")
    path = folder / "m.xml"
    ov.save_model(ov.Model([cut], [data], "m"), path, compress_to_fp16=False)
    weights = path.with_suffix(".bin").read_bytes()
    assert weights.count(struct.pack("<q", FEW)) == 1
    path.with_suffix(".bin").write_bytes(weights.replace(struct.pack("<q", FEW), struct.pack("<q", size)))
    return path


def test_a_large_constant_that_a_slice_reads_is_not_computed_here(tmp_path: Path) -> None:
    assert list(ov_ext.read_model(with_computed_start(tmp_path, "[6]", 4)).output(0).shape) == [4]
    path = with_computed_start(tmp_path, "[6]", 2**40)
    with pytest.raises(ModelError, match="cannot be read by OpenVINO"):
        ov_ext.read_model(path)


@pytest.mark.skipif(sys.platform == "win32", reason="memory is not limited there")
@pytest.mark.parametrize(
    "words", [["lower", "--input-shapes", "x:6"], ["compare", "--input-shapes", "x:6"], ["harden", "-o", "hard.xml"]]
)
def test_nor_is_one_that_reading_does_not_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*words, str(with_computed_start(tmp_path, "...", 4))]) in (0, 1)
    (tmp_path / "hard.xml").unlink(missing_ok=True)
    path = with_computed_start(tmp_path, "...", 2**28)
    capsys.readouterr()
    assert main([*words, str(path)]) == 2
    assert "cannot be read by OpenVINO, which takes more than 600 MiB for it" in capsys.readouterr().err
    assert not (tmp_path / "hard.xml").exists()


def test_elements_nested_deep_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, 3)
    text = path.read_text()
    assert text.endswith("</net>\n")
    for depth, is_read in ((100, True), (300, False)):
        nested = "".join(f"<a{i}>" for i in range(depth)) + "".join(f"</a{i}>" for i in reversed(range(depth)))
        path.write_text(f"{text[: -len('</net>') - 1]}<more>{nested}</more></net>")
        if is_read:
            assert list(ov_ext.read_model(path).output(0).shape) == [4]
        else:
            with pytest.raises(ModelError, match="has elements of XML more than 200 deep"):
                ov_ext.read_model(path)


def test_many_elements_that_are_deep_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MAX_DEPTHS", 300)
    nested = "<a>" * 10 + "<b/>" * 30 + "</a>" * 10
    (tmp_path / "m.xml").write_text(f"<net>{nested}</net>")
    with pytest.raises(ModelError, match="or too many deep ones"):
        files._check_depth(str(tmp_path / "m.xml"), "m.xml")


def test_what_is_no_xml_is_not_read(tmp_path: Path) -> None:
    path = saved(tmp_path, 3)
    path.write_text(path.read_text().replace("<net ", '<net a="" a="" ', 1))
    with pytest.raises(ModelError, match="is no well-formed XML .duplicate attribute"):
        ov_ext.read_model(path)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
@pytest.mark.parametrize("name", ["m.xml", "m.bin"])
def test_a_pipe_is_no_file(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, 3)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(ModelError, match=f"'{tmp_path / name}' is no file"):
        ov_ext.read_model(path)


def test_what_openvino_says_is_shortened() -> None:
    assert last_sentence(RuntimeError("x" * 10_000)) == f"{'x' * 300}...."


def test_a_rank_that_no_array_has_is_not_compared(tmp_path: Path) -> None:
    data = opset13.parameter([1] * 70, np.float32, name="x")
    one = opset13.constant([1])
    cut = opset13.slice(data, opset13.constant([0]), one, one, name="cut")
    ov.save_model(ov.Model([cut], [data], "m"), tmp_path / "m.xml")
    (found,) = {(each.status, each.executor) for each in compare(tmp_path / "m.xml").comparisons}
    assert found == ("error", "openvino")
