"""A number of cases of each fuzzer: FUZZ of them, or those of its budget."""

from __future__ import annotations

import os
from random import Random

import pytest
from amounts import amount
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from fuzz.child import check_many
from fuzz.modules import NAMES, load

AT_ONCE = {"openvino": 8}
"""The number of cases in one example, for the fuzzers that check many at once; hypothesis limits what one may draw."""
SEEDED = {"files"}
"""The fuzzers that get a seed from hypothesis: where damage fails half-way, it would not draw the same again."""


@pytest.mark.parametrize("name", NAMES)
def test_cases_come_out_right(name: str) -> None:
    fuzzer, at_once = load(name), AT_ONCE.get(name, 1)
    examples = int(os.environ.get("FUZZ", amount(fuzzer.BUDGET))) // at_once

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=name in SEEDED))
    def check_cases(random: Random) -> None:
        cases = [fuzzer.generate(random) for _ in range(at_once)]
        for case, complaint in zip(cases, check_many(fuzzer.__name__, cases), strict=True):
            note(f"{complaint}: {case}")
            assert complaint is None

    check_cases()


def test_case_that_raises_is_reported() -> None:
    (complaint,) = check_many("fuzz.one_node", [{}])
    assert complaint is not None
    assert "KeyError" in complaint
