"""`sliceport doctor`: every package, format and engine, what is broken, and how to get what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from command_line import Invoke

from sliceport.cli.main import make_parser
from sliceport.device import status as device_status
from sliceport.engines.diagnosis import Diagnosis, _distributions, diagnose_package
from sliceport.engines.directml import ENGINE
from sliceport.engines.registry import engines
from sliceport.formats import formats

INSTALLED = {
    "installed": True,
    "missing": None,
    "backend": "Wine",
    "packages": "DirectML 1.15.4",
    "adapter": "llvmpipe",
    "self_test": "passed",
}
ABSENT = {"installed": False, "missing": None, "self_test": "not run"}


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the status of DirectML, which takes seconds."""
    found = dict(INSTALLED)
    monkeypatch.setattr(device_status, "status", lambda: dict(found))
    return found


def test_json_has_every_format_engine_and_package(invoke: Invoke, report: dict[str, Any]) -> None:
    out, err = invoke("doctor", "--json")
    assert err == ""
    assert make_parser().parse_args(["doctor", "--json"]) == make_parser().parse_args(["doctor", "--format", "json"])
    found = json.loads(out)
    assert (found["schema_version"], found["is_healthy"]) == (1, True)
    assert all(list(one) == ["name", "status", "detail", "advice"] for one in found["diagnoses"])
    by_name = {one["name"]: one for one in found["diagnoses"]}
    assert len(by_name) == len(found["diagnoses"])
    assert {f"format {name}" for name in formats()} | {f"engine {name}" for name in engines()} <= set(by_name)
    for name in ("sliceport", "onnx", "onnx-ir", "onnxscript"):
        assert by_name[name] == {"name": name, "status": "ok", "detail": metadata.version(name), "advice": ""}
    assert by_name["Python"]["detail"].startswith(".".join(map(str, sys.version_info[:3])))
    assert "CPUExecutionProvider" in by_name["onnxruntime"]["detail"]
    assert by_name["openvino"]["detail"] == metadata.version("openvino")
    assert by_name["DirectML"]["detail"] == "DirectML 1.15.4, Wine, llvmpipe"
    assert by_name["operators in C++"]["detail"].split(", because ")[0] in ("used", "those in Python are used")


def test_text_has_a_row_a_thing_and_a_line_for_what_is_missing(invoke: Invoke, report: dict[str, Any]) -> None:
    report |= ABSENT
    out, err = invoke("doctor")
    assert err == ""
    rows = out.splitlines()
    assert rows[0].split() == ["name", "status", "detail"]
    assert [row.split()[:2] for row in rows[2:4]] == [["sliceport", "ok"], ["Python", "ok"]]
    assert any(row.startswith("DirectML ") and row.endswith(" missing  not installed") for row in rows)
    assert "DirectML: missing; run: sliceport directml install" in rows


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, Diagnosis("DirectML", "ok", "DirectML 1.15.4, Wine, llvmpipe")),
        (
            {"self_test": "failed: wrong values"},
            Diagnosis("DirectML", "broken", "self-test failed: wrong values", "run: sliceport directml status"),
        ),
        (ABSENT, Diagnosis("DirectML", "missing", "not installed", "run: sliceport directml install")),
        (
            ABSENT | {"missing": "there is no unshare"},
            Diagnosis("DirectML", "missing", "it cannot be installed here: there is no unshare"),
        ),
    ],
)
def test_directml_is_diagnosed_by_its_status(
    report: dict[str, Any], changed: dict[str, Any], expected: Diagnosis
) -> None:
    report |= changed
    assert next(iter(ENGINE.diagnose())) == expected


def test_what_is_broken_is_exit_1(invoke: Invoke, report: dict[str, Any]) -> None:
    report["self_test"] = "failed: the host ended"
    text, data = invoke("doctor", code=1), invoke("doctor", "--json", code=1)
    assert (text.err, data.err) == ("", "")
    assert "DirectML: broken; run: sliceport directml status" in text.out.splitlines()
    assert not json.loads(data.out)["is_healthy"]


def install(folder: Path, source: str, entry_points: str = "") -> Path:
    (folder / "throwaway.py").write_text(source)
    info = folder / "throwaway-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: throwaway\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    (info / "top_level.txt").write_text("throwaway\n")
    _distributions.cache_clear()
    return folder


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("throwaway", None)
    _distributions.cache_clear()


def test_packages_are_found(on_path: Path) -> None:
    missing = Diagnosis("throwaway", "missing", "not installed", "run: pip install throwaway")
    assert diagnose_package("throwaway", missing.advice) == missing
    assert diagnose_package("throwaway", missing.advice, distribution="throwaway") == missing
    install(on_path, "")
    for distribution in (None, "throwaway"):
        found = diagnose_package("throwaway", missing.advice, distribution=distribution)
        assert found == Diagnosis("throwaway", "ok", "1.0")


def test_a_package_that_cannot_be_imported_is_broken(on_path: Path) -> None:
    install(on_path, "raise ImportError('libx.so: cannot open')")
    expected = Diagnosis("throwaway", "broken", "throwaway 1.0: ImportError: libx.so: cannot open", "reinstall it")
    assert diagnose_package("throwaway", "reinstall it") == expected


ENGINES = """
from sliceport.engines.diagnosis import Diagnosis

class Telling:
    name, description, formats = "telling", "it tells", ("onnx",)
    def run_node(self, node, data): ...
    def diagnose(self):
        yield Diagnosis("its library", "missing", "not found", "run: get it")

class Raising(Telling):
    name = "raising"
    def diagnose(self):
        raise OSError("it cannot say")

TELLING, RAISING = Telling(), Raising()
"""
POINTS = """[sliceport.engines]
raising = throwaway:RAISING
telling = throwaway:TELLING
gone = throwaway_that_is_gone:ENGINE
[sliceport.formats]
none = throwaway:TELLING
"""


def diagnose(folder: Path) -> list[dict[str, Any]]:
    """Return the diagnoses of a process that has a folder with a broken entry point in its path."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-m", "sliceport", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert (done.returncode, done.stderr) == (1, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)["diagnoses"]
    return found


def test_engines_of_others_and_broken_ones(tmp_path: Path) -> None:
    """Every other command refuses to start where one is broken; this one says which, and goes on."""
    install(tmp_path, ENGINES, POINTS)
    by_name = {one["name"]: one for one in diagnose(tmp_path)}
    gone = by_name["engine gone"]
    assert (gone["status"], gone["advice"]) == ("broken", "update or uninstall throwaway")
    assert gone["detail"].startswith("entry point 'gone' of sliceport.engines (throwaway_that_is_gone:ENGINE) cannot")
    assert by_name["engine telling"]["status"] == by_name["engine ov_ext"]["status"] == "ok"
    assert by_name["its library"] == {
        "name": "its library",
        "status": "missing",
        "detail": "not found",
        "advice": "run: get it",
    }
    assert "is not a format: it lacks title" in by_name["format none"]["detail"]
    assert by_name["format onnx"]["status"] == "ok"
    broken = [name for name, one in by_name.items() if one["status"] == "broken"]
    assert broken == ["format none", "engine gone", "engine raising"]


def test_what_ends_the_process_or_cannot_be_asked_is_broken(tmp_path: Path) -> None:
    silent = "class Silent:\n    @property\n    def name(self):\n        raise ValueError('no name')\nx = Silent()"
    many = "class Many:\n    name = ['a']\n    run_operator = print\ny = Many()"
    install(tmp_path, f"{silent}\n{many}", "[sliceport.formats]\na = ending:x\nb = throwaway:x\nc = throwaway:y\n")
    (tmp_path / "ending.py").write_text("import sys\nsys.exit(3)")
    broken = {one["name"]: one["detail"] for one in diagnose(tmp_path) if one["status"] == "broken"}
    assert list(broken) == ["format a", "format b", "format c"]
    assert "cannot be loaded: SystemExit: 3" in broken["format a"]
    assert "no name" in broken["format b"]
    assert "formats" in broken["format c"]
