"""Checks of tensors (type, shape, data, data file) and of the text in any part of a model; each raises ModelError."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import PureWindowsPath
from typing import Any

import onnx

from onnx_ops.model.element_type import BITS, ElementType
from onnx_ops.model.nodes import MAX_AXES
from sliceport.errors import ModelError

_MAX_BYTES = 2**63
"""A size that no file reaches, because file sizes are signed 64-bit numbers."""
_MAX_DIGITS = 19  # the digits of _MAX_BYTES
_MAX_CHECKED_BYTES = 2**20
"""Larger tensors are weights. Their data are not checked, because protobuf copies the data to return the length."""
_DATA_FIELDS: dict[int, tuple[str, int]] = {
    ElementType.FLOAT: ("float_data", 1),
    ElementType.DOUBLE: ("double_data", 1),
    ElementType.COMPLEX64: ("float_data", 2),
    ElementType.COMPLEX128: ("double_data", 2),
    ElementType.INT64: ("int64_data", 1),
    ElementType.UINT32: ("uint64_data", 1),
    ElementType.UINT64: ("uint64_data", 1),
    ElementType.STRING: ("string_data", 1),
}
"""For some element types, the field that lists the elements if there are no raw data, and the entries per element.

All other types of at least 8 bits use one entry of `int32_data` per element.
"""


@dataclass
class Findings:
    """Properties of a well-formed model. The checks in this module and in `check` set them.

    Attributes:
        is_sorted: Whether every node comes after all nodes whose outputs it or its subgraphs read.
        data_files: The external data files, as the model names them.
        has_functions: Whether the model has functions that must be inlined before its nodes are read.
        has_negative_sizes: Whether a type is declared with a size below 0.
        outer_output: An output of a body that is a value of a graph around it, or an empty string. onnxruntime refuses
            such a body, and onnx-ir would read the output as a new value.
        sparse_initializer: The name of a sparse initializer of any graph, or an empty string.
        is_plain: Whether all values and constants are dense tensors, and no constant has metadata.
    """

    is_sorted: bool = True
    data_files: set[str] = field(default_factory=set)
    has_functions: bool = False
    has_negative_sizes: bool = False
    outer_output: str = ""
    sparse_initializer: str = ""
    is_plain: bool = True

    @property
    def needs_onnx_ir(self) -> bool:
        """Whether onnx-ir must read the model, because it has functions, is not sorted or is not plain."""
        return self.has_functions or not (self.is_sorted and self.is_plain)


def check_tensor(tensor: onnx.TensorProto, owner: str, findings: Findings) -> None:
    """Check a tensor and update `findings`. In messages, `owner` names the graph, function or node of the tensor."""
    check_text(owner, (tensor.name, tensor.doc_string))
    if tensor.metadata_props:
        findings.is_plain = False
        check_metadata(owner, tensor.metadata_props)
    label = f"tensor {tensor.name!r}" if tensor.name else f"a tensor of {owner}"
    element, dims = tensor.data_type, tensor.dims[:]
    if dims and min(dims) < 0:
        raise ModelError(f"{label} has a negative dimension in {dims}.")
    check_element_type(element, label)
    if element == onnx.TensorProto.UNDEFINED:
        raise ModelError(f"{label} has no element type.")
    check_rank(len(dims), label)
    byte_count = prod(dims) * BITS[element] // 8
    if byte_count >= _MAX_BYTES:
        raise ModelError(f"{label} of shape {dims} is larger than any file.")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        findings.data_files.add(_check_location(tensor, label))
    elif byte_count <= _MAX_CHECKED_BYTES:
        _check_data(tensor, label, element, dims)


def _check_data(tensor: onnx.TensorProto, label: str, element: int, dims: list[int]) -> None:
    """Check the length of the data against the element type and the shape, and refuse strings as raw data.

    A tensor without its data passes here. The error is reported when the tensor is read.
    """
    count = prod(dims)
    if tensor.HasField("raw_data"):
        if element == onnx.TensorProto.STRING:
            raise ModelError(f"{label} holds strings as raw data, which ONNX forbids.")
        # Elements of less than a byte are packed, and the last byte may be partly filled, so round up.
        length, expected, unit = len(tensor.raw_data), -(-count * BITS[element] // 8), "bytes"
    elif BITS[element] < 8:
        return  # several of these elements share an entry of `int32_data`, so its length is not compared
    else:
        field_name, width = _DATA_FIELDS.get(element, ("int32_data", 1))
        length, expected, unit = len(getattr(tensor, field_name)), count * width, "entries"
    if length and length != expected:
        raise ModelError(
            f"{label} holds {length} {unit}, but shape {dims} of type {ElementType(element).name} needs {expected}."
        )


def _check_location(tensor: onnx.TensorProto, label: str) -> str:
    """Check the file name, offset and length of a tensor with external data, and return the file name."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    check_text(label, (*entries, *entries.values()))
    location: str = entries.get("location", "")
    if not location:
        raise ModelError(f"{label} is stored in an external file that it does not name.")
    if leaves_folder(location):
        raise ModelError(f"{label} is stored at {location!r}, which leaves the model's folder.")
    for key in ("offset", "length"):
        number = entries.get(key, "0")
        # Python refuses to parse a number of thousands of digits.
        if not number.isdecimal() or len(number) > _MAX_DIGITS or int(number) >= _MAX_BYTES:
            raise ModelError(
                f"{label} has {number!r} as the {key} of its external data, which must be a size in bytes."
            )
    return location


def leaves_folder(location: str) -> bool:
    """Return whether the path of a data file may lead out of the model's folder on some system, or contains NUL."""
    path = PureWindowsPath(location)  # also reads POSIX paths: `/a` has a `root`, but no `drive`
    return bool(path.drive or path.root) or ".." in path.parts or "\0" in location


def check_sparse(sparse: onnx.SparseTensorProto, owner: str, findings: Findings) -> None:
    """Check the two tensors of a sparse tensor, and set `Findings.is_plain` to False."""
    findings.is_plain = False  # `ProtoModel` has only dense tensors, so onnx-ir must read the model
    check_tensor(sparse.values, owner, findings)
    check_tensor(sparse.indices, owner, findings)


def check_rank(rank: int, owner: str) -> None:
    """Check that a NumPy array can have this number of axes. `owner` names the tensor or value, for the message."""
    if rank > MAX_AXES:
        raise ModelError(f"{owner} has {rank} axes, more than the {MAX_AXES} that an array can have.")


def check_element_type(number: int, owner: str) -> None:
    """Check the number of an element type; UNDEFINED passes. `owner` names the tensor or value, for the message."""
    if number not in BITS:
        raise ModelError(f"{owner} has element type {number}, which ONNX does not define.")


def check_metadata(owner: str, entries: Any) -> None:
    """Check that keys and values of `metadata_props` are UTF-8."""
    for entry in entries:
        check_text(owner, (entry.key, entry.value))


def check_text(owner: str, texts: Iterable[str]) -> None:
    """Check that all texts are UTF-8. Protobuf returns any other text as bytes."""
    for text in texts:
        if isinstance(text, bytes):
            raise ModelError(f"{owner} has text that is not UTF-8: {text!r}.")
