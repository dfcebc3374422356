"""`sliceport doctor`: the state of packages, formats and engines, with advice for what is missing."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator
from dataclasses import asdict

from sliceport import __version__
from sliceport.cli import console
from sliceport.cli.console import emit, emit_json
from sliceport.cli.parser import Commands
from sliceport.commands.options import add_format, add_verbose
from sliceport.engines.diagnosis import Diagnosable, Diagnosis, diagnose_package
from sliceport.engines.entry_points import try_entry_points
from sliceport.errors import UsageError
from sliceport.report.table import table
from sliceport.sandbox import progress

_OPTIONAL = (
    ("shtab", "shtab", "cli"),
    ("rich_argparse", "rich-argparse", "cli"),
    ("jinja2", "jinja2", "batch"),
    ("fsspec", "fsspec", "fsspec"),
    ("distributed", "distributed", "dask"),
)
"""The packages that only some commands and options need: module, distribution, and the extra that installs it."""


def add(commands: Commands) -> None:
    """Add `sliceport doctor` to the parser."""
    command = commands.add_parser(
        "doctor", help="print what is installed, whether it works, and how to install the rest"
    )
    add_format(command)
    command.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    add_verbose(command)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> bool:
    """Print the diagnoses, and return whether none is `broken`. A missing package does not count as broken."""
    diagnoses = list(_diagnose())
    is_healthy = all(diagnosis.status != "broken" for diagnosis in diagnoses)
    if options.format == "json":
        emit_json({"schema_version": 1, "is_healthy": is_healthy, "diagnoses": [asdict(each) for each in diagnoses]})
    else:
        rows = [("name", "status", "detail"), *((each.name, each.status, each.detail) for each in diagnoses)]
        advice = [f"{each.name}: {each.status}; {each.advice}" for each in diagnoses if each.advice]
        emit("\n".join([table(rows, console.width()), *advice]))
    return is_healthy


def _diagnose() -> Iterator[Diagnosis]:
    """Yield the diagnoses of sliceport, Python, packages, formats and engines."""
    yield Diagnosis("sliceport", "ok", __version__)
    yield Diagnosis("Python", "ok", f"{platform.python_version()} on {platform.platform()}")
    # `diagnose_package` need not search the files of all installed packages if it gets the distribution.
    yield diagnose_package("numpy", "run: pip install numpy", distribution="numpy")
    for module, distribution, extra in _OPTIONAL:
        yield diagnose_package(module, f'run: pip install "sliceport[{extra}]"', distribution=distribution)
    yield from _diagnose_entry_points()


def _diagnose_entry_points() -> Iterator[Diagnosis]:
    """Yield the state of each installed format and engine, followed by the results of its `diagnose`."""
    from sliceport.engines import registry
    from sliceport.formats import GROUP, describe_misfit

    for kind, group, describe in (
        ("format", GROUP, describe_misfit),
        ("engine", registry.GROUP, registry.describe_misfit),
    ):
        for point, loaded in try_entry_points(group, describe):
            name = f"{kind} {point.name}"
            if isinstance(loaded, UsageError):
                advice = f"update or uninstall {point.dist.name}" if point.dist else ""
                yield Diagnosis(name, "broken", str(loaded), advice)
                continue
            progress.say(f"looking at {name}")
            try:
                diagnoses = list(loaded.diagnose()) if isinstance(loaded, Diagnosable) else []
            except (Exception, SystemExit) as error:  # a method of another package may raise anything
                yield Diagnosis(name, "broken", f"{type(error).__name__}: {error}")
                continue
            yield Diagnosis(name, "ok", point.value)
            yield from diagnoses
