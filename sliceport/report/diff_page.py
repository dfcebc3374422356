"""Results of `diff` as an HTML page of one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sliceport import __version__
from sliceport.diffing.difference import Failure
from sliceport.report.diff import diff_summary
from sliceport.report.drawing import MAX_NODES, draw
from sliceport.report.page import open_template
from sliceport.shell import join

if TYPE_CHECKING:
    from sliceport.diffing.report import DiffReport, Part
    from sliceport.engines.engine import Value

_MAX_OUTPUTS = 10
_MAX_ELEMENTS = 8


def diff_page(report: DiffReport, models: Sequence[str]) -> str:
    """Return the page of a report: outputs, cause, a drawing of the smallest model that differs, and its values.

    Args:
        report: The report.
        models: The names of the models.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    part = report.part
    is_small = part is not None and len(part.case.nodes) <= MAX_NODES
    failures = [f"{report.failed}: {report.failure.message}"] if report.failed and report.failure is not None else []
    return open_template("report/diff.html").render(
        title=f"sliceport diff: {' '.join(models)}",
        version=__version__,
        summary=diff_summary(report),
        models=models,
        report=report,
        part=part,
        harden=f"{join(['sliceport', 'harden', models[-1]])} -o OUT",
        outputs=sorted(report.outputs, key=lambda one: one.status != "different"),
        listed=_MAX_OUTPUTS,
        sentences=[*failures, *(part.causes if part is not None else ()), *report.notes],
        drawing=draw(part.case, _wrong(part)) if part is not None and is_small else None,
        nodes=() if part is None or is_small else part.case.nodes,
        expected={} if part is None or part.outputs else _describe_expected(part.expected),
    )


def _wrong(part: Part) -> set[str]:
    """Return the names of the outputs that are wrong; all if the engine did not run the part."""
    if part.case.failure.is_of_run:
        return set(part.case.outputs)
    return {one.name for one in part.outputs if one.kind}


def _describe_expected(outputs: Mapping[str, Value] | Failure) -> dict[str, str]:
    """Return a line about each output of the engine that ran the part."""
    if isinstance(outputs, Failure):
        return {}
    return {
        name: f"{value.dtype}{list(value.shape)} {', '.join(map(str, value.reshape(-1)[:_MAX_ELEMENTS]))}"
        + ", …" * (value.size > _MAX_ELEMENTS)
        for name, value in outputs.items()
        if isinstance(value, np.ndarray)
    }
