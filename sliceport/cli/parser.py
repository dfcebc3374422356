"""The parser of the command line: one-line errors with the nearest choice, and lists below the help."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from sliceport.cli.console import can_show_color, emit
from sliceport.errors import UsageError, unknown_name

BAD_INPUT = 2
Commands = Any
"""The type of the result of `add_subparsers`, which is private in argparse."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are a `UsageError` of one line."""

    listing: Callable[[], str] = staticmethod(lambda: "")
    """Returns the end of the help, which may be empty."""

    def add_subparsers(self, **options: Any) -> Commands:
        """Add the subparsers of commands. A command line without one of the commands prints the help."""
        self.set_defaults(run=lambda _: self.print_help())
        return super().add_subparsers(**options)

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError."""
        raise UsageError(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words. Suggest `--format json` for `--json` if the command has only `--format`."""
        namespace, rest = super().parse_known_args(args, namespace)
        if "--json" in rest and "--format" in self._option_string_actions:
            self.error(f"unrecognized arguments: {' '.join(rest)}; write --format json")
        return namespace, rest

    def format_help(self) -> str:
        """Return the help, with the listing at its end."""
        if epilog := self.listing():
            self.epilog = epilog
            if self.formatter_class is argparse.HelpFormatter:  # it would join the lines of the listing
                self.formatter_class = argparse.RawDescriptionHelpFormatter
        return super().format_help()

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002 - argparse passes none
        """Print the help to stdout: in color on a terminal, if rich-argparse is installed."""
        colored = _colored_formatter() if can_show_color() else None
        self.formatter_class = colored or self.formatter_class
        # Colors are control characters, which must not be escaped.
        emit(self.format_help().rstrip("\n"), is_raw=colored is not None)

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ARG002 - only --version calls this
        emit(message.rstrip("\n"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            # The empty choice stands for an option without a value, so it is not named.
            choices = [str(choice) for choice in action.choices if choice != ""]
            # `unknown_name` gets no kind, because argparse puts the name of the option before the message.
            raise argparse.ArgumentError(action, str(unknown_name("", value, choices)).strip())


def _colored_formatter() -> type[argparse.HelpFormatter] | None:
    """Return a formatter of colored help that keeps line ends. Return None if rich-argparse is not installed."""
    try:
        from rich_argparse import RawDescriptionRichHelpFormatter
    except ImportError:
        return None

    class Colored(RawDescriptionRichHelpFormatter):
        text_markup = help_markup = False  # brackets in a text are not markup for rich

    return Colored
