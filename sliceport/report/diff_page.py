"""Results of `diff` as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sliceport.report.diff import diff_summary
from sliceport.report.drawing import draw
from sliceport.report.page import open_template
from sliceport.shell import join

if TYPE_CHECKING:
    from sliceport.diffing.report import DiffReport

_MAX_NODES = 30


def diff_page(report: DiffReport, models: Sequence[str]) -> str:
    """Return the page of a report about one or two models.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    part, drawing = report.part, None
    sentences = [f"{report.failed}: {report.failure.message}"] if report.failed and report.failure is not None else []
    if part is not None:
        sentences += part.causes if part.defects else part.sentences
        if len(part.case.nodes) <= _MAX_NODES:
            drawing = draw(part.case, [one.name for one in part.outputs if one.kind])
    return open_template("report/diff.html").render(
        title=f"sliceport diff: {' '.join(models)}",
        summary=diff_summary(report),
        models=models,
        report=report,
        part=part,
        sentences=[*sentences, *report.notes],
        drawing=drawing,
        harden=f"{join(['sliceport', 'harden', models[-1]])} -o OUT",
    )
