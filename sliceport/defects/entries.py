"""The reader of the entries in the TOML files of this package.

A file contains an array of tables `defect` with the attributes of `Defect`, and may contain a table `defaults` of
attributes that its entries share. A divergence that states no versions gets the versions of its engine in `VERSIONS`
that it may affect. An example contains `right`, `seen` by engine, and the attributes of `OnnxCase` or the arguments of
`OpenVINOCase.of` or `DirectMLCase.of`. Names such as `INT64_MAX` stand for numbers. An outcome is one of these tables:

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
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sliceport.defects.cases import LIMITS, OnnxCase, OpenVINOCase
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
from sliceport.defects.engines import VERSIONS

_NUMBERS = {name: value for value, name in LIMITS.items()} | {"UINT64_MAX": 2**64 - 1}


def _make_case(**case: Any) -> Case:
    return OnnxCase(**case) if "graph" in case else OpenVINOCase.of(**case)


def read_entries(name: str, make_case: Callable[..., Case] = _make_case) -> dict[str, Defect]:
    """Return the entries of the file `name`.toml by id; `make_case` builds a case from the keys of an example."""
    data = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))
    entries = {}
    for entry in data["defect"]:
        parts = {
            "divergences": tuple(map(_read_divergence, entry["divergences"])),
            "examples": tuple(_read_example(example, make_case) for example in entry["examples"]),
        }
        entries[entry["id"]] = Defect(**data.get("defaults", {}) | entry | parts)  # an entry wins over the defaults
    return entries


def _read_divergence(divergence: Mapping[str, Any]) -> Divergence:
    result = Divergence(**{"versions": ()} | {key: read_value(value) for key, value in divergence.items()})
    # A divergence without `versions` was seen in all `VERSIONS` of its engine, from `since` until before `until`.
    tried = tuple(filter(result.may_affect, VERSIONS.get(result.engine, ())))
    return replace(result, versions=result.versions or tried)


def _read_example(example: Mapping[str, Any], make_case: Callable[..., Case]) -> Example:
    case = {key: read_value(value) for key, value in example.items() if key not in ("right", "seen")}
    seen = {engine: _read_outcome(outcome) for engine, outcome in example.get("seen", {}).items()}
    return Example(make_case(**case), _read_outcome(example["right"]), seen)


def read_value(value: Any) -> Any:
    """Replace lists by tuples, and names of numbers, such as `INT64_MAX`, by the numbers."""
    return tuple(map(read_value, value)) if isinstance(value, list) else _NUMBERS.get(value, value)


def _read_outcome(outcome: Mapping[str, Any]) -> Outcome:
    match outcome:
        case {"gives": outputs}:
            return gives(*outputs, shape=read_value(outcome.get("shape")))
        case {"gives_range": [start, stop]}:
            return gives(range(start, stop))
        case {"fails": message}:
            return Fails(message)
        case {"unwritten": shape}:
            return Unwritten(tuple(shape) or None)  # an empty list means that the shape is right
        case {"ends_by_signal": signal}:
            return EndsProcess(signal)
        case {"bits": bits}:
            return Bits(tuple(bits))
        case {"accepts": True}:
            return Accepts()
    raise ValueError(f"{outcome} is not an outcome")
