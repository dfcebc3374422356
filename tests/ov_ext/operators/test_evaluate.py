"""Our operators compute what is right at the limits of types, sizes and threads.

`fuzz/openvino.py` and `test_forms.py` run them on the plugin, by Model.evaluate and folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino_models import MASKS, constant, fixed, make, one_slice, parameter
from vectors import load

import ov_ext
from sliceport.errors import InvalidSlice
from sliceport.slicing import SliceSpec

CORE = ov.Core()
EDGE = load("openvino_edge")


def run_on_cpu(model: ov.Model, array: np.ndarray) -> np.ndarray:
    computed: np.ndarray = CORE.compile_model(model, "CPU")([array])[0]
    return computed


def run_by_model(model: ov.Model, data: np.ndarray | ov.Tensor) -> ov.Tensor:
    """Run a model without a plugin, so without the plugin's conversions of types."""
    out = ov.Tensor(model.output(0).get_element_type(), ov.Shape([0]))
    assert model.evaluate([out], [data if isinstance(data, ov.Tensor) else ov.Tensor(data)])
    return out


REFUSED_BY_BOTH = ("len mismatch",)
"""Corners that the reference function computes, but that shape inference refuses, in the built-in operator and ours."""


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("case", EDGE, ids=lambda case: case["title"])
def test_corners_are_right_or_refused(case: dict[str, Any]) -> None:
    given, right = case["case"], case["expected"]
    data = np.arange(prod(given["shape"]), dtype=np.float32).reshape(given["shape"])
    names: tuple[str, ...]
    masks: dict[str, list[int]]
    if case["op"] == "slice":
        op, names, masks = "Slice", ("start", "stop", "step", "axes"), {}
    else:
        op, names, masks = "StridedSlice", ("begin", "end", "stride"), {name: given[name] for name in MASKS}
    arrays = [np.array(given[name], given["index_dtype"]) for name in names if given.get(name) is not None]
    if "error" in right or case["title"] in REFUSED_BY_BOTH:
        with pytest.raises(Exception, match=f"{op}\\d '.*': .*\\."):
            run_by_model(build(op, data, arrays, masks), data)
        if case["title"] in REFUSED_BY_BOTH:
            with pytest.raises(RuntimeError):
                make(op, [parameter(given["shape"]), *map(fixed, arrays)], masks, ours=False)
        return
    got = run_by_model(build(op, data, arrays, masks), data).data
    assert list(got.shape) == right["shape"]
    assert got.reshape(-1).tolist() == right["data"]


def build(op: str, data: np.ndarray, arrays: Sequence[np.ndarray], masks: dict[str, list[int]]) -> ov.Model:
    source = parameter(list(data.shape), ov.Type(data.dtype))
    return ov.Model([make(op, [source, *map(fixed, arrays)], masks)], [source], "m")


WHOLE_BYTES = ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"]
NARROWED = ("f64", "i64", "u64", "u32", "i16", "u16", "boolean")
"""Types that the plugin computes in another one, and booleans, which have few bit patterns."""
SPEC = SliceSpec((5, 1), (-9, 9), None, (-2, 1))
SHAPE = (6, 5)


def slice_of(element: ov.Type, shape: tuple[int, ...] = SHAPE) -> ov.Model:
    return one_slice("Slice", shape, ([5, 1], [-9, 9], [-2, 1]), ours=True, element=element)


def selected(array: np.ndarray) -> np.ndarray:
    return array[SPEC.resolve(array.shape).slices]


def as_bytes(tensor: ov.Tensor) -> bytes:
    return bytes(tensor.data.tobytes())


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("name", WHOLE_BYTES)
def test_bits_of_types_of_whole_bytes_do_not_change(name: str) -> None:
    """Signalling NaNs and denormals are among the bit patterns."""
    element = getattr(ov.Type, name)
    random = np.random.default_rng(0)
    bits = random.integers(0, 256, (*SHAPE, element.size), dtype=np.uint8)
    tensor = ov.Tensor(element, ov.Shape(SHAPE))
    tensor.data.reshape(-1).view(np.uint8)[...] = bits.reshape(-1)
    expected = selected(bits.reshape(*SHAPE, element.size).view(f"V{element.size}")[..., 0]).tobytes()
    model = slice_of(element)
    assert as_bytes(run_by_model(model, tensor)) == expected
    if name not in NARROWED:
        compiled = CORE.compile_model(model, "CPU")
        request = compiled.create_infer_request()
        request.set_input_tensor(tensor)
        request.infer()
        assert as_bytes(request.get_output_tensor(0)) == expected


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("size", [5, -1])
def test_shrink_that_is_out_of_range_raises(size: int) -> None:
    data, at = parameter([size]), parameter([1], "i64")
    node = ov_ext.StridedSlice([data, at, at], shrink_axis_mask=[1])
    node.set_friendly_name("pick")
    compiled = CORE.compile_model(ov.Model([node], [data, at], "m"), "CPU")
    x = np.arange(5, dtype=np.float32)
    assert compiled([x, np.array([-5])])[0] == 0
    for bad in (5, -6):
        message = rf"StridedSlice1 'pick': entry 0 shrinks axis 0 to index {bad}, but the axis has 5 elements\."
        with pytest.raises(RuntimeError, match=message):
            compiled([x, np.array([bad])])


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("value", [2**31 - 1, -(2**31)])
def test_unbounded_32_bit_index_is_shown_as_written(value: int) -> None:
    at = np.array([value], np.int32)
    data, given = ov.Tensor(np.zeros(5, np.float32)), ov.Tensor(at)
    node = ov_ext.StridedSlice([parameter([5]), *(parameter([1], "i32") for _ in range(2))], shrink_axis_mask=[1])
    with pytest.raises((InvalidSlice, RuntimeError), match=f"entry 0 shrinks axis 0 to index {value}, but"):
        node.evaluate([ov.Tensor(ov.Type.f32, ov.Shape([]))], [data, given, given])
    with pytest.raises(InvalidSlice, match=f"axis {value} is out of range"):
        ov_ext.Slice([parameter([5]), *(fixed(np.ones(1, np.int32)) for _ in range(3)), fixed(at)])


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize(
    ("declared", "data", "output"),
    [("f32", "f64", "f32"), ("f32", "f64", "f64"), ("f32", "f32", "u8"), ("dynamic", "i32", "f32")],
)
def test_tensors_of_another_type_than_declared_are_refused(declared: str, data: str, output: str) -> None:
    node = ov_ext.Slice([parameter([4096], declared), *(parameter([1], "i64") for _ in range(3))])
    tensors = [ov.Tensor(getattr(ov.Type, name), ov.Shape([4096])) for name in (data, output)]
    indices = [ov.Tensor(np.array([value])) for value in (0, 4096, 1)]
    expected = data if declared == "dynamic" else "f32"
    message = rf"data and output must hold {expected}, got {data} and {output}\."
    with pytest.raises((InvalidSlice, RuntimeError), match=message):
        node.evaluate([tensors[1]], [tensors[0], *indices])


@pytest.mark.usefixtures("kind")
def test_step_of_zero_at_run_time_raises() -> None:
    params = [parameter([5]), *(parameter([1], "i64") for _ in range(3))]
    compiled = CORE.compile_model(ov.Model([ov_ext.Slice(params)], params, "m"), "CPU")
    with pytest.raises(RuntimeError, match=r"the step of axis 0 is 0, but it must not be\."):
        compiled([np.zeros(5, np.float32), np.array([0]), np.array([5]), np.array([0])])


@pytest.mark.usefixtures("kind")
def test_axis_of_more_than_2_to_the_24_elements_is_sliced() -> None:
    data = np.arange(2**25 + 3, dtype=np.int8)
    model = build("Slice", data, [np.array([1]), np.array([2**63 - 1]), np.array([1])], {})
    assert np.array_equal(run_on_cpu(model, data), data[1:])


@pytest.mark.usefixtures("kind")
def test_axis_of_more_than_2_to_the_31_elements_is_sliced() -> None:
    """The plugin narrows bounds in constants to the least or greatest 32-bit integer."""
    size = 2**31 + 7
    data = np.zeros(size, np.uint8)
    data[-9:] = np.arange(9)
    source = parameter([-1], "u8")
    far = ov_ext.Slice([source, constant([-9]), constant([2**63 - 1]), constant([2])])
    assert run_on_cpu(ov.Model([far], [source], "m"), data).tolist() == [0, 2, 4, 6, 8]


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("sizes", [[3, 20], [-1, -1]])
def test_requests_at_once_are_right(sizes: list[int]) -> None:
    """The requests run in two streams, and then in four threads."""
    x = np.arange(60, dtype=np.float32).reshape(3, 20)
    starts = parameter([1], "i32")
    source = parameter(sizes)
    node = ov_ext.Slice([source, starts, constant([20], "i32"), constant([1], "i32"), constant([1], "i32")])
    compiled = CORE.compile_model(ov.Model([node], [source, starts], "m"), "CPU", {"NUM_STREAMS": "2"})
    got: dict[int, Any] = {}
    queue = ov.AsyncInferQueue(compiled, 4)
    queue.set_callback(lambda request, i: got.__setitem__(i, request.get_output_tensor(0).data.copy()))
    for i in range(200):
        queue.start_async([x + i, np.array([i % 20], np.int32)], i)
    queue.wait_all()
    assert all(np.array_equal(got[i], (x + i)[:, i % 20 :]) for i in range(200))

    def infer(first: int) -> bool:
        request = compiled.create_infer_request()
        numbers = range(first, first + 50)
        results = [request.infer([x + i, np.array([i % 20], np.int32)])[0].copy() for i in numbers]
        return all(np.array_equal(result, (x + i)[:, i % 20 :]) for i, result in zip(numbers, results, strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(infer, range(4)))


@pytest.mark.usefixtures("kind")
def test_large_tensor_is_copied_by_several_threads() -> None:
    data = np.arange(2 * 1024 * 1024, dtype=np.float32).reshape(4, 512, 1024)
    for bounds in (([0, 1, 0], [4, 511, 1024], [1, 1, 1]), ([3, 511, 1023], [-9, -999, -2000], [-1, -1, -1])):
        model = build("Slice", data, [np.array(values) for values in bounds], {})
        spec = SliceSpec(tuple(bounds[0]), tuple(bounds[1]), None, tuple(bounds[2]))
        index = spec.resolve(data.shape).slices
        assert np.array_equal(run_on_cpu(model, data), data[index])
