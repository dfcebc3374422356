"""The README: every command and every block of Python in it runs from a fresh clone, and comes out as it says."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from platforms import POSIX

from sliceport.cli.main import make_parser
from sliceport.directml.device import install

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [(m[1], m[2]) for m in re.finditer(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)]
PYTHON = [text for language, text in BLOCKS if language == "python"]
EXAMPLES = [text for language, text in BLOCKS if not language and text.startswith("$ ")]
SYNOPSES = [text for language, text in BLOCKS if not language and text.startswith("sliceport ")]
VALUE = re.compile(r"^(.*\S)  # (\{.*\}|True|False|\[.*\])$")
NEEDS_DIRECTML = re.compile(r"device\.open|directml run|--verify.*onnxruntime-dml|harden .*--verify")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone has: the files that git knows, and the programs on the path. An installed package is not copied."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("models", "sliceport", "onnx_ops", "ov_ext", "docs", "benchmarks"):
        if not (ROOT / name).is_dir():
            assert name in ("sliceport", "onnx_ops", "ov_ext")
            continue
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False, timeout=300
    )  # fmt: skip


def skip_without_directml(text: str) -> None:
    if NEEDS_DIRECTML.search(text) and not install.is_installed():
        pytest.skip("DirectML is not installed: run sliceport directml install")


def checked(text: str) -> str:
    """A block of Python with what its comments say that expressions are as assertions."""
    lines = []
    for line in text.splitlines():
        found = VALUE.match(line)
        lines.append(f"assert ({found[1]}) == {found[2]}, {found[1]}" if found else line)
    return "\n".join(lines)


def test_there_is_something_to_run():
    assert (len(PYTHON), len(EXAMPLES), len(SYNOPSES)) == (5, 5, 2)
    assert sum(VALUE.match(line) is not None for text in PYTHON for line in text.splitlines()) == 2


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of an example, each with the lines that it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


class TestBlocks:
    @pytest.mark.parametrize("number", range(len(PYTHON)))
    def test_python(self, clone, number):
        skip_without_directml(PYTHON[number])
        done = run([sys.executable, "-c", checked(PYTHON[number])], clone)
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.parametrize("number", range(len(EXAMPLES)))
    def test_examples(self, clone, number):
        for command, lines in commands(EXAMPLES[number]):
            skip_without_directml(command)
            program, *words = shlex.split(command)
            assert program == "sliceport"
            if words[1] == "model.xml":  # written by a block of Python
                (writing,) = (text for text in PYTHON if '"model.xml"' in text)
                assert run([sys.executable, "-c", writing], clone).returncode == 0
            done = run([sys.executable, "-m", "sliceport", *words], clone)
            assert done.returncode in (0, 1), done.stderr
            # on DirectML, nodes and messages differ with the edition that is installed
            compared = slice(1) if NEEDS_DIRECTML.search(command) else slice(None)
            assert done.stdout.splitlines()[compared] == lines[compared]


def options(parser) -> set[str]:
    return {o for a in parser._actions for o in a.option_strings if o.startswith("--")}


def test_synopses_name_every_option_and_no_other():
    commands = next(a for a in make_parser()._actions if a.dest == "command").choices
    directml = next(a for a in commands["directml"]._actions if a.dest == "action").choices
    known = {("sliceport", name): command for name, command in commands.items()}
    known |= {("sliceport directml", name): command for name, command in directml.items()}
    seen = set()
    for text in SYNOPSES:
        for entry in re.split(r"^(?=sliceport )", text, flags=re.MULTILINE)[1:]:
            found = re.match(r"(sliceport directml|sliceport) ([a-z]+)(?=\s)", entry)
            if found is None or found.groups() == ("sliceport", "directml"):
                continue
            key = (found[1], found[2])
            named = set(re.findall(r"--[a-z-]+", entry))
            left_out = {"--help", "--quiet", "--verbose", "--output", "--if-possible"}
            assert named == options(known[key]) - left_out, key
            seen.add(key)
    assert seen == set(known) - {("sliceport", "directml")}


@POSIX
@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
class TestMake:
    def planned(self, clone: Path, *words: str) -> str:
        done = run(["make", "-n", *words], clone)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @pytest.mark.parametrize("target", sorted(set(re.findall(r"^make (\w+)", README, re.MULTILINE))))
    def test_targets_are_there(self, clone, target):
        assert ".venv/bin/" in self.planned(clone, target)

    def test_directml_is_announced_and_can_be_left_out(self, clone):
        plan = self.planned(clone, "test")
        assert plan.index("3.3 GB") < plan.index("sliceport directml install") < plan.index("-m pytest")
        plan = self.planned(clone, "test", "DIRECTML=no")
        assert "directml install" not in plan
        assert plan.index("-m pytest") < plan.index("nothing was installed")

    def test_the_demo_runs(self, clone):
        for line in self.planned(clone, "demo").splitlines():
            if line.startswith(".venv/bin/sliceport"):
                words = shlex.split(line)
                assert run([sys.executable, "-m", "sliceport", *words[1:]], clone).returncode == 0
