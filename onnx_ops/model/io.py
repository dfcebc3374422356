"""ONNX models in onnx-ir: read from checked files without their weights, and written into new files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from onnx_ops.model import prepare
from onnx_ops.model.nodes import LARGE_BYTES
from onnx_ops.model.proto_model import ProtoModel
from onnx_ops.model.proto_reader import inline_functions, read_view
from onnx_ops.model.proto_walk import all_nodes as proto_nodes
from onnx_ops.model.read import CheckedModel, check_model, describe_cause, path_in_errors, read_any, serialize, to_bytes
from onnx_ops.model.sort import sort_graphs
from onnx_ops.model.walk import graphs_outside_functions, model_graphs
from sliceport.errors import ModelError, UsageError, model_error
from sliceport.sandbox.place import refuse_data_files, write_files

_PARAMETER_TYPES = (ir.DataType.INT32, ir.DataType.INT64)
"""The types of parameters of slicing nodes."""


def read_to_change(model: Any) -> CheckedModel:
    """Read and check a model that will be changed; see `read_any`. Refuse a model that onnx-ir would not keep whole.

    Raises:
        ModelError: See `read_any`; or onnx-ir would lose training_info, or change a body that returns a value of an
            outer graph.
        UsageError: See `read_any`.
    """
    checked = read_any(model)
    with path_in_errors(checked.path):
        if checked.proto.training_info:
            raise ModelError("it has training_info, which would be lost; remove it first.")
        if name := checked.findings.outer_output:
            raise ModelError(f"a body returns {name!r}, a value of an outer graph; return an Identity of it instead.")
    return checked


def from_proto(proto: onnx.ModelProto, base_dir: str = "") -> ir.Model:
    """Check a model and read it into onnx-ir. The external data files are in `base_dir`.

    Raises:
        ModelError: See `check_model` and `to_ir`.
    """
    return to_ir(check_model(proto, base_dir))


def to_ir(checked: CheckedModel, *, inlines: bool = False) -> ir.Model:
    """Read a model into onnx-ir. Unsorted graphs are sorted, and sizes below 0 become open.

    External tensors are opened on first use. If `inlines`, functions are inlined; see `inline_functions`.

    Raises:
        ModelError: onnx-ir cannot represent the model, a graph has a cycle, or a function cannot be inlined.
    """
    findings, proto = checked.findings, checked.proto
    if not findings.is_sorted:
        proto = sort_graphs(proto)
    if inlines and proto.functions:
        proto = inline_functions(proto)
    with path_in_errors(checked.path):
        if findings.sparse_initializer:
            name = findings.sparse_initializer
            raise ModelError(f"initializer {name!r} is sparse, which onnx-ir does not read; make it dense.")
        try:
            model = ir.serde.deserialize_model(proto)
        except Exception as error:
            raise model_error(f"the model cannot be represented: {describe_cause(error)}.", error) from error
        for value, declared in zip(model.graph.inputs, checked.proto.graph.input, strict=True):
            if value.is_graph_output():  # onnx-ir has read the output's declared type instead of the input's
                ir.serde.deserialize_value_info_proto(declared, value)
        for imports in (model.opset_imports, *(function.opset_imports for function in model.functions.values())):
            if "ai.onnx" in imports:  # two names of one domain; only "" is used from here on
                imports.setdefault("", imports.pop("ai.onnx"))
        if checked.base_dir and findings.data_files:
            for tensor, _ in prepare.external_tensors(model):
                tensor.base_dir = checked.base_dir
        if findings.has_negative_sizes:
            prepare.open_negative_sizes(model)
        return model


def clone_sorted(model: ir.Model) -> ir.Model:
    """Return a copy of a model with sorted nodes. If the nodes are already sorted, the copy shares the tensors.

    Raises:
        ModelError: The model cannot be cloned or sorted; see `read_any` and `to_ir`.
    """
    try:
        return model.clone()
    except Exception:  # onnx-ir does not clone unsorted graphs
        return to_ir(read_any(model))


def view_of(model: ir.Model, *, inlines: bool = True) -> ProtoModel:
    """Return a view of a model; see `read_view`. Large data files are not read, and closed if they were closed before.

    In `model`, left-out outputs of slicing nodes get names, and small external tensors are loaded.

    Raises:
        ModelError: onnx-ir cannot serialize the model, or a function cannot be inlined.
    """
    names = {output.name for output in prepare.name_left_out_outputs(model)}
    with data_closed(model, LARGE_BYTES):
        proto = serialize(model)
        base_dir = next((os.fspath(tensor.base_dir) for tensor, _ in prepare.external_tensors(model)), "")
    for node in proto_nodes(proto.graph, *proto.functions) if names else ():
        node.output[:] = ["" if name in names else name for name in node.output]
    return read_view(proto, base_dir, inlines=inlines)


def detach_weights(model: ir.Model) -> None:
    """Turn large initializers of the main graph into inputs, except integers, which may be parameters of a Split."""
    for value in list(model.graph.initializers.data.values()):
        tensor = value.const_value
        if tensor is not None and tensor.nbytes > LARGE_BYTES and tensor.dtype not in _PARAMETER_TYPES:
            prepare.detach_initializer(model.graph, value)


def inline_model(model: ir.Model) -> ir.Model:
    """Return a copy of a model without functions, or the model itself if it has none. See `inline_functions`.

    The copy shares the initializers of the main graph. All other external tensors are loaded.

    Raises:
        ModelError: See `view_of`; or a tensor cannot be read.
    """
    if not model.functions:
        return model
    inlined = ir.serde.deserialize_model(inline_functions(serialize(model)))
    for name, value in inlined.graph.initializers.items():
        value.const_value = model.graph.initializers[name].const_value
    base_dir = next((tensor.base_dir for tensor, _ in prepare.external_tensors(model)), "")
    shared = {id(value.const_value) for value in inlined.graph.initializers.values()}
    others = [(tensor, put) for tensor, put in prepare.external_tensors(inlined) if id(tensor) not in shared]
    for tensor, _ in others:
        tensor.base_dir = base_dir
    load_externals(others)
    return inlined


_MIN_EXTERNAL = 256
"""A limit in bytes: up to this size, weights of a model that moves to another folder are stored in the model itself."""
_MAX_EMBEDDED = 2**28
"""The largest total size, in bytes, of the external tensors that `_embed_tensors` loads."""


@contextmanager
def data_closed(model: ir.Model, max_loaded: int = -1) -> Iterator[None]:
    """Close the data files that are opened inside the context, because Windows cannot remove or replace an open file.

    External tensors of up to `max_loaded` bytes (by default none) are first replaced by copies in memory, so that
    reading them later opens no file. Tensors whose files are already open or cannot be read stay as they are.
    """
    # onnx-ir sets `raw` when it opens the data file. Files that the caller opened before stay open.
    unopened = [(tensor, set_tensor) for tensor, set_tensor in prepare.external_tensors(model) if tensor.raw is None]
    for tensor, set_tensor in unopened:
        if tensor.nbytes <= max_loaded:
            with suppress(Exception):  # the error is reported for the node that reads the tensor
                set_tensor(prepare.load_external(tensor))
    try:
        yield
    finally:
        for tensor, _ in unopened:
            prepare.release(tensor)


def write_model(
    model: ir.Model,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    accept: Callable[[Path, Path], bool] = lambda _file, _data_folder: True,
) -> None:
    """Write a model into a new file.

    Left-out outputs of a Split get names, because otherwise the Split in the file would have fewer parts.

    External weights stay where they are if the new file is in their folder. Otherwise all large weights are written
    into one file next to the new one, with a name that ends in `.data`. Small external weights are then stored in the
    new file itself, as are external tensors in attributes of nodes or in graphs of functions.

    `model` keeps the new names, and the copies of external tensors that were loaded from attributes and functions.

    Args:
        model: The model.
        path: The new file; its name ends in .onnx.
        overwrite: Whether to replace existing files.
        accept: A function that returns whether to keep the written file. Its arguments are the path of the file in a
            scratch folder, and the folder of the external data. If `accept` returns False, no file is put into place.

    Raises:
        UsageError: The name does not end in .onnx, a file exists and `overwrite` is not set, a file is one of the
            model's data files, or a file cannot be written.
        ModelError: The model cannot be stored in a file (it is larger than 2 GiB, say), or its weights cannot be read.
    """
    target = _as_onnx_path(path)
    prepare.name_left_out_outputs(model)
    data_files = [tensor.path for tensor, _ in prepare.external_tensors(model)]
    folder = target.parent.resolve()
    moves_weights = any(Path(tensor.base_dir).resolve() != folder for tensor, _ in prepare.external_tensors(model))
    needs_data_file = moves_weights and any(prepare.external_initializers(graphs_outside_functions(model)))
    data_name = f"{target.name}.data" if needs_data_file else None
    files = [target] if data_name is None else [target.with_name(data_name), target]
    refuse_data_files(files, data_files)
    if moves_weights:
        _embed_tensors(model)
    write_files(
        files,
        lambda scratch: _save(model, scratch / target.name, data_name),
        overwrite=overwrite,
        accept=lambda scratch: accept(scratch / target.name, scratch if moves_weights else target.parent),
    )


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """Return a model as a ModelProto; external weights stay where they are.

    In `model`, left-out outputs of slicing nodes get names.

    Raises:
        ModelError: onnx-ir cannot represent the model.
    """
    prepare.name_left_out_outputs(model)
    return serialize(model, "the changed model cannot be serialized")


def write_proto(proto: onnx.ModelProto, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model without external data, unchanged. For the arguments and errors see `write_model`."""
    target = _as_onnx_path(path)

    def save(folder: Path) -> None:
        (folder / target.name).write_bytes(to_bytes(proto, repr(target.name)))

    write_files([target], save, overwrite=overwrite)


def _as_onnx_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file to write. Raise a UsageError unless its name ends in .onnx."""
    target = Path(path)
    if not target.name.endswith(".onnx"):
        raise UsageError(f"output '{target}' must end in .onnx.")
    return target


def _embed_tensors(model: ir.Model) -> None:
    """Load the external tensors that onnx-ir cannot write into a data file.

    These tensors are in attributes or in graphs of functions. Raise a ModelError if they are too large or unreadable.
    """
    outside_functions = set(graphs_outside_functions(model))
    graphs_in_functions = [graph for graph in model_graphs(model) if graph not in outside_functions]
    tensors = [*prepare.external_initializers(graphs_in_functions), *prepare.external_attributes(model)]
    size = sum(tensor.nbytes for tensor, _ in tensors)
    if size > _MAX_EMBEDDED:
        raise ModelError(
            f"{size} bytes of external data in attributes or functions would have to be embedded in the model; write "
            "the output into the folder of the input model, so that the data stay in their files."
        )
    load_externals(tensors)


def load_externals(tensors_and_setters: Iterable[prepare.TensorAndSetter]) -> None:
    """Replace external tensors by copies in memory. Each tensor comes with the function that replaces it.

    Raises:
        ModelError: A tensor cannot be read.
    """
    for tensor, set_tensor in tensors_and_setters:
        set_tensor(prepare.load_external(tensor))


def _save(model: ir.Model, path: Path, data_name: str | None) -> None:
    """Save a model. If `data_name` is set, write weights above `_MIN_EXTERNAL` into this file beside `path`."""
    weights = nullcontext() if data_name is None else _weights_moved_to(model, path.with_name(data_name))
    try:
        with weights:
            path.write_bytes(to_bytes(serialize(model, f"{path.name!r} cannot be written"), repr(path.name)))
    except (ModelError, OSError):  # `write_files` turns an OSError into a UsageError
        raise
    except Exception as error:  # onnx-ir has several classes of errors
        raise model_error(f"{path.name!r} cannot be written: {describe_cause(error)}.", error) from error


@contextmanager
def _weights_moved_to(model: ir.Model, file: Path) -> Iterator[None]:
    """Write the weights above `_MIN_EXTERNAL` into a file, and load the other external weights.

    Inside the context, the model refers to the file and the loaded tensors. Afterwards, its own tensors are restored.
    """
    values = [value for graph in graphs_outside_functions(model) for value in graph.initializers.data.values()]
    before = [value.const_value for value in values]
    try:
        # onnx-ir loads small tensors, too, but fails if an array still uses their open file.
        for value in values:
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes <= _MIN_EXTERNAL:
                value.const_value = prepare.load_external(tensor)
        ir.external_data.unload_from_model(model, file.parent, file.name, size_threshold_bytes=_MIN_EXTERNAL)
        for value, tensor in zip(values, before, strict=True):  # onnx-ir copies neither doc strings nor metadata
            moved = value.const_value
            if moved is not None and tensor is not None and moved is not tensor:
                moved.doc_string = tensor.doc_string
                moved.metadata_props.update(tensor.metadata_props)
        yield
    finally:
        for value, tensor in zip(values, before, strict=True):
            value.const_value = tensor
