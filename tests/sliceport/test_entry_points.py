"""Engines of others, such as that of docs/extending.md: a package that registers them is all that it takes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from forked import run
from pages import python_blocks

(REFERENCE,) = python_blocks("docs/extending.md")
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

REVERSED, RAISING = Reversed(), Raising()
NO_ENGINE = object()
"""


def install(folder: Path, group: str = "engines", **points: str) -> Path:
    """Install a package with these engines, or formats, into a folder, as pip would."""
    (folder / "throwaway.py").write_text(REFERENCE + OTHERS)
    info = folder / "throwaway-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: throwaway\nVersion: 1.0\n")
    lines = [f"{name} = throwaway:{value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[sliceport.{group}]", *lines]) + "\n")
    return folder


def sliceport(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return run(["-m", "sliceport", *words], environment={**os.environ, "PYTHONPATH": path})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = {"by-onnx": "ENGINE", "reversed": "REVERSED", "raising": "RAISING"}
    return install(tmp_path_factory.mktemp("site"), **points)


def test_the_engine_of_the_page_is_short() -> None:
    assert len(REFERENCE.splitlines()) <= 30


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
