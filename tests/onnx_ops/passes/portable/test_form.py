"""The portable form selects the same on onnxruntime for every size of open axes, and leaves nothing to an engine."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import oracle
import pytest
from amounts import amount, some
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx_models import parse
from platforms import assert_well_formed
from running import as_arrays
from sessions import open_session, run_unoptimized
from strategies import shapes, slice_specs

import sliceport
from onnx_ops.model.io import from_proto, to_proto
from onnx_ops.model.specs import slice_spec
from onnx_ops.model.walk import model_nodes
from onnx_ops.passes.portable.form import normalize_entries
from onnx_ops.passes.portable.harden import harden_portably
from sliceport.defects.profiles import PROFILES
from sliceport.engines.engine import Array
from sliceport.hardening import Hardening
from sliceport.slicing import INT64_MAX, INT64_MIN, AxisSlice, SliceSpec

NEAR = range(-6, 7)
FAR = (INT64_MIN, 2**31 - 1, INT64_MAX)
STEPS = (*range(-3, 0), *range(1, 4), INT64_MIN, INT64_MAX)
ENTRIES = [AxisSlice(*entry) for entry in itertools.product((*NEAR, *FAR), (*NEAR, *FAR), STEPS)]
WITHOUT = [(), ("negative-steps",), ("steps",), ("steps", "gather")]


def portable(
    proto: onnx.ModelProto, without: Sequence[str] = (), read_as: str | None = None, target: str = "portable"
) -> tuple[onnx.ModelProto, Hardening]:
    """Return a model in the portable form, which does not change again, and the report."""
    model, report = harden_portably(from_proto(proto), PROFILES[target], without, read_as)
    written = to_proto(model)
    assert_well_formed(written)
    _, again = harden_portably(model, PROFILES[target], without, read_as)
    assert not [change for change in again.changes if change.replacement is not None]
    return written, report


def slices(dims: Sequence[int | str], specs: Sequence[SliceSpec], opset: int = 13) -> onnx.ModelProto:
    """Return a model of one output for each Slice of an input `x`."""
    tensors, nodes, outputs = [], [], []
    for i, spec in enumerate(specs):
        lists = {"starts": spec.starts, "ends": spec.ends, "axes": spec.axes, "steps": spec.steps}
        names = [f"{name}{i}" if values is not None else "" for name, values in lists.items()]
        tensors += [
            numpy_helper.from_array(np.array(values, np.int64), name)
            for name, values in zip(names, lists.values(), strict=True)
            if values is not None
        ]
        nodes.append(helper.make_node("Slice", ["x", *names], [f"y{i}"], f"slice{i}"))
        outputs.append(
            helper.make_tensor_value_info(
                f"y{i}", onnx.TensorProto.FLOAT, [f"y{i}_{axis}" for axis in range(len(dims))]
            )
        )
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)
    graph = helper.make_graph(nodes, "slices", [x], outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def data_of(shape: Sequence[int]) -> Array:
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32).reshape(shape)


def assert_same(results: Any, expected: Sequence[Array]) -> None:
    for i, (got, want) in enumerate(zip(results, expected, strict=True)):
        assert (got.shape, got.tobytes()) == (want.shape, want.tobytes()), i


@pytest.mark.parametrize("size", range(5))
def test_normal_bounds_select_the_same_and_lie_beside_the_axis(size: int) -> None:
    data = data_of((size,))
    for entry in ENTRIES:
        expected = oracle.onnx_slice(data, [entry.start], [entry.end], [0], [entry.step])
        normal = normalize_entries({0: entry}, (size,))
        if not normal:
            assert expected.tobytes() == data.tobytes()
            continue
        start, end, step = normal[0]
        selected = oracle.onnx_slice(data, [start], [end], [0], [step])
        assert (selected.shape, selected.tobytes()) == (expected.shape, expected.tobytes()), entry
        assert 0 <= start <= size
        assert 0 <= end <= size or (step < 0 and end == -size - 1)
        assert len(expected) > 1 or step == 1
        assert expected.size or (start, end) == (0, 0)


@pytest.mark.parametrize("without", WITHOUT)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_slice_of_an_axis_selects_by_the_standard(size: int, without: Sequence[str]) -> None:
    specs = [SliceSpec((entry.start,), (entry.end,), (0,), (entry.step,)) for entry in some(ENTRIES[::7], size)]
    data = data_of((size,))
    written, report = portable(slices([size], specs), without, "standard")
    kept = {change.node for change in report.changes if change.replacement is None}
    assert bool(kept) == ("gather" in without and size > 1)  # one element needs no step
    results = as_arrays(open_session(written, optimized=False).run(None, {"x": data}))
    for i, (spec, got) in enumerate(zip(specs, results, strict=True)):
        if f"slice{i}" not in kept:
            want = oracle.onnx_slice(data, spec.starts, spec.ends, spec.axes, spec.steps)
            assert (got.shape, got.tobytes()) == (want.shape, want.tobytes()), spec
    for node in model_nodes(from_proto(written)):
        if node.op_type == "Slice" and node.name not in kept:
            steps = slice_spec(node, 13).steps
            assert steps is not None
            assert "steps" not in without or set(steps) == {1}
            assert not without or min(steps) > 0


@pytest.mark.parametrize("read_as", [None, "onnxruntime"])
def test_slices_of_an_open_axis_stay_equal_for_every_size(read_as: str | None) -> None:
    """onnxruntime runs all of them before and after."""
    specs = [SliceSpec((entry.start,), (entry.end,), None, (entry.step,)) for entry in some(ENTRIES[::3])]
    specs += [SliceSpec((0, entry.start), (9, entry.end), (-1, -2), (2, entry.step)) for entry in some(ENTRIES[::11])]
    before = slices(["n", 3], specs)
    written, _ = portable(before, (), read_as)
    first, second = open_session(before, optimized=False), open_session(written, optimized=False)
    for size in range(7):
        data = {"x": data_of((size, 3))}
        assert_same(second.run(None, data), as_arrays(first.run(None, data)))


@st.composite
def many_slices(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int | str, ...], list[SliceSpec], tuple[str, ...]]:
    shape = draw(shapes(max_rank=4, max_size=4))
    dims = tuple(f"d{i}" if draw(st.booleans()) else size for i, size in enumerate(shape))
    specs = draw(st.lists(slice_specs(shape), min_size=1, max_size=6))
    return shape, dims, specs, tuple(draw(st.sets(st.sampled_from(("steps", "negative-steps", "gather", "axis-gaps")))))


@settings(deadline=None, max_examples=amount(200))
@given(many_slices())
def test_slices_of_many_axes_stay_equal(
    case: tuple[tuple[int, ...], tuple[int | str, ...], list[SliceSpec], tuple[str, ...]],
) -> None:
    shape, dims, specs, without = case
    before = slices(dims, specs)
    written, _ = portable(before, without, "onnxruntime")
    session = open_session(written, optimized=False)
    for other in (
        shape,
        tuple(size + 1 if isinstance(dim, str) else size for size, dim in zip(shape, dims, strict=True)),
    ):
        expected = run_unoptimized(before, data_of(other))
        if expected is not None:
            assert_same(session.run(None, {"x": data_of(other)}), expected)


PARTS = [
    parts
    for count in (1, 2, 3)
    for size in (0, 1, 4)
    for parts in itertools.product(range(5), repeat=count)
    if sum(parts) == size
]
SPLITS = [(parts, read) for parts in PARTS for read in itertools.product((True, False), repeat=len(parts)) if any(read)]


def output_names(number: int, read: Sequence[bool]) -> list[str]:
    """Return a name for each output of a Split that is read, else an empty one."""
    return [f"y{number}_{i}" if is_read else "" for i, is_read in enumerate(read)]


def splits(opset: int) -> onnx.ModelProto:
    """Return a model of all `SPLITS`, of an input `x{size}` for each size."""
    nodes, outputs, sizes = [], [], []
    for number, (parts, read) in enumerate(SPLITS):
        names = output_names(number, read)
        inputs, attributes = [f"x{sum(parts)}"], dict[str, Any](axis=-1)
        if opset < 13:
            attributes["split"] = parts
        else:
            inputs.append(f"sizes{number}")
            sizes.append(numpy_helper.from_array(np.array(parts, np.int64), inputs[1]))
        unread = [name or f"unread{number}_{i}" for i, name in enumerate(names)]
        nodes.append(helper.make_node("Split", inputs, unread, f"split{number}", **attributes))
        outputs += [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, name]) for name in names if name]
    data = [helper.make_tensor_value_info(f"x{size}", onnx.TensorProto.FLOAT, [2, size]) for size in (0, 1, 4)]
    graph = helper.make_graph(nodes, "splits", data, outputs, sizes)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("without", [(), ("split",)])
def test_every_split_gives_the_same_parts(opset: int, without: Sequence[str]) -> None:
    written, report = portable(splits(opset), without)
    assert report.is_complete
    data = {f"x{size}": data_of((2, size)) for size in (0, 1, 4)}
    results = iter(as_arrays(open_session(written, optimized=False).run(None, data)))
    plain = []
    for number, (parts, read) in enumerate(SPLITS):
        expected = oracle.onnx_split(data[f"x{sum(parts)}"], 1, parts)
        for part in itertools.compress(expected, read):
            got = next(results)
            assert (got.shape, got.tobytes()) == (part.shape, part.tobytes()), (parts, read)
        if len(parts) > 1 and all(parts) and all(read) and not without:
            plain.append(output_names(number, read))
    assert [list(node.output) for node in written.graph.node if node.op_type == "Split"] == plain


@pytest.mark.parametrize("target", ["portable", "onnxruntime-dml"])
def test_split_of_open_axis_without_its_sizes_input_keeps_its_parts(target: str) -> None:
    proto = parse("(float[n, 6] x) => (float[a, b] y, float[c, d] z) { y, z = Split(x) }", 13)
    proto.graph.node[0].input.append("")  # left out: the parts are equal, and not empty
    expected = [data_of((8, 6))[:4], data_of((8, 6))[4:]]
    assert_same(open_session(proto, optimized=False).run(None, {"x": data_of((8, 6))}), expected)
    hardened = sliceport.harden(proto, target=target).model
    assert_same(open_session(hardened, optimized=False).run(None, {"x": data_of((8, 6))}), expected)


def test_split_18_without_its_sizes_input_is_read_by_num_outputs() -> None:
    # onnxruntime takes even an input without a name for the sizes, and loads this model in the portable form only.
    proto = parse("(float[5] x) => (float[a] y, float[b] z) { y, z = Split<axis = 0, num_outputs = 2>(x) }")
    proto.graph.node[0].input.append("")
    results = open_session(portable(proto)[0], optimized=False).run(None, {"x": data_of((5,))})
    assert_same(results, oracle.onnx_split(data_of((5,)), 0, (3, 2)))


def test_sizes_by_num_outputs_are_written_out() -> None:
    proto = parse("(float[5] x) => (float[a] y, float[b] z, float[c] w) { y, z, w = Split<num_outputs = 3>(x) }")
    written, report = portable(proto)
    (split,) = [node for node in written.graph.node if node.op_type == "Split"]
    assert [attribute.name for attribute in split.attribute] == ["axis"]
    results = open_session(written, optimized=False).run(None, {"x": data_of((5,))})
    assert_same(results, oracle.onnx_split(data_of((5,)), 0, (2, 2, 1)))
    assert [change.replacement for change in report.changes] == ["Split"]


@pytest.mark.parametrize("sizes", ["4, 0", "0, 4"])
def test_report_of_a_split_names_all_operators_that_replace_it(sizes: str) -> None:
    proto = parse(f"(float[4] x) => (float[a] y, float[b] z) <int64[2] s = {{{sizes}}}> {{ y, z = Split(x, s) }}")
    written, report = portable(proto)
    (change,) = report.changes
    assert change.replacement == ", ".join(node.op_type for node in written.graph.node)
