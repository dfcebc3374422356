"""The conditions under which an ONNX node triggers a defect of an engine; `harden` and `check` share them.

"The provider" is the DirectML provider of onnxruntime.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from onnx_ops.defects.contested import find_disagreement
from onnx_ops.model.element_type import BITS
from onnx_ops.model.nodes import (
    MAX_AXES,
    SLICE_INPUTS_OPSET,
    is_standard,
    is_strided_slice,
    is_valid_operator,
    read_elements,
    read_int,
    read_ints,
    read_string,
    sizes_of,
)
from onnx_ops.model.specs import slice_spec, split_spec, split_spec_with_open_sizes, strided_slice_spec
from onnx_ops.model.views import Array, NodeView, Sizes, ValueView
from sliceport.defects.defect import Defect
from sliceport.defects.entries import read_entries
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.slicing import AxisSlice, Region
from sliceport.slicing.spec import cut_shape, normalize_axis

_DEFECTS = read_entries("onnxruntime")

Value = TypeVar("Value", bound=ValueView)
Defects = tuple[Defect, ...]
_MAX_SLICE_AXES = 8  # the largest rank of a tensor that a Slice or Split of the provider accepts
MAX_MATMUL_AXES = 4
"""The largest rank of a tensor that a product of matrices of the provider accepts."""
_MAX_EINSUM_LABELS = 5
"""The most labels of an Einsum that a GEMM can compute: two batch axes, and the three axes of a matrix product."""
_ALIGNMENT_BITS = 128
"""The provider refuses a fused slice if the position of its first element, in bits, is a multiple of this number."""
_SHAPE_CHANGES = ("Identity", "Squeeze", "Unsqueeze")
"""Operators across which the provider fuses a slice with the node that reads it."""
_SHAPE_CHANGES_OF_DATA = (*_SHAPE_CHANGES, "Reshape", "Flatten")
"""Operators across which the provider fuses a slice with the node that computes its data."""
_FUSED = frozenset(
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip "  # noqa: SIM905
    "Cos Cosh CumSum Div Elu Erf Exp Floor HardSigmoid LeakyRelu Log Max Mean Min Mod Mul Neg Not Or Pow PRelu "
    "Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Tan Tanh ThresholdedRelu "
    "Xor".split()
)
"""Operators that the provider fuses with the slice before them. All were tried on onnxruntime-directml 1.24.4.

DirectML computes them on the selected part of the data, without a copy. Cast, Gelu and HardSwish read a copy.
"""
_FUSED_OPERANDS = dict.fromkeys(("Max", "Mean", "Min", "Sum"), 2)
"""The number of operands with which the provider fuses an operator of `_FUSED` that accepts any number."""
_MAX_CONV_TRANSPOSE_OPSET = 21  # the last one whose ConvTranspose the provider runs; later ones run on the CPU
_INT32_MIN = -(2**31)
_AXES, _STEPS = 3, 4  # indices of inputs of Slice


def check_node(node: NodeView, opset: int) -> None:
    """Check a slicing node against its specification, as far as the sizes of its data are known.

    Raises:
        InvalidSlice: The node breaks its specification.
        DynamicSlice: A parameter is not known.
    """
    data = node.inputs[0] if node.inputs else None
    if data is None:
        raise InvalidSlice("data is missing")
    if node.op_type != "Split" and len(node.outputs) != 1:
        raise InvalidSlice(f"{node.op_type} has 1 output, got {len(node.outputs)}")
    sizes = sizes_of(data)
    if is_strided_slice(node):
        strided = strided_slice_spec(node)
        if sizes is not None:
            strided.check(sizes)
    elif node.op_type == "Slice":
        # An open rank is replaced by the largest rank. A node that is invalid at that rank is invalid at every rank,
        # except if two axes, counted from different ends, coincide at that rank only. Such a node is refused, too.
        slice_spec(node, opset).check(MAX_AXES if sizes is None else len(sizes))
    else:
        _check_split(node, opset, (None,) * MAX_AXES if sizes is None else sizes)


def _check_split(node: NodeView, opset: int, sizes: Sizes) -> None:
    """Check a Split for errors that do not depend on its open sizes."""
    # An open size is assumed to be the number of outputs: parts of equal size then have 1 element, which is valid.
    assumed_sizes = [len(node.outputs) if size is None else size for size in sizes]
    spec = split_spec(node, opset, tuple(assumed_sizes))
    axis = normalize_axis(read_int(node, "axis", 0), len(sizes))
    if sizes[axis] is None:
        assumed_sizes[axis] = sum(spec.sizes)  # the sum of written part sizes, or again the number of outputs
    spec.resolve(assumed_sizes)


def slice_defects(node: NodeView, opset: int, sizes: Sizes | None) -> Defects:
    """Return the defects that a Slice triggers on the DirectML provider.

    If there is a defect from `find_unfixable`, or nothing is selected, only this defect is returned.

    Args:
        node: The Slice.
        opset: Version of its operator set.
        sizes: The sizes of its data, None for each open one; None if the rank is open.

    Raises:
        InvalidSlice, DynamicSlice: The bounds are not valid or not known.
    """
    if (unfixable := find_unfixable(node, opset, sizes)) is not None:
        return (unfixable,)
    if opset < SLICE_INPUTS_OPSET:
        return ()  # the remaining defects need bounds that are inputs
    bounds = slice_spec(node, opset).by_axis(None if sizes is None else len(sizes))
    if shape_if_empty(bounds, sizes) is not None:
        return (_DEFECTS["nothing is selected"],)
    triggered = [_DEFECTS["steps without axes"]] if len(node.inputs) > _STEPS and node.inputs[_AXES] is None else []
    # `replace_refused_starts` changes the bounds of an axis only if the provider refuses them.
    adapted = replace_refused_starts(bounds, sizes)
    refused_steps = [step for axis, (_, _, step) in bounds.items() if adapted[axis] != bounds[axis]]
    below, least = _DEFECTS["backwards from below the axis"], _DEFECTS["from the least integer to a negative end"]
    triggered += [below if step < 0 else least for step in refused_steps]
    return tuple(dict.fromkeys(triggered))


def find_unfixable(node: NodeView, opset: int, sizes: Sizes | None) -> Defect | None:
    """Return the defect that no replacement of a Slice or Split avoids, or None. For arguments see `slice_defects`."""
    if sizes is not None and len(sizes) > _MAX_SLICE_AXES:
        return _DEFECTS["more than 8 axes"]
    # `handling` is "rewritten" for a defect that `harden` avoids, and "named" for a defect that is only reported.
    disagreement = find_disagreement(node, opset, sizes)
    return disagreement if disagreement is not None and disagreement.handling == "named" else None


def shape_if_empty(bounds: Mapping[int, AxisSlice], sizes: Sizes | None) -> tuple[int, ...] | None:
    """Return the output shape of a Slice that selects nothing although its data have elements.

    Return None for any other Slice, or if the rank or a size of the data is open.

    Args:
        bounds: The start, end and step of the Slice by axis.
        sizes: The sizes of its data, None for each open one; None if the rank is open.
    """
    positive_sizes = [size for size in sizes or () if size]  # neither open nor 0
    if sizes is None or len(positive_sizes) != len(sizes):
        return None
    output_shape = cut_shape(bounds, positive_sizes)
    return output_shape if 0 in output_shape else None


def replace_refused_starts(bounds: Mapping[int, AxisSlice], sizes: Sizes | None) -> dict[int, AxisSlice]:
    """Return the bounds by axis, with 0 in place of each start that the DirectML provider refuses.

    By the specification, the bounds with 0 select the same elements. For the arguments see `shape_if_empty`.
    """
    adapted = {}
    for axis, (start, end, step) in bounds.items():
        size = sizes[axis] if sizes is not None else None
        if step < 0:  # the condition of "backwards from below the axis"
            is_refused = start <= _INT32_MIN or (size is not None and start < -size)
        else:  # the condition of "from the least integer to a negative end"
            is_refused = start <= _INT32_MIN and end < 0
        adapted[axis] = AxisSlice(0 if is_refused else start, end, step)
    return adapted


def split_defects(node: NodeView, opset: int, sizes: Sizes | None) -> Defects:
    """Return the defects that a Split triggers on the DirectML provider. For the arguments see `slice_defects`."""
    unfixable = find_unfixable(node, opset, sizes)
    # The provider refuses too many axes even if nothing reads the parts. All other defects need a part that is read.
    is_read = any(output.is_graph_output() or output.uses() for output in node.outputs)
    if unfixable is _DEFECTS["more than 8 axes"] or (unfixable is not None and is_read):
        return (unfixable,)
    if not is_read:
        return ()
    try:
        part_sizes = split_spec_with_open_sizes(node, opset, sizes).sizes
    except (InvalidSlice, DynamicSlice):  # without known sizes, no part is certainly empty
        part_sizes = ()
    gating = (_DEFECTS["one part gates another"],) if is_gated(node.outputs) else ()
    return (*gating, _DEFECTS["a part is empty"]) if 0 in part_sizes else gating


def is_gated(parts: Sequence[ValueView]) -> bool:
    """Return whether one part is multiplied by the Sigmoid of another part. Identity nodes may be in between."""
    # Maps the `id` of each Mul to the indices of the parts that the Mul reads without a Sigmoid.
    parts_by_product: dict[int, set[int]] = defaultdict(set)
    for index, part in enumerate(parts):
        for product, _ in find_readers(part, "Mul"):
            parts_by_product[id(product)].add(index)
    return any(
        parts_by_product[id(product)] - {index}
        for index, gate in enumerate(parts)
        for _, sigmoid_output in find_readers(gate, "Sigmoid")
        for product, _ in find_readers(sigmoid_output, "Mul")
    )


def find_readers(value: ValueView, op_type: str) -> Iterator[tuple[Any, Any]]:
    """Yield (node, first output) for each `op_type` node that reads a value, directly or through Identity nodes."""
    same_values = [value]
    while same_values:
        for node in same_values.pop().consumers():
            if is_valid_operator(node, op_type):
                yield node, node.outputs[0]
            elif is_valid_operator(node, "Identity"):
                same_values.append(node.outputs[0])


def known_elements(value: Value, find_elements: Callable[[Value], Array | None]) -> Array | None:
    """Return the elements of a short constant, or else the inferred elements of a value; see `reshape_entries`."""
    elements = read_elements(value, MAX_AXES)
    return find_elements(value) if elements is None else elements


def reshape_entries(shape: Value, find_elements: Callable[[Value], Array | None]) -> list[Value | int]:
    """Return the target of a Reshape as a list of integers and of values that are computed at run time.

    If a Concat computes the shape, the list has the Concat's operands. An operand with known elements is replaced
    by these. Any other operand is one item, but may have several elements. The list is empty if an operand is left out.

    Args:
        shape: The second input of the Reshape.
        find_elements: A function that returns the inferred elements of a value; None if they are not known.
    """
    producer = shape.producer()
    operands = producer.inputs if is_valid_operator(producer, "Concat") else (shape,)
    target: list[Value | int] = []
    for operand in operands:
        if operand is None:
            return []
        elements = known_elements(operand, find_elements)  # type: ignore[arg-type]  # a value of the same view
        target += [operand] if elements is None else [int(element) for element in elements.flat]  # type: ignore[list-item]
    return target


def reshape_defects(node: NodeView, target: Sequence[ValueView | int]) -> Defects:
    """Return the defects that a Reshape triggers on the DirectML provider. `target` is from `reshape_entries`.

    Raises:
        InvalidSlice, DynamicSlice: The attribute allowzero is not an integer or not known.
    """
    # The provider refuses a -1 if allowzero is set. With a 0 or a second -1, the Reshape itself is invalid.
    is_refused = bool(read_int(node, "allowzero", 0)) and target.count(-1) == 1 and 0 not in target
    return (_DEFECTS["allowzero and a -1"],) if is_refused else ()


def matmul_defects(sizes: Sequence[Sizes | None], dtype: IntEnum | None) -> Defects:
    """Return the defects that a MatMul, MatMulInteger or QLinearMatMul triggers on the DirectML provider.

    Products of other types than FLOAT, FLOAT16, INT8 and UINT8 have no defect, because they run on the CPU provider.

    Args:
        sizes: The sizes of the tensors that it multiplies.
        dtype: The element type of the second tensor; None if it is not known.
    """
    if dtype is not None and dtype.name not in ("FLOAT", "FLOAT16", "INT8", "UINT8"):
        return ()
    ranks = [len(tensor_sizes) for tensor_sizes in sizes if tensor_sizes is not None]
    if max(ranks, default=0) > MAX_MATMUL_AXES:
        return (_DEFECTS["matmul of more than 4 axes"],)
    is_by_vector = sizes[-1] is not None and len(sizes[-1]) == 1
    return (_DEFECTS["matmul by a vector"],) if is_by_vector else ()


def einsum_terms(node: NodeView) -> list[str]:
    """List the labels of each input of an Einsum, then those of its output. The list is empty if there is an ellipsis.

    Without `->`, the output has the labels that occur once in the inputs, sorted. For errors see `einsum_defects`.
    """
    inputs, arrow, output = read_string(node, "equation").replace(" ", "").partition("->")
    if "." in inputs + output:
        return []
    counts = Counter(inputs.replace(",", ""))
    return [*inputs.split(","), output if arrow else "".join(sorted(label for label in counts if counts[label] == 1))]


def einsum_defects(node: NodeView) -> Defects:
    """Return the defects that an Einsum of two tensors triggers on the DirectML provider.

    The provider uses a GEMM for an Einsum that sums over one label, has at most `_MAX_EINSUM_LABELS`, and has a label
    that belongs to one tensor alone. A GEMM's output has two batch axes and one axis from each tensor. For any other
    Einsum with summed labels, the provider multiplies and then sums, which crashes unless the output is a scalar.

    Raises:
        InvalidSlice, DynamicSlice: The equation is not a text or not known.
    """
    terms = einsum_terms(node)
    if len(terms) != 3:  # there are not two inputs, or there is an ellipsis
        return ()
    left, right, output = map(set, terms)
    summed = (left | right) - output
    if not summed or not output:
        return ()
    if len(summed) > 1 or left == right or len(left | right) > _MAX_EINSUM_LABELS:
        return (_DEFECTS["einsum that no matrix product computes"],)
    # The output of a GEMM has room for one label of `left` alone, one of `right` alone, and any two other labels.
    axes_of_gemm = min(1, len(output - left)) + min(1, len(output - right)) + 2
    return (_DEFECTS["einsum that drops a label"],) if len(output) > axes_of_gemm else ()


def conv_transpose_defects(node: NodeView, opset: int) -> Defects:
    """Return the defects that a ConvTranspose of operator set `opset` triggers on the DirectML provider.

    Raises:
        InvalidSlice, DynamicSlice: The attribute output_padding is not a list of integers or not known.
    """
    # The attribute has one entry per spatial axis. The provider refuses a single entry, even a 0.
    is_refused = len(read_ints(node, "output_padding") or ()) == 1 and opset <= _MAX_CONV_TRANSPOSE_OPSET
    return (_DEFECTS["output_padding of one axis"],) if is_refused else ()


def fused_slice_defects(node: NodeView, opset: int, shape: tuple[int, ...] | None, element: IntEnum | None) -> Defects:
    """Return the defect that a Slice or Split triggers if the DirectML provider fuses it with the nodes around it.

    The provider fuses them only if the data and the one output that is read have one reader each. The defect shows if
    one run of adjacent elements, but not the whole tensor, is selected and starts at a multiple of `_ALIGNMENT_BITS`.

    Args:
        node: The Slice or Split.
        opset: Version of its operator set.
        shape: The shape of its data; None if a size is not known.
        element: The element type of its data; None if it is not known.

    Raises:
        InvalidSlice, DynamicSlice: The parameters are not valid or not known.
    """
    read_outputs = [i for i, output in enumerate(node.outputs) if output.uses() or output.is_graph_output()]
    data = node.inputs[0]
    if shape is None or element is None or data is None or len(read_outputs) != 1:
        return ()
    if not (_is_computed_for_one_reader(data) and _is_read_by_one_fused_node(node.outputs[read_outputs[0]])):
        return ()
    if node.op_type == "Slice":
        region = slice_spec(node, opset).resolve(shape)
    else:
        region = split_spec(node, opset, shape).resolve(shape)[read_outputs[0]]
    start = _start_of_run(region)
    is_aligned = start is not None and start * BITS[element] % _ALIGNMENT_BITS == 0
    return (_DEFECTS["aligned run between element-wise nodes"],) if is_aligned else ()


def _start_of_run(region: Region) -> int | None:
    """Return the index in memory of the first element of a region that is one run of adjacent elements.

    The result is None if the region is not one run, is empty, or selects the whole tensor.
    """
    ranges = region.coalesce().ranges
    is_run = not region.is_empty and not region.selects_all and len(ranges) == 1 and ranges[0].step == 1
    return ranges[0].start if is_run else None


def _is_computed_for_one_reader(value: ValueView) -> bool:
    """Return whether a value has a single reader, is not an output of the graph, and is computed by a node with inputs.

    If that node only changes the shape, its data must meet the same conditions.
    """
    while len(value.consumers()) == 1 and not value.is_graph_output():
        producer = value.producer()
        if producer is None or not producer.inputs:  # such as a Constant or an input of the graph
            return False
        source = producer.inputs[0]
        if not is_valid_operator(producer, *_SHAPE_CHANGES_OF_DATA) or source is None:
            return True
        value = source
    return False


def _is_read_by_one_fused_node(value: ValueView) -> bool:
    """Return whether the only reader of a value can be fused with a Slice, and reads the value once.

    If the reader only changes the shape, its output must meet the same conditions. Return False for a graph output.
    """
    while len(readers := value.consumers()) == 1 and not value.is_graph_output():
        (reader,) = readers
        if sum(source is value for source in reader.inputs) != 1:
            return False
        if is_standard(reader, *_FUSED):
            return _FUSED_OPERANDS.get(reader.op_type) in (None, len(reader.inputs))
        if not is_valid_operator(reader, *_SHAPE_CHANGES):
            return False
        value = reader.outputs[0]
    return False


def constant_of_shape_defects(shape: Array | None) -> Defects:
    """Return the defects that a ConstantOfShape triggers. `shape` is the shape of its output, None if not known."""
    return (_DEFECTS["constant of an empty shape"],) if shape is not None and 0 in shape else ()


def loop_defects(shapes: Iterable[tuple[Sizes | None, Sizes | None, bool]]) -> Defects:
    """Return the defects of a Loop that carries a value whose size differs from the size that the body declares.

    Args:
        shapes: For each input of its body, the declared sizes; the inferred sizes, None for each size that an iteration
            may change; and whether an iteration certainly changes a size.
    """
    for declared_sizes, inferred_sizes, is_resized in shapes:
        pairs = zip(declared_sizes or (), inferred_sizes or (), strict=False)  # no pairs if a rank is open
        for declared, inferred in pairs:
            is_certain = inferred is not None or is_resized
            if declared is not None and declared != inferred and is_certain:
                return (_DEFECTS["a carried value changes its size"],)
    return ()
