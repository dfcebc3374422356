"""`harden`: a model without the slicing that an engine computes wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sliceport.commands.outcome import Finding, Options, Outcome, finding, outcome_of_change
from sliceport.hardening import explain


def run(model: str, output: Path | None, options: Options, *, overwrite: bool = False) -> Outcome:
    """Harden a model's file into the file `output`."""
    from sliceport.api import harden

    assert output is not None
    result = harden(model, output, overwrite=overwrite, **options)
    return outcome_of_change(result, output, lambda: _list_changes(result.to_json()))


def _list_changes(data: Mapping[str, Any]) -> list[Finding]:
    return [
        finding(
            "not fixed" if change["replacement"] is None else "rewritten",
            change["op"],
            change["node"],
            defect["reason"],
            engine=data["target"],
            defect=defect["id"],
        )
        for change in data["changes"]
        for defect in change["defects"] or [{"id": "", "reason": explain(data["target"])}]
    ] + [finding("invalid", node["op"], node["node"], node["reason"]) for node in data["invalid"]]


def name_output(model: str, options: Options) -> str:
    """Return the name of the file that a batch writes: its suffix is that of the target's format, or the model's."""
    from sliceport.formats import format_of, formats

    by_target = [one for one in formats().values() if options.get("target") in one.targets]
    return f"model{(by_target[0] if by_target else format_of(model)).suffixes[0]}"
