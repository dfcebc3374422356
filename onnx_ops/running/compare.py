"""Comparison of slicing nodes: onnxruntime computes them inside the whole model, engines run the lowered nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_ops.lowering import lower
from onnx_ops.model.declared import declared_shapes
from onnx_ops.model.read import CheckedModel, read_any
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.defaults import run_with_other_values
from onnx_ops.running.known_defects import known_defects
from onnx_ops.running.one_node import build_model, element_dtype, output_names
from onnx_ops.running.runnable import prepare_to_run
from onnx_ops.running.session import Captured
from sliceport.arguments import read_input_shapes, read_inputs, read_seed
from sliceport.defects.engines import ONNXRUNTIME_CPU as REFERENCE
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.lowered import LoweredNode
from sliceport.directml.program import Program
from sliceport.engines.comparison import (
    Comparison,
    ReferenceRun,
    Report,
    add_defects,
    compare_node,
    reproducing_command,
    takes_part,
)
from sliceport.engines.engine import Engine, NodeEngine, TensorBytes, Value
from sliceport.engines.inputs import find_inputs_that_run, random_array
from sliceport.engines.side import RunFailed
from sliceport.engines.sizes import sizes_to_try
from sliceport.errors import ModelError, model_error
from sliceport.formats import choose_engines, formats
from sliceport.slicing.node import Folded

_INEXACT = {dtype.name for dtype in ir.DataType if dtype.is_floating_point() or dtype.name.startswith("COMPLEX")}
"""Element types whose values depend on the order of operations."""
_MAX_RANDOM = 100
"""The exclusive upper bound of random integers for a node that runs alone."""


def compare(
    model: Any,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, npt.NDArray[Any]] | None = None,
    executors: Sequence[str] | None = None,
    feature_level: str | FeatureLevel = LATEST,
    seed: int = 0,
) -> Report:
    """Run the slicing nodes of a model on several engines (`executors`) and compare their outputs bit for bit.

    onnxruntime's CPU provider runs the whole model, which gives each node its real input and expected outputs. A model
    whose inputs have defaults runs twice, with the defaults and with other values. A node inside a body of an If, Loop
    or Scan runs alone, on random data. If known defects of an engine explain a difference, the comparison names them.

    The arguments are those of `sliceport.compare`. The engine `onnxruntime-cpu` always takes part. By default, the
    default engines of the format and all installed validators take part.

    Raises:
        UsageError: An engine is not known, or an input or another option does not fit.
        ModelError: The model or its data cannot be read, or onnxruntime cannot run the model or a node alone.
        MissingExtra: onnxruntime is not installed or cannot be loaded.
        MemoryError: An engine lacks memory.
        ChildLost: The machine ended the process of a run.
    """
    engines = choose_engines(executors, formats()["onnx"])
    arrays, given_shapes, seed = read_inputs(inputs), read_input_shapes(input_shapes), read_seed(seed)
    shapes: Mapping[str, Sequence[int]] = {name: array.shape for name, array in arrays.items()} | given_shapes
    reference = f"{REFERENCE} {onnxruntime_cpu.version()}"
    checked = read_any(model)
    program = lower(checked, input_shapes=shapes, feature_level=feature_level)
    if program.nodes and next(sizes_to_try(declared_shapes(checked.proto.graph), shapes)).chosen:
        found = find_inputs_that_run(
            prepare_to_run(checked, inlines=True), onnxruntime_cpu.side(), shapes, arrays, seed
        )
        shapes, given_shapes = found.sizes.shapes, {**given_shapes, **found.sizes.chosen}
        program = lower(checked, input_shapes=shapes, feature_level=feature_level)
    runs, notes = _run_model(checked, program, shapes, arrays, seed)
    comparisons: list[Comparison] = []
    for lowered in program.nodes:
        if lowered.reason is not None:
            comparisons.append(Comparison(lowered, "", "refused", lowered.reason.message))
            continue
        node_engines = [engine for engine in engines if takes_part(engine, lowered)]
        if lowered.node.scope and lowered.verdict != "folded":
            run = ReferenceRun(REFERENCE, _capture_alone(lowered, seed), alone=True)
            comparisons += [_compare_node(lowered, engine, run) for engine in node_engines]
        else:
            comparisons += _compare_in_runs(lowered, node_engines, runs)
    names = None if executors is None else (REFERENCE, *(engine.name for engine in engines))
    command = reproducing_command(model, given_shapes, program.feature_level, seed, names)
    command += " (and the same --input)" if arrays else ""
    return Report(tuple(comparisons), program, reference, command, notes)


def _compare_in_runs(lowered: LoweredNode, engines: Sequence[Engine], runs: Sequence[ReferenceRun]) -> list[Comparison]:
    """Compare a node on each engine in all runs of the model.

    For each engine, return its first comparison that is not clean, or its first comparison if all are clean. A folded
    node has one comparison, because no engine runs it.
    """
    if lowered.verdict == "folded":
        by_run = [[_compare_constants(lowered, run.values)] for run in runs]
    else:
        by_run = [[_compare_node(lowered, engine, run) for engine in engines] for run in runs]
    results = []
    for comparisons in zip(*by_run, strict=True):
        labelled = [replace(each, detail=each.detail + run.label) for each, run in zip(comparisons, runs, strict=True)]
        results.append(next((comparison for comparison in labelled if not comparison.is_clean), labelled[0]))
    return results


def _compare_node(lowered: LoweredNode, engine: Engine, run: ReferenceRun) -> Comparison:
    """Compare a node on one engine, and name known defects that explain a difference or error; see `compare_node`."""
    model = build_model(lowered.resolved) if isinstance(engine, NodeEngine) else None
    comparison = compare_node(lowered, engine, run, model)
    if comparison.status in ("mismatch", "error"):
        for blamed in (REFERENCE, engine.name):  # Either may be wrong.
            comparison = add_defects(comparison, blamed, known_defects(lowered.resolved, blamed))
    return comparison


def _run_model(
    checked: CheckedModel,
    program: Program,
    shapes: Mapping[str, Sequence[int]],
    arrays: Mapping[str, npt.NDArray[Any]],
    seed: int,
) -> tuple[list[ReferenceRun], tuple[str, ...]]:
    """Run the model with the defaults of its inputs and, if possible, with other values.

    Return these runs, and notes about the defaults that were kept. If the main graph has no node to compare, return one
    empty run instead, without running the model.
    """
    nodes = [lowered.node for lowered in program.nodes if lowered.verdict != "refused" and not lowered.node.scope]
    if not nodes:
        return [ReferenceRun(REFERENCE, {})], ()
    runnable = prepare_to_run(checked, inlines=True)
    computed_names = {output.name for node in runnable.model.graph for output in node.outputs}
    read_names = {node.input for node in nodes if not isinstance(node, Folded)}
    written_names = {name for node in nodes for name in node.outputs if name}
    # Inputs and initializers cannot be observed as outputs, so `_collect_values` adds them.
    observed = runnable.with_outputs(sorted((read_names | written_names) & computed_names))
    side = onnxruntime_cpu.side()
    found = find_inputs_that_run(observed, side, shapes, arrays, seed)
    runs = [ReferenceRun(REFERENCE, _collect_values(runnable.model, found.outputs, found.arrays, read_names))]
    other_run, notes = run_with_other_values(observed, side, found.arrays)
    if other_run is not None:
        values = _collect_values(runnable.model, other_run.outputs, other_run.inputs, read_names)
        runs.append(ReferenceRun(REFERENCE, values, label=f" This is{other_run.label}."))  # it begins with a space
    return runs, notes


def _collect_values(
    model: ir.Model, outputs: Mapping[str, Value], inputs: Mapping[str, npt.NDArray[Any]], read_names: set[str]
) -> dict[str, Captured]:
    """Return the values that nodes computed, and the inputs and initializers that slicing nodes read."""
    values = _capture(outputs) | {name: Captured.of(inputs[name]) for name in read_names & inputs.keys()}
    for name in read_names - values.keys():
        if name not in model.graph.initializers:
            reason = "its type has no NumPy type, and an input of the model has strings"
            raise ModelError(f"onnxruntime cannot return {name!r} to Python: {reason}.")
        tensor = model.graph.initializers[name].const_value
        if tensor is None:
            raise ModelError(f"initializer {name!r} has no data.")
        try:
            array = tensor.numpy()
        except Exception as error:
            raise model_error(f"the data of initializer {name!r} cannot be read ({error}).", error) from None
        values[name] = Captured.of(array)
    return values


def _capture_alone(lowered: LoweredNode, seed: int) -> dict[str, Captured]:
    """Run a node alone on random data, and return its input and outputs by their names in the whole model."""
    node = lowered.resolved
    shape, random = node.cuts[0].region.input_shape, np.random.default_rng(seed)
    array = random_array(element_dtype(node.element), shape, random, 0, _MAX_RANDOM)
    names = output_names(node)
    model = onnxruntime_cpu.build_whole_model(build_model(node), names)
    try:
        captured = _capture(onnxruntime_cpu.side().run(model, {"data": array}))
    except RunFailed as failed:
        raise ModelError(f"{REFERENCE} cannot run {node.label} alone ({failed}).") from None
    # In the model of one node, the outputs have names of their own.
    outputs = {cut.output: captured[name] for cut, name in zip(node.cuts, names, strict=True)}
    return {node.input: Captured.of(array)} | outputs


def _capture(values: Mapping[str, Value]) -> dict[str, Captured]:
    """Return the bytes of the values that are arrays."""
    return {name: Captured.of(value) for name, value in values.items() if isinstance(value, np.ndarray)}


def _compare_constants(lowered: LoweredNode, values: Mapping[str, TensorBytes]) -> Comparison:
    """Compare the constants of a folded node with the values of a run. Skip nodes in bodies and `_INEXACT` types."""
    node = lowered.node
    assert isinstance(node, Folded)
    # Not strict, because a node in a branch that is never taken has no constants.
    folded = [(name, data) for name, data in zip(node.outputs, node.constants, strict=False) if name in values]
    # The run has no values of bodies. For floats, folding may use another order of operations than the run.
    if node.scope or not folded or node.element in _INEXACT:
        return Comparison(lowered, "", "folded")
    for name, data in folded:
        computed = bytes(values[name].data)
        if computed != data:
            problem = f"output {name!r} was folded to {data.hex()}, but {REFERENCE} computes {computed.hex()}"
            return Comparison(lowered, "folding", "mismatch", f"{node.label}: {problem}.")
    return Comparison(lowered, "folding", "equal", "", sum(len(data) for _, data in folded))
