"""The fuzzers and their common interface."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from typing import Any, Protocol, cast

Case = dict[str, Any]

NAMES = ("one_node", "inference", "openvino", "graphs", "files")


class Fuzzer(Protocol):
    """Interface of a fuzzer's module; the package describes it."""

    NAME: str
    BUDGET: int

    def generate(self, random: random.Random) -> Case: ...
    def check(self, case: Case) -> str | None: ...
    def shrink(self, case: Case) -> Iterator[Case]: ...


def load(name: str) -> Fuzzer:
    """Return the fuzzer of that name."""
    module = importlib.import_module(f"{__package__}.{name}")
    assert name == module.NAME
    return cast("Fuzzer", module)


def generate(fuzzer: Fuzzer, seed: str, number: int) -> Case:
    """Return one case of a seed; it does not depend on the others."""
    return fuzzer.generate(random.Random(f"{fuzzer.NAME} {seed} {number}"))
