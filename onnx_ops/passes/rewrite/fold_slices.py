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
    is_standard,
    is_valid_operator,
    read_int,
)
from onnx_ops.model.prepare import release
from onnx_ops.model.specs import resolve_node
from onnx_ops.model.views import Array
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.analysis import CUTTING
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.builders import build_empty, build_tensor_constant
from onnx_ops.passes.edits import annotate_nodes, annotate_value, is_used, remove_unread
from onnx_ops.passes.matchers import data_of
from onnx_ops.passes.names import mark_new
from onnx_ops.passes.outcome import SKIPS, Skip
from sliceport.slicing import INT64_MAX, Region, resolve_axis
from sliceport.slicing.spec import normalize_axis

_MAX_GROWTH = 32
"""Limit for the bytes that are selected from a constant, as a multiple of the constant's bytes. A Gather may repeat
elements."""
_INTEGERS = frozenset((ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL))
_EXACT = OPERATORS | {"Shape", "Size"}
"""Operators whose outputs are inferred only if every engine computes the same bits."""


class FoldSlicesPass(SlicingPass, name="fold", after="strided"):
    """Replace a Slice, a Split or a Gather by constants if it selects the same for all inputs of the model.

    Its data are constants or known shapes, or it selects nothing. Computed bounds that are the same for all inputs
    become constants, too. A slice of a constant may have up to 8 KiB or, if nothing else reads the constant, up to
    1 MiB, but then at most 32 times the size of the constant.

    1. Its data are constant, and what it selects is within these limits.
    2. Its data are computed from constants and known shapes: integers by operators that every engine computes alike,
       other types by operators that only move elements.
    3. Its data are the output of a Shape, and the sizes that it selects are known.
    4. Its bounds, part sizes or indices are computed as in 2: these become constants.
    5. It selects nothing, and the shape of its output is known.
    6. A Shape reads its output, and the shape of the output is known: the Shape becomes a constant, and the slice is
       removed with its last reader.

    Given: y = Reshape(x, Concat(Gather(Shape(x[n, 4]), [1]), [-1], axis=0))
    Result: y = Reshape(x, Concat([4], [-1], axis=0))

    Skipped: strings; computed floats, which engines round differently; a size without which onnxruntime would make a
    Reshape fail (see `reshape_fusion`).

    Fires:
        - constant: `a = Slice(floats(3), [0], [2], [0], [1]); y = Mul(a, x[2])`
        - Shape: `s = Shape(x[n, 4]); a = Slice(s, [1], [2], [0], [1]); y = Add(a, [1])`
        - integers: `s = Shape(x[4, 2]); t = Mul(s, s); a = Gather(t, 0); b = Cast(a, to=1); y = Mul(x, b)`
        - bounds: `s = Shape(x[4]); e = Sub(s, [1]); y = Slice(x, [0], e)`
        - a Shape as bounds: `s = Shape(x[4]); y = Slice(x, [1], s)`
        - nothing: `a = Slice(x[4], [2], [2], [0], [1]); y = Concat(a, x, axis=0)`
        - Shape of a slice (outputs y t): `a = Slice(x[4], [1], [3], [0], [1]); s = Shape(a); e = Expand(x, [3, 4]);
          t = Tile(e, [2, 1]); y = Add(s, [0])`
        - size beside an open one: `s = Shape(x[n, 6]); a = Gather(s, [0]); b = Gather(s, [1]);
          t = Concat(a, b, axis=0); y = Reshape(Reshape(x, t), [-1])`
        - size beside two open ones and a 0: `s = Shape(x[n, m, 6, k]); a = Gather(s, [1]); b = Gather(s, [2]);
          c = Gather(s, [3]); t = Concat([0], a, b, c, axis=0); y = Reshape(Reshape(x, t), [-1])`
        - size in a shape that fails at size 0 anyway: `s = Shape(x[n, 6, h, w]); a = Unsqueeze(Gather(s, 0), [0]);
          b = Unsqueeze(Gather(s, 1), [0]); c = Unsqueeze(Mul(Gather(s, 2), Gather(s, 3)), [0]);
          t = Concat(a, b, c, axis=0); y = Reshape(Reshape(x, t), [-1])`

    Stays:
        - large: `a = Slice(floats(4000), [0], [3000], [0], [1]); y = Mul(a, x[3000]); z = Neg(floats(4000))`
        - open Shape: `s = Shape(x[n]); y = Slice(s, [0], [1], [0], [1])`
        - rounded: `e = Exp(floats(3)); a = Slice(e, [0], [2], [0], [1]); y = Mul(a, x[2])`
        - run-time bounds: `s = Shape(x[n]); e = Sub(s, [1]); y = Slice(x, [0], e)`:
          "computed alike for all inputs of the model"
        - size beside a 0 and an open one: `s = Shape(x[n, m, 6]); a = Gather(s, [1]); b = Gather(s, [2]);
          t = Concat([0], a, b, axis=0); y = Reshape(x, t)`: "a constant with a 0 and a -1, which fails at size 0"
        - size 0 beside an open one: `s = Shape(x[6, n, 0]); a = Gather(s, [1]); b = Gather(s, [2]);
          t = Concat([6], a, b, axis=0); y = Reshape(x, t)`: "a constant with a 0 and a -1, which fails at size 0"
        - factor of a size: `s = Shape(x[n, m, 2, 3]); a = Gather(s, [1]); b = Mul(Gather(s, [2]), [3]);
          t = Concat([0], a, b, axis=0); y = Reshape(x, t)`: "a constant with a 0 and a -1, which fails at size 0"
        - size beside a copied one: `s = Shape(x[n, m, 6]); a = Unsqueeze(Mul(Gather(s, 0), 1), [0]);
          b = Gather(s, [2]); c = Gather(s, [1]); t = Concat(a, b, c, axis=0); y = Reshape(x, t)`:
          "a constant with a 0 and a -1, which fails at size 0"
    """

    reveals_shapes = True

    def _apply(self) -> None:
        for node, _ in self.analysis.nodes_of(*CUTTING):
            if node.graph is None or not has_valid_arity(node):  # a node without a graph was removed
                continue
            for output in node.outputs:
                self._fold_shapes_of(output)
                self._fold_empty(output)
        # These replacements, and those of other passes, may have made more elements known.
        if not self.analysis.is_current:
            self.analysis.infer()
        folded = self.find_known_tensors()
        for node, opset in self.analysis.nodes_of(*CUTTING):
            if node.graph is None or not has_valid_arity(node):
                continue
            used = [output for output in node.outputs if is_used(output)]
            tensors = [tensor for output in used if (tensor := folded.get(output)) is not None]
            if used and len(tensors) == len(used) and _may_fold(node, tensors):
                self.replace_by_constants(node, tensors)
            # Cutting a constant only moves elements, so floats may be cut, too.
            elif used and (cut_tensors := _cut_constant(node, opset)) is not None:
                cut_by_output = zip(node.outputs, cut_tensors, strict=True)
                self.replace_by_constants(node, [tensor for output, tensor in cut_by_output if is_used(output)])
            else:
                self.fold_parameters(node, folded)

    def find_known_tensors(self) -> dict[ir.Value, ir.TensorProtocol]:
        """Return tensors for the outputs and parameters of Slices, Splits and Gathers, as far as elements are known."""
        nodes = [node for node, _ in self.analysis.nodes_of(*CUTTING)]
        values = [value for node in nodes for value in (*node.outputs, *node.inputs[1:]) if value is not None]
        return collect_tensors(values, self.value_info.constants)

    def fold_parameters(self, node: ir.Node, folded: Mapping[ir.Value, ir.TensorProtocol]) -> None:
        """Replace each computed parameter of at most 8 KiB by a constant if its elements are the same on all engines.

        The parameters are all inputs except the first. `folded` is the result of `find_known_tensors`. A node that
        engines read differently is skipped. A Slice or Split is also reported as skipped if, afterwards, a parameter is
        not constant.
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
            constant_node = build_tensor_constant(tensor)
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
            reason = "not known to be computed alike for all inputs of the model and on all engines"
            self.skip(node, f"the elements of {names} are not constant, and {reason}")

    def _fold_shapes_of(self, output: ir.Value) -> None:
        """Replace each Shape node that reads `output` by a constant if the shape of `output` is known."""
        shape = self.static_shape(output)
        if shape is None:
            return
        for reader in output.consumers():
            if is_valid_operator(reader, "Shape") and is_used(reader.outputs[0]):
                try:
                    axes = resolve_axis(read_int(reader, "start", 0), read_int(reader, "end", INT64_MAX), 1, len(shape))
                except SKIPS as reason:
                    self.skip(reader, reason)
                    continue
                self.replace_by_constants(reader, [ir.tensor([shape[axis] for axis in axes], dtype=ir.DataType.INT64)])

    def _fold_empty(self, output: ir.Value) -> None:
        """Replace a used output without elements by a constant. Shape and type must be known; strings stay."""
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
        if sum(map(is_used, node.outputs)) == 1:  # otherwise the node stays, with its annotations
            annotate_nodes([empty], [node])
        # The annotations move to the constant. The old output, which stays if another output is used, loses them.
        annotate_value(empty.outputs[0], output)
        output.metadata_props.clear()
        output.meta.clear()
        output.doc_string = None
        self.value_info.copy_entry(empty.outputs[0], output)
        self.edits.replace_nodes(node, [], [empty], {output: empty.outputs[0]})
        mark_new(output)  # the constant took over the name of the old output
        if not any(map(is_used, node.outputs)):
            self.remove_node(node)
        self.report_change(node, "Constant")


def collect_tensors(values: Iterable[ir.Value], facts: Mapping[ir.Value, Facts]) -> dict[ir.Value, ir.TensorProtocol]:
    """Map values to tensors of their elements. Leave out values whose elements are not in `facts`."""
    tensors: dict[ir.Value, ir.TensorProtocol] = {}
    for value in dict.fromkeys(values):
        value_facts = facts.get(value)
        if value_facts is not None and value_facts.data is not None:
            tensors[value] = ir.Tensor(value_facts.data, dtype=ir.DataType(value_facts.element))
    return tensors


def _cut_constant(node: ir.Node, opset: int) -> list[ir.TensorProtocol] | None:
    """Return the outputs of a Slice, Split or Gather of a constant. Return None if the node must stay.

    Together, the outputs may have up to `LARGE_BYTES`. The limit may be higher if the node is the only reader of the
    constant, which is then removed from the model: `_MAX_GROWTH` times the bytes of the constant, but at most
    `MAX_BYTES`. Of external data, only the selected bytes are read if an element has at least one byte.
    """
    data = data_of(node)
    tensor = constant(data)
    if tensor is None or tensor.dtype == ir.DataType.STRING or CONTESTED in node.meta:
        return None
    max_bytes = LARGE_BYTES
    if count_uses(data) == 1 and not data.is_graph_output():
        max_bytes = max(max_bytes, min(MAX_BYTES, _MAX_GROWTH * tensor.nbytes))
    try:
        selections = _read_selections(node, opset, tuple(tensor.shape.numpy()))
        if selections is None:
            return None
        selected_count = sum(count for _, count in selections)
        # The bytes of an element are tensor.nbytes / tensor.size, a fraction for elements of 4 bits.
        if selected_count * tensor.nbytes > max_bytes * max(tensor.size, 1):
            return None
        # Copies, because views of an external tensor would keep its file open.
        arrays = [np.array(select(_cached_elements(tensor))) for select, _ in selections]
    except Exception:  # the parameters are not known, or the data cannot be read: onnx-ir has several classes of errors
        return None
    finally:
        if isinstance(tensor, ir.ExternalTensor):
            release(tensor)
    return [ir.Tensor(array, dtype=tensor.dtype) for array in arrays]


def _cached_elements(tensor: ir.TensorProtocol) -> Array:
    """Return the elements of a constant, cached if reading them decodes the whole tensor."""
    # Elements that are not in `raw_data`, or are smaller than a byte, have to be decoded.
    if isinstance(tensor, ir.serde.TensorProtoTensor) and (
        not tensor.raw.HasField("raw_data") or tensor.dtype.bitwidth < 8
    ):
        return cached_read(tensor, "elements", tensor.numpy)
    return tensor.numpy()


_Selection = tuple[Callable[[Array], Array], int]
"""A function that selects elements of an array, and the number of the selected elements."""


def _read_selections(node: ir.Node, opset: int, shape: tuple[int, ...]) -> list[_Selection] | None:
    """Return, for each output of a node, a function that selects it from data of `shape`, and its element count.

    Return None for a Gather whose indices are too many, out of range, or not constant.

    Raises:
        InvalidSlice, DynamicSlice: The parameters are not valid or not known.
        Exception: The indices cannot be read; onnx-ir has several classes of errors for that.
    """
    if node.op_type == "Gather":
        tensor = None if node.inputs[1] is None else constant(node.inputs[1])
        axis = normalize_axis(read_int(node, "axis", 0), len(shape))
        if tensor is None or tensor.size > MAX_BYTES:  # MAX_BYTES also limits the number of indices
            return None
        indices, size = _cached_elements(tensor), shape[axis]
        if not cached_read(tensor, ("in range", size), lambda: bool(((indices >= -size) & (indices < size)).all())):
            return None
        count_per_index = prod(shape[:axis] + shape[axis + 1 :])
        return [(partial(np.take, indices=indices, axis=axis), indices.size * count_per_index)]
    return [(partial(_cut, region), region.size) for region in resolve_node(node, opset)[1]]


def _cut(region: Region, array: Array) -> Array:
    return array[region.slices].reshape(region.output_shape)


def _may_fold(node: ir.Node, tensors: Sequence[ir.TensorProtocol]) -> bool:
    """Return whether `tensors`, the outputs of a node, are small, and every engine computes the same bits for them."""
    if any(tensor.nbytes > LARGE_BYTES for tensor in tensors):
        return False
    # Engines may round arithmetic on floats differently, so elements that are not integers may only be moved.
    return _is_exact(node, _EXACT if all(tensor.dtype in _INTEGERS for tensor in tensors) else MOVING)


def _is_exact(node: ir.Node, data_operators: Collection[str] = _EXACT) -> bool:
    """Return whether every engine computes the same bits for a node and the nodes that its elements depend on.

    The operators of the node, and of nodes that compute its data, must be in `data_operators`. Operators of nodes that
    compute only its parameters must be in `_EXACT`. Nodes before a Shape or Size are not checked.
    """
    # Pairs of a node and a flag. The flag is False if only parameters, not the data, depend on the node.
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
                # The data of an operator that moves elements are its first input, or all inputs of a Concat.
                pending.append((producer, is_data and (index == 0 or current.op_type == "Concat")))
    return True
