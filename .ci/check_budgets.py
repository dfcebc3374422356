"""Check that no package has more lines than its budget in pyproject.toml, `[tool.sliceport.budgets]`."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

COUNTED = {".py", ".cpp", ".hpp", ".h", ".js", ".mjs", ".html", ".css"}
ROOT = Path(__file__).parent.parent


def count_lines(package: str) -> int:
    """Return the lines of the files of a package that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z", package], cwd=ROOT, check=True, capture_output=True, text=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if Path(name).suffix in COUNTED]
    return sum(len(file.read_bytes().splitlines()) for file in files if file.is_file())


def main() -> int:
    """Print the lines and the budget of each package. Return 1 if a package exceeds its budget."""
    if not (ROOT / ".git").exists():  # an unpacked source archive
        return 0
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["sliceport"]["budgets"]
    exceeded = 0
    for package, budget in budgets.items():
        lines = count_lines(package)
        print(f"{package}: {lines} of {budget} lines")
        if lines > budget:
            print(f"{package} has {lines - budget} lines too many: find what to remove.", file=sys.stderr)
            exceeded = 1
    return exceeded


if __name__ == "__main__":
    sys.exit(main())
