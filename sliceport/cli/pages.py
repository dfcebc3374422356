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


def check_page_files(options: argparse.Namespace) -> dict[str, str | None]:
    """Check that the files of --html and --model-explorer can be written. Return the name of each; None if not given.

    Raises:
        UsageError: A file exists and is to be kept, is a folder, or cannot be made.
        MissingExtra: --html is given, but jinja2 is not installed.
    """
    # `sliceport batch` has no --model-explorer.
    names = {"html": options.html, "model_explorer": getattr(options, "model_explorer", None)}
    for name in filter(None, names.values()):
        check_output(Path(name), overwrite=options.overwrite)
    if options.html is not None and find_spec("jinja2") is None:
        raise MissingExtra.of("jinja2", "batch", "by --html")
    return names


def write_pages(pages: Mapping[str, str], *, overwrite: bool) -> None:
    """Write each text in `pages` to the file that its key names, and print the name. A failed write keeps the old file.

    Raises:
        UsageError: A file exists and is to be kept, is a folder, or cannot be written.
    """
    for name, text in pages.items():
        _write_page(Path(name), text, overwrite)
        say(f"wrote {name}")


def _write_page(file: Path, text: str, overwrite: bool) -> None:
    def write(folder: Path) -> None:
        (folder / file.name).write_text(text, encoding="utf-8", newline="\n")

    write_files([file], write, overwrite=overwrite)
