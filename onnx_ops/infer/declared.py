"""Types that a model declares for its values, and when their sizes are not believed.

Many models are exported for one batch size, and then only the shapes of their inputs are changed. Such a model declares
numbers for sizes that its inputs leave open.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import onnx

from onnx_ops.infer.facts import Facts, read_type
from onnx_ops.model.domains import usual_name
from onnx_ops.model.views import Dims

_DEPENDENT = frozenset("Concat Conv ConvTranspose AveragePool LpPool MaxPool Add Sub Mul Div Pow Where".split())  # noqa: SIM905
"""Operators whose output size on an axis depends on the input sizes on that axis, counted from the end."""


def trace_open_sizes(
    node: onnx.NodeProto, index: int, dims: Dims | None, inputs: Sequence[Facts], symbols: Container[str]
) -> Dims | None:
    """Return the inferred sizes `dims` of an output, with one of the symbols for each size that changes with it.

    Use the result only to judge declared sizes: such a size need not be equal to its symbol.
    """
    if usual_name(node.domain):
        return dims
    if node.op_type == "Loop" and index < len(inputs) - 2:
        return inputs[index + 2].dims  # without any iteration, a carried value keeps its size
    if dims is None or None not in dims or node.op_type not in _DEPENDENT:
        return dims
    filled = list(dims)
    for axis in range(-len(dims), 0):
        sizes = [facts.dims[axis] for facts in inputs if facts.dims is not None and len(facts.dims) >= -axis]
        is_known = all(isinstance(size, int) or size in symbols for size in sizes)
        if dims[axis] is None and is_known:
            filled[axis] = next((size for size in sizes if isinstance(size, str)), None)
    return tuple(filled)


def fill_in_declared(facts: Facts, declared: onnx.TypeProto) -> Facts:
    """Return `facts` with missing parts taken from the declared type. Declared sizes replace inferred symbols."""
    declared_facts = read_type(declared.SerializeToString())
    if not (facts.element or facts.non_tensor_type):
        facts = replace(facts, element=declared_facts.element, non_tensor_type=declared_facts.non_tensor_type)
    if declared_facts.dims is None or facts.non_tensor_type:
        return facts
    if facts.dims is None:
        dims: Dims = declared_facts.dims
    elif len(facts.dims) == len(declared_facts.dims):
        pairs = zip(facts.dims, declared_facts.dims, strict=True)
        dims = tuple(
            [inferred if isinstance(inferred, int) or written is None else written for inferred, written in pairs]
        )
    else:
        return facts  # the ranks contradict each other, so the declared one is ignored
    return replace(facts, dims=dims)


def name_open_sizes(graph: onnx.GraphProto) -> frozenset[str]:
    """Give a symbol to each size of the inputs that has neither a number nor a symbol, and return these symbols."""
    symbols = set()
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") and not dim.dim_param:
                dim.dim_param = f"axis {axis} of {value.name}"
                symbols.add(dim.dim_param)
    return frozenset(symbols)


def without_numbers(declared: onnx.TypeProto, inferred: Dims | None = None) -> onnx.TypeProto:
    """Return a copy of a declared type with open sizes instead of numbers, except the numbers in `inferred`."""
    copy = onnx.TypeProto()
    copy.CopyFrom(declared)
    for axis, dim in enumerate(copy.tensor_type.shape.dim):
        if inferred is None or axis >= len(inferred) or dim.dim_value != inferred[axis]:
            dim.ClearField("dim_value")
    return copy


def fixes_open_size(
    declared: onnx.TypeProto, inferred: Dims | None, symbols: Container[str], *, is_bound: bool
) -> bool:
    """Return whether a size is declared as a number although inference finds one of the symbols.

    If `is_bound`, the user has given sizes for symbols. Then any other inferred number is a contradiction, too.
    """
    dims = declared.tensor_type.shape.dim
    if inferred is None or len(inferred) != len(dims):
        return False
    return any(
        dim.HasField("dim_value")
        and (size in symbols or (is_bound and isinstance(size, int) and size != dim.dim_value))
        for dim, size in zip(dims, inferred, strict=True)
    )
