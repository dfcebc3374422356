"""The axes by whose sizes onnxruntime's CPU provider divides when it transposes. A size of 0 ends the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ops.model.element_type import BITS
from onnx_ops.model.nodes import constant, is_standard, is_valid_operator, read_ints, read_string, sizes_of
from onnx_ops.model.views import NodeView, Sizes, ValueView

Axis = tuple[ValueView, int]
_MAX_BLOCK_BITS = 32
"""The largest size of elements, in bits, for which onnxruntime moves several axes together."""


def find_fused_transposes(matmul: NodeView, opset: int) -> Iterator[tuple[str, ValueView]]:
    """Yield the pair (kind, data) for each operand of a MatMul.

    The kind tells which Transpose onnxruntime fuses with the MatMul: "batch" if axis 0 moves behind all batch
    axes, "matrix" if the last two axes change places, or "" if onnxruntime fuses no Transpose. "batch" requires that
    both operands have the same rank. The data are the tensor that the fused Transpose reads; ignore them if the kind is
    empty.

    Raises:
        InvalidSlice, DynamicSlice: A perm is not a list of integers or not known.
    """
    operands = [value for value in matmul.inputs if value is not None]
    ranks = {None if (sizes := sizes_of(value)) is None else len(sizes) for value in operands}
    for value in operands:
        kind, data = "", value
        # MatMul below opset 9 is not fused. The CPU provider has a kernel for fused nodes of these types only.
        if opset >= 9 and value.dtype is not None and value.dtype.name in ("FLOAT", "DOUBLE"):
            perm, data = find_merged_transpose(value, matmul.graph)
            rank = len(perm)
            if rank > 2 and ranks == {rank} and list(perm[:-2]) == list(range(1, rank - 1)):
                kind = "batch"
            elif rank > 1 and list(perm) == [*range(rank - 2), rank - 1, rank - 2]:
                kind = "matrix"
        yield kind, data


def find_merged_transpose(value: ValueView, graph: object = None) -> tuple[Sequence[int], ValueView]:
    """Return the perm and the data of the one Transpose that onnxruntime makes of all Transposes before a MatMul.

    onnxruntime removes Identity, Dropout (if its mask is not used) and each Cast to the same type. Constant factors
    and at most one Cast to another type may be between the last Transpose and the MatMul: onnxruntime moves them away.
    It merges Transposes even if constant factors or several Casts are between the Transposes.

    Args:
        value: An operand of the MatMul. If no Transpose computes it, return an empty perm and the operand.
        graph: The graph of the MatMul. onnxruntime fuses nothing outside this graph. None does not limit the search.

    Raises:
        InvalidSlice, DynamicSlice: A perm is not a list of integers or not known.
    """
    perm: Sequence[int] = ()  # empty until the walk, which goes backward, has found the last Transpose
    data, has_cast = value, False
    while (node := value.producer()) is not None and graph in (None, node.graph):
        if not is_valid_operator(node, "Transpose", "Identity", "Cast", "Mul", "Div") and not _is_removed_dropout(node):
            break
        source = _find_scaled(node) if node.op_type in ("Mul", "Div") else node.inputs[0]
        if source is None:  # the node does not scale one operand by a constant, or its data are left out
            break
        # onnxruntime neither removes nor moves a node that writes an output of the graph. But it may still merge such a
        # Transpose into a later Transpose, or such a factor into the MatMul.
        is_after_transposes = not perm
        merged_types = ("Mul", "Div") if is_after_transposes else ("Transpose",)
        if value.is_graph_output() and not is_valid_operator(node, *merged_types):
            break
        # After the last Transpose, one Cast to another type is moved away. Two unknown types count as the same type.
        if node.op_type == "Cast" and source.dtype != value.dtype and is_after_transposes:
            if has_cast:
                break
            has_cast = True
        value = source
        if node.op_type == "Transpose":
            # A Transpose without a perm, which reverses the axes, is not merged, nor is one with an invalid perm.
            outer = read_ints(node, "perm")
            if outer is None or sorted(outer) != list(range(len(perm or outer))):
                break
            perm = [outer[axis] for axis in perm] if perm else outer
            data = value
    return perm, data


def _is_removed_dropout(node: NodeView) -> bool:
    """Return whether onnxruntime removes a node because it is a Dropout whose mask is not used."""
    has_used_mask = any(output.uses() or output.is_graph_output() for output in node.outputs[1:])
    return is_standard(node, "Dropout") and len(node.inputs) > 0 and not has_used_mask


def _find_scaled(node: NodeView) -> ValueView | None:
    """Return the operand that a Mul or Div multiplies or divides by a constant of one element, or None."""
    data = [value for value in node.inputs if value is not None and ((c := constant(value)) is None or c.size != 1)]
    return data[0] if len(data) == 1 and (node.op_type == "Mul" or data[0] is node.inputs[0]) else None


def find_einsum_divisors(einsum: NodeView) -> Iterator[Axis]:
    """Yield the axes by whose sizes onnxruntime divides when it transposes the inputs of an Einsum.

    onnxruntime brings the labels of each input into the order in which they first occur in the equation. The axes of an
    ellipsis come first. An input with a repeated label is not examined. If a rank is unknown, no axes are yielded.

    Raises:
        InvalidSlice, DynamicSlice: The equation is not a text or not known.
    """
    terms = read_string(einsum, "equation").replace(" ", "").partition("->")[0].split(",")
    tensors = []
    for value, term in zip(einsum.inputs, terms, strict=False):
        sizes = None if value is None else sizes_of(value)
        if value is None or sizes is None:
            return
        ellipsis = "0123456789"[: len(sizes) - len(term.replace("...", ""))]  # each axis of an ellipsis gets a digit
        tensors.append((value, sizes, term.replace("...", ellipsis)))
    labels_by_occurrence = dict.fromkeys("".join(labels for _, _, labels in tensors))
    order = sorted(labels_by_occurrence, key=str.isalpha)  # the digits of an ellipsis come before letters
    for value, sizes, labels in tensors:
        perm = [labels.index(label) for label in order if label in labels]
        if len(perm) == len(sizes):  # otherwise, a label is repeated
            moves_blocks = value.dtype is None or BITS[value.dtype] <= _MAX_BLOCK_BITS
            yield from ((value, axis) for axis in _find_divisors(perm, sizes, moves_blocks))


def _find_divisors(perm: Sequence[int], sizes: Sizes, moves_blocks: bool) -> list[int]:
    """Return the axes by whose sizes onnxruntime divides when it transposes a tensor with these `sizes`.

    onnxruntime divides if only one axis moves. If elements are small (`moves_blocks`), it also divides if several last
    axes move forward together. It divides by the sizes of all axes but those that the moving axes jump over. Measured
    for each perm of up to 5 axes on onnxruntime 1.31.1.

    >>> _find_divisors((0, 3, 1, 2), (5, 6, 7, 8), False)  # axis 3 jumps over the axes 1 and 2
    [0, 3]
    """
    larger_axes = [axis for axis in perm if sizes[axis] != 1]
    if larger_axes == sorted(larger_axes):  # the order in memory stays the same
        return []
    places = [place for place, axis in enumerate(perm) if place != axis]
    first, last = places[0], places[-1]
    start = perm[first]  # the axes from `start` to `last` change places with those from `first` to `start - 1`
    if list(perm[first : last + 1]) != [*range(start, last + 1), *range(first, start)]:
        return []
    if start == first + 1 < last:  # axis `first` alone moves behind axis `last`
        moving = range(first, start)
    elif start == last or (moves_blocks and last == len(perm) - 1):  # the axes from `start` on move forward
        moving = range(start, last + 1)
    else:
        return []
    return [*range(first), *moving, *range(last + 1, len(perm))]
