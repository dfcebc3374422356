"""The fuzzers and their common interface."""

from __future__ import annotations

import importlib
import random
from typing import Any, Protocol, cast

Case = dict[str, Any]

NAMES = ("one_node", "openvino", "graphs", "files")


class Fuzzer(Protocol):
    """Interface of a fuzzer's module; the package describes it."""

    __name__: str
    BUDGET: int

    def generate(self, random: random.Random) -> Case: ...


def load(name: str) -> Fuzzer:
    """Return the fuzzer of that name."""
    return cast("Fuzzer", importlib.import_module(f"{__package__}.{name}"))


def generate(fuzzer: Fuzzer, seed: str, number: int) -> Case:
    """Return one case of a seed; it does not depend on the others."""
    return fuzzer.generate(random.Random(f"{fuzzer.__name__} {seed} {number}"))
