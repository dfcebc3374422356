"""Tables in HTML, which notebooks show for results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table of escaped cells.

    >>> html_table("1 node", ["node"], [["a<b"]])
    '<table><caption>1 node</caption><tr><th>node</th></tr><tr><td>a&lt;b</td></tr></table>'
    """
    body = "".join(_format_row("td", cells) for cells in rows)
    return f"<table><caption>{escape(caption)}</caption>{_format_row('th', columns)}{body}</table>"


def _format_row(tag: str, cells: Iterable[object]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"
