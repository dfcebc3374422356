"""The rewrite rules for onnxscript do what the passes do."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx_models import parse
from onnxscript import rewriter
from pass_cases.conditions import FIRES, STAYS, sizes
from pass_cases.equivalence import check

from onnx_ops.model.io import from_proto
from onnx_ops.passes.rewrite.rules import rules

OTHERS = ("identity of one part", "identity unread", "identity of an axis", "compose through Identity")
"""Cases that only the passes rewrite, or that the rewriter's own removal of dead code handles before."""
BOUNDS = "int64[1] two = {-2}, int64[1] nine = {9}, int64[1] zero = {0}, int64[1] last = {-1}, int64[1] four = {4}"


def count_removed(model: ir.Model) -> int:
    """Return the number of Slices that the rules remove."""
    before = sum(node.op_type == "Slice" for node in model.graph)
    rewriter.rewrite(model, pattern_rewrite_rules=rules())
    return before - sum(node.op_type == "Slice" for node in model.graph)


@pytest.mark.parametrize(
    "case", [name for name, case in FIRES.items() if case.kind.name in ("compose", "identity") and name not in OTHERS]
)
def test_pass_fires_on_its_condition(case: str) -> None:
    proto = FIRES[case].proto
    model = from_proto(proto)
    assert count_removed(model) == 1
    check(proto, ir.serde.serialize_model(model), sizes(proto))


@pytest.mark.parametrize("nodes", ["b = Slice (a, two, nine)  y = Slice (b, zero, last)", "y = Slice (a, zero, four)"])
def test_rules_do_not_believe_a_declared_size(nodes: str) -> None:
    proto = parse(f"(float[n] x) => (float[m] y) <{BOUNDS}, float[4] a> {{ a = Relu (x)  {nodes} }}", 18)
    assert count_removed(from_proto(proto)) == 0


@pytest.mark.parametrize(
    "nodes",
    [
        "r = If (yes) <then_branch = t () => (float[4] u) {u=Abs(x)}, else_branch = e () => (float[4] v) {v=Neg(x)}>",
        "s = Scan <num_scan_inputs = 1, body = b (float[4] u) => (float[4] v) {v=Abs(u)}> (xs)  r = Squeeze (s, axis)",
        """end, s = Loop (one, yes, one) <body = b (int64 i, bool c, int64 u) => (bool d, int64 v, float[4] w) {
            d = Identity (c)  v = Identity (u)  w = Abs (x) }>  r = Squeeze (s, axis)""",
    ],
)
def test_rules_do_not_believe_a_size_declared_in_a_body_in_a_function(nodes: str) -> None:
    graph = f"""(float[n] x) => (y) <int64[1] zero = {{0}}, int64[1] four = {{4}}> {{
            a = local.f (x)  y = Slice (a, zero, four) }}
        <domain: "local", opset_import: ["" : 18]> f (x) => (r) {{
            one = Constant <value_int = 1> ()  yes = Constant <value = bool {{1}}> ()
            axis = Constant <value_ints = [0]> ()  xs = Unsqueeze (x, axis)  {nodes} }}"""
    assert count_removed(from_proto(parse(graph, 18, local=1))) == 0


def test_rules_know_sizes_of_slices_that_they_write() -> None:
    nodes = "{ a = Slice (x, zero, nine)  b = Slice (a, two, nine)  y = Slice (b, zero, last) }"
    proto = parse(f"(float[4] x) => (float[m] y) <{BOUNDS}> {nodes}", 18)
    model = from_proto(proto)
    assert count_removed(model) == 2
    check(proto, ir.serde.serialize_model(model), sizes(proto))


@pytest.mark.parametrize("case", [name for name, case in STAYS.items() if case.kind.name in ("compose", "identity")])
def test_pass_leaves_what_breaks_its_condition(case: str) -> None:
    assert count_removed(from_proto(STAYS[case].proto)) == 0
