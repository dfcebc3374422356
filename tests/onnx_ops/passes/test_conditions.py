"""Each condition of each rule: a case that meets it, and one that does not with the reason that the pass gives."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx_models import integers, parse
from pass_cases.conditions import FIRES, STAYS, sizes
from pass_cases.equivalence import check, show

from onnx_ops.model.io import from_proto
from onnx_ops.passes import PASSES, rewrite


@pytest.mark.parametrize("case", FIRES)
def test_pass_rewrites_what_meets_its_condition(case: str) -> None:
    name, proto = FIRES[case]
    made = PASSES[name]()
    rewritten = from_proto(proto)
    assert made(rewritten).modified, made.skipped
    after = ir.serde.serialize_model(rewritten)
    assert show(after) != show(proto)
    assert [output.name for output in after.graph.output] == [output.name for output in proto.graph.output]
    check(proto, after, sizes(proto))
    assert not PASSES[name]()(rewritten).modified


@pytest.mark.parametrize("case", STAYS)
def test_pass_leaves_what_breaks_its_condition(case: str) -> None:
    name, proto, reason = STAYS[case]
    made = PASSES[name]()
    untouched = from_proto(proto)
    assert not made(untouched).modified, made.changes
    assert ir.serde.serialize_model(untouched) == ir.serde.serialize_model(from_proto(proto))
    if reason is None:
        assert not made.skipped
    else:
        assert any(reason in skipped.reason for skipped in made.skipped), made.skipped


def test_every_pass_has_cases_of_both_kinds() -> None:
    for cases, title in ((FIRES, "FIRES"), (STAYS, "STAYS")):
        missing = set(PASSES) - {name for name, *_ in cases.values()}
        assert not missing, f"add cases for {missing} to {title} in tests/pass_cases/conditions.py"


@pytest.mark.parametrize("with_scalar", [False, True])
def test_chain_ends_in_a_gather_unless_scalar_replaces_gathers(with_scalar: bool) -> None:
    _, proto = FIRES["chain to Gather"]
    shortened = from_proto(proto)
    assert rewrite(shortened, ("chain", *["scalar"] * with_scalar)).changes["chain"]
    after = [node.op_type for node in shortened.graph if node.op_type != "Constant"]
    assert after == (["Slice", "Squeeze"] if with_scalar else ["Gather"])


def test_slice_with_negative_axis_is_composed_if_only_its_own_rank_is_known() -> None:
    head = f"(float[8] data, int64[r] to) => (y) <{integers(zero=[0], one=[1], three=[3], last=[-1])}, float[p, q] a>"
    nodes = "{ x = Reshape (data, to)  a = Slice (x, zero, one, zero)  y = Slice (a, one, three, last) }"
    assert PASSES["compose"]()(from_proto(parse(f"{head} {nodes}", 13))).modified
