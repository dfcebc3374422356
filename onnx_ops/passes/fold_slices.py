"""Slices whose values are the same for all inputs of a model, and on every engine, become constants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np
import onnx_ir as ir

from onnx_ops.infer.exact import MOVING, OPERATORS
from onnx_ops.infer.facts import MAX_BYTES, Facts
from onnx_ops.model.cached_read import cached_read
from onnx_ops.model.nodes import (
    CONTESTED,
    LARGE_BYTES,
    SLICING,
    constant,
    has_valid_arity,
    is_operator,
    is_standard,
    read_int,
)
from onnx_ops.model.specs import resolve_node
from onnx_ops.model.views import Array
from onnx_ops.model.walk import count_uses, model_nodes
from onnx_ops.passes.analysis import CUTTING
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.builders import build_empty, build_tensor
from onnx_ops.passes.edits import annotate_nodes, is_used, move_annotations, remove_unread
from onnx_ops.passes.names import mark_new
from onnx_ops.passes.outcome import SKIPS, Skip
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.slicing import INT64_MAX, Region, resolve_axis
from sliceport.slicing.spec import normalize_axis

_BITS_OF_A_BYTE = 8
_MAX_GROWTH = 32
"""Limit for the size of what is selected from a constant, as a multiple of the size of the constant."""
_INTEGERS = frozenset((ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL))
_EXACT = OPERATORS | {"Shape", "Size"}
"""Operators whose values are inferred only if every engine computes the same bits."""


class FoldSlicesPass(SlicingPass):
    """Replace a Slice, a Split or a Gather by constants where it selects the same for all inputs of the model.

    1. Its data are constant, and at most 8 KiB of them are selected; or at most 1 MiB, and at most 32 times the data,
       if nothing else reads them.
    2. Its data are computed from constants and known shapes: integers by operators that every engine computes alike,
       other types by operators that only move elements.
    3. Its data are a Shape, and the sizes that it selects are known.
    4. Its bounds, part sizes or indices are computed as in 2: these become constants.
    5. It selects nothing, and the shape of its output is known.
    6. A Shape reads its output, and the shape of that is known: the Shape becomes a constant, and the slice is removed
       with its last reader.

    Given: y = Reshape(x, Concat(Gather(Shape(x[n, 4]), [1]), [-1], axis=0))
    Result: y = Reshape(x, Concat([4], [-1], axis=0))

    Skipped: strings; computed floats, which engines round differently.
    """

    reveals_shapes = True

    def apply(self, model: ir.Model) -> None:
        """Rewrite the model; see the class."""
        for node, _ in self.analysis.nodes_of(*CUTTING):
            if node.graph is None or not has_valid_arity(node):
                continue
            for output in node.outputs:
                self._fold_shapes_of(output)
                self._fold_empty(output)
        if self.changes or not self.analysis.is_current:
            self.analysis.infer()
        folded = select_folded(model_nodes(model), self.value_info.constants)
        for node, opset in self.analysis.nodes_of(*CUTTING):
            if node.graph is None or not has_valid_arity(node):
                continue
            used = [output for output in node.outputs if is_used(output)]
            tensors = [tensor for output in used if (tensor := folded.get(output)) is not None]
            if used and len(tensors) == len(used) and _may_fold(node, tensors):
                self.replace_by_constants(node, tensors)
            elif used and (cut_tensors := _cut_constant(node, opset)) is not None:
                cut_by_output = zip(node.outputs, cut_tensors, strict=True)
                self.replace_by_constants(node, [tensor for output, tensor in cut_by_output if is_used(output)])
            else:
                self.fold_parameters(node, folded)

    def fold_parameters(self, node: ir.Node, folded: Mapping[ir.Value, ir.TensorProtocol]) -> None:
        """Replace the computed inputs after the data by constants of up to 8 KiB, where their values are known.

        Skip a contested node, and a Slice or Split if an input stays computed.
        """
        disagreement = node.meta.get(CONTESTED)
        if disagreement is not None:
            self.skip(node, disagreement.reason)
            return
        is_changed = False
        for index, value in enumerate(node.inputs[1:], 1):
            tensor = None if value is None or constant(value) is not None else folded.get(value)
            producer = None if value is None else value.producer()
            if tensor is None or producer is None or tensor.nbytes > LARGE_BYTES or not _is_exact(producer):
                continue
            constant_node = build_tensor(tensor)
            mark_new(constant_node.outputs[0])
            mark_new(constant_node)
            assert node.graph is not None
            node.graph.insert_before(node, constant_node)
            node.replace_input_with(index, constant_node.outputs[0])
            remove_unread(value)
            is_changed = True
        if is_changed:
            self.report_change(node, f"{node.op_type} by constants")
        computed = [value for value in node.inputs[1:] if value is not None and constant(value) is None]
        if computed and node.op_type in SLICING:
            names = ", ".join(repr(value.name) for value in computed)
            self.skip(node, f"{names} is not the same for all inputs of the model")

    def _fold_shapes_of(self, output: ir.Value) -> None:
        """Replace the Shapes that read an output of known shape by constants."""
        shape = self.static_shape(output)
        if shape is None:
            return
        for reader in output.consumers():
            if is_operator(reader, "Shape") and is_used(reader.outputs[0]):
                try:
                    axes = _read_shape_range(reader, len(shape))
                except SKIPS as reason:
                    self.skip(reader, reason)
                    continue
                self.replace_by_constants(reader, [ir.tensor([shape[axis] for axis in axes], dtype=ir.DataType.INT64)])

    def _fold_empty(self, output: ir.Value) -> None:
        """Replace an output without elements by a constant, except one of strings."""
        shape, node = self.static_shape(output), output.producer()
        if node is None or shape is None or 0 not in shape or not is_used(output):
            return
        dtype = self.value_info.dtype(output)
        if dtype is None or dtype == ir.DataType.STRING:
            return
        try:
            empty = build_empty(shape, dtype)
        except Skip as reason:
            self.skip(node, reason)
            return
        if sum(map(is_used, node.outputs)) == 1:
            annotate_nodes([empty], [node])
        move_annotations(empty.outputs[0], output)
        self.value_info.copy_entry(empty.outputs[0], output)
        self.edits.replace_nodes(node, [], [empty], [output], empty.outputs)
        mark_new(output)
        if not any(map(is_used, node.outputs)):
            self.remove_node(node)
        self.report_change(node, "Constant")


def _read_shape_range(shape: ir.Node, rank: int) -> range:
    """Return the axes whose sizes a Shape returns."""
    return resolve_axis(read_int(shape, "start", 0), read_int(shape, "end", INT64_MAX), 1, rank)


def select_folded(nodes: Iterable[ir.Node], facts: Mapping[ir.Value, Facts]) -> dict[ir.Value, ir.TensorProtocol]:
    """Return the outputs and parameters of Slices, Splits and Gathers whose elements are known, each as a tensor."""
    slicing = [node for node in nodes if is_operator(node, *CUTTING)]
    read = [value for node in slicing for value in (*node.outputs, *node.inputs[1:]) if value is not None]
    return as_tensors(read, facts)


def as_tensors(values: Iterable[ir.Value], facts: Mapping[ir.Value, Facts]) -> dict[ir.Value, ir.TensorProtocol]:
    """Return the values whose elements are known, each as a tensor."""
    tensors: dict[ir.Value, ir.TensorProtocol] = {}
    for value in dict.fromkeys(values):
        value_facts = facts.get(value)
        if value_facts is not None and value_facts.data is not None:
            tensors[value] = ir.Tensor(value_facts.data, dtype=ir.DataType(value_facts.element))
    return tensors


def _cut_constant(node: ir.Node, opset: int) -> list[ir.TensorProtocol] | None:
    """Cut a constant of any size as a slicing node or a Gather does; None if the node is not to be folded.

    At most `LARGE_BYTES` may be selected. A constant that nothing else reads leaves the model, so up to `_MAX_GROWTH`
    times its size may be selected instead, but no more than `MAX_BYTES`. Of external data, only the selected bytes are
    read.
    """
    data = node.inputs[0] if node.inputs else None
    tensor = None if data is None else constant(data)
    if data is None or tensor is None or tensor.dtype == ir.DataType.STRING or CONTESTED in node.meta:
        return None
    max_bytes = LARGE_BYTES
    if count_uses(data) == 1 and not data.is_graph_output():
        max_bytes = max(max_bytes, min(MAX_BYTES, _MAX_GROWTH * tensor.nbytes))
    try:
        selections = _selections(node, opset, tuple(tensor.shape.numpy()))
        if selections is None:
            return None
        selected_count = sum(count for _, count in selections)
        # The bytes of an element are tensor.nbytes / tensor.size, a fraction for elements of 4 bits.
        if selected_count * tensor.nbytes > max_bytes * max(tensor.size, 1):
            return None
        # Copies, because views of an external tensor would keep its file open.
        arrays = [np.array(select(_elements(tensor))) for select, _ in selections]
    except (InvalidSlice, DynamicSlice):
        return None
    except Exception:  # onnx-ir has several classes of errors for data that cannot be read
        return None
    finally:
        if isinstance(tensor, ir.ExternalTensor):
            tensor.release()
    return [ir.Tensor(array, dtype=tensor.dtype) for array in arrays]


def _elements(tensor: ir.TensorProtocol) -> Array:
    """Return the elements of a constant, cached if reading them decodes the whole tensor."""
    if isinstance(tensor, ir.serde.TensorProtoTensor) and (
        not tensor.raw.HasField("raw_data") or tensor.dtype.bitwidth < _BITS_OF_A_BYTE
    ):
        return cached_read(tensor, "elements", tensor.numpy)
    return tensor.numpy()


_Selection = tuple[Callable[[Array], Array], int]
"""A function that selects elements of an array, and their number."""


def _selections(node: ir.Node, opset: int, shape: tuple[int, ...]) -> list[_Selection] | None:
    """Return the selection of each output of a node from data of `shape`; None for a Gather that cannot be folded.

    Raises:
        InvalidSlice, DynamicSlice: The parameters are not valid or not known.
    """
    if node.op_type == "Gather":
        tensor = None if len(node.inputs) < 2 or node.inputs[1] is None else constant(node.inputs[1])
        axis = normalize_axis(read_int(node, "axis", 0), len(shape))
        if tensor is None or tensor.size > MAX_BYTES:
            return None
        indices, size = _elements(tensor), shape[axis]
        if not cached_read(tensor, ("in range", size), lambda: bool(((indices >= -size) & (indices < size)).all())):
            return None
        count_per_index = prod(shape[:axis] + shape[axis + 1 :])
        return [(partial(np.take, indices=indices, axis=axis), indices.size * count_per_index)]
    return [(partial(_cut, region), region.size) for region in resolve_node(node, opset)[1]]


def _cut(region: Region, array: Array) -> Array:
    return array[region.slices].reshape(region.output_shape)


def _may_fold(node: ir.Node, tensors: Sequence[ir.TensorProtocol]) -> bool:
    """Return whether every engine computes the same values of a node, and the values are small and not strings."""
    if any(tensor.nbytes > LARGE_BYTES or tensor.dtype == ir.DataType.STRING for tensor in tensors):
        return False
    return _is_exact(node, _EXACT if all(tensor.dtype in _INTEGERS for tensor in tensors) else MOVING)


def _is_exact(node: ir.Node, data_operators: Collection[str] = _EXACT) -> bool:
    """Return whether every engine computes the same bits for a node and all nodes that it depends on.

    Args:
        node: The node.
        data_operators: The operators that may compute its data. Its parameters need one of `_EXACT`.
    """
    # Pairs of a node, and whether it computes data of `node`. If not, it computes parameters.
    pending = [(node, True)]
    visited: set[tuple[ir.Node, bool]] = set()
    while pending:
        current, is_data = pending.pop()
        if (current, is_data) in visited:
            continue
        visited.add((current, is_data))
        if not is_standard(current, *(data_operators if is_data else _EXACT)):
            return False
        if current.op_type in ("Shape", "Size"):
            continue  # the elements of their input do not matter
        for index, value in enumerate(current.inputs):
            producer = None if value is None else value.producer()
            if producer is not None:
                pending.append((producer, is_data and (index == 0 or current.op_type == "Concat")))
    return True
