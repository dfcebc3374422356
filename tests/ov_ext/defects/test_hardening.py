"""Hardening replaces wrong nodes, by built-in operators if possible, and nothing else; test_forms.py runs the rest."""

from __future__ import annotations

from contextlib import suppress
from math import prod

import numpy as np
import openvino as ov
import oracle
import pytest
from openvino import opset1, opset8
from openvino_models import MASKS, constant, if_model, iterate, make, one_slice, parameter

from ov_ext.defects.hardening import harden

CORE = ov.Core()


NEW_AND_SHRINK = {"new_axis_mask": [0, 1], "shrink_axis_mask": [1, 0]}
ROW = ([1, 0], [2, 0], [1, 1])


def new_and_shrink() -> ov.Model:
    """Return a model with one node, `row`, that the CPU plugin computes wrongly."""
    return one_slice("StridedSlice", [2, 3], ROW, NEW_AND_SHRINK, name="row")


def test_nodes_that_are_right_stay_as_they_are() -> None:
    source = parameter([4, 5])
    first = make("Slice", [source, *map(constant, ([1], [9], [2], [1]))], ours=False)
    node = make("StridedSlice", [first, *map(constant, ([-1], [0], [-1]))], {"end_mask": [1]}, ours=False)
    model = ov.Model([node], [source], "m")
    before = [(op.get_friendly_name(), op.get_type_name()) for op in model.get_ordered_ops()]
    report = harden(model)
    assert (report.nodes, report.changes) == (2, ())
    assert [(op.get_friendly_name(), op.get_type_name()) for op in model.get_ordered_ops()] == before


def test_open_axis_sliced_up_to_index_2_to_the_31_stays_as_it_is() -> None:
    """On an axis of more than 2^31 elements, x[-1:2**31 - 1] would be empty, but no plugin slices such an axis."""
    assert harden(one_slice("Slice", [[1, -1], 4], ([-1], [2**31 - 1], [1], [0]))).changes == ()


def test_hardened_node_is_built_in_and_keeps_its_names() -> None:
    model = new_and_shrink()
    node = model.get_results()[0].input_value(0).get_node()
    node.output(0).get_tensor().set_names({"row:0"})
    node.get_rt_info()["mark"] = "here"
    report = harden(model)
    (change,) = report.changes
    defects = [{"id": "new axis and shrink with entries left out", "reason": change.defects[0].reason}]
    expected = {"node": "row", "op": "StridedSlice", "replacement": "StridedSlice", "defects": defects, "obstacle": ""}
    assert report.to_json()["changes"] == [expected | {"is_fragile": False}]
    assert not report.extension
    assert report.is_complete
    (op,) = [op for op in model.get_ordered_ops() if op.get_friendly_name() == "row"]
    assert op.get_type_info().version_id == "opset1"
    assert op.get_rt_info()["mark"] == "here"
    assert model.output("row:0").get_partial_shape() == ov.PartialShape([1, 3])
    assert CORE.compile_model(model, "CPU")([np.arange(6, dtype=np.float32).reshape(2, 3)])[0].tolist() == [[3, 4, 5]]
    assert harden(model).changes == ()


def test_bodies_are_hardened() -> None:
    model = if_model(
        [2, 3], lambda inner, _: make("StridedSlice", [inner, *map(constant, ROW)], NEW_AND_SHRINK, ours=False)
    )
    report = harden(model)
    assert report.nodes == len(report.changes) == 2
    got = CORE.compile_model(model, "CPU")([np.array(True), np.arange(6, dtype=np.float32).reshape(2, 3)])[0]
    assert got.tolist() == [[3, 4, 5]]


LONG = 2**25 + 3
RANDOM = np.random.default_rng(0).integers(1, 100, 65_537, np.int8)
"""Elements that are repeated so that rows differ; drawing each element would take longer than the rest of a test."""


@pytest.mark.parametrize(
    ("shape", "indices", "form"),
    [
        ((2, LONG), ([5], [-1], [1], [1]), "VariadicSplit"),
        ((3, LONG), ([1, 1], [3, -1], [1, 1], [0, 1]), "VariadicSplit"),
        ((3, LONG), ([1], [3], [1], [0]), "VariadicSplit"),
        ((3, LONG), ([2], [-9], [-2], [0]), "ov_ext.Slice"),
        ((LONG,), ([3], [2**62], [1], [0]), None),  # 2^25 elements: floats count them
        ((LONG,), ([0], [2**62], [1], [0]), None),  # nothing is cut off
    ],
)
def test_long_axes_are_computed_right(shape: tuple[int, ...], indices: tuple[list[int], ...], form: str | None) -> None:
    model = one_slice("Slice", shape, indices, element="i8")
    report = harden(model)
    assert [change.replacement for change in report.changes] == ([] if form is None else [form])
    assert bool(report.extension) == model.has_rt_info(["sliceport", "note"]) == (form == "ov_ext.Slice")
    data = np.resize(RANDOM, shape)
    index = [slice(None)] * data.ndim
    for start, stop, step, axis in zip(*indices, strict=True):
        index[axis] = slice(start, None if step < 0 else stop, step)
    assert np.array_equal(CORE.compile_model(model, "CPU")([data])[0], data[tuple(index)])


def test_long_axis_behind_a_new_one_stays_in_its_place() -> None:
    masks = {"new_axis_mask": [1, 0, 0], "shrink_axis_mask": [0, 0, 1]}
    model = one_slice("StridedSlice", [LONG, 2], ([0, 1, 0], [0, 2**24 + 2, 0], [1, 1, 1]), masks, element="i8")
    assert [change.replacement for change in harden(model).changes] == ["ov_ext.StridedSlice"]
    assert model.output(0).get_partial_shape() == ov.PartialShape([1, 2**24 + 1])


@pytest.mark.parametrize(
    ("op", "entries", "nibbles", "kept"),
    [
        ("Slice", -1, [[1], [4], [2], [1]], np.s_[:, 1:4:2]),
        ("StridedSlice", 3, [[0x21, 0], [0x33, 0]], np.s_[1:3, 2:3]),  # begin is 1, 2, 0 and end is 3, 3, 0
    ],
    ids=["of an open number", "before an ellipsis of no axis"],
)
def test_indices_of_4_bits_still_select(op: str, entries: int, nibbles: list[list[int]], kept: tuple[slice]) -> None:
    params = [parameter([4, 5]), *(parameter([entries], "i4") for _ in nibbles)]
    masks = {"ellipsis_mask": [0, 0, 1]} if op == "StridedSlice" else {}
    model = ov.Model([make(op, params, masks, ours=False)], params, "m")
    assert [change.replacement for change in harden(model).changes] == [op]
    packed = [ov.Tensor(ov.Type.i4, ov.Shape([abs(entries)])) for _ in nibbles]
    for tensor, values in zip(packed, nibbles, strict=True):
        tensor.data.reshape(-1).view(np.uint8)[:] = values
    data, out = np.arange(20, dtype=np.float32).reshape(4, 5), ov.Tensor(ov.Type.f32, ov.Shape([0]))
    assert model.evaluate([out], [ov.Tensor(data), *packed])
    assert np.array_equal(out.data, data[kept])


def test_shrink_at_run_time_beside_other_slices_is_hardened() -> None:
    params = [parameter([4, 3, 2]), *(parameter([3], "i64") for _ in range(2))]
    masks = {"shrink_axis_mask": [0, 1, 0], "begin_mask": [1, 0, 1], "end_mask": [1, 0, 1]}
    node = make("StridedSlice", [*params, constant([-1, 1, 1])], masks, ours=False)
    model = ov.Model([node], params, "m")
    assert [change.replacement for change in harden(model).changes] == ["Slice + StridedSlice"]
    data = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    compiled = CORE.compile_model(model, "CPU")
    for begin in (1, -1, 2):
        got = compiled([data, np.array([0, begin, 0]), np.zeros(3, np.int64)])[0]
        assert np.array_equal(got, data[::-1, begin])


@pytest.mark.parametrize("element", ["string", "u4", "bf16", "boolean"])
def test_empty_output_of_any_type_becomes_a_constant(element: str) -> None:
    model = one_slice("Slice", [4], ([2], [2], [-(2**31)], [0]), element=element)
    (change,) = harden(model).changes
    assert change.replacement == ("ov_ext.Slice" if element == "string" else "Constant")
    assert model.output(0).get_shape() == ov.Shape([0])


def test_empty_output_in_a_tensor_iterator_is_no_constant() -> None:
    """The CPU plugin ends the process if the body of a TensorIterator does not read its input."""
    lists = list(map(constant, ([2], [2], [-(2**31)], [1])))
    source = parameter([2, 3])
    joined = iterate(source, 0, 1, 1, -1, 0, lambda part: make("Slice", [part, *lists], ours=False))
    model = ov.Model([joined.output(0)], [source], "m")
    assert [change.replacement for change in harden(model).changes] == ["Slice"]
    assert CORE.compile_model(model, "CPU")([np.ones((2, 3), np.float32)])[0].shape == (2, 0)


def test_part_of_a_constant_in_a_tensor_iterator_is_no_constant() -> None:
    """Its start is known, but comes from the shape of the only input that the body reads."""
    data = ov.op.Constant(ov.Type.u4, ov.Shape([8]), list(range(8)))

    def read_shape(part: ov.Node) -> ov.Node:
        start = opset8.slice(opset8.shape_of(part), *map(constant, ([0], [1], [1], [0])))
        cut = make("Slice", [data, start, *map(constant, ([5], [1], [0]))], ours=False)
        return opset8.unsqueeze(opset8.convert(cut, "f32"), constant([0]))

    source = parameter([3, 4])
    model = ov.Model([iterate(source, 0, 1, 1, -1, 0, read_shape).output(0)], [source], "m")
    assert [change.replacement for change in harden(model).changes] == ["ov_ext.Slice"]
    assert CORE.compile_model(model, "CPU")([np.ones((3, 4), np.float32)])[0].tolist() == [[1, 2, 3, 4]] * 3


def test_invalid_node_is_left_and_reported() -> None:
    """Shape inference accepts lists of some floats as indices."""
    source = parameter([4])
    floats = [ov.op.Constant(ov.Type.nf4, ov.Shape([1]), [i]) for i in (1, 3, 1)]
    node = make("Slice", [source, *floats, constant([0])], ours=False)
    node.set_friendly_name("cut")
    model = ov.Model([node], [source], "m")
    report = harden(model)
    assert [node.node for node in report.invalid] == ["cut"]
    assert "Slice8 'cut': start must hold integers, got nf4" in str(report)
    assert not report.is_complete


@pytest.mark.parametrize("op", ["Slice", "StridedSlice"])
@pytest.mark.parametrize(("position", "right"), [(0, []), (1, [1, 2, 3, 4]), (2, [1])], ids=["begin", "end", "step"])
@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
def test_constant_of_half_bytes_is_folded_by_unsigned_indices_beyond_63_bits(
    op: str, position: int, right: list[int], value: int
) -> None:
    indices = [[1], [4], [1], [0]][: 4 if op == "Slice" else 3]
    indices[position] = [value]
    data = ov.op.Constant(ov.Type.i4, ov.Shape([5]), [0, 1, 2, 3, 4])
    rest = [opset8.constant(np.array(values, np.uint64)) for values in indices]
    model = ov.Model([make(op, [data, *rest], ours=False)], [], "m")
    harden(model)
    (result,) = model.get_results()
    made = result.input_value(0).get_node()
    assert made.get_type_name() == "Constant"
    assert list(made.get_output_shape(0)) == [len(right)]
    if right:
        converted = ov.Model([opset8.convert(made.output(0), "i32")], [], "m")
        assert CORE.compile_model(converted, "CPU")([])[0].tolist() == right


@pytest.mark.parametrize(
    ("defect", "masks", "shape", "indices"),
    [
        (
            "ellipsis shares its bit",
            {"new_axis_mask": [1, 0], "ellipsis_mask": [1, 0]},
            [5, 3, 1],
            [[0, 5], [-2, -3], [3, 1]],
        ),
        ("begin mask on a shrunk axis", {"begin_mask": [1], "shrink_axis_mask": [1]}, [5, 3], [[1], [2], [1]]),
        ("backward through an empty axis", {}, [0, 3], [[0], [-5], [-1]]),
    ],
)
def test_defects_are_found_though_the_number_of_entries_is_open(
    defect: str, masks: dict[str, list[int]], shape: list[int], indices: list[list[int]]
) -> None:
    params = [parameter(shape, "i32"), *(parameter([-1], "i64") for _ in indices)]
    length = max(map(len, masks.values()), default=0)
    node = opset1.strided_slice(*params, *(masks.get(name, [0] * length) for name in MASKS))
    model = ov.Model([node], params, "m")
    (change,) = harden(model).changes
    assert defect in [found.id for found in change.defects]
    data = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    out = ov.Tensor(ov.Type.i32, ov.Shape([0]))
    assert model.evaluate([out], [ov.Tensor(array) for array in (data, *map(np.array, indices))])
    assert np.array_equal(out.data, oracle.strided_slice(data, *indices, **masks))


def test_node_with_an_open_number_of_entries_and_no_defect_stays() -> None:
    params = [parameter([5, 3]), *(parameter([-1], "i64") for _ in range(3))]
    model = ov.Model([opset1.strided_slice(*params, [1, 0], [0, 1], [1, 0], [0, 0], [0, 0])], params, "m")
    assert harden(model).changes == ()


@pytest.mark.parametrize(
    ("mask", "axis", "stride", "size", "is_shared", "is_found"),
    [
        ([1], 3, -1, 2, True, True),
        ([1, 1, 1], 3, 2, 2, True, True),
        ([1], 3, -1, 2, False, False),  # The StridedSlice alone reads the Concat.
        ([1], 0, -1, 2, True, False),
        ([1, 1, 1, 1], 3, -1, 2, True, False),
        ([0], 3, -1, 2, True, False),
        ([1], 3, -1, -1, True, False),
    ],
)
def test_masks_that_end_before_the_axis_of_a_concat_are_found(
    mask: list[int], axis: int, stride: int, size: int, is_shared: bool, is_found: bool
) -> None:
    source = parameter([size, 2, 2, 2])
    joined = opset1.concat([source, source], axis)
    lists = [constant([value] * len(mask)) for value in (0, 2, stride)]
    results = [joined] * is_shared + [opset1.strided_slice(joined, *lists, mask, mask)]
    model = ov.Model(results, [source], "m")
    changes = [change for change in harden(model).changes if change.defects[0].id == "short masks behind a Concat"]
    assert [change.replacement for change in changes] == ["StridedSlice"] * is_found
    if is_found:
        data = np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)
        expected = np.concatenate([data, data], axis)[(slice(None, None, stride),) * len(mask)]
        assert np.array_equal(CORE.compile_model(model, "CPU")([data])[1], expected)


@pytest.mark.parametrize(("low", "high", "wrong_size"), [(1, 7, 4), (4, 8, 5)])
def test_index_that_floor_mod_computes_is_right_once_hardened(low: int, high: int, wrong_size: int) -> None:
    """OpenVINO takes n % 4 at both bounds of n as its bounds: 1 to 3 for n of 1 to 7, and a constant 0 for 4 to 8."""
    sized = opset1.parameter([ov.Dimension(low, high)], ov.Type.f32)
    data = opset1.parameter([10], ov.Type.f32)
    begin = opset1.floor_mod(opset8.shape_of(sized), constant([4]))
    model = ov.Model([opset1.strided_slice(data, begin, constant([10]), constant([1]), [0], [0])], [sized, data])
    numbers = np.arange(10, dtype=np.float32)
    with suppress(RuntimeError):  # an output that is larger than the inferred one
        wrong = ov.compile_model(model, "CPU")([np.zeros(wrong_size, np.float32), numbers])[0]
        assert len(wrong) != len(numbers) - wrong_size % 4
    (change,) = harden(model).changes
    assert [found.id for found in change.defects] == ["sizes known by bounds"]
    compiled = ov.compile_model(model, "CPU")
    for size in range(low, high + 1):
        assert np.array_equal(compiled([np.zeros(size, np.float32), numbers])[0], numbers[size % 4 :])
