"""The nodes that are hidden from onnxscript's optimizer, because it would replace them by nodes with other results.

Each condition in `HIDDEN` gives the reason, and the issue to file for the package whose fault it is, unless there is
one already. The versions are onnxscript 0.7.2 and onnx-ir 1.1.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_ops.model.domains import STANDARD_DOMAINS, standard_opset
from onnx_ops.model.nodes import CONTESTED, RANDOM, is_standard, is_valid_operator
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.edits import GRAPH_TYPES
from onnx_ops.passes.matchers import is_forbidden_shape

_TRAINING_MODE = 2
"""Index of the input of a Dropout that switches training on."""
_COMPARABLE = ("INT", "INTS", "STRING", "STRINGS", "TENSOR", "GRAPH", "GRAPHS")
"""The types of attributes that the optimizer compares or skips, besides floats."""
_SEQUENCE_OPSETS = {"SplitToSequence": 18, "ConcatFromSequence": 13}
"""The operator set of the Split or Unsqueeze that the optimizer writes in place of each operator."""
HiddenNodes = dict[ir.Node, tuple[str, str, dict[str, ir.Attr]]]
"""The domain, the operator and the attributes of each hidden node."""


def hide_nodes(analysis: Analysis) -> HiddenNodes:
    """Hide the nodes of a model that meet a condition in `HIDDEN`. Return what `show_nodes` restores.

    Each hidden node gets an operator of its own. Only attributes with graphs stay, so that the graphs are optimized.
    `analysis` has the facts about the model, which must not have functions.
    """
    nodes = list(analysis.model.graph.all_nodes())
    hidden = [node for node in nodes if any(is_hidden(node, analysis) for is_hidden in HIDDEN)]
    originals = {node: (node.domain, node.op_type, dict(node.attributes)) for node in hidden}
    for number, (node, (_, op_type, attributes)) in enumerate(originals.items()):
        node.domain, node.op_type = "sliceport.hidden", f"{op_type}_{number}"
        for name, attribute in attributes.items():
            if attribute.type not in GRAPH_TYPES:
                del node.attributes[name]
    return originals


def show_nodes(originals: HiddenNodes) -> None:
    """Restore the nodes that `hide_nodes` has hidden."""
    for node, (domain, op_type, attributes) in originals.items():
        node.domain, node.op_type = domain, op_type
        node.attributes.clear()
        node.attributes.update(attributes)


def _is_contested(node: ir.Node, _: Analysis) -> bool:
    """Return whether engines read a node differently, so that nothing follows from it.

    No fault of the optimizer.
    """
    return CONTESTED in node.meta


def _computes_contested_parameter(node: ir.Node, _: Analysis) -> bool:
    """Return whether a node computes a parameter of a contested node.

    With constant parameters, onnxruntime infers another shape for the contested node than the node computes. No fault
    of the optimizer.
    """
    uses = [use for output in node.outputs for use in output.uses()]
    return any(use.idx > 0 and CONTESTED in use.node.meta for use in uses) and not is_standard(node, "Constant")


def _computes_forbidden_shape(node: ir.Node, analysis: Analysis) -> bool:
    """Return whether a node computes a shape with a 0 and a -1 for a Reshape with allowzero=1.

    If the shape became a constant, onnxruntime would not load the model. No fault of the optimizer.
    """
    for output in node.outputs:
        elements = analysis.value_info.elements(output)
        if elements is not None and is_forbidden_shape(output, partial(np.asarray, elements)):
            return not is_standard(node, "Constant")
    return False


def _may_draw(node: ir.Node, _: Analysis) -> bool:
    """Return whether a node may draw random numbers, as any node of another domain may.

    Issue for onnx-ir: "CommonSubexpressionEliminationPass merges two Bernoulli nodes of the same input, two Dropouts in
    training mode, and two nodes of a custom domain. Each of two draws must stay. Its list of non-deterministic
    operators lacks Bernoulli and Dropout, and it could have an option for operators of other domains."
    """
    is_training = is_standard(node, "Dropout") and len(node.inputs) > _TRAINING_MODE
    return is_training or is_standard(node, *RANDOM) or node.domain not in STANDARD_DOMAINS


def _has_incomparable_attribute(node: ir.Node, _: Analysis) -> bool:
    """Return whether a node has an attribute that is -0, or has a type that the optimizer cannot compare.

    Issue for onnx-ir: "CommonSubexpressionEliminationPass merges Constant<value_float = 0.0> and
    Constant<value_float = -0.0>, because it compares floats by ==, not by their bits. It raises a TypeError for the
    attribute `type` of Optional, and for a list of tensors."
    """
    for attribute in node.attributes.values():
        if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
            numbers = np.asarray(attribute.value)
            if np.signbit(numbers[numbers == 0]).any():
                return True
        elif attribute.type.name not in _COMPARABLE:
            return True
    return False


def _gathers_from_matrix(node: ir.Node, analysis: Analysis) -> bool:
    """Return whether a node is a Gather whose data may have more or less than one axis.

    Issue for onnxscript: "fold_constants takes the first dimensions of x for the first row of
    Reshape(Shape(x), [2, 2]). It passes the symbolic value of a shape on through a Reshape, and Gather selects single
    elements of this value, whatever the rank of its data."
    """
    data = node.inputs[0] if is_valid_operator(node, "Gather") else None
    return data is not None and len(analysis.value_info.sizes.get(data, ())) != 1


def _computes_sign_of_size(node: ir.Node, analysis: Analysis) -> bool:
    """Return whether a node is the Abs of integers.

    Issue for onnxscript: "fold_constants removes the Abs of Shape(x) - 5, because it takes every sum of a size and a
    constant for a size, which is not negative."
    """
    data = node.inputs[0] if is_valid_operator(node, "Abs") else None
    dtype = None if data is None else analysis.value_info.dtype(data)
    return dtype is not None and dtype.is_integer()


def _handles_sequences(node: ir.Node, analysis: Analysis) -> bool:
    """Return whether a node is an operator on sequences that the optimizer replaces wrongly.

    Issue for onnxscript: "fold_constants replaces SplitToSequence and ConcatFromSequence by a Split and an Unsqueeze of
    later operator sets than the model's. It applies the keepdims of a SplitToSequence with part sizes, although the
    specification says to ignore it."
    """
    if not is_standard(node, *_SEQUENCE_OPSETS):
        return False
    is_too_old = standard_opset(analysis.model.opset_imports) < _SEQUENCE_OPSETS[node.op_type]
    return is_too_old or (len(node.inputs) > 1 and "keepdims" in node.attributes)


def _casts_with_attributes(node: ir.Node, _: Analysis) -> bool:
    """Return whether a node is a CastLike that says how it casts.

    Issue for onnxscript: "fold_constants replaces CastLike<saturate = 0> by a Cast without the attribute, which
    saturates."
    """
    return is_standard(node, "CastLike") and bool(node.attributes)


HIDDEN: tuple[Callable[[ir.Node, Analysis], bool], ...] = (
    _is_contested,
    _computes_contested_parameter,
    _computes_forbidden_shape,
    _may_draw,
    _has_incomparable_attribute,
    _gathers_from_matrix,
    _computes_sign_of_size,
    _handles_sequences,
    _casts_with_attributes,
)
"""The conditions under which a node is hidden. It is enough to meet one of them."""
