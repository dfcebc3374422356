"""Runs of whole models on the real DirectML execution provider, compared with onnxruntime's CPU provider."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ops.runtime import onnxruntime_cpu
from onnx_ops.verify.directml_provider import open_provider
from onnx_ops.verify.find_nodes import find_differences, find_refusals
from onnx_ops.verify.known_defects import explain_findings
from onnx_ops.verify.onnx_graph import OnnxGraph
from onnx_ops.verify.runnable import Runnable, find_weights, read_complete_model
from sliceport import device
from sliceport.arguments import check_path, read_input_shapes, read_inputs, read_seed
from sliceport.device import CallFailed, HostDied, HostTimedOut
from sliceport.engines.engine import Array, Value
from sliceport.engines.inputs import find_inputs_that_run
from sliceport.engines.model_run import Finding, ModelRun, OutputRun
from sliceport.engines.sizes import sizes_to_try
from sliceport.progress import say
from sliceport.search.graph import only_moves
from sliceport.verdict.difference import EXACT, compare_values, tolerance_of
from sliceport.wording import spell


def run_model(
    path: str | os.PathLike[str],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Array] | None = None,
    against: bool = False,
    seed: int = 0,
) -> ModelRun:
    """Run a model on onnxruntime's DirectML provider, with graph fusion. The CPU runs nodes that DirectML cannot run.

    The arguments are those of `Format.run_on_directml`.

    Raises:
        UsageError: An argument does not fit the model; see also `embed_function`.
        ModelError: The model or its data cannot be read, or onnxruntime's CPU provider cannot run it.
        DeviceError: DirectML is not installed; see also `run_on`.
        MissingExtra, MemoryError, ChildLost: See `verify_rewriting`; only if `against` is true.
    """
    check_path(path, "model")
    given, seed = read_inputs(inputs), read_seed(seed)
    shapes = {name: array.shape for name, array in given.items()} | read_input_shapes(input_shapes)
    runnable = read_complete_model(path)
    arrays: Mapping[str, Array]
    expected: Mapping[str, Value] | None = None
    if against:
        say(f"running the model on {onnxruntime_cpu.NAME}")
        found = find_inputs_that_run(runnable, onnxruntime_cpu.side(), shapes, given, seed)
        arrays, expected = found.arrays, found.outputs
    else:
        sizes = next(sizes_to_try(runnable.declared_shapes, shapes))
        arrays = runnable.make_inputs(given, sizes.shapes, seed)
    with open_provider() as dml:
        return run_on(dml, runnable, arrays, expected, locates=against)


def run_on(
    dml: device.Device,
    model: Runnable,
    arrays: Mapping[str, Array],
    expected: Mapping[str, Value] | None,
    *,
    locates: bool,
) -> ModelRun:
    """Run a model on the provider and compare its outputs.

    If the provider does not run the model, the result has no outputs, and its findings say why.

    Args:
        dml: The device.
        model: The model, as `read_complete_model` returns it.
        arrays: The inputs of the model.
        expected: The expected outputs by name, or None to compare nothing.
        locates: Whether to find the nodes that cause a refusal or a difference.

    Raises:
        DeviceError: The program that hosts DirectML cannot be started or does not accept the inputs, or a data file is
            too short.
        ModelError: The model cannot be serialized.
        MissingExtra: `locates` is true, and onnxruntime is not installed or cannot be loaded.
    """
    names, graph = model.outputs, OnnxGraph(model.proto, data_folder=model.data_folder)
    facts, whole = dml.facts(), model.whole()
    weights = find_weights(whole)
    say("running the model on DirectML")
    try:
        values, nodes = dml.trace_onnx(whole.data, arrays, names, weights=weights)
    except (CallFailed, HostDied) as error:
        refusals: tuple[Finding, ...] = ()
        # A search would wait for the full `directml_provider.TIMEOUT` at each part that hangs.
        if locates and not isinstance(error, HostTimedOut) and _runs_anything(dml):
            say("looking for the nodes that DirectML refuses")
            refusals = find_refusals(dml, graph, arrays, str(error))
        refusals = refusals or (_describe_failed_run(error, has_expected=expected is not None),)
        findings = explain_findings(refusals, model.proto)
        return ModelRun(facts, (), (), findings, {}, tuple(dml.transient))
    results = dict(zip(names, values, strict=True))
    outputs = tuple(_compare_output(graph, name, results[name], (expected or {}).get(name)) for name in names)
    different = {output.name: output.detail for output in outputs if output.status == "different"}
    if different and locates:
        say("looking for the first node that differs")
        findings = explain_findings(find_differences(dml, graph, arrays, list(different)), model.proto)
    else:
        findings = tuple(
            Finding("different", "", "", f"output {name!r} differs from {onnxruntime_cpu.NAME}: {detail}.")
            for name, detail in different.items()
        )
    return ModelRun(facts, tuple(nodes), outputs, findings, results, tuple(dml.transient))


def _describe_failed_run(error: CallFailed | HostDied, *, has_expected: bool) -> Finding:
    """Return the finding about a model that does not run. Without expected outputs, say how to find the cause."""
    failure = "refuses the model" if isinstance(error, CallFailed) else "does not run the model"
    message = f"the DirectML provider {failure} ({str(error).rstrip('.')})."
    if not has_expected:
        message += f" {spell('against=True', f'--against {onnxruntime_cpu.NAME}')} finds the nodes that cause this."
    return Finding("refused", "", "", message)


def _runs_anything(dml: device.Device) -> bool:
    """Return whether the provider runs a model of one Identity. If it does not, no node is the cause of a failure."""
    graph = "copy (float[4] x) => (float[4] y) { y = Identity(x) }"
    model = onnx.parser.parse_model(f'<ir_version: 7, opset_import: ["" : 13]> {graph}')
    try:
        dml.run_onnx(model.SerializeToString(), {"x": np.ones(4, np.float32)}, ["y"])
    except (CallFailed, HostDied):
        return False
    return True


def _compare_output(graph: OnnxGraph, name: str, computed: Array, expected: Value) -> OutputRun:
    """Compare an output with the expected one, bit for bit if the model only moves its elements."""
    element = ir.DataType.from_numpy(computed.dtype).name
    if not isinstance(expected, np.ndarray):  # no comparison was asked for, or the CPU provider returned no array
        return OutputRun(name, element, computed.shape, "ran")
    tolerance = EXACT if only_moves(graph, range(len(graph.nodes)), name) else tolerance_of(expected)
    result = compare_values(name, computed, expected, tolerance)
    # The absolute and the relative bound are the same number here, and an element within either of them is close. So
    # the smaller difference is the one to report beside that number.
    difference = min(result.absolute, result.relative)
    return OutputRun(name, element, computed.shape, result.status, difference, tolerance.absolute, result.detail)
