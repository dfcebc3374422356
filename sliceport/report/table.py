"""Tables and lines for a terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

_GAP = 2
"""The number of spaces between columns, and before further lines of a row or of a wrapped line."""


def printable(text: str) -> str:
    """Escape the characters that are not printable in Python, such as those that a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def display_width(text: str) -> int:
    """Return the number of terminal columns that printable text takes."""
    if text.isascii():
        return len(text)
    # Mn and Me are marks on the character before them. W and F are wide and fullwidth characters.
    columns = {char: 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in set(text)}
    return sum(columns[char] for char in text if unicodedata.category(char) not in ("Mn", "Me"))


def table(rows: Sequence[Sequence[str]], line_width: int | None) -> str:
    """Format rows of cells; the first row is the header. Cells that do not fit in `line_width` go to further lines."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    lines = []
    for row in cells:
        for number, indices in enumerate(_group_by_line(widths, line_width)):
            padded = (row[i] + " " * (widths[i] - display_width(row[i])) for i in indices)
            line = (" " * _GAP).join(padded).rstrip()
            if number > 0:
                if not line:  # the row has no text in these columns
                    continue
                line = " " * _GAP + line
            # The line of dashes below the header is cut off at the edge of the terminal, and not wrapped.
            lines += wrap(line, line_width) if line.strip("- ") else [line[:line_width]]
    return "\n".join(lines)


def _group_by_line(widths: Sequence[int], line_width: int | None) -> list[list[int]]:
    """Return the indices of the cells on each line of a row. Lines after the first are indented by `_GAP`."""
    groups: list[list[int]] = [[]]
    used = 0
    for index, width in enumerate(widths):
        needed = used + _GAP * bool(used) + width
        if line_width is not None and groups[-1] and needed > line_width:
            groups.append([])
            needed = _GAP + width
        groups[-1].append(index)
        used = needed
    return groups


def wrap(line: str, columns: int | None, hanging: int = _GAP) -> list[str]:
    """Break a printable line between words if it is wider than `columns`, and return the lines.

    Lines may have 20 columns even if `columns` is less. Lines after the first are indented by `hanging` more spaces. A
    word longer than a line is not broken. Lines may stay too wide, because wide characters count as one column.
    """
    if columns is None or display_width(line) <= columns:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    indents: dict[str, Any] = {"initial_indent": indent, "subsequent_indent": indent + " " * hanging}
    indents |= {"break_on_hyphens": False, "break_long_words": False}
    return textwrap.wrap(line.strip(), max(columns, 20), **indents) or [""]  # it returns no line for spaces alone
