"""Each condition of each rule: a case that meets it, and one that does not with the reason that the pass gives."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx_models import integers, parse
from pass_cases.conditions import FIRES, STAYS, PassCase, sizes
from pass_cases.equivalence import check, show

from onnx_ops.model.io import from_proto
from onnx_ops.passes import PASSES, rewrite
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.rewrite import run


@pytest.mark.parametrize("name", FIRES)
def test_pass_rewrites_what_meets_its_condition(name: str) -> None:
    kind, proto = FIRES[name].kind, FIRES[name].proto
    made = kind()
    rewritten = from_proto(proto)
    assert made(rewritten).modified, made.skipped
    after = ir.serde.serialize_model(rewritten)
    assert show(after) != show(proto)
    assert [output.name for output in after.graph.output] == [output.name for output in proto.graph.output]
    check(proto, after, sizes(proto))
    assert not kind()(rewritten).modified
    assert any(rewrite(from_proto(proto), (kind.name,)).changes.values()), f"`op_types` of {kind} lacks an operator"


@pytest.mark.parametrize("name", STAYS)
def test_pass_leaves_what_breaks_its_condition(name: str) -> None:
    proto, reason = STAYS[name].proto, STAYS[name].reason
    made = STAYS[name].kind()
    untouched = from_proto(proto)
    assert not made(untouched).modified, made.changes
    assert ir.serde.serialize_model(untouched) == ir.serde.serialize_model(from_proto(proto))
    if not reason:
        assert not made.skipped
    else:
        assert any(reason in skipped.reason for skipped in made.skipped), made.skipped


def test_every_pass_has_cases_of_both_kinds() -> None:
    for cases, title in ((FIRES, "Fires"), (STAYS, "Stays")):
        missing = set(PASSES.values()) - {case.kind for case in cases.values()}
        assert not missing, f"add cases to the docstring under `{title}:`, see {PassCase.__module__}: {missing}"


def test_every_pass_of_the_folder_has_a_name() -> None:
    kinds: list[type] = [SlicingPass]
    for kind in kinds:
        kinds += kind.__subclasses__()
    public = {kind for kind in kinds if kind.__module__.startswith(run.__package__) and kind.__name__[0] != "_"}
    assert not public - set(PASSES.values()), "give the pass a `name`, and in `after` the name of another pass"


@pytest.mark.parametrize("after", ["siblingz", "compose", "up"])
def test_pass_after_no_earlier_pass_is_named(after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PASSES["compose"], "after", after)
    with pytest.raises(ValueError, match=r"after = '\w+' of \w+ \(onnx_ops\..*\) names no earlier pass; the passes"):
        run._find_passes()


def test_nodes_of_any_standard_operator_are_listed_in_order() -> None:
    analysis = Analysis(from_proto(FIRES["up Transpose"].proto))
    assert [node.op_type for node, _ in analysis.nodes_of("Slice", "Transpose", "Neg")] == ["Transpose", "Slice"]


@pytest.mark.parametrize("with_scalar", [False, True])
def test_chain_ends_in_a_gather_unless_scalar_replaces_gathers(with_scalar: bool) -> None:
    shortened = from_proto(FIRES["chain to Gather"].proto)
    assert rewrite(shortened, ("chain", *["scalar"] * with_scalar)).changes["chain"]
    after = [node.op_type for node in shortened.graph if node.op_type != "Constant"]
    assert after == (["Slice", "Squeeze"] if with_scalar else ["Gather"])


def test_slice_with_negative_axis_is_composed_if_only_its_own_rank_is_known() -> None:
    head = f"(float[8] data, int64[r] to) => (y) <{integers(zero=[0], one=[1], three=[3], last=[-1])}, float[p, q] a>"
    nodes = "{ x = Reshape (data, to)  a = Slice (x, zero, one, zero)  y = Slice (a, one, three, last) }"
    assert PASSES["compose"]()(from_proto(parse(f"{head} {nodes}", 13))).modified
