"""Removal of additions of 0 and products by 1, such as the biases and scales of models that are not trained."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import onnx_ir as ir

from onnx_ops.infer.exact import MOVING
from onnx_ops.model.nodes import constant, is_standard, is_valid_operator
from onnx_ops.model.prepare import load_external
from onnx_ops.model.views import Array
from onnx_ops.model.walk import all_nodes, graphs_outside_functions
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.matchers import NEUTRAL, data_of
from onnx_ops.passes.outcome import SKIPS

_MAX_OPERAND_BYTES = 2**20
_ARITHMETIC_NAMES = """
    Add Sub Mul Div MatMul Gemm Einsum Conv ConvTranspose Neg Relu LeakyRelu Elu Erf Gelu HardSwish Tanh Sin Sqrt Max
    Min Clip Sum Mean ReduceSum ReduceMean ReduceMax ReduceMin AveragePool GlobalAveragePool LayerNormalization
    RMSNormalization BatchNormalization InstanceNormalization GroupNormalization
"""
_ARITHMETIC = frozenset(_ARITHMETIC_NAMES.split())
"""Operators whose results for 0 and -0 differ at most in the signs of zeros. Division by this zero is an exception."""
_COPYING_NAMES = """
    Reshape Transpose Slice Split Squeeze Unsqueeze Neg Relu LeakyRelu Elu Gelu ReduceSum ReduceMean ReduceMax
    ReduceMin
"""
_COPYING = frozenset(_COPYING_NAMES.split())
"""Operators that return signalling NaNs of their data unchanged on onnxruntime, at least for some types and axes."""
_COPYING_ALONE = frozenset(("Sum", "Mean", "Einsum"))
"""Operators that may return signalling NaNs of their operand unchanged if they have a single operand."""
_QUIETING = _ARITHMETIC - _COPYING - {"Max", "Min", "Clip"}
"""Operators that return no signalling NaN; those in `_COPYING_ALONE` only if they have several operands."""
_PASSING = _ARITHMETIC | MOVING | {"Where", "Pad", "Dropout"}
"""The operators of `_ARITHMETIC`, and operators that move or choose elements."""
_HIDING = frozenset(("Softmax", "Exp", "Sigmoid", "Cos", "Abs", "Equal", "Less", "Greater", "Shape", "Size"))
"""Operators that return the same bits for 0 and -0."""
_BIASED = ("LayerNormalization", "Conv", "ConvTranspose")
"""Operators that add their third input, a bias. If the bias is not -0, the sum is the same for 0 and -0."""


class RemoveNeutralOperandsPass(SlicingPass):
    """Remove an addition or subtraction of 0, and a product or quotient by 1, if no output changes by a bit.

    x - 0 and x * 1 are always x, but -0 + 0 is 0. Such an addition is removed only if the sign of a 0 is lost on all
    paths to the outputs of the model: in a Softmax, say, or in a sum with a bias that contains no -0.

    Not removed: nodes that may read a signalling NaN, which arithmetic makes quiet; constants that may broadcast the
    other operand, or have more than 1 MiB; nodes in functions.
    """

    is_default = False

    def _apply(self) -> None:
        model = self.analysis.model
        # This set is computed only once. When a float node is removed, its operand gets the readers of its output. The
        # set stays valid, because it contains the operand of such a node whenever it contains the output.
        sign_sensitive = _find_sign_sensitive(model)
        for node in list(all_nodes(model.graph)):
            operand = self._unchanged_operand(node, sign_sensitive)
            if operand is None:
                continue
            try:
                self.replace_outputs(node, {node.outputs[0]: operand})
            except SKIPS as reason:
                self.skip(node, reason)

    def _unchanged_operand(self, node: ir.Node, sign_sensitive: Container[ir.Value]) -> ir.Value | None:
        """Return the operand that can replace the result of a node, or None if no operand can.

        `sign_sensitive` holds the values for which 0 and -0 may lead to different outputs of the model.
        """
        # Before opset 7, attributes describe how operands broadcast. Nodes with attributes stay.
        if not is_standard(node, *NEUTRAL) or len(node.inputs) != 2 or node.attributes:
            return None
        first, second = node.inputs
        # Either operand of a commutative operator may be the neutral one.
        pairs = [(first, second), (second, first)] if node.op_type in ("Add", "Mul") else [(first, second)]
        for operand, other in pairs:
            array = _read_numbers(other)
            if operand is None or array is None or not (array == NEUTRAL[node.op_type]).all():
                continue
            if array.dtype.kind == "f":  # integers have no -0 and no NaN
                if node.outputs[0] in sign_sensitive and _may_lose_sign(node.op_type, array):
                    continue
                # The node makes a signalling NaN quiet. It may go only if arithmetic has computed the operand, because
                # results of arithmetic contain no signalling NaN.
                if not _has_no_signalling_nan(operand):
                    continue
            if self._keeps_shape(operand, array):
                return operand
        return None

    def _keeps_shape(self, operand: ir.Value, other: Array) -> bool:
        """Return whether broadcasting with `other` leaves the shape of `operand` as it is."""
        sizes = self.sizes(operand)
        if sizes is None or other.ndim > len(sizes):
            return False
        last_sizes = sizes[len(sizes) - other.ndim :]
        return all(other_size in (1, size) for other_size, size in zip(other.shape, last_sizes, strict=True))


def _may_lose_sign(op_type: str, neutral: Array) -> bool:
    """Return whether an operator with a neutral operand turns -0 into 0."""
    is_negative = np.signbit(neutral)
    if op_type == "Add":  # -0 + 0 is 0, and -0 + -0 is -0
        return not is_negative.all()
    return op_type == "Sub" and bool(is_negative.any())  # -0 - -0 is 0, and -0 - 0 is -0


def _find_sign_sensitive(model: ir.Model) -> set[ir.Value]:
    """Return the values for which 0 and -0 may lead to different bits in an output of a graph."""
    sensitive = {output for graph in graphs_outside_functions(model) for output in graph.outputs}
    # In reverse order, readers come before the nodes that they read from, so that one pass is enough.
    for node in reversed(list(all_nodes(model.graph))):
        if _hides_sign(node):
            continue
        is_sensitive = any(output in sensitive for output in node.outputs)
        for index, value in enumerate(node.inputs):
            if value is not None and (is_sensitive or not _changes_only_signs_of_zeros(node, index)):
                sensitive.add(value)
    return sensitive


def _hides_sign(node: ir.Node) -> bool:
    """Return whether a node computes the same bits from 0 as from -0 in each input that is not a constant."""
    if is_standard(node, "Add"):
        return any(map(_is_without_negative_zero, node.inputs))
    if is_standard(node, *_BIASED):
        return len(node.inputs) > 2 and _is_without_negative_zero(node.inputs[2])
    return is_standard(node, *_HIDING)


def _changes_only_signs_of_zeros(node: ir.Node, index: int) -> bool:
    """Return whether a node's outputs for 0 and -0 in the input at `index` differ at most in the signs of zeros."""
    if is_standard(node, "Pow"):  # a zero to a positive power is a zero
        exponent = _read_numbers(node.inputs[1]) if len(node.inputs) == 2 else None
        return index == 0 and exponent is not None and bool((exponent > 0).all())
    is_divisor = is_standard(node, "Div") and index == 1  # x / 0 and x / -0 are different infinities
    return is_standard(node, *_PASSING) and not is_divisor


def _is_without_negative_zero(value: ir.Value | None) -> bool:
    """Return whether a value is a readable constant that contains no -0."""
    array = _read_numbers(value)
    return array is not None and not bool(np.signbit(array[array == 0]).any())


def _has_no_signalling_nan(value: ir.Value) -> bool:
    """Return whether the elements of a value come from arithmetic that returns no signalling NaN; see `_QUIETING`."""
    producer = value.producer()
    while is_valid_operator(producer, *_COPYING):  # these may copy a NaN of their data
        producer = data_of(producer).producer()
    if producer is None or not is_standard(producer, *_QUIETING):
        return False
    return producer.op_type not in _COPYING_ALONE or len(producer.inputs) > 1


def _read_numbers(value: ir.Value | None) -> Array | None:
    """Return the integers or floats of a constant of at most 1 MiB.

    Return None for unreadable data, and for values of other types, such as bfloat16.
    """
    tensor = None if value is None else constant(value)
    if tensor is None or tensor.nbytes > _MAX_OPERAND_BYTES:
        return None
    try:
        array = (load_external(tensor) if isinstance(tensor, ir.ExternalTensor) else tensor).numpy()
    except Exception:  # onnx-ir has several classes of errors for data that it cannot read
        return None
    return array if array.dtype.kind in "fiu" else None
