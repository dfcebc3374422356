"""Comparing: one executor computes the slicing nodes inside the whole model, others run what they were lowered to."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_ops.compare import onnxruntime_cpu, onnxruntime_dml
from onnx_ops.compare.defaults import run_with_other_values
from onnx_ops.compare.inputs import random_array, run_with_inputs
from onnx_ops.compare.one_node import one_node
from onnx_ops.compare.onnxruntime_cpu import Captured
from onnx_ops.io import from_proto, read_proto
from onnx_ops.lowering import lower
from onnx_ops.propagate import LARGE_BYTES
from onnx_ops.resolve_shapes import inline_functions, name_left_out_outputs
from onnx_ops.strided_slice_op import embed_function
from sliceport.directml.elements import ELEMENT_BITS
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.operators import Operator
from sliceport.directml.program import Call, LoweredNode, Program
from sliceport.engines import directml, dml_emulator
from sliceport.errors import ModelError, SliceportError, UsageError, unknown_name
from sliceport.report.shell import input_shapes_option, join
from sliceport.slicing.node import SlicingNode

Bytes = npt.NDArray[np.uint8]
Status = Literal["equal", "mismatch", "error", "refused", "folded"]

REFERENCE = onnxruntime_cpu.NAME
INEXACT = frozenset(
    dtype.name for dtype in ir.DataType if dtype.is_floating_point() or dtype.name.startswith("COMPLEX")
)
OPERATOR_EXECUTORS: dict[str, Callable[[Operator, Bytes], list[Bytes]]] = {
    dml_emulator.NAME: dml_emulator.run,
    directml.NAME: directml.run,
}
"""Those that run what a node was lowered to."""
NODE_EXECUTORS: dict[str, Callable[[SlicingNode, Bytes], dict[str, Bytes]]] = {
    onnxruntime_dml.NAME: onnxruntime_dml.run,
}
"""Those that run the node itself."""
EXECUTORS = (REFERENCE, *OPERATOR_EXECUTORS, *NODE_EXECUTORS)
DEFAULT_EXECUTORS = (REFERENCE, dml_emulator.NAME)
_MOST_RANDOM = 100


@dataclass(frozen=True)
class Comparison:
    """One node, by one executor.

    Attributes:
        lowered: The node and what it was lowered to.
        executor: Who ran that; empty where nothing was to be run.
        status: `equal`, `mismatch`, `error` (the executor failed), `refused` (there was nothing to run) or `folded`
            (a constant that is not compared: of floats, which arithmetic before it may round differently; in a control
            flow body; or never computed).
        detail: One sentence on anything but `equal`.
        bytes_compared: Bytes of output that were compared.
        alone: Whether the node ran by itself on random data, because it lies inside a control flow body.
    """

    lowered: LoweredNode
    executor: str
    status: Status
    detail: str = ""
    bytes_compared: int = 0
    alone: bool = False


@dataclass(frozen=True)
class Report:
    """All comparisons of one model.

    Attributes:
        comparisons: One a node and executor, in the model's order.
        program: What the nodes were lowered to.
        reference: The executor that computed the expected values, with its version.
        command: A command that runs the same again.
        notes: What was not tried, a sentence each.
    """

    comparisons: tuple[Comparison, ...]
    program: Program
    reference: str
    command: str
    notes: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether everything was lowered or folded, and all bytes were equal."""
        return all(c.status in ("equal", "folded") for c in self.comparisons)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        counts = dict.fromkeys(("equal", "mismatch", "error", "refused", "folded"), 0)
        for comparison in self.comparisons:
            counts[comparison.status] += 1
        return {
            "schema_version": 1,
            "feature_level": str(self.program.feature_level),
            "reference": self.reference,
            "summary": {"total": len(self.comparisons)} | counts,
            "command": self.command,
            "notes": list(self.notes),
            "comparisons": [
                {
                    "name": c.lowered.node.name,
                    "op_type": c.lowered.node.op_type,
                    "scope": list(c.lowered.node.scope),
                    "verdict": c.lowered.verdict,
                    "executor": c.executor,
                    "status": c.status,
                    "detail": c.detail,
                    "bytes_compared": c.bytes_compared,
                    "alone": c.alone,
                }
                for c in self.comparisons
            ],
        }


def compare(
    model: str | os.PathLike[str],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, npt.NDArray[Any]] | None = None,
    executors: Sequence[str] = DEFAULT_EXECUTORS,
    feature_level: str | FeatureLevel = LATEST,
    seed: int = 0,
) -> Report:
    """Run the slicing nodes of a model by several executors and compare their outputs bit for bit.

    onnxruntime's CPU provider runs the whole model, which gives each node its real input and expected outputs; a model
    whose inputs have defaults twice, with them and with other values. A node inside an If, Loop or Scan body runs
    alone, on random data.

    Args:
        model: The model's file.
        input_shapes: Sizes for inputs whose shape the model leaves open, by name.
        inputs: Arrays for inputs; random ones that fit are made for the others.
        executors: Who takes part; `onnxruntime-cpu` always does.
        feature_level: The DirectML feature level to lower for.
        seed: For the random inputs.

    Raises:
        UsageError: An executor is not known or an input does not fit.
        ModelError: The model cannot be read or onnxruntime cannot run it.
        MissingExtra: onnxruntime is not installed.
    """
    chosen = _chosen(executors)
    arrays = dict(inputs or {})
    shapes = {name: array.shape for name, array in arrays.items()} | dict(input_shapes or {})
    reference = f"{REFERENCE} {onnxruntime_cpu.version()}"
    program = lower(model, input_shapes=shapes, feature_level=feature_level)
    runs, notes = _runs(model, program, shapes, arrays, seed)
    comparisons: list[Comparison] = []
    for lowered in program.nodes:
        if lowered.reason is not None:
            comparisons.append(Comparison(lowered, "", "refused", lowered.reason.message))
        elif lowered.node.scope and lowered.verdict != "folded":
            known = _alone(lowered, seed)
            comparisons += [compare_node(lowered, name, known, {}, alone=True) for name in chosen]
        else:
            comparisons += _compare_in_runs(lowered, chosen, runs)
    command = command_line(
        os.fspath(model), input_shapes or {}, program.feature_level, seed, (REFERENCE, *chosen), DEFAULT_EXECUTORS
    )
    command += " (and the same --inputs)" if arrays else ""
    return Report(tuple(comparisons), program, reference, command, notes)


@dataclass(frozen=True)
class _ModelRun:
    """What the slicing nodes of the main graph read and write in a run of the whole model.

    Attributes:
        values: By name.
        label: What is special about its inputs; empty where nothing is.
        done: What operators gave before, by executor and number.
    """

    values: dict[str, Captured]
    label: str = ""
    done: dict[tuple[str, int], list[Bytes]] = field(default_factory=dict)


def _compare_in_runs(lowered: LoweredNode, executors: Sequence[str], runs: Sequence[_ModelRun]) -> list[Comparison]:
    """A node by each executor: what was found in the first run, or in the first in which something is wrong."""
    if lowered.verdict == "folded":
        by_run = [[_compare_constants(lowered, run.values)] for run in runs]
    else:
        by_run = [[compare_node(lowered, name, run.values, run.done) for name in executors] for run in runs]
    chosen = []
    for comparisons in zip(*by_run, strict=True):
        wrong = (i for i, one in enumerate(comparisons) if one.status not in ("equal", "folded"))
        i = next(wrong, 0)
        chosen.append(replace(comparisons[i], detail=comparisons[i].detail + runs[i].label))
    return chosen


def _chosen(executors: Sequence[str]) -> list[str]:
    for name in executors:
        if name not in EXECUTORS:
            raise unknown_name("executor", name, EXECUTORS)
    chosen = [name for name in executors if name != REFERENCE]
    if not chosen:
        raise UsageError(
            f"nothing to compare {REFERENCE!r} with; name another executor: {', '.join(OPERATOR_EXECUTORS)}."
        )
    return chosen


def _runs(
    path: str | os.PathLike[str],
    program: Program,
    shapes: Mapping[str, Sequence[int]],
    given: Mapping[str, npt.NDArray[Any]],
    seed: int,
) -> tuple[list[_ModelRun], tuple[str, ...]]:
    """The runs of the whole model: with the defaults of its inputs, and with other values; and what was not tried."""
    folder = os.path.dirname(os.path.abspath(path))
    model = from_proto(read_proto(path), folder)
    inline_functions(model)
    nodes = [n.node for n in program.nodes if n.verdict != "refused" and not n.node.scope]
    if not nodes:
        return [_ModelRun({})], ()
    made = {output.name for node in model.graph for output in node.outputs}
    read = {node.input for node in nodes if not node.folded}
    names = sorted((read | {name for node in nodes for name in node.outputs if name}) & made)
    _load_small_tensors(model)
    name_left_out_outputs(model)
    embed_function(model)
    proto = ir.serde.serialize_model(model)
    inputs, captured = run_with_inputs(proto, model, shapes, given, seed, names, folder)
    runs = [_ModelRun(_with_what_is_given(model, captured, inputs, read))]

    def run(arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Captured]:
        return onnxruntime_cpu.capture(proto, arrays, names, folder)

    others = run_with_other_values(run, model, inputs)
    if others.result is not None:
        values = _with_what_is_given(model, others.result, others.inputs, read)
        runs.append(_ModelRun(values, f" This is{others.label}."))
    return runs, others.notes


def _with_what_is_given(
    model: ir.Model, captured: dict[str, Captured], inputs: Mapping[str, npt.NDArray[Any]], read: set[str]
) -> dict[str, Captured]:
    """The values that nodes computed, and those among the ones with these names that inputs and initializers are."""
    values = captured | {name: Captured.of(inputs[name]) for name in read & inputs.keys()}
    for name in read - values.keys():
        tensor = model.graph.initializers[name].const_value
        if tensor is None:
            raise ModelError(f"initializer {name!r} has no data.")
        try:
            array = tensor.numpy()
        except Exception as error:
            raise ModelError(f"the data of initializer {name!r} cannot be read ({error}).") from None
        values[name] = Captured.of(array)
    return values


def _load_small_tensors(model: ir.Model) -> None:
    """Put small external tensors into the model: onnxruntime reads parameters before it opens data files."""
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes <= LARGE_BYTES:
            try:
                value.const_value = ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=value.name)
            except Exception as error:
                raise ModelError(f"the data of initializer {value.name!r} cannot be read ({error}).") from None


def _alone(lowered: LoweredNode, seed: int) -> dict[str, Captured]:
    """The node's input and outputs when it runs by itself, as it is written, on random data."""
    node = lowered.node
    array = random_array(
        ir.DataType[node.element], node.cuts[0].region.input_shape, np.random.default_rng(seed), _MOST_RANDOM
    )
    names = [f"out{i}" for i in range(len(node.cuts))]
    captured = onnxruntime_cpu.capture(one_node(node, names), {"data": array}, names)
    return {node.input: Captured.of(array)} | {cut.output: captured[n] for cut, n in zip(node.cuts, names, strict=True)}


def _compare_constants(lowered: LoweredNode, values: Mapping[str, Captured]) -> Comparison:
    """A folded node: the constants against what the model computes."""
    node = lowered.node
    known = [(name, data) for name, data in zip(node.outputs, node.constants, strict=False) if name in values]
    if node.scope or not known or node.element in INEXACT:
        return Comparison(lowered, "", "folded")
    for name, data in known:
        if bytes(values[name].data) != data:
            message = f"{node.label}: output {name!r} was folded to {data.hex()}, {REFERENCE} computes "
            message += f"{bytes(values[name].data).hex()}."
            return Comparison(lowered, "folding", "mismatch", message)
    return Comparison(lowered, "folding", "equal", "", sum(len(data) for _, data in known))


def compare_node(
    lowered: LoweredNode,
    executor: str,
    known: Mapping[str, Captured],
    done: dict[tuple[str, int], list[Bytes]],
    alone: bool = False,
    *,
    reference: str = REFERENCE,
    node_executors: Mapping[str, Callable[[SlicingNode, Bytes], dict[str, Bytes]]] = NODE_EXECUTORS,
) -> Comparison:
    """One node by one executor.

    Args:
        lowered: The node and what it was lowered to.
        executor: One of `OPERATOR_EXECUTORS`, or of `node_executors`.
        known: The values that operators are bound to, and the outputs that are expected, by name.
        done: What operators gave before, by executor and number; it is filled.
        alone: Whether the node runs by itself on random data.
        reference: Who computed what is expected.
        node_executors: Those that run the node itself.
    """
    node = lowered.node
    try:
        if executor in node_executors:
            got = node_executors[executor](node, known[node.input].data)
        else:
            got = _outputs(lowered, executor, known, done)
    except SliceportError as error:
        return Comparison(lowered, executor, "error", f"{node.label}: {executor} failed: {error}", alone=alone)
    compared = 0
    for cut in node.cuts:
        if not cut.output or (cut.output not in got and not cut.used):
            continue
        expected = known[cut.output]
        detail = _difference(expected, got.get(cut.output), cut.region.output_shape, ELEMENT_BITS[node.element])
        if detail:
            message = f"{node.label}: output {cut.output!r} by {executor} differs from {reference}: {detail}"
            return Comparison(lowered, executor, "mismatch", message, compared, alone)
        compared += expected.data.size
    return Comparison(lowered, executor, "equal", "", compared, alone)


def _outputs(
    lowered: LoweredNode, executor: str, known: Mapping[str, Captured], done: dict[tuple[str, int], list[Bytes]]
) -> dict[str, Bytes]:
    """The bytes of each output of a node, by what it was lowered to."""
    got: dict[str, Bytes] = {cut.output: np.zeros(0, np.uint8) for cut in lowered.node.cuts if cut.region.is_empty}
    for alias in lowered.aliases:
        got[alias.output] = known[alias.value].data[alias.byte_offset :]
    for call in lowered.calls:
        if (executor, call.id) not in done:
            done[executor, call.id] = _run_call(call, executor, known)
        got |= {b.value: data for b, data in zip(call.outputs, done[executor, call.id], strict=True)}
    return got


def _run_call(call: Call, executor: str, known: Mapping[str, Captured]) -> list[Bytes]:
    return OPERATOR_EXECUTORS[executor](call.operator, known[call.input.value].data[call.input.byte_offset :])


def _difference(expected: Captured, got: Bytes | None, shape: tuple[int, ...], bits: int) -> str:
    """Where an output differs; empty when it does not. Buffers may be longer than the tensor, to a multiple of 4."""
    if expected.shape != shape:
        return f"its shape is {list(shape)} for {list(expected.shape)}."
    if got is None:
        return "it was not computed."
    size = expected.data.size
    if got.size < size or got.size >= size + 4:
        return f"it has {got.size} bytes for {size}."
    unequal = np.flatnonzero(expected.data != got[:size])
    if not unequal.size:
        return ""
    width = max(bits // 8, 1)
    element = int(unequal[0]) // width
    index = [int(i) for i in np.unravel_index(element * (8 // min(bits, 8)), shape)]
    want, have = (bytes(data[element * width : (element + 1) * width]).hex() for data in (expected.data, got))
    return f"first at index {index}, bytes {have} for {want} ({unequal.size} of {size} bytes differ)."


def command_line(
    path: str,
    shapes: Mapping[str, Sequence[int]],
    level: FeatureLevel,
    seed: int,
    executors: Sequence[str],
    usual: Sequence[str],
) -> str:
    """The command that runs the same again."""
    file = os.path.join(os.curdir, path) if path.startswith("-") else path
    words = ["sliceport", "compare", file, "--seed", str(seed), "--feature-level", str(level)]
    words += input_shapes_option(shapes)
    if tuple(executors) != tuple(usual):
        words += ["--executors", ",".join(executors)]
    return join(words)
