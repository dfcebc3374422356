"""Models prepared to run on onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import onnx
import onnx_ir as ir

from onnx_ops.model.declared import declared_shapes
from onnx_ops.model.external_data import external_tensors, load_small_tensors
from onnx_ops.model.io import load_externals, to_ir
from onnx_ops.model.nodes import LARGE_BYTES, node_name
from onnx_ops.model.prepare import external_tensors as external_ir_tensors
from onnx_ops.model.prepare import name_left_out_outputs
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.proto_walk import all_nodes as all_proto_nodes
from onnx_ops.model.read import CheckedModel, check_model, path_in_errors, read_any, read_checked, serialize
from onnx_ops.model.views import Array
from onnx_ops.model.walk import all_nodes
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.inputs import find_size_factors, make_inputs
from onnx_ops.strided_slice_op import embed_function
from sliceport.device import DeviceError, StoredTensor
from sliceport.engines.engine import WholeModel
from sliceport.engines.sizes import DeclaredShapes, InputShapes
from sliceport.sandbox.progress import announce


@dataclass(eq=False)
class Runnable:
    """A model that can be run. It is a `ModelToRun`.

    Attributes:
        proto: The model for onnxruntime.
        model: The model in onnx-ir. It has the same inputs and initializers.
        data_folder: The folder in which its external data files are; empty for a model in memory without such files.
        inputs: The names of the inputs without an initializer.
        outputs: The names of the outputs of `proto`, each once.
        declared_shapes: The declared shapes of the inputs without an initializer.
    """

    proto: onnx.ModelProto
    model: ir.Model
    data_folder: str = ""

    def __post_init__(self) -> None:
        graph = self.proto.graph
        defaults = {tensor.name for tensor in graph.initializer}
        self.inputs: Sequence[str] = [value.name for value in graph.input if value.name not in defaults]
        self.outputs: Sequence[str] = list(dict.fromkeys(output.name for output in graph.output))
        self.declared_shapes: DeclaredShapes = declared_shapes(graph)

    def size_factors(self) -> list[int]:
        """Return divisors of sizes that the model may need; see `find_size_factors`."""
        return find_size_factors(self.model)

    def whole(self) -> WholeModel:
        """Return the whole model for onnxruntime; see `ModelToRun` and, for the errors, `build_whole_model`."""
        return onnxruntime_cpu.build_whole_model(self.proto, self.outputs, self.data_folder)

    def make_inputs(
        self, inputs: Mapping[str, Array], shapes: InputShapes, seed: int, attempt: int = 0
    ) -> dict[str, Array]:
        """Return the given arrays, and random ones for the other inputs; see `ModelToRun`."""
        return make_inputs(self.model, shapes, inputs, seed, attempt)

    def with_outputs(self, names: Sequence[str]) -> Runnable:
        """Return the model with these values of the main graph as its outputs, in place of its own."""
        return replace(self, proto=copy_with_outputs(self.proto, [onnx.ValueInfoProto(name=name) for name in names]))


def copy_with_outputs(proto: onnx.ModelProto, outputs: Iterable[onnx.ValueInfoProto]) -> onnx.ModelProto:
    """Return a copy of a model with other outputs."""
    changed = deepcopy(proto)
    del changed.graph.output[:]
    changed.graph.output.extend(outputs)
    return changed


def prepare_to_run(checked: CheckedModel, *, inlines: bool = False) -> Runnable:
    """Prepare a model for onnxruntime by changes that do not affect its results.

    Small tensors in external data files are read. Left-out outputs of a Split get names, because onnxruntime's CPU
    provider crashes on them. The function of `ov_ext::StridedSlice` is added if a node needs it. A model
    that needs no change and has no data files is not copied.

    Args:
        checked: The model; it is not changed.
        inlines: Whether to inline functions, and to sort the graphs of `Runnable.proto` and open its sizes below 0, as
            in `Runnable.model`.

    Raises:
        ModelError: The model or its data cannot be read, or a function cannot be inlined.
    """
    model = to_ir(checked, inlines=inlines)
    is_changed = bool(name_left_out_outputs(model))
    if inlines:
        findings = checked.findings
        # `to_ir` sorts the graphs and makes sizes below 0 open, so `proto` has to be written again to match `model`.
        is_changed |= bool(checked.proto.functions) or not findings.is_sorted or findings.has_negative_sizes
    is_changed |= embed_function(model)
    proto = serialize(model) if is_changed else checked.proto
    if checked.findings.data_files and not is_changed:  # Loading the tensors must not change the given model.
        proto = deepcopy(checked.proto)
    with path_in_errors(checked.path):
        load_small_tensors(proto, checked.base_dir)
    return Runnable(proto, model, checked.base_dir)


def read_complete_model(model: Any, data_folder: str | os.PathLike[str] | None = None) -> Runnable:
    """Read a model, inline its functions and name each node. Only large weights of the main graph stay in their files.

    As in `prepare_to_run`, left-out outputs get names, and the function of `ov_ext::StridedSlice` is added if needed.
    Outputs of ZipMaps are replaced; see `_leave_out_zip_maps`.

    Args:
        model: See `read_any`.
        data_folder: The folder of its external data files, if it is not the folder of the model's file.

    Raises:
        ModelError: The model or its data cannot be read, or a function cannot be inlined.
    """
    checked = _leave_out_zip_maps(read_any(model) if data_folder is None else read_checked(model, data_folder))
    complete = to_ir(checked, inlines=True)
    weights = [value.const_value for value in complete.graph.initializers.values()]
    large = {id(tensor) for tensor in weights if tensor is not None and tensor.nbytes > LARGE_BYTES}
    # Load all but large weights: from data files, onnxruntime reads only initializers of the main graph.
    with path_in_errors(checked.path):
        load_externals([(tensor, put) for tensor, put in external_ir_tensors(complete) if id(tensor) not in large])
    name_left_out_outputs(complete)
    for node in all_nodes(complete.graph):
        node.name = node_name(node)
    embed_function(complete)
    return Runnable(serialize(complete), complete, checked.base_dir)


def _leave_out_zip_maps(checked: CheckedModel) -> CheckedModel:
    """Replace each output of the model that a ZipMap writes by the ZipMap's input, and announce this.

    A ZipMap with a wrong number of inputs or outputs stays, so that onnxruntime reports it. A ZipMap whose output a
    node reads stays, too.

    A ZipMap is the last node of many exports of scikit-learn. It turns probabilities into a sequence of maps from
    classes to probabilities, a type that onnx-ir lacks.
    """
    read_names = {name for node in all_proto_nodes(checked.proto.graph) for name in node.input}
    outputs = {value.name for value in checked.proto.graph.output} - read_names
    zip_maps = [node for node in checked.proto.graph.node if (node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap")]
    zip_maps = [node for node in zip_maps if len(node.input) == len(node.output) == 1 and node.output[0] in outputs]
    if not zip_maps:
        return checked
    proto = deepcopy(checked.proto)
    for node in zip_maps:
        (source,), (name,) = node.input, node.output
        for output in [each for each in proto.graph.output if each.name == name]:
            output.CopyFrom(onnx.ValueInfoProto(name=source))
        proto.graph.node.remove(node)
        kept = f"its input {source!r} is compared in place of {name!r}, which is not a tensor"
        announce(f"ZipMap {node.name or name!r} is left out: {kept}")
    return check_model(proto, checked.base_dir, checked.path)


def find_weights(model: WholeModel) -> dict[str, StoredTensor]:
    """Return the external tensors of a model by name, without reading them. All of them must be initializers.

    Raises:
        DeviceError: A file is shorter than the model says. A missing file is not an error here: the device reports it.
    """
    weights: dict[str, StoredTensor] = {}
    for tensor in external_tensors(onnx.ModelProto.FromString(model.data)) if model.data_folder else ():
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path, offset = os.path.join(model.data_folder, entries["location"]), int(entries.get("offset", 0))
        size = Tensor(tensor).nbytes
        if os.path.isfile(path) and os.path.getsize(path) < offset + size:
            raise DeviceError(f"'{path}' ends before byte {offset + size}.")
        weights[tensor.name] = StoredTensor(path, offset, size, tensor.data_type, tuple(tensor.dims))
    return weights
