"""Types that a model declares for its values, and copies of them without the sizes that may be wrong.

Many models are exported for one batch size, and then only the shapes of their inputs are changed. Such a model declares
numbers for sizes that its inputs leave open. Exporters that run an example also declare the sizes of its data.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import onnx

from onnx_ops.infer.facts import Facts, read_type
from onnx_ops.model.views import Dims


class Trust(Enum):
    """Values whose declared numbers a propagation uses, besides those of the inputs of the model.

    For the outputs of nodes in functions, `ALL` has the same effect as `CUSTOM`.
    """

    ALL = "all values"
    CUSTOM = "outputs of operators without inference, such as custom operators"
    NONE = "no values"


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
    """Return a copy of a declared type with open sizes instead of numbers. Numbers that `inferred` confirms stay."""
    copy = onnx.TypeProto()
    copy.CopyFrom(declared)
    for axis, dim in enumerate(copy.tensor_type.shape.dim):
        if inferred is None or axis >= len(inferred) or dim.dim_value != inferred[axis]:
            dim.ClearField("dim_value")
    return copy
