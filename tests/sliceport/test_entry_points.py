"""Engines of others, such as that of docs/extending.md: a package that registers them is all that it takes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import onnx
import pytest
from forked import run
from pages import python_blocks

REFERENCE, WHOLE = python_blocks("docs/extending.md")
OTHERS = """
class Reversed:
    name = "reversed"
    description = "a wrong one"

    def run_operator(self, operator, data):
        from sliceport.directml import emulator

        return [output[::-1] for output in emulator.run(operator, data)]

class Raising(Reversed):
    name = "raising"

    def run_operator(self, operator, data):
        raise ZeroDivisionError("it divides\\nby 0")

class Nothing:
    name = "nothing"
    description = "returns no outputs"
    model_formats = ("onnx",)
    options = {}

    def version(self):
        return "1"

    def run_model(self, model, inputs, options):
        return None

class Lists(Nothing):
    name = "lists"

    def run_model(self, model, inputs, options):
        return {name: [1.0] for name in model.outputs}

REVERSED, RAISING, NOTHING, LISTS = Reversed(), Raising(), Nothing(), Lists()
NO_ENGINE = object()
"""


def install(folder: Path, group: str = "engines", **points: str) -> Path:
    """Install a package with these engines, or formats, into a folder, as pip would."""
    (folder / "throwaway.py").write_text(REFERENCE + OTHERS)
    (folder / "whole.py").write_text(WHOLE)
    info = folder / "throwaway-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: throwaway\nVersion: 1.0\n")
    lines = [f"{name} = {'' if ':' in value else 'throwaway:'}{value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[sliceport.{group}]", *lines]) + "\n")
    return folder


def sliceport(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return run(["-m", "sliceport", *words], environment={**os.environ, "PYTHONPATH": path})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wrong = {"nothing": "NOTHING", "lists": "LISTS"}
    points = {"by-onnx": "ENGINE", "by-reference": "whole:ENGINE", "reversed": "REVERSED", "raising": "RAISING"}
    return install(tmp_path_factory.mktemp("site"), **points, **wrong)


@pytest.mark.parametrize("engine", [REFERENCE, WHOLE])
def test_engines_of_the_page_are_short(engine: str) -> None:
    assert len(engine.splitlines()) <= 30
    assert len([line for line in engine.splitlines() if line.strip()]) <= 20


def test_the_help_lists_them(folder: Path) -> None:
    done = sliceport(folder, "compare", "--help")
    onnx, openvino = done.stdout.split("executors of OpenVINO")
    assert "by-onnx" in onnx
    assert "by-onnx" not in openvino
    assert "reversed" in openvino


def test_engines_of_other_packages_take_part(folder: Path, models: Path) -> None:
    names = "by-onnx,reversed,raising"
    done = sliceport(folder, "compare", str(models / "rule_coalesce.onnx"), "--executors", names, "--format", "json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    by_executor: dict[str, set[str]] = {}
    for comparison in found["comparisons"]:
        by_executor.setdefault(comparison["executor"], set()).add(comparison["status"])
    assert by_executor == {"by-onnx": {"equal"}, "reversed": {"mismatch"}, "raising": {"error"}}
    assert "raising failed: ZeroDivisionError: it divides by 0" in done.stdout


def test_engine_of_whole_models_reads_external_data(folder: Path, models: Path, tmp_path: Path) -> None:
    proto = onnx.load(models / "dynamo_uneven.onnx")
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    done = sliceport(folder, "diff", str(tmp_path / "m.onnx"), "--on", "by-reference")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("engine", "problem"),
    [
        ("nothing", "NoneType in place of a dict of outputs by name."),
        ("lists", "list for the output 'a' in place of a NumPy array."),
    ],
)
def test_wrong_result_of_run_model_is_named(folder: Path, models: Path, engine: str, problem: str) -> None:
    done = sliceport(folder, "diff", str(models / "rule_coalesce.onnx"), "--on", engine)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"run_model of the engine {engine!r} returns {problem}" in done.stderr


@pytest.mark.parametrize(
    ("executor", "file", "abilities"),
    [
        ("by-reference", "rule_coalesce.onnx", "whole models (see sliceport diff --on) of onnx, not nodes of onnx."),
        ("by-onnx", "rule_new_axis.xml", "nodes of onnx, not nodes of openvino."),
    ],
)
def test_abilities_of_an_engine_that_cannot_take_part_are_named(
    folder: Path, models: Path, executor: str, file: str, abilities: str
) -> None:
    done = sliceport(folder, "compare", str(models / file), "--executors", executor)
    assert done.returncode == 2
    assert f"--executors: {executor!r} runs {abilities}" in done.stderr


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("NO_ENGINE", "is not an engine: it needs name, description, and the members of an operator engine"),
        ("MISSING", "cannot be loaded: AttributeError:"),
    ],
)
def test_what_is_no_engine(tmp_path: Path, models: Path, value: str, sentence: str) -> None:
    done = sliceport(install(tmp_path, broken=value), "compare", str(models / "rule_coalesce.onnx"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"entry point 'broken' of sliceport.engines (throwaway:{value}) {sentence}" in done.stderr


def test_two_of_the_same_name(tmp_path: Path, models: Path) -> None:
    done = sliceport(install(tmp_path, a="REVERSED", b="REVERSED"), "compare", str(models / "rule_coalesce.onnx"))
    assert done.returncode == 2
    assert "has the name 'reversed', like an earlier entry point." in done.stderr


def test_what_is_no_format(tmp_path: Path) -> None:
    done = sliceport(install(tmp_path, "formats", broken="NO_ENGINE"), "lower", "m.onnx")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "entry point 'broken' of sliceport.formats (throwaway:NO_ENGINE) is not a format: it lacks name," in done.stderr
    )
    assert "Traceback" not in done.stderr
