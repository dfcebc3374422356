"""Results of `check` as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from sliceport.report.check import Result, group_findings, summarize
from sliceport.report.page import open_template
from sliceport.wording import count_of


def check_page(results: Sequence[Result]) -> str:
    """Return the page of findings: a section for each model, with a card for each group.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    return open_template("report/check.html", groups=group_findings, summary=summarize, nodes=_count).render(
        title=f"sliceport check: {' '.join(result['model'] for result in results)}", results=results
    )


def _count(names: Sequence[str]) -> str:
    return count_of(len(names), "node")
