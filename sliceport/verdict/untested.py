"""Outputs whose values show nothing, because a wrong model would compute the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sliceport.engines.engine import Array, Value
from sliceport.verdict.difference import OutputDiff

_ONLY_NAN = "all of its elements are NaN"


def find_untested(runs: Sequence[Mapping[str, Value]], fixed: Collection[str] = ()) -> dict[str, str]:
    """Map each output that shows nothing in any run to the reason, as the end of a sentence.

    Args:
        runs: The expected outputs of runs on different inputs.
        fixed: Outputs that follow from constants and shapes alone, which show everything at once if they have elements.
    """
    names = dict.fromkeys(name for run in runs for name in run)
    values = {name: [_list_arrays(run[name]) for run in runs if name in run] for name in names}
    reasons = {name: _describe_nothing(values[name], is_fixed=name in fixed) for name in names}
    return {name: reason for name, reason in reasons.items() if reason}


def excuse_nan(outputs: Sequence[OutputDiff], expected: Mapping[str, Value]) -> tuple[OutputDiff, ...]:
    """Return the comparisons, but let an output be untested if all expected elements are NaN and others were computed.

    Engines represent NaN and the numbers that lead to it in different ways.
    """
    return tuple(
        replace(each, status="untested", kind="", detail=_ONLY_NAN)
        if each.kind in ("nan", "values") and find_untested([{"": expected[each.name]}]) == {"": _ONLY_NAN}
        else each
        for each in outputs
    )


def mark_untested(outputs: Sequence[OutputDiff], untested: Mapping[str, str]) -> tuple[OutputDiff, ...]:
    """Return the comparisons, with the reason for those that do not differ and whose output is `untested`."""
    return tuple(
        replace(each, status="untested", detail=untested[each.name])
        if each.name in untested and not each.kind
        else each
        for each in outputs
    )


def _list_arrays(value: Value) -> list[Array]:
    """Return the flat tensors in a value."""
    if isinstance(value, tuple):
        return [array for each in value for array in _list_arrays(each)]
    return [] if value is None else [np.ascontiguousarray(value).reshape(-1)]


def _describe_nothing(runs: Sequence[Sequence[Array]], *, is_fixed: bool) -> str:
    """Return why an output shows nothing, given its arrays in each run; an empty string if it shows something."""
    arrays = [array for arrays in runs for array in arrays if array.size]
    if not arrays:
        return "it is empty"
    # NaN is the only value that does not equal itself.
    numbers = [array[array == array] for array in arrays]  # noqa: PLR0124
    first = next((array[0] for array in numbers if array.size), None)
    if first is None:
        return _ONLY_NAN
    # A single 0 is the sum of nothing for floats, but an ordinary result of an ArgMax or a comparison.
    is_single = sum(array.size for array in arrays) == 1 and (first != 0 or first.dtype.kind in "biu")
    if is_fixed or is_single:
        return ""
    if all((array == first).all() for array in numbers):
        return f"all of its elements are {first}"
    contents = [[array.tolist() if array.dtype == object else array.tobytes() for array in arrays] for arrays in runs]
    if len(runs) > 1 and contents.count(contents[0]) == len(runs):
        return "it is the same for all inputs"
    return ""
