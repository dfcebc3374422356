"""Parts of a session of onnxruntime: weights that stay in their files, and nodes with their providers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoredTensor:
    """An initializer in an external data file.

    Attributes:
        path: The file.
        offset: Position of the first byte in the file.
        size: Number of bytes.
        element: The element type, as a number of TensorProto.
        shape: The shape.
    """

    path: str
    offset: int
    size: int
    element: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class NodeRun:
    """A node, and the execution provider that it is assigned to."""

    name: str
    op_type: str
    provider: str
