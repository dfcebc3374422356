"""`sliceport doctor`: what is installed, whether it works, and how to get what is missing."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator
from dataclasses import asdict

from sliceport import __version__, progress
from sliceport.cli import console
from sliceport.cli.console import emit, emit_json
from sliceport.cli.options import add_format, add_verbose
from sliceport.cli.parser import Commands
from sliceport.diagnosis import Diagnosable, Diagnosis, diagnose_package
from sliceport.entry_points import EntryPoint, try_entry_points
from sliceport.report.table import table

_OPTIONAL = (
    ("shtab", "shtab", "cli"),
    ("rich_argparse", "rich-argparse", "cli"),
    ("rich", "rich", "batch"),
    ("jinja2", "jinja2", "batch"),
    ("fsspec", "fsspec", "fsspec"),
    ("distributed", "distributed", "dask"),
)
"""Packages that only some commands and options need, and the extra that each comes with."""


def add(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("doctor", help="what is installed, whether it works, and how to get what is missing")
    add_format(command)
    command.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    add_verbose(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> bool:
    """Run the command; whether nothing that is installed is broken."""
    found = list(_diagnose())
    is_healthy = all(one.status != "broken" for one in found)
    if options.format == "json":
        emit_json({"schema_version": 1, "is_healthy": is_healthy, "diagnoses": [asdict(one) for one in found]})
    else:
        emit(_to_text(found))
    return is_healthy


def _to_text(found: list[Diagnosis]) -> str:
    rows = [("name", "status", "detail"), *((one.name, one.status, one.detail) for one in found)]
    advice = [f"{one.name}: {one.status}; {one.advice}" for one in found if one.advice]
    return "\n".join([table(rows, console.width()), *advice])


def _diagnose() -> Iterator[Diagnosis]:
    yield Diagnosis("sliceport", "ok", __version__)
    yield Diagnosis("Python", "ok", f"{platform.python_version()} on {platform.platform()}")
    yield diagnose_package("numpy", "run: pip install numpy", distribution="numpy")
    for module, distribution, extra in _OPTIONAL:
        yield diagnose_package(module, f'run: pip install "sliceport[{extra}]"', distribution=distribution)
    yield from _diagnose_entry_points()


def _diagnose_entry_points() -> Iterator[Diagnosis]:
    """All formats and engines, and what each says about itself."""
    from sliceport.engines import registry
    from sliceport.formats import GROUP, complain

    for kind, group, check in (("format", GROUP, complain), ("engine", registry.GROUP, registry.complain)):
        for point in try_entry_points(group, check):
            name = f"{kind} {point.name}"
            if point.error is not None:
                advice = f"update or uninstall {point.distribution}" if point.distribution else ""
                yield Diagnosis(name, "broken", str(point.error), advice)
                continue
            progress.say(f"looking at {name}")
            yield from _ask(name, point)


def _ask(name: str, point: EntryPoint) -> Iterator[Diagnosis]:
    """What a format or an engine says about itself; one that cannot does not silence the others."""
    try:
        said = list(point.loaded.diagnose()) if isinstance(point.loaded, Diagnosable) else []
    except (Exception, SystemExit) as error:  # whatever somebody's method raises
        yield Diagnosis(name, "broken", f"{type(error).__name__}: {error}")
        return
    yield Diagnosis(name, "ok", point.value)
    yield from said
