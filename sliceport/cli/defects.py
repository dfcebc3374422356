"""`sliceport defects`: the table of known defects of engines."""

from __future__ import annotations

import argparse

from sliceport.cli import console
from sliceport.cli.console import emit, emit_json
from sliceport.cli.parser import Commands
from sliceport.commands.options import add_format, add_verbose
from sliceport.defects.engines import ALL_TITLES, TITLES
from sliceport.errors import UsageError


def add(commands: Commands) -> None:
    """Add `sliceport defects` to the parser."""
    command = commands.add_parser("defects", help="list the known defects of engines in slicing")
    command.add_argument("--engine", choices=tuple(ALL_TITLES), help="list only the defects of this engine")
    add_format(command)
    add_verbose(command, "also print what is right, the workaround and the cases")
    actions = command.add_subparsers(dest="action", metavar="ACTION")
    command.set_defaults(run=run)  # without an action, list the defects instead of printing the help
    report = actions.add_parser("report", help="draft a bug report about a defect for the developers of an engine")
    report.add_argument("id", metavar="ID", help="the id of the defect, or the name of its page")
    # Without SUPPRESS, the default would replace an --engine that is given before the word `report`.
    report.add_argument(
        "--engine", choices=tuple(ALL_TITLES), default=argparse.SUPPRESS, help="default: the first with the defect"
    )
    report.set_defaults(run=_print_issue)


def run(options: argparse.Namespace) -> None:
    """List the defects of --engine. Without it, JSON has all defects, and text only those of engines in `TITLES`."""
    from sliceport.defects.table import defects_of, to_json
    from sliceport.report.defects import defects_text

    if options.format == "json":
        emit_json(to_json(None if options.engine is None else defects_of(options.engine)))
    else:
        engines = tuple(TITLES) if options.engine is None else (options.engine,)
        emit(defects_text(engines, verbose=options.verbose > 0, columns=console.width()))


def _print_issue(options: argparse.Namespace) -> None:
    """Print the draft of a bug report. The engine is by default the first one with the defect."""
    from sliceport.defects.table import find_defect
    from sliceport.report.defects import defect_issue

    defect = find_defect(options.id)
    engine = options.engine or defect.engines[0]
    if engine not in defect.engines:
        raise UsageError(f"{defect.id!r} is not a defect of {engine}, but of {', '.join(defect.engines)}.")
    emit(defect_issue(defect, engine))
