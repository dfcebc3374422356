"""Reading an ONNX file: its graph without its weights, and whether it is well-formed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from onnx_ops.errors import ModelError
from onnx_ops.model.inference import open_negative_sizes

_EXTERNAL = onnx.TensorProto.EXTERNAL
_TYPES = frozenset(kind.value for kind in ir.DataType)


def read_proto(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """The model in a file; tensors in external data files stay there.

    Raises:
        ModelError: The file cannot be read or is not an ONNX model.
    """
    try:
        proto = onnx.load(os.fspath(path), load_external_data=False)
    except OSError as error:
        raise ModelError(f"it cannot be read ({error.strerror or error}).") from None
    except Exception as error:  # protobuf has its own classes of errors, by format
        reason = " ".join(str(error).split())
        raise ModelError(f"it is not an ONNX model ({reason}).") from None
    return proto


def read_model(path: str | os.PathLike[str]) -> ir.Model:
    """The model in a file as onnx-ir has it; external tensors are opened only when something reads them.

    Raises:
        ModelError: See `read_proto`.
    """
    try:
        return from_proto(read_proto(path), os.path.dirname(os.path.abspath(path)))
    except ModelError as error:
        raise ModelError(f"{os.fspath(path)!r}: {error}") from error.__cause__


def from_proto(proto: onnx.ModelProto, base_dir: str = "") -> ir.Model:
    """The onnx-ir form of a model; external data is looked for in `base_dir`. Unsorted graphs come out sorted.

    Raises:
        ModelError: The model is not well-formed (see `check_proto`), or onnx-ir cannot represent it.
    """
    found = check_proto(proto)
    try:
        model = ir.serde.deserialize_model(proto)
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise ModelError(f"the model cannot be represented: {' '.join(str(cause).split())}.") from error
    if base_dir and found.has_external_data:
        ir.external_data.set_base_dir(model.graph, base_dir)
    if found.has_negative_sizes:
        open_negative_sizes(model)
    if not found.is_sorted:
        try:
            TopologicalSortPass()(model)
        except ValueError:
            raise ModelError("a graph has a cycle: some of its nodes wait for each other.") from None
    return model


@dataclass
class Findings:
    """What a check found out about a model that is well-formed.

    Attributes:
        is_sorted: Whether every node comes after the nodes that it reads from.
        has_external_data: Whether some tensor is stored in another file.
        has_negative_sizes: Whether a shape that is written for a value has a size below 0.
    """

    is_sorted: bool = True
    has_external_data: bool = False
    has_negative_sizes: bool = False


def check_proto(proto: onnx.ModelProto) -> Findings:
    """Check what everything after it relies on: names defined, and only once, sound shapes, safe paths.

    What an operator's own specification says is not checked here.

    Raises:
        ModelError: The model breaks one of these rules.
    """
    if proto.ir_version < 1 or not proto.HasField("graph"):
        raise ModelError("it holds no graph, so it is not an ONNX model.")
    if not proto.opset_import and proto.ir_version >= 3:
        raise ModelError("it imports no operator set.")
    found = Findings()
    _check_graph(proto.graph, set(), found)
    for function in proto.functions:
        _check_nodes(function.node, set(function.input), set(), f"function {function.name!r}", found)
    return found


def _check_graph(graph: onnx.GraphProto, outer: set[str], found: Findings) -> None:
    where = f"graph {graph.name!r}" if graph.name else "the graph"
    inputs = [value.name for value in graph.input]
    initializers = [tensor.name for tensor in graph.initializer]
    for kind, names in (("input", inputs), ("initializer", initializers)):
        if len(set(names)) < len(names):
            repeated = next(name for name, times in Counter(names).items() if times > 1)
            raise ModelError(f"{where} defines {kind} {repeated!r} twice.")
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value < 0:
                raise ModelError(f"input {value.name!r} has dimension {dim.dim_value} on axis {axis}, below 0.")
    for value in (*graph.value_info, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                found.has_negative_sizes = True
    for tensor in graph.initializer:
        _check_tensor(tensor, found)
    defined = {*inputs, *initializers, *(sparse.values.name for sparse in graph.sparse_initializer)}
    _check_nodes(graph.node, defined, outer, where, found)
    for value in graph.output:
        if not value.name:
            raise ModelError(f"{where} has an output without a name.")
        if value.name not in defined and value.name not in outer:
            raise ModelError(f"{where} has output {value.name!r}, which nothing in it defines.")


def _check_nodes(
    nodes: Sequence[onnx.NodeProto], defined: set[str], outer: set[str], where: str, found: Findings
) -> None:
    """Check the nodes of a graph or function; `defined` grows by what they define."""
    made: set[str] = set()
    for node in nodes:
        for name in node.output:
            if name and (name in made or name in defined):
                raise ModelError(f"{where} defines value {name!r} twice; node {_label(node)} is the second to do so.")
            made.add(name)
    defined.add("")
    for node in nodes:
        for name in node.input:
            if name not in defined and name not in outer:
                if name not in made:
                    raise ModelError(f"node {_label(node)} reads value {name!r}, which nothing defines.")
                found.is_sorted = False
        for attribute in node.attribute:
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                _check_graph(graph, outer | defined | made, found)
            if attribute.HasField("t"):
                _check_tensor(attribute.t, found)
        defined.update(node.output)


def _check_tensor(tensor: onnx.TensorProto, found: Findings) -> None:
    if min(tensor.dims, default=0) < 0:
        raise ModelError(f"tensor {tensor.name!r} has a negative dimension in {list(tensor.dims)}.")
    if tensor.data_type not in _TYPES:
        raise ModelError(f"tensor {tensor.name!r} has element type {tensor.data_type}, which ONNX does not have.")
    if tensor.data_location != _EXTERNAL:
        return
    found.has_external_data = True
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    if not location:
        raise ModelError(f"tensor {tensor.name!r} is stored in an external file that it does not name.")
    windows, posix = PureWindowsPath(location), PurePosixPath(location)
    if windows.drive or windows.root or posix.is_absolute() or ".." in windows.parts:
        raise ModelError(f"tensor {tensor.name!r} is stored at {location!r}, which leaves the model's folder.")


def _label(node: onnx.NodeProto) -> str:
    return f"{node.name or next(iter(node.output), '')!r} ({node.op_type})"
