"""`sliceport completion`: a script that makes a shell complete the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from sliceport.cli.console import emit
from sliceport.cli.parser import Commands
from sliceport.errors import MissingExtra

SHELLS = ("bash", "zsh", "fish", "powershell")
_FILES = (
    "model", "models", "other", "output", "sources", "runs", "manifest", "html", "model_explorer", "resume", "export",
)  # fmt: skip
"""The arguments that are files or folders."""


def add(commands: Commands) -> None:
    """Add `sliceport completion` to the parser."""
    command = commands.add_parser("completion", help="print a shell completion script")
    command.add_argument("shell", choices=SHELLS, help='for bash: eval "$(sliceport completion bash)"')
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the completion script of a shell.

    Raises:
        MissingExtra: shtab is not installed.
    """
    try:
        import shtab
    except ImportError:
        raise MissingExtra.of("shtab", "cli", "by completion") from None
    from sliceport.cli.main import make_parser

    parser = make_parser()  # with all commands
    for action in _walk_actions(parser):
        if action.dest in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    emit(shtab.complete(parser, shell=options.shell))


def _walk_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser, and of the parsers of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _walk_actions(subparser)
