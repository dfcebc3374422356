"""The options --html and --model-explorer: files that are checked before a long computation, and written after it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sliceport.cli.console import say
from sliceport.errors import MissingExtra, UsageError
from sliceport.sandbox.place import check_output, write_files


def add_page(command: argparse.ArgumentParser) -> None:
    """Add --html."""
    command.add_argument("--html", metavar="FILE", help="also write a report as one HTML file")


def add_pages(command: argparse.ArgumentParser) -> None:
    """Add --html and --model-explorer."""
    add_page(command)
    command.add_argument(
        "--model-explorer", metavar="FILE", help="also write node data for Google's Model Explorer, as JSON"
    )


def read_pages(options: argparse.Namespace) -> dict[str, Any]:
    """Return the files of --html and --model-explorer by `html` and `model_explorer`, or None.

    Raises:
        UsageError: A file exists and is to be kept, or cannot be made.
        MissingExtra: jinja2 is not installed.
    """
    pages = {"html": options.html, "model_explorer": getattr(options, "model_explorer", None)}
    for file in filter(None, pages.values()):
        if os.path.lexists(file) and not options.overwrite:
            raise UsageError(f"output '{file}' exists; give another name or --overwrite.")
        check_output(Path(file))
    if options.html is not None and find_spec("jinja2") is None:
        raise MissingExtra.of("jinja2", "batch", "by --html")
    return pages


def write_pages(pages: Mapping[str, str], *, overwrite: bool) -> None:
    """Write text files by name.

    Raises:
        UsageError: A file exists and is to be kept, or cannot be written.
    """
    for name, text in pages.items():
        file = Path(name)
        write_files(
            [file],
            lambda folder, file=file, text=text: (folder / file.name).write_text(text, encoding="utf-8", newline="\n"),  # type: ignore[misc]
            overwrite=overwrite,
        )
        say(f"wrote {name}")
