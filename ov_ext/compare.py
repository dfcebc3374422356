"""Comparing the slicing of an OpenVINO model: built-in operators, ours, and what both are lowered to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import openvino as ov

from onnx_ops.compare.onnxruntime_cpu import Captured
from onnx_ops.compare.run import OPERATOR_EXECUTORS, Comparison, Report, command_line, compare_node
from ov_ext.defects import CPU, REFERENCE
from ov_ext.files import read_model
from ov_ext.one_node import ENGINES, OURS, OneNode
from ov_ext.read import bind_shapes, read_slicing_nodes, slicing_nodes
from sliceport.directml.elements import ELEMENT_BITS
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.lower import Options, lower_nodes
from sliceport.directml.program import LoweredNode
from sliceport.errors import ModelError, UsageError, unknown_name
from sliceport.slicing import SplitSpec
from sliceport.slicing.node import SlicingNode

Bytes = npt.NDArray[np.uint8]
DEFAULT_EXECUTORS = (REFERENCE, CPU, OURS, "dml-emulator")
_SPECIFICATION = "the specification"
_MAX_RANDOM = 100
_MAX_BYTES = 2**27
"""Data of more bytes are not made up: all that a comparison holds of them has to fit into 1 GiB."""


def compare(
    model: str | os.PathLike[str],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    executors: Sequence[str] = DEFAULT_EXECUTORS,
    feature_level: str | FeatureLevel = LATEST,
    seed: int = 0,
) -> Report:
    """Run each slicing node of a model alone, on random data, by several executors and compare bit for bit.

    Where Model.evaluate is known to be wrong, it is compared as the others are, with what the specification says. No
    engine runs a node that is known to end the process.

    Args:
        model: The model's file.
        input_shapes: Sizes for inputs by name.
        executors: Who takes part: `openvino`, the built-in operator by Model.evaluate, always, for what is expected;
            `openvino-cpu`, the same on the CPU plugin; `ov_ext`, ours, by Model.evaluate; `dml-emulator`; `directml`.
        feature_level: The DirectML feature level to lower for.
        seed: For the data.

    Raises:
        UsageError: An executor is not known or a shape does not fit.
        ModelError: The model cannot be read.
    """
    known = (*ENGINES, *OPERATOR_EXECUTORS)
    for name in executors:
        if name not in known:
            raise unknown_name("executor of OpenVINO models", name, known)
    chosen = [name for name in executors if name != REFERENCE]
    if not chosen:
        raise UsageError(f"nothing to compare {REFERENCE!r} with; name another executor: {', '.join(known[1:])}.")
    prepared = read_model(model)
    bind_shapes(prepared, input_shapes or {})
    program = lower_nodes(read_slicing_nodes(prepared), Options(FeatureLevel.parse(feature_level)))
    comparisons: list[Comparison] = []
    for lowered, written in zip(program.nodes, slicing_nodes(prepared), strict=True):
        if lowered.reason is not None:
            comparisons.append(Comparison(lowered, "", "refused", lowered.reason.message))
        elif lowered.verdict == "folded":
            comparisons.append(Comparison(lowered, "", "folded"))
        else:
            comparisons += _compare(lowered, OneNode(lowered.node, written), chosen, seed)
    command = command_line(
        os.fspath(model), input_shapes or {}, program.feature_level, seed, (REFERENCE, *chosen), DEFAULT_EXECUTORS
    )
    return Report(tuple(comparisons), program, f"{REFERENCE} {ov.__version__}", command)


def _compare(lowered: LoweredNode, alone: OneNode, chosen: Sequence[str], seed: int) -> Iterator[Comparison]:
    node = lowered.node
    if isinstance(node.spec, SplitSpec):
        chosen = [name for name in chosen if name != OURS]  # there is no Split of ours
    if node.element not in ELEMENT_BITS:
        yield Comparison(lowered, "", "refused", f"{node.label}: elements of type {node.element} are not compared.")
        return
    size = alone.count_bytes()
    if size > _MAX_BYTES:
        detail = f"{node.label}: its data of {size} bytes are more than the {_MAX_BYTES} that are compared."
        yield Comparison(lowered, REFERENCE, "error", detail, alone=True)
        return
    data = alone.random_data(seed, _MAX_RANDOM)
    reference, outputs = REFERENCE, None
    if not alone.known_of(REFERENCE):
        with suppress(ModelError):  # then it is compared as the others are, and says so
            outputs = alone.by(REFERENCE, data)
    if outputs is None:
        reference, outputs = _SPECIFICATION, alone.by_specification(data)
        chosen = [REFERENCE, *chosen]
    values = {node.input: Captured(data, node.cuts[0].region.input_shape, 0)}
    for cut in node.cuts:
        values[cut.output] = Captured(outputs[cut.output], cut.region.output_shape, 0)
    for name in chosen:
        found = compare_node(lowered, name, values, {}, True, reference=reference, node_executors=_executors(alone))
        yield found if found.status == "equal" else _with_known(found, alone)


def _executors(alone: OneNode) -> dict[str, Callable[[SlicingNode, Bytes], dict[str, Bytes]]]:
    return {name: lambda _, data, name=name: alone.by(name, data) for name in ENGINES}  # type: ignore[misc]


def _with_known(found: Comparison, alone: OneNode) -> Comparison:
    """What is known of the engine, behind what was found."""
    reasons = [f"{defect.id} ({defect.reason})" for defect in alone.known_of(found.executor)]
    if not reasons or found.status == "error":
        return found
    detail = f"{found.detail.removesuffix('.')}; this is a known defect of {found.executor}: {'; '.join(reasons)}."
    return replace(found, detail=detail)
