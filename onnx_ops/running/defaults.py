"""Other values for inputs with a default: initializers that the caller of a model may replace from IR version 4 on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_ops.running.inputs import list_replaceable_inputs
from onnx_ops.running.runnable import Runnable
from sliceport.engines.engine import Array, Value
from sliceport.engines.failure import Failure
from sliceport.engines.inputs import try_whole_model
from sliceport.engines.side import Budget, BudgetSpent, Side
from sliceport.verdict.verification import InputRun
from sliceport.wording import list_names

_MAX_BYTES = 2**26
"""Limit for the bytes of a default that is replaced."""
_MAX_ONE_BY_ONE = 16
"""Limit for the integer inputs whose defaults are replaced one by one."""
_SECONDS = 60.0
"""Limit for all runs on other values together, because a Loop may never end on such values."""


def run_with_other_values(
    runnable: Runnable, side: Side, inputs: Mapping[str, Array]
) -> tuple[InputRun | None, tuple[str, ...]]:
    """Run a model with other values in place of the defaults of as many inputs as possible.

    If the model does not run with all defaults replaced, the defaults that are not integers are replaced first. Then up
    to `_MAX_ONE_BY_ONE` integers are replaced one by one, because integers may be indices or sizes, for which few other
    values are valid. If the runs exceed `_SECONDS`, or if the engine lacks memory, all inputs keep their defaults.

    Args:
        runnable: The model.
        side: The engine that runs it.
        inputs: Arrays for all inputs without a default, and for inputs whose default is not to be replaced.

    Returns:
        The run, or None if no default was replaced; and at most one sentence, about the defaults that were kept.
    """
    defaults = {
        value.name or "": value.const_value
        for value in list_replaceable_inputs(runnable.model)
        if value.name not in inputs and value.const_value is not None
    }
    variants = {name: choices for name, tensor in defaults.items() if (choices := _other_values(tensor))}
    # An empty default has no other value, so the sentence does not name it.
    without_variants = [name for name, tensor in defaults.items() if name not in variants and tensor.size]
    integers = [name for name in variants if defaults[name].dtype.is_integer()]
    not_integers = [name for name in variants if name not in integers]
    limited_side = replace(side, budget=Budget(_SECONDS))
    arrays, replaced = dict(inputs), list[str]()
    outputs: Mapping[str, Value] | None = None
    try:
        # If the first of these attempts succeeds, no variants are left for the others.
        for names in (list(variants), not_integers, *([name] for name in integers[:_MAX_ONE_BY_ONE])):
            chosen = {name: variants[name] for name in names if name not in replaced}
            run = _run_with_variants(runnable, limited_side, arrays, chosen)
            if run is not None:
                arrays, outputs = run
                replaced += list(chosen)
    except (BudgetSpent, MemoryError):
        outputs, replaced = None, []
    kept = [*without_variants, *(name for name in variants if name not in replaced)]
    sentence = f"{list_names(kept)} kept the default: no other value was tried, or none let the model run in time."
    label = f" with other values than the defaults of {list_names(replaced)}"
    other_run = None if outputs is None else InputRun(arrays, outputs, label)
    return other_run, (sentence,) if kept else ()


def _run_with_variants(
    runnable: Runnable, side: Side, inputs: Mapping[str, Array], variants: Mapping[str, list[Array]]
) -> tuple[dict[str, Array], Mapping[str, Value]] | None:
    """Try variants of inputs until the model runs. Return the inputs and outputs of that run, or None if all fail.

    `variants` maps the name of an input to the arrays to try. All other inputs keep their arrays in `inputs`.
    """
    for attempt in range(max(map(len, variants.values()), default=0)):
        # An input with fewer variants keeps its last variant.
        arrays = {**inputs, **{name: choices[min(attempt, len(choices) - 1)] for name, choices in variants.items()}}
        result = try_whole_model(side, runnable, arrays)
        if not isinstance(result, Failure):
            return arrays, result
    return None


def _other_values(tensor: ir.TensorProtocol) -> list[Array]:
    """Return arrays to try in place of a default. Return [] if the default is empty, too large or unreadable."""
    if not tensor.size or tensor.nbytes > _MAX_BYTES:
        return []
    try:
        default = np.asarray(tensor.numpy())
    except Exception:  # The data file is missing or too short. The run of the model reports that.
        return []
    if tensor.dtype == ir.DataType.STRING:
        # onnx-ir may hold a string as bytes, which need not be UTF-8.
        texts = [text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text for text in default.flat]
        return [np.array([f"{text}'" for text in texts], object).reshape(default.shape)]
    if tensor.dtype == ir.DataType.BOOL:
        return [~default]
    if tensor.dtype.is_integer():
        return _other_integers(default, tensor.dtype)
    random = np.random.default_rng(0)
    wide = default.astype(np.complex128 if default.dtype.kind == "c" else np.float64)
    # The factor below 1 keeps large elements in range, except in types of 4 bits. The summand changes zeros.
    scaled = wide * random.uniform(0.5, 0.9, default.shape) + random.uniform(0.5, 1.5, default.shape)
    return [scaled.astype(default.dtype)]


def _other_integers(default: Array, dtype: ir.DataType) -> list[Array]:
    """Return the integers plus 1, the integers minus 1 and, if this changes them, the integers in reverse order.

    An integer at the end of its range is changed by 1 in the other direction.
    """
    high = (1 << (dtype.bitwidth - dtype.is_signed())) - 1  # the greatest integer of the type
    low = -high - 1 if dtype.is_signed() else 0
    # Python's integers, because NumPy refuses to add -1 to unsigned ones. The array needs an axis: for arrays without
    # axes, NumPy would compute int64, which cannot hold all integers.
    wide = default.reshape(-1).astype(object)
    shifted = [np.where(wide == end, wide - step, wide + step) for step, end in ((1, high), (-1, low))]
    arrays = [array.astype(default.dtype).reshape(default.shape) for array in shifted]
    backwards = default.reshape(-1)[::-1].reshape(default.shape)
    return arrays if np.array_equal(backwards, default) else [*arrays, backwards]
