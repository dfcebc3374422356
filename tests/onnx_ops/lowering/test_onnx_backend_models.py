"""ONNX's own backend test models, all that have a Slice or Split somewhere: most are functions written out.

`test_onnx_node_tests.py` has the models that are one Slice or Split; here the nodes stand inside others, cut what those
computed, and take parameters from shape arithmetic. ONNX's reference evaluator, which knows every operator set, runs
each model on the test's own inputs and says what every slicing node of the main graph read and wrote.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test import loader
from onnx.reference import ReferenceEvaluator
from onnx_node_cases import all_node_tests
from running import as_bytes, run_node

import sliceport
from sliceport.slicing.node import Folded

KINDS = ("simple", "pytorch-operator", "pytorch-converted")
RUN_TIME = {
    "test_loop11": "starts and ends are the loop's counter",
    "test_loop13_seq": "ends is the loop's counter",
    "test_loop16_seq_none": "ends is the loop's counter",
}
"""The models whose slices no one knows before they run."""


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def slicing_count(model: onnx.ModelProto) -> int:
    return sum(node.op_type in ("Slice", "Split") for node in all_nodes(model.graph))


@functools.cache
def cases() -> dict[str, tuple[onnx.ModelProto, dict[str, np.ndarray]]]:
    """Return the models with a slicing node and the test's own inputs, by name."""
    found = {}
    makes = np.__version__ >= "2"  # with NumPy 1 onnx cannot, but the onnx that takes it has them in files
    tests = [*(all_node_tests() if makes else loader.load_model_tests(kind="node"))]
    tests += [case for kind in KINDS for case in loader.load_model_tests(kind=kind)]
    for case in tests:
        folder = Path(case.model_dir or "")
        model = onnx.load(folder / "model.onnx") if case.model is None else case.model
        if slicing_count(model):
            initializers = {tensor.name for tensor in model.graph.initializer}
            names = [value.name for value in model.graph.input if value.name not in initializers]
            files = [folder / "test_data_set_0" / f"input_{i}.pb" for i in range(len(names))]
            arrays = case.data_sets[0][0] if case.data_sets else [onnx.load_tensor(file) for file in files]
            found[case.name] = (model, dict(zip(names, arrays, strict=True)))
    return found


def with_constants(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return the model with its inputs of int64 as initializers, and the arrays of its other inputs."""
    given, inputs = cases()[name]
    model = onnx.ModelProto()
    model.CopyFrom(given)
    arrays = {k: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for k, v in inputs.items()}
    for value in list(model.graph.input):
        if value.name in arrays and arrays[value.name].dtype == np.int64:
            model.graph.initializer.append(numpy_helper.from_array(arrays.pop(value.name), value.name))
            model.graph.input.remove(value)
    return model, arrays


def test_onnx_has_as_many_models_as_are_listed() -> None:
    assert len(cases()) == 124 or onnx.__version__ < "1.23"  # onnx brings the models
    assert sum(name.endswith("_expanded") for name in cases()) > 50
    assert {"test_operator_chunk", "test_operator_index", "test_GLU", "test_GLU_dim"} <= cases().keys()


def test_lowered_models_compute_the_same_bits(subtests: pytest.Subtests) -> None:
    """Check all models in one test, because collecting them runs onnx's operators for seconds."""
    for name in sorted(cases().keys() - RUN_TIME.keys()):
        with subtests.test(name):
            check(name)


def check(name: str) -> None:
    model, inputs = with_constants(name)
    program = sliceport.lower(model)
    assert len(program.nodes) == slicing_count(model)
    assert [lowered.reason for lowered in program.nodes if lowered.reason] == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values: Any = ReferenceEvaluator(model).run(None, inputs, intermediate=True)
    for lowered in program.nodes:
        node = lowered.node
        if node.scope:
            assert name.startswith("test_affine_grid")  # the branches of an If
        elif lowered.verdict == "folded":
            assert isinstance(node, Folded)
            assert [as_bytes(values[output]).tobytes() for output in node.outputs] == list(node.constants)
        else:
            got = run_node(lowered, as_bytes(values[node.input]))
            for cut in lowered.resolved.cuts:
                expected = values[cut.output]
                assert cut.region.output_shape == expected.shape
                if cut.used:
                    assert np.array_equal(got[cut.output][: expected.nbytes], as_bytes(expected))


@pytest.mark.parametrize("name", sorted(RUN_TIME))
def test_run_time_parameters_are_refused_as_such(name: str) -> None:
    (lowered,) = sliceport.lower(cases()[name][0]).nodes
    assert (lowered.reason and lowered.reason.code) == "dynamic_parameter"
