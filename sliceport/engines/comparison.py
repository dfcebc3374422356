"""The comparison of the outputs that engines compute for slicing nodes with the expected outputs, bit for bit."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sliceport.arguments import is_path
from sliceport.defects.defect import Defect
from sliceport.directml.elements import ELEMENT_BITS
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.lowered import Call, LoweredNode
from sliceport.directml.program import Program
from sliceport.engines.engine import Engine, OperatorEngine, OperatorValidator, SingleNode, TensorBytes
from sliceport.errors import SliceportError
from sliceport.sandbox.child_process import ChildLost
from sliceport.wording import count_by_kind
from sliceport.wording.html_table import html_table
from sliceport.wording.shell import input_shapes_option, join

Bytes = npt.NDArray[np.uint8]
Status = Literal["equal", "mismatch", "error", "refused", "folded", "accepted"]


@dataclass(frozen=True)
class Comparison:
    """The result of comparing one node, run by one engine.

    Attributes:
        lowered: The node and its operators.
        executor: The name of the engine; empty if there was nothing to run.
        status: `equal`, `mismatch`, `error` (the engine failed), `refused` (nothing ran, for the reason in `detail`),
            `folded` (a constant that is not compared, because it contains floats that arithmetic may round differently,
            is inside a control flow body, or was not computed) or `accepted` (by a validator, which runs nothing).
        detail: One sentence; empty for `equal` and `folded`. For `accepted`, the name of the accepting library.
        bytes_compared: Number of output bytes that were compared.
        alone: Whether the node ran outside its model on random data, because it is inside a control flow body.
        defects: The known defects that explain the result.
    """

    lowered: LoweredNode
    executor: str
    status: Status
    detail: str = ""
    bytes_compared: int = 0
    alone: bool = False
    defects: tuple[Defect, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to report."""
        return self.status in ("equal", "folded", "accepted")


@dataclass(frozen=True)
class Report:
    """All comparisons of one model.

    Attributes:
        comparisons: One for each node and each engine that takes part, in the model's order, and one for each node that
            no engine runs.
        program: The lowered program of the model.
        reference: The engine that computed the expected values, with its version.
        command: The command that repeats the comparison.
        notes: Sentences about what was not compared.
    """

    comparisons: tuple[Comparison, ...]
    program: Program
    reference: str
    command: str
    notes: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether every node was lowered or folded, all bytes were equal, and every operator was accepted."""
        return all(comparison.is_clean for comparison in self.comparisons)

    def __repr__(self) -> str:
        return f"<Report: {count_by_kind(self._count(), 'comparison')}>"

    def _repr_html_(self) -> str:
        rows = [(each.lowered.node.name, each.executor, each.status, each.detail) for each in self.comparisons]
        return html_table(count_by_kind(self._count(), "comparison"), ("node", "executor", "status", "detail"), rows)

    def _count(self) -> dict[str, int]:
        """Return the number of comparisons by status. A status without comparisons counts 0."""
        counts = Counter(comparison.status for comparison in self.comparisons)
        return {status: counts[status] for status in get_args(Status)}

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "schema_version": 1,
            "feature_level": str(self.program.feature_level),
            "reference": self.reference,
            "summary": {"total": len(self.comparisons)} | self._count(),
            "command": self.command,
            "notes": list(self.notes),
            "comparisons": [
                {
                    "name": comparison.lowered.node.name,
                    "op_type": comparison.lowered.node.op_type,
                    "scope": list(comparison.lowered.node.scope),
                    "verdict": comparison.lowered.verdict,
                    "executor": comparison.executor,
                    "status": comparison.status,
                    "detail": comparison.detail,
                    "bytes_compared": comparison.bytes_compared,
                    "alone": comparison.alone,
                    "defects": [defect.id for defect in comparison.defects],
                }
                for comparison in self.comparisons
            ],
        }


@dataclass(frozen=True)
class ReferenceRun:
    """A run that computed the expected outputs of nodes.

    Attributes:
        reference: The name of the engine.
        values: The tensors that nodes or their operators read, and the expected outputs, by name.
        alone: Whether the run was of one node outside its model, on random data.
        label: A space and a sentence about the inputs of the run, or an empty string.
        cache: Outputs of calls by the name of the engine and the number of the call. `compare_node` adds to the cache,
            because several nodes may share a call.
    """

    reference: str
    values: Mapping[str, TensorBytes]
    alone: bool = False
    label: str = ""
    cache: dict[tuple[str, int], list[Bytes]] = field(default_factory=dict)


def compare_node(lowered: LoweredNode, engine: Engine, run: ReferenceRun, model: Any = None) -> Comparison:
    """Run one node on one engine, and compare its outputs with the expected outputs.

    A validator runs nothing: it accepts or refuses the operators of the node.

    Args:
        lowered: The node and its operators.
        engine: The engine.
        run: The run that computed the expected outputs.
        model: A model of the node alone, in its format; see `SingleNode`. Only a `NodeEngine` needs it.

    Raises:
        MemoryError: The engine lacks memory.
        ChildLost: The machine ended the process of the run, or did not start it.
    """
    node = lowered.resolved
    try:
        if isinstance(engine, OperatorValidator):
            libraries = [engine.validate(call.operator) for call in lowered.calls]  # all are the same
            # `takes_part` leaves validators out if the node has no calls.
            return Comparison(lowered, engine.name, "accepted", libraries[0], alone=run.alone)
        if isinstance(engine, OperatorEngine):
            actual = _run_operators(lowered, engine, run)
        else:
            outputs = engine.run_node(SingleNode(lowered, model), run.values[node.input].data)
            actual = {cut.output: data for cut, data in zip(node.cuts, outputs, strict=True)}
    except (MemoryError, ChildLost):  # the machine is at fault, not the node
        raise
    except Exception as error:
        reason = str(error)
        if not isinstance(error, SliceportError):  # an engine of another package may raise anything
            reason = f"{type(error).__name__}: {' '.join(reason.split())}"
        detail = f"{node.label}: {engine.name} failed: {reason}"
        return Comparison(lowered, engine.name, "error", detail, alone=run.alone)
    byte_count = 0
    for cut in node.cuts:  # one for each output
        if not cut.output or (cut.output not in actual and not cut.used):
            continue  # the output has no name, or the engine left it out and nothing reads it
        expected = run.values[cut.output]
        bits = ELEMENT_BITS.get(node.element, 8)  # strings have no bits, but only empty slices of them are compared
        detail = _describe_difference(expected, actual.get(cut.output), cut.region.output_shape, bits)
        if detail:
            message = f"{node.label}: output {cut.output!r} by {engine.name} differs from {run.reference}: {detail}"
            return Comparison(lowered, engine.name, "mismatch", message, bytes_compared=byte_count, alone=run.alone)
        byte_count += expected.data.size
    return Comparison(lowered, engine.name, "equal", bytes_compared=byte_count, alone=run.alone)


def takes_part(engine: Engine, lowered: LoweredNode) -> bool:
    """Return whether an engine can be compared on a node. A validator needs DirectML operators."""
    return bool(lowered.calls) or not isinstance(engine, OperatorValidator)


def add_defects(comparison: Comparison, engine: str, defects: Sequence[Defect]) -> Comparison:
    """Return a comparison with the known defects that explain it, which are added to its `detail` and `defects`.

    `engine` is the name of the engine that has the defects. Without defects, the comparison is unchanged.
    """
    if not defects:
        return comparison
    reasons = "; ".join(f"{defect.id} ({defect.reason})" for defect in defects)
    detail = f"{comparison.detail.removesuffix('.')}; this is a known defect of {engine}: {reasons}."
    return replace(comparison, detail=detail, defects=(*comparison.defects, *defects))


def _run_operators(lowered: LoweredNode, engine: OperatorEngine, run: ReferenceRun) -> dict[str, Bytes]:
    """Run the calls of a node that are not in `run.cache`, and return the bytes of each output of the node by name."""
    cuts = lowered.resolved.cuts
    # Empty outputs and aliases need no operator. Comparisons use no views, so an alias is a whole tensor.
    actual: dict[str, Bytes] = {cut.output: np.zeros(0, np.uint8) for cut in cuts if cut.region.is_empty}
    for alias in lowered.aliases:
        actual[alias.output] = run.values[alias.value].data
    for call in lowered.calls:
        key = engine.name, call.id
        if key not in run.cache:
            run.cache[key] = engine.run_operator(call.operator, _bound_bytes(call, run.values))
        actual |= {binding.value: data for binding, data in zip(call.outputs, run.cache[key], strict=True)}
    return actual


def _bound_bytes(call: Call, values: Mapping[str, TensorBytes]) -> Bytes:
    """Return the bytes that an operator's input is bound to, padded to at least its TotalTensorSizeInBytes."""
    # TotalTensorSizeInBytes is rounded up to a multiple of 4, so the value may have fewer bytes.
    data = values[call.input.value].data[call.input.byte_offset :]
    missing = call.operator.input_tensor.total_tensor_size_in_bytes - data.size
    return np.concatenate([data, np.zeros(missing, np.uint8)]) if missing > 0 else data


def _describe_difference(expected: TensorBytes, actual: Bytes | None, shape: tuple[int, ...], bits: int) -> str:
    """Return the first problem of an output, as the end of a sentence; empty if the output is right.

    Args:
        expected: The expected output.
        actual: The computed bytes, which may be padded to a multiple of 4; None if the output is missing.
        shape: The output shape of the node's Region. Another shape of `expected` is a problem, too.
        bits: The size of an element in bits.
    """
    if expected.shape != shape:
        return f"sliceport resolves its shape to {list(shape)}, but the reference computed {list(expected.shape)}."
    if actual is None:
        return "it was not computed."
    size = expected.data.size
    if actual.size < size or actual.size >= size + 4:
        return f"it has {actual.size} bytes, expected {size}."
    unequal = np.flatnonzero(expected.data != actual[:size])
    if not unequal.size:
        return ""
    # Several elements of less than 8 bits share a byte. The message has the index of the first element in the byte.
    width, elements_per_byte = max(bits // 8, 1), 8 // min(bits, 8)
    position = int(unequal[0]) // width
    index = [int(i) for i in np.unravel_index(position * elements_per_byte, shape)]
    bytes_of_both = (data[position * width : (position + 1) * width] for data in (actual, expected.data))
    actual_hex, expected_hex = (bytes(data).hex() for data in bytes_of_both)
    both = f"computed bytes {actual_hex}, expected {expected_hex}"
    return f"first at index {index}, {both} ({unequal.size} of {size} bytes differ)."


def reproducing_command(
    model: Any, shapes: Mapping[str, Sequence[int]], level: FeatureLevel, seed: int, executors: Sequence[str] | None
) -> str:
    """Return the command that repeats a comparison. If `executors` is None, it names no engines.

    In the command, `MODEL` stands for a model without a path.

    The command has no `--input`. If inputs were given, the caller adds a remark about them.
    """
    path = os.fspath(model) if is_path(model) else "MODEL"
    # A leading "-" would make the path an option.
    file = os.path.join(os.curdir, path) if path.startswith("-") else path
    words = ["sliceport", "compare", file, "--seed", str(seed), "--feature-level", str(level)]
    words += input_shapes_option(shapes)
    if executors is not None:
        words += ["--executors", ",".join(executors)]
    return join(words)
