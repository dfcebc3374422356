"""Every entry of `divergences.py` must still be true, and ours must be what the specification says."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import openvino
import oracle
import pytest
from divergences import DIVERGENCES, OPENVINO_DEFECTS, Divergence, OpenVINODefect
from onnx import helper, numpy_helper
from openvino_processes import answer
from running import as_bytes, run_node

import onnx_ops
from onnx_ops.contested import BACKWARD_TO_THE_GREATEST, CONTESTED, Contested
from ov_ext.defects import DEFECTS
from sliceport.directml import device

Outputs = tuple[tuple[int, ...], ...]
Engine = tuple[str, Callable[[Divergence], Outputs]]
"""Its version, and what runs an entry on it."""


def model_of(entry: Divergence, *, surrounded: bool = True) -> onnx.ModelProto:
    """The entry's node, axes left out at rank 1; surrounded by others, as passes only touch nodes inside a graph."""
    shape = [1] * (entry.rank - 1) + [entry.size]
    names = {"Slice": ["starts", "ends", "axes", "steps"], "Split": ["split"]}[entry.op_type]
    vectors = {name: np.array(entry.parameters[name]).reshape(-1) for name in names if name in entry.parameters}
    if entry.rank > 1 and entry.op_type == "Slice":
        vectors["axes"] = np.array([entry.rank - 1])
    inputs = [name if name in vectors else "" for name in names]
    attributes: dict[str, Any] = {name: value for name, value in entry.parameters.items() if name == "num_outputs"}
    if entry.op_type == "Split":
        attributes["axis"] = entry.rank - 1
    parts = [f"b{i}" for i in range(len(entry.specified))]
    results = [f"y{i}" for i in range(len(parts))] if surrounded else parts
    node = helper.make_node(entry.op_type, ["a", *(inputs if vectors else [])], parts, **attributes)
    around = [helper.make_node("Neg", ["x"], ["a"])]
    around += [helper.make_node("Neg", [b], [y]) for b, y in zip(parts, results, strict=True)]
    data = "x" if surrounded else "a"
    values = [helper.make_tensor_value_info(data, onnx.TensorProto.INT64, shape)]
    if entry.run_time:
        values += [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [1]) for name in vectors]
    graph = helper.make_graph(
        [around[0], node, *around[1:]] if surrounded else [node],
        "g",
        values,
        [
            helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [*shape[:-1], len(part)])
            for name, part in zip(results, entry.specified, strict=True)
        ],
        [] if entry.run_time else [numpy_helper.from_array(vector, name) for name, vector in vectors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", entry.opset)], ir_version=8)


FIRST = 1001
"""What the first element holds, so that no element is what unwritten memory likely holds: 0, a size or an index."""


def data_of(entry: Divergence) -> np.ndarray:
    return FIRST + np.arange(entry.size).reshape([1] * (entry.rank - 1) + [entry.size])


def listed(arrays: Iterable[Any]) -> Outputs:
    """Which elements came out, by their indices."""
    return tuple(tuple((array.reshape(-1) - FIRST).tolist()) for array in arrays)


def by_onnxruntime(entry: Divergence, level: onnxruntime.GraphOptimizationLevel) -> Outputs:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    model = model_of(entry)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(f"y{i}") for i in range(len(entry.specified)))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return listed(session.run(None, {"x": data_of(entry)}))


def by_reference(entry: Divergence) -> Outputs:
    return listed(onnx.reference.ReferenceEvaluator(model_of(entry)).run(None, {"x": data_of(entry)}))


def by_openvino(entry: Divergence) -> Outputs:
    core = openvino.Core()
    model = core.read_model(io.BytesIO(model_of(entry).SerializeToString()))
    inputs = {"x": data_of(entry)}
    if entry.run_time:
        inputs |= {name: np.array([value]) for name, value in entry.parameters.items()}
    results = core.compile_model(model, "CPU")(inputs)
    return listed(results[i] for i in range(len(entry.specified)))


def by_directml_provider(entry: Divergence, opened: device.Device) -> Outputs:
    names = [f"b{i}" for i in range(len(entry.specified))]
    model = model_of(entry, surrounded=False)
    return listed(opened.run_onnx(model.SerializeToString(), {"a": data_of(entry)}, names))


OFF = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
ALL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
ENGINES: dict[str, Engine] = {
    "onnxruntime-cpu": (onnxruntime.__version__, lambda entry: by_onnxruntime(entry, OFF)),
    "onnxruntime-cpu-optimized": (onnxruntime.__version__, lambda entry: by_onnxruntime(entry, ALL)),
    "onnx-reference": (onnx.__version__, by_reference),
    "openvino-cpu": (openvino.__version__, by_openvino),
}


@pytest.fixture
def engine(entry: Divergence, request: pytest.FixtureRequest) -> Engine:
    """The version of the entry's engine and what runs an entry on it; the real DirectML where it is installed."""
    if entry.engine == "onnxruntime-dml":
        opened = request.getfixturevalue("directml")
        return opened.facts()["onnxruntime"], lambda entry: by_directml_provider(entry, opened)
    return ENGINES[entry.engine]


@pytest.mark.parametrize("entry", DIVERGENCES, ids=lambda e: e.id)
class TestEntries:
    def test_the_engine_still_disagrees(self, entry: Divergence, engine: Engine) -> None:
        version, run = engine
        assert version in entry.versions, f"seen with {entry.versions}, not tried with {version}: try it and say so"
        if isinstance(entry.seen, str):
            with pytest.raises(Exception, match=entry.seen):
                run(entry)
            return
        seen = run(entry)
        assert seen != entry.specified, f"{entry.engine} {version} agrees now: remove the entry {entry.id!r}"
        if entry.seen is None:
            assert list(map(len, seen)) == list(map(len, entry.specified))
        else:
            assert seen == entry.seen

    def test_ours_is_what_the_specification_says(self, entry: Divergence) -> None:
        data = data_of(entry)
        constant = replace(entry, run_time=False)
        (lowered,) = onnx_ops.lower(model_of(constant)).nodes
        got = run_node(lowered, as_bytes(data))
        outputs = [got[cut.output][: 8 * cut.region.size].view(np.int64) for cut in lowered.resolved.cuts]
        assert listed(outputs) == entry.specified
        if entry.op_type == "Slice":
            bounds: list[Any] = [[entry.parameters[name]] for name in ("starts", "ends", "steps")]
            by_oracle = oracle.onnx_slice(data.reshape(-1), bounds[0], bounds[1], None, bounds[2])
            assert listed([by_oracle]) == entry.specified

    def test_it_says_why(self, entry: Divergence) -> None:
        assert entry.specification
        assert entry.engine_does
        assert entry.engine in {*ENGINES, "onnxruntime-dml"}
        assert entry.versions


@pytest.mark.parametrize("contested", CONTESTED, ids=lambda contested: contested.id)
def test_what_is_left_alone_has_its_evidence(contested: Contested) -> None:
    """Each engine that the product says does otherwise has an entry here, and is said to do what the entry shows."""
    shown = {entry.engine for entry in DIVERGENCES if entry.contested is contested}
    right = {(BACKWARD_TO_THE_GREATEST.id, "onnxruntime-dml")}  # tests/passes/test_contested.py
    assert shown == {engine for engine, _ in contested.engines if (contested.id, engine) not in right}


def test_ids_are_unique() -> None:
    assert len({entry.id for entry in DIVERGENCES}) == len(DIVERGENCES)


@pytest.mark.parametrize("entry", OPENVINO_DEFECTS, ids=lambda e: e.id)
class TestOpenVINODefects:
    def test_the_engine_still_disagrees(self, entry: OpenVINODefect) -> None:
        assert openvino.__version__ in entry.versions, f"not tried with {openvino.__version__}: try it and say so"
        seen = answer({**entry.case, "engine": entry.engine.removeprefix("openvino-")})
        assert seen != as_answer(entry.specified), f"{entry.engine} agrees now: remove the entry {entry.id!r}"
        if isinstance(entry.seen, int):
            assert seen["exit"] == entry.seen
        elif isinstance(entry.seen, str):
            assert entry.seen in seen["error"]
        elif entry.seen[1] is None:
            assert seen["shape"] == list(entry.seen[0])
        else:
            assert seen == as_answer(entry.seen)

    def test_hardened_it_is_right(self, entry: OpenVINODefect) -> None:
        got = answer({**entry.case, "engine": entry.engine.removeprefix("openvino-"), "harden": True})
        assert entry.id in got.pop("defects")
        assert got.pop("forms") != [None]
        assert got == as_answer(entry.specified)

    def test_ours_is_right(self, entry: OpenVINODefect) -> None:
        got = answer({**entry.case, "engine": entry.engine.removeprefix("openvino-"), "ours": True})
        assert got == as_answer(entry.specified)


def as_answer(result: tuple[tuple[int, ...], Any]) -> dict[str, Any]:
    shape, values = result
    return {"shape": list(shape), "values": values if isinstance(values, str) else list(map(float, values))}


def test_every_openvino_defect_has_an_entry() -> None:
    assert [entry.id for entry in OPENVINO_DEFECTS] == [defect.id for defect in DEFECTS]
