"""A fuzzer whose cases go wrong in every way that there is, to test what runs fuzzers."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

from .modules import Case

NAME = "breaking"
BUDGET = 0
WAYS = ("right",) * 20 + ("wrong", "raises", "dies", "exits", "prints")  # a hang takes too long


def generate(random: random.Random) -> Case:
    return {"way": random.choice(WAYS), "number": random.randrange(1000)}


def check(case: Case) -> str | None:
    way, number = case["way"], case["number"]
    if way == "raises":
        raise ValueError(f"number\n {number}")
    if way == "dies":
        os.abort()
    if way == "exits":
        os._exit(3)
    if way == "hangs":
        time.sleep(1000)
    if way == "prints":
        print('"no answer"')
    if way == "wrong" and number >= 10:
        return f"is wrong: {number}"
    return "is wrong otherwise: it is little" if way == "wrong" else None


def shrink(case: Case) -> Iterator[Case]:
    for number in (0, case["number"] // 2, case["number"] - 1):
        if 0 <= number < case["number"]:
            yield {**case, "number": number}
