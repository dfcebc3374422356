"""Functions are inlined as onnx-ir inlines them, in time that grows in proportion to the calls."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx_ir.passes.common import InlinePass, inliner
from sessions import compute

from onnx_ops.model import prepare
from onnx_ops.model.prepare import inline_functions

MODEL = """<ir_version: 9, opset_import: ["" : 17, "f" : 1, "g" : 1]> g (float[2] x, bool c) => (float[2] y) {
    t_3 = f.Twice (x)
    t = f.Twice (t_3)
    u = If (c) <then_branch = a () => (float[2] p) { p = f.Twice (t) },
                else_branch = b () => (float[2] q) { q = g.Twice (t) }>
    y = f.Twice (u)
}
<domain: "f", opset_import: ["" : 17, "g" : 1]> Twice (a) => (b) { t = Neg (a) t_2 = g.Twice (t) b = Neg (t_2) }
<domain: "g", opset_import: ["" : 17]> Twice (a) => (b) { t = Relu (a) b = Abs (t) }"""


def parse() -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(MODEL))


def test_names_are_those_of_onnx_ir() -> None:
    ours, theirs = parse(), parse()
    inline_functions(ours)
    InlinePass()(theirs)
    assert ir.to_proto(ours) == ir.to_proto(theirs)


def test_one_thread_inlines_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the second call does not restore the replacements of the first one as if they were the originals."""
    original = vars(inliner)["_make_unique_name"]
    started: list[ir.Model] = []
    ended: list[ir.Model] = []

    def inline(model: ir.Model) -> None:
        assert len(started) == len(ended)
        started.append(model)
        time.sleep(0.1)
        ended.append(model)

    monkeypatch.setattr(prepare, "InlinePass", lambda: inline)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(inline_functions, [parse(), parse()]))
    assert len(ended) == 2
    assert vars(inliner)["_make_unique_name"] is original


def test_names_in_calls_are_not_those_in_bodies() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 17, "f" : 1]>
        g (float[2] x, bool c) => (float[2] y) {
            a = f.Twice (x)
            y = If (c) <then_branch = one () => (float[2] p) { t = Neg (a) p = f.Twice (t) },
                        else_branch = two () => (float[2] u) { u = Neg (a) }>
        }
        <domain: "f", opset_import: ["" : 17]> Twice (a) => (b) { t = Relu (a) u = Neg (t) b = Neg (u) }""")
    inlined = ir.from_proto(model)
    inline_functions(inlined)
    x = np.array([-1.0, 2.0], np.float32)
    for flag in (True, False):
        inputs = {"x": x, "c": np.array(flag)}
        (before,), (after,) = compute(model, **inputs), compute(ir.to_proto(inlined), **inputs)
        assert after.tobytes() == before.tobytes()
