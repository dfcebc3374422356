"""Rewriting slicing into less of it: bit-equal on onnxruntime's CPU provider, for open sizes too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from amounts import some
from command_line import Invoke
from onnx import TensorProto, helper
from onnx_models import integers, parse
from sessions import compute

from onnx_ops import strided_slice_op
from onnx_ops.model.io import from_proto
from onnx_ops.passes import BY_DEFAULT, PASSES, FoldSlicesPass, rewrite
from onnx_ops.passes.directml.harden import harden_for_directml
from onnx_ops.passes.siblings import Siblings, find_siblings
from onnx_ops.passes.value_info import ValueInfo
from sliceport.cli.main import main

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
MODELS = Path(__file__).parents[4] / "models"


def slices(*chain: Sequence[list[int] | None], shape: Sequence[int | str]) -> onnx.ModelProto:
    """Build a chain of Slices by (starts, ends, axes, steps), where only the steps may be None."""
    nodes, constants, value = [], dict[str, list[int]](), "x"
    for i, parameters in enumerate(chain):
        out = "y" if i == len(chain) - 1 else f"v{i}"
        lists = {f"{name}{i}": listed for name, listed in zip("beat", parameters, strict=True) if listed is not None}
        nodes.append(f"[s{i}] {out} = Slice({', '.join([value, *lists])})")
        constants, value = constants | lists, out
    head = f"(float[{', '.join(map(str, shape))}] x) => (y) <{integers(**constants)}>"
    # data_prop ends onnx before 1.21 at backward slices of nothing
    return onnx.shape_inference.infer_shapes(parse(f"{head} {{ {'  '.join(nodes)} }}", 13))


def rewritten(proto: onnx.ModelProto) -> onnx.ModelProto:
    model = from_proto(proto)
    rewrite(model)
    after = ir.serde.serialize_model(model)
    onnx.checker.check_model(after, full_check=True)
    again = rewrite(model)
    assert not any(again.changes.values())
    assert ir.serde.serialize_model(model) == after
    return after


def count(proto: onnx.ModelProto) -> int:
    return sum(node.op_type == "Slice" for node in proto.graph.node)


def same(before: onnx.ModelProto, after: onnx.ModelProto, *arrays: np.ndarray) -> None:
    for x in arrays:
        expected, got = compute(before, x=x), compute(after, x=x)
        assert [(a.shape, a.tobytes()) for a in got] == [(a.shape, a.tobytes()) for a in expected]


def data(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("path", some(sorted(MODELS.glob("*.onnx"))), ids=lambda path: path.stem)
def test_rewritten_exports_are_verified(tmp_path: Path, path: Path) -> None:
    shapes = {e["file"]: e["input_shapes"] for e in json.loads((MODELS / "models.json").read_text())}
    given = shapes.get(path.name) or ({"x": [2, 5, 8]} if path.name == "rule_symbolic.onnx" else {})
    command = ["rewrite", str(path), "-o", str(tmp_path / "o.onnx")]
    if path.name != "rule_strings.onnx":  # no strings by run_with_inputs
        command.append("--verify")
    if given:
        command += ["--input-shapes", *(f"{name}:{','.join(map(str, shape))}" for name, shape in given.items())]
    assert main(command) == 0


def test_command_prints_the_changes_and_the_counts(tmp_path: Path, invoke: Invoke) -> None:
    onnx.save(slices(([1], [4], [0], [1]), ([1], [2], [0], [1]), shape=[5]), tmp_path / "m.onnx")
    out = tmp_path / "o.onnx"
    printed = invoke("rewrite", tmp_path / "m.onnx", "-o", out, "--verify")
    assert printed.out.splitlines() == [
        "1 Slice 's1': now another Slice (compose)",
        "slicing nodes: 2 before, 1 after",
        "all outputs are bit-equal on onnxruntime's CPU provider",
    ]
    invoke("rewrite", tmp_path / "m.onnx", "-o", out, code=2)
    printed = invoke("rewrite", tmp_path / "m.onnx", "-o", out, "--overwrite", "--passes", "merge,x", code=2)
    assert "pass 'x' is not known; known are strided, fold, " in printed.err


@pytest.mark.parametrize("change", [rewrite, harden_for_directml])
def test_an_empty_slice_too_long_for_numpy_stays(change: Callable[[ir.Model], Any]) -> None:
    """Of sizes whose product without the 0 exceeds 63 bits, NumPy makes no array."""
    model = from_proto(slices(([3], [3], [0], [1]), shape=[8, 2**62, 4]))
    change(model)
    assert [node.op_type for node in model.graph] == ["Slice"]
    with np.testing.assert_raises(ValueError):
        np.zeros((0, 2**62, 4), np.float32)


def test_passes_search_for_siblings_once_until_one_changes_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five passes ask for them in each round; after a change, the last round is run with what is inferred anew."""
    searches = []

    def search(cutting: Iterable[tuple[ir.Node, int]], value_info: ValueInfo) -> Siblings:
        nodes = list(cutting)
        searches.append([node.op_type for node, _ in nodes])
        return find_siblings(nodes, value_info)

    monkeypatch.setattr("onnx_ops.passes.analysis.find_siblings", search)
    assert not any(rewrite(from_proto(slices(([1], [4], [0], [1]), shape=["n"]))).changes.values())
    assert len(searches) == 1
    searches.clear()
    report = rewrite(from_proto(slices(([1], [4], [0], [1]), ([1], [2], [0], [1]), shape=["n"])))
    assert [name for name, changes in report.changes.items() if changes] == ["compose"]
    # Before and after the change, and with facts inferred anew.
    assert [search.count("Slice") for search in searches] == [2, 1, 1]


def test_all_but_two_passes_run_by_default() -> None:
    assert set(PASSES) - set(BY_DEFAULT) == {"scalar", "up"}


@pytest.mark.parametrize("ends", [(2, 5), (5, 2)])
@pytest.mark.parametrize("taken", [0, 1])
def test_one_name_in_two_branches_is_two_values(ends: tuple[int, int], taken: int) -> None:
    """`v` has two elements in one branch and five in the other, so that a Slice that keeps the two cuts the five."""
    branches = [
        f"""b{end}() => (float[k] o) {{
            end = Constant<value_ints = [{end}]>()  v = Slice(x, zero, end)  n = Neg(v)
            w = Slice(n, zero, three)  o = Neg(w) }}"""
        for end in ends
    ]
    before = text_model(
        f"""g (float[8] x) => (float[k] y) <bool c = {{{taken}}}, int64[1] zero = {{0}}, int64[1] three = {{3}}>
        {{ y = If(c)<then_branch = {branches[0]}, else_branch = {branches[1]}> }}"""
    )
    model = from_proto(before)
    report = rewrite(model)
    assert (report.before, report.after) == (4, 3)
    same(before, ir.serde.serialize_model(model), data(8))


CUT = """<domain: "local", opset_import: ["" : 13]> cut (x) => (out) {
    zero = Constant<value_ints = [0]>()  four = Constant<value_ints = [4]>()
    s = Slice(x, zero, four)  out = Neg(s) }"""


@pytest.mark.parametrize(("sizes", "slices_left"), [((4, 4), 0), ((4, 3), 1), ((4, 6), 1)])
def test_functions_know_the_sizes_of_all_their_calls(sizes: tuple[int, int], slices_left: int) -> None:
    """`cut` keeps the first four elements: all of them if every call gives four. Another function makes one call."""
    before = text_model(
        f"""g (float[{sizes[0]}] x) => (float[n] y) <int64[1] start = {{1}}, int64[1] end = {{{1 + sizes[1]}}}> {{
            a = local.outer(x)  xx = Concat<axis = 0>(x, x)  part = Slice(xx, start, end)
            b = local.cut(part)  y = Concat<axis = 0>(a, b) }} {CUT}
        <domain: "local", opset_import: ["" : 13, "local" : 1]> outer (x) => (out) {{ out = local.cut(x) }}""",
        13,
    )
    model = from_proto(before)
    rewrite(model)
    after = ir.serde.serialize_model(model)
    (cut,) = [function for function in after.functions if function.name == "cut"]
    assert sum(node.op_type == "Slice" for node in cut.node) == slices_left
    same(before, after, data(sizes[0]))


def test_functions_that_call_each_other_are_left() -> None:
    before = text_model(
        """g (float[4] x) => (float[4] y) { y = local.again(x) }
        <domain: "local", opset_import: ["" : 13, "local" : 1]> again (x) => (out) {
            zero = Constant<value_ints = [0]>()  s = Slice(x, zero, zero)  out = local.again(s) }""",
        13,
    )
    model = ir.serde.deserialize_model(before)  # a file with such functions is refused
    assert not any(rewrite(model).changes.values())


@pytest.mark.parametrize(("ir_version", "left"), [(3, 0), (8, 2)])
def test_initializers_that_may_be_replaced_are_no_constants(ir_version: int, left: int) -> None:
    before = slices(([0], [9], [0], None), ([0], [4], [0], None), shape=[4])
    before.ir_version = ir_version
    for tensor in before.graph.initializer:
        before.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.INT64, [1]))
    model = from_proto(before)
    report = rewrite(model)
    assert report.after == left
    after = ir.serde.serialize_model(model)
    if left:
        assert sorted(t.name for t in after.graph.initializer) == sorted(t.name for t in before.graph.initializer)
        replaced = {"x": data(4), before.graph.initializer[1].name: np.array([2])}
        assert [compute(p, **replaced)[0].tolist() for p in (before, after)] == [[0.0, 1.0]] * 2
    same(before, after, data(4))


def test_what_a_pass_made_for_nothing_does_not_count_as_a_reader() -> None:
    """The chain's shortest form is what stands there; the Split's second part is not read in the end."""
    model = from_proto(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 9]>
        g (float[3, 2, 6, 6] x) => (float[a, b, c, d] v5) {
            v5, v6 = Split<axis = 2, split = [5, 1]>(x)
            v10 = Slice<axes = [1], ends = [2], starts = [1]>(v6)
            v12 = Slice<axes = [1], ends = [1], starts = [0]>(v6)
            v14 = Squeeze<axes = [1]>(v12)
        }""")
    )
    rewrite(model)
    after = ir.serde.serialize_model(model)
    again = from_proto(after)
    assert not any(rewrite(again).changes.values())
    assert ir.serde.serialize_model(again) == after


@pytest.mark.parametrize("harden", [False, True])
def test_a_split_or_shape_that_nothing_reads(harden: bool) -> None:
    model = from_proto(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[4, 6] x) => (float[n, m] y) {
            s = Constant<value_ints = [1]>()  e = Constant<value_ints = [3]>()  z = Constant<value_ints = [0]>()
            none = Constant<value_ints = [0, 4]>()
            a, b = Split(x, none)
            y = Slice(x, s, e, z)
            d = Shape(y)
        }""")
    )
    harden_for_directml(model) if harden else rewrite(model)
    same_shape = compute(ir.serde.serialize_model(model), x=data(4, 6))[0].shape
    assert same_shape == (2, 6)


EMPTY = [([2, 0], [0, 0], [1, 0]), ([0, 3], [0, 1], [0, 2]), ([2, 3], [1, 1], [1, 3]), ([2, 3], [0, 2], [2, 2])]
MASKS = [
    {"new_axis_mask": [1]},
    {"new_axis_mask": [0, 1]},
    {"shrink_axis_mask": [1]},
    {"shrink_axis_mask": [0, 1]},
    {"new_axis_mask": [1], "shrink_axis_mask": [0, 1]},
    {"new_axis_mask": [0, 1], "shrink_axis_mask": [1]},
    {"new_axis_mask": [1], "ellipsis_mask": [0, 1]},
    {"end_mask": [1], "new_axis_mask": [0, 1]},
]


@pytest.mark.parametrize("names", [None, tuple(PASSES), ("strided",)], ids=["default", "all", "alone"])
@pytest.mark.parametrize("masks", MASKS, ids=str)
@pytest.mark.parametrize(("shape", "begin", "end"), EMPTY, ids=str)
def test_a_strided_slice_of_nothing_with_other_axes(
    shape: list[int], begin: list[int], end: list[int], masks: dict[str, Any], names: tuple[str, ...] | None
) -> None:
    """Its shape is not that of the data: what comes between its Slice and the new or dropped axes is not either."""
    attributes = ", ".join(f"{name} = {mask}" for name, mask in masks.items())
    nodes = f"[cut] v = ov_ext.StridedSlice<{attributes}>(x, b, e)  s = Shape(v)  y = Neg(v)"
    plain = parse(f"(float{shape} x) => (y, s) <{integers(b=begin, e=end)}> {{ {nodes} }}", 17, 9, ov_ext=1)
    runnable = from_proto(plain)
    strided_slice_op.embed_function(runnable)
    try:
        expected = compute(ir.serde.serialize_model(runnable), x=data(*shape))
    except Exception:
        expected = None  # an index is beyond the axis
    model = from_proto(plain)
    rewrite(model) if names is None else rewrite(model, names)
    after = ir.serde.serialize_model(model)
    if expected is None:
        assert any(node.op_type == "StridedSlice" for node in after.graph.node)
        return
    assert not any(node.op_type == "StridedSlice" for node in after.graph.node)
    got = compute(after, x=data(*shape))
    assert [(a.shape, a.tolist()) for a in got] == [(a.shape, a.tolist()) for a in expected]


def text_model(text: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "local" : 1]> {text}')


def test_floats_that_are_computed_are_not_folded() -> None:
    """Engines round them differently; what is only moved is folded."""
    text = """g (float[2] x) => (float[2] y, float[2] m) {
        z = Constant<value_ints = [0]>()  t = Constant<value_ints = [2]>()
        a = Constant<value_floats = [1.0, 2.0, 5.0]>()  b = Constant<value_floats = [3.0, 7.0, 9.0]>()
        d = Div(a, b)  p = Slice(d, z, t)  y = Add(x, p)
        r = Identity(a)  q = Slice(r, z, t)  m = Add(x, q)
    }"""
    model = from_proto(text_model(text))
    rewrite(model)
    kinds = [node.op_type for node in model.graph]
    assert kinds.count("Slice") == 1
    assert kinds.count("Div") == 1
    same(text_model(text), ir.serde.serialize_model(model), data(2))


@pytest.mark.parametrize(("start", "kept"), [(0, 3), (1, 2), (-1, 4)])
def test_the_start_of_a_shape_counts_where_it_is_folded(start: int, kept: int) -> None:
    text = f"""g (float[3, 2, 4] x) => (float[a, b, c] y, int64[k] s) {{
        z = Constant<value_ints = [0]>()  o = Constant<value_ints = [1]>()  t = Constant<value_ints = [2]>()
        l = Shape<start = {start}>(x)  e = Slice(l, z, o, z)  y = Slice(x, z, e, t)  p = Slice(x, z, o, o)
        s = Shape<start = {start}>(p)
    }}"""
    before = text_model(text)
    for names in (None, ("fold",)):
        model = from_proto(before)
        rewrite(model) if names is None else rewrite(model, names)
        same(before, ir.serde.serialize_model(model), data(3, 2, 4))
        assert compute(ir.serde.serialize_model(model), x=data(3, 2, 4))[0].shape == (3, 2, kept)


def test_equal_splits_of_an_open_axis_become_one() -> None:
    text = """g (float[n, 2] x) => (float[a, 2] y) {
        h = Constant<value_ints = [3, 1]>()
        a, b = Split(x, h)  c, d = Split(x, h)  e = Concat<axis = 0>(a, d)  y = Concat<axis = 0>(e, c)
    }"""
    before = text_model(text)
    model = from_proto(before)
    assert rewrite(model, ("merge",)).after == 1
    same(before, ir.serde.serialize_model(model), data(4, 2))


@pytest.mark.parametrize("total", [1, -1])
def test_equal_slices_in_two_branches_stay_two(total: int) -> None:
    """A branch does not see what is in the other."""
    text = """g (float[6] x) => (float[k] y) {
        z = Constant<value_ints = [1]>()  t = Constant<value_ints = [4]>()  n = Constant<value_float = 0.0>()
        f = ReduceMax<keepdims = 0>(x)  is_true = Greater(f, n)
        y = If(is_true)<
            then_branch = p() => (float[3] u) { a = Slice(x, z, t)  u = Neg(a) },
            else_branch = q() => (float[3] v) { b = Slice(x, z, t)  v = Abs(b) }
        >
    }"""
    before = text_model(text)
    for names in (None, ("merge",), tuple(PASSES)):
        model = from_proto(before)
        rewrite(model) if names is None else rewrite(model, names)
        same(before, ir.serde.serialize_model(model), total * data(6))


def test_one_run_folds_shapes_and_what_is_computed_in_a_function() -> None:
    before = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17, "d" : 1]>
    g (float[4, 6] x) => (float[a, b] y, int64[2] f) {
        i = Constant<value_ints = [1]>()  p = Slice(x, i, i)  f = Shape(p)  y = d.f(x)
    }
    <domain: "d", opset_import: ["" : 17]> f (x) => (y) {
        k = Constant<value_ints = [0]>()  o = Constant<value_ints = [1]>()  e = Add(o, o)  y = Slice(x, k, e, o)
    }""")
    model = from_proto(before)
    FoldSlicesPass()(model)
    after = ir.serde.serialize_model(model)
    assert {node.op_type for node in after.graph.node} == {"Constant", "f"}
    assert [node.op_type for node in after.functions[0].node if node.op_type != "Constant"] == ["Slice"]
    same(before, after, data(4, 6))


def test_shortened_chain_reports_the_link_that_was_replaced() -> None:
    """The last Slice cuts the new axis, so that it does not compose with the links before it."""
    constants = "<int64[1] z = {0}, int64[1] o = {1}, int64[1] t = {3}>"
    body = "a = Slice(x, o, t)  b = Slice(a, o, t)  c = Unsqueeze(b, z)  y = Slice(c, o, t, z)"
    text = f"g (float[4,6] x) => (float[n,m,k] y) {constants} {{ {body} }}"
    model = from_proto(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> {text}'))
    (change,) = rewrite(model, ["chain"]).changes["chain"]
    assert (change.op, change.node) == ("Unsqueeze", "c")


def test_slice_of_broadcast_axes_leaves_no_slice_before_an_expand() -> None:
    constants = "int64[2] s = {5, 3}, int64[1] a = {0}, int64[1] b = {2}"
    model = from_proto(parse(f"(float[3] x) => (float[2,3] y) <{constants}> {{ e = Expand(x, s) y = Slice(e, a, b) }}"))
    (change,) = rewrite(model, ["up"]).changes["up"]
    assert change.replacement == "a smaller Expand"
    assert [node.op_type for node in model.graph] == ["Constant", "Expand"]
