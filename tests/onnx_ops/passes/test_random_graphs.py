"""Random graphs: passes come to an end in any order; `fuzz/graphs.py` compares the values after each pass."""

from __future__ import annotations

import random
from collections.abc import Sequence

import onnx
import onnx_ir as ir
import pytest
from amounts import amount
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pass_cases.equivalence import check, is_valid
from pass_cases.graphs import graphs

from onnx_ops.model.io import from_proto
from onnx_ops.passes import ALL, BY_DEFAULT, PASSES, rewrite

pytestmark = pytest.mark.usefixtures("inferred_once")


def rewritten(proto: onnx.ModelProto, passes: Sequence[str]) -> onnx.ModelProto:
    """Rewrite a model, and check that a second run changes neither the model nor its file."""
    model = from_proto(proto)
    report = rewrite(model, passes)
    after = ir.serde.serialize_model(model)
    for again in (model, from_proto(after)):
        assert not any(rewrite(again, passes).changes.values())
        assert ir.serde.serialize_model(again) == after
    assert report.after <= report.before
    return after


@settings(max_examples=amount(30), suppress_health_check=list(HealthCheck))
@given(graphs(is_open=False, all_read=True), st.randoms(use_true_random=False))
def test_passes_end_equal_in_any_order(made: tuple[onnx.ModelProto, tuple[int, ...]], shuffler: random.Random) -> None:
    """Whichever pass is first, they come to an end that is right, and at which no other order finds anything."""
    proto, shape = made
    assume(is_valid(proto, shape))
    model = from_proto(proto)
    passes = [PASSES[name]() for name in BY_DEFAULT]
    shuffler.shuffle(passes)
    ir.passes.PassManager(passes, steps=20, early_stop=True)(model)
    assert not any(PASSES[name]()(model).modified for name in BY_DEFAULT)
    check(proto, ir.serde.serialize_model(model), shape)


@settings(max_examples=amount(15), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_all_as_one_pass_comes_to_the_same_end_at_once(data: st.DataObject) -> None:
    proto, _ = data.draw(graphs(is_open=data.draw(st.booleans())))
    model = from_proto(proto)
    ir.passes.Sequential(*ALL)(model)
    assert ir.serde.serialize_model(model) == rewritten(proto, data.draw(st.permutations(BY_DEFAULT)))
    assert not ir.passes.Sequential(*ALL)(model).modified
