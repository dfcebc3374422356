"""Numbers that an export with a batch of 1 declared for values whose sizes follow from open ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx_models import parse
from sessions import compute

import sliceport

RULE = "a-declared-size-that-the-inputs-leave-open"
CONSTANTS = """int64 zero = {0}, int64 one = {1}, int64 two = {2}, bool yes = {1}, int64[1] zeros = {0},
    int64[1] ones = {1}, int64[1] flat = {-1}, int64[1] least = {-9}, int64[2] pairs = {-1,2}, int64[2] twice = {2,1},
    int64[4] pads = {1,0,1,0}, int64[2] single = {1,4}, float[2] factors = {2,1}, float[1,4] row = {1,2,3,4}"""
BODY = "body = b (int64 i, bool k, float[?,4] a) => (bool l, float[?,4] o)"
CASES = {
    # The node, the shape of its output `r` with a batch of 1, and the axis whose size depends on the batch.
    "Flatten": ("r = Flatten <axis = 0> (x)", "1,4", 1),
    "Reshape": ("r = Reshape(x, flat)", "4", 0),
    "Reshape to pairs": ("r = Reshape(x, pairs)", "2,2", 0),
    "Pad": ("r = Pad(x, pads)", "3,4", 0),
    "Tile": ("r = Tile(x, twice)", "2,4", 0),
    "Concat": ("r = Concat <axis = 0> (x, z)", "2,4", 0),
    "Resize": ("r = Resize(x, , factors)", "2,4", 0),
    "Expand": ("s = Shape(x) r = Expand(row, s)", "1,4", 0),
    "ConstantOfShape": ("s = Shape(x) r = ConstantOfShape(s)", "1,4", 0),
    "Range": ("s = Size(x) v = Range(zero, s, one) r = Cast <to = 1> (v)", "4", 0),
    "Slice": ("t = Tile(x, twice) r = Slice(t, least, flat, zeros)", "1,4", 0),
    "Split": ("t = Tile(x, twice) r, q = Split(t)", "1,4", 0),
    "Transpose": ("f = Flatten <axis = 0> (x) r = Transpose(f)", "4,1", 0),
    "Einsum": ('r = Einsum <equation = "ij->ji"> (x)', "4,1", 1),
    "CumSum": ("f = Reshape(x, flat) r = CumSum(f, zero)", "4", 0),
    "OneHot": ("s = Cast <to = 7> (x) v = OneHot(s, two, pairs) r = Cast <to = 1> (v)", "1,4,2", 0),
    "If": (
        """r = If(c) <then_branch = t () => (float[a,4] p) { p = Neg(x) },
            else_branch = e () => (float[b,4] q) { q = Neg(z) }>""",
        "1,4",
        0,
    ),
    "If with one branch of fixed size": (
        """r = If(c) <then_branch = t () => (float[1,4] p) { p = Neg(row) },
            else_branch = e () => (float[b,4] q) { q = Neg(x) }>""",
        "1,4",
        0,
    ),
    "Loop": (f"r = Loop(two, yes, x) <{BODY} {{ l = Identity(k)  o = Neg(a) }}>", "1,4", 0),
    "scan output of a Loop": (
        f"q, r = Loop(two, yes, x) <{BODY[:-1]}, float[?,4] s) {{ l = Identity(k)  o = Neg(a)  s = Abs(a) }}>",
        "2,1,4",
        1,
    ),
    "Scan": (
        """r = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b (float[?] a) => (float[?] o) { o = Neg(a) }>
            (x)""",
        "4,1",
        1,
    ),
    "Scan over the batch": (
        "r = Scan <num_scan_inputs = 1, body = b (float[4] a) => (float[4] o) { o = Neg(a) }> (x)",
        "1,4",
        0,
    ),
}


def build(case: str, batch: str, *, is_stale: bool) -> onnx.ModelProto:
    """Return a model that takes as much of `r` as there is with a batch of 1; `r` is declared if `is_stale`."""
    node, declared, axis = CASES[case]
    proto = parse(
        f"""(float[{batch},4] x, float[{"m" if batch == "n" else batch},4] z, bool c) => (float y)
        <{f"float[{declared}] r, " * is_stale} int64[1] start = {{0}}, int64[1] end = {{{declared.split(",")[axis]}}},
        int64[1] axis = {{{axis}}}, {CONSTANTS}> {{ {node}  y = Slice(r, start, end, axis) }}""",
        17,
    )
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def rules(model: onnx.ModelProto) -> list[str]:
    return [finding.defect.rule for finding in sliceport.check(model).findings]


@pytest.mark.parametrize(("case", "batch"), list(product(CASES, ("n", "?"))))
def test_size_that_follows_from_open_sizes_is_not_believed(case: str, batch: str) -> None:
    stale, right = (build(case, batch, is_stale=is_stale) for is_stale in (True, False))
    assert RULE in rules(stale)
    assert RULE not in rules(right)
    hardened, rewritten = sliceport.harden(stale).model, sliceport.rewrite(stale).model
    assert RULE not in rules(hardened)
    for size, other in ((1, 1), (2, 3), (3, 2)):
        feeds = {
            "x": np.arange(1, 4 * size + 1, dtype=np.float32).reshape(size, 4),
            "z": np.arange(1, 4 * other + 1, dtype=np.float32).reshape(other, 4),
            "c": np.array(size == 2),
        }
        (expected,) = compute(right, **feeds)
        for model in (hardened, rewritten):
            (computed,) = compute(model, **feeds)
            assert computed.shape == expected.shape
            assert computed.tobytes() == expected.tobytes()
        lowered = sliceport.lower(stale, input_shapes={name: array.shape for name, array in feeds.items()})
        (last,) = (each for each in lowered.nodes if each.node.outputs == ("y",))
        assert last.verdict == "refused" or last.node.cuts[0].region.output_shape == expected.shape


@pytest.mark.parametrize(
    "nodes",
    [
        """s = Shape <end = 1> (x)  c = Equal(s, ones)
        r = If(c) <then_branch = t () => (float[1,4] p) { p = Neg(x) },
                   else_branch = e () => (float[1,4] q) { q = Slice(x, zeros, ones, zeros) }>""",
        f"r = Loop(two, yes, x) <{BODY} {{ l = Identity(k)  o = Slice(a, zeros, ones, zeros) }}>",
        "r = Slice(x, zeros, ones, zeros)",
        # torch's dynamo exporter leaves a symbol in the inputs for a batch that it fixes to 1 elsewhere.
        "s = Shape(x)  w = Expand(row, s)  u = Reshape(w, single)  v = Neg(x)  r = Mul(v, u)",
    ],
)
def test_declared_number_that_is_always_right_is_no_finding(nodes: str) -> None:
    proto = parse(f"(float[n,4] x) => (float[1,4] y) <float[1,4] r, {CONSTANTS}> {{ {nodes}  y = Neg(r) }}", 17)
    assert RULE not in rules(proto)


def test_body_of_a_scan_with_a_batch_is_looked_at() -> None:
    proto = parse(
        """(float[b,5] u, float[b,n,k] x) => (float[p,q] w, float[c,d,e] y)
        { w, y = Scan <num_scan_inputs = 1, body = b (float[5] a, float[1] v) => (float[5] o, float[1] s)
            { o = Neg(a)  s = Slice <starts = [0], ends = [1], axes = [0]> (v) }> (, u, x) }""",
        8,
    )
    assert RULE in rules(proto)
    rewritten = sliceport.rewrite(proto).model
    x = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    u = np.ones((2, 5), np.float32)
    assert all(map(np.array_equal, compute(rewritten, u=u, x=x), compute(proto, u=u, x=x)))
    assert compute(rewritten, u=u, x=x)[1].shape == (2, 3, 1)
