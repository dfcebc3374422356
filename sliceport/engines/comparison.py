"""Comparing what engines compute for slicing nodes with what is expected, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sliceport.defects.defect import Defect
from sliceport.directml.elements import ELEMENT_BITS
from sliceport.directml.feature_levels import FeatureLevel
from sliceport.directml.program import Call, LoweredNode, Program
from sliceport.engines.engine import Engine, OperatorEngine, SingleNode
from sliceport.engines.tensor_bytes import TensorBytes
from sliceport.errors import SliceportError
from sliceport.sandbox.supervisor import ChildLost
from sliceport.shell import input_shapes_option, join

Bytes = npt.NDArray[np.uint8]
Status = Literal["equal", "mismatch", "error", "refused", "folded"]


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
        defects: The known defects that explain what was found.
    """

    lowered: LoweredNode
    executor: str
    status: Status
    detail: str = ""
    bytes_compared: int = 0
    alone: bool = False
    defects: tuple[Defect, ...] = ()


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
                    "defects": [defect.id for defect in c.defects],
                }
                for c in self.comparisons
            ],
        }


def compare_node(
    lowered: LoweredNode,
    engine: Engine,
    known: Mapping[str, TensorBytes],
    done: dict[tuple[str, int], list[Bytes]],
    *,
    reference: str,
    model: Any = None,
    alone: bool = False,
) -> Comparison:
    """Compare one node by one engine with what is expected.

    Args:
        lowered: The node and what it was lowered to.
        engine: The engine.
        known: The values that operators are bound to, and the outputs that are expected, by name.
        done: What operators gave before, by engine and number; it is filled.
        reference: Who computed what is expected.
        model: A model of the node alone, as its format has it; see `SingleNode`.
        alone: Whether the values are those of a run of the node by itself, on random data.
    """
    node = lowered.resolved
    try:
        if isinstance(engine, OperatorEngine):
            got = _run_operators(lowered, engine, known, done)
        else:
            outputs = engine.run_node(SingleNode(lowered, model), known[node.input].data)
            got = {cut.output: data for cut, data in zip(node.cuts, outputs, strict=True)}
    except (MemoryError, ChildLost):  # nothing that the node is to blame for
        raise
    except Exception as error:
        if isinstance(error, SliceportError):
            said = str(error)
        else:  # whatever another's engine raises
            said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        detail = f"{node.label}: {engine.name} failed: {said}"
        return Comparison(lowered, engine.name, "error", detail, alone=alone)
    compared = 0
    for cut in node.cuts:
        if not cut.output or (cut.output not in got and not cut.used):
            continue
        expected = known[cut.output]
        bits = ELEMENT_BITS.get(node.element, 8)  # of strings only those of slices without elements are compared
        detail = _difference(expected, got.get(cut.output), cut.region.output_shape, bits)
        if detail:
            message = f"{node.label}: output {cut.output!r} by {engine.name} differs from {reference}: {detail}"
            return Comparison(lowered, engine.name, "mismatch", message, compared, alone)
        compared += expected.data.size
    return Comparison(lowered, engine.name, "equal", "", compared, alone)


def explain(found: Comparison, engine: str, defects: Sequence[Defect]) -> Comparison:
    """What was found, and behind it the defects of an engine that explain it, if there are any."""
    if not defects:
        return found
    reasons = "; ".join(f"{defect.id} ({defect.reason})" for defect in defects)
    detail = f"{found.detail.removesuffix('.')}; this is a known defect of {engine}: {reasons}."
    return replace(found, detail=detail, defects=(*found.defects, *defects))


def _run_operators(
    lowered: LoweredNode,
    engine: OperatorEngine,
    known: Mapping[str, TensorBytes],
    done: dict[tuple[str, int], list[Bytes]],
) -> dict[str, Bytes]:
    """The bytes of each output of a node, by what it was lowered to."""
    got: dict[str, Bytes] = {cut.output: np.zeros(0, np.uint8) for cut in lowered.resolved.cuts if cut.region.is_empty}
    for alias in lowered.aliases:
        got[alias.output] = known[alias.value].data[alias.byte_offset :]
    for call in lowered.calls:
        if (engine.name, call.id) not in done:
            done[engine.name, call.id] = engine.run_operator(call.operator, _bound_bytes(call, known))
        got |= {b.value: data for b, data in zip(call.outputs, done[engine.name, call.id], strict=True)}
    return got


def _bound_bytes(call: Call, known: Mapping[str, TensorBytes]) -> Bytes:
    """What an operator's input is bound to; buffers end at a multiple of 4 bytes."""
    data = known[call.input.value].data[call.input.byte_offset :]
    lacking = call.operator.input_tensor.total_tensor_size_in_bytes - data.size
    return np.concatenate([data, np.zeros(lacking, np.uint8)]) if lacking > 0 else data


def _difference(expected: TensorBytes, got: Bytes | None, shape: tuple[int, ...], bits: int) -> str:
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


def reproducing_command(
    model: str | os.PathLike[str],
    *,
    input_shapes: Mapping[str, Sequence[int]],
    feature_level: FeatureLevel,
    seed: int,
    executors: Sequence[str] | None,
) -> str:
    """The command that runs a comparison again; `executors` of None are those that take part by default."""
    path = os.fspath(model)
    file = os.path.join(os.curdir, path) if path.startswith("-") else path
    words = ["sliceport", "compare", file, "--seed", str(seed), "--feature-level", str(feature_level)]
    words += input_shapes_option(input_shapes)
    if executors is not None:
        words += ["--executors", ",".join(executors)]
    return join(words)
