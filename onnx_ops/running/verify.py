"""Verification of a rewritten model: before and after on the same engine and the same inputs, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx

from onnx_ops.infer.exact import MOVING
from onnx_ops.model.read import read_any, read_checked
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.custom_nodes import leave_out_custom_nodes
from onnx_ops.running.defaults import run_with_other_values
from onnx_ops.running.onnx_graph import OnnxGraph
from onnx_ops.running.runnable import Runnable, prepare_to_run, read_complete_model
from sliceport.arguments import read_inputs, read_seed, read_shapes
from sliceport.engines.engine import Array, Value
from sliceport.engines.failure import Failure
from sliceport.engines.side import Side
from sliceport.errors import ModelError
from sliceport.search.diff import name_deciding_node
from sliceport.search.graph import find_ancestors, find_static_values, only_moves
from sliceport.verdict.difference import EXACT, Tolerance, rounding_tolerance_of, tolerance_of
from sliceport.verdict.verification import Trial, Verification, Verifier

OPTIMIZED = "on onnxruntime's CPU provider with graph optimisation"
UNOPTIMIZED = "on onnxruntime's CPU provider without graph optimisation"
_HALVES = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
_HALF_ROUNDING = 1e-2
"""The accepted difference if floats of 16 bits are rounded at other places, as a fraction of the largest element."""
_WITHOUT_CUSTOM_NODES = (
    "compared without the nodes of custom operators, on random values in place of their outputs, "
    "because onnxruntime runs them only with --custom-ops LIBRARY"
)
_EQUAL = "all outputs are bit-equal on onnxruntime's CPU provider"
_EQUAL_UP_TO_ROUNDING = "all outputs are equal on onnxruntime's CPU provider, floats up to rounding"


def verify_rewriting(
    before: Any,
    after: Any,
    *,
    data_folder: str | os.PathLike[str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    accepts_rounding: bool = False,
    target: Side | None = None,
) -> Verification:
    """Compare a model with its changed form, on onnxruntime's CPU provider, bit for bit.

    Both run with several seeds, several sizes of open axes, and other values than the defaults of inputs. They run
    without graph optimisation and, if the original model runs with it, a second time with it. In the second runs,
    floats may differ by rounding, because fusions round differently. If the names of inputs or outputs or the element
    types of inputs differ, only this difference is returned, and nothing runs.

    The `target` of the change, onnxruntime's DirectML provider, runs the changed model, too, with the first inputs. It
    must compute what the original model computes on the CPU provider, or at least nothing that it does not compute as
    wrongly for the original.

    If the original model does not run because of custom operators, the models are compared without their nodes.

    Args:
        before: The original model; see `read_any`.
        after: The rewritten model; see `read_any`.
        data_folder: The folder of the external data of the file `after`, if it is not the folder of that file.
        input_shapes: Sizes for inputs whose shape is open, by name.
        inputs: Arrays for inputs. The other inputs get random arrays that fit.
        seed: The first seed of the random inputs.
        accepts_rounding: Whether outputs that depend on a MatMul or Einsum may differ by rounding in the runs without
            graph optimisation, too.
        target: The engine that the model was changed for; None to compare on the CPU provider only.

    Raises:
        UsageError: An argument does not fit the original model.
        ModelError: A model cannot be read, or onnxruntime does not run the original model.
        NotVerified: The original model does not compute the same twice, or an output cannot be compared.
        MissingExtra: onnxruntime is not installed or cannot be loaded.
        MemoryError: onnxruntime lacks memory.
        ChildLost: The machine ended the process of a run.
    """
    given, seed = read_inputs(inputs), read_seed(seed)
    shapes = read_shapes(given, input_shapes)
    checked = [read_any(before), read_any(after) if data_folder is None else read_checked(after, data_folder)]
    original, rewritten = map(prepare_to_run, checked)
    changed = _compare_interfaces(original, rewritten)
    if changed:
        return Verification((), changed)
    reference, optimized = onnxruntime_cpu.side(), onnxruntime_cpu.side("all")
    graph = OnnxGraph(original.proto, original.model, original.data_folder)
    verifier = Verifier(original, rewritten, reference, fixed=find_static_values(graph))
    try:
        runs = verifier.make_runs(shapes, given, seed, tries_empty=True)
    except ModelError:
        pair = [leave_out_custom_nodes(each) for each in checked]
        if None in pair:
            raise
        result = verify_rewriting(
            *pair, input_shapes=input_shapes, inputs=inputs, seed=seed, accepts_rounding=accepts_rounding, target=target
        )
        return replace(result, notes=(_WITHOUT_CUSTOM_NODES, *result.notes))
    other_run, notes = run_with_other_values(original, reference, runs[0].inputs)
    verifier.notes.extend(notes)
    if other_run is not None:
        # The first run stays first, because it decides which trials take part. The run with other values comes next,
        # before other seeds and sizes, because the comparison ends at the first run with a difference.
        runs.insert(1, other_run)
    moved = frozenset(name for name in graph.outputs if only_moves(graph, range(len(graph.nodes)), name))
    trial = Trial(UNOPTIMIZED, reference)
    halves = _find_half_precision(original.proto)
    if halves:
        trial = replace(trial, tolerance_of=_round_to_half, exact=_exclude(graph, halves))
    elif accepts_rounding:
        trial = replace(trial, tolerance_of=rounding_tolerance_of, exact=_exclude(graph, _find_sums(original.proto)))
    trials = [trial, Trial(OPTIMIZED, optimized, _round_to_half if halves else _tolerance_as_expected, moved)]
    if target is not None:
        trials.append(Trial(f"on {target}", target, _tolerance_as_expected, moved, is_target=True, is_slow=True))
    result = verifier.compare(runs, trials)
    if result.is_equal:
        is_rounded = any(where == UNOPTIMIZED for where, _ in verifier.noted)
        return replace(result, equality=_EQUAL_UP_TO_ROUNDING if is_rounded else _EQUAL)
    complete = (read_complete_model(before), read_complete_model(after, data_folder))
    first, second = (OnnxGraph(each.proto, each.model, each.data_folder) for each in complete)
    return name_deciding_node(result, first, second, reference)


def _tolerance_as_expected(expected: Value, _: Value) -> Tolerance:
    """Return the default tolerance of an expected value."""
    return tolerance_of(expected)


def _round_to_half(expected: Value, actual: Value) -> Tolerance:
    """Return the tolerance for rounding to floats of 16 bits."""
    tolerance = rounding_tolerance_of(expected, actual, _HALF_ROUNDING)
    return tolerance if tolerance == EXACT else replace(tolerance, share=tolerance_of(expected).share)


def _find_half_precision(proto: onnx.ModelProto) -> set[str]:
    """Return the outputs of the nodes of the main graph that compute with floats of 16 bits.

    onnxruntime's CPU provider computes most operators on such floats in 32 bits, between Casts that it inserts. Which
    values are rounded to 16 bits depends on the other nodes and outputs of the graph.
    """
    computed: set[str] = set()
    halves = {tensor.name for tensor in proto.graph.initializer if tensor.data_type in _HALVES}
    halves |= {value.name for value in proto.graph.input if value.type.tensor_type.elem_type in _HALVES}
    for node in proto.graph.node:
        types = [one.t.data_type or one.i for one in node.attribute if one.name in ("to", "value")]
        reads_halves, is_cast = not halves.isdisjoint(node.input), node.op_type == "Cast"
        if not _HALVES.isdisjoint(types) or (reads_halves and not is_cast):
            halves.update(node.output)
        if reads_halves and not is_cast and node.op_type not in MOVING:
            computed.update(node.output)
    return computed


def _find_sums(proto: onnx.ModelProto) -> set[str]:
    """Return the outputs of each MatMul, Einsum, function, and node with a body."""
    op_types = {"MatMul", "Einsum", *(function.name for function in proto.functions)}
    return {
        output
        for node in proto.graph.node
        if node.op_type in op_types or any(attribute.HasField("g") for attribute in node.attribute)
        for output in node.output
    }


def _exclude(graph: OnnxGraph, inexact: set[str]) -> frozenset[str]:
    """Return the outputs that depend on none of the values `inexact`."""
    writes = {name: {w for i in find_ancestors(graph, [name]) for w in graph.nodes[i].writes} for name in graph.outputs}
    return frozenset(name for name in graph.outputs if inexact.isdisjoint(writes[name]))


def _compare_interfaces(original: Runnable, rewritten: Runnable) -> tuple[Failure, ...]:
    """Compare the names of inputs and outputs, in order, and the element types of inputs.

    Return a tuple of at most one difference: in the inputs or, if these agree, in the outputs.
    """
    graphs = original.proto.graph, rewritten.proto.graph
    inputs = [[(value.name, value.type.tensor_type.elem_type) for value in graph.input] for graph in graphs]
    outputs = [[value.name for value in graph.output] for graph in graphs]
    for kind, (old, new) in (("inputs", inputs), ("outputs", outputs)):
        if old != new:
            return (Failure("structure", "", f"the rewritten model has {kind} {new} instead of {old}."),)
    return ()
