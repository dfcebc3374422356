"""What an engine is: something that computes slicing nodes, so that `compare` can hold it against another.

There are two kinds. An operator engine runs what a node was lowered to, whatever format the model has; a node engine
runs the node itself, as its format has it. Engines register under the entry point group `sliceport.engines`.
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
        lowered: The node, resolved, and what it was lowered to.
        model: A model of that node alone, as its format has it. For `onnx`, an `onnx.ModelProto` that reads `data` and
            writes `out0`, `out1`, ..., one for each of the node's cuts. Formats say in their documentation what theirs
            is.
    """

    lowered: LoweredNode
    model: Any


@runtime_checkable
class OperatorEngine(Protocol):
    """An engine that runs DirectML operators.

    Attributes:
        name: What `--executors` calls it.
        description: One line for the help.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see the class

    @property
    def description(self) -> str: ...  # noqa: D102

    def run_operator(self, operator: Operator, data: Bytes) -> list[Bytes]:
        """Run an operator.

        Args:
            operator: The descriptor.
            data: The bytes of its input tensor's buffer, at least `total_tensor_size_in_bytes`.

        Returns:
            The bytes of each output tensor's buffer, in order.

        Raises:
            SliceportError: It cannot be run; the message becomes the finding.
        """
        ...


@runtime_checkable
class NodeEngine(Protocol):
    """An engine that runs slicing nodes as their format has them.

    Attributes:
        name: What `--executors` calls it.
        description: One line for the help.
        formats: The names of the formats whose nodes it runs.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see the class

    @property
    def description(self) -> str: ...  # noqa: D102

    @property
    def formats(self) -> tuple[str, ...]: ...  # noqa: D102

    def run_node(self, node: SingleNode, data: Bytes) -> list[Bytes]:
        """Run a node.

        Args:
            node: The node.
            data: The packed bytes of its input, of the shape and element type that the node has.

        Returns:
            The packed bytes of each output, in the order of the node's cuts.

        Raises:
            SliceportError: It cannot be run; the message becomes the finding.
        """
        ...


Engine = OperatorEngine | NodeEngine


def runs_format(engine: Engine, format_name: str) -> bool:
    """Whether an engine takes part in comparisons of models of a format."""
    return isinstance(engine, OperatorEngine) or format_name in engine.formats
