"""OpenVINO models of one Slice-8 or StridedSlice-1, as written, hardened and ours, by every engine.

What is right is worked out by `oracle.py`. A case is one of `openvino_forms_child.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import oracle
from openvino_forms import Runs, runs
from openvino_forms_child import codes

from .drawing import masks, shape
from .modules import Case

BUDGET = 240
MAX_ELEMENTS = 600
INDEX_TYPES = ("i64", "i64", "i64", "i32", "i32", "i16", "i8", "i4", "u64", "u32", "u16", "u8", "u4")
WIDE = (
    *("f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "boolean"),
    *("f8e4m3", "f8e5m2", "f8e8m0"),
)
PACKED = ("u1", "u2", "u4", "i4", "nf4", "f4e2m1")
FAR = (2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1)
LIMITS = (
    *("support unknown rank", "dynamic rank", "At most one ellipsis", "Input rank plus number"),
    "into Constant of type 'string'",
)
"""Of errors that OpenVINO gives to models as it, too, is allowed to."""


def generate(random: random.Random) -> Case:
    """Return a case that the specification allows."""
    while True:
        case = _any_case(random)
        if expected(case) is not None:
            return case


def _any_case(random: random.Random) -> Case:
    op = random.choice(("Slice", "StridedSlice", "StridedSlice"))
    rank = random.choice((0, 1, 1, 2, 2, 3, 3, 4)) if op == "StridedSlice" else random.randint(1, 4)
    sizes = shape(random, [rank], MAX_ELEMENTS)
    count = random.randint(0, rank + 2 if op == "StridedSlice" else rank)
    kind = random.choice(INDEX_TYPES)
    indices = [[_index(random, kind) for _ in range(count)] for _ in range(2)]
    indices.append([_step(random, kind) for _ in range(count)])
    kinds = [kind] * 3
    if op == "Slice" and random.random() < 0.7:
        axes = random.sample(range(rank), count)
        kinds.append(random.choice(("i64", "i32", "i8", kind)))
        is_unsigned = kinds[-1].startswith("u")
        indices.append([axis if is_unsigned or random.random() < 0.5 else axis - rank for axis in axes])
    share = random.choice((0, 0, 0.3, 1))
    return {
        "op": op,
        "element": random.choice(WIDE) if random.random() < 0.8 else random.choice((*PACKED, "string")),
        "shape": sizes,
        "sizes": _declared(random, sizes),
        "indices": indices,
        "index_types": kinds,
        "run_time": [random.random() < share for _ in indices],
        "masks": masks(random, count) if op == "StridedSlice" else {},
    }


def _range_of(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _index(random: random.Random, kind: str) -> int:
    low, high = _range_of(kind)
    value = random.choice(FAR) if random.random() < 0.06 else random.randint(-8, 8)
    return value if low <= value <= high else abs(value) % 8


def _step(random: random.Random, kind: str) -> int:
    low, high = _range_of(kind)
    value = random.choice(FAR) if random.random() < 0.05 else random.choice((1, 1, 1, 2, 3, -1, -1, -2, -3))
    return value if low <= value <= high else min(abs(value), high)


def _declared(random: random.Random, sizes: Sequence[int]) -> list[Any] | None:
    how = random.random()
    if how < 0.4:
        return list(sizes)
    if how < 0.45:
        return None
    if how < 0.6:
        return [-1] * len(sizes)
    around = [[max(0, size - random.randint(0, 3)), size + random.randint(0, 3)] for size in sizes]
    return [random.choice((size, -1, bounds, bounds)) for size, bounds in zip(sizes, around, strict=True)]


def expected(case: Case) -> dict[str, Any] | None:
    """Return the result by the specification; None if the specification does not allow the case."""
    data, lists = codes(case["element"], case["shape"]), case["indices"]
    try:
        if case["op"] == "Slice":
            found = oracle.onnx_slice(data, lists[0], lists[1], lists[3] if len(lists) > 3 else None, lists[2])
        else:
            found = oracle.strided_slice(data, *lists, **case["masks"])
    except oracle.OracleError:
        return None
    return {"shape": list(found.shape), "values": found.reshape(-1).tolist()}


def check_many(cases: Sequence[Case]) -> list[str | None]:
    """Return the complaint about each case, if any."""
    return [_judge(case, found) for case, found in zip(cases, runs(cases), strict=True)]


def _judge(case: Case, found: Runs) -> str | None:
    right = expected(case)
    if right is None:
        return None
    for name, run in found.items():
        form, _, engine = name.partition(" ")
        if "exit" in run or "broken" in run:
            return f"{name} ends the process or breaks: {run}"
        said = {"shape": run.get("shape"), "values": run.get("values")}
        if said != right and not _is_allowed(case, run, form, engine, found):
            return f"{name} is wrong: it gives {run} for {right}"
    return None


def _is_allowed(case: Case, run: dict[str, Any], form: str, engine: str, found: Runs) -> bool:
    """Whether something that is not right is known to be so, and said where it has to be."""
    if any(limit in run.get("error", "") for limit in LIMITS):
        return True
    if "While validating node" in run.get("error", "") and {"i4", "u4"} & set(case["index_types"]):
        return True  # it reads elements of 4 bits from memory that is not theirs
    if form == "core":
        return run.get("refused") in (
            "dynamic_parameter",
            "missing_shape",
            "unsupported_type",
            "unaligned_type",
            "folded",
        )
    if engine == "openvino-cpu" and case["element"] == "u1":
        return True
    if "known" in run or "cut" in run:
        return True
    if form == "builtin":
        hardened = found.get(f"hardened {engine}", {})
        return bool(hardened.get("defects")) or ("error" in run and "error" in hardened) or "unfolded" in run
    if form == "hardened":
        if None in run.get("forms", ()) or "unfolded" in run:
            return True
        return "error" in run and "error" in found.get(f"builtin {engine}", {})  # it can do nothing, and says so
    return "unfolded" in run and engine == "folding" and case["element"] == "string"
