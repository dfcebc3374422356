"""The nodes that onnxruntime's DirectML provider fuses, and those that it leaves to the CPU.

It leaves nodes that compute on shapes to the CPU, by the rule of onnxruntime's `GetCpuPreferredNodes`. Tests compare
the rule with the placement by onnxruntime-directml.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Any

from onnx_ops.model.nodes import constant, is_standard
from onnx_ops.model.views import Sizes, ValueView, static_sizes
from sliceport.defects.defect import Defect
from sliceport.defects.engines import ONNXRUNTIME_DML

DtypeOf = Callable[[Any], IntEnum | None]
"""A function that returns the element type of a value; None if it is not known."""
SizesOf = Callable[[Any], Sizes | None]
"""A function that returns the sizes of a value; None if the rank is open."""
_MAX_CONSTANT = 100
"""The most elements of a constant that a node on the CPU may read."""
_KEPT_TYPES = ("FLOAT16", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")
"""Element types whose nodes stay on the provider."""
_HOST_INPUTS = {
    "ConstantOfShape": 0, "Range": 0, "Clip": 1, "CumSum": 1, "Expand": 1, "OneHot": 1, "Pad": 1, "Reshape": 1,
    "Resize": 1, "Slice": 1, "Split": 1, "Squeeze": 1, "Tile": 1, "TopK": 1, "Trilu": 1, "Unsqueeze": 1,
}  # fmt: skip
"""The index of the first input that the provider reads on the host.

A node stays on the provider if such an input is computed.
"""

_SHOWS_IF_FUSED = {"one part gates another": True, "einsum that no matrix product computes": False}
"""For each defect that depends on it: whether it shows in a fused node. All sizes of a fused node are fixed."""


def adapt_to_placement(node: Any, defect: Defect, dtype_of: DtypeOf, sizes_of: SizesOf) -> Defect | None:
    """Return a defect of a node as it shows where onnxruntime places the node.

    If the DirectML provider leaves the node to the CPU, the defect loses its divergence on the provider; return None if
    it has no other one. A defect gets the kind "fragile" if it does not show for the sizes that are fixed.

    Args:
        node: The node.
        defect: A defect that it triggers on some engine.
        dtype_of: See `DtypeOf`.
        sizes_of: See `SizesOf`.
    """
    if ONNXRUNTIME_DML not in defect.engines:
        return defect
    if _is_left_to_cpu(node, dtype_of):
        others = tuple([each for each in defect.divergences if each.engine != ONNXRUNTIME_DML])
        return replace(defect, divergences=others) if others else None
    is_fused = all(static_sizes(sizes_of(value)) is not None for value in node.inputs if value is not None)
    return replace(defect, kind="fragile") if _SHOWS_IF_FUSED.get(defect.id, is_fused) != is_fused else defect


def _is_left_to_cpu(node: Any, dtype_of: DtypeOf) -> bool:
    """Return whether a node reads only sizes, small constants and graph inputs, or values that such nodes compute."""
    is_on_cpu: dict[int, bool] = {}
    pending = [node]  # a stack instead of recursion, because a chain of nodes may be long
    while pending:
        current = pending[-1]
        producers = _list_producers(current, dtype_of)
        computing = [each for each in producers or () if not is_standard(each, "Shape", "Size")]
        undecided = [each for each in computing if id(each) not in is_on_cpu]
        if undecided and all(is_on_cpu.get(id(each), True) for each in computing):
            pending.append(undecided[0])
        else:
            is_on_cpu[id(current)] = bool(producers) and all(is_on_cpu.get(id(each), False) for each in computing)
            pending.pop()
    return is_on_cpu[id(node)]


def _list_producers(node: Any, dtype_of: DtypeOf) -> list[Any] | None:
    """Return the nodes that compute the inputs of a node. Return None if an input keeps the node on the provider."""
    producers = []
    for index, value in enumerate(node.inputs):
        dtype = None if value is None else dtype_of(value)
        if value is None or (dtype is not None and dtype.name in _KEPT_TYPES):
            return None
        producer = value.producer()
        if producer is None or is_standard(producer, "Constant"):
            # The inputs of a function have no declared type. They are no graph inputs once the function is inlined.
            is_graph_input = value.dtype is not None and any(value is each for each in node.graph.inputs)
            if not (_is_small_constant(value) or is_graph_input):
                return None
        elif producer.graph is not node.graph or index >= _HOST_INPUTS.get(node.op_type, len(node.inputs)):
            return None  # the value is of an outer graph, or the provider itself reads it on the host
        else:
            producers.append(producer)
    return producers


def _is_small_constant(value: ValueView) -> bool:
    """Return whether a value is a constant of at most `_MAX_CONSTANT` elements."""
    tensor = constant(value)
    return tensor is not None and tensor.size <= _MAX_CONSTANT
