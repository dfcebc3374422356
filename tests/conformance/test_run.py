"""`python -m conformance run` on two engines that are installed here, with environments that need no installation."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("conformance.runner", reason="the suite is not part of a wheel")

from platforms import POSIX

from conformance import runner
from conformance.__main__ import main
from conformance.cases import Case, read_cases
from conformance.engine import NAMES, ROOT, Engine, load_engines
from conformance.reports import EngineResults, write_page
from conformance.runner import CannotLoad, read_results, run_batch, run_engine
from conformance.tensors import from_json, to_json
from conformance.verdicts import judge
from sliceport.cases.catalogue import read_catalogue
from sliceport.cases.export import export

CHOSEN = (
    "slice_13_to_the_greatest_integer_1", "slice_13_backward_to_the_greatest_integer_1",
    "slice_13_backward_from_below_the_axis_1", "split_18_an_empty_last_part_1", "split_18_an_empty_part_1",
    "split_13_refused_splits_1", "split_1_parts_of_given_sizes_1", "slice_1_ellipsis_mask_1",
)  # fmt: skip
PYTHON = Path(sys.executable)
END_OF_ABORT = f"with exit status {0xC0000409}" if sys.platform == "win32" else "by signal 6"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = [case for case in read_catalogue() if any(part in case.name for part in CHOSEN)]
    folder = tmp_path_factory.mktemp("conformance") / "cases"
    export(chosen, folder)
    return folder


@pytest.fixture(scope="module")
def cases(folder: Path) -> list[Case]:
    return read_cases(folder)


def run(folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(Engine, "python", lambda *_: PYTHON)
    options = ["--cases", str(folder), "--results", str(place / "results"), "--page", str(place / "page.md"), *words]
    return main(["run", "--engines", "onnxruntime,onnx_reference", *options])


@pytest.fixture(scope="module")
def place(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert run(folder, place, monkeypatch, "--portable") == 0
    return place


def test_json_has_the_verdicts_of_each_form(place: Path, cases: list[Case]) -> None:
    report = json.loads((place / "results" / "conformance.json").read_text())
    assert [engine["name"] for engine in report["engines"]] == ["onnxruntime", "onnx_reference"]
    for engine in report["engines"]:
        assert list(engine["forms"]) == ["written", "portable"]
        assert list(engine["forms"]["written"]) == [case.name for case in cases if case.format == "onnx"]
    cpu, reference = (engine["forms"]["written"] for engine in report["engines"])
    name = "test_slice_13_backward_to_the_greatest_integer_1"
    assert (cpu[name]["verdict"], reference[name]["verdict"]) == ("other", "equal")
    name = "test_slice_13_backward_from_below_the_axis_1"
    assert (cpu[name]["verdict"], reference[name]["verdict"]) == ("equal", "other")
    portable = report["engines"][0]["forms"]["portable"]
    assert portable["test_slice_13_backward_to_the_greatest_integer_1"]["verdict"] == "equal"
    assert cpu["test_split_1_parts_of_given_sizes_1"]["verdict"] == "refused"


def test_junit_counts_agree_with_its_tests(place: Path) -> None:
    suites = ElementTree.parse(place / "results" / "conformance.xml").getroot().findall("testsuite")
    assert [suite.get("name", "").split()[0::2] for suite in suites] == [
        [name, form] for name in ("onnxruntime", "onnx_reference") for form in ("written", "portable")
    ]
    for suite in suites:
        assert suite.get("tests") == str(len(suite.findall("testcase")))
        assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
        assert suite.get("errors") == str(len(suite.findall("testcase/error")))
    assert suites[0].find("testcase/failure[@type='other']") is not None


def test_page_names_the_first_failing_case_of_a_rule(place: Path) -> None:
    page = (place / "page.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| backward to the greatest integer |"))
    assert "`test_slice_13_backward_to_the_greatest_integer_1`" in row
    assert str(place) not in page


def test_page_describes_engines_and_names_those_that_did_not_run(place: Path) -> None:
    lines = (place / "page.md").read_text().splitlines()
    assert "onnxruntime's CPU provider." in lines
    (missing,) = (line for line in lines if line.startswith("Not run: "))
    assert "IREE" in missing
    assert "CPU provider" not in missing


def test_page_claims_nothing_of_models_that_did_not_run(cases: list[Case], tmp_path: Path) -> None:
    write_page([EngineResults("e", "Engine", "1", forms={"portable": {}})], cases, tmp_path / "page.md")
    assert "Engine 1" not in (tmp_path / "page.md").read_text()


def test_a_second_run_starts_no_engine_and_changes_nothing(
    place: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [file for file in place.rglob("*") if file.is_file()]
    before = {file: file.read_bytes() for file in files}
    monkeypatch.setattr(runner, "run_batch", lambda *_: pytest.fail("an engine was started"))
    assert run(folder, place, monkeypatch, "--portable") == 0
    assert {file: file.read_bytes() for file in place.rglob("*") if file.is_file()} == before


def test_a_run_that_ended_goes_on_with_the_next_case(
    place: Path, cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (engine,) = load_engines(["onnxruntime"])
    lines = (place / "results" / "onnxruntime.written.jsonl").read_text().splitlines()
    results = tmp_path / "results.jsonl"
    results.write_text("\n".join([*lines[:-2], lines[-2][:20]]))  # the last line is cut off
    started: list[str] = []
    real = runner.run_batch

    def note(engine: Engine, batch: list[Case], *rest: Any) -> int:
        started.extend(case.name for case in batch)
        return real(engine, batch, *rest)

    monkeypatch.setattr(runner, "run_batch", note)
    readable = [case for case in cases if case.format == "onnx"]
    verdicts = run_engine(engine, readable, PYTHON, results, 60)
    assert started == [json.loads(line)["name"] for line in lines[-2:]]
    assert [json.dumps(verdict) for verdict in verdicts.values()] == lines
    assert list(read_results(results)) == list(verdicts)


def test_a_changed_case_runs_again(place: Path, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "cases"
    shutil.copytree(folder, copy)
    case = next(case for case in read_cases(copy) if case.format == "onnx" and not case.is_refused)
    digest = case.digest
    (case.folder / "left_by_an_engine.json").write_text("{}")
    assert case.digest == digest
    (case.folder / "test_data_set_0" / "output_0.pb").write_bytes(b"")
    assert case.digest != digest


def make_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> Engine:
    """Return an engine whose file is in a copy of the suite, as a stranger adds one."""
    shutil.copytree(ROOT, tmp_path / "conformance")
    text = f"import os\nREQUIREMENTS = ['liar==1']\n{body}\n"
    (tmp_path / "conformance" / "engines" / "liar.py").write_text(text)
    monkeypatch.setattr(runner, "ROOT", tmp_path / "conformance")
    (engine,) = load_engines(["onnxruntime"])
    return Engine("liar", engine.module)


def test_a_case_that_ends_the_process_does_not_end_the_run(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "def open_engine():\n    return lambda model, *_: os.abort() if 'split' in str(model) else []"
    engine = make_engine(monkeypatch, tmp_path, body)
    verdicts = run_engine(engine, cases, PYTHON, tmp_path / "results.jsonl", 60)
    assert {name: one["detail"] for name, one in verdicts.items() if one["verdict"] == "dies"} == {
        case.name: f"ends the process {END_OF_ABORT}" for case in cases if "split" in case.name
    }
    assert {one["verdict"] for name, one in verdicts.items() if "split" not in name} == {"wrong"}


def test_all_results_of_a_child_count_though_it_ends_before_they_are_read(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(monkeypatch, tmp_path, "def open_engine():\n    return lambda *_: []")
    assert run_batch(engine, cases[:3], PYTHON, 60, lambda *_: time.sleep(1)) == 3


@POSIX
def test_a_case_that_ends_node_dies(cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "node").write_text("#!/bin/sh\nread line\nexit 3\n")
    (tmp_path / "node").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    body = "from conformance.javascript import open_node\ndef open_engine():\n    return open_node('any')"
    engine = make_engine(monkeypatch, tmp_path, body)
    verdicts = run_engine(engine, cases[:2], PYTHON, tmp_path / "results.jsonl", 60)
    assert [one["detail"] for one in verdicts.values()] == ["ends the process with exit status 1"] * 2


def test_forks_of_an_engine_that_spills_end_alone(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "import time\ndef open_engine():\n    return lambda model, *_: time.sleep(9) if 'split' in str(model) else []"
    )
    engine = make_engine(monkeypatch, tmp_path, body)
    monkeypatch.setattr(Engine, "spills", True)
    chosen = [case for case in cases if "split_18_an_empty" in case.name]
    verdicts = run_engine(engine, chosen + cases[:1], PYTHON, tmp_path / "results.jsonl", 1)
    assert [one["verdict"] for one in verdicts.values()] == ["dies", "dies", "wrong"]
    assert verdicts[chosen[0].name]["detail"] == f"takes longer than {1 if hasattr(os, 'fork') else 2} seconds"


def test_an_engine_that_cannot_load_is_not_run(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(monkeypatch, tmp_path, "import no_such_engine")
    with pytest.raises(CannotLoad, match="No module named 'no_such_engine'"):
        run_engine(engine, cases, PYTHON, tmp_path / "results.jsonl", 60)


def test_verdicts_compare_types_shapes_and_bytes(cases: list[Case]) -> None:
    case = next(case for case in cases if case.name == "test_slice_13_to_the_greatest_integer_1")
    right = case.outputs[0]

    def verdict(*outputs: Any, is_loose: bool = False) -> str:
        return judge(case, {"outputs": [to_json(output) for output in outputs]}, is_loose=is_loose)["verdict"]

    assert verdict(right) == "equal"
    assert verdict(right[::-1]) == verdict(right[:-1]) == verdict(right, right) == verdict() == "wrong"
    assert verdict(right.astype(np.int32)) == verdict(right.reshape(1, -1)) == "wrong"
    assert verdict(right.astype(np.int32), is_loose=True) == "equal"
    assert judge(case, {"error": "no"}, is_loose=False) == {"verdict": "refused", "detail": "no"}


def test_a_forbidden_model_must_be_refused(cases: list[Case]) -> None:
    case = next(case for case in cases if case.is_refused)
    assert judge(case, {"error": "no"}, is_loose=False)["verdict"] == "equal"
    assert judge(case, {"outputs": []}, is_loose=False)["verdict"] == "wrong"
    assert judge(case, {"died": "signal 11"}, is_loose=False)["verdict"] == "dies"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "uint64", "complex64"])
def test_arrays_are_the_same_after_json(dtype: str) -> None:
    import ml_dtypes

    array = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    copy = from_json(json.loads(json.dumps(to_json(array))))
    assert (copy.dtype, copy.shape, copy.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_each_engine_is_short_and_pins_its_versions() -> None:
    assert len(NAMES) >= 13
    for engine in load_engines(["all"]):
        assert len(Path(str(engine.module.__file__)).read_text().splitlines()) < 60
        assert all("==" in package or "@" in package for package in engine.packages)
        assert engine.version


def test_unknown_engine_and_folder_without_cases_are_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="unknown engine 'tracd'; known are "):
        load_engines(["tracd"])
    with pytest.raises(SystemExit, match="has no cases; write them by: sliceport cases --export"):
        read_cases(tmp_path)
