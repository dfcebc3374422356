"""The table: every entry of the files of this package, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sliceport.defects import directml
from sliceport.defects.defect import Defect, version_key
from sliceport.defects.engines import ALL_TITLES, PACKAGES, VERSIONS
from sliceport.defects.entries import read_entries
from sliceport.errors import check_names, unknown_name

SCHEMA_VERSION = 2


def to_json(defects: Sequence[Defect] | None = None) -> dict[str, Any]:
    """Return defects as JSON values in the form of `table.schema.json`; by default all defects."""
    return {
        "schema_version": SCHEMA_VERSION,
        "last_proved": LAST_PROVED,
        "engines": ALL_TITLES,
        "defects": [defect.to_json() for defect in (DEFECTS if defects is None else defects)],
    }


LAST_PROVED = "2026-11-27"
"""The day on which the tests last ran every proved entry on its engine."""
_FILES = (*map(read_entries, ("onnxruntime", "validity", "openvino")), directml.ENTRIES, read_entries("reported"))
DEFECTS: tuple[Defect, ...] = tuple(defect for entries in _FILES for defect in entries.values())


def defects_of(engine: str) -> tuple[Defect, ...]:
    """Return the defects of an engine.

    Raises:
        UsageError: The engine is not a name of `ALL_TITLES`.
    """
    check_names("engine", [engine], ALL_TITLES)
    return tuple(defect for defect in DEFECTS if engine in defect.engines)


@cache
def version_to_judge(engine: str) -> str:
    """Return the installed version of an engine or, if it is not installed, the newest version that the table has.

    The result is empty if the table has no version of the engine.
    """
    for package in PACKAGES.get(engine, ()):
        with suppress(PackageNotFoundError):
            return version(package)
    divergences = [each for defect in DEFECTS for each in defect.divergences if each.engine == engine]
    limits = [text for each in divergences for text in (*each.versions, each.since, each.until) if text]
    return max([*VERSIONS.get(engine, ()), *limits], key=version_key, default="")


def find_defect(name: str) -> Defect:
    """Return the defect whose id or rule is `name`.

    Raises:
        UsageError: The defect is not in the table.
    """
    for defect in DEFECTS:
        if name in (defect.id, defect.rule):
            return defect
    raise unknown_name("defect", name, [defect.rule for defect in DEFECTS])
