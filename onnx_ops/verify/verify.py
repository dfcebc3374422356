"""Verification of a rewritten model: before and after on the same engine and the same inputs, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import onnx_ir as ir

from onnx_ops.model.io import write_model
from onnx_ops.model.read import CheckedModel, read_any, read_checked
from onnx_ops.runtime import onnxruntime_cpu
from onnx_ops.verify.defaults import run_with_other_values
from onnx_ops.verify.onnx_graph import OnnxGraph
from onnx_ops.verify.runnable import Runnable, prepare_to_run
from sliceport.arguments import read_input_shapes, read_inputs, read_seed
from sliceport.engines.engine import Array
from sliceport.search.graph import find_ancestors
from sliceport.verdict.difference import rounding_tolerance_of, tolerance_of
from sliceport.verdict.verification import Difference, Trial, Verification, Verifier, verify_or_refuse

VerificationT = TypeVar("VerificationT", bound=Verification)
OPTIMIZED = "on onnxruntime's CPU provider with graph optimisation"
UNOPTIMIZED = "on onnxruntime's CPU provider without graph optimisation"
_EQUAL_UP_TO_ROUNDING = "all outputs are equal on onnxruntime's CPU provider, floats up to rounding"


def write_verified(
    model: ir.Model,
    path: str | os.PathLike[str],
    verify: Callable[..., VerificationT],
    *,
    source: CheckedModel,
    overwrite: bool = False,
    **options: Any,
) -> VerificationT:
    """Write a model, keep the file only if it passes a verification, and return the verification.

    `verify` is `verify_rewriting` or a similar function. It compares the original model, `source`, with the new file.

    Raises:
        UsageError, ModelError: See `write_model`.
        NotVerified: The verification came to no result, so the file was not kept.
    """
    results: list[VerificationT] = []  # a list, because `accept` returns only whether to keep the file

    def accept(file: Path, data_folder: Path) -> bool:
        results.append(verify_or_refuse(lambda: verify(source, file, data_folder=data_folder, **options)))
        return results[0].is_equal

    write_model(model, path, overwrite=overwrite, accept=accept)
    return results[0]


def verify_rewriting(
    before: Any,
    after: str | os.PathLike[str],
    *,
    data_folder: str | os.PathLike[str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    accepts_rounding: bool = False,
) -> Verification:
    """Compare a model with its rewritten form, on onnxruntime's CPU provider, bit for bit.

    Both run with several seeds, several sizes of open axes, and other values than the defaults of inputs. They run
    without graph optimisation and, if the original model runs with it, a second time with it. In the second runs,
    floats may differ by rounding, because fusions round differently. If the names of inputs or outputs or the element
    types of inputs differ, only this difference is returned, and nothing runs.

    Args:
        before: The original model; see `read_any`.
        after: The file of the rewritten model.
        data_folder: The folder of the external data of `after`, if it is not the folder of that file.
        input_shapes: Sizes for inputs whose shape is open, by name.
        inputs: Arrays for inputs. The other inputs get random arrays that fit.
        seed: The first seed of the random inputs.
        accepts_rounding: Whether outputs that depend on a MatMul or Einsum may differ by rounding in the runs without
            graph optimisation, too.

    Raises:
        UsageError: An argument does not fit the original model.
        ModelError: A model cannot be read, or onnxruntime does not run the original model.
        NotVerified: The original model does not compute the same twice, or an output cannot be compared.
        MissingExtra: onnxruntime is not installed or cannot be loaded.
        MemoryError: onnxruntime lacks memory.
        ChildLost: The machine ended the process of a run.
    """
    given, seed = read_inputs(inputs), read_seed(seed)
    shapes = {name: array.shape for name, array in given.items()} | read_input_shapes(input_shapes)
    original, rewritten = prepare_to_run(read_any(before)), prepare_to_run(read_checked(after, data_folder))
    changed = _compare_interfaces(original, rewritten)
    if changed:
        return Verification((), changed)
    reference, optimized = onnxruntime_cpu.side(), onnxruntime_cpu.side("all")
    verifier = Verifier(original, rewritten, reference)
    runs = verifier.make_runs(shapes, given, seed, tries_empty=True)
    other_run, notes = run_with_other_values(original, reference, runs[0].inputs)
    verifier.notes.extend(notes)
    if other_run is not None:
        # The first run stays first, because it decides which trials take part. The run with other values comes next,
        # before other seeds and sizes, because the comparison ends at the first run with a difference.
        runs.insert(1, other_run)
    trial = Trial(UNOPTIMIZED, reference)
    if accepts_rounding:
        trial = replace(trial, tolerance_of=rounding_tolerance_of, exact=_find_exact_outputs(original))
    optimized_trial = Trial(OPTIMIZED, optimized, optimized, lambda expected, _: tolerance_of(expected))
    result = verifier.compare(runs, (trial, optimized_trial))
    return replace(result, equality=_EQUAL_UP_TO_ROUNDING) if accepts_rounding else result


def _find_exact_outputs(model: Runnable) -> frozenset[str]:
    """Return the outputs that depend on no MatMul, Einsum, function, or node with a body."""
    graph = OnnxGraph(model.proto, model.model, model.data_folder)
    op_types = {"MatMul", "Einsum", *(function.name for function in model.proto.functions)}
    inexact = {
        output
        for node in model.proto.graph.node
        if node.op_type in op_types or any(attribute.HasField("g") for attribute in node.attribute)
        for output in node.output
    }
    writes = {name: {w for i in find_ancestors(graph, [name]) for w in graph.nodes[i].writes} for name in graph.outputs}
    return frozenset(name for name in graph.outputs if inexact.isdisjoint(writes[name]))


def _compare_interfaces(original: Runnable, rewritten: Runnable) -> tuple[Difference, ...]:
    """Compare the names of inputs and outputs, in order, and the element types of inputs.

    Return a tuple of at most one difference: in the inputs or, if these agree, in the outputs.
    """

    def inputs(runnable: Runnable) -> list[tuple[str, int]]:
        return [(value.name, value.type.tensor_type.elem_type) for value in runnable.proto.graph.input]

    def outputs(runnable: Runnable) -> list[str]:
        return [value.name for value in runnable.proto.graph.output]

    for kind, listed in (("inputs", inputs), ("outputs", outputs)):
        old, new = listed(original), listed(rewritten)
        if old != new:
            return (Difference("", f"the rewritten model has {kind} {new} instead of {old}."),)
    return ()
