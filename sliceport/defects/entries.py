"""The reader of the entries in the TOML files of this package.

A file contains an array of tables `defect` with the attributes of `Defect`, and may contain a table `defaults` of
attributes that its entries share. A divergence that states no versions gets the versions of its engine in `VERSIONS`
that it may affect. An example contains `right`, `seen` by engine, and the attributes of `OnnxCase` or the arguments of
`OpenVINOCase.of` or `DirectMLCase.of`. Names such as `INT64_MAX` stand for numbers. The array `clean` has similar nodes
without the defect, each with `right`, which no condition may find. An outcome is one of these tables:

    { gives = [[0, 1], []], shape = [2] }    # the elements of each output; the shape of all, unless they are vectors
    { gives_range = [1, 4] }                 # elements 1, 2 and 3
    { fails = "a part of the message" }
    { unwritten = [] }                       # or the shape of the first output, if its shape is wrong
    { ends_by_signal = 11 }
    { bits = [0x7C01] }                      # the bits of the elements of the output
    { accepts = true }                       # the operator is created without an error
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from sliceport.defects.cases import KEYS, LIMITS, OnnxCase, OpenVINOCase
from sliceport.defects.defect import (
    Accepts,
    Bits,
    Case,
    Defect,
    Divergence,
    EndsProcess,
    Example,
    Fails,
    Outcome,
    Unwritten,
    gives,
)
from sliceport.defects.engines import ALL_TITLES, VERSIONS
from sliceport.errors import UsageError, check_names, unknown_name

_NUMBERS = {name: value for value, name in LIMITS.items()} | {"UINT64_MAX": 2**64 - 1}
T = TypeVar("T")


class Entries(dict[str, Defect]):
    """The entries of the TOML file `file` by id."""

    file: str

    def __missing__(self, name: str) -> Defect:
        raise unknown_name(f"{self.file}: defect", name, list(self))


def _make_case(**keys: Any) -> Case:
    return OnnxCase(**keys) if "graph" in keys else OpenVINOCase.of(**keys)


@cache
def read_entries(name: str, make_case: Callable[..., Case] = _make_case, case_keys: Iterable[str] = KEYS) -> Entries:
    """Return the entries of the file `name`.toml. `make_case` builds a case from those `case_keys` that an example has.

    Raises:
        UsageError: An entry lacks a key, or has a key or the name of an engine that does not exist.
    """
    entries = Entries()
    entries.file = f"{name}.toml"
    data = read_value(tomllib.loads(Path(__file__).with_name(entries.file).read_text("utf-8")))
    example: tuple[Any, ...] = (partial(_make_example, make_case), ("right", "seen", *case_keys))
    lists = {"divergences": (_make_divergence, Divergence.__annotations__), "examples": example, "clean": example}
    for entry in data["defect"]:
        place = f"{entries.file}, defect {entry.get('id')!r}"
        for key, (make, keys) in lists.items():
            entry[key] = tuple([_make(f"{place}, {key}", make, table, keys) for table in entry.get(key, ())])
        # An entry has priority over the defaults.
        defect = _make(place, Defect, data.get("defaults", {}) | entry, Defect.__annotations__)
        entries[defect.id] = defect
    return entries


def read_value(value: Any) -> Any:
    """Replace lists by tuples, and names of numbers, such as `INT64_MAX`, by the numbers."""
    if isinstance(value, dict):
        return {key: read_value(each) for key, each in value.items()}
    return tuple(map(read_value, value)) if isinstance(value, list) else _NUMBERS.get(value, value)


def _make(place: str, make: Callable[..., T], table: Mapping[str, Any], keys: Iterable[str]) -> T:
    """Call `make` with the keys of a table. Raise a UsageError with the place and the known `keys` if that fails."""
    try:
        return make(**table)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{error} is missing or not known" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise UsageError(f"{place}: {problem}; the keys are {', '.join(keys)}.") from error


def _make_divergence(**keys: Any) -> Divergence:
    result = Divergence(**keys)
    check_names("engine", [result.engine], ALL_TITLES)
    # A divergence without `versions` was seen in all `VERSIONS` of its engine, from `since` until before `until`.
    tried = tuple(filter(result.may_affect, VERSIONS.get(result.engine, ())))
    return replace(result, versions=result.versions or tried)


def _make_example(make_case: Callable[..., Case], right: dict[str, Any], seen: Any = None, **keys: Any) -> Example:
    check_names("engine", seen or (), ALL_TITLES)
    outcomes = {engine: _read_outcome(outcome) for engine, outcome in (seen or {}).items()}
    return Example(make_case(**keys), _read_outcome(right), outcomes)


def _read_outcome(outcome: Mapping[str, Any]) -> Outcome:
    match outcome:
        case {"gives": outputs}:
            return gives(*outputs, shape=outcome.get("shape"))
        case {"gives_range": (start, stop)}:
            return gives(range(start, stop))
        case {"fails": message}:
            return Fails(message)
        case {"unwritten": shape}:
            return Unwritten(shape or None)  # an empty list means that the shape is right
        case {"ends_by_signal": signal}:
            return EndsProcess(signal)
        case {"bits": bits}:
            return Bits(bits)
        case {"accepts": True}:
            return Accepts()
    raise ValueError(f"{outcome} is not an outcome")
