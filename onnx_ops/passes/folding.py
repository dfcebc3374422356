"""Values that are the same for all inputs of a model and on every engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_ops.infer.exact import MOVING, OPERATORS
from onnx_ops.infer.facts import MAX_BYTES, Facts
from onnx_ops.model.cached_read import cached_read
from onnx_ops.model.nodes import LARGE_BYTES, MARK, SLICING, constant, is_operator, is_standard, read_int, resolve
from onnx_ops.model.walk import count_uses
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.slicing import Region
from sliceport.slicing.spec import normalize_axis

Array = npt.NDArray[Any]

_BITS_OF_A_BYTE = 8
_MAX_GROWTH = 32
FOLDED = (*SLICING, "Gather")
"""The operators whose values are asked for."""
_INTEGERS = frozenset((ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL))
_EXACT = OPERATORS | {"Shape", "Size"}
"""Operators whose values are known only where every engine computes them alike, bit for bit."""


def select_folded(nodes: Iterable[ir.Node], found: Mapping[ir.Value, Facts]) -> dict[ir.Value, ir.TensorProtocol]:
    """Return the outputs and the parameters of slicing nodes among `nodes` that facts say are constant."""
    slicing = [node for node in nodes if is_operator(node, *FOLDED)]
    read = [value for node in slicing for value in (*node.outputs, *node.inputs[1:]) if value is not None]
    return as_tensors(read, found)


def as_tensors(values: Iterable[ir.Value], found: Mapping[ir.Value, Facts]) -> dict[ir.Value, ir.TensorProtocol]:
    """Return the values whose elements are known, each as a tensor."""
    tensors: dict[ir.Value, ir.TensorProtocol] = {}
    for value in dict.fromkeys(values):
        facts = found.get(value)
        if facts is not None and facts.data is not None:
            tensors[value] = ir.Tensor(facts.data, dtype=ir.DataType(facts.element))
    return tensors


def cut_constant(node: ir.Node, opset: int) -> list[ir.TensorProtocol] | None:
    """Cut a constant of any size as a slicing node or a Gather does; None if the node is not to be folded.

    A node is folded up to `LARGE_BYTES`; and up to `MAX_BYTES` and 32 times the constant if nothing else reads the
    constant, so that the model does not grow by much. External data are read as far as they are selected.
    """
    data = node.inputs[0] if node.inputs else None
    tensor = None if data is None else constant(data)
    if data is None or tensor is None or tensor.dtype == ir.DataType.STRING or MARK in node.meta:
        return None
    most = LARGE_BYTES
    if count_uses(data) == 1 and not data.is_graph_output():
        most = max(most, min(MAX_BYTES, _MAX_GROWTH * tensor.nbytes))
    try:
        selections = _selections(node, opset, tuple(tensor.shape.numpy()))
        if selections is None or sum(count for _, count in selections) * tensor.nbytes > most * max(tensor.size, 1):
            return None
        arrays = _select(tensor, selections)
    except (InvalidSlice, DynamicSlice):
        return None
    except Exception:  # onnx-ir has several classes of errors for data that cannot be read
        return None
    finally:
        if isinstance(tensor, ir.ExternalTensor):
            tensor.release()
    return [ir.Tensor(array, dtype=tensor.dtype) for array in arrays]


def _select(tensor: ir.TensorProtocol, selections: Sequence[_Selection]) -> list[Array]:
    """Copy what is selected. A view of an external tensor would keep its file open."""
    array = _elements(tensor)
    return [np.array(select(array)) for select, _ in selections]


def _elements(tensor: ir.TensorProtocol) -> Array:
    """Return the elements of a constant; kept where an array is made of them each time."""
    if isinstance(tensor, ir.serde.TensorProtoTensor) and (
        not tensor.raw.HasField("raw_data") or tensor.dtype.bitwidth < _BITS_OF_A_BYTE
    ):
        return cached_read(tensor, "elements", tensor.numpy)
    return tensor.numpy()


_Selection = tuple[Callable[[Array], Array], int]
"""A function that selects elements of an array, and their number."""


def _selections(node: ir.Node, opset: int, shape: tuple[int, ...]) -> list[_Selection] | None:
    """Return the selection of each output of a node from data of `shape`, or None if one is not known.

    Raises:
        InvalidSlice, DynamicSlice: See `resolve`.
    """
    if node.op_type == "Gather":
        read = None if len(node.inputs) < 2 or node.inputs[1] is None else constant(node.inputs[1])
        axis = normalize_axis(read_int(node, "axis", 0), len(shape))
        if read is None or read.size > MAX_BYTES:
            return None
        indices, size = _elements(read), shape[axis]
        if not cached_read(read, ("in range", size), lambda: bool(((indices >= -size) & (indices < size)).all())):
            return None
        rest = prod(shape[:axis] + shape[axis + 1 :])
        return [(partial(np.take, indices=indices, axis=axis), indices.size * rest)]
    return [(partial(_cut, region), region.size) for region in resolve(node, opset)[1]]


def _cut(region: Region, array: Array) -> Array:
    return array[region.slices].reshape(region.output_shape)


def may_fold(node: ir.Node, tensors: Sequence[ir.TensorProtocol]) -> bool:
    """Return whether every engine computes the values of a node alike, and they are small."""
    if any(tensor.nbytes > LARGE_BYTES or tensor.dtype == ir.DataType.STRING for tensor in tensors):
        return False
    return is_exact(node, _EXACT if all(tensor.dtype in _INTEGERS for tensor in tensors) else MOVING)


def is_exact(node: ir.Node, data: Collection[str] = _EXACT) -> bool:
    """Return whether every engine computes a node alike, by operators that lead to it from constants and shapes.

    Args:
        node: The node.
        data: The operators allowed on the way of its data; parameters are integers.
    """
    waiting: list[tuple[ir.Node, Collection[str]]] = [(node, data)]
    seen: set[tuple[ir.Node, bool]] = set()
    while waiting:
        here, allowed = waiting.pop()
        if (here, allowed is data) in seen:
            continue
        seen.add((here, allowed is data))
        if not is_standard(here, *allowed):
            return False
        if here.op_type not in ("Shape", "Size"):
            joins = here.op_type == "Concat"
            for i, value in enumerate(here.inputs):
                producer = None if value is None else value.producer()
                if producer is not None:
                    waiting.append((producer, allowed if i == 0 or joins else _EXACT))
    return True
