"""Parts of a session of onnxruntime: weights that are read from their files, and nodes with their providers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoredTensor:
    """An initializer in an external data file.

    Attributes:
        path: Path of the file, which must hold at least `offset + size` bytes.
        offset: Position of the first byte in the file.
        size: Number of bytes.
        element: The element type, as its number in TensorProto.
        shape: The shape.
    """

    path: str
    offset: int
    size: int
    element: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class NodeRun:
    """A node, and the name of the execution provider that it is assigned to, such as `DmlExecutionProvider`."""

    name: str
    op_type: str
    provider: str
