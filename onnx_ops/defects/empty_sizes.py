"""The products of matrices and Concats that onnxruntime's CPU provider gets wrong if a size is 0.

MatMul was measured on onnxruntime 1.31.1 for all pairs of tensors of up to 4 axes with sizes of 0, 1 and 2. From 1.32.0
on, only MatMulInteger and QLinearMatMul are wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from onnx_ops.defects.empty_axes import find_einsum_divisors, find_fused_transposes
from onnx_ops.infer.open_sizes import OpenSizes
from onnx_ops.model.nodes import MATMULS, read_int
from onnx_ops.model.views import NodeView, ValueView
from sliceport.defects.defect import Defect, Kind
from sliceport.defects.entries import read_entries

_DEFECTS = read_entries("onnxruntime")

EMPTY_SIZE_OPERATORS = (*MATMULS, "Einsum", "Concat")
Dim = int | str | None
"""A size, the name of a size that the model's inputs leave open, or None if the size is not known."""
Dims = Sequence[Dim]
Effect = tuple[Defect, Dim, str]
"""A defect, the size that shows it if it is 0, and the wrong behavior."""
_CRASH, _UNWRITTEN = "ends the process", "leaves elements unwritten"


def check_empty_sizes(node: NodeView, opset: int, open_sizes: OpenSizes) -> Iterator[tuple[Defect, Kind, str]]:
    """Find the defects that a node shows if a size is 0. A finding is "fragile" if the size is open.

    If the size is 0, the finding is "invalid" for a Concat, and "defect" for the other operators.

    Args:
        node: A standard node with a valid arity. Only `EMPTY_SIZE_OPERATORS` are examined.
        opset: The version of ONNX's operators.
        open_sizes: The sizes that the inputs of the model leave open.

    Raises:
        InvalidSlice, DynamicSlice: An attribute is not valid or not known.
    """
    if node.op_type not in EMPTY_SIZE_OPERATORS:
        return

    def size_of(value: ValueView, axis: int) -> Dim:
        # If the size decides whether the body with this node runs, it counts as unknown: at 0, the node may never run.
        size = open_sizes.size_of(value, axis)
        return None if isinstance(size, str) and open_sizes.may_decide(size, node) else size

    if node.op_type == "Einsum":
        yield from _combine(
            (_DEFECTS["einsum of a transposed empty axis"], size_of(*axis), _CRASH)
            for axis in find_einsum_divisors(node)
        )
        return
    tensors = [
        [] if value is None else [size_of(value, axis) for axis in range(len(value.shape or ()))]
        for value in node.inputs
    ]
    if node.op_type == "Concat":
        yield from _check_concat(tensors, read_int(node, "axis", 1))
        return
    fused = [*find_fused_transposes(node, opset)] if node.op_type == "MatMul" else []
    # onnxruntime divides by the size of an axis that a fused Transpose moves behind all batch axes.
    moved = [size_of(data, 0) for kind, data in fused if kind == "batch"]
    effects: list[Effect] = [(_DEFECTS["matmul of a transposed empty axis"], size, _CRASH) for size in moved]
    left, right = (tensors[index] for index in MATMULS[node.op_type])
    if left and right:
        has_integers = any(value is not None and value.dtype and "INT" in value.dtype.name for value in node.inputs)
        effects += find_product_effects(left, right, has_integers, [kind for kind, _ in fused])
        terms = _find_empty_sum(left, right)
        if node.op_type != "MatMul" and not _is_product_empty(left, right, terms):
            effects.append((_DEFECTS["matmul of integers over an empty axis"], terms, _UNWRITTEN))
    yield from _combine(effects)


def _combine(effects: Iterable[Effect]) -> Iterator[tuple[Defect, Kind, str]]:
    """Yield one finding for all effects of the same defect and behavior. Leave out effects of unknown sizes."""
    sizes_by_effect: dict[tuple[Defect, str], list[Dim]] = {}
    for defect, size, effect in effects:
        sizes_by_effect.setdefault((defect, effect), []).append(size)
    for (defect, effect), sizes in sizes_by_effect.items():
        names = [size for size in sizes if isinstance(size, str)]
        if 0 in sizes:
            yield defect, "defect", f"{effect} because a size is 0"
        elif names:
            yield defect, "fragile", f"{effect} where {' or '.join(dict.fromkeys(names))} is 0"


def _check_concat(tensors: Sequence[Dims], axis: int) -> Iterator[tuple[Defect, Kind, str]]:
    """Report each axis but `axis` on which one tensor has a known size above 0, and another has size 0 or an open one.

    onnxruntime refuses different sizes only if no tensor is empty.
    """
    if len(set(map(len, tensors))) > 1:  # the rank of a tensor is open, so that it has no sizes here
        return
    for place, sizes in enumerate(zip(*tensors, strict=True)):
        fixed = [size for size in sizes if isinstance(size, int) and size]
        names = [size for size in sizes if isinstance(size, str)]
        if not fixed or place in (axis, axis + len(tensors[0])):
            continue
        if 0 in sizes:
            detail = f"axis {place} has sizes 0 and {fixed[0]}"
            yield _DEFECTS["concat of an empty tensor of another size"], "invalid", detail
        elif names:
            detail = f"right only where {' and '.join(dict.fromkeys(names))} is {fixed[0]}"
            yield _DEFECTS["concat of an empty tensor of another size"], "fragile", detail


def find_product_effects(left: Dims, right: Dims, has_integers: bool, fused: Sequence[str]) -> Iterator[Effect]:
    """Yield the defects that a product shows if a size is 0.

    Args:
        left: The sizes of the first tensor, which is not a scalar.
        right: The sizes of the second tensor, which is not a scalar.
        has_integers: Whether the elements are integers.
        fused: For each tensor, the kind of the fused Transpose, by `find_fused_transposes`.
    """
    effects = list(_find_effects(left, right, ("", "")))
    # Products of integers are not reported as unwritten: a MatMul writes all their elements, and the caller reports
    # MatMulInteger and QLinearMatMul itself.
    reported = [(size, effect) for size, effect in effects if not (has_integers and effect == _UNWRITTEN)]
    for size, effect in reported:
        rule = "matmul that broadcasts over an empty batch" if effect == "fails" else "matmul over an empty axis"
        yield _DEFECTS[rule], size, effect
    if any(fused):  # onnxruntime fuses no products of integers
        for size, effect in _find_effects(left, right, fused):
            if (size, effect) not in reported:
                yield _DEFECTS["matmul of a transposed tensor with an empty axis"], size, effect


def _find_effects(left: Dims, right: Dims, fused: Sequence[str]) -> Iterator[tuple[Dim, str]]:
    """Yield each size that has a wrong effect if it is 0, and the effect. Leave out what depends on an unknown size."""
    terms = _find_empty_sum(left, right)
    batch_axes = _pair_batch_axes(left, right)
    # onnxruntime joins the rows of all matrices on the left if the tensor on the right is a single matrix. To test
    # this, it compares two products of sizes. Both are 0 if the matrices on the right have no rows, so that several
    # matrices without rows pass the test, too.
    can_join = len(left) >= len(right) >= 2 and not fused[0] and fused[1] != "batch"
    is_joined = can_join and all(size in (1, None) for size in right[:-2])
    rows = right[-1] if fused[1] else terms  # of the matrices on the right, before a fused Transpose
    is_batch_ignored = any(left_size == 1 and right_size not in (1, None) for left_size, right_size in batch_axes)
    if can_join and is_batch_ignored and _may_be_empty(rows):
        yield rows, "ignores the batch of the second tensor"
    has_several_products = not is_joined and any(size not in (1, None) for sizes in batch_axes for size in sizes)
    is_written = (can_join and not fused[1]) or _is_product_empty(left, right, terms)
    if has_several_products and not is_written and _may_be_empty(terms):
        yield terms, _UNWRITTEN  # onnxruntime writes the zeros of the first product only
    if is_joined or (can_join and rows == 0):
        return
    for left_size, right_size in batch_axes:
        for size, other_size in ((left_size, right_size), (right_size, left_size)):
            if other_size == 1 and _may_be_empty(size):
                yield size, "fails"  # onnxruntime does not broadcast a size of 1 to 0


def _pair_batch_axes(left: Dims, right: Dims) -> list[tuple[Dim, Dim]]:
    """Return the two sizes of each batch axis. A tensor without the axis has size 1 there."""
    # If the second tensor is a vector, onnxruntime computes a product for each row of the first one.
    left_batch, right_batch = (left[:-1] if len(right) == 1 else left[:-2]), right[:-2]
    return list(zip_longest(reversed(left_batch), reversed(right_batch), fillvalue=1))[::-1]


def _may_be_empty(size: Dim) -> bool:
    return size == 0 or isinstance(size, str)  # None may be 0, too, but a finding could not name it


def _find_empty_sum(left: Dims, right: Dims) -> Dim:
    """Return 0 if a MatMul sums over an axis of size 0, the name of its size if it is open, and otherwise None."""
    sizes = {left[-1], right[-2:][0]} - {None}  # the last axis but one, or the only axis of a vector
    if any(isinstance(size, int) and size for size in sizes):
        return None
    # Both sizes are equal at run time, so either name will do.
    return 0 if 0 in sizes else min(map(str, sizes), default=None)


def _is_product_empty(left: Dims, right: Dims, terms: Dim) -> bool:
    """Return whether a product has no elements, assuming that `terms`, the result of `_find_empty_sum`, is 0."""
    kept_sizes = [*left[:-1], *right[:-2], *(right[-1:] if len(right) > 1 else ())]  # a MatMul does not sum over these
    return 0 in kept_sizes or terms in kept_sizes  # `terms` may be a symbol that a kept axis has, too
