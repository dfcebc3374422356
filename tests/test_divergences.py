"""Every entry of `divergences.py` must still be true, and ours must be what the specification says."""

from __future__ import annotations

import io

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import openvino
import oracle
import pytest
from divergences import DIVERGENCES, Divergence
from onnx import helper, numpy_helper
from running import as_bytes, run_node

import onnx_ops

Outputs = tuple[tuple[int, ...], ...]


def surrounded(entry: Divergence, *, open_: bool = False) -> onnx.ModelProto:
    """The entry's node, axes left out, between others: passes only touch nodes inside a graph.

    With `open_` its parameters are inputs of the model.
    """
    inputs = ["starts", "ends", "", "steps"] if entry.op_type == "Slice" else []
    attributes = {} if entry.op_type == "Slice" else entry.parameters
    parts = [f"b{i}" for i in range(len(entry.specified))]
    results = [f"y{i}" for i in range(len(parts))]
    vectors = {name: np.array([entry.parameters[name]]) for name in inputs if name}
    run_time = [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [1]) for name in vectors]
    graph = helper.make_graph(
        [
            helper.make_node("Neg", ["x"], ["a"]),
            helper.make_node(entry.op_type, ["a", *inputs], parts, **attributes),
            *(helper.make_node("Neg", [b], [y]) for b, y in zip(parts, results, strict=True)),
        ],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [entry.size]), *(run_time if open_ else [])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, None) for name in results],
        [] if open_ else [numpy_helper.from_array(vector, name) for name, vector in vectors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", entry.opset)], ir_version=8)


def by_onnxruntime(entry: Divergence, level: onnxruntime.GraphOptimizationLevel) -> Outputs:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        surrounded(entry).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return tuple(tuple(output.tolist()) for output in session.run(None, {"x": np.arange(entry.size)}))


def by_reference(entry: Divergence) -> Outputs:
    evaluator = onnx.reference.ReferenceEvaluator(surrounded(entry))
    return tuple(tuple(output.tolist()) for output in evaluator.run(None, {"x": np.arange(entry.size)}))


def by_openvino(entry: Divergence) -> Outputs:
    core = openvino.Core()
    model = core.read_model(io.BytesIO(surrounded(entry, open_=entry.run_time).SerializeToString()))
    inputs = {"x": np.arange(entry.size)} | {
        name: np.array([v]) for name, v in entry.parameters.items() if entry.run_time
    }
    results = core.compile_model(model, "CPU")(inputs)
    return tuple(tuple(results[i].tolist()) for i in range(len(entry.specified)))


OFF = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
ENGINES = {
    "onnxruntime-cpu": (onnxruntime.__version__, lambda entry: by_onnxruntime(entry, OFF)),
    "onnxruntime-cpu-optimized": (onnxruntime.__version__, lambda entry: by_onnxruntime(entry, ALL)),
    "onnx-reference": (onnx.__version__, by_reference),
    "openvino-cpu": (openvino.__version__, by_openvino),
}


@pytest.mark.parametrize("entry", DIVERGENCES, ids=lambda e: e.id)
class TestEntries:
    def test_the_engine_still_disagrees(self, entry):
        version, run = ENGINES[entry.engine]
        assert version in entry.versions, f"seen with {entry.versions}, not tried with {version}: try it and say so"
        if isinstance(entry.seen, str):
            with pytest.raises(Exception, match=entry.seen):
                run(entry)
            return
        seen = run(entry)
        assert seen != entry.specified, f"{entry.engine} {version} agrees now: remove the entry {entry.id!r}"
        assert seen == entry.seen

    def test_ours_is_what_the_specification_says(self, entry):
        data = np.arange(entry.size)
        (lowered,) = onnx_ops.lower(surrounded(entry)).nodes
        got = run_node(lowered, as_bytes(data))
        outputs = tuple(tuple(got[c.output][: 8 * c.region.size].view(np.int64).tolist()) for c in lowered.node.cuts)
        assert outputs == entry.specified
        if entry.op_type == "Slice":
            bounds = entry.parameters
            by_oracle = oracle.onnx_slice(data, [bounds["starts"]], [bounds["ends"]], None, [bounds["steps"]])
            assert (tuple(by_oracle.tolist()),) == entry.specified

    def test_it_says_why(self, entry):
        assert entry.specification
        assert entry.engine_does
        assert entry.engine in ENGINES
        assert entry.versions


def test_ids_are_unique():
    assert len({entry.id for entry in DIVERGENCES}) == len(DIVERGENCES)
