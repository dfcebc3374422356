"""Random graphs: every pass, alone and with all others, leaves what comes out as it was, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Sequence

import onnx
import onnx_ir as ir
import pytest
from amounts import amount
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from pass_cases.equivalence import check, is_valid
from pass_cases.graphs import graphs

from onnx_ops.model.io import from_proto
from onnx_ops.passes import ALL, BY_DEFAULT, PASSES, rewrite

pytestmark = pytest.mark.usefixtures("inferred_once")


def assert_only_nodes_of_graphs_read(model: ir.Model) -> None:
    """Check that no node outside of graphs reads a value: it would be counted among the readers."""
    for node in model.graph.all_nodes():
        assert all(reader.graph is not None for output in node.outputs for reader in output.consumers())


def rewritten(proto: onnx.ModelProto, passes: Sequence[str]) -> tuple[onnx.ModelProto, int]:
    model = from_proto(proto)
    report = rewrite(model, passes)
    assert_only_nodes_of_graphs_read(model)
    after = ir.serde.serialize_model(model)
    for again in (model, from_proto(after)):  # also of what was written to a file
        assert not any(rewrite(again, passes).changes.values())
        assert ir.serde.serialize_model(again) == after
    assert report.after <= report.before
    return after, report.after


@pytest.mark.parametrize("is_open", [False, True])
@settings(max_examples=amount(100), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_default_passes_keep_random_graphs_equal(is_open: bool, data: st.DataObject) -> None:
    proto, shape = data.draw(graphs(is_open=is_open))
    assume(is_valid(proto, shape))
    check(proto, rewritten(proto, BY_DEFAULT)[0], shape)


@settings(max_examples=amount(60), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_each_pass_keeps_random_graphs_equal(data: st.DataObject) -> None:
    proto, shape = data.draw(graphs(is_open=data.draw(st.booleans())))
    assume(is_valid(proto, shape))
    untouched = ir.serde.serialize_model(from_proto(proto))
    for name, make in PASSES.items():
        note(f"by {name}")
        model = from_proto(proto)
        modified = make()(model).modified
        after = ir.serde.serialize_model(model)
        if modified:
            check(proto, after, shape)
        else:
            assert after == untouched


@settings(max_examples=amount(80), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_pass_keeps_random_graphs_equal(data: st.DataObject) -> None:
    proto, shape = data.draw(graphs(is_open=data.draw(st.booleans())))
    assume(is_valid(proto, shape))
    check(proto, rewritten(proto, tuple(PASSES))[0], shape)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
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


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_all_as_one_pass_comes_to_the_same_end_at_once(data: st.DataObject) -> None:
    proto, _ = data.draw(graphs(is_open=data.draw(st.booleans())))
    model = from_proto(proto)
    ir.passes.Sequential(*ALL)(model)
    assert ir.serde.serialize_model(model) == rewritten(proto, data.draw(st.permutations(BY_DEFAULT)))[0]
    assert not ir.passes.Sequential(*ALL)(model).modified
