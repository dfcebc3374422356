"""Script that writes the table of passes in `docs/rewrite.md` from the docstrings of the passes."""

from __future__ import annotations

import inspect
from pathlib import Path

from onnx_ops.passes import PASSES

PAGE = Path(__file__).parents[3] / "docs" / "rewrite.md"
HEAD = "| pass | what it does |\n|---|---|\n"


def passes_page() -> str:
    """Return the page with a row for each pass: the paragraphs of its docstring before the rules."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(HEAD)
    summaries = {name: inspect.cleandoc(kind.__doc__ or "").partition("\n\n1. ")[0] for name, kind in PASSES.items()}
    rows = [f"| `{name}` | {' '.join(summary.split())} |\n" for name, summary in summaries.items()]
    return "".join([before, HEAD, *rows, rest[rest.index("\n\n") + 1 :]])


if __name__ == "__main__":
    PAGE.write_text(passes_page(), encoding="utf-8")
