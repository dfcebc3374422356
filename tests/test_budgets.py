"""The budgets of .ci/check_budgets.py name the folder that grew and the table to edit, and count new files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "check_budgets.py"
LIMITS = "[tool.sliceport]\nbudgets = {{ package = {} }}\nfolders = {{ most = 1, exceptions = {{ {} }} }}\n"


@pytest.mark.skipif(not SCRIPT.exists(), reason="only the packages are here")
@pytest.mark.parametrize(
    ("budget", "exceptions", "problem"),
    [
        (4, '"package/new" = 2', ""),
        (3, '"package/new" = 2', "1 statement lines too many (grown: package/new by 3): "),
        (4, "", "package/new has 2 Python files, more than 1"),
        (4, '"package/new" = 3', "lower its exception to 2"),
        (4, '"package/new" = 2, "package" = 2', "package has 1 Python files: remove its exception"),
    ],
)
def test_limit_names_the_folder_and_the_table(tmp_path: Path, budget: int, exceptions: str, problem: str) -> None:
    for file, lines in (("one.py", 1), ("new/two.py", 2), ("new/three.py", 1), ("new/__init__.py", 0)):
        (tmp_path / "package" / "new").mkdir(parents=True, exist_ok=True)
        (tmp_path / "package" / file).write_text("x = 1\n" * lines)
        if file == "one.py":
            for command in (["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-m", "a"]):
                subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "pyproject.toml").write_text(LIMITS.format(budget, exceptions))
    (tmp_path / ".ci").mkdir()
    copy = tmp_path / ".ci" / SCRIPT.name
    copy.write_text(SCRIPT.read_text("utf-8"))
    done = subprocess.run([sys.executable, str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (
        int(bool(problem)),
        f"package: 4 of {budget} statement lines, {budget - 4} left ({(budget - 4) / budget:.1%})\n",
    )
    assert problem in done.stderr
    assert ("pyproject.toml" in done.stderr) == bool(problem)
