"""Our operators infer shapes and symbols as OpenVINO's own vectors have them, and exact bounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset8
from openvino_models import MASKS, constant, listed, make, parameter, partial_shape
from vectors import load

import ov_ext
from sliceport.errors import InvalidSlice
from sliceport.slicing import Masks, StridedSliceSpec

pytestmark = pytest.mark.usefixtures("kind")

LENIENT = {
    "strided_slice_incompatible_size_of_masks_attr": [1, [0, 2], 1, [0, 4], 6, 8],  # the specification pads masks
    "strided_slice_default_stride_dynamic_shape_input_begin_not_1d": None,  # nothing is known yet that is wrong
}
"""Shapes of ours for nodes that OpenVINO refuses."""
UNSOUND = {"slice_v8_basic_param_inputs_default_axes_symbols_prop": [None] * 7 + [7, 8]}
"""Symbols of ours for nodes whose symbol OpenVINO keeps though the size may change."""


def index(given: dict[str, Any]) -> ov.Node:
    if given["kind"] == "param":
        return parameter(given["shape"], given["type"])
    if given["kind"] == "const":
        return constant(given["value"], given["type"])
    shape = opset8.shape_of(parameter(given["of_shape"]), given.get("type", "i64"))
    return shape if given.get("minus") is None else opset8.subtract(shape, constant(given["minus"], given["type"]))


def data_of(case: dict[str, Any]) -> tuple[ov.Node, list[ov.Symbol]]:
    shape = partial_shape(case["data_shape"])
    symbols = []
    if case["data_kind"] == "const":
        values = np.arange(np.prod(case["data_shape"])).reshape(case["data_shape"])
        return opset8.constant(values.astype(getattr(ov.Type, case["data_type"]).to_dtype())), []
    if case["expected_symbols"] is not None:
        for i, dim in enumerate(shape):
            symbols.append(ov.Symbol())
            dim.set_symbol(symbols[-1])
            shape[i] = dim
    return ov.op.Parameter(getattr(ov.Type, case["data_type"]), shape), symbols


@pytest.mark.parametrize("case", load("openvino_type_prop"), ids=lambda case: case["name"])
def test_vectors_of_openvino_agree(case: dict[str, Any]) -> None:
    data, symbols = data_of(case)
    names = ("begin", "end", "stride") if case["op"] == "StridedSlice" else ("start", "stop", "step", "axes")
    inputs = [data, *(index(case[name]) for name in names if case[name] is not None)]
    masks = {name: case[name] for name in MASKS} if case["op"] == "StridedSlice" else {}
    fails = case["expected_shape"] is None and not case["expected_rank_unknown"]
    if fails and case["name"] not in LENIENT:
        with pytest.raises(InvalidSlice, match=r"^(StridedSlice1|Slice8) '.*': .*\.$"):
            make(case["op"], inputs, masks)
        return
    shape = make(case["op"], inputs, masks).output(0).get_partial_shape()
    assert listed(shape) == LENIENT.get(case["name"], case["expected_shape"])
    if symbols:
        kept = [
            next((i for i, s in enumerate(symbols) if dim.has_symbol() and dim.get_symbol() == s), None)
            for dim in shape
        ]
        assert kept == UNSOUND.get(case["name"], case["expected_symbols"])


@pytest.mark.parametrize(
    ("operator", "element"), [("add", "i16"), ("minimum", "u16"), ("floor_mod", "i64"), ("subtract", "u32")]
)
def test_wrong_bounds_of_openvino_are_not_used(operator: str, element: str) -> None:
    size = opset8.convert(opset8.shape_of(parameter([[2, 5]])), element)
    stop = getattr(opset8, operator)(size, constant([3], element))
    node = ov_ext.Slice([parameter([[2, 5]]), constant([0], element), stop, constant([1], element)])
    assert node.output(0).get_partial_shape() == ov.PartialShape([ov.Dimension(0, 5)])


STOPS: dict[str, Callable[[Any], Any]] = {
    "abs": lambda n: opset8.abs(n - 6),
    "divide": lambda n: opset8.divide(constant([-24]), n),
    "floor_mod": lambda n: opset8.floor_mod(n, constant([4])),
    "mod": lambda n: opset8.mod(n - 6, constant([4])),
    "power": lambda n: opset8.power(n - 6, constant([2])),
    "reduce_prod": lambda n: opset8.reduce_prod(opset8.concat([n - 6, n - 6], 0), constant([0]), keep_dims=True),
    "squared_difference": lambda n: opset8.squared_difference(opset8.convert(n, "f32"), constant([6], "f32")),
    "boolean": lambda n: opset8.convert(n - 6, "boolean"),
    "i8": lambda n: opset8.convert(n - 6, "i8"),
    "u32": lambda n: opset8.convert(n - 6, "u32"),
    "product of sizes": lambda n: opset8.reduce_prod(opset8.concat([n, constant([1])], 0), constant([0]), True),
    "half of a difference": lambda n: opset8.divide(n - 3, constant([2])),
    "quotient of sizes": lambda n: opset8.divide(constant([24]), n),
}
MONOTONIC = {"product of sizes": (4, 8), "half of a difference": (0, 2), "quotient of sizes": (3, 6)}


@pytest.mark.parametrize("operator", STOPS)
def test_index_by_an_operator_has_bounds_only_if_it_is_monotonic(operator: str) -> None:
    stop = opset8.convert(STOPS[operator](opset8.shape_of(parameter([[4, 8]]))), "i64")
    node = ov_ext.Slice([parameter([10]), constant([0]), stop, constant([1])])
    bounds = ov.Dimension(*MONOTONIC.get(operator, (0, 10)))
    assert node.output(0).get_partial_shape() == ov.PartialShape([bounds])


@pytest.mark.parametrize("element", ["i32", "i64", "i4"])
def test_index_that_may_be_negative_has_no_lower_bound_if_it_has_no_upper_one(element: str) -> None:
    """OpenVINO takes 0 as the least value of n - 30 or -8 * n for any n, but x[:-29:-1] selects all 10 elements."""
    wide = "i64" if element == "i4" else element
    size = opset8.convert(opset8.shape_of(parameter([[1, -1]])), wide)
    factor = opset8.convert(ov.op.Constant(ov.Type.i4, ov.Shape([1]), [-8]), wide)
    end = opset8.multiply(size, factor) if element == "i4" else opset8.subtract(size, constant([30], element))
    lists = [constant([0], wide), end, constant([-1], wide)]
    node = ov_ext.StridedSlice([parameter([10]), *lists], begin_mask=[1])
    assert node.output(0).get_partial_shape() == ov.PartialShape([ov.Dimension(0, 10)])


@pytest.mark.parametrize("seed", range(8))
def test_inferred_intervals_are_exact(seed: int) -> None:
    """Exact bounds are the least and the greatest size of each output axis over all sizes of the data."""
    random = np.random.default_rng(seed)
    refused = 0
    for _ in range(60):
        rank = int(random.integers(1, 4))
        lows = random.integers(0, 4, rank).tolist()
        sizes = [[low, low + int(random.integers(0, 5))] for low in lows]
        count = int(random.integers(0, rank + 2))
        begin, end = random.integers(-7, 8, (2, count)).tolist()
        strides = random.choice([-3, -2, -1, 1, 2, 3], count).tolist()
        masks = {name: (random.random(count) < 0.25).astype(int).tolist() for name in MASKS}
        spec = StridedSliceSpec(tuple(begin), tuple(end), tuple(strides), Masks.of(masks))
        inputs = [parameter(sizes), constant(begin), constant(end), constant(strides)]
        shapes = []
        for shape in itertools.product(*(range(low, high + 1) for low, high in sizes)):
            with suppress(InvalidSlice):
                shapes.append(spec.resolve(shape).output_shape)
        if not shapes:
            refused += 1
            with pytest.raises(InvalidSlice):
                make("StridedSlice", inputs, masks)
            continue
        inferred = make("StridedSlice", inputs, masks).output(0).get_partial_shape()
        exact = [[min(axis), max(axis)] for axis in zip(*shapes, strict=True)]
        assert [[size.get_min_length(), size.get_max_length()] for size in inferred] == exact
    assert refused < 40


def with_symbol(low: int, high: int) -> tuple[ov.Node, ov.Symbol]:
    dim, symbol = ov.Dimension(low, high), ov.Symbol()
    dim.set_symbol(symbol)
    return ov.op.Parameter(ov.Type.f32, ov.PartialShape([dim, 4])), symbol


def kept(node: ov.Node, symbol: ov.Symbol) -> bool:
    dim = node.output(0).get_partial_shape()[0]
    return bool(dim.has_symbol() and dim.get_symbol() == symbol)


@pytest.mark.parametrize(
    ("low", "high", "start", "stop", "step", "keeps"),
    [
        (3, 7, 0, 9, 1, True),
        (3, 7, -1, -9, -1, True),
        (3, -1, 0, 2**63 - 1, 1, True),
        (3, -1, 0, 2**31 - 1, 1, False),  # 2^31 elements could be there
        (1, -1, 0, 2**63 - 1, 2, False),
        (0, 1, 0, 9, 2, True),
        (3, 7, 0, 7, 1, True),
        (3, 7, 0, 6, 1, False),
        (3, 7, 1, 9, 1, False),
    ],
)
def test_symbol_is_kept_exactly_if_the_size_cannot_change(
    low: int, high: int, start: int, stop: int, step: int, keeps: bool
) -> None:
    data, symbol = with_symbol(low, high)
    node = ov_ext.Slice([data, constant([start]), constant([stop]), constant([step])])
    assert kept(node, symbol) == keeps
    assert node.output(0).get_partial_shape()[1] == ov.Dimension(4)


def test_symbol_of_an_axis_without_an_entry_is_kept() -> None:
    data, symbol = with_symbol(0, -1)
    inputs = [data, constant([0, 1]), constant([0, 0])]
    assert kept(ov_ext.StridedSlice(inputs, ellipsis_mask=[1, 0], shrink_axis_mask=[0, 1]), symbol)


@pytest.mark.parametrize("op", ["Slice", "StridedSlice"])
def test_values_and_symbols_of_a_shape_go_through(op: str) -> None:
    """A Broadcast to a slice of a ShapeOf has the interval and the symbol."""
    data, symbol = with_symbol(3, 5)
    inputs = [opset8.shape_of(data), constant([0]), constant([1]), constant([1])]
    target = opset8.broadcast(parameter([1]), make(op, inputs))
    (dim,) = target.output(0).get_partial_shape()
    assert (dim.get_min_length(), dim.get_max_length()) == (3, 5)
    assert dim.get_symbol() == symbol


def test_values_go_through_backwards_and_after_a_reshape_of_the_model() -> None:
    data = parameter([[3, 5], 4, [1, 2]])
    inputs = [opset8.shape_of(data), constant([-1]), constant([-9]), constant([-2])]
    made = ov_ext.Slice(inputs)
    target = opset8.broadcast(parameter([1, 1]), made)
    model = ov.Model([target], [data, target.input_value(0).get_node()], "m")
    assert listed(target.output(0).get_partial_shape()) == [[1, 2], [3, 5]]
    model.reshape({data.output(0): ov.PartialShape([4, 4, 2])})
    assert listed(target.output(0).get_partial_shape()) == [2, 4]


def test_bounds_of_indices_bound_the_size() -> None:
    length = opset8.shape_of(parameter([[2, 4]]))
    start, one = constant([0]), constant([1])
    node = ov_ext.Slice([parameter([10, 3]), start, length, one])
    assert listed(node.output(0).get_partial_shape()) == [[2, 4], 3]
    negative = opset8.subtract(length, constant([10]))
    node = ov_ext.Slice([parameter([10, 3]), negative, constant([2**63 - 1]), one])
    assert listed(node.output(0).get_partial_shape()) == [[6, 8], 3]


def test_shrunk_index_is_refused_if_its_bounds_are_out_of_range() -> None:
    at = opset8.shape_of(parameter([[3, 5]]))
    one = constant([1])
    with pytest.raises(InvalidSlice, match="to an index from 3 to 5, but the axis has at most 3 elements"):
        ov_ext.StridedSlice([parameter([[0, 3]]), at, one], shrink_axis_mask=[1])
    assert listed(ov_ext.StridedSlice([parameter([4]), at, one], shrink_axis_mask=[1]).output(0).partial_shape) == []


ERRORS = {
    "a scalar": ("Slice", [[], [0], [1], [1]], {}, "data is a scalar"),
    "no list": ("Slice", [[3], 0, [1], [1]], {}, "start must be a list, got rank 0"),
    "lengths": ("Slice", [[3, 3], [0, 0], [1], [1]], {}, "start, stop, step and axes must have the same length"),
    "too long": ("Slice", [[3], [0, 0], [1, 1], [1, 1]], {}, "start has 2 entries, more than the rank 1 of data"),
    "floats": ("Slice", [[3], [0.0], [1], [1]], {}, "start must hold integers, got f64"),
    "a count": ("Slice", [[3], [0], [1]], {}, "it needs 4 or 5 inputs, got 3"),
    "entries": ("StridedSlice", [[3], [0, 0], [1, 1]], {}, "2 entries name an axis, but the tensor has rank 1"),
    "an index below": (
        "StridedSlice",
        [[[1, 3]], [-4], [0]],
        {"shrink_axis_mask": [1]},
        "entry 0 shrinks axis 0 to index -4, but the axis has at most 3 elements",
    ),
    "an index of an empty axis": (
        "StridedSlice",
        [[0, -1], [0, 2**63 - 1], [1, 1]],
        {"shrink_axis_mask": [1, 0]},
        "entry 0 shrinks axis 0 to index 0, but the axis has 0 elements",
    ),
    "an index of an open axis": (
        "StridedSlice",
        [[-1], [2**63 - 1], [1]],
        {"shrink_axis_mask": [1]},
        "entry 0 shrinks axis 0 to index 9223372036854775807, but no axis is that long",
    ),
}


@pytest.mark.parametrize(("op", "lists", "masks", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_error_is_a_sentence(op: str, lists: Sequence[Any], masks: dict[str, list[int]], message: str) -> None:
    inputs = [parameter(lists[0]), *(opset8.constant(np.array(values)) for values in lists[1:])]
    with pytest.raises(InvalidSlice, match=rf"^{op}\d '{op}.*': {message}.*\.$"):
        make(op, inputs, masks)
