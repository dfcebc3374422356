"""Random nodes, good ones and ones that break one rule: we refuse exactly what onnxruntime's CPU provider refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import one_node
from running import as_bytes, run_node
from sessions import compute

import onnx_ops
from sliceport.defects.onnxruntime import INT32_MAX, INT64_MAX

Random = np.random.Generator
Parameters = dict[str, Any]
Spoil = Callable[[Random, tuple[int, ...], Parameters], None]
CASES = 60
FAR = (INT64_MAX, -INT64_MAX - 1, INT32_MAX, -INT32_MAX - 1)


def distinct(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(1, 1 + np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


def shape_of(random: Random) -> tuple[int, ...]:
    return tuple(random.integers(1, 6, random.integers(1, 5)).tolist())


def bound(random: Random, size: int) -> int:
    return int(random.choice(FAR)) if random.random() < 0.2 else int(random.integers(-2 * size - 2, 2 * size + 3))


def good_slice(random: Random, shape: tuple[int, ...]) -> Parameters:
    """Some axes, at least one, and steps that may be far; no backward end that onnxruntime takes for the far end."""
    axes = random.permutation(len(shape))[: random.integers(1, len(shape) + 1)].tolist()
    steps = [int(random.choice([1, 1, 2, -1, -1, -3, *FAR])) for _ in axes]
    ends = [bound(random, shape[axis]) for axis in axes]
    return {
        "starts": [bound(random, shape[axis]) for axis in axes],
        "ends": [
            -1 if step < 0 and end in (INT32_MAX, INT64_MAX) else end for step, end in zip(steps, ends, strict=True)
        ],
        "axes": [axis - len(shape) if random.random() < 0.3 else axis for axis in axes],
        "steps": steps,
    }


def slice_node(parameters: Parameters, shape: tuple[int, ...], opset: int) -> onnx.ModelProto:
    names = ("starts", "ends", "axes", "steps")
    given = [(name, np.array(parameters[name], np.int64) if name in parameters else None) for name in names]
    return one_node("Slice", opset, distinct(shape), given)


def lengthened(name: str) -> Spoil:
    def spoil(random: Random, shape: tuple[int, ...], parameters: Parameters) -> None:
        parameters[name].append(1)

    return spoil


def one_replaced(name: str, value: Callable[[Random, tuple[int, ...]], int]) -> Spoil:
    def spoil(random: Random, shape: tuple[int, ...], parameters: Parameters) -> None:
        parameters[name][random.integers(len(parameters[name]))] = value(random, shape)

    return spoil


def named_twice(random: Random, shape: tuple[int, ...], parameters: Parameters) -> None:
    axis = parameters["axes"][0]
    for name in ("starts", "ends", "steps"):
        parameters[name].append(1)
    parameters["axes"].append(int(random.choice([axis, axis % len(shape), axis % len(shape) - len(shape)])))


def more_than_axes(random: Random, shape: tuple[int, ...], parameters: Parameters) -> None:
    del parameters["axes"]
    for name in ("starts", "ends", "steps"):
        parameters[name][:] = [1] * (len(shape) + 1)


SPOILT_SLICES = {
    "more ends than starts": lengthened("ends"),
    "more starts than ends": lengthened("starts"),
    "more axes than starts": lengthened("axes"),
    "more steps than starts": lengthened("steps"),
    "step 0": one_replaced("steps", lambda *_: 0),
    "an axis above the last": one_replaced("axes", lambda random, shape: len(shape) + int(random.integers(3))),
    "an axis below the first": one_replaced("axes", lambda random, shape: -len(shape) - 1 - int(random.integers(3))),
    "an axis named twice": named_twice,
    "more starts than the data has axes": more_than_axes,
}


def good_split(random: Random, shape: tuple[int, ...]) -> Parameters:
    axis = int(random.integers(len(shape)))
    cuts = np.sort(random.integers(0, shape[axis] + 1, random.integers(1, 4))).tolist()
    return {"axis": axis, "split": np.diff([0, *cuts, shape[axis]]).tolist()}


def split_node(parameters: Parameters, shape: tuple[int, ...], opset: int) -> onnx.ModelProto:
    count = parameters.get("outputs", len(parameters.get("split", ())))
    attributes: dict[str, Any] = {name: parameters[name] for name in ("axis", "num_outputs") if name in parameters}
    if opset < 13:
        return one_node("Split", opset, distinct(shape), (), {**attributes, "split": parameters["split"]}, count)
    given = np.array(parameters["split"], np.int64) if "split" in parameters else None
    return one_node("Split", opset, distinct(shape), [("split", given)], attributes, count)


def one_more(random: Random, shape: tuple[int, ...], parameters: Parameters) -> None:
    parameters["split"][random.integers(len(parameters["split"]))] += 1


def negative(random: Random, shape: tuple[int, ...], parameters: Parameters) -> None:
    """A part of less than nothing, and another that makes up for it in the sum."""
    size = shape[parameters["axis"]]
    parameters["split"] = [size + 1, -1] if random.random() < 0.5 else [-2, size + 2]


def fewer_outputs(random: Random, shape: tuple[int, ...], parameters: Parameters) -> None:
    parameters["outputs"] = len(parameters["split"]) - 1


def more_outputs(random: Random, shape: tuple[int, ...], parameters: Parameters) -> None:
    parameters["outputs"] = len(parameters["split"]) + 1


def axis_out_of_range(random: Random, shape: tuple[int, ...], parameters: Parameters) -> None:
    parameters["axis"] = int(random.choice([len(shape), -len(shape) - 1]))


SPOILT_SPLITS = {
    "parts that do not sum": one_more,
    "a negative part": negative,
    "fewer outputs than parts": fewer_outputs,
    "more outputs than parts": more_outputs,
    "an axis out of range": axis_out_of_range,
}


def by_onnxruntime(model: onnx.ModelProto, data: np.ndarray) -> list[np.ndarray] | None:
    """The outputs; None where the session or the run is refused."""
    try:
        return compute(model, data=data)
    except Exception:  # onnxruntime's errors share no class
        return None


def assert_same(model: onnx.ModelProto, shape: tuple[int, ...], *, refused: bool) -> None:
    (lowered,) = onnx_ops.lower(model).nodes
    expected = by_onnxruntime(model, distinct(shape))
    if refused:
        assert expected is None
        assert lowered.reason is not None
        assert lowered.reason.code == "invalid"
        return
    assert expected is not None
    assert lowered.reason is None
    got = run_node(lowered, as_bytes(distinct(shape)))
    for cut, array in zip(lowered.resolved.cuts, expected, strict=True):
        assert cut.region.output_shape == array.shape
        assert np.array_equal(got[cut.output][: array.nbytes], as_bytes(array))


@pytest.mark.parametrize("opset", [10, 11, 13])
def test_good_slices_with_far_bounds_and_steps(opset: int) -> None:
    random = np.random.default_rng(opset)
    for _ in range(4 * CASES):
        shape = shape_of(random)
        assert_same(slice_node(good_slice(random, shape), shape, opset), shape, refused=False)


@pytest.mark.parametrize("opset", [10, 13])
@pytest.mark.parametrize("rule", SPOILT_SLICES)
def test_slices_that_break_one_rule(rule: str, opset: int) -> None:
    random = np.random.default_rng(len(rule) + opset)
    for _ in range(CASES):
        shape = shape_of(random)
        parameters = good_slice(random, shape)
        SPOILT_SLICES[rule](random, shape, parameters)
        assert_same(slice_node(parameters, shape, opset), shape, refused=True)


@pytest.mark.parametrize("opset", [2, 11, 13, 18])
def test_good_splits(opset: int) -> None:
    random = np.random.default_rng(opset)
    for _ in range(CASES):
        shape = shape_of(random)
        assert_same(split_node(good_split(random, shape), shape, opset), shape, refused=False)


@pytest.mark.parametrize("opset", [2, 11, 13, 18])
@pytest.mark.parametrize("rule", SPOILT_SPLITS)
def test_splits_that_break_one_rule(rule: str, opset: int) -> None:
    random = np.random.default_rng(len(rule) + opset)
    for _ in range(CASES):
        shape = shape_of(random)
        parameters = good_split(random, shape)
        SPOILT_SPLITS[rule](random, shape, parameters)
        assert_same(split_node(parameters, shape, opset), shape, refused=True)


def test_every_number_of_equal_parts_before_18_and_of_parts_with_a_smaller_last_one_from_18_on() -> None:
    """An empty last part is an entry of the table of defects."""
    for dim in range(1, 8):
        for parts in range(1, 9):
            chunk = (dim + parts - 1) // parts
            last = dim - chunk * (parts - 1)
            equal = {"axis": 0, "outputs": parts}
            even = one_node("Split", 13, distinct((dim,)), (), {"axis": 0}, parts)
            assert_same(even, (dim,), refused=dim % parts != 0)
            if last != 0:
                assert_same(split_node(equal | {"num_outputs": parts}, (dim,), 18), (dim,), refused=last < 0)
