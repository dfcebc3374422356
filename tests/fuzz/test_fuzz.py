"""A fixed number of cases of each fuzzer, from fixed seeds; the first failure is made small and shown."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from amounts import amount

from fuzz.failures import find_failures, minimise
from fuzz.modules import NAMES, generate, load

PARTS = 2  # of a budget, each of a seed of its own


@pytest.mark.parametrize("name", NAMES)
def test_cases_of_the_budget_come_out_right(name: str, tmp_path: Path) -> None:
    fuzzer = load(name)
    parts = (find_failures(fuzzer, f"budget {part}", range(amount(fuzzer.BUDGET) // PARTS)) for part in range(PARTS))
    for failure in itertools.chain.from_iterable(parts):
        smallest = minimise(failure)
        pytest.fail(f"{smallest.complaint}\n{json.dumps(smallest.case)}\nsaved as {smallest.save(tmp_path)}")


@pytest.mark.parametrize("name", NAMES)
def test_cases_are_json_and_follow_from_the_seed_alone(name: str) -> None:
    fuzzer = load(name)
    for number in range(20):
        case = generate(fuzzer, "again", number)
        assert json.loads(json.dumps(case)) == case == generate(fuzzer, "again", number)
        for smaller in itertools.islice(fuzzer.shrink(case), 20):
            assert json.loads(json.dumps(smaller)) == smaller
