"""Parts of an ONNX model that are read without checking it: input shapes, node ids and names of data files."""

from __future__ import annotations

import os
from mmap import ACCESS_READ, mmap
from pathlib import PurePosixPath
from typing import TypeVar

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass

from onnx_ops.model.check import Findings, leaves_folder
from onnx_ops.model.external_data import external_locations
from onnx_ops.model.io import to_ir
from onnx_ops.model.nodes import node_name
from onnx_ops.model.proto_walk import WRITTEN_NAME, mark_written_names
from onnx_ops.model.read import CheckedModel, read_proto
from onnx_ops.model.views import read_dim
from onnx_ops.model.walk import all_nodes
from sliceport.engines.sizes import DeclaredShapes
from sliceport.errors import ModelError

T = TypeVar("T")


def declared_shapes(graph: onnx.GraphProto) -> DeclaredShapes:
    """Return the declared shape of each graph input without an initializer, by the name of the input.

    The shape is None if the input is not a tensor, or if its rank is not declared.
    """
    default_names = {tensor.name for tensor in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
    return {
        _decode(value.name): [_decode(read_dim(dim)) for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.HasField("shape")
        else None
        for value in graph.input
        if value.name not in default_names
    }


def _decode(name: T | bytes) -> T | str:
    """Return bytes as a str, and anything else as it is. Protobuf returns text that is not UTF-8 as bytes."""
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name


def node_ids(path: str | os.PathLike[str]) -> dict[str, dict[str, str]]:
    """Return the ids that model-explorer-onnx 0.4 gives to nodes.

    The result has a mapping for each graph, by the graph's name. The mapping has the id of each node, by its own name
    and by the names of its outputs. If several nodes have the same name, the name maps to the id of the first one.

    In model-explorer-onnx, the branches of an If are parts of the main graph. Each other body and each function is a
    graph of its own. In a graph, an id is the name of the node after NameFixPass, which names unnamed nodes and renames
    nodes whose name is in use. For a node in a branch, the id and the names begin with the id of the If and the name of
    the attribute. Nodes in nested bodies are left out. NameFixPass does not change functions. Nodes of functions are
    listed by the name that `mark_written_names` gives them, and not by their outputs.

    Raises:
        ModelError: The file cannot be read or is not an ONNX model, or onnx-ir cannot represent the model.
    """
    # An unchecked model counts as sorted, so `to_ir` keeps the order of the nodes, which determines their ids.
    proto = read_proto(path)
    mark_written_names(proto.functions)
    model = to_ir(CheckedModel(proto, Findings(), path=os.fspath(path)))
    names = {node: (*(output.name for output in node.outputs), node_name(node)) for node in all_nodes(model.graph)}
    NameFixPass()(model)  # only now, because callers look nodes up by their names in the file

    def list_ids(graph: ir.Graph, prefix: str = "") -> dict[str, str]:
        """Map the name of each node and of each output to the id of the node. Names and ids begin with `prefix`."""
        nodes = reversed(list(graph))  # so that the first of several nodes with the same name wins
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
        nodes = reversed(list(enumerate(function)))
        # NameFixPass leaves functions alone. The viewer names their unnamed nodes by position.
        ids = {node.metadata_props[WRITTEN_NAME]: node.name or f"<node_{i}>" for i, node in nodes}
        graphs["::".join(filter(None, (f"[function]{domain}", name, overload)))] = ids
    return graphs


def files_beside(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the external data files of a model, relative to its folder and sorted; they need not exist.

    Paths that leave the folder are omitted, because a model with such paths is refused when it is read. The result is
    empty if the file cannot be read.
    """
    try:
        if not os.path.isfile(path):
            return ()
        with open(path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            # The name of a data file follows the key "location" in the file. Most models have no data file, and
            # parsing such a model takes longer than this search.
            if data.find(b"location") < 0:
                return ()
        proto = read_proto(path)
    except (ModelError, OSError, ValueError, MemoryError):
        return ()
    # Protobuf returns a name that is not UTF-8 as bytes. A model with such a name is also refused. A name
    # without parts, such as ".", is the folder itself.
    names = [name for name in external_locations(proto) if isinstance(name, str) and not leaves_folder(name)]
    return tuple(sorted({str(PurePosixPath(name)) for name in names if PurePosixPath(name).parts}))
