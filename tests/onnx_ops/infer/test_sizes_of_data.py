"""Declared numbers are not believed for sizes that depend on data, because they may be those of one example."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from onnx_models import parse
from sessions import compute, run_unoptimized

import sliceport
from onnx_ops.infer import propagate as module
from onnx_ops.infer.declared import Trust
from onnx_ops.infer.propagate import propagate
from sliceport.slicing.node import Resolved

CONSTANTS = """int64 zero = {0}, int64 one = {1}, int64 four = {4}, bool yes = {1}, int64[1] zeros = {0},
    int64[1] ones = {1}, int64[1] fours = {4}, int64[1] eights = {8}, int64[1] back = {-2}, int64[1] last = {-1},
    int64[1] far = {99}, int64[2] classes = {5,7}, int64[3] scores = {1,1,8},
    float[1] half = {0.5}, float[1] more = {7},
    float[1,8,4] boxes = {0,0,1,1, 2,2,3,3, 4,4,5,5, 6,6,7,7, 8,8,9,9, 2,0,3,1, 4,0,5,1, 6,0,7,1}"""
CASES = dict(
    line.split(": ", 1)
    for line in """\
NonZero: int64[1,4] r = NonZero(x)
GatherND: float[4] q = NonZero(x)  t = Transpose(q)  r = GatherND(x, t)
Unique: float[5] r = Unique(x)
Compress: float[4] c = Cast <to = 9> (x)  q = Compress <axis = 0> (x, c)  r = Neg(q)
NonMaxSuppression: int64[4,3] s = Reshape(x, scores)  r = NonMaxSuppression(boxes, s, far, half, half)
StringSplit: string[1,4] r, q = StringSplit <delimiter = " "> (text)
Loop: float[4,8] q, r = Loop(n, yes, x) <BODY, float[?] s) { l = Identity(k)  o = Neg(a)  s = Abs(a) }>
growing Loop: float[5] r = Loop(n, yes, more) <BODY) { l = Identity(k)  o = Concat <axis = 0> (a, more) }>
late Loop: float[1] m = Sub(n, four) r = Loop(m, yes, more) <BODY) { l = Identity(k)  o = Concat <axis = 0> (a, more) }>
Scan: float[4] q = Slice(x, zeros, w)  r = Scan <num_scan_inputs = 1, body = b (float v) => (float o) { o = Abs(v) }>(q)
If: float[4] c = Equal(n, four)  r = If(c) <then_branch = t () => (float[?] p) { p = Slice(x, zeros, fours) }, ELSE>
Range: int64[4] r = Range(zero, n, one)
Slice: float[4] r = Slice(x, zeros, w)
Split: float[4] d = Sub(eights, w)  e = Concat <axis = 0> (w, d)  r, q = Split(x, e)
Resize: float[4] r = Resize <mode = "nearest"> (x, , , w)
TopK: float[4] r, q = TopK(x, w)
Reshape: float[4,2] e = Concat <axis = 0> (w, last)  r = Reshape(x, e)
Expand: float[4] r = Expand(more, w)
ConstantOfShape: float[4] r = ConstantOfShape(w)
Tile: float[4] r = Tile(more, w)
Pad: float[5] e = Concat <axis = 0> (zeros, w)  r = Pad(more, e)
OneHot: int64[1,4] r = OneHot(ones, n, classes)
SequenceAt: float[4] d = Sub(eights, w)  e = Concat <axis = 0> (w, d)  s = SplitToSequence(x, e) r = SequenceAt(s, zero)
ConcatFromSequence: float[4] q = Slice(x, zeros, w)  s = SequenceConstruct(q)  r = ConcatFromSequence <axis = 0> (s)
""".splitlines()
)
"""The type of `r` in a model of x[8] with four elements other than 0, and nodes that compute `r`. They may use `n`, the
number of these elements, and `w`, a list of it. The size that depends on it is the first one other than 1."""
TEXTS = {
    "BODY": "body = b (int64 i, bool k, float[?] a) => (bool l, float[?] o",
    "ELSE": "else_branch = e () => (float[?] q) { q = Neg(x) }",
    "MAP": "body = b (float[n,4] i) => (float[n,4] o) { o = Neg(i) }",
    "SEQUENCES": """then_branch = t () => (seq(float[1,4]) p) { p = SequenceConstruct(row) },
        else_branch = e () => (seq(float[n,4]) q) { q = SequenceConstruct(x) }""",
}
READERS = {
    "all": "y = Slice(r, zeros, size, axis)",
    "end": "y = Slice(r, back, far, axis)",
    "end of a part": "p = Slice(r, zeros, last, axis)  y = Slice(p, back, far, axis)",
    "half": "y, p = Split <axis = {axis}, num_outputs = 2> (r)",
    "Shape": "p = Shape(r)  y = Slice(p, axis, after)",
    "all, by attributes": "y = Slice <starts = [0], ends = [{size}], axes = [{axis}]> (r)",
}
FIRST_OPSETS = {"Pad": 11, "Resize": 13, "Scan": 11, "Slice": 10, "Split": 13, "TopK": 10}
"""The first operator sets in which these nodes are valid, because sizes are an input, not an attribute."""
VERSIONS = {
    (schema.name, max(schema.since_version, 9))
    for schema in onnx.defs.get_all_schemas_with_history()
    if schema.name in CASES and schema.since_version in range(FIRST_OPSETS.get(schema.name, 5), 20)
}


def expand(nodes: str) -> str:
    for name, text in TEXTS.items():
        nodes = nodes.replace(name, text)
    return nodes


def build(case: str, reader: str, opset: int = 20, *, is_stale: bool) -> onnx.ModelProto:
    """Return a model that reads as much of `r` as there is if the number is 4; `r` is declared if `is_stale`."""
    declared, nodes = CASES[case].split(" ", 1)
    element, sizes = declared.rstrip("]").split("[")
    axis = int(sizes.startswith("1,"))
    size = sizes.split(",")[axis]
    proto = parse(
        f"""(float[8] x, string[1] text) => ({"int64" if reader == "Shape" else element} y)
        <{f"{declared} r, " * is_stale} {CONSTANTS}, int64[1] size = {{{size}}},
        int64[1] axis = {{{axis}}}, int64[1] after = {{{axis + 1}}}>
        {{ z = NonZero(x)  shape = Shape(z)  w = Gather(shape, ones)  n = Squeeze(w)
           {expand(nodes)}  {READERS[reader].format(axis=axis, size=size)} }}""",
        opset,
        9,
    )
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


@pytest.mark.parametrize(
    ("case", "reader", "opset"),
    [(case, reader, 20) for case, reader in product(CASES, list(READERS)[:-1])]
    + [(case, list(READERS)[-1] if opset == 9 else "all", opset) for case, opset in sorted(VERSIONS)],
)
def test_size_that_depends_on_data_is_not_believed(case: str, reader: str, opset: int) -> None:
    stale, right = (build(case, reader, opset, is_stale=is_stale) for is_stale in (True, False))
    if reader.startswith("all"):
        dims = propagate(stale.SerializeToString(), uses_onnx=False)[-1].dims
        assert dims is None or None in dims
    models = [sliceport.rewrite(stale, simplify=simplify).model for simplify in (False, True)]
    models += [sliceport.harden(stale, target=target).model for target in ("onnxruntime-dml", "portable")]
    assert not sliceport.check(stale).findings
    slicing = next(node for node in sliceport.lower(stale).nodes if node.node.outputs[0] == "y").node
    for count in (4, 8, 2, 1):
        x = np.arange(1, 9, dtype=np.float32)
        arrays = np.where(x <= count, x, 0), np.array([" ".join("abcdefgh"[:count])], object)
        expected = run_unoptimized(right, *arrays)
        if expected is None:
            assert reader == "half"  # the second half would be empty
            continue
        for model in models:
            computed = run_unoptimized(model, *arrays)
            assert computed is not None
            assert computed[0].shape == expected[0].shape
            assert np.array_equal(computed[0], expected[0])
        assert not isinstance(slicing, Resolved) or slicing.cuts[0].region.output_shape == expected[0].shape


SOMETIMES = dict(
    line.split(": ", 1)
    for line in """\
small Slice: 2 at 1,2,3 if q = Slice(x, zeros, twos, zeros)  r = Abs(q)
no size of a trial: 4 at 1,3 if p = Add(x, rows)  r = Concat <axis = 0> (p, x)
Slice with steps: 1 at 7,8,9,16 if q = Slice(x, zeros, far, zeros, eights)  r = Abs(q)
Slice of equal sizes: 1 at 24,48 if p = Add(x, v)  q = Slice(p, zeros, far, zeros, s24)  r = Abs(q)
parity: 2 at 1,2 if h = Mod(n, twos)  p = Add(h, ones)  q = Slice(rows, zeros, p)  r = Mul(q, row)
blocks: 512 at 1,512,600 if m = Neg(n) h = Mod(m, s512) p = Concat <axis = 0> (pair, h, zeros) q = Pad(x, p) r = Abs(q)
custom operator: 1 at 1,3 if r = com.microsoft.Gelu(x)
function: 1 at 1,3 if r = f.Twice(x)
operator of ai.onnx.ml: 1 at 1,3 if r = ai.onnx.ml.Normalizer <norm = "MAX"> (x)
SequenceMap: 1 at 1,3 if q = SequenceConstruct(x)  s = SequenceMap(q) <MAP>  r = SequenceAt(s, zero)
If of sequences: 1 at 1,3 if h = ReduceMax(x)  c = Less(h, five)  s = If(c) <SEQUENCES>  r = SequenceAt(s, zero)
""".splitlines()
)
"""The declared size of `r` on axis 0, sizes of x that give `r` this size or another one, and nodes that compute `r`."""


@pytest.mark.parametrize("case", SOMETIMES)
def test_number_that_holds_at_some_sizes_is_not_believed(case: str) -> None:
    declared, _, sizes, _, nodes = SOMETIMES[case].split(" ", 4)
    proto = parse(
        f"""(float[n,4] x, float[m,4] v) => (float[a,4] y, float[b,4] z) <float[{declared},4] r, {CONSTANTS},
            float[1,4] row = {{1,2,3,4}}, float[3,1] rows = {{1,2,3}}, int64[2] pair = {{0,0}}, float[1,1] five = {{5}},
            int64[1] s512 = {{512}}, int64[1] twos = {{2}}, int64[1] s24 = {{24}}, int64[1] size = {{{declared}}},
            int64[1] start = {{-{declared}}}, int64[1] end = {{{1 - int(declared) or 99}}}>
        {{ n = Shape <end = 1> (x)  {expand(nodes)}
           y = Slice(r, zeros, size, zeros)  z = Slice(r, start, end, zeros) }}""",
        **{"com.microsoft": 1, "ai.onnx.ml": 3, "f": 1},
    )
    twice = '<opset_import: ["com.microsoft": 1], domain: "f"> Twice (a) => (o) { o = com.microsoft.Gelu(a) }'
    proto.functions.append(onnx.parser.parse_function(twice))
    proto.graph.value_info.append(onnx.helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, [1, 4]))
    assert not sliceport.check(proto).findings
    models = [sliceport.rewrite(proto).model, sliceport.harden(proto, target="portable").model]
    for size in map(int, sizes.split(",")):
        x = np.arange(1, 4 * size + 1, dtype=np.float32).reshape(size, 4)
        expected = run_unoptimized(proto, x, x)
        assert expected is not None
        for model in models:
            computed = run_unoptimized(model, x, x)
            assert computed is not None
            assert all(map(np.array_equal, computed, expected))


def test_numbers_of_other_operators_are_believed_without_inference() -> None:
    proto = parse(
        """(float[8] x, float[n,8] z) => (float y) <float[8] r, float[n,8] q, float[1,8] p>
        { r = Abs(x)  q = Abs(z)  p = Neg(z)  y = Sum(p, q, r) }"""
    )
    facts = propagate(proto.SerializeToString(), uses_onnx=False)
    assert [each.dims for each in facts[2:5]] == [(8,), ("n", 8), (None, None)]


@pytest.mark.parametrize(
    "loop",
    [
        """y = Loop(one, yes, p) <body = b (int64 i, bool k, float[4] a) => (bool l, float[?] o)
            { l = Identity(k)  o = Slice(a, zeros, fours) }>""",
        """q, j, y = Loop(four, yes, more, ones) <body = b (int64 i, bool k, float[1] a, int64[1] m)
            => (bool l, float[?] o, int64[1] d, float[?] s)
            { l = Identity(k)  d = Add(m, ones)  o = Tile(more, d)  s = Slice(a, zeros, ones) }>""",
    ],
)
def test_number_of_an_input_of_a_body_is_not_believed(loop: str) -> None:
    proto = parse(f"(float[8] x) => (float y) <{CONSTANTS}> {{ c = Cast <to = 9> (x)  p = Compress(x, c)  {loop} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    assert [each.verdict for each in sliceport.lower(proto).nodes] == ["refused"]
    x = np.arange(1, 9, dtype=np.float32)
    (expected,) = compute(proto, x=x)
    for model in (sliceport.rewrite(proto).model, sliceport.harden(proto, target="portable").model):
        assert np.array_equal(compute(model, x=x)[0], expected)


def test_refused_node_names_the_shape_to_give() -> None:
    stale = build("NonZero", "all", is_stale=True)
    (refused,) = sliceport.lower(stale).nodes
    assert refused.reason is not None
    assert refused.reason.message == (
        "Slice 'y': dimension 1 of its input 'r' (made by NonZero 'r') is not known; if it is the same for all inputs, "
        "give it, as in input_shapes={'r': (1, 16)} (an example)."
    )
    assert [each.verdict for each in sliceport.lower(stale, input_shapes={"r": (1, 4)}).nodes] == ["alias"]


@pytest.mark.parametrize(
    ("batch", "begin", "dims"), [("n", "zeros", (None, None)), ("8", "b", (None, None)), ("8", "zeros", (4, 4))]
)
def test_number_of_a_strided_slice_is_judged_like_that_of_a_slice(batch: str, begin: str, dims: object) -> None:
    proto = parse(
        f"""(float[{batch},4] x, int64[1] b) => (float[?,?] y) <float[2,4] r, {CONSTANTS}, int64[1] twos = {{2}}>
        {{ r = ov_ext.StridedSlice(x, {begin}, far, twos)  y = Neg(r) }}""",
        ov_ext=1,
    )
    assert propagate(proto.SerializeToString())[2].dims == dims


def test_visits_of_nested_loops_are_limited() -> None:
    loop = ""
    for d in range(7):
        inputs, outputs = (", ".join(f"float[?] {name}{d}" for name in names) for names in ("abef", "opqr"))
        body = f"b (int64 i{d}, bool c{d}, {inputs}) => (bool k{d}, {outputs})"
        copies = f"o{d} = Neg(b{d})  p{d} = Neg(e{d})  q{d} = Neg(f{d})  r{d} = Neg(f{d})"
        nodes = f"k{d} = Identity(c{d})  {loop}  {copies}"
        loop = f'u{d}, v{d}, w{d}, z{d} = Loop(n, "", x, x, x, y) <body = {body} {{ {nodes} }}>'
    proto = parse(f"(float[2] x, float[3] y) => (float[?] u6) {{ n = Constant<value_int = 3>() {loop} }}", 17)
    propagation = module._Propagation(proto, {}, None, uses_onnx=True, trust=Trust.ALL)
    propagation._max_visited = 100
    with patch.object(propagation, "_visit_node", wraps=propagation._visit_node) as visit:
        propagation.run()
    assert visit.call_count < 2000
    assert propagation.reported[3].dims == (None,)
