"""Hardened models: right on the CPU plugin, made of built-in operators where that can be, nothing else touched."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import openvino as ov
import oracle
import pytest
from openvino import opset1, opset8
from openvino_models import MASKS, constant, make, parameter
from openvino_processes import answers

import ov_ext

CORE = ov.Core()
PER_BATCH = 120


def random_sizes(random: np.random.Generator, shape: list[int], engine: str) -> list[Any] | None:
    """What the model says of a shape: all, nothing, or bounds; the CPU plugin runs nothing of unknown rank."""
    how = random.random()
    if how < 0.4:
        return list(shape)
    if how < 0.5 and engine == "reference":
        return None
    if how < 0.6:
        return [-1] * len(shape)
    around = [[max(0, size - int(random.integers(0, 4))), size + int(random.integers(0, 4))] for size in shape]
    return [size if random.random() < 0.4 else bounds for size, bounds in zip(shape, around, strict=True)]


def random_case(random: np.random.Generator) -> dict[str, Any]:
    """A case for `openvino_child.py` with what is right, under `expected`; that is None if the case is none."""
    rank = int(random.integers(0, 4))
    shape = random.integers(0 if random.random() < 0.1 else 1, 5, rank).tolist()
    is_constant = random.random() < 0.1
    engine = "cpu" if random.random() < 0.7 else "reference"
    case: dict[str, Any] = {
        "op": "StridedSlice" if random.random() < 0.75 or rank == 0 else "Slice",
        "shape": shape,
        "sizes": shape if is_constant else random_sizes(random, shape, engine),
        "run_time": bool(random.random() < 0.4),
        "constant": is_constant,
        "engine": engine,
    }
    data = np.arange(prod(shape)).reshape(shape)
    count = int(random.integers(0, rank + (3 if case["op"] == "StridedSlice" else 1)))
    begin, end = random.integers(-6, 7, (2, count)).tolist()
    strides = random.choice([-2, -1, 1, 2], count).tolist()
    if case["op"] == "Slice":
        axes = random.permutation(rank)[:count].tolist()
        case["indices"] = [begin, end, strides, axes]
        expected = oracle.onnx_slice(data, begin, end, axes, strides)
    else:
        length = count if random.random() < 0.7 else int(random.integers(0, count + 3))
        share = random.choice([0.1, 0.4])
        bits = (random.random((len(MASKS), length)) < share) & (random.random((len(MASKS), 1)) < 0.7)
        case["masks"] = dict(zip(MASKS, bits.astype(int).tolist(), strict=True))
        case["indices"] = [begin, end, strides]
        try:
            expected = oracle.strided_slice(data, begin, end, strides, **case["masks"])
        except oracle.OracleError:
            return {"expected": None}
    case["expected"] = {"shape": list(expected.shape), "values": expected.reshape(-1).astype(float).tolist()}
    return case


@pytest.mark.parametrize("seed", range(4))
def test_random_models(seed: int) -> None:
    """Hardened, a node is right; left alone, it is right as it is: all disagreements are named."""
    random = np.random.default_rng(seed)
    cases = [case for case in (random_case(random) for _ in range(PER_BATCH)) if case["expected"] is not None]
    kept = 0
    for case, got in zip(cases, answers([{**case, "harden": True} for case in cases]), strict=True):
        if "At most one ellipsis" in got.get("error", "") or "Input rank plus number" in got.get("error", ""):
            continue  # the built-in operator counts bits beyond its entries when it checks these
        assert {"shape": got.get("shape"), "values": got.get("values")} == case["expected"], (case, got)
        assert None not in got["forms"]
        kept += not got["forms"]
    assert PER_BATCH // 4 < kept < PER_BATCH - 10


def test_walks_through_empty_axes() -> None:
    """Hardened, they are right, whatever the model knows of the shape: all of it, the rank, or nothing."""
    cases: list[dict[str, Any]] = [
        {
            "op": "StridedSlice",
            "shape": list(shape),
            "sizes": sizes,
            "run_time": False,
            "constant": False,
            "engine": "reference",
            "harden": True,
            "masks": {},
            "indices": [[0, 0], [-5, -5], list(strides)],
        }
        for shape in product((0, 2), repeat=2)
        for strides in product((-1, 1), repeat=2)
        for sizes in (list(shape), [-1, -1], None)
    ]
    for case, got in zip(cases, answers(cases), strict=True):
        expected = oracle.strided_slice(np.arange(prod(case["shape"])).reshape(case["shape"]), *case["indices"])
        right = {"shape": list(expected.shape), "values": expected.reshape(-1).astype(float).tolist()}
        assert {"shape": got.get("shape"), "values": got.get("values")} == right, (case, got)


def types_in(model: ov.Model) -> list[str]:
    return [node.get_type_name() for node in model.get_ordered_ops()]


def new_and_shrink(source: ov.Node, **kwargs: Any) -> ov.Node:
    masks = {"new_axis_mask": [0, 1], "shrink_axis_mask": [1, 0]}
    indices = [constant(values) for values in ([1, 0], [2, 0], [1, 1])]
    return make("StridedSlice", [source, *indices], masks, ours=False, **kwargs)


def test_what_is_right_stays_as_it_is() -> None:
    source = parameter([4, 5])
    first = make("Slice", [source, *map(constant, ([1], [9], [2], [1]))], ours=False)
    node = make("StridedSlice", [first, *map(constant, ([-1], [0], [-1]))], {"end_mask": [1]}, ours=False)
    model = ov.Model([node], [source], "m")
    before = [(op.get_friendly_name(), op.get_type_name()) for op in model.get_ordered_ops()]
    report = ov_ext.harden(model)
    assert (report.nodes, report.changes) == (2, ())
    assert [(op.get_friendly_name(), op.get_type_name()) for op in model.get_ordered_ops()] == before


def test_names_stay_and_the_form_is_built_in() -> None:
    source = parameter([2, 3])
    node = new_and_shrink(source)
    node.set_friendly_name("row")
    node.output(0).get_tensor().set_names({"row:0"})
    node.get_rt_info()["mark"] = "here"
    model = ov.Model([node], [source], "m")
    report = ov_ext.harden(model)
    assert report.to_json()["changes"] == [
        {
            "node": "row",
            "op": "StridedSlice",
            "replacement": "StridedSlice",
            "defects": [
                {
                    "id": "new axis and shrink with entries left out",
                    "reason": report.changes[0].defects[0].reason,
                }
            ],
        }
    ]
    assert not report.needs_extension
    assert report.is_complete
    (op,) = [op for op in model.get_ordered_ops() if op.get_friendly_name() == "row"]
    assert op.get_type_info().version_id == "opset1"
    assert op.get_rt_info()["mark"] == "here"
    assert model.output("row:0").get_partial_shape() == ov.PartialShape([1, 3])
    assert CORE.compile_model(model, "CPU")([np.arange(6, dtype=np.float32).reshape(2, 3)])[0].tolist() == [[3, 4, 5]]


def test_hardened_again_nothing_changes() -> None:
    source = parameter([2, 3])
    model = ov.Model([new_and_shrink(source)], [source], "m")
    assert len(ov_ext.harden(model).changes) == 1
    assert ov_ext.harden(model).changes == ()


def test_bodies_are_hardened() -> None:
    condition = parameter([], "boolean")
    x = parameter([2, 3])
    branches = []
    for _ in range(2):
        inner = parameter([2, 3])
        branches.append(ov.Model([new_and_shrink(inner)], [inner], "branch"))
    node = opset8.if_op(condition)
    node.set_then_body(branches[0])
    node.set_else_body(branches[1])
    node.set_input(x.output(0), branches[0].get_parameters()[0], branches[1].get_parameters()[0])
    result = node.set_output(branches[0].get_results()[0], branches[1].get_results()[0])
    model = ov.Model([result], [condition, x], "m")
    report = ov_ext.harden(model)
    assert report.nodes == len(report.changes) == 2
    got = CORE.compile_model(model, "CPU")([np.array(True), np.arange(6, dtype=np.float32).reshape(2, 3)])[0]
    assert got.tolist() == [[3, 4, 5]]


LONG = 2**25 + 3
RANDOM = np.random.default_rng(0).integers(1, 100, 65_537, np.int8)
"""Elements that are repeated, no row as the one before: to draw all of them takes longer than the rest of a test."""


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
def test_long_axes(shape: tuple[int, ...], indices: tuple[list[int], ...], form: str | None) -> None:
    source = parameter(shape, "i8")
    model = ov.Model([make("Slice", [source, *map(constant, indices)], ours=False)], [source], "m")
    report = ov_ext.harden(model)
    assert [change.replacement for change in report.changes] == ([] if form is None else [form])
    assert report.needs_extension == model.has_rt_info(["sliceport", "note"]) == (form == "ov_ext.Slice")
    data = np.resize(RANDOM, shape)
    index = [slice(None)] * data.ndim
    for start, stop, step, axis in zip(*indices, strict=True):
        index[axis] = slice(start, None if step < 0 else stop, step)
    assert np.array_equal(CORE.compile_model(model, "CPU")([data])[0], data[tuple(index)])


def test_a_shrink_at_run_time_with_other_slices() -> None:
    params = [parameter([4, 3, 2]), *(parameter([3], "i64") for _ in range(2))]
    masks = {"shrink_axis_mask": [0, 1, 0], "begin_mask": [1, 0, 1], "end_mask": [1, 0, 1]}
    node = make("StridedSlice", [*params, constant([-1, 1, 1])], masks, ours=False)
    model = ov.Model([node], params, "m")
    assert [change.replacement for change in ov_ext.harden(model).changes] == ["Slice + StridedSlice"]
    data = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    compiled = CORE.compile_model(model, "CPU")
    for begin in (1, -1, 2):
        got = compiled([data, np.array([0, begin, 0]), np.zeros(3, np.int64)])[0]
        assert np.array_equal(got, data[::-1, begin])


@pytest.mark.parametrize("element", ["string", "u4", "bf16", "boolean"])
def test_nothing_of_any_type(element: str) -> None:
    source = parameter([4], element)
    node = make("Slice", [source, *map(constant, ([2], [2], [-(2**31)], [0]))], ours=False)
    model = ov.Model([node], [source], "m")
    (change,) = ov_ext.harden(model).changes
    assert change.replacement == ("ov_ext.Slice" if element == "string" else "Constant")
    assert model.output(0).get_shape() == ov.Shape([0])


def test_what_breaks_the_specification_is_left_and_said() -> None:
    """Shape inference takes lists of some floats for indices."""
    source = parameter([4])
    floats = [ov.op.Constant(ov.Type.nf4, ov.Shape([1]), [i]) for i in (1, 3, 1)]
    node = make("Slice", [source, *floats, constant([0])], ours=False)
    node.set_friendly_name("cut")
    model = ov.Model([node], [source], "m")
    report = ov_ext.harden(model)
    assert [node.node for node in report.invalid] == ["cut"]
    assert "Slice8 'cut': start must hold integers, got nf4" in str(report)
    assert not report.is_complete


@pytest.mark.parametrize("op", ["Slice", "StridedSlice"])
@pytest.mark.parametrize(("position", "right"), [(0, []), (1, [1, 2, 3, 4]), (2, [1])], ids=["begin", "end", "step"])
@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
def test_unsigned_indices_beyond_63_bits_into_a_constant_of_half_bytes(
    op: str, position: int, right: list[int], value: int
) -> None:
    indices = [[1], [4], [1], [0]][: 4 if op == "Slice" else 3]
    indices[position] = [value]
    data = ov.op.Constant(ov.Type.i4, ov.Shape([5]), [0, 1, 2, 3, 4])
    rest = [opset8.constant(np.array(values, np.uint64)) for values in indices]
    model = ov.Model([make(op, [data, *rest], ours=False)], [], "m")
    ov_ext.harden(model)
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
def test_defects_are_found_if_the_number_of_entries_is_open(
    defect: str, masks: dict[str, list[int]], shape: list[int], indices: list[list[int]]
) -> None:
    params = [parameter(shape, "i32"), *(parameter([-1], "i64") for _ in indices)]
    length = max(map(len, masks.values()), default=0)
    node = opset1.strided_slice(*params, *(masks.get(name, [0] * length) for name in MASKS))
    model = ov.Model([node], params, "m")
    (change,) = ov_ext.harden(model).changes
    assert defect in [found.id for found in change.defects]
    data = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    out = ov.Tensor(ov.Type.i32, ov.Shape([0]))
    assert model.evaluate([out], [ov.Tensor(array) for array in (data, *map(np.array, indices))])
    assert np.array_equal(out.data, oracle.strided_slice(data, *indices, **masks))


def test_nodes_with_an_open_number_of_entries_and_no_defect_stay() -> None:
    params = [parameter([5, 3]), *(parameter([-1], "i64") for _ in range(3))]
    model = ov.Model([opset1.strided_slice(*params, [1, 0], [0, 1], [1, 0], [0, 0], [0, 0])], params, "m")
    assert ov_ext.harden(model).changes == ()
