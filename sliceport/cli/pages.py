"""The options --html and --model-explorer: files that are checked before a long computation, and written after it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from sliceport.cli.console import say
from sliceport.errors import MissingExtra
from sliceport.sandbox.place import check_output, write_files


def add_pages(command: argparse.ArgumentParser) -> None:
    """Add --html and --model-explorer."""
    command.add_argument("--html", metavar="FILE", help="also write a report as one HTML file")
    help_ = "also write node data for Google's Model Explorer, as JSON"
    command.add_argument("--model-explorer", metavar="FILE", help=help_)


def read_pages(options: argparse.Namespace) -> dict[str, str | None]:
    """Return the files that --html and --model-explorer name, after a check that they can be written.

    Raises:
        UsageError: A file exists and is to be kept, or cannot be made.
        MissingExtra: jinja2 is not installed.
    """
    names = {"html": options.html, "model_explorer": getattr(options, "model_explorer", None)}
    for name in filter(None, names.values()):
        check_output(Path(name), overwrite=options.overwrite)
    if options.html is not None and find_spec("jinja2") is None:
        raise MissingExtra.of("jinja2", "batch", "by --html")
    return names


def write_pages(pages: Mapping[str, str], *, overwrite: bool) -> None:
    """Write each text to the file of its name. A failed write leaves no part of a file."""
    for name, text in pages.items():

        def write(folder: Path, name: str = Path(name).name, text: str = text) -> None:
            (folder / name).write_text(text, encoding="utf-8", newline="\n")

        write_files([Path(name)], write, overwrite=overwrite)
        say(f"wrote {name}")
