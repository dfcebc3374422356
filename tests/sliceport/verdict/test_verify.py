"""`Verifier` on engines that refuse the changed model at some inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import ml_dtypes
import numpy as np
import pytest

from sliceport.engines.engine import Array, Value, WholeModel
from sliceport.engines.failure import Failure, Kind
from sliceport.engines.inputs import DeclaredInput, make_inputs, random_array
from sliceport.engines.side import RunFailed, Side
from sliceport.engines.sizes import DeclaredShapes, InputShapes
from sliceport.errors import ModelError, UsageError
from sliceport.verdict.difference import Tolerance
from sliceport.verdict.verification import Difference, InputRun, Trial, Verification, Verifier

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

    def run(self, model: WholeModel, inputs: Mapping[str, Array]) -> dict[str, Value]:
        return self.engine.run_model(model, inputs, self.options)


@pytest.mark.parametrize(
    ("kind", "at_size", "is_excused"),
    [("error", True, True), ("error", False, False), ("crash", True, False), ("crash", False, False)],
)
def test_only_a_refusal_of_other_sizes_by_an_optimizer_is_excused(kind: Kind, at_size: bool, is_excused: bool) -> None:
    reference, optimized = FailingSide(Engine(), {}), FailingSide(Engine(kind, at_size), {})
    verifier = Verifier(Model("before"), Model("after"), reference)
    runs = verifier.make_runs({}, {}, 0)
    assert [run.inputs["x"].size for run in runs] == [FIRST, FIRST, FIRST, 3, 1]
    verification = verifier.compare(runs, [Trial("plain", reference), Trial("optimized", optimized, optimized)])
    assert verification.is_equal is is_excused
    assert bool(verification.notes) is is_excused


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
    side = Side(Engine(), {})
    expected, actual = ({"x": np.full(2, value, np.float32)} for value in (1e-3, 1.01e-3))
    verifier = Verifier(Model("before"), Model("after"), side)
    trial = Trial("on engine", side, side, lambda *_: Tolerance(1e-4, 1e-4))
    assert verifier._list_differences(trial, InputRun({}, expected), expected, actual, "on engine") == []
    assert verifier.notes == ["output 'x' differs on engine by up to 1e-05 (0.01 of its largest value), by rounding."]


def test_difference_of_the_whole_model_names_no_output() -> None:
    verification = Verification((), (Difference("", "it does not run."), Difference("y", "y differs.")))
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
