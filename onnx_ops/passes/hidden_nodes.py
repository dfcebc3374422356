"""Hiding nodes from optimizers that would make something else of them than engines do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_ops.infer.exact import MOVING, ONLY_OF_INT32, OPERATORS
from onnx_ops.infer.facts import NO_FACTS, Facts
from onnx_ops.infer.inference import infer
from onnx_ops.model.domains import STANDARD_DOMAINS, standard_opset, usual_name
from onnx_ops.model.ir_model import IrModel
from onnx_ops.model.nodes import SLICING, constant, is_standard
from onnx_ops.model.views import Array
from onnx_ops.passes.contested_nodes import OPAQUE_DOMAIN
from onnx_ops.passes.edits import RANDOM
from onnx_ops.passes.matchers import is_forbidden_shape
from onnx_ops.passes.optimizers import ONNXSCRIPT, ONNXSLIM

_HIDDEN = "SliceportHidden"
_SIZES = ("Shape", "Size")
_WRONGLY_INFERRED_OPSET = 10
_SEQUENCE_OPSETS = {"SplitToSequence": 18, "ConcatFromSequence": 13}
"""The operator sets of the Split and the Unsqueeze that onnxscript's optimizer writes for these."""
_BY_ONNXSCRIPT = ("Flatten", "Reshape", "Slice", "ScatterND", *_SEQUENCE_OPSETS)
_TRAINING_MODE = 2
"""The index of that input of a Dropout."""
_DIFFERENT = ONLY_OF_INT32 | {"GatherElements", "NonZero"}
"""The operators of `OPERATORS` that optimizers may compute in another way."""
_ALIKE = OPERATORS - _DIFFERENT
_KEPT = (MOVING | {"If", "ConstantOfShape", "EyeLike", *_SIZES}) - _DIFFERENT
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)

FactsByValue = Mapping[ir.Value, Facts]
Withheld = Mapping[str, Mapping[str, ir.Attr]]
"""The attributes of hidden nodes, by what the operator of each is called while it is hidden."""


def hide_nodes(model: ir.Model, optimizer: str) -> Withheld:
    """Hide the nodes that an optimizer may not know, and their attributes; `show_nodes` shows them again.

    Each gets an operator of its own: OnnxSlim, and rules of onnxscript's optimizer, go by that alone, whatever its
    domain, and make one of equal nodes, though these may draw at random. So the nodes of domains that are not standard
    are hidden, too. Of their attributes only graphs are left to them: OnnxSlim forgets lists of tensors.

    Args:
        model: The model, in which nodes that engines read differently are of an unknown domain, and the floats that it
            holds are inputs.
        optimizer: One of `OPTIMIZERS`.
    """
    facts = infer(IrModel(model))
    nodes = list(model.graph.all_nodes())
    hidden = [
        *(node for node in nodes if node.domain not in STANDARD_DOMAINS or _draws(node)),
        *_parameters_of_contested(nodes),
        *_computed_differently(nodes, facts),
        *_scalars_of_nonzero(nodes, facts),
        *_forbidden_shapes(nodes, facts),
    ]
    if optimizer == ONNXSCRIPT:
        hidden += _mistaken_by_onnxscript(nodes, facts, standard_opset(model.opset_imports))
    elif optimizer == ONNXSLIM:
        hidden += _mistaken_by_onnxslim(nodes)
    withheld: dict[str, Mapping[str, ir.Attr]] = {}
    for number, node in enumerate(dict.fromkeys(hidden)):
        node.domain, node.op_type = usual_name(node.domain) or OPAQUE_DOMAIN, f"{_HIDDEN}{number}_{node.op_type}"
        withheld[node.op_type] = dict(node.attributes)
        for name, attribute in withheld[node.op_type].items():
            if attribute.type not in _GRAPHS:
                del node.attributes[name]
    model.graph.opset_imports[OPAQUE_DOMAIN] = 1
    return withheld


def show_nodes(model: ir.Model, withheld: Withheld) -> None:
    """Show the hidden nodes of a model again, with the attributes that `hide_nodes` has withheld."""
    for node in model.graph.all_nodes():
        if node.op_type.startswith(_HIDDEN):
            graphs = dict(node.attributes)
            node.attributes.clear()
            node.attributes.update({name: graphs.get(name, each) for name, each in withheld[node.op_type].items()})
            node.op_type = node.op_type.partition("_")[2]
        if node.domain == OPAQUE_DOMAIN:
            node.domain = ""
    model.graph.opset_imports.pop(OPAQUE_DOMAIN, None)


def _draws(node: ir.Node) -> bool:
    """Return whether a node may draw at random: a Dropout does in training."""
    return is_standard(node, *RANDOM) or (is_standard(node, "Dropout") and len(node.inputs) > _TRAINING_MODE)


def _parameters_of_contested(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield the nodes that compute the parameters of contested nodes.

    Of a Slice with constant parameters onnxruntime infers the shape that the specification gives it, and then computes
    another.
    """
    for node in nodes:
        for value in node.inputs[1:] if node.domain == OPAQUE_DOMAIN else ():
            producer = None if value is None else value.producer()
            if producer is not None and producer.op_type != "Constant":
                yield producer


def _computed_differently(nodes: Iterable[ir.Node], facts: FactsByValue) -> Iterator[ir.Node]:
    """Yield the nodes of known values that optimizers may compute in another way than engines.

    Nodes that only move elements are safe, and nodes whose outputs inference has computed, as all engines compute them.
    """
    known: set[ir.Value] = set()
    for node in nodes:
        inputs = [value for value in node.inputs if value is not None]
        if (inputs and all(value in known or value.is_initializer() for value in inputs)) or is_standard(node, *_SIZES):
            known.update(node.outputs)
            written = [output for output in node.outputs if output.name]
            is_computed = is_standard(node, *_ALIKE) and all(_data(value, facts) is not None for value in written)
            if not is_computed and not is_standard(node, *_KEPT):
                yield node


def _data(value: ir.Value | None, facts: FactsByValue) -> Array | None:
    """Return the elements of a value, if they are known."""
    if value is None:
        return None
    tensor = constant(value)
    return facts.get(value, NO_FACTS).data if tensor is None else tensor.numpy()


def _scalars_of_nonzero(nodes: Iterable[ir.Node], facts: FactsByValue) -> Iterator[ir.Node]:
    """Yield each NonZero whose input may be a scalar: onnx infers an output without rows, and engines write one row."""
    for node in nodes:
        if is_standard(node, "NonZero") and not _dims(node.inputs[0], facts):
            yield node


def _forbidden_shapes(nodes: Iterable[ir.Node], facts: FactsByValue) -> Iterator[ir.Node]:
    """Yield the nodes that compute a shape with which onnxruntime does not load a Reshape if the shape is constant."""
    for node in nodes:
        for output in node.outputs if node.op_type != "Constant" else ():
            data = facts.get(output, NO_FACTS).data
            if data is not None and is_forbidden_shape(output, partial(np.asarray, data)):
                yield node


def _mistaken_by_onnxscript(nodes: Iterable[ir.Node], facts: FactsByValue, opset: int) -> Iterator[ir.Node]:
    """Yield the nodes that onnxscript's optimizer 0.7.2 makes something else of.

    It writes a Flatten as a Reshape to [0, -1], which fails for an empty batch; and two Flattens of one value as two
    Reshapes of which one reads a shape that is not there. It writes -1 into the shape of a Reshape beside a 0. It
    removes a Slice of operator set 10, because onnx infers that the Slice keeps a size that is not known. It fails on a
    ScatterND by constant indices into data of an open size. It writes sequences in operators of later operator sets.
    """
    flattened: set[ir.Value | None] = set()
    for node in nodes:
        if not is_standard(node, *_BY_ONNXSCRIPT):
            continue
        data = node.inputs[0]
        dims, written = _dims(data, facts), _dims(node.outputs[0], facts)
        is_open = dims is None or not all(isinstance(dim, int) for dim in dims)
        match node.op_type:
            case "Flatten":
                is_mistaken = data in flattened or not _is_sure_flatten(node, dims)
                flattened.add(data)
                if data is not None and dims is not None:
                    data.shape = ir.Shape(dims)  # the optimizer infers less, and would write [0, -1]
            case "Reshape":
                is_mistaken = 0 in (dims or ()) or 0 in (written or ())
            case "Slice":
                is_kept = written is not None and all(isinstance(dim, int) for dim in written)
                is_mistaken = opset == _WRONGLY_INFERRED_OPSET and not is_kept
            case "ScatterND":
                is_mistaken = is_open and len(node.inputs) > 1 and _data(node.inputs[1], facts) is not None
            case _:
                # A SplitToSequence with sizes ignores its keepdims, and the optimizer does not.
                is_mistaken = opset < _SEQUENCE_OPSETS[node.op_type] or (
                    len(node.inputs) > 1 and "keepdims" in node.attributes
                )
        if is_mistaken:
            yield node


def _is_sure_flatten(node: ir.Node, dims: Sequence[int | str | None] | None) -> bool:
    """Return whether a Flatten is equal to a Reshape to at most one size that is not known, and to no size of 0."""
    if dims is None or 0 in dims:
        return False
    attribute = node.attributes.get("axis")
    axis = 1 if attribute is None else attribute.as_int()
    return any(all(isinstance(dim, int) for dim in part) for part in (dims[:axis], dims[axis:]))


def _dims(value: ir.Value | None, facts: FactsByValue) -> Sequence[int | str | None] | None:
    """Return the sizes of a value's axes, None if its rank is not known."""
    if value is None:
        return None
    tensor = constant(value)
    return facts.get(value, NO_FACTS).dims if tensor is None else tensor.shape.numpy()


def _mistaken_by_onnxslim(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield the nodes of which OnnxSlim 0.1.98 makes something else.

    It removes a Slice whose parameters are not constant, and takes such a Split for one into equal parts; of nodes of
    several outputs that follow from constants it drops those that it computes, so that others take their places; of a
    Concat it drops a constant without elements, whatever its size along the axis; of a Dropout it gives the data for
    the mask.
    """
    computed: set[ir.Value] = set()
    for node in nodes:
        inputs = [value for value in node.inputs if value is not None]
        is_computed = all(value in computed or value.is_initializer() for value in inputs)
        if is_computed:
            computed.update(node.outputs)
        is_open = is_standard(node, *SLICING) and any(constant(value) is None for value in inputs[1:])
        has_mask = is_standard(node, "Dropout") and len(node.outputs) > 1
        joins_nothing = is_standard(node, "Concat") and any(map(_is_empty_constant, inputs))
        if is_open or has_mask or joins_nothing or (is_computed and len(node.outputs) > 1):
            yield node


def _is_empty_constant(value: ir.Value) -> bool:
    tensor = constant(value)
    return tensor is not None and tensor.size == 0
