"""The operators in C++ infer and compute what those in Python do, and refuse it in the same sentences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino as ov
import pytest
from amounts import amount
from openvino import opset8
from openvino.utils.node_factory import NodeFactory
from openvino_child import constant_of
from openvino_forms_child import as_tensor
from openvino_models import MASKS, listed, parameter, pick

import ov_ext.operators.slice
import ov_ext.operators.strided_slice
from sliceport.errors import InvalidSlice

INDEX_TYPES = ("i64", "i64", "i64", "i32", "i16", "i8", "i4", "u64", "u32", "u16", "u8", "u4", "f32", "boolean")
ELEMENTS = ("f32", "f64", "f16", "bf16", "i64", "u8", "boolean", "string", "u1", "u2", "u4", "i4", "nf4", "u3", "u6")
NAME = re.compile(r"'[^'\n]*'")
Make = Callable[[str, Sequence[ov.Output], dict[str, list[int]]], ov.Node]


@pytest.fixture(scope="session")
def native(factory: NodeFactory) -> Make:
    def make(op: str, inputs: Sequence[ov.Output], masks: dict[str, list[int]]) -> ov.Node:
        return factory.create("Slice8" if op == "Slice" else "StridedSlice1", list(inputs), masks)

    return make


def in_python(op: str, inputs: Sequence[ov.Output], masks: dict[str, list[int]]) -> ov.Node:
    return (
        ov_ext.operators.slice.Slice(inputs)
        if op == "Slice"
        else ov_ext.operators.strided_slice.StridedSlice(inputs, **masks)
    )


def any_index(random: np.random.Generator) -> int:
    if random.random() < 0.15:
        return int(pick(random, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1))
    return int(random.integers(-5, 6))


def constant(values: Sequence[int], kind: str) -> ov.Node:
    """Return a list of indices, each as near as the type has it."""
    if kind[0] in "iu":
        bits = int(kind[1:])
        low = 0 if kind[0] == "u" else -(2 ** (bits - 1))
        values = [min(max(value, low), low + 2**bits - 1) for value in values]
    dtype = {"u64": np.uint64, "f32": np.float64, "boolean": np.float64}.get(kind, np.int64)
    return constant_of(as_tensor(kind, np.array(values, dtype)))


def index_input(random: np.random.Generator, count: int, *, is_axes: bool) -> ov.Node:
    """Return a list of indices: a constant, a parameter, or computed from a shape; now and then not even a list."""
    how = random.random()
    if how < 0.08:
        shape = pick(random, [count], [-1], [], [count, 1], None, [count + 1])
        kind = pick(random, "i64", "i32", "u8", "f32")
        partial = ov.PartialShape.dynamic() if shape is None else ov.PartialShape(shape)
        return ov.op.Parameter(getattr(ov.Type, kind), partial)
    if how < 0.2 and count:
        sizes = [ov.Dimension(low, low + int(random.integers(0, 3))) for low in random.integers(0, 4, count).tolist()]
        kind = pick(random, "i64", "i32")
        shape = opset8.shape_of(ov.op.Parameter(ov.Type.f32, ov.PartialShape(sizes)), kind)
        return opset8.subtract(shape, constant(random.integers(0, 8, count).tolist(), kind))
    if is_axes and random.random() < 0.7:
        rank = max(count, 1)
        values = [int(axis) - rank * int(random.integers(0, 2)) for axis in random.permutation(rank)[:count]]
    else:
        values = [any_index(random) or 1 for _ in range(count + int(random.random() < 0.04))]
    return constant(values, pick(random, *INDEX_TYPES[: 14 if random.random() < 0.1 else 12]))


def data_input(random: np.random.Generator) -> ov.Node:
    rank = int(random.integers(0, 5))
    if random.random() < 0.05:
        return ov.op.Parameter(ov.Type.f32, ov.PartialShape.dynamic())
    if rank == 1 and random.random() < 0.5:
        sizes = [pick(random, ov.Dimension(3), ov.Dimension(2, 5), ov.Dimension()) for _ in range(4)]
        for size in sizes:
            if random.random() < 0.5:
                size.set_symbol(ov.Symbol())
        shape = ov.op.Parameter(ov.Type.f32, ov.PartialShape(sizes))
        return opset8.shape_of(shape, pick(random, "i64", "i32"))
    sizes = []
    for _ in range(rank):
        low = int(random.integers(0, 5))
        sizes.append(pick(random, ov.Dimension(low), ov.Dimension(low, low + 3), ov.Dimension(low, -1), ov.Dimension()))
        if random.random() < 0.5:
            sizes[-1].set_symbol(ov.Symbol())
    return ov.op.Parameter(getattr(ov.Type, pick(random, *ELEMENTS)), ov.PartialShape(sizes))


def any_masks(random: np.random.Generator, count: int) -> dict[str, list[int]]:
    values = [0, 2, -1] if random.random() < 0.05 else [0, 0, 0, 1]
    lengths = random.integers(0, count + 2, len(MASKS)).tolist()
    return {name: random.choice(values, length).tolist() for name, length in zip(MASKS, lengths, strict=True)}


def any_case(random: np.random.Generator) -> tuple[str, list[ov.Node], dict[str, list[int]]]:
    op = pick(random, "Slice", "StridedSlice")
    data = data_input(random)
    rank = data.get_output_partial_shape(0).rank
    count = int(random.integers(0, (rank.get_length() if rank.is_static else 2) + (1 if op == "Slice" else 3)))
    inputs = pick(random, *([3, 4, 4, 4] if op == "Slice" else [2, 3, 3, 3]))
    inputs = int(random.integers(0, 6)) if random.random() < 0.03 else inputs
    nodes = [data, *(index_input(random, count, is_axes=op == "Slice" and i == 3) for i in range(inputs))]
    return op, nodes, any_masks(random, count) if op == "StridedSlice" else {}


def inferred_type(output: ov.Output) -> Any:
    """Return the element type and the bounds of each size."""
    return output.get_element_type(), listed(output.get_partial_shape())


def symbols(output: ov.Output) -> list[Any]:
    shape = output.get_partial_shape()
    return [] if shape.rank.is_dynamic else [size.get_symbol() if size.has_symbol() else None for size in shape]


def values(output: ov.Output) -> Any:
    """Return bounds and symbols of the elements, as an operator that needs them has OpenVINO find them."""
    shape = output.get_partial_shape()
    if shape.is_dynamic or len(shape) != 1 or not shape[0].get_length():
        return None
    if output.get_element_type() not in (ov.Type.i64, ov.Type.i32):
        return None
    made = opset8.broadcast(ov.op.Parameter(ov.Type.f32, ov.PartialShape([1])), output)
    return inferred_type(made.output(0)), symbols(made.output(0))


def message_of(error: Exception) -> str:
    return NAME.sub("''", str(error).strip())


def make_or_refuse(make: Make, op: str, inputs: Sequence[ov.Output], masks: dict[str, list[int]]) -> ov.Node | str:
    """Return the node, or the sentence that refuses it."""
    try:
        return make(op, inputs, masks)
    except (InvalidSlice, RuntimeError) as error:
        return message_of(error)


def same_node(native: Make, op: str, inputs: Sequence[ov.Output], masks: dict[str, list[int]]) -> ov.Node | None:
    """Check that both kinds infer the same and return the node in C++, or None if both refuse in the same sentence."""
    expected, node = make_or_refuse(in_python, op, inputs, masks), make_or_refuse(native, op, inputs, masks)
    if isinstance(expected, str) or isinstance(node, str):
        assert node == expected, (op, inputs, masks)
        return None
    assert inferred_type(node.output(0)) == inferred_type(expected.output(0)), (op, inputs, masks)
    assert symbols(node.output(0)) == symbols(expected.output(0))
    elements = values(expected.output(0))
    assert values(node.output(0)) == elements
    return node


@pytest.mark.parametrize("seed", range(amount(6)))
def test_random_nodes_infer_the_same(native: Make, seed: int) -> None:
    random = np.random.default_rng(seed)
    refused = bounded = 0
    for _ in range(250):
        op, nodes, masks = any_case(random)
        node = same_node(native, op, [node.output(0) for node in nodes], masks)
        refused += node is None
        bounded += node is not None and values(node.output(0)) is not None
    assert 20 < refused < 200
    assert bounded > 3


@pytest.mark.parametrize("rank", range(4))
def test_every_mask_of_two_entries_means_the_same(native: Make, rank: int) -> None:
    data = parameter([5, 6, 7][:rank])
    for bits, count in itertools.product(itertools.product((0, 1), repeat=6), range(4)):
        masks = {name: list(bits[i : i + 2]) for name, i in zip(MASKS, (0, 0, 0, 2, 4), strict=True)}
        lists = [constant([value] * count, "i64").output(0) for value in (1, 3, 1)]
        same_node(native, "StridedSlice", [data.output(0), *lists], masks)


def intervals(low: int, high: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(low, high + 1) for b in range(a, high + 1)]


def bounded_list(bounds: Sequence[tuple[int, int]]) -> ov.Output:
    """Return a list of indices that have these bounds."""
    offset = -min(low for low, _ in bounds)
    lengths = ov.PartialShape([ov.Dimension(low + offset, high + offset) for low, high in bounds])
    shape = opset8.shape_of(ov.op.Parameter(ov.Type.f32, lengths))
    return opset8.subtract(shape, constant([offset] * len(bounds), "i64")).output(0)


@pytest.mark.parametrize("step", [None, -3, -1, 1, 2, 2**63 - 1])
def test_bounds_of_every_short_axis_are_the_same(native: Make, step: int | None) -> None:
    """Each node has many axes, because making a node takes longer than inferring an axis."""
    indices = [None, *intervals(-3, 3)]
    sizes = [*intervals(0, 3), (0, -1), (2, -1)]
    cases = list(itertools.product(sizes, indices, indices))
    for first in range(0, len(cases), 100):
        axes, starts, stops = zip(*cases[first : first + 100], strict=True)
        dimensions = [ov.Dimension(*axis) for axis in axes]
        for dimension in dimensions:
            dimension.set_symbol(ov.Symbol())
        data = ov.op.Parameter(ov.Type.f32, ov.PartialShape(dimensions))
        steps = parameter([len(axes)], "i64") if step is None else constant([step] * len(axes), "i64")
        bounds = [bounded_list([index or (0, 0) for index in column]) for column in (starts, stops)]
        masks = {
            name: [int(index is None) for index in column]
            for name, column in zip(MASKS[:2], (starts, stops), strict=True)
        }
        assert same_node(native, "StridedSlice", [data.output(0), *bounds, steps.output(0)], masks) is not None


def test_shrunk_index_is_refused_in_the_same_sentence(native: Make) -> None:
    one = constant([1], "i64").output(0)
    refused = 0
    for size, index in itertools.product(intervals(0, 4), intervals(-6, 6)):
        inputs = [parameter([size]).output(0), bounded_list([index]), one]
        refused += same_node(native, "StridedSlice", inputs, {"shrink_axis_mask": [1]}) is None
    assert refused > 100


def any_tensor(random: np.random.Generator, kind: str, shape: list[int]) -> ov.Tensor:
    element = getattr(ov.Type, kind)
    tensor = ov.Tensor(element, ov.Shape(shape))
    if tensor.size == 0:
        return tensor
    if kind == "string":
        tensor.str_data = np.array([f"number {i}, äö" for i in range(tensor.size)]).reshape(shape)
    else:
        bits = tensor.data.reshape(-1).view(np.uint8)
        bits[...] = random.integers(0, 2 if kind == "boolean" else 256, bits.size)
    return tensor


def elements(tensor: ov.Tensor) -> Any:
    shape = list(tensor.shape)
    if tensor.element_type == ov.Type.string:
        return shape, tensor.str_data.tolist()
    return shape, tensor.data.tobytes()


def any_list(random: np.random.Generator, count: int) -> ov.Node:
    kind = pick(random, "i64", "i64", "i32", "i8", "u64", "u8", "i4", "u4")
    return constant([any_index(random) or 1 for _ in range(count)], kind)


@pytest.mark.parametrize("seed", range(amount(6)))
def test_random_nodes_compute_the_same(native: Make, seed: int) -> None:
    """The indices are known at run time alone, so that they are also refused then."""
    random = np.random.default_rng(seed)
    refused = computed = 0
    for _ in range(400):
        op = pick(random, "Slice", "StridedSlice")
        shape = random.integers(0 if random.random() < 0.2 else 1, 6, int(random.integers(0, 5))).tolist()
        count = int(random.integers(0, len(shape) + (1 if op == "Slice" else 3)))
        data = any_tensor(random, pick(random, *ELEMENTS), shape)
        lists = [any_list(random, count) for _ in range(int(random.integers(2, 4)) + (op == "Slice"))]
        if op == "Slice" and len(lists) == 4 and random.random() < 0.8:
            axes = random.permutation(len(shape))[:count] - len(shape) * random.integers(0, 2, count)
            lists[3] = constant(axes.tolist(), "i64")
        given = [data, *(node.get_tensor_view() for node in lists)]
        masks = any_masks(random, count) if op == "StridedSlice" else {}
        inputs = [ov.op.Parameter(t.element_type, ov.PartialShape.dynamic(len(t.shape))).output(0) for t in given]
        answers: list[Any] = []
        for make in (in_python, native):
            out = ov.Tensor(data.element_type, ov.Shape([0]))
            try:
                node = make(op, inputs, masks)
                assert node.evaluate([out], given)
                answers.append(elements(out))
            except (InvalidSlice, RuntimeError) as error:
                answers.append(message_of(error).split("\n")[0].removeprefix("InvalidSlice: "))
        assert answers[0] == answers[1], (op, masks)
        refused += isinstance(answers[0], str)
        computed += not isinstance(answers[0], str)
    assert refused > 20
    assert computed > 50


@pytest.mark.parametrize(
    "name", ["it's", 'a "quoted" one', 'it\'s "both"', "back\\slash", "line\nend\ttab\x07", "größe"]
)
def test_names_are_quoted_as_python_quotes_them(native: Make, name: str) -> None:
    shape = ov.op.Parameter(ov.Type.f32, ov.PartialShape([3])).output(0)
    lists = [ov.op.Parameter(ov.Type.i64, ov.PartialShape([1])).output(0) for _ in range(3)]
    node = native("Slice", [shape, *lists], {})
    node.set_friendly_name(name)
    given = [ov.Tensor(np.zeros(3, np.float32)), *(ov.Tensor(np.zeros(1, np.int64)) for _ in range(3))]
    with pytest.raises(RuntimeError) as caught:
        node.evaluate([ov.Tensor(ov.Type.f32, ov.Shape([3]))], given)
    assert str(caught.value) == f"Slice8 {name!r}: the step of axis 0 is 0, but it must not be."


def test_parts_of_tensors_are_copied_though_they_are_not_contiguous(native: Make) -> None:
    whole = np.arange(60, dtype=np.float32).reshape(5, 12)
    part = ov.Tensor(ov.Tensor(whole), ov.Coordinate([1, 2]), ov.Coordinate([4, 9]))
    source = ov.op.Parameter(ov.Type.f32, ov.PartialShape([3, 7]))
    lists = [constant(values, "i64") for values in ([1, -1], [3, -9], [1, -2])]
    node = native("Slice", [source.output(0), *(values.output(0) for values in lists)], {})
    model = ov.Model([node], [source], "m")
    out = ov.Tensor(ov.Type.f32, ov.Shape([2, 4]))
    assert model.evaluate([out], [part])
    assert np.array_equal(out.data, whole[1:4, 2:9][1:3, ::-2])
    target = np.zeros((4, 6), np.float32)
    into = ov.Tensor(ov.Tensor(target, shared_memory=True), ov.Coordinate([1, 1]), ov.Coordinate([3, 5]))
    assert node.evaluate([into], [part, *(values.get_tensor_view() for values in lists)])
    expected = np.zeros((4, 6), np.float32)
    expected[1:3, 1:5] = whole[1:4, 2:9][1:3, ::-2]
    assert np.array_equal(target, expected)


@pytest.mark.parametrize("op", ["Slice", "StridedSlice"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 6, 9])
def test_wrong_number_of_tensors_is_refused(native: Make, op: str, count: int) -> None:
    source = ov.op.Parameter(ov.Type.f32, ov.PartialShape([5]))
    node = native(op, [source.output(0), *(constant([value], "i64").output(0) for value in (1, 4, 2))], {})
    tensors = [
        ov.Tensor(np.arange(1, 6, dtype=np.float32)),
        *(ov.Tensor(np.array([v])) for v in (1, 4, 2, 0, 3, 6, 7, 8)),
    ]
    out = ov.Tensor(ov.Type.f32, ov.Shape([2]))
    with pytest.raises(RuntimeError, match=f"it needs 4 inputs and 1 output, got {count} and 1 tensors"):
        node.evaluate([out], tensors[:count])
    with pytest.raises(RuntimeError, match="it needs 4 inputs and 1 output, got 4 and 0 tensors"):
        node.evaluate([], tensors[:4])
    assert node.evaluate([out], tensors[:4])
    assert out.data.tolist() == [2, 4]
