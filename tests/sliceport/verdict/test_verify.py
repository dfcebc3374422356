"""`Verifier` on engines that refuse the changed model at some inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import ml_dtypes
import numpy as np
import pytest

from sliceport.device import NodeRun
from sliceport.engines.engine import Array, Value, WholeModel
from sliceport.engines.failure import Failure, Kind
from sliceport.engines.inputs import DeclaredInput, make_inputs, random_array
from sliceport.engines.side import Result, RunFailed, Side
from sliceport.engines.sizes import DeclaredShapes, InputShapes
from sliceport.errors import ModelError, UsageError
from sliceport.verdict.difference import Tolerance, tolerance_of
from sliceport.verdict.verification import InputRun, Trial, Verification, Verifier

DECLARED: DeclaredShapes = {"x": ("n",)}
FIRST = 2
"""The size that is chosen first."""


class Model:
    """A model whose inputs are its outputs."""

    outputs = ("x",)

    def __init__(self, name: str, declared: DeclaredShapes = DECLARED) -> None:
        self._name, self.declared_shapes = name, declared
        self.inputs = tuple(declared)

    def size_factors(self) -> list[int]:
        return []

    def whole(self) -> WholeModel:
        return WholeModel("onnx", self._name.encode(), self.inputs, self.outputs)

    def make_inputs(self, given: Mapping[str, Array], shapes: InputShapes, seed: int, attempt: int) -> dict[str, Array]:
        declared = [DeclaredInput(name, np.dtype(np.float32), ("n",)) for name in self.inputs]
        return make_inputs(declared, given, shapes, seed, attempt)


class Engine:
    """An engine that fails on the model after with some inputs, if at all."""

    name, description, model_formats, is_isolated = "engine", "", ("onnx",), True
    options: Mapping[str, str] = {}

    def __init__(self, kind: Kind | None = None, at_size: bool = False) -> None:
        self._kind, self._at_size, self._seen = kind, at_size, 0

    def version(self) -> str:
        return "1"

    def run_model(self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]) -> dict[str, Value]:
        assert not options
        self._seen += model.data == b"after"
        has_other_size = inputs["x"].size != FIRST
        if self._kind and model.data == b"after" and self._seen > 1 and has_other_size == self._at_size:
            raise RunFailed(Failure(self._kind, "", "it fails"))
        return dict(inputs)


class FailingSide(Side):
    """A side whose engine says itself how a run failed."""

    def try_run(self, model: WholeModel, inputs: Mapping[str, Array], places: list[NodeRun] | None = None) -> Result:
        assert places in (None, [])
        try:
            return self.engine.run_model(model, inputs, self.options)
        except RunFailed as failed:
            return failed.failure


@pytest.mark.parametrize("kind", ["error", "crash"])
@pytest.mark.parametrize("at_size", [True, False])
def test_changed_model_that_fails_where_the_original_runs_is_different(kind: Kind, at_size: bool) -> None:
    reference, optimized = FailingSide(Engine(), {}), FailingSide(Engine(kind, at_size), {})
    verifier = Verifier(Model("before"), Model("after"), reference)
    runs = verifier.make_runs({}, {}, 0)
    assert [run.inputs["x"].size for run in runs] == [FIRST, FIRST, FIRST, 3, 1]
    verification = verifier.compare(runs, [Trial("plain", reference), Trial("optimized", optimized)])
    assert [each.kind for each in verification.differences] == [kind]
    assert verification.failed_on is not None
    assert verification.failed_on[0] is optimized


def test_model_that_only_the_adapter_lacks_is_not_compared() -> None:
    reference, adapter = FailingSide(Engine(), {}), FailingSide(Engine("adapter"), {})
    verifier = Verifier(Model("before"), Model("after"), reference)
    verification = verifier.compare(verifier.make_runs({}, {}, 0), [Trial("plain", reference), Trial("on it", adapter)])
    assert verification.is_equal
    assert any("because the adapter does not run the changed model" in note for note in verification.notes)


class Off:
    """An engine that adds a number to the output of the model before, and another one after."""

    name, description, model_formats, is_isolated = "off", "", ("onnx",), True
    options: Mapping[str, str] = {}

    def __init__(self, before: float, after: float) -> None:
        self._errors = {b"before": before, b"after": after}

    def version(self) -> str:
        return "1"

    def run_model(self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]) -> dict[str, Value]:
        assert not options
        return {"x": inputs["x"] + np.float32(self._errors[model.data])}


@pytest.mark.parametrize(
    ("before", "after", "is_excused"),
    [(1, 1, True), (0, 1, False), (0.01, 0.015, True), (0.01, 0.1, False), (5, 3, False), (1e-6, 0.01, False)],
)
def test_only_an_error_that_the_original_makes_too_is_excused(before: float, after: float, is_excused: bool) -> None:
    reference, side = Side(Off(0, 0), {}), Side(Off(before, after), {})
    verifier = Verifier(Model("before"), Model("after"), reference)
    trial = Trial("on it", side, lambda expected, _: tolerance_of(expected))
    verification = verifier.compare(verifier.make_runs({}, {}, 0), [Trial("plain", reference), trial])
    assert verification.is_equal is is_excused
    assert any("as it did before the change" in note for note in verification.notes) is is_excused


@pytest.mark.parametrize(("before", "text"), [(1, "differs on it before the change only"), (0, "no defect showed")])
def test_target_is_told_what_the_original_model_does_there(before: float, text: str) -> None:
    reference, side = Side(Off(0, 0), {}), Side(Off(before, 0), {})
    verifier = Verifier(Model("before"), Model("after"), reference)
    verification = verifier.compare(
        verifier.make_runs({}, {}, 0), [Trial("plain", reference), Trial("on it", side, is_target=True)]
    )
    assert verification.is_equal
    (note,) = [note for note in verification.notes if "on it" in note]
    assert text in note


def test_untested_outputs_are_named_and_do_not_count_as_equal() -> None:
    reference = Side(Nothing(), {})
    verifier = Verifier(Model("before"), Model("after"), reference)
    verification = verifier.compare(verifier.make_runs({}, {}, 0), [Trial("plain", reference)])
    assert verification.is_equal
    assert verification.to_json()["untested"] == {"x": "all of its elements are NaN"}
    assert str(verification).splitlines() == [
        "no output was verified, because none shows anything",
        "output 'x' is untested, because all of its elements are NaN",
    ]


class Nothing(Engine):
    """An engine that computes NaN."""

    def run_model(self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]) -> dict[str, Value]:
        outputs = super().run_model(model, inputs, options)
        return {name: np.full_like(array, np.nan) for name, array in outputs.items()}


def test_empty_axes_are_tried_last_and_never_alone() -> None:
    reference = Side(Engine(), {})
    runs = Verifier(Model("before"), Model("after"), reference).make_runs({}, {}, 0, tries_empty=True)
    assert [run.inputs["x"].size for run in runs] == [FIRST, FIRST, FIRST, 3, 1, 0]


@pytest.mark.parametrize("is_array", [False, True])
def test_given_shape_holds_in_all_runs_and_only_other_axes_vary(is_array: bool) -> None:
    declared: DeclaredShapes = {"x": ("n",), "y": ("n",), "z": ("m",)}
    verifier = Verifier(Model("before", declared), Model("after", declared), Side(Engine(), {}))
    given = {"x": np.ones(4, np.float32)} if is_array else {}
    runs = verifier.make_runs({"x": (4,)}, given, 0, tries_empty=True)
    assert [tuple(array.size for array in run.inputs.values()) for run in runs] == [
        *[(4, 4, FIRST)] * 3,
        *[(4, 4, size) for size in (3, 1, 0)],
    ]


@pytest.mark.parametrize("dtype", [np.dtype(np.int64), np.dtype(ml_dtypes.uint2)])
@pytest.mark.parametrize(("attempt", "least", "greatest"), [(1, 1, 99), (2, 0, 1), (3, 0, 0), (4, 1, 1)])
def test_each_attempt_has_its_range_of_integers(dtype: np.dtype[Any], attempt: int, least: int, greatest: int) -> None:
    array = make_inputs([DeclaredInput("x", dtype, (1000,))], {}, {}, 0, attempt)["x"]
    assert (array.dtype, least <= array.min(), array.max() <= greatest) == (dtype, True, True)


def test_input_of_unknown_element_type_needs_an_array() -> None:
    message = "input 'x' declares no element type of NumPy or ml_dtypes; give an array in inputs"
    with pytest.raises(UsageError, match=message):
        make_inputs([DeclaredInput("x", None, (2,))], {}, {}, 0)


def test_note_on_rounding_scales_small_outputs_by_their_largest_value() -> None:
    side = Side(Off(0, 1e-5), {})
    verifier = Verifier(Model("before"), Model("after"), side)
    run = InputRun({"x": np.full(2, 1e-3, np.float32)}, {"x": np.full(2, 1e-3, np.float32)})
    verification = verifier.compare([run], [Trial("on engine", side, lambda *_: Tolerance(1e-4, 1e-4))])
    assert verification.notes == (
        "output 'x' differs on engine by up to 1e-05 (0.01 of its largest value), by rounding.",
    )


def test_difference_of_the_whole_model_names_no_output() -> None:
    verification = Verification((), (Failure("error", "", "it does not run."), Failure("values", "y", "y differs.")))
    assert verification.to_json()["different_outputs"] == ["y"]


def test_engine_that_never_runs_the_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = RunFailed(Failure("error", "", "an operator is not supported"))
    monkeypatch.setattr(Engine, "run_model", Mock(side_effect=failure))
    with pytest.raises(ModelError, match=r"engine does not run the original model with .*\(an operator is not"):
        Verifier(Model("before"), Model("after"), FailingSide(Engine(), {})).make_runs({}, {}, 0)


@pytest.mark.parametrize("element", ["bool", "int8", "float16", "complex64", "object"])
def test_random_scalar_is_an_array(element: str) -> None:
    array = random_array(np.dtype(element), (), np.random.default_rng(0), 0, 9)
    assert (type(array), array.shape, array.dtype) == (np.ndarray, (), np.dtype(element))
