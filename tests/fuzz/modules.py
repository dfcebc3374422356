"""The fuzzers that are there."""

from __future__ import annotations

import importlib
import importlib.util
import random
from collections.abc import Iterator
from typing import Any, Protocol, cast

Case = dict[str, Any]

NAMES = ("one_node", "inference", "openvino", "graphs", "files")
DEFAULT_BUDGET = 200


class Fuzzer(Protocol):
    """Interface of a fuzzer's module; the package describes it."""

    NAME: str

    def generate(self, random: random.Random) -> Case: ...
    def check(self, case: Case) -> str | None: ...
    def shrink(self, case: Case) -> Iterator[Case]: ...


def names() -> list[str]:
    """Return the names whose modules exist."""
    return [name for name in NAMES if importlib.util.find_spec(f"{__package__}.{name}") is not None]


def load(name: str) -> Fuzzer:
    """Return the fuzzer of that name."""
    module = importlib.import_module(f"{__package__}.{name}")
    assert name == module.NAME
    return cast("Fuzzer", module)


def budget(fuzzer: Fuzzer) -> int:
    """Return the number of cases that `make test` runs."""
    return int(getattr(fuzzer, "BUDGET", DEFAULT_BUDGET))


def generate(fuzzer: Fuzzer, seed: str, number: int) -> Case:
    """Return one case of a seed; it does not depend on the others."""
    return fuzzer.generate(random.Random(f"{fuzzer.NAME} {seed} {number}"))
