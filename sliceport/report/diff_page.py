"""Results of `diff` as an HTML page, and as node data for Google's Model Explorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sliceport.report.diff import diff_summary
from sliceport.report.drawing import draw
from sliceport.report.model_explorer import AMBER, RED, node_data
from sliceport.report.page import open_template
from sliceport.shell import join

if TYPE_CHECKING:
    from sliceport.diffing.report import DiffReport

_MAX_NODES = 30


def diff_page(report: DiffReport, models: Sequence[str]) -> str:
    """Return the page of a report: outputs, cause, a drawing of the smallest model that differs, and its values.

    Args:
        report: The report.
        models: The names of the models.

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


def diff_node_data(report: DiffReport, ids: Mapping[str, str] | None) -> str:
    """Return node data of the smallest part that differs: its nodes in amber, the first that differs in red.

    A part of a body stands for the node of the main graph that has the body. Nodes without an id are left out.

    Args:
        report: The report.
        ids: Ids by the names of nodes and outputs; None if nodes go by their names.
    """
    results = {}
    if report.part is not None:
        case = report.part.case
        for node in case.nodes if case.holder is None else [case.holder]:
            is_first = node in (case.culprit, case.holder)
            value = case.failure.message if is_first else "in the smallest model that differs"
            for key in {node.name: 0} if ids is None else {ids[n]: 0 for n in (*node.writes, node.name) if n in ids}:
                results[key] = (value, RED if is_first else AMBER)
    return node_data(f"sliceport diff: {report.on}", results)
