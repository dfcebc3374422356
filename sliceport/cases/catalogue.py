"""The cases in `rules.toml`, grouped by the rule that they test, and random cases.

A rule has `id`, `sentence` and `rows`, and may have `is_refused` and `reading`. A row is a table with the parameters of
a node, and may have `shape`, `element`, `index_type`, `open_axes` and `other`. These keys mean the same as in `Case`.
The shape is [7] by default: one axis of a prime size, which no smaller step divides.

A row becomes one case for each form in its `forms`, or if it has none, in the `forms` of the rule. A form is an
operator with its version, such as `Slice-13`, followed by ` inputs` if the parameters are inputs of the model.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sliceport.cases.case import Case
from sliceport.defects.entries import read_value
from sliceport.slicing import INT64_MAX, INT64_MIN

_ATTRIBUTES = ("shape", "element", "index_type", "open_axes")


def read_catalogue() -> list[Case]:
    """Return the cases of `rules.toml`, in its order."""
    file = Path(__file__).with_name("rules.toml")
    numbers: Counter[str] = Counter()
    return [
        _make_case(rule, {"shape": [7]} | row, form, numbers)
        for rule in tomllib.loads(file.read_text("utf-8"))["rule"]
        for row in rule["rows"]
        for form in row.get("forms", rule.get("forms"))
    ]


def draw_cases(count: int, seed: int) -> Iterator[Case]:
    """Yield random cases of the newest version of each operator. Equal seeds give equal cases."""
    rng = random.Random(seed)  # noqa: S311 - for test data
    rule = {"id": "random", "sentence": "A random node, read by the rules of its operator."}
    numbers: Counter[str] = Counter()
    for _ in range(count):
        shape = [rng.choice((1, 2, 3, 5)) for _ in range(rng.randint(1, 4))]
        steps = [rng.choice((1, 1, 2, 3, -1, -2)) for _ in shape]
        sizes_and_steps = list(zip(shape, steps, strict=True))
        # About half of the bounds are random and may lie outside the axis. The others are those of the whole axis. No
        # start is below -n for a size n: with a negative step, readers of the standard disagree about such a start.
        starts = [rng.choice((rng.randint(-n, n + 2), 0 if step > 0 else -1)) for n, step in sizes_and_steps]
        limits = [INT64_MAX if step > 0 else INT64_MIN for step in steps]
        ends = [rng.choice((rng.randint(-n - 2, n + 2), end)) for n, end in zip(shape, limits, strict=True)]
        form = rng.choice(("Slice-13", "Slice-8", "StridedSlice-1", "Split-18")) + rng.choice(("", " inputs"))
        row: dict[str, Any] = {"shape": shape}
        if form.startswith("Split"):
            axis = rng.randrange(len(shape))
            first_size = rng.randint(0, shape[axis])
            # The axis is counted from the end in about half of the cases.
            row |= {"axis": axis - rng.choice((0, len(shape))), "split": [first_size, shape[axis] - first_size]}
        elif form.startswith("Strided"):
            masks = {name: [rng.randint(0, 1) for _ in shape] for name in ("begin_mask", "end_mask")}
            row |= {"begin": starts, "end": ends, "strides": steps, **masks}
        else:
            # The axes of a Slice may be named in any order.
            order = rng.sample(range(len(shape)), len(shape))
            entries = {"starts": starts, "ends": ends, "axes": range(len(shape)), "steps": steps}
            row |= {name: [values[i] for i in order] for name, values in entries.items()}
        yield _make_case(rule, row, form, numbers)


def _make_case(rule: Mapping[str, Any], row: Mapping[str, Any], form: str, numbers: Counter[str]) -> Case:
    """Build the case of a rule, one of its rows, and a form such as `Slice-13 inputs`.

    The name of the case ends in a number from `numbers`, which counts the cases of each form and rule.
    """
    versioned, *suffix = form.split()
    operator, _, version = versioned.partition("-")
    stem = "test_" + re.sub("[^a-z0-9]+", "_", f"{form} {rule['id']}".lower())
    numbers[stem] += 1
    values = read_value({name: value for name, value in row.items() if name not in ("forms", "other")})
    attributes = {name: values.pop(name) for name in _ATTRIBUTES if name in values}
    if versioned == "Slice-8":  # OpenVINO requires the steps
        values.setdefault("steps", (1,) * len(values["starts"]))
    return Case(
        f"{stem}_{numbers[stem]}", rule["id"], rule["sentence"], operator, int(version), values,
        has_inputs=bool(suffix), is_refused=rule.get("is_refused", False), reading=rule.get("reading", ""),
        other=read_value(row.get("other")), **attributes,
    )  # fmt: skip
