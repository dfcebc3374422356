"""Computed shapes of Reshapes that onnxruntime replaces by constants which fail if an axis has size 0.

From its basic level of graph optimization on, onnxruntime replaces a Concat that only a Reshape reads, as its shape, by
a constant. A size that the Reshape would copy becomes 0. One other size that is not constant becomes -1; if there are
more of these, the Concat stays. A Reshape to a shape with both a -1 and a size 0 fails, while the shape that the Concat
computes is valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from onnx_ops.model.nodes import constant, is_valid_operator, read_elements
from onnx_ops.model.views import static_sizes
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.edits import Identities
from onnx_ops.passes.matchers import NEUTRAL, SHAPE_INPUT, may_allow_zero
from onnx_ops.passes.value_info import ValueInfo

WOULD_FAIL = "onnxruntime would replace the shape of a Reshape by a constant with a 0 and a -1, which fails at size 0"
"""The reason why a pass skips a node: a Reshape that runs would fail."""
_MAX_SIZES = 64
"""Limit for the elements of a value that may lead to the shape of a Reshape."""


def would_fail(successors: Mapping[ir.Value, ir.Value], info: ValueInfo, identities: Identities) -> bool:
    """Return whether a Reshape that runs at size 0 of an axis would fail if `successors` replaced their keys.

    The nodes of a successor need not be in the graph yet.
    """
    # Whether onnxruntime recognizes a size as copied depends on what it infers, so both answers are tried.
    return any(
        _ShapeReader(info, identities, successors, copies).fails(reshape)
        and not _ShapeReader(info, identities, {}, copies).fails(reshape)
        for reshape in _find_reshapes(successors, info)
        for copies in (True, False)
    )


def _find_reshapes(values: Mapping[ir.Value, ir.Value], info: ValueInfo) -> Iterator[ir.Node]:
    """Yield each Reshape whose shape depends on one of `values`."""
    pending, visited = list(values), set()
    while pending:
        value = pending.pop()
        if value in visited or not _is_short(value, info):
            continue
        visited.add(value)
        for use in value.uses():
            if use.idx == SHAPE_INPUT and is_valid_operator(use.node, "Reshape"):
                yield use.node
            else:
                pending += use.node.outputs


def _is_short(value: ir.Value, info: ValueInfo) -> bool:
    """Return whether a value is known to be a scalar or a short list, and so may lead to the shape of a Reshape."""
    sizes = info.sizes.get(value, (None,))
    return len(sizes) < 2 and all(size is not None and size <= _MAX_SIZES for size in sizes)


@dataclass(frozen=True)
class _ShapeReader:
    """Reader of a Concat as onnxruntime does, after the replacement of some values by their successors.

    Attributes:
        info: The facts about the values of the model.
        identities: Finds the sources of copied values.
        successors: The values that replace others.
        copies: Whether onnxruntime recognizes sizes that the Reshape would copy.
    """

    info: ValueInfo
    identities: Identities
    successors: Mapping[ir.Value, ir.Value]
    copies: bool

    def fails(self, reshape: ir.Node) -> bool:
        """Return whether onnxruntime makes the shape of a Reshape a constant with which it may fail at size 0."""
        data, written = reshape.inputs
        if data is None or written is None:
            return False
        sizes, shape = self.info.sizes.get(data), self._resolve(written)
        concat = shape.producer()
        # Of a Concat with other readers, only the elements count, if they follow from constants.
        is_joined = is_valid_operator(concat, "Concat") and count_uses(shape) == 1
        operands = concat.inputs if concat is not None and is_joined else [written]
        allows_zero = may_allow_zero(reshape)
        elements: list[int | None] = []
        for operand in operands:
            listed = None if operand is None else self._read_operand(operand, len(elements))
            if listed is None:
                return False
            elements += listed
        inferred = [element for element in elements if element is None or element == -1]
        # Unless a 0 stands for size 0, the Reshape fails with a written -1 anyway.
        return inferred in ([None], [-1 if allows_zero else None]) and any(
            element == 0 and (allows_zero or sizes is None or not all(sizes[axis : axis + 1]))
            for axis, element in enumerate(elements)
        )

    def _read_operand(self, operand: ir.Value, position: int) -> Sequence[int | None] | None:
        """Return the sizes that an operand lists, from `position` on: None for a -1, 0 for a size that is copied.

        Return None for an operand with which onnxruntime keeps the Concat.
        """
        shape = static_sizes(self.info.sizes.get(operand))
        sizes: Sequence[int | None] | None = self._read_constant(self._resolve(operand))
        if sizes is None and shape is not None and self._follows_from_constants(operand):
            # onnxruntime folds the nodes in between. Sizes that are not inferred, such as rounded floats, count as 1.
            inferred = self.info.elements(operand)
            sizes = [1] * prod(shape) if inferred is None else inferred.reshape(-1).tolist()
        if sizes is None and self.copies and self._is_size(operand, position):
            sizes = [0]
        return [None] if sizes is None and shape == (1,) else sizes

    def _read_constant(self, value: ir.Value | None) -> list[int] | None:
        """Return the elements of a short constant. Return None for any other value."""
        elements = None if value is None else read_elements(self.successors.get(value, value), _MAX_SIZES)
        return None if elements is None else elements.reshape(-1).tolist()

    def _resolve(self, value: ir.Value) -> ir.Value:
        """Return the value that readers of `value` would read, without the nodes that only copy it."""
        source = self.identities.source_of(value)
        source = self.identities.source_of(self.successors.get(source, source))
        node = source.producer()
        if is_valid_operator(node, *NEUTRAL):  # onnxruntime removes such a node if one operand is neutral
            for operand, other in (node.inputs, node.inputs[::-1]):
                if operand is not None and self._read_constant(other) == [NEUTRAL[node.op_type]]:
                    return self._resolve(operand)
        return source

    def _follows_from_constants(self, value: ir.Value) -> bool:
        """Return whether a value follows from constants and short lists, not from the shape of another value."""
        pending, visited = [value], set()
        while pending:
            current = self._resolve(pending.pop())
            if current in visited or constant(current) is not None:
                continue
            visited.add(current)
            producer = current.producer()
            if producer is None or producer.op_type in ("Shape", "Size") or not _is_short(current, self.info):
                return False
            pending += [source for source in producer.inputs if source is not None]
        return True

    def _is_size(self, value: ir.Value, axis: int) -> bool:
        """Return whether `value` is Unsqueeze(Gather(Shape(…), axis))."""
        unsqueeze = self._resolve(value).producer()
        gathered = unsqueeze.inputs[0] if is_valid_operator(unsqueeze, "Unsqueeze") else None
        gather = None if gathered is None else self._resolve(gathered).producer()
        if not is_valid_operator(gather, "Gather"):
            return False
        shape, indices = gather.inputs
        source = None if shape is None else self._resolve(shape).producer()
        return is_valid_operator(source, "Shape") and self._read_constant(indices) == [axis]
