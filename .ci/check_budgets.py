"""Check that no package has more statement lines than its budget, and no folder too many Python files.

The limits are in pyproject.toml, `[tool.sliceport.budgets]` and `[tool.sliceport.folders]`. Statement lines are lines
of code without blank lines, comments, docstrings and imports, so that words are free. A new budget leaves 2 % of room.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

COUNTED = {".py", ".cpp", ".hpp", ".h", ".js", ".mjs", ".html", ".css"}
NO_STATEMENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
ROOT = Path(__file__).parent.parent


def count_statement_lines(text: str) -> int:
    """Return the number of lines of Python code that are no docstring, comment or import."""
    free: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            free.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_STATEMENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - free)


def count_lines(file: Path, text: str) -> int:
    """Return the statement lines of a file with this text."""
    if file.suffix == ".py":
        return count_statement_lines(text)
    lines = map(str.strip, text.splitlines())
    return sum(bool(line) and not line.startswith(("//", "/*", "*", "#include", "import ")) for line in lines)


def git(*words: str) -> str:
    """Return the output of git; empty if git fails."""
    return subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True).stdout


def list_files(package: str, *kinds: str) -> list[Path]:
    """Return the counted files of a package; by default also new files that git does not know yet."""
    listed = git("ls-files", "-z", "--exclude-standard", *(kinds or ("--cached", "--others")), package)
    files = {Path(name) for name in listed.split("\0") if Path(name).suffix in COUNTED}
    return sorted(file for file in files if (ROOT / file).is_file())


def find_growth(package: str, lines_by_file: dict[Path, int]) -> str:
    """Return the folders with more statement lines than the branch main has, or the last commit, the largest first."""
    base = next(filter(None, (git("merge-base", "HEAD", ref).strip() for ref in ("origin/main", "main"))), "HEAD")
    listed = git("diff", "--name-only", "-z", "--no-renames", base, "--", package)
    changed = [Path(name) for name in listed.split("\0") if Path(name).suffix in COUNTED]
    growth: Counter[str] = Counter()
    for file in {*changed, *list_files(package, "--others")}:
        old = count_lines(file, git("show", f"{base}:{file.as_posix()}"))
        growth[file.parent.as_posix()] += lines_by_file.get(file, 0) - old
    return ", ".join(f"{folder} by {lines}" for folder, lines in growth.most_common() if lines > 0)


def check_lines(budgets: dict[str, int]) -> list[str]:
    """Print the statement lines of each package and its room. Return a sentence for each that exceeds its budget."""
    problems = []
    for package, budget in budgets.items():
        lines_by_file = {file: count_lines(file, (ROOT / file).read_text("utf-8")) for file in list_files(package)}
        lines = sum(lines_by_file.values())
        room = budget - lines
        print(f"{package}: {lines} of {budget} statement lines, {room} left ({room / budget:.1%})")
        if room < 0:
            growth = find_growth(package, lines_by_file)
            grown = f" (grown: {growth})" if growth else ""
            advice = "find what to remove, or raise [tool.sliceport.budgets] in pyproject.toml and say why"
            problems.append(f"{package} has {-room} statement lines too many{grown}: {advice}.")
    return problems


def check_folders(packages: list[str], most: int, exceptions: dict[str, int]) -> list[str]:
    """Return a sentence for each folder with too many Python files, and for each exception that is not needed."""
    files = [file for package in packages for file in list_files(package)]
    counts = Counter(str(file.parent) for file in files if file.suffix == ".py" and file.name != "__init__.py")
    table = "pyproject.toml, [tool.sliceport.folders]"
    problems = [
        f"{folder} has {count} Python files, more than {exceptions.get(folder, most)} ({table}): make a folder of some."
        for folder, count in counts.items()
        if count > exceptions.get(folder, most)
    ]
    for folder, allowed in exceptions.items():
        if counts[folder] < allowed:
            change = f"lower its exception to {counts[folder]}" if counts[folder] > most else "remove its exception"
            problems.append(f"{folder} has {counts[folder]} Python files: {change} in {table}.")
    return problems


def main() -> int:
    """Print the sizes of all packages. Return 1 if one exceeds a limit."""
    if not (ROOT / ".git").exists():  # an unpacked source archive
        return 0
    limits = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["sliceport"]
    problems = [*check_lines(limits["budgets"]), *check_folders(list(limits["budgets"]), **limits["folders"])]
    for problem in problems:
        print(problem, file=sys.stderr)
    return min(len(problems), 1)


if __name__ == "__main__":
    sys.exit(main())
