"""The slicing nodes of an ONNX model, each of them resolved, folded, or refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onnx_ops.infer.resolve import bind_shapes, resolve_shapes
from onnx_ops.model.nodes import constant, is_slicing, known_data_shape, node_name
from onnx_ops.model.proto_model import ORIGIN, Node, ProtoModel
from onnx_ops.model.specs import MissingParameter, SpecAndRegions, resolve_node
from onnx_ops.model.views import dims_of, static_sizes
from onnx_ops.model.walk import all_nodes, scoped_nodes
from sliceport.errors import DynamicSlice, InvalidSlice, Refusal
from sliceport.slicing.node import Cut, Folded, Refused, Resolved, SlicingNode
from sliceport.wording import example_shapes


def read_slicing_nodes(model: ProtoModel, input_shapes: Mapping[str, Sequence[int]] | None = None) -> list[SlicingNode]:
    """Return the slicing nodes of a model in their order, including those of subgraphs.

    A node of a function is listed once for each call. The view is changed: shapes are bound and inferred, constants are
    folded, and large initializers may become graph inputs.

    Args:
        model: The model; its large constants are not read.
        input_shapes: Shapes by input name, for inputs whose shape the model leaves open. Outputs of nodes of the main
            graph may be named, too.

    Raises:
        UsageError: `input_shapes` do not fit the model; see `bind_shapes` and `infer_shapes`.
    """
    bind_shapes(model, input_shapes or {})
    records = [_read_record(scope, node, model) for scope, node in scoped_nodes(model.graph) if is_slicing(node)]
    resolved = resolve_shapes(model, [record.node for record in records], input_shapes or {})
    # Folding removes nodes from the graph. Nodes in branches that are never taken count as folded, too.
    remaining = {id(node) for node in all_nodes(model.graph) if is_slicing(node)} - resolved.untaken
    hint = _describe_open_sizes(model)
    return [
        _resolve_or_refuse(record, resolved.specs.get(id(record.node)), hint)
        if id(record.node) in remaining
        else Folded(**record.all_fields(), constants=resolved.constants.get(id(record.node), ()))
        for record in records
    ]


class _Record(NamedTuple):
    """A slicing node, with its names and used outputs as they were before resolving changed the model.

    Attributes:
        node: The node.
        fields: The fields of `NodeInModel` by name, except the element type, which may only be inferred later.
        used: For each output, whether a node reads it or it is an output of a graph.
    """

    node: Node
    fields: Mapping[str, Any]
    used: tuple[bool, ...]

    def all_fields(self) -> dict[str, Any]:
        """Return all fields of `NodeInModel` by name, with the element type that is known by now."""
        return {**self.fields, "element": _element_type(self.node)}


def _read_record(scope: tuple[str, ...], node: Node, model: ProtoModel) -> _Record:
    """Return the record of a slicing node. A node without data has an empty `input`, and is refused later."""
    data = node.inputs[0] if node.inputs else None
    producer = None if data is None else data.producer()
    fields = {
        "name": node_name(node),
        "op_type": node.op_type,
        "domain": node.domain,
        # A model below IR version 3 imports no operator set. StridedSlice has only version 1, and needs no import.
        "opset": model.opset_imports.get(node.domain, 1),
        "scope": scope,
        "input": (data.name or "") if data is not None else "",
        "outputs": tuple([output.name or "" for output in node.outputs]),
        "origin": node.read_mark(ORIGIN),
        "may_capture": producer is not None and producer.graph is not node.graph,
    }
    used = [bool(output.name) and (output.is_graph_output() or bool(output.uses())) for output in node.outputs]
    return _Record(node, fields, tuple(used))


def _resolve_or_refuse(record: _Record, resolved: SpecAndRegions | None, hint: str) -> Resolved | Refused:
    """Return a slicing node with the Region of each output, or with the reason why the node is refused.

    Args:
        record: The node.
        resolved: The parameters and Regions of the node; None if they have to be read again.
        hint: The end of a message about unknown sizes; see `_describe_open_sizes`. If it is empty, the message about a
            node of the main graph may ask for the shape of the node's data.
    """
    node, fields = record.node, record.all_fields()
    data = node.inputs[0] if node.inputs and known_data_shape(node) is None else None
    # Users can give shapes only for values of the main graph. For open inputs of the model, `hint` is not empty.
    if not hint and data is not None and data.producer() is not None and not record.fields["scope"]:
        example = example_shapes({data.name or "": dims_of(data.shape)})
        hint = f"; if it is the same for all inputs, give it, as in {example} (an example)."
    try:
        if not node.inputs or node.inputs[0] is None:
            raise InvalidSlice("data is missing")
        spec, regions = resolved or resolve_node(node, fields["opset"])
        if len(regions) != len(node.outputs):
            raise InvalidSlice(f"{node.op_type} has {len(regions)} output(s), got {len(node.outputs)}")
    except (InvalidSlice, DynamicSlice) as error:
        return Refused(**fields, refusal=_refusal(f"{node.op_type} {fields['name']!r}", error, node, hint or "."))
    return Resolved(**fields, cuts=tuple(map(Cut, fields["outputs"], regions, record.used)), spec=spec)


def _element_type(node: Node) -> str:
    """Return the element type of the node's data and outputs, or an empty string if it is not known."""
    data = node.inputs[0] if node.inputs else None
    if data is not None and data.const_value is not None:
        return data.const_value.dtype.name
    values = node.outputs if data is None else (data, *node.outputs)
    return next((value.dtype.name for value in values if value.dtype is not None), "")


def _refusal(label: str, error: InvalidSlice | DynamicSlice, node: Node, hint: str) -> Refusal:
    """Return the refusal of a node for an error. The message names the node as `label`, and may end with `hint`."""
    if isinstance(error, InvalidSlice):
        return Refusal("invalid", f"{label}: {error}.")
    if isinstance(error, MissingParameter):
        return Refusal("missing_parameter", f"{label}: {error}.")
    if known_data_shape(node) is not None:
        return Refusal("dynamic_parameter", f"{label}: {error}{hint}")
    return Refusal("missing_shape", f"{label}: {_describe_unknown_shape(node)}{hint}")


def _describe_unknown_shape(node: Node) -> str:
    """Describe the first unknown dimension of the node's data, or its unknown rank."""
    data = node.inputs[0]
    assert data is not None  # `_resolve_or_refuse` refuses a node without data as invalid
    producer = data.producer()
    name = f"its input {data.name!r}" + (f" (made by {producer.op_type} {node_name(producer)!r})" if producer else "")
    if data.shape is None:
        return f"the shape of {name} is not known"
    axis, dim = next((axis, dim) for axis, dim in enumerate(data.shape) if not isinstance(dim, int))
    return f"dimension {axis} of {name} is not known" + (f" ({dim.value!r})" if dim.value else "")


def _describe_open_sizes(model: ProtoModel) -> str:
    """Return the end of a message, which lists open sizes of graph inputs with an example; "" if no size is open."""
    descriptions = []
    open_shapes: dict[str, list[int | str | None] | None] = {}
    for value in model.graph.inputs:
        name, dims = value.name or "", dims_of(value.shape)
        if static_sizes(dims) is not None or constant(value) is not None:
            continue  # before IR version 4, constants are also graph inputs
        if dims is None:
            descriptions.append(f"the shape of input {name!r}")
            open_shapes[name] = None
            continue
        descriptions += [
            f"dimension {axis} of input {name!r}" for axis, dim in enumerate(dims) if not isinstance(dim, int)
        ]
        open_shapes[name] = list(dims)
    if not descriptions:
        return ""
    verb = " are" if len(descriptions) > 1 else " is"
    return f"; {', '.join(descriptions)}{verb} open: give sizes, as in {example_shapes(open_shapes)} (an example)."
