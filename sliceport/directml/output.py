"""Writing a program into a folder, whole or not at all."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx

from onnx_ops.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.io import read_proto
from onnx_ops.nodes import SLICING
from sliceport.atomic_write import fill_folder, write_json
from sliceport.directml import dxdispatch
from sliceport.directml.operators import to_json
from sliceport.directml.program import Call, LoweredNode, Program
from sliceport.errors import ModelError

MOST_INPUT_BYTES = 64 * 2**20
"""Inputs of more bytes are not written as `.npy`; their DxDispatch file fills them with a sequence."""
PREFIX = "io.sliceport."
"""What the annotations in the model's `metadata_props` start with."""


def write_program(program: Program, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a program; see `Program.write`.

    Raises:
        UsageError: The folder exists and must be kept, is not one that this wrote, or cannot be made.
        ModelError: The model's file cannot be read again to annotate it.
    """
    fill_folder(
        directory,
        lambda folder: _fill(program, folder),
        mark="program.json",
        others=("model.onnx", "dxdispatch"),
        overwrite=overwrite,
    )


def _fill(program: Program, folder: Path) -> None:
    write_json(folder / "program.json", program.to_json())
    if program.calls:
        (folder / "dxdispatch").mkdir()
    names = _file_names(program)
    for call in program.calls:
        _write_dxdispatch(call, names[call.id], folder / "dxdispatch")
    if program.model_path is not None:
        _annotate(program, folder / "model.onnx", names)


def _file_names(program: Program) -> dict[int, str]:
    """A file name for each operator: its number and the first node that it is for."""
    names: dict[int, str] = {}
    for node in program.nodes:
        safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", node.node.name).strip("_.")[:60]
        for call in node.calls:
            names.setdefault(call.id, f"{call.id:04d}_{safe}" if safe else f"{call.id:04d}")
    return names


def _write_dxdispatch(call: Call, name: str, folder: Path) -> None:
    operator = call.operator
    files = [f"{name}.output_{i}.npy" for i in range(len(operator.outputs))]
    data = dxdispatch.model(operator, name, f"{name}.input.npy", files)
    if operator.input_tensor.total_tensor_size_in_bytes <= MOST_INPUT_BYTES:
        np.save(folder / f"{name}.input.npy", dxdispatch.example_input(operator))
    else:
        tensor = operator.input_tensor
        data["resources"]["input"] = {
            "initialValuesDataType": tensor.data_type.name,
            "initialValues": {"valueCount": tensor.physical_size, "valueStart": 0, "valueDelta": 1},
        }
    write_json(folder / f"{name}.json", data)


def _annotate(program: Program, path: Path, names: dict[int, str]) -> None:
    """The model with the verdict on each slicing node in its `metadata_props`; weights stay where they are."""
    assert program.model_path is not None
    proto = read_proto(program.model_path)
    by_key: dict[str, list[LoweredNode]] = defaultdict(list)
    for lowered_node in program.nodes:
        by_key[lowered_node.node.origin or _graph_key(lowered_node.node.outputs)].append(lowered_node)
    for key, node in _slicing_nodes(proto):
        lowered = by_key.get(key)
        if not lowered:
            continue
        verdicts = {n.verdict for n in lowered}
        calls = {call.id: call for n in lowered for call in n.calls}.values()
        annotations: dict[str, str] = {"verdict": verdicts.pop() if len(verdicts) == 1 else "differs by call"}
        reason = next((n.reason for n in lowered if n.reason is not None), None)
        if reason is not None:
            annotations |= {"reason": reason.code, "message": reason.message}
        if calls:
            annotations["operators"] = json.dumps([to_json(call.operator) for call in calls])
            annotations["dxdispatch"] = json.dumps([f"dxdispatch/{names[call.id]}.json" for call in calls])
        kept = [entry for entry in node.metadata_props if not entry.key.startswith(PREFIX)]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        for name, value in annotations.items():
            node.metadata_props.add(key=PREFIX + name, value=value)
    try:
        path.write_bytes(proto.SerializeToString())
    except ValueError as error:
        raise ModelError(f"the annotated model cannot be written ({error}).") from None


def _slicing_nodes(proto: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    """The slicing nodes of the main graph by their outputs, and those of functions by `SlicingNode.origin`."""
    for node in _nodes(proto.graph):
        yield _graph_key(node.output), node
    for function in proto.functions:
        overload = getattr(function, "overload", "")
        for i, node in enumerate(_nodes(function)):
            yield f"{function.domain}:{function.name}:{overload}#{i}", node


def _graph_key(outputs: Sequence[str]) -> str:
    return "\0".join(outputs)


def _nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        if (node.op_type in SLICING and node.domain in ("", "ai.onnx")) or (
            node.op_type == "StridedSlice" and node.domain == STRIDED_SLICE_DOMAIN
        ):
            yield node
        for attribute in node.attribute:
            for subgraph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _nodes(subgraph)
