"""The blocks of the README and of the pages in docs/, and how they run in a folder that has what a clone has.

Blocks of the language `text` do not run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked import run

from sliceport.device import install

ROOT = Path(__file__).parents[3]
FOLDERS = ("models", "sliceport", "onnx_ops", "ov_ext", "docs", "benchmarks")
VALUE = re.compile(r"^(.*\S)  # (\{.*\}|True|False|\d+|'.*'|\[.*\])$")
NEEDS_DIRECTML = re.compile(r"device\.open|--on onnxruntime-dml|harden .*--verify=onnxruntime-dml")
MORE = "…"
"""The last line of an example that prints more than it shows."""


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pages() -> list[str]:
    """List the README and the pages."""
    return ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def blocks(name: str) -> list[tuple[str, str]]:
    """Return the fenced blocks of a page, each with its language."""
    found = re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```$", read(name), re.MULTILINE | re.DOTALL)
    return [(match[1], match[2]) for match in found]


def python_blocks(name: str) -> list[str]:
    return [text for language, text in blocks(name) if language == "python"]


def examples(name: str) -> list[str]:
    return [text for language, text in blocks(name) if not language and text.startswith("$ ")]


def synopses(name: str) -> list[str]:
    return [text for language, text in blocks(name) if not language and text.startswith("sliceport ")]


def make_clone(folder: Path) -> Path:
    """Copy the files that git tracks; an installed package is not copied."""
    for name in FOLDERS:
        if not (ROOT / name).is_dir():
            assert name in ("sliceport", "onnx_ops", "ov_ext")
            continue
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "models" / "dynamo_conformer.onnx", folder / "your_model.onnx")
    for name in ("README.md", "Makefile", "pyproject.toml", "mkdocs.yml"):
        shutil.copy(ROOT / name, folder)
    return folder


def skip_without_directml(text: str) -> None:
    if NEEDS_DIRECTML.search(text) and not install.is_installed():
        pytest.skip("DirectML is not installed: run sliceport directml install")


def checked(text: str) -> str:
    """Turn the comments after expressions in a block of Python into assertions."""
    lines = []
    for line in text.splitlines():
        found = VALUE.match(line)
        lines.append(f"assert ({found[1]}) == {found[2]}, {found[1]}" if found else line)
    return "\n".join(lines)


def run_python(text: str, clone: Path) -> None:
    skip_without_directml(text)
    done = run(["-c", checked(text)], clone)
    assert (done.returncode, done.stderr) == (0, "")


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of an example, each with the lines that it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def run_example(name: str, text: str, clone: Path) -> None:
    """Run the commands of an example and compare what they print."""
    for command, lines in commands(text):
        skip_without_directml(command)
        program, *words = shlex.split(command)
        assert program == "sliceport"
        if words[1] == "model.xml":  # written by a block of Python
            (writing,) = (text for text in python_blocks(name) if '"model.xml"' in text)
            assert run(["-c", writing], clone).returncode == 0
        done = run(["-m", "sliceport", *words], clone)
        assert done.returncode in (0, 1), done.stderr
        printed = done.stdout.splitlines()
        if lines[-1] == MORE:
            assert printed[: len(lines) - 1] == lines[:-1]
            assert len(printed) >= len(lines)
        else:
            assert printed == lines
