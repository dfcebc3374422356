"""`sliceport defects`: the table of known defects of engines."""

from __future__ import annotations

import argparse

from sliceport.cli import console
from sliceport.cli.console import emit, emit_json
from sliceport.cli.parser import Commands
from sliceport.commands.options import add_format, add_verbose
from sliceport.defects.engines import ALL_TITLES, TITLES


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("defects", help="list what engines are known to do wrong with slicing")
    command.add_argument("--engine", choices=tuple(ALL_TITLES), help="only what this engine does wrong")
    add_format(command)
    add_verbose(command, "also print what is right, the workaround and the cases")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> bool:
    """Run the command."""
    from sliceport.defects.table import DEFECTS, defects_of, to_json
    from sliceport.report.defects import defects_text

    defects = DEFECTS if options.engine is None else defects_of(options.engine)
    if options.format == "json":
        emit_json(to_json(defects))
    else:
        engines = tuple(TITLES) if options.engine is None else (options.engine,)
        emit(defects_text(engines, verbose=options.verbose > 0, columns=console.width()))
    return True
