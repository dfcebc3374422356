"""Contents of an ONNX file that are read without a check of the model.

They are the shapes of inputs, the ids of nodes, and the names of external data files.
"""

from __future__ import annotations

import os
from mmap import ACCESS_READ, mmap
from pathlib import PurePosixPath, PureWindowsPath
from typing import TypeVar

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass

from onnx_ops.model.external_data import external_locations
from onnx_ops.model.ir_model import WRITTEN_NAME, mark_written_names
from onnx_ops.model.nodes import node_name
from onnx_ops.model.read import read_proto
from onnx_ops.model.views import read_dim
from onnx_ops.model.walk import all_nodes
from sliceport.errors import ModelError
from sliceport.formats import DeclaredShapes

T = TypeVar("T")
_LOCATION = b"location"
"""The key of a data file's name. Protobuf writes text unencoded, so a model without these bytes has no such file."""


def declared_shapes(graph: onnx.GraphProto) -> DeclaredShapes:
    """Return the shapes of the inputs of a graph without an initializer, by name.

    A size below 0 counts as open here, although reading the model refuses it. An input that is not a tensor, or whose
    rank is not declared, has None for a shape.
    """
    default_names = {tensor.name for tensor in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
    return {
        _text(value.name): [_text(read_dim(dim)) for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.HasField("shape")
        else None
        for value in graph.input
        if value.name not in default_names
    }


def _text(part: T | bytes) -> T | str:
    """Return bytes as a str, and anything else as it is. Protobuf returns text that is not UTF-8 as bytes."""
    return part.decode("utf-8", "surrogateescape") if isinstance(part, bytes) else part


def node_ids(path: str | os.PathLike[str]) -> dict[str, dict[str, str]]:
    """Return the ids of nodes in model-explorer-onnx 0.4: by graph, then by the name of the node and of each output.

    In model-explorer-onnx, the branches of an If are parts of the main graph, and other bodies are graphs. An id is the
    name of the node after NameFixPass, which names unnamed nodes and renames nodes whose name is in use. The id of a
    node in a branch begins with the id of the If and the name of the attribute. Each function is a graph, too. Its
    nodes are found by the names that `mark_written_names` stores. Nodes in nested bodies are left out.

    Raises:
        ModelError: The file cannot be read or is not an ONNX model.
    """
    model = ir.from_proto(read_proto(path))
    mark_written_names(model)
    names = {node: (*(output.name for output in node.outputs), node_name(node)) for node in all_nodes(model.graph)}
    NameFixPass()(model)

    def list_ids(graph: ir.Graph, prefix: str = "") -> dict[str, str]:
        nodes = reversed(list(graph))  # so that the first of several nodes with the same name is kept
        return {f"{prefix}{name}": f"{prefix}{node.name}" for node in nodes for name in names[node] if name}

    main = list_ids(model.graph)
    graphs = {model.graph.name or "<main>": main}
    for node in model.graph:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH and node.op_type == "If":
                main |= list_ids(attribute.as_graph(), f"{node.name}/{attribute.name}/")
            elif attribute.type == ir.AttributeType.GRAPH:
                graphs[f"{node.name}/{attribute.name}"] = list_ids(attribute.as_graph())
    for (domain, name, overload), function in model.functions.items():
        ids = {node.metadata_props[WRITTEN_NAME]: node.name or f"<node_{i}>" for i, node in enumerate(function)}
        graphs[f"[function]{domain}::{name}{overload and f'::{overload}'}"] = ids
    return graphs


def files_beside(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the external data files of a model, relative to its folder and sorted; they need not exist.

    Paths that leave the folder are omitted, because the model is refused when it is read. The file is parsed only if it
    contains the bytes `location`. The result is empty if the file cannot be read.
    """
    try:
        if not os.path.isfile(path) or not _contains(path, _LOCATION):
            return ()
        proto = read_proto(path)
    except (ModelError, OSError, ValueError, MemoryError):
        return ()
    return tuple(sorted({str(PurePosixPath(name)) for name in external_locations(proto) if _stays_in_folder(name)}))


def _contains(path: str | os.PathLike[str], text: bytes) -> bool:
    """Return whether a file contains some bytes. Reading it as a model would take longer."""
    with open(path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        return data.find(text) >= 0


def _stays_in_folder(location: str | bytes) -> bool:
    """Return whether the path of a data file stays in the model's folder; `check_proto` refuses all other paths."""
    if isinstance(location, bytes) or "\0" in location:
        return False
    windows, posix = PureWindowsPath(location), PurePosixPath(location)
    return bool(posix.parts) and not (windows.drive or windows.root or posix.is_absolute() or ".." in windows.parts)
