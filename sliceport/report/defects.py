"""The table of defects as text."""

from __future__ import annotations

from collections.abc import Sequence

from sliceport.defects.defect import Defect, Divergence
from sliceport.defects.engines import ALL_TITLES, REPORTED_TITLES
from sliceport.defects.table import defects_of
from sliceport.report.table import wrap


def defects_text(engines: Sequence[str], *, verbose: bool = False, columns: int | None = None) -> str:
    """Format the defects of each engine in lines of at most `columns`.

    With `verbose`, the right behavior, the versions, the handling and the cases are added.
    """
    lines = []
    for engine in engines:
        note = ", from reports or single runs, not from tests" if engine in REPORTED_TITLES else ""
        lines.append(f"{ALL_TITLES[engine]} ({engine}){note}")
        for defect in defects_of(engine):
            (divergence,) = [each for each in defect.divergences if each.engine == engine]
            for line in _describe(defect, divergence, verbose):
                lines += wrap(line, columns)
        lines.append("")
    return "\n".join(lines).rstrip("\n")


def _describe(defect: Defect, divergence: Divergence, verbose: bool) -> list[str]:
    issues = f" ({', '.join(divergence.issues)})" if divergence.issues else ""
    lines = [f"  {defect.id}: given {defect.trigger}, it {divergence.does}{issues}"]
    if not verbose:
        return lines
    lines += [f"    right: {defect.right}", f"    seen in: {divergence.seen_in or 'no version is stated'}"]
    lines.append(f"    {defect.remedy}")
    lines += [
        f"    case: {example.case}: {example.seen[divergence.engine]} instead of {example.right}"
        for example in defect.examples_on(divergence.engine)
    ]
    return lines
