"""Tables in HTML, which notebooks show for results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table of escaped cells.

    >>> html_table("1 node", ["node"], [["a<b"]])
    '<table><caption>1 node</caption><tr><th>node</th></tr><tr><td>a&lt;b</td></tr></table>'
    """
    html = f"<table><caption>{escape(caption)}</caption>"
    for tag, cells in [("th", columns), *(("td", cells) for cells in rows)]:
        html += f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
    return f"{html}</table>"
