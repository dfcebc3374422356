"""Attributes in functions that each call sets for itself: no pass takes a default for them, no call another's value.

Each function is called three times: with two values and by its default. What comes out of onnxruntime's CPU provider is
the same after every pass, and `lower` reads each call's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser
from sessions import compute

import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.passes import PASSES, rewrite
from onnx_ops.passes.directml.harden import harden_for_directml
from onnx_ops.passes.portable.harden import harden_portably
from sliceport.defects.profiles import PROFILES
from sliceport.slicing.node import Resolved

CONSTANTS = "z = Constant<value_ints=[0]>()  o = Constant<value_ints=[1]>()  two = Constant<value_ints=[2]>()  "
BODIES = {
    "split": (17, "a, b = Split<axis: int = @p>(x)  y = Neg(a)", (1, 2)),
    "split gated": (17, "a, b = Split<axis: int = @p>(x)  s = Sigmoid(b)  y = Mul(a, s)", (1, 2)),
    "split of split": (17, "a, b = Split<axis: int = @p>(x)  c, y = Split<axis: int = @p>(b)", (2, 2)),
    "split sizes": (11, "a, b = Split<split: ints = @p>(x)  y = Neg(a)", ([1, 3], [2, 2])),
    "split sizes of one": (11, "a = Split<split: ints = @p>(x)  y = Neg(a)", ([4], [4])),
    "num_outputs": (18, "a, b = Split<num_outputs: int = @p>(x)  y = Neg(a)", (2, 2)),
    "slice": (9, "y = Slice<starts: ints = @p, ends=[3]>(x)", ([1], [2])),
    "slice of slice": (9, "a = Slice<starts=[1], ends=[4]>(x)  y = Slice<axes: ints = @p, starts=[1], ends=[3]>(a)",
        ([1], [2])),
    "shape start": (17, "s = Shape<start: int = @p>(x)  e = Slice(s, z, o, z)  y = Slice(x, z, e, o)", (1, 2)),
    "shape end": (17, "s = Shape<end: int = @p>(x)  m = Neg(o)  e = Gather(s, m)  y = Slice(x, z, e, o)", (1, 2)),
    "two shapes": (17, "s = Shape<start: int = @p>(x)  t = Shape(x)  e = Slice(s, z, o, z)  f = Slice(t, z, o, z)"
        "  g = Add(e, f)  y = Slice(x, z, g, o)", (1, 2)),
    "shape of a slice": (17, "a = Slice(x, o, two, z)  s = Shape<start: int = @p>(a)  y = Slice(x, z, s, o)", (2, -1)),
    "gather": (17, "i = Constant<value_ints=[1, 2]>()  y = Gather<axis: int = @p>(x, i)", (1, 2)),
    "scalar gather": (17, "i = Constant<value_int=1>()  y = Gather<axis: int = @p>(x, i)", (1, 2)),
    "gathers": (17, "i = Constant<value_int=1>()  a = Gather<axis: int = @p>(x, i)  b = Gather(x, i)  y = Sum(a, a)"
        "  w = Sum(b, b)", (1, 2)),
    "squeeze": (11, "a = Slice(x, o, two, z)  b = Unsqueeze<axes: ints = @p>(a)  c = Slice(b, z, two, two)"
        "  y = Squeeze<axes=[0]>(c)", ([1], [2])),
    "concat": (17, "a = Concat<axis: int = @p>(x, x)  n = Constant<value_ints=[6]>()  y = Slice(a, two, n, o)", (1, 2)),
    "transpose": (17, "a = Transpose<perm: ints = @p>(x)  y = Slice(a, z, o, z)", ([1, 2, 0], [2, 0, 1])),
    "reshape": (17, "n = Constant<value_ints=[4, 8, -1]>()  a = Reshape<allowzero: int = @p>(x, n)  y = Neg(a)",
        (1, 1)),
    "empty fill": (17, "s = Constant<value_ints=[0, 6, 8]>()  c = ConstantOfShape<value: tensor = @p>(s)"
        "  y = Concat<axis=0>(c, x)", ("float[1] {1.0}", "float[1] {2.0}")),
    "constant": (17, "c = Constant<value_int: int = @p>()  d = Unsqueeze(c, z)  y = Slice(x, d, two, o)", (0, 1)),
    "constant list": (17, "c = Constant<value_ints: ints = @p>()  a = Slice(x, z, c, o)  y = Slice(a, z, two, o)",
        ([3], [1])),
    "computed": (17, "c = Constant<value_ints: ints = @p>()  d = Add(c, o)  y = Slice(x, z, d, o)", ([0], [1])),
    "in a branch": (17, "k = Constant<value_int=1>()  b = Cast<to=9>(k)  y = If(b)<"
        "then_branch = t() => (u) { q = Constant<value_ints: ints = @p>()  u = Slice(x, z, q, o) },"
        "else_branch = e() => (v) { v = Identity(x) }>", ([3], [1])),
    "by a call": (17, "y = d.inner<p: int = @p>(x)", (1, 2)),
}  # fmt: skip
INNER = '<domain: "d", opset_import: ["" : 17]> inner <p>(x) => (y) { a, b = Split<axis: int = @p>(x)  y = Neg(b) }'
WAYS: dict[str, Callable[[ir.Model], object]] = {
    "default": rewrite,
    "all": lambda model: rewrite(model, tuple(PASSES)),
    "harden": harden_for_directml,
    "portable": partial(harden_portably, profile=PROFILES["portable"], raises_opset=False),
    **{
        name: partial(rewrite, passes=(name,))
        for name in ("fold", "merge", "gather", "concat", "chain", "split", "scalar", "up")
    },
}


def model_of(name: str, *, is_default: bool = False, is_read: bool = True) -> onnx.ModelProto:
    """Build a model with two calls of a function, one without the attribute if it has a default."""
    opset, body, (first, second) = BODIES[name]
    kind = "tensor" if isinstance(first, str) else "ints" if isinstance(first, list) else "int"
    declared = f"<p: {kind} = {second}>" if is_default else "<p>"
    calls = f"a0 = d.f<p={first}>(x)  a1 = d.f{'' if is_default else f'<p={second}>'}(x)"
    after = "y0 = Neg(a0)  y1 = Neg(a1)  s0 = Shape(y0)  s1 = Shape(y1)"
    if is_read and opset > 9:
        after += "  y2 = Slice(y0, z, two, z)"
    text = f"""g (float[4, 6, 8] x) => (float[a, b, c] y0, float[d, e, f] y1) {{
        {CONSTANTS if opset >= 12 else ""} {calls} {after if opset >= 12 else "y0 = Neg(a0)  y1 = Neg(a1)"}
    }}
    <domain: "d", opset_import: ["" : {opset}, "d" : 1]> f {declared}(x) => (y) {{ {_with_constants(opset, body)} }}
    {INNER}"""
    proto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}, "d" : 1]> {text}')
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    return proto


def _with_constants(opset: int, body: str) -> str:
    if opset >= 12:
        return CONSTANTS + body
    if opset < 11:
        return body
    lists = (("z", 0), ("o", 1), ("two", 2))
    return "".join(f"{name} = Constant<value: tensor = int64[1] {{{i}}}>()  " for name, i in lists) + body


def run(proto: onnx.ModelProto) -> list[tuple[tuple[int, ...], bytes]]:
    x = np.arange(1, 193, dtype=np.float32).reshape(4, 6, 8)
    return [(array.shape, array.tobytes()) for array in compute(proto, x=x)]


@pytest.mark.parametrize("is_default", [False, True], ids=["given", "default"])
@pytest.mark.parametrize("name", BODIES)
def test_what_comes_out_is_the_same_after_every_pass(name: str, is_default: bool) -> None:
    before = model_of(name, is_default=is_default)
    expected = run(before)
    for way in list(WAYS)[: 3 if is_default else None]:
        model = from_proto(before)
        WAYS[way](model)
        after = ir.serde.serialize_model(model)
        assert run(after) == expected, way
        if way == "all":
            assert not any(rewrite(from_proto(after), tuple(PASSES)).changes.values())


@pytest.mark.parametrize("is_default", [False, True], ids=["given", "default"])
@pytest.mark.parametrize("name", ["split", "split of split", "slice", "by a call", "constant", "in a branch"])
def test_each_call_is_lowered_by_its_own(name: str, is_default: bool) -> None:
    _, _, (first, second) = BODIES[name]
    program = sliceport.lower(model_of(name, is_default=is_default, is_read=False))
    assert not program.summary["refused"]
    shapes = [
        cut.region.output_shape
        for node in program.nodes
        if isinstance(node.node, Resolved)
        for cut in node.node.cuts
        if cut.used
    ]
    expected = [shape for shape, _ in run(model_of(name))]
    assert set(map(tuple, expected)) <= set(shapes)
    assert (expected[0] != expected[1]) == (first != second)


@pytest.mark.parametrize(("name", "way"), [("split", "split"), ("slice of slice", "compose"), ("constant", "fold")])
def test_skipped_node_has_a_reason(name: str, way: str) -> None:
    report = rewrite(from_proto(model_of(name)), (way,))
    reasons = [skipped.reason for skipped in report.skipped[way]]
    assert any("is the function's attribute 'p', which each call sets for itself" in reason for reason in reasons) or (
        any("computed alike for all inputs of the model" in reason for reason in reasons)
    )
