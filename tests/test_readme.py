"""The README is short, its links lead somewhere, and its commands of make exist; test_docs.py runs its blocks."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from forked import run
from pages import ROOT, blocks, examples, python_blocks, read
from platforms import POSIX

README = "README.md"


def test_every_example_is_collected() -> None:
    assert (len(python_blocks(README)), len(examples(README)), len(blocks(README))) == (2, 3, 9)  # and that of `make`


def test_readme_is_short() -> None:
    assert (ROOT / README).stat().st_size <= 8192


def test_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", read(README)) if "://" not in link]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


@POSIX
@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
class TestMake:
    def planned(self, clone: Path, *words: str) -> str:
        """Return the commands that make would run, independent of a make that runs the tests."""
        given = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "DIRECTML", "SHUFFLE"}
        environment = {name: value for name, value in os.environ.items() if name not in given}
        done = subprocess.run(
            ["make", "-n", *words], cwd=clone, capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @pytest.mark.parametrize("target", sorted(set(re.findall(r"^make (\w+)", read(README), re.MULTILINE))))
    def test_every_make_target_of_the_page_exists(self, clone: Path, target: str) -> None:
        assert ".venv/bin/" in self.planned(clone, target)

    def test_directml_is_announced_and_can_be_left_out(self, clone: Path) -> None:
        plan = self.planned(clone, "test")
        assert plan.index("0.4 GB") < plan.index("sliceport directml install") < plan.index("-m pytest")
        plan = self.planned(clone, "test", "DIRECTML=no")
        assert "directml install" not in plan
        assert plan.index("-m pytest") < plan.index("nothing was installed")

    def test_the_documentation_is_built_strictly_and_its_warnings_are_errors(self, clone: Path) -> None:
        assert "mkdocs build --strict" in self.planned(clone, "test")

    def test_the_demo_runs(self, clone: Path) -> None:
        for line in self.planned(clone, "demo").splitlines():
            if line.startswith(".venv/bin/sliceport"):
                words = shlex.split(line)
                assert run(["-m", "sliceport", *words[1:]], clone).returncode == 0
