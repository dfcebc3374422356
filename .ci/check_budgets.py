"""Check that no package has more statement lines than its budget in pyproject.toml, `[tool.sliceport.budgets]`.

Statement lines are lines of code without blank lines, comments, docstrings and imports, so that words are free.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
import tomllib
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


def count_package(package: str) -> int:
    """Return the statement lines of the files of a package, including new files that git does not know yet."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", package]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    files = [ROOT / name for name in set(listed.stdout.split("\0")) if Path(name).suffix in COUNTED]
    count = 0
    for file in filter(Path.is_file, files):
        text = file.read_text("utf-8")
        if file.suffix == ".py":
            count += count_statement_lines(text)
        else:
            lines = map(str.strip, text.splitlines())
            count += sum(bool(line) and not line.startswith(("//", "/*", "*", "#include", "import ")) for line in lines)
    return count


def main() -> int:
    """Print the statement lines and the budget of each package. Return 1 if a package exceeds its budget."""
    if not (ROOT / ".git").exists():  # an unpacked source archive
        return 0
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["sliceport"]["budgets"]
    exceeded = 0
    for package, budget in budgets.items():
        lines = count_package(package)
        print(f"{package}: {lines} of {budget} statement lines")
        if lines > budget:
            advice = "find what to remove, or raise [tool.sliceport.budgets] in pyproject.toml and say why"
            print(f"{package} has {lines - budget} statement lines too many: {advice}.", file=sys.stderr)
            exceeded = 1
    return exceeded


if __name__ == "__main__":
    sys.exit(main())
