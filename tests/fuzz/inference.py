"""Nodes of each operator that inference has rules of its own for: inferred facts against onnxruntime's tensors."""

from __future__ import annotations

import random
from collections.abc import Iterator

from node_cases import OPERATORS, check_case, draw_case

from .modules import Case

NAME = "inference"
BUDGET = 50  # tests/onnx_ops/infer/test_differential.py runs 200 cases of each operator
_NUMBERS = 2**40


def generate(random: random.Random) -> Case:
    return {"operator": random.choice(OPERATORS), "number": random.randrange(_NUMBERS)}


def check(case: Case) -> str | None:
    return check_case(draw_case(case["operator"], case["number"])).wrong or None


def shrink(_: Case) -> Iterator[Case]:
    """Yield nothing: a case is one node already."""
    return iter(())
