"""Functions are inlined as onnx-ir inlines them, in time that grows in proportion to the calls."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass
from sessions import compute

from onnx_ops.model.proto_reader import inline_functions
from onnx_ops.model.proto_walk import all_nodes

MODEL = """<ir_version: 9, opset_import: ["" : 17, "f" : 1, "g" : 1]> g (float[2] x, bool c) => (float[2] y) {
    t_3 = f.Twice (x)
    t = f.Twice (t_3)
    u = If (c) <then_branch = a () => (float[2] p) { p = f.Twice (t) },
                else_branch = b () => (float[2] q) { q = g.Twice (t) }>
    y = f.Twice (u)
}
<domain: "f", opset_import: ["" : 17, "g" : 1]> Twice (a) => (b) { t = Neg (a) t_2 = g.Twice (t) b = Neg (t_2) }
<domain: "g", opset_import: ["" : 17]> Twice (a) => (b) { t = Relu (a) b = Abs (t) }"""


def test_names_are_those_of_onnx_ir() -> None:
    model = onnx.parser.parse_model(MODEL)
    theirs = ir.from_proto(model)
    InlinePass()(theirs)
    written, expected = (list(all_nodes(each.graph)) for each in (inline_functions(model), ir.to_proto(theirs)))
    assert [(n.name, n.op_type, n.input, n.output) for n in written] == [
        (n.name, n.op_type, n.input, n.output) for n in expected
    ]


def test_names_in_calls_are_not_those_in_bodies() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17, "f" : 1]>
        g (float[2] x, bool c) => (float[2] y) {
            a = f.Twice (x)
            y = If (c) <then_branch = one () => (float[2] p) { t = Neg (a) p = f.Twice (t) },
                        else_branch = two () => (float[2] u) { u = Neg (a) }>
        }
        <domain: "f", opset_import: ["" : 17]> Twice (a) => (b) { t = Relu (a) u = Neg (t) b = Neg (u) }""")
    inlined = inline_functions(model)
    x = np.array([-1.0, 2.0], np.float32)
    for flag in (True, False):
        inputs = {"x": x, "c": np.array(flag)}
        (before,), (after,) = compute(model, **inputs), compute(inlined, **inputs)
        assert after.tobytes() == before.tobytes()


def test_output_that_is_an_input_of_its_function_is_the_input() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17, "f" : 1]>
        g (float[2] x) => (float[2] y) { a, b = f.Both (x) y = Sub (a, b) }
        <domain: "f", opset_import: ["" : 17]> Both (a) => (a, b) { b = Neg (a) }""")
    (result,) = compute(inline_functions(model), x=np.array([1.0, 2.0], np.float32))
    assert result.tolist() == [2, 4]


def test_names_in_bodies_of_functions_are_unique() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17, "f" : 1]>
        g (float[2] v, bool c) => (float[2] y) { a = f.Once (v, c) y = f.Once (a, c) }
        <domain: "f", opset_import: ["" : 17]> Once (x, c) => (y) {
            one = Constant<value_int = 1> ()
            y = Loop (one, c, x) <body = g (int64 i, bool d, float[2] v) => (bool e, float[2] w) {
                e = Identity (d) w = Add (v, x) }>
        }""")
    inputs = {"v": np.array([1.0, 2.0], np.float32), "c": np.array(True)}
    (before,), (after,) = compute(model, **inputs), compute(inline_functions(model), **inputs)
    assert after.tolist() == before.tolist() == [4, 8]
