"""Reading ONNX models: a ModelProto is checked once and kept together with the findings of the check."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx

from onnx_ops.model.check import Findings, check_proto
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.proto_walk import all_tensors
from sliceport.arguments import is_path
from sliceport.errors import ModelError, UsageError, model_error
from sliceport.wording import shorten

if TYPE_CHECKING:
    import onnx_ir as ir

MAX_BYTES = 2**31 - 1
"""The size in bytes of the largest message that protobuf writes."""


@dataclass(frozen=True)
class CheckedModel:
    """A well-formed model.

    Attributes:
        proto: The model; tensors in external data files stay there.
        findings: The findings of its check.
        base_dir: The folder of its external data files; empty if the folder of a model in memory is not known.
        path: The file that it was read from; empty for a model in memory.
    """

    proto: onnx.ModelProto
    findings: Findings
    base_dir: str = ""
    path: str = ""


def read_proto(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Read the model in a file; tensors in external data files stay there.

    Raises:
        ModelError: The file cannot be read or is not an ONNX model.
        MemoryError: The model does not fit into memory.
    """
    if os.path.isdir(path):  # Windows would report a lack of permission
        raise ModelError(f"'{os.fspath(path)}': it cannot be read (Is a directory).")
    try:
        return onnx.load(os.fspath(path), format="protobuf", load_external_data=False)
    except OSError as error:
        raise model_error(f"'{os.fspath(path)}': it cannot be read ({error.strerror or error}).", error) from None
    except Exception as error:  # protobuf raises errors of its own classes, which differ between its versions
        reason = shorten(str(error)).rstrip(".")
        raise model_error(f"'{os.fspath(path)}': it is not an ONNX model ({reason}).", error) from None


def read_checked(path: str | os.PathLike[str], data_folder: str | os.PathLike[str] | None = None) -> CheckedModel:
    """Read the model in a file and check it.

    Args:
        path: The file.
        data_folder: The folder of the external data files; by default, the folder of `path`.

    Raises:
        ModelError: The file cannot be read, the model is not well-formed, or a data file is not a regular file.
        MemoryError: See `read_proto`.
    """
    proto = read_proto(path)
    with path_in_errors(path):
        folder = os.path.dirname(os.path.abspath(path)) if data_folder is None else os.path.abspath(data_folder)
        return check_model(proto, folder, os.fspath(path))


def read_any(model: Any) -> CheckedModel:
    """Read and check a model: a file's path, a ModelProto, an `onnx_ir.Model`, or a model that was checked before.

    A ModelProto or `onnx_ir.Model` is copied, because the caller may change it later.

    Raises:
        ModelError: See `read_checked`; or onnx-ir cannot serialize the model, or its data files are in several folders.
        MemoryError: See `read_proto`.
        UsageError: `model` is of another type.
    """
    if isinstance(model, CheckedModel):
        return model
    if is_path(model):
        return read_checked(model)
    if isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
        return check_model(proto)
    if not is_onnx_ir(model):
        expected = "a file's path, an onnx.ModelProto or an onnx_ir.Model"
        raise UsageError(f"a model is {expected}, got {type(model).__name__}.")
    from onnx_ops.model.prepare import external_tensors  # onnx-ir is imported only if it is used

    proto = serialize(model)
    # onnx-ir stores the folder in each external tensor. A ModelProto does not, so all data files must be in one folder.
    folders = dict.fromkeys(os.path.abspath(tensor.base_dir) for tensor, _ in external_tensors(model))
    if len(folders) > 1:
        first, second, *_ = folders
        raise ModelError(f"its data files are in several folders ({first!r} and {second!r}); load the tensors first.")
    return check_model(proto, *folders)


def serialize(model: ir.Model, failure: str = "the model cannot be serialized") -> onnx.ModelProto:
    """Return a model as a ModelProto. onnx-ir writes the metadata of tensors twice; the copies are removed here.

    An error message begins with `failure`.

    Raises:
        ModelError: onnx-ir cannot represent the model, or cannot read its tensors.
    """
    import onnx_ir as ir

    try:
        proto = ir.serde.serialize_model(model)
    except Exception as error:  # onnx-ir and protobuf have several classes of errors
        raise model_error(f"{failure}: {describe_cause(error)}.", error) from error
    for tensor in all_tensors(proto):
        entries = {entry.key: entry.value for entry in tensor.metadata_props}
        if len(entries) < len(tensor.metadata_props):
            del tensor.metadata_props[:]
            for key, value in entries.items():
                tensor.metadata_props.add(key=key, value=value)
    return proto


def to_bytes(proto: onnx.ModelProto | onnx.TensorProto, name: str) -> bytes:
    """Return a serialized model or tensor. An error message begins with `name`.

    Raises:
        ModelError: The data have more than `MAX_BYTES` bytes, or protobuf cannot serialize the model or tensor.
        MemoryError: The bytes do not fit into memory.
    """
    try:
        return bytes(proto.SerializeToString())
    except Exception as error:  # protobuf raises errors of several classes
        tensors = map(Tensor, [proto] if isinstance(proto, onnx.TensorProto) else all_tensors(proto))
        check_size(sum(tensor.nbytes for tensor in tensors if not tensor.is_external), name)
        if str(error) == "Failed to serialize proto":  # a message without a reason means a lack of memory
            raise MemoryError from error
        raise model_error(f"{name} cannot be serialized: {describe_cause(error)}.", error) from error


def check_size(count: int, name: str) -> None:
    """Raise a ModelError that begins with `name` if `count` bytes of data are too many for protobuf."""
    if count > MAX_BYTES:
        raise ModelError(f"{name} has {count} bytes of data, and protobuf writes at most {MAX_BYTES}.")


def is_onnx_ir(model: Any) -> bool:
    """Return whether a model is an `onnx_ir.Model`. This does not import onnx-ir, because the import takes long."""
    classes = type(model).__mro__
    return any(cls.__module__.partition(".")[0] == "onnx_ir" and cls.__name__ == "Model" for cls in classes)


def check_model(proto: onnx.ModelProto, base_dir: str = "", path: str = "") -> CheckedModel:
    """Check a model, and return it with the findings. If `base_dir` is empty, data files are not examined.

    Raises:
        ModelError: The model is not well-formed, or one of its data files in `base_dir` is not a regular file.
    """
    findings = check_proto(proto)
    for name in sorted(findings.data_files) if base_dir else ():
        file = os.path.join(base_dir, name)
        if os.path.exists(file) and not os.path.isfile(file):  # a pipe, say, which may never end
            raise ModelError(f"its data file {name!r} is not a regular file.")
    return CheckedModel(proto, findings, base_dir, path)


@contextmanager
def path_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Prefix each ModelError raised inside the context with the path of the model's file, unless `path` is empty."""
    try:
        yield
    except ModelError as error:
        if not path:
            raise
        # The cause is not `error` itself, so that a traceback does not print the same message twice.
        raise ModelError(f"'{os.fspath(path)}': {error}") from error.__cause__


def describe_cause(error: BaseException) -> str:
    """Return the message of the original error, which onnx-ir wraps in several other errors.

    The message is on one line, without its full stop. For an error without a message, return the name of its type.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    return shorten(str(error)).rstrip(".") or type(error).__name__
