"""Numbers that an export with a batch of 1 declared for values whose sizes follow from open ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx_models import parse
from sessions import compute

import sliceport
from onnx_ops.infer.propagate import propagate

RULE = "a-declared-size-that-the-inputs-leave-open"
CONSTANTS = """int64[1] flat = {-1}, int64[4] pads = {1,0,1,0}, int64[2] twice = {2,1}, int64[2] pairs = {-1,2}, bool yes = {1},
    float[2] factors = {2,1}, int64 two = {2}, int64 zero = {0}, int64 one = {1}, int64[1] ones = {1}, int64[1] zeros = {0},
    int64[4] image = {0,2,2,1}, float[1,1,2,2] w = {1,2,3,4}, int64[2] kept = {0,-1}, int64[1] six = {6}, int64[1] least = {-9},
    float[1,4] row = {1,2,3,4}"""
CASES = {  # by operator: the node, the shape of its output `r` with a batch of 1, and the axis that depends on the batch
    "Flatten": ("r = Flatten <axis = 0> (x)", "1,4", 1),
    "Reshape": ("r = Reshape(x, flat)", "4", 0),
    "Reshape to pairs": ("r = Reshape(x, pairs)", "2,2", 0),
    "Pad": ("r = Pad(x, pads)", "3,4", 0),
    "Tile": ("r = Tile(x, twice)", "2,4", 0),
    "Concat": ("r = Concat <axis = 0> (x, x)", "2,4", 0),
    "Concat of two": ("r = Concat <axis = 0> (x, z)", "2,4", 0),
    "Resize": ('r = Resize <mode = "nearest"> (x, , factors)', "2,4", 0),
    "Expand": ("s = Shape(x) r = Expand(row, s)", "1,4", 0),
    "ConstantOfShape": ("s = Shape(x) r = ConstantOfShape(s)", "1,4", 0),
    "Range": ("s = Size(x) v = Range(zero, s, one) r = Cast <to = 1> (v)", "4", 0),
    "Size": ("s = Size(x) u = Unsqueeze(s, zeros) f = Expand(one, u) r = Cast <to = 1> (f)", "4", 0),
    "SpaceToDepth": ("i = Reshape(x, image) q = Reshape(i, pixels) r = SpaceToDepth <blocksize = 1> (q)", "1,1,2,2", 0),
    "Slice from the end": ("t = Tile(x, twice) r = Slice(t, least, flat, zeros)", "1,4", 0),
    "If": ("r = If(c) <then_branch = t () => (float[a,4] p) { p = Neg(x) }, else_branch = e () => (float[b,4] q) { q = Neg(z) }>", "1,4", 0),
    "Loop": ("q, r = Loop(two, yes, x) <body = b (int64 i, bool k, float[?,4] a) => (bool l, float[?,4] o, float[?,4] s) { l = Identity(k)  o = Neg(a)  s = Abs(a) }>", "2,1,4", 1),
    "Loop that carries": ("r = Loop(two, yes, x) <body = b (int64 i, bool k, float[?,4] a) => (bool l, float[?,4] o) { l = Identity(k)  o = Neg(a) }>", "1,4", 0),
    "Scan": ("r = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b (float[?] a) => (float[?] o) { o = Neg(a) }> (x)", "4,1", 1),
    "Scan over the batch": ("r = Scan <num_scan_inputs = 1, body = b (float[4] a) => (float[4] o) { o = Neg(a) }> (x)", "1,4", 0),
    "ReduceSum": ("r = ReduceSum <keepdims = 0> (x, ones)", "1", 0),
    "Gather": ("r = Gather <axis = 1> (x, zeros)", "1,1", 0),
    "Split": ("t = Tile(x, twice) r, q = Split(t)", "1,4", 0),
    "Transpose": ("f = Flatten <axis = 0> (x) r = Transpose(f)", "4,1", 0),
    "Einsum": ('r = Einsum <equation = "ij->ji"> (x)', "4,1", 1),
    "CumSum": ("f = Reshape(x, flat) r = CumSum(f, zero)", "4", 0),
    "OneHot": ("s = Cast<to = 7>(x) v = OneHot(s, two, pairs) r = Cast <to = 1> (v)", "1,4,2", 0),
}


def build(case: str, batch: str, *, is_stale: bool) -> onnx.ModelProto:
    node, declared, axis = CASES[case]
    end = declared.split(",")[axis]
    return parse(
        f"""(float[{batch},4] x, float[{batch.replace('n', 'm')},4] z, bool c) => (float y) <{f"float[{declared}] r, " * is_stale} int64[1] start = {{0}}, int64[1] end = {{{end}}},
        int64[1] axis = {{{axis}}}, {CONSTANTS}, int64[4] pixels = {{-1,1,2,2}}> {{ {node}  y = Slice(r, start, end, axis) }}""",
        17,
    )


@pytest.mark.parametrize(("case", "batch"), list(product(CASES, ("n", "?"))))
def test_stale_size_is_not_believed(case: str, batch: str) -> None:
    stale, clean = (build(case, batch, is_stale=is_stale) for is_stale in (True, False))
    for proto in (stale, clean):
        proto.graph.output[0].type.tensor_type.ClearField("shape")
    bad = []
    if RULE not in [finding.defect.rule for finding in sliceport.check(stale).findings]:
        bad.append("check")
    if [f for f in sliceport.check(clean).findings if f.defect.rule == RULE]:
        bad.append("check of clean")
    rewritten, hardened = sliceport.rewrite(stale).model, sliceport.harden(stale).model
    if [f for f in sliceport.check(hardened).findings if f.defect.rule == RULE]:
        bad.append("hardened")
    for size, other in ((1, 1), (2, 3), (3, 2), (5, 5)):
        feeds = {
            "x": np.arange(1, 4 * size + 1, dtype=np.float32).reshape(size, 4),
            "z": np.arange(1, 4 * other + 1, dtype=np.float32).reshape(other, 4),
            "c": np.array(size % 2 == 0),
        }
        shapes = {name: array.shape for name, array in feeds.items()}
        (y,) = compute(clean, **feeds)
        for name, result in (("rewrite", rewritten), ("harden", hardened)):
            (got,) = compute(result, **feeds)
            if not np.array_equal(got, y):
                bad.append(f"{name} {size}: {got.shape} {y.shape}")
        for proto in (stale, clean):
            for node in sliceport.lower(proto, input_shapes=shapes).nodes:
                if node.node.name == "y" or node.node.outputs[0] == "y":
                    r = node.node
                    if node.verdict != "refused" and r.cuts[0].region.output_shape != y.shape:
                        bad.append(f"lower {proto is stale} {size}: {r.cuts[0].region.output_shape} {y.shape}")
    assert not bad, bad
