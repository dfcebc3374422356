"""Programs that `forked.py` runs end, print and import as programs in an interpreter of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import run


@pytest.mark.parametrize("words", [["-m", "sliceport"], ["-c", "import sliceport"]])
def test_modules_are_those_of_the_folder(tmp_path: Path, words: list[str]) -> None:
    """Ours are imported from the folder, although the server knows where others are."""
    (tmp_path / "sliceport.py").write_text("print(__name__, open('here').read())")
    (tmp_path / "here").write_text("there")
    done = run(words, tmp_path)
    name = "__main__" if words[0] == "-m" else "sliceport"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{name} there\n", "")


def test_a_program_leaves_nothing_to_the_next() -> None:
    assert run(["-c", "import sys, os; sys.left = 1; os.environ['LEFT'] = '1'; print(1)"]).stdout == "1\n"
    assert run(["-c", "import sys, os; print(hasattr(sys, 'left'), 'LEFT' in os.environ)"]).stdout == "False False\n"
