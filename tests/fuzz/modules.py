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
    """What a module offers; see the package."""

    NAME: str

    def generate(self, random: random.Random) -> Case: ...
    def check(self, case: Case) -> str | None: ...
    def shrink(self, case: Case) -> Iterator[Case]: ...


def names() -> list[str]:
    """Those whose modules are there."""
    return [name for name in NAMES if importlib.util.find_spec(f"{__package__}.{name}") is not None]


def load(name: str) -> Fuzzer:
    """The fuzzer of that name."""
    module = importlib.import_module(f"{__package__}.{name}")
    assert name == module.NAME
    return cast("Fuzzer", module)


def budget(fuzzer: Fuzzer) -> int:
    """How many cases `make test` runs of it."""
    return int(getattr(fuzzer, "BUDGET", DEFAULT_BUDGET))


def generate(fuzzer: Fuzzer, seed: str, number: int) -> Case:
    """One of the cases that a seed stands for; it depends on no other."""
    return fuzzer.generate(random.Random(f"{fuzzer.NAME} {seed} {number}"))
