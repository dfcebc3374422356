"""Verification of a rewritten model: before and after on the same engine and the same inputs, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_ops.model.declared import declared_in
from onnx_ops.model.io import write_model
from onnx_ops.model.read import CheckedModel, read_any, read_checked
from onnx_ops.runtime import onnxruntime_cpu
from onnx_ops.runtime.session import STRING, Captured, NotComparable, Value
from onnx_ops.verify.defaults import list_names, run_with_other_values
from onnx_ops.verify.inputs import first_that_runs
from onnx_ops.verify.runnable import Runnable, prepare_to_run
from onnx_ops.verify.tolerance import relative_error, tolerance_of
from sliceport.arguments import read_input_shapes, read_inputs, read_seed
from sliceport.errors import ModelError, SliceportError, UsageError
from sliceport.formats import DeclaredShapes
from sliceport.open_shapes import choose_sizes
from sliceport.progress import say
from sliceport.wording import count_of

Array = npt.NDArray[Any]
Values = dict[str, Value]
Found = TypeVar("Found", bound="Verification")
_SEEDS = 3
_SMALL_PRIMES = 3, 5
OPTIMIZED = "onnxruntime's CPU provider with graph optimisation"
UNOPTIMIZED = "onnxruntime's CPU provider without graph optimisation"


class NotVerified(SliceportError):
    """An error: the verification of a rewritten model came to no result."""


@dataclass(frozen=True)
class Difference:
    """An output that a rewritten model computes differently.

    Attributes:
        output: The name of the output; empty for a difference of the whole model.
        message: One sentence.
    """

    output: str
    message: str


@dataclass(frozen=True)
class InputRun:
    """A run of the model before.

    Attributes:
        inputs: The arrays that it ran on.
        outputs: The outputs that it computed without graph optimisation.
        label: A description of the inputs that follows a sentence, or an empty string.
        is_repeat: Whether an earlier run differs in nothing but the seed or the sizes of open axes.
    """

    inputs: Mapping[str, Array]
    outputs: Values
    label: str = ""
    is_repeat: bool = False


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        runs: The runs of the model before.
        differences: The outputs that the model after computes differently.
        notes: Sentences about outputs that were not compared bit for bit.
    """

    runs: tuple[InputRun, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether the rewritten model may take the place of the other."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """Return the verification as JSON values."""
        return {
            "different_outputs": list(dict.fromkeys(d.output for d in self.differences)),
            "differences": [d.message for d in self.differences],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        sentences = [d.message for d in self.differences] or ["all outputs are bit-equal"]
        return "\n".join([*sentences, *self.notes])


def write_verified(
    model: ir.Model,
    path: str | os.PathLike[str],
    verify: Callable[..., Found],
    *,
    source: CheckedModel,
    overwrite: bool = False,
    **options: Any,
) -> Found:
    """Write a model; its file gets its name only if it passes a verification.

    Args:
        model: The model.
        path: The new file.
        verify: `verify_rewriting`, or a function like it.
        source: The model before, as it was read from its file.
        overwrite: See `write_model`.
        options: For `verify`.

    Raises:
        UsageError: See `write_model`.
        NotVerified: The verification came to no result, and nothing was written.
    """
    results: list[Found] = []

    def accept(file: Path, data_folder: Path) -> bool:
        try:
            results.append(verify(source, file, data_folder=data_folder, **options))
        except SliceportError as error:
            raise NotVerified(f"the changed model could not be verified, so it is not kept: {error}") from error
        return results[0].is_equal

    write_model(model, path, overwrite=overwrite, accept=accept)
    return results[0]


def verify_rewriting(
    before: Any,
    after: str | os.PathLike[str],
    *,
    data_folder: str | os.PathLike[str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    repeats: bool = False,
) -> Verification:
    """Compare a model with what it was rewritten to, on onnxruntime's CPU provider, bit for bit.

    Both run without graph optimisation, and also with it if the original model runs with it. In the optimised runs
    floats may differ by rounding, because fusions round differently. Defaults are also replaced by other values.

    Args:
        before: The model before; see `read_any`.
        after: The file of the rewritten model.
        data_folder: The folder of the external data of `after`, if not its own.
        input_shapes: Sizes for inputs whose shape is open, by name.
        inputs: Arrays for inputs; random ones that fit are made for the others.
        seed: For the random inputs.
        repeats: Whether to run also with other seeds, and with several sizes of open axes, which are chosen then.

    Raises:
        UsageError: An input does not fit, or its shape is open.
        ModelError: A model cannot be read, or onnxruntime does not run the model before.
        NotVerified: The model before does not compute the same twice, or an output cannot be compared.
        MissingExtra: onnxruntime is not installed.
    """
    given, seed = read_inputs(inputs), read_seed(seed)
    shapes = {name: array.shape for name, array in given.items()} | read_input_shapes(input_shapes)
    first, second = prepare_to_run(read_any(before)), prepare_to_run(read_checked(after, data_folder))
    changed = _interface_changes(first, second)
    if changed:
        return Verification((), changed)
    runs, notes = _run_with_repeats(first, shapes, given, seed) if repeats else _runs_of(first, shapes, given, seed)
    differences: list[Difference] = []
    for run in runs:
        differences += _compare(first, second, run, run.outputs, is_optimized=False, notes=notes)
        say("running the model before with graph optimisation")
        try:
            optimized = first.run(run.inputs, is_optimized=True)
        except ModelError as error:
            notes.append(f"not compared with graph optimisation{run.label}, before the rewriting: {error}")
            continue
        differences += _compare(first, second, run, optimized, is_optimized=True, notes=notes)
    return Verification(tuple(runs), tuple(differences), tuple(dict.fromkeys(notes)))


def _interface_changes(first: Runnable, second: Runnable) -> tuple[Difference, ...]:
    """Return a difference if inputs or outputs differ by name, order or element type."""

    def inputs(one: Runnable) -> list[tuple[str, int]]:
        return [(value.name, value.type.tensor_type.elem_type) for value in one.proto.graph.input]

    for kind, old, new in (("inputs", inputs(first), inputs(second)), ("outputs", first.outputs, second.outputs)):
        if old != new:
            return (Difference("", f"the rewritten model has {kind} {new} for {old}."),)
    return ()


def _runs_of(
    runnable: Runnable, shapes: Mapping[str, Sequence[int]], given: Mapping[str, Array], seed: int
) -> tuple[list[InputRun], list[str]]:
    """Run the model before with the defaults of its inputs, and with other values for those; also return notes."""

    def run(inputs: Mapping[str, Array]) -> Values:
        say(f"running the model before on {onnxruntime_cpu.NAME}")
        return runnable.run(inputs)

    inputs, outputs = first_that_runs(run, runnable.model, shapes, given, seed)
    runs = [InputRun(inputs, outputs)]
    others = run_with_other_values(run, runnable.model, inputs)
    if others.result is not None:
        runs.append(InputRun(others.inputs, others.result, others.label))
    return runs, list(others.notes)


def _run_with_repeats(
    runnable: Runnable, shapes: Mapping[str, Sequence[int]], given: Mapping[str, Array], seed: int
) -> tuple[list[InputRun], list[str]]:
    """Run the model before as `_runs_of` does, and with other seeds and sizes; a note names those that do not run."""
    declared = declared_in(runnable.proto.graph)
    sizes = [] if given else _sizes_of_open_axes(declared)
    for chosen in [{**each, **shapes} for each in sizes]:
        with suppress(ModelError, UsageError):
            runs, notes = _runs_of(runnable, chosen, given, seed)
            break
    else:
        chosen = dict(shapes)
        runs, notes = _runs_of(runnable, chosen, given, seed)
    cases = [(f" with seed {other}", chosen, other) for other in range(seed + 1, seed + _SEEDS)]
    cases += [(f" with shapes {each}", each, seed) for each in sizes if each != chosen]
    for label, case, other in cases if declared.keys() - given.keys() else ():
        say(f"running the model before{label}")
        try:
            repeated = first_that_runs(runnable.run, runnable.model, case, given, other)
        except (ModelError, UsageError):
            notes.append(f"not compared{label}: the original model does not run on them")
        else:
            runs.append(InputRun(*repeated, label, is_repeat=True))
    return runs, notes


def _sizes_of_open_axes(declared: DeclaredShapes) -> list[dict[str, Sequence[int]]]:
    """Return shapes for the inputs with open axes: distinct primes, smaller ones, and 1 for all."""
    ones: dict[str, Sequence[int]] = {
        name: [dim if isinstance(dim, int) else 1 for dim in shape]
        for name, shape in declared.items()
        if shape is not None and not all(isinstance(dim, int) for dim in shape)
    }
    if not ones:
        return []
    return [{**choose_sizes(declared)}, {**choose_sizes(declared, {}, *_SMALL_PRIMES)}, ones]


def _compare(
    first: Runnable, second: Runnable, run: InputRun, expected: Values, *, is_optimized: bool, notes: list[str]
) -> list[Difference]:
    """Run the model after, and compare its outputs with what the model before computed."""
    where = f"on {OPTIMIZED if is_optimized else UNOPTIMIZED}{run.label}"
    say("running the model after")
    try:
        got = second.run(run.inputs, is_optimized=is_optimized)
    except ModelError as error:
        _check_repeats(first, run, expected, where, is_optimized=is_optimized)
        return [Difference("", f"{where} the model runs before, and not after: {error}")]
    differences = []
    for name, value in expected.items():
        detail = _difference(value, got[name])
        if not detail:
            continue
        rounding = _rounding(value, got[name]) if is_optimized else None
        if rounding is not None:
            notes.append(f"output {name!r} differs {where} by {rounding:.1g} of its largest value: it rounds.")
        else:
            differences.append(Difference(name, f"output {name!r} differs {where}: {detail}"))
    if differences:
        _check_repeats(first, run, expected, where, is_optimized=is_optimized)
    return differences


def _check_repeats(first: Runnable, run: InputRun, expected: Values, where: str, *, is_optimized: bool) -> None:
    """Raise NotVerified if the model before computes something else now."""
    say("running the model before once more")
    try:
        repeated = first.run(run.inputs, is_optimized=is_optimized)
    except ModelError as error:
        raise NotVerified(f"{where} the model before runs once, and then it does not ({error}).") from None
    names = [name for name, value in expected.items() if _difference(value, repeated[name])]
    if names:
        raise NotVerified(f"{where} the model before computes other values each time for {list_names(names)}.")


def _rounding(expected: Value, got: Value) -> float | None:
    """Return the relative error of floats that differ by rounding; None if they differ by more or are not floats."""
    if not isinstance(expected, Captured) or not isinstance(got, Captured) or expected.element != got.element:
        return None
    if expected.element == STRING:
        return None
    error = relative_error(got.array(), expected)
    return error if error <= tolerance_of(ir.DataType(expected.element)) else None


def _difference(expected: Value, got: Value) -> str:
    """Describe the first difference between two values, or return an empty string.

    Raises:
        NotVerified: The values cannot be compared.
    """
    for value in (expected, got):
        if isinstance(value, NotComparable):
            raise NotVerified(f"onnxruntime does not give out an output of that type ({value.type}).")
    if isinstance(expected, Captured) and isinstance(got, Captured):
        return _tensor_difference(expected, got)
    if isinstance(expected, tuple) and isinstance(got, tuple):
        if len(expected) != len(got):
            return f"it has {count_of(len(got), 'element')} for {len(expected)}."
        details = (_difference(a, b) for a, b in zip(expected, got, strict=True))
        return next((f"in element {i} {detail}" for i, detail in enumerate(details) if detail), "")
    return "" if expected is None and got is None else f"it is {_kind(got)} for {_kind(expected)}."


def _tensor_difference(expected: Captured, got: Captured) -> str:
    if expected.equals(got):
        return ""
    if expected.element != got.element:
        types = [ir.DataType(value.element).name for value in (got, expected)]
        return f"its type is {types[0]} for {types[1]}."
    if expected.shape != got.shape:
        return f"its shape is {list(got.shape)} for {list(expected.shape)}."
    want, have = expected.array().reshape(-1), got.array().reshape(-1)
    unequal = _unequal(want, have)
    if not unequal.size:  # only the bits that fill up the last byte differ
        return ""
    index = [int(i) for i in np.unravel_index(int(unequal[0]), expected.shape)]
    values = f"{have[unequal[0]]} for {want[unequal[0]]}"
    return f"first at index {index}, {values} ({unequal.size} of {count_of(want.size, 'element')} differ)."


def _unequal(want: Array, have: Array) -> Array:
    """Return the indices of the elements that are not equal bit for bit."""
    if want.dtype == object:
        return np.flatnonzero(want != have)
    width = want.dtype.itemsize
    return np.flatnonzero((want.view(np.uint8) != have.view(np.uint8)).reshape(-1, width).any(axis=1))


def _kind(value: Value) -> str:
    return "a tensor" if isinstance(value, Captured) else "a sequence" if isinstance(value, tuple) else "nothing"
