"""`rewrite`: a model with simpler slicing and the same values."""

from __future__ import annotations

from pathlib import Path

from sliceport.commands.outcome import Options, Outcome, finding, outcome_of_change


def run(model: str, output: Path | None, options: Options, *, overwrite: bool = False) -> Outcome:
    """Rewrite a model's file into the file `output`."""
    from sliceport.api import rewrite

    assert output is not None
    result = rewrite(model, output, overwrite=overwrite, **options)
    return outcome_of_change(
        result,
        output,
        lambda: [
            finding(kind, node["op"], node["node"], node["reason"])
            for kind in ("contested", "invalid")
            for node in result.to_json()[kind]
        ],
    )
