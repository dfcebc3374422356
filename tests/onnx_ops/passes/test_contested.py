"""Contested nodes stay as they are in graphs, branches and functions, and so does what follows from them.

Each model runs on onnxruntime's CPU provider before and after, with optimisation and without. The outputs are equal,
or the provider refuses both.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from amounts import some
from command_line import Invoke
from onnx import parser
from onnx.reference import ReferenceEvaluator
from running import as_arrays
from sessions import open_session

from onnx_ops.model.io import from_proto
from onnx_ops.passes import PASSES, rewrite
from onnx_ops.passes.directml.harden import harden_for_directml
from onnx_ops.passes.portable.harden import harden_portably
from onnx_ops.passes.rewrite.run import Rewriting
from onnx_ops.passes.simplify.simplification import simplify
from sliceport.defects.defect import Defect
from sliceport.defects.profiles import PROFILES
from sliceport.defects.table import find_defect
from sliceport.errors import ModelError
from sliceport.hardening import Hardening

BACKWARD_TO_THE_GREATEST = find_defect("backward slice to the greatest integer")
BELOW_THE_AXIS = find_defect("backwards from below the axis")
DROPPED_STEPS = find_defect("steps without axes over whole axes")
EMPTY_LAST_PART = find_defect("num_outputs that leaves the last part empty")

INT64_MAX, INT32_MAX = 2**63 - 1, 2**31 - 1

Place = Callable[[int, int, int, int | None], str]
"""A model with the node somewhere, of its start, end, step and axis."""
BOUNDS: dict[Defect, list[tuple[int, int, int, int | None]]] = {
    BACKWARD_TO_THE_GREATEST: [(-1, INT64_MAX, -1, 0), (-1, INT32_MAX, -2, 0), (2, INT64_MAX, -1, 0)],
    DROPPED_STEPS: [(0, INT64_MAX, 2, None), (0, INT64_MAX, 3, None)],
    BELOW_THE_AXIS: [(-9, -20, -1, 0)],
}
CASES = [(contested, *bounds) for contested, all_bounds in BOUNDS.items() for bounds in all_bounds]
IDS = [f"{contested.id} {start} {end} {step}" for contested, start, end, step, _ in CASES]
AFTER = "f = Shape(c)  n = Neg(c)  y = Slice(n, i0, i2, i0)"
CONSTANTS = "".join(f"i{i} = Constant<value_ints=[{i}]>()  " for i in range(3))


def constants(start: int, end: int, step: int, axis: int | None, prefix: str = "") -> str:
    """Write the constants `s`, `e`, `t` and, if there is an axis, `ax`."""
    given = {"s": start, "e": end, "t": step} | ({} if axis is None else {"ax": axis})
    return "".join(f"{prefix}{name} = Constant<value_ints=[{value}]>()  " for name, value in given.items())


def parameters(axis: int | None) -> str:
    return "s, e, , t" if axis is None else "s, e, ax, t"


def in_the_graph(start: int, end: int, step: int, axis: int | None) -> str:
    return f"""g (float[4] x) => (float[p] y, int64[q] f) {{
        {CONSTANTS} {constants(start, end, step, axis)}
        a = Neg(x)  c = Slice(a, {parameters(axis)})  {AFTER}
    }}"""


def behind_another(start: int, end: int, step: int, axis: int | None) -> str:
    """Place the Slice behind another one, beside an equal one and after an operator; two of them are never read."""
    return f"""g (float[9] x) => (float[p] y, int64[q] f, float[r] again) {{
        {CONSTANTS} i4 = Constant<value_ints=[4]>()  {constants(start, end, step, axis)}
        a = Slice(x, i0, i4, i0)  c = Slice(a, {parameters(axis)})  {AFTER}
        d = Slice(a, {parameters(axis)})  again = Neg(d)  m = Neg(a)  w = Slice(m, {parameters(axis)})  v = Shape(w)
    }}"""


def computed(start: int, end: int, step: int, axis: int | None) -> str:
    """Compute the end from constants."""
    return f"""g (float[4] x) => (float[p] y, int64[q] f) {{
        {CONSTANTS} {constants(start, end, step, axis).replace("e =", "e0 =")} e = Add(e0, i0)
        a = Neg(x)  c = Slice(a, {parameters(axis)})  {AFTER}
    }}"""


def in_a_branch(start: int, end: int, step: int, axis: int | None) -> str:
    """Place the Slice in a branch, not as its output: onnxruntime would infer another shape for it and refuse."""
    return f"""g (float[4] x) => (float[p] y, int64[q] f) {{
        {CONSTANTS} {constants(start, end, step, axis)}
        total = ReduceSum<keepdims=0>(x)  is_true = Cast<to=9>(total)
        c = If(is_true)<
            then_branch = then_graph() => (float[k] u) {{
                a = Neg(x)  b = Slice(a, {parameters(axis)})  some = ReduceSum<keepdims=0>(b)  u = Add(x, some)
            }},
            else_branch = else_graph() => (float[l] v) {{ v = Identity(x) }}
        >
        {AFTER}
    }}"""


def in_a_function(start: int, end: int, step: int, axis: int | None) -> str:
    return f"""g (float[4] x) => (float[p] y, int64[q] f) {{ {CONSTANTS} c = d.cut(x)  {AFTER} }}
    <domain: "d", opset_import: ["" : 17]> cut (x) => (c) {{
        {constants(start, end, step, axis)} a = Neg(x)  b = Slice(a, {parameters(axis)})  c = Neg(b)
    }}"""


def by_what_is_given_to_a_function(start: int, end: int, step: int, axis: int | None) -> str:
    return f"""g (float[4] x) => (float[p] y, int64[q] f) {{
        {CONSTANTS} {constants(start, end, step, axis)} c = d.cut(x, s, e, t)  {AFTER}
    }}
    <domain: "d", opset_import: ["" : 17]> cut (x, s, e, t) => (c) {{
        ax = Constant<value_ints=[0]>()  a = Neg(x)  b = Slice(a, {parameters(axis)})  c = Neg(b)
    }}"""


PLACES = (in_the_graph, behind_another, computed, in_a_branch, in_a_function, by_what_is_given_to_a_function)
WAYS: dict[str, Callable[[ir.Model], Rewriting | Hardening]] = {
    "default": rewrite,
    "all": lambda model: rewrite(model, tuple(PASSES)),
    **{name: partial(rewrite, passes=(name,)) for name in PASSES},
    "harden": harden_for_directml,
}


def model_of(text: str, opset: int = 17) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}, "d" : 1]> {text}')


def outcomes(proto: onnx.ModelProto) -> list[object]:
    """Return the outputs on the CPU provider without and with optimisation, None if it refuses the model."""
    return _outcomes(proto.SerializeToString())


@functools.cache  # most passes leave most models as they were
def _outcomes(model: bytes) -> list[object]:
    proto = onnx.ModelProto.FromString(model)
    (x,) = proto.graph.input
    size = x.type.tensor_type.shape.dim[0].dim_value
    results: list[object] = []
    for optimized in (False, True):
        try:
            arrays = open_session(proto, optimized=optimized).run(None, {"x": np.arange(1, size + 1, dtype=np.float32)})
        except Exception:
            results.append(None)
        else:
            results.append([(array.shape, array.tobytes()) for array in as_arrays(arrays)])
    return results


def slicing(proto: onnx.ModelProto) -> int:
    """Count the Slices and Splits of a model, those in branches and functions too."""
    model = from_proto(proto)
    holders: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    return sum(node.op_type in ("Slice", "Split") for holder in holders for node in holder.all_nodes())


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize(("contested", "start", "end", "step", "axis"), some(CASES), ids=some(IDS))
def test_no_pass_changes_what_any_engine_computes(
    contested: Defect, start: int, end: int, step: int, axis: int | None, place: Place
) -> None:
    before = model_of(place(start, end, step, axis))
    expected = outcomes(before)
    assert expected[0] is not None
    for way, change in WAYS.items():
        model = from_proto(before)
        change(model)
        assert outcomes(ir.serde.serialize_model(model)) == expected, way


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize(("contested", "start", "end", "step", "axis"), CASES, ids=IDS)
def test_contested_node_is_reported_with_each_engine(
    contested: Defect, start: int, end: int, step: int, axis: int | None, place: Place
) -> None:
    model = from_proto(model_of(place(start, end, step, axis)))
    report = rewrite(model)
    if contested is not BELOW_THE_AXIS or place in (in_the_graph, behind_another, computed):
        assert report.contested
    assert {skipped.reason for skipped in report.contested} <= {contested.reason}
    assert all(skipped.node for skipped in report.contested)
    assert all(skipped.node in report.text(verbose=True) for skipped in report.contested)
    assert [entry["reason"] for entry in report.to_json()["contested"]] == [
        skipped.reason for skipped in report.contested
    ]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize(
    ("contested", "start", "end", "step", "axis"), [case for case in CASES if case[0] is not BELOW_THE_AXIS]
)
def test_hardening_reports_contested_nodes_as_not_fixed(
    contested: Defect, start: int, end: int, step: int, axis: int | None, place: Place
) -> None:
    model = from_proto(model_of(place(start, end, step, axis)))
    report = harden_for_directml(model)
    assert not report.is_complete
    left = [change for change in report.changes if change.replacement is None]
    assert {defect.id for change in left for defect in change.defects} == {contested.id}
    assert re.search("engines disagree about it: .*: left as it is", str(report))


@pytest.mark.parametrize(("size", "parts"), [(4, 3), (1, 2), (3, 4), (5, 5), (6, 4)])
def test_split_with_an_empty_last_part_stays(size: int, parts: int) -> None:
    """onnxruntime before 1.32 refuses it and goes on doing so: no pass makes Slices of the parts that are read."""
    names = [f"b{i}" for i in range(parts)]
    text = f"""g (float[{size}] x) => (float[p] y, int64[q] f) {{
        {CONSTANTS} a = Neg(x)  {", ".join(names)} = Split<num_outputs={parts}>(a)  c = Neg(b0)  {AFTER}
    }}"""
    before = model_of(text, 18)
    expected = outcomes(before)
    is_empty = -(-size // parts) * (parts - 1) >= size
    assert (expected[0] is None) == (is_empty and EMPTY_LAST_PART.divergences[0].may_affect(ort.__version__))
    for way, change in WAYS.items():
        model = from_proto(before)
        report = change(model)
        after = ir.serde.serialize_model(model)
        assert outcomes(after) == expected, way
        if is_empty:
            assert sum(node.op_type == "Split" for node in after.graph.node) == 1, way
            assert EMPTY_LAST_PART.reason in (str(report) if way == "harden" else report.text())


@pytest.mark.parametrize(
    "node",
    ["c, d, e = Split<num_outputs=3>(a)", f"{constants(-9, -20, -1, 0)} c = Slice(a, s, e, ax, t)"],
    ids=["last part", "below"],
)
def test_contested_node_stays_if_only_a_shape_reads_it(node: str) -> None:
    """Engines disagree by sizes that are only inferred; were the Shape a constant, nothing would read the node."""
    before = model_of(f"g (float[4] x) => (int64[1] f) {{ a = Neg(x)  {node}  f = Shape(c) }}", 18)
    expected = outcomes(before)
    for way, change in WAYS.items():
        model = from_proto(before)
        change(model)
        after = ir.serde.serialize_model(model)
        assert [node.op_type for node in after.graph.node][-1] == "Shape" or way == "harden", way
        assert outcomes(after) == expected, way


def test_a_slice_before_opset_10_has_no_steps_to_disagree_about() -> None:
    text = """g (float[4] x) => (float[p] y) {
        a = Neg(x)  b = Slice<starts=[-1], ends=[9223372036854775807], axes=[0]>(a)
        y = Slice<starts=[0], ends=[9223372036854775807]>(b)
    }"""
    before = model_of(text, 9)
    model = from_proto(before)
    report = rewrite(model)
    assert not report.contested
    assert report.after == 1
    assert outcomes(ir.serde.serialize_model(model)) == outcomes(before)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_no_marks_stay_in_the_model(is_sorted: bool) -> None:
    nodes = f"{constants(-1, INT64_MAX, -1, 0)} a = Neg(x)  c = Slice(a, s, e, ax, t)  d, f = Split<num_outputs=2>(a)"
    before = model_of(f"g (float[4] x) => (float[p] y) {{ {nodes} y = Concat<axis=0>(c, f) }}", 18)
    for change in (rewrite, simplify, harden_for_directml, partial(harden_portably, profile=PROFILES["portable"])):
        model = from_proto(before)
        if not is_sorted:
            model.graph.append(model.graph[0])  # moves the node to the end
        with nullcontext() if is_sorted else pytest.raises(ModelError, match="not sorted"):
            change(model)
        assert [node.meta for node in model.graph if node.meta] == [], change


def test_declared_shapes_behind_contested_nodes_are_ignored() -> None:
    """Exporters write what onnx infers, which is that nothing is selected."""
    before = onnx.shape_inference.infer_shapes(model_of(in_the_graph(-1, INT64_MAX, -1, 0)), data_prop=True)
    assert any(value.name == "c" for value in before.graph.value_info)
    for change in (rewrite, harden_for_directml):
        model = from_proto(before)
        change(model)
        assert slicing(ir.serde.serialize_model(model)) == slicing(before)


def test_strided_slice_becomes_no_contested_slice() -> None:
    text = f"""g (float[4] x) => (float[p] y) {{
        {constants(-9, -20, -1, 0)} c = ov_ext.StridedSlice(x, s, e, t)  y = Neg(c)
    }}"""
    proto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17, "ov_ext" : 1]> {text}')
    model = from_proto(proto)
    assert not rewrite(model, ("strided",)).contested
    after = ir.serde.serialize_model(model)
    assert slicing(after) == 1
    assert outcomes(after)[0] == [((1,), np.float32(-1).tobytes())]
    (y,) = ReferenceEvaluator(after).run(None, {"x": np.arange(1, 5, dtype=np.float32)})
    assert isinstance(y, np.ndarray)
    assert y.tolist() == [-1]


def test_facts_in_functions_hold_at_all_calls() -> None:
    """One call reverses, the other crops: what follows from the first stays."""
    text = f"""g (float[4] x) => (float[p] y, int64[q] f, int64[r] h) {{
        {CONSTANTS} {constants(-1, INT64_MAX, -1, 0)} {constants(0, 2, 1, 0, "o")}
        c = d.cut(x, s, e, t)  o = d.cut(x, os, oe, ot)  h = Shape(o)  {AFTER}
    }}
    <domain: "d", opset_import: ["" : 17]> cut (x, s, e, t) => (c) {{
        ax = Constant<value_ints=[0]>()  c = Slice(x, s, e, ax, t)
    }}"""
    before = model_of(text)
    for change in WAYS.values():
        model = from_proto(before)
        change(model)
        assert outcomes(ir.serde.serialize_model(model)) == outcomes(before)


def test_commands_name_the_contested_node(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model_of(in_the_graph(-1, INT64_MAX, -1, 0)), path)
    said = invoke("harden", path, "-o", tmp_path / "h.onnx", code=1).out
    assert f"1 Slice 'c': {BACKWARD_TO_THE_GREATEST.reason}: left as it is" in said
    printed = invoke("rewrite", path, "-o", tmp_path / "r.onnx", "--format", "json")
    assert json.loads(printed.out)["contested"][0]["reason"] == BACKWARD_TO_THE_GREATEST.reason
