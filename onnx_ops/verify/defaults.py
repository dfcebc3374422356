"""Other values for inputs that have a default: initializers that the caller of a model may replace (IR version 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_ops.runtime.onnxruntime_cpu import Exhausted, bounded
from onnx_ops.verify.inputs import overridable_inputs
from sliceport.errors import ModelError

Array = npt.NDArray[Any]
Result = TypeVar("Result")

_MAX_BYTES = 2**26
_MAX_ONE_BY_ONE = 16
_MAX_NAMES = 8
_VARIANTS = 3


@dataclass(frozen=True)
class OtherValues(Generic[Result]):
    """A run with other values than the defaults of inputs.

    Attributes:
        inputs: All arrays.
        replaced: The inputs whose defaults were replaced.
        unchanged: The inputs that keep their defaults, because the model failed with every other value.
        result: The result of the run; None if nothing was replaced.
    """

    inputs: dict[str, Array]
    replaced: tuple[str, ...]
    unchanged: tuple[str, ...]
    result: Result | None

    @property
    def label(self) -> str:
        """The description of the run that follows a sentence about its result."""
        return f" with other values than the defaults of {list_names(self.replaced)}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the defaults that were not replaced."""
        if not self.unchanged:
            return ()
        return (
            f"{list_names(self.unchanged)} kept the default: the model failed with every other value that was tried.",
        )


def run_with_other_values(
    run: Callable[[dict[str, Array]], Result], model: ir.Model, inputs: Mapping[str, Array]
) -> OtherValues[Result]:
    """Run a model with the defaults of as many inputs as possible replaced by other values.

    Indices and sizes may accept few values only. If the model does not run with all defaults replaced, the
    defaults that are not integers are replaced first, then the integers one by one. All inputs keep their defaults if a
    value exhausts the time or memory of a run, such as a condition that makes a Loop endless.

    Args:
        run: Runs the model.
        model: The model as onnx-ir has it.
        inputs: Arrays for all inputs without a default; an input that has an array here keeps it.
    """
    values = [value for value in overridable_inputs(model) if (value.name or "") not in inputs]
    others = {value.name or "": variants for value in values if (variants := _other_values(value))}
    unchanged = tuple(name for value in values if (name := value.name or "") not in others and not _is_empty(value))
    if not others:
        return OtherValues(dict(inputs), (), unchanged, None)
    try:
        with bounded():
            arrays, result, refused = _all_at_once(run, inputs, others) or _one_by_one(run, inputs, others)
    except Exhausted:
        return OtherValues(dict(inputs), (), unchanged + tuple(others), None)
    return OtherValues(arrays, tuple(others.keys() - set(refused)), unchanged + refused, result)


def list_names(names: Iterable[str]) -> str:
    """Format names of inputs or outputs for a sentence."""
    ordered = sorted(names)
    more = f" and {len(ordered) - _MAX_NAMES} more" if len(ordered) > _MAX_NAMES else ""
    return ", ".join(map(repr, ordered[:_MAX_NAMES])) + more


def _all_at_once(
    run: Callable[[dict[str, Array]], Result], inputs: Mapping[str, Array], others: Mapping[str, list[Array]]
) -> tuple[dict[str, Array], Result, tuple[str, ...]] | None:
    """Run with all defaults replaced; return None if the model fails with every variant."""
    for i in range(_VARIANTS):
        arrays = dict(inputs) | {name: variants[min(i, len(variants) - 1)] for name, variants in others.items()}
        try:
            return arrays, run(arrays), ()
        except Exhausted:
            raise
        except ModelError:
            continue
    return None


def _one_by_one(
    run: Callable[[dict[str, Array]], Result], inputs: Mapping[str, Array], others: Mapping[str, list[Array]]
) -> tuple[dict[str, Array], Result | None, tuple[str, ...]]:
    """Replace the defaults that are not integers together, then each integer. Undo what makes the model fail."""
    integers = [name for name, variants in others.items() if _is_integer(variants[0])]
    steps: list[list[dict[str, Array]]] = [
        [{name: variants[0] for name, variants in others.items() if name not in integers}]
    ]
    steps += [[{name: array} for array in others[name]] for name in integers[:_MAX_ONE_BY_ONE]]
    arrays, result = dict(inputs), None
    refused: list[str] = integers[_MAX_ONE_BY_ONE:]
    for choices in steps:
        for choice in filter(None, choices):
            try:
                result = run(arrays | choice)
            except Exhausted:
                raise
            except ModelError:
                continue
            arrays |= choice
            break
        else:
            refused += list(choices[0])
    return arrays, result, tuple(refused)


def _is_empty(value: ir.Value) -> bool:
    return value.const_value is not None and value.const_value.size == 0


def _other_values(value: ir.Value) -> list[Array]:
    """Return arrays of the type and sizes of a default with other elements."""
    tensor = value.const_value
    if tensor is None or not tensor.size or tensor.nbytes > _MAX_BYTES:
        return []
    try:
        default = np.asarray(tensor.numpy())
    except Exception:  # the data file is missing or too short, which running the model reports
        return []
    if tensor.dtype == ir.DataType.STRING:
        return [np.array([_text(text) + "'" for text in default.reshape(-1)], object).reshape(default.shape)]
    if tensor.dtype == ir.DataType.BOOL:
        return [~default]
    if tensor.dtype.is_integer():
        return _other_integers(default, tensor.dtype)
    random = np.random.default_rng(0)
    wide = default.astype(np.complex128 if default.dtype.kind == "c" else np.float64)
    moved = wide * random.uniform(0.5, 0.9, default.shape) + random.uniform(0.5, 1.5, default.shape)
    return [moved.astype(default.dtype)]


def _other_integers(default: Array, dtype: ir.DataType) -> list[Array]:
    """Return the integers plus 1 and minus 1 (the other way at the end of the range), and in reverse order."""
    high = (1 << (dtype.bitwidth - dtype.is_signed())) - 1
    low = -high - 1 if dtype.is_signed() else 0
    wide = default.astype(object)  # Python integers, because NumPy refuses to add -1 to an unsigned array
    variants = []
    for step, end in ((1, high), (-1, low)):
        moved = np.where(wide == end, wide - step, wide + step)
        variants.append(np.array(moved.tolist(), object).reshape(default.shape).astype(np.int64 if low else np.uint64))
    variants.append(default.reshape(-1)[::-1].reshape(default.shape))
    arrays = [array.astype(default.dtype) for array in variants]
    return [array for array in arrays if not np.array_equal(array, default)]


def _is_integer(array: Array) -> bool:
    return array.dtype != object and ir.DataType.from_numpy(array.dtype).is_integer()


def _text(text: Any) -> str:
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else str(text)
