"""The products and Concats that onnxruntime's CPU provider gets wrong if the size of an axis is 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx_ops.infer.open_sizes import OpenSizes
from onnx_ops.model.empty_axes import find_einsum_divisors, find_fused_transposes
from onnx_ops.model.empty_products import Dim, Effect, find_empty_integer_product, find_empty_products
from onnx_ops.model.nodes import read_int
from onnx_ops.model.views import NodeView, ValueView
from sliceport.defects import onnxruntime as defects
from sliceport.defects.defect import Defect, Kind

CHECKED_OPERATORS = ("MatMul", "MatMulInteger", "QLinearMatMul", "Einsum", "Concat")
_CRASH = "ends the process"


def check_empty_sizes(node: NodeView, opset: int, open_sizes: OpenSizes) -> Iterator[tuple[Defect, Kind, str]]:
    """Find the defects that a node shows if a size is 0: "defect" if it is 0, and "fragile" if an open size may be 0.

    Args:
        node: A standard node with a valid arity. Only `CHECKED_OPERATORS` are examined.
        opset: The version of ONNX's operators.
        open_sizes: The sizes that the inputs of the model leave open.

    Raises:
        InvalidSlice, DynamicSlice: An attribute is not valid or not known.
    """
    if node.op_type not in CHECKED_OPERATORS:
        return

    def size_of(value: ValueView, axis: int) -> Dim:
        # If a size decides whether a node in a body runs, the node may not run where the size is 0.
        size = open_sizes.size_of(value, axis)
        return None if isinstance(size, str) and open_sizes.may_decide(size, node) else size

    tensors = [
        [] if value is None else [size_of(value, axis) for axis in range(len(value.shape or ()))]
        for value in node.inputs
    ]
    effects: list[Effect] = []
    if node.op_type == "Concat":
        yield from _check_concat(tensors, read_int(node, "axis", 1))
    elif node.op_type == "Einsum":
        effects += [(defects.EINSUM_OF_EMPTY, size_of(*axis), _CRASH) for axis in find_einsum_divisors(node)]
    elif node.op_type == "MatMul":
        fused = [*find_fused_transposes(node, opset)]
        # onnxruntime divides by the size of an axis that a fused Transpose moves behind all batch axes.
        moved = [data for kind, data in fused if kind == "batch"]
        effects += [(defects.TRANSPOSED_EMPTY_AXIS, size_of(data, 0), _CRASH) for data in moved]
        if all(tensors):
            has_integers = any(value is not None and value.dtype and "INT" in value.dtype.name for value in node.inputs)
            effects += find_empty_products(tensors[0], tensors[1], has_integers, [kind for kind, _ in fused])
    else:
        left, right = tensors[0], tensors[3 if node.op_type == "QLinearMatMul" else 1]
        effects += find_empty_integer_product(left, right) if left and right else ()
    sizes_by_effect: dict[tuple[Defect, str], list[Dim]] = {}
    for defect, size, effect in effects:
        sizes_by_effect.setdefault((defect, effect), []).append(size)
    for (defect, effect), sizes in sizes_by_effect.items():
        names = [size for size in sizes if isinstance(size, str)]
        if 0 in sizes:
            yield defect, "defect", f"{effect} because a size is 0"
        elif names:
            yield defect, "fragile", f"{effect} where {' or '.join(dict.fromkeys(names))} is 0"


def _check_concat(tensors: Sequence[Sequence[Dim]], axis: int) -> Iterator[tuple[Defect, Kind, str]]:
    """Report a Concat whose tensors differ, or may differ, in another size than that of `axis`, if one tensor is empty.

    onnxruntime refuses different sizes only if no tensor is empty.
    """
    ranks = {len(sizes) for sizes in tensors}
    if len(ranks) > 1:  # a rank is open
        return
    for place, sizes in enumerate(zip(*tensors, strict=True)):
        fixed = [size for size in sizes if isinstance(size, int) and size]
        names = [size for size in sizes if isinstance(size, str)]
        if not fixed or place in (axis, axis + len(tensors[0])):
            continue
        if 0 in sizes:
            yield defects.CONCAT_OF_EMPTY, "invalid", f"axis {place} has sizes 0 and {fixed[0]}"
        elif names:
            yield (
                defects.CONCAT_OF_EMPTY,
                "fragile",
                f"right only where {' and '.join(dict.fromkeys(names))} is {fixed[0]}",
            )
