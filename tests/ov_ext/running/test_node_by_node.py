"""OpenVINO models that run node by node: by Model.evaluate where it can, else on the CPU plugin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openvino as ov
import pytest
from openvino import opset13
from openvino_models import constant, fixed, parameter

from ov_ext.running.ov_graph import OpenVINOGraph
from sliceport import diff
from sliceport.engines.failure import Failure
from sliceport.engines.side import Result, read_side

DATA = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)


def run(model: ov.Model, engine: str, array: np.ndarray) -> Result:
    graph = OpenVINOGraph(model)
    return read_side(engine, "openvino", "--on").try_run(graph.whole(), {graph.inputs[0]: array})


def compute(model: ov.Model, engine: str, array: np.ndarray) -> list[np.ndarray]:
    result = run(model, engine, array)
    assert not isinstance(result, Failure), result.message
    return [np.asarray(value) for value in result.values()]


def normalize(data: ov.Node) -> ov.Node:
    return opset13.mvn(data, constant([1]), True, 1e-5, "inside_sqrt")


def convolve(data: ov.Node) -> ov.Node:
    weights = fixed(np.arange(1, 7, dtype=np.float32).reshape(2, 1, 3))
    return opset13.convolution(opset13.unsqueeze(data, constant([1])), weights, [1], [0], [0], [1])


def attend(data: ov.Node) -> ov.Node:
    heads = opset13.unsqueeze(data, constant([0]))
    return opset13.scaled_dot_product_attention(heads, heads, opset13.relu(heads))


def recur(data: ov.Node) -> ov.Node:
    cells = [fixed(np.sin(np.arange(size * 8, dtype=np.float32)).reshape(1, 8, size)) for size in (64, 2)]
    state = fixed(np.zeros((3, 1, 2), np.float32))
    sequence = opset13.lstm_sequence(
        opset13.unsqueeze(data, constant([1])), state, state, constant([1, 1, 1]), *cells,
        fixed(np.ones((1, 8), np.float32)), 2, "forward",
    )  # fmt: skip
    return sequence.output(0)


def repeat(data: ov.Node) -> ov.Node:
    """Return a Loop whose body has an MVN of open sizes, at which Model.evaluate ends the process."""
    state = parameter([-1, 64])
    condition = fixed(np.array(True))
    doubled = opset13.result(normalize(opset13.concat([state, state], 0)))
    body = ov.Model([opset13.result(condition), doubled], [state], "body")
    loop = opset13.loop(fixed(np.array(4)), condition)
    loop.set_function(body)
    loop.set_special_body_ports([-1, 0])
    loop.set_merged_input(state, data.output(0), doubled.output(0))
    return loop.get_iter_value(doubled.output(0), -1)


@pytest.mark.parametrize("sizes", [[3, 64], [-1, 64]])
@pytest.mark.parametrize("build", [normalize, convolve, attend, recur, repeat])
def test_nodes_that_model_evaluate_cannot_compute_run_on_the_plugin(
    build: Callable[[ov.Node], ov.Node], sizes: list[int]
) -> None:
    data = parameter([3, 64] if build is recur else sizes)  # the plugin refuses open sizes beside a constant state
    model = ov.Model([build(opset13.relu(data))], [data], "m")
    (computed,) = compute(model, "openvino:nodes", DATA)
    (expected,) = compute(model, "openvino-cpu:precision=f32", DATA)
    np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=1e-5)
    assert diff(model, on="openvino-cpu:precision=f32", inputs={OpenVINOGraph(model).inputs[0]: DATA}).is_equal


def test_split_that_model_evaluate_computes_wrongly_is_right() -> None:
    data = parameter([4], "u8")
    packed = opset13.convert(data, "u4")
    parts = opset13.split(packed, opset13.constant(np.int64(0)), 2)
    results = [opset13.convert(parts.output(i), "u8") for i in range(2)]
    computed = compute(ov.Model(results, [data], "m"), "openvino:nodes", np.array([1, 2, 3, 4], np.uint8))
    assert [array.tolist() for array in computed] == [[1, 2], [3, 4]]


def test_shapes_that_the_model_computes_are_constants_of_its_nodes() -> None:
    data = parameter([-1, 64])
    size = opset13.gather(opset13.shape_of(data), constant([0]), constant([0]))
    shape = opset13.concat([constant([64]), size], 0)
    (computed,) = compute(ov.Model([opset13.reshape(data, shape, False)], [data], "m"), "openvino-cpu:nodes", DATA)
    assert (computed == DATA.reshape(64, 3)).all()


def test_outputs_that_no_node_computes_are_returned() -> None:
    data = parameter([3, 64])
    results = [opset13.result(node) for node in (data, constant([5, 7]), opset13.negative(data))]
    outputs = compute(ov.Model(results, [data], "m"), "openvino:nodes", DATA)
    assert [output.tolist() for output in outputs] == [DATA.tolist(), [5, 7], (-DATA).tolist()]


def test_state_has_its_initial_value() -> None:
    from openvino.op import assign, read_value
    from openvino.op.util import Variable, VariableInfo

    info = VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape([3, 64]), ov.Type.f32, "state"
    variable, data = Variable(info), parameter([3, 64])
    total = opset13.add(data, read_value(fixed(np.full((3, 64), 3, np.float32)), variable))
    model = ov.Model([opset13.result(total)], [assign(total, variable)], [data], "m")
    assert np.array_equal(compute(model, "openvino:nodes", DATA)[0], DATA + 3)


def test_failure_of_a_node_is_the_failure_of_the_model() -> None:
    data = parameter([-1, 64])
    model = ov.Model([opset13.reshape(opset13.relu(data), constant([5, 7]), False)], [data], "m")
    result = run(model, "openvino:nodes", DATA)
    assert isinstance(result, Failure)
    assert result.kind == "error"
