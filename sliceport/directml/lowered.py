"""Lowered nodes: the calls of DirectML operators, and the aliases, that replace a slicing node, as frozen values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from sliceport.directml.operators import Operator
from sliceport.directml.tensor import BufferTensor
from sliceport.errors import Refusal
from sliceport.slicing.node import Resolved, SlicingNode

Verdict = Literal["lowered", "alias", "empty", "folded", "refused"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True, slots=True)
class Binding:
    """The place of an operator's tensor: the buffer of a value of the model, and an offset in that buffer.

    Attributes:
        value: Name of the value.
        byte_offset: Start of the tensor in the buffer, a multiple of 16.
    """

    value: str
    byte_offset: int = 0


@dataclass(frozen=True)
class Call:
    """One run of an operator.

    Attributes:
        id: Number that is unique in the program, in execution order.
        operator: The descriptor.
        input: The binding of InputTensor.
        outputs: The bindings of OutputTensor or OutputTensors, in order.
    """

    id: int
    operator: Operator
    input: Binding
    outputs: tuple[Binding, ...]

    @cached_property
    def moved_bytes(self) -> int:
        """Number of bytes written, which is also the number of bytes read."""
        return sum(tensor.element_count * tensor.data_type.bits // 8 for tensor in self.operator.outputs)


@dataclass(frozen=True, slots=True)
class Alias:
    """An output that needs no operator, because it lies in the buffer of another value.

    Attributes:
        output: Name of the output value.
        value: Name of the value whose buffer holds the output. This value may be the output of an alias, too.
        byte_offset: Start of the output, counted from the start of the value.
        tensor: Sizes and strides of the output there; None if the output is the whole packed buffer.
    """

    output: str
    value: str
    byte_offset: int = 0
    tensor: BufferTensor | None = None


@dataclass(frozen=True)
class LoweredNode:
    """One slicing node, lowered.

    Attributes:
        node: The node as the front end read it.
        verdict: `lowered`: the node has `calls`; `alias`: it has only `aliases`; `empty`: it selects no elements;
            `folded`: its outputs are constants; `refused`: see `reason`.
        reason: The reason of a refusal; None for any other verdict.
        calls: The calls of operators; siblings that are lowered to one SPLIT share its call.
        aliases: The outputs that need no operator.
    """

    node: SlicingNode
    verdict: Verdict
    reason: Refusal | None = None
    calls: tuple[Call, ...] = ()
    aliases: tuple[Alias, ...] = ()

    @property
    def operators(self) -> set[str]:
        """The names of the operators that the node's calls run, as in DirectML.h."""
        return {call.operator.schema.type for call in self.calls}

    @property
    def resolved(self) -> Resolved:
        """The node as a `Resolved`. Use this only if the verdict is `lowered`, `alias` or `empty`."""
        assert isinstance(self.node, Resolved)
        return self.node


def list_calls(nodes: Iterable[LoweredNode]) -> tuple[Call, ...]:
    """Return the calls of nodes, each once, in execution order."""
    return tuple({call.id: call for node in nodes for call in node.calls}.values())
