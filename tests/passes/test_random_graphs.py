"""Random graphs: every pass, alone and with all others, leaves what comes out as it was, bit for bit."""

from __future__ import annotations

import itertools
import random

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from passes.graphs import graphs
from platforms import assert_well_formed

from onnx_ops.io import from_proto
from onnx_ops.passes import ALL, BY_DEFAULT, PASSES, rewrite


def session(proto: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])


def outputs(opened: ort.InferenceSession, shape: tuple[int, ...]) -> list[tuple] | None:
    """Shapes and bytes of what comes out; None where the model does not take this shape."""
    x = np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32).reshape(shape)
    try:
        return [(array.shape, array.tobytes()) for array in opened.run(None, {"x": x})]
    except Exception:
        return None


def is_valid(proto: onnx.ModelProto, shape: tuple[int, ...]) -> bool:
    """Whether the model takes a shape; onnxruntime joins what does not fit if there is nothing in it."""
    try:
        ReferenceEvaluator(proto).run(None, {"x": np.zeros(shape, np.float32)})
    except Exception:
        return False
    return True


def show(proto: onnx.ModelProto) -> str:
    """A model for people: each node with its constants."""
    constants = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in proto.graph.initializer}
    lines = []
    for node in proto.graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t).tolist()
            continue
        read = [str(constants.get(name, name)) for name in node.input]
        read += [f"{attribute.name}={helper.get_attribute_value(attribute)}" for attribute in node.attribute]
        lines.append(f"{', '.join(node.output)} = {node.op_type}({', '.join(read)})")
    return "\n".join(lines)


def check(before: onnx.ModelProto, after: onnx.ModelProto, shape: tuple[int, ...]) -> None:
    """Compare what comes out for the shape and, where the input is open, for others."""
    assert_well_formed(after)
    first, second = session(before), session(after)
    dims = [dim.HasField("dim_param") for dim in before.graph.input[0].type.tensor_type.shape.dim]
    sizes = [(size, size + 1, size - 1, 1) if is_open else (size,) for size, is_open in zip(shape, dims, strict=True)]
    compared = 0
    for other in itertools.islice(itertools.product(*sizes), 16):
        expected = outputs(first, other) if is_valid(before, other) else None
        if expected is not None:
            assert outputs(second, other) == expected, f"{other}:\n{show(before)}\n{show(after)}"
            compared += 1
    assert compared


def assert_only_nodes_of_graphs_read(model: ir.Model) -> None:
    """A node that a pass made for nothing may not go on reading: it would count where readers are counted."""
    for node in model.graph.all_nodes():
        assert all(reader.graph is not None for output in node.outputs for reader in output.consumers())


def rewritten(proto: onnx.ModelProto, passes) -> tuple[onnx.ModelProto, int]:
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
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_all_passes(is_open, data):
    proto, shape = data.draw(graphs(is_open=is_open))
    assume(is_valid(proto, shape))
    check(proto, rewritten(proto, BY_DEFAULT)[0], shape)


@pytest.mark.parametrize("name", PASSES)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_one_pass(name, data):
    proto, shape = data.draw(graphs(is_open=data.draw(st.booleans())))
    assume(is_valid(proto, shape))
    model = from_proto(proto)
    modified = PASSES[name]()(model).modified
    after = ir.serde.serialize_model(model)
    if modified:
        check(proto, after, shape)
    else:
        assert after == ir.serde.serialize_model(from_proto(proto))


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_pass_there_is(data):
    proto, shape = data.draw(graphs(is_open=data.draw(st.booleans())))
    assume(is_valid(proto, shape))
    check(proto, rewritten(proto, tuple(PASSES))[0], shape)


@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(graphs(is_open=False, all_read=True), st.randoms(use_true_random=False))
def test_any_order(made, shuffler: random.Random):
    """Whichever pass is first, they come to an end that is right, and at which no other order finds anything."""
    proto, shape = made
    assume(is_valid(proto, shape))
    model = from_proto(proto)
    passes = [PASSES[name]() for name in BY_DEFAULT]
    shuffler.shuffle(passes)
    ir.passes.PassManager(passes, steps=20, early_stop=True)(model)
    assert not any(PASSES[name]()(model).modified for name in BY_DEFAULT)
    check(proto, ir.serde.serialize_model(model), shape)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_all_as_one_pass_comes_to_the_same_end_at_once(data):
    proto, _ = data.draw(graphs(is_open=data.draw(st.booleans())))
    model = from_proto(proto)
    ir.passes.Sequential(*ALL)(model)
    assert ir.serde.serialize_model(model) == rewritten(proto, data.draw(st.permutations(BY_DEFAULT)))[0]
    assert not ir.passes.Sequential(*ALL)(model).modified
