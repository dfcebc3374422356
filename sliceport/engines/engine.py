"""The protocols of engines, which compute slicing nodes so that `compare` can compare them with one another.

An operator engine runs the operators that a node was lowered to, for models of every format. A node engine runs the
node itself, for models of the formats that it names. Engines register under the entry point group `sliceport.engines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sliceport.directml.program import LoweredNode

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sliceport.directml.operators import Operator

    Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class SingleNode:
    """A slicing node to be run by itself.

    Attributes:
        lowered: The resolved node and its operators.
        model: A model of that node alone, in a form that its format documents. For `onnx`, an `onnx.ModelProto` that
            reads `data` and writes `out0`, `out1`, ..., one for each of the node's cuts.
    """

    lowered: LoweredNode
    model: Any


class _Named(Protocol):
    """An engine with a name for `--executors`, and a description of one line for the help."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...


@runtime_checkable
class OperatorEngine(_Named, Protocol):
    """An engine that runs DirectML operators."""

    def run_operator(self, operator: Operator, data: Bytes) -> list[Bytes]:
        """Run an operator.

        Args:
            operator: The descriptor.
            data: The bytes of its input tensor's buffer, at least `total_tensor_size_in_bytes`.

        Returns:
            The bytes of each output tensor's buffer, in order.

        Raises:
            SliceportError: The operator cannot be run; the message becomes the finding.
        """
        ...


@runtime_checkable
class NodeEngine(_Named, Protocol):
    """An engine that runs slicing nodes of some model formats.

    Attributes:
        formats: The names of the formats whose nodes it runs.
    """

    @property
    def formats(self) -> tuple[str, ...]: ...  # noqa: D102 - see the class

    def run_node(self, node: SingleNode, data: Bytes) -> list[Bytes]:
        """Run a node.

        Args:
            node: The node.
            data: The packed bytes of its input, with the node's input shape and element type.

        Returns:
            The packed bytes of each output, in the order of the node's cuts.

        Raises:
            SliceportError: The node cannot be run; the message becomes the finding.
        """
        ...


Engine = OperatorEngine | NodeEngine


def runs_format(engine: Engine, format_name: str) -> bool:
    """Whether an engine takes part in comparisons of models of a format."""
    return isinstance(engine, OperatorEngine) or format_name in engine.formats
