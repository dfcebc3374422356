"""Hiding of the nodes that optimizers would replace by nodes with other results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_ops.infer.exact import MOVING, ONLY_OF_INT32, OPERATORS, ROUNDED_ALIKE, may_fail_to_divide
from onnx_ops.infer.facts import NO_FACTS, Facts
from onnx_ops.model.domains import STANDARD_DOMAINS, standard_opset, usual_name
from onnx_ops.model.nodes import RANDOM, SLICING, constant, is_standard, is_valid_operator, read_int
from onnx_ops.model.specs import slice_spec
from onnx_ops.model.views import static_sizes
from onnx_ops.passes.contested_nodes import OPAQUE_DOMAIN
from onnx_ops.passes.edits import GRAPH_TYPES, open_unconfirmed_sizes
from onnx_ops.passes.matchers import is_forbidden_shape
from onnx_ops.passes.simplify.optimizers import ONNXSCRIPT, ONNXSLIM
from onnx_ops.passes.value_info import infer_facts
from sliceport.errors import DynamicSlice, InvalidSlice

_HIDDEN = "SliceportHidden"  # the operators of hidden nodes begin with it
_SIZES = ("Shape", "Size")
"""Operators that read only the sizes of their input."""
_WRONGLY_INFERRED_OPSET = 10
"""The operator set of the Slice for which onnx infers open sizes wrongly."""
_SEQUENCE_OPSETS = {"SplitToSequence": 18, "ConcatFromSequence": 13}
"""The operator set of the Split or Unsqueeze that onnxscript's optimizer writes in place of each operator."""
_CHECKED_FOR_ONNXSCRIPT = ("Flatten", "Reshape", "Slice", "ScatterND", *_SEQUENCE_OPSETS)
_NOT_NUMBERS = (ir.DataType.BOOL, ir.DataType.STRING)
_FLOATS = frozenset((ir.DataType.FLOAT, ir.DataType.DOUBLE))
_TRAINING_MODE = 2
"""Index of the input of a Dropout that switches training on."""
_DIFFERENT = ONLY_OF_INT32 | {"GatherElements", "NonZero"}
"""The operators of `OPERATORS` that optimizers may compute differently from engines."""
_ALIKE = OPERATORS - _DIFFERENT
"""The other operators of `OPERATORS`: optimizers compute them as engines do, at least for some element types."""
_MOVING_ALIKE = (MOVING | {"If", "ConstantOfShape", "EyeLike", *_SIZES}) - _DIFFERENT
"""The operators that optimizers compute as engines do for all element types."""

FactsByValue = Mapping[Any, Facts]
Withheld = Mapping[str, Mapping[str, ir.Attr]]
"""The attributes of each hidden node, by the unique operator that the node has while it is hidden."""


def hide_nodes(model: ir.Model, optimizer: str) -> Withheld:
    """Hide the nodes that an optimizer must not change. Return the attributes of these nodes, for `show_nodes`.

    Each hidden node gets a unique operator, because optimizers merge equal nodes, even nodes that draw random numbers.
    Nodes of other domains are hidden, too, because optimizers look at the name of an operator but not at its domain.
    The attributes of hidden nodes are withheld, because OnnxSlim loses lists of tensors. Only attributes with graphs
    stay, so that the graphs are optimized, too. Declared sizes that inference does not confirm become open.

    Args:
        model: The model, which is changed. Contested nodes must have `OPAQUE_DOMAIN`. Float constants must be inputs.
        optimizer: `ONNXSCRIPT` or `ONNXSLIM`.
    """
    facts = infer_facts(model)
    for value, inferred in facts.items():
        open_unconfirmed_sizes(value, inferred.dims)  # optimizers rely on declared numbers, even if these are wrong
    for value in model.graph.initializers.values():  # `infer` omits these; bodies have no initializers here
        if value.const_value is not None:
            tensor = value.const_value
            facts[value] = Facts(tensor.dtype.value, tuple(tensor.shape.numpy()), data=tensor.numpy())
    nodes = list(model.graph.all_nodes())
    hidden = [
        *(node for node in nodes if node.domain not in STANDARD_DOMAINS or _is_random(node)),
        *_find_contested_parameters(nodes),
        *_find_folded_differently(nodes, facts),
        *_find_nonzeros_of_scalars(nodes, facts),
        *_find_forbidden_shapes(nodes, facts),
    ]
    if optimizer == ONNXSCRIPT:
        _declare_shapes_before_flattens(nodes, facts)
        hidden += _find_miscompiled_by_onnxscript(nodes, facts, standard_opset(model.opset_imports))
    elif optimizer == ONNXSLIM:
        hidden += _find_miscompiled_by_onnxslim(nodes, standard_opset(model.opset_imports))
    withheld: dict[str, Mapping[str, ir.Attr]] = {}
    for number, node in enumerate(dict.fromkeys(hidden)):
        # A node of another domain keeps it, because `show_nodes` moves nodes of OPAQUE_DOMAIN to ONNX's own domain.
        node.domain, node.op_type = usual_name(node.domain) or OPAQUE_DOMAIN, f"{_HIDDEN}{number}_{node.op_type}"
        withheld[node.op_type] = dict(node.attributes)
        for name, attribute in withheld[node.op_type].items():
            if attribute.type not in GRAPH_TYPES:
                del node.attributes[name]
    model.graph.opset_imports[OPAQUE_DOMAIN] = 1
    return withheld


def show_nodes(model: ir.Model, withheld: Withheld) -> None:
    """Restore the operators and attributes of the nodes that `hide_nodes` has hidden.

    All nodes of `OPAQUE_DOMAIN`, also the contested ones, get ONNX's own domain.
    """
    for node in model.graph.all_nodes():
        if node.op_type.startswith(_HIDDEN):
            graphs = dict(node.attributes)
            original = withheld[node.op_type]
            node.attributes.clear()
            # Graphs stay as the optimizer left them. The order of the attributes is the original one.
            node.attributes.update({name: graphs.get(name, attribute) for name, attribute in original.items()})
            node.op_type = node.op_type.partition("_")[2]  # the operator follows the number
        if node.domain == OPAQUE_DOMAIN:
            node.domain = ""
    model.graph.opset_imports.pop(OPAQUE_DOMAIN, None)


def _is_random(node: ir.Node) -> bool:
    """Return whether a node is an operator of `RANDOM`, or a Dropout with the input that switches training on."""
    return is_standard(node, *RANDOM) or (is_standard(node, "Dropout") and len(node.inputs) > _TRAINING_MODE)


def _find_contested_parameters(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Yield the nodes that compute parameters of contested nodes. Contested nodes are those of `OPAQUE_DOMAIN`.

    The optimizer must not fold these nodes: with constant parameters, onnxruntime would infer another shape for a
    contested node than the node computes. Constants are left out.
    """
    for node in nodes:
        for value in node.inputs[1:] if node.domain == OPAQUE_DOMAIN else ():
            producer = None if value is None else value.producer()
            if producer is not None and producer.op_type != "Constant":
                yield producer


def _find_folded_differently(nodes: Iterable[ir.Node], facts: FactsByValue) -> Iterator[ir.Node]:
    """Yield the nodes that an optimizer may fold with another result than engines compute.

    The inputs of such nodes follow from initializers or from the sizes of other values. `optimize` has turned all
    constants into initializers.
    """
    computed: set[ir.Value] = set()
    for node in nodes:
        inputs = [value for value in node.inputs if value is not None]
        is_constant = bool(inputs) and all(value in computed or value.is_initializer() for value in inputs)
        if is_constant or is_standard(node, *_SIZES):
            computed.update(node.outputs)
            if not _computes_alike(node, facts):
                yield node


def _computes_alike(node: ir.Node, facts: FactsByValue) -> bool:
    """Return whether an optimizer that folds a node computes the same outputs as all engines do."""
    if is_standard(node, *_MOVING_ALIKE):
        return True
    if not is_standard(node, *_ALIKE):
        return False
    # Inference computes an output only if all engines compute the same elements.
    if all(facts.get(output, NO_FACTS).data is not None for output in node.outputs if output.name):
        return True
    input_types, output_types = _read_element_types(node.inputs, facts), _read_element_types(node.outputs, facts)
    if all(each is not None and (each.is_integer() or each in _NOT_NUMBERS) for each in input_types | output_types):
        if node.op_type != "Div":
            return True
        # An integer division by 0, or of the least integer by -1, may end the process of an engine.
        divisor = facts.get(node.inputs[-1], NO_FACTS).data
        return divisor is not None and not may_fail_to_divide(divisor)
    return node.op_type in ROUNDED_ALIKE and _FLOATS.issuperset(input_types)


def _read_element_types(values: Iterable[ir.Value | None], facts: FactsByValue) -> set[ir.DataType | None]:
    """Return the set of the element types of values. None stands for a type that is not known."""
    present = [value for value in values if value is not None and value.name]  # a left-out output has no name
    numbers = [facts.get(value, NO_FACTS).element for value in present]
    return {ir.DataType(number) if number else None for number in numbers}


def _find_nonzeros_of_scalars(nodes: Iterable[ir.Node], facts: FactsByValue) -> Iterator[ir.Node]:
    """Yield each NonZero whose input may be a scalar. For a scalar, onnx infers 0 output rows, but engines write 1."""
    for node in nodes:
        if is_valid_operator(node, "NonZero") and not facts.get(node.inputs[0], NO_FACTS).dims:
            yield node


def _find_forbidden_shapes(nodes: Iterable[ir.Node], facts: FactsByValue) -> Iterator[ir.Node]:
    """Yield the nodes that compute a shape with a 0 and a -1 for a Reshape with allowzero=1.

    If the shape became a constant, onnxruntime would not load the model.
    """
    for node in (node for node in nodes if node.op_type != "Constant"):  # a Constant's output is constant already
        for output in node.outputs:
            data = facts.get(output, NO_FACTS).data
            if data is not None and is_forbidden_shape(output, partial(np.asarray, data)):
                yield node


def _declare_shapes_before_flattens(nodes: Iterable[ir.Node], facts: FactsByValue) -> None:
    """Declare the inferred shape of each Flatten's data.

    Without it, onnxscript may replace the Flatten by a Reshape to [0, -1], which fails where a size is 0.
    """
    for node in nodes:
        data = node.inputs[0] if is_standard(node, "Flatten") and node.inputs else None
        dims = facts.get(data, NO_FACTS).dims
        if data is not None and dims is not None:
            data.shape = ir.Shape(dims)


def _find_miscompiled_by_onnxscript(nodes: Iterable[ir.Node], facts: FactsByValue, opset: int) -> Iterator[ir.Node]:
    """Yield the nodes that onnxscript's optimizer 0.7.2 may replace wrongly or fail on.

    - It writes a Flatten as a Reshape to [0, -1], which fails for an empty batch.
    - It writes two Flattens of one value as two Reshapes, and one of these reads a shape that does not exist.
    - It writes a -1 beside a 0 into the shape of a Reshape.
    - It removes a Slice of operator set 10, if the axis is open: onnx infers that the size stays the same.
    - It fails on a ScatterND with constant indices if a size of the data is open.
    - It replaces operators on sequences by operators of later operator sets.
    - It applies the keepdims of a SplitToSequence with part sizes, although the specification says to ignore it.
    """
    flattened: set[ir.Value | None] = set()
    for node in nodes:
        if not (is_standard(node, *_CHECKED_FOR_ONNXSCRIPT) and node.inputs and node.outputs):
            continue
        data = node.inputs[0]
        dims, output_dims = facts.get(data, NO_FACTS).dims, facts.get(node.outputs[0], NO_FACTS).dims
        match node.op_type:
            case "Flatten":
                is_miscompiled = data in flattened or not _can_be_reshape(node, dims)
                flattened.add(data)
            case "Reshape":
                is_miscompiled = 0 in (dims or ()) or 0 in (output_dims or ())
            case "Slice":
                is_miscompiled = opset == _WRONGLY_INFERRED_OPSET and static_sizes(output_dims) is None
            case "ScatterND":
                has_constant_indices = len(node.inputs) > 1 and facts.get(node.inputs[1], NO_FACTS).data is not None
                is_miscompiled = has_constant_indices and static_sizes(dims) is None
            case _:  # an operator on sequences
                is_miscompiled = opset < _SEQUENCE_OPSETS[node.op_type] or (
                    len(node.inputs) > 1 and "keepdims" in node.attributes
                )
        if is_miscompiled:
            yield node


def _can_be_reshape(flatten: ir.Node, dims: Sequence[int | str | None] | None) -> bool:
    """Return whether a Flatten is equal to a Reshape to two numbers. One of them may be -1.

    `dims` holds the sizes of the data: numbers, or symbols or None for unknown sizes. It is None for an unknown rank.
    """
    if dims is None or 0 in dims:  # in a Reshape, 0 copies a size of the data, and no -1 can be inferred beside it
        return False
    try:
        axis = read_int(flatten, "axis", 1)
    except InvalidSlice:
        return False
    # A Flatten joins the axes before `axis` to one axis, and all other axes to a second one.
    return static_sizes(dims[:axis]) is not None or static_sizes(dims[axis:]) is not None


def _find_miscompiled_by_onnxslim(nodes: Iterable[ir.Node], opset: int) -> Iterator[ir.Node]:
    """Yield the nodes that OnnxSlim 0.1.98 may replace by nodes with other results.

    - It removes a Slice whose parameters are not constant, and divides a Split with such parameters into equal parts.
    - It takes a Slice of an open axis for empty if the step is negative or the start is near INT64_MIN.
    - It folds some outputs of a node that reads only constants, so that the indices of the other outputs shift.
    - It drops a constant without elements from a Concat, even if sizes of the result follow from this operand.
    - It replaces the mask output of a Dropout by the data.
    """
    computed: set[ir.Value] = set()
    for node in nodes:
        inputs = [value for value in node.inputs if value is not None]
        is_computed = all(value in computed or value.is_initializer() for value in inputs)
        if is_computed:
            computed.update(node.outputs)
        has_open_parameter = is_standard(node, *SLICING) and any(constant(value) is None for value in inputs[1:])
        has_mask = is_standard(node, "Dropout") and len(node.outputs) > 1
        has_empty_operand = is_standard(node, "Concat") and any(
            tensor is not None and tensor.size == 0 for tensor in map(constant, inputs)
        )
        if (
            has_open_parameter
            or has_mask
            or has_empty_operand
            or (is_computed and len(node.outputs) > 1)
            or _is_taken_for_empty(node, opset)
        ):
            yield node


def _is_taken_for_empty(node: ir.Node, opset: int) -> bool:
    """Return whether OnnxSlim may take a Slice for empty: a step is below 0, or a start is near INT64_MIN."""
    try:
        spec = slice_spec(node, opset) if is_standard(node, "Slice") else None
    except (InvalidSlice, DynamicSlice):
        return False
    return spec is not None and (min(spec.starts, default=0) < -(2**62) or min(spec.steps or (), default=1) < 0)
