"""`sliceport cases`: models of one slicing node, with the outputs that their standard requires."""

from __future__ import annotations

import argparse

from sliceport.cli.console import emit
from sliceport.cli.parser import Commands
from sliceport.commands.options import add_verbose


def add(commands: Commands) -> None:
    """Add `sliceport cases` to the parser."""
    command = commands.add_parser("cases", help="write conformance cases of slicing, to test an engine with")
    command.add_argument("--export", metavar="DIR", required=True, help="the folder to write")
    command.add_argument("--random", type=int, metavar="N", default=0, help="also write N random cases")
    command.add_argument("--graphs", type=int, metavar="N", default=0, help="write N random graphs instead of cases")
    command.add_argument("--opsets", metavar="N,…", default="13,17,18,21", help="operator sets of the graphs in ONNX")
    command.add_argument("--seed", type=int, metavar="N", default=0, help="seed of what is random; 0 by default")
    command.add_argument("--overwrite", action="store_true", help="replace a folder of an earlier run")
    add_verbose(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the conformance cases.

    Raises:
        UsageError: An option is not valid, or the folder cannot be written.
    """
    from sliceport.cases.catalogue import draw_cases, read_catalogue
    from sliceport.cases.export import export
    from sliceport.cases.random_graphs import draw_graphs
    from sliceport.errors import UsageError

    for name in ("random", "graphs"):
        if getattr(options, name) < 0:
            raise UsageError(f"--{name} must not be negative, got {getattr(options, name)}.")
    if options.graphs:
        graphs = draw_graphs(options.graphs, options.seed, _read_opsets(options.opsets))
        export(graphs, options.export, overwrite=options.overwrite)
        emit(f"{len(graphs)} graphs are in {options.export}")
        return
    cases = [*read_catalogue(), *draw_cases(options.random, options.seed)]
    export(cases, options.export, overwrite=options.overwrite)
    rules = len({case.rule for case in cases})
    emit(f"{len(cases)} cases of {rules} rules are in {options.export}")


def _read_opsets(text: str) -> list[int]:
    """Return the operator sets of `--opsets`."""
    from sliceport.errors import UsageError

    words = [word for word in text.split(",") if word]
    if not all(word.isdecimal() and int(word) >= 9 for word in words):
        raise UsageError(f"--opsets must be operator sets of ONNX, 9 or later, separated by commas, got '{text}'.")
    return list(map(int, words))
