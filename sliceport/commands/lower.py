"""`lower`: DirectML operators for the slicing nodes of a model."""

from __future__ import annotations

from pathlib import Path

from sliceport import progress
from sliceport.commands.outcome import Options, Outcome, finding


def run(model: str, output: Path | None, options: Options, *, overwrite: bool = False) -> Outcome:
    """Lower a model's file; write the program into the folder `output`, if any."""
    from sliceport.api import lower
    from sliceport.report.text import program_summary, program_text

    progress.say(f"lowering {model}")
    program = lower(model, **options)
    if output is not None:
        program.write(output, overwrite=overwrite)
    return Outcome(
        is_clean=not program.summary["refused"],
        summary=lambda: program_summary(program),
        to_json=program.to_json,
        text=lambda verbose, columns: program_text(program, verbose=verbose, columns=columns),
        list_findings=lambda: [
            finding(lowered.reason.code, lowered.node.op_type, lowered.node.name, lowered.reason.message)
            for lowered in program.nodes
            if lowered.reason is not None
        ],
        output=None if output is None else output / "program.json",
    )
