"""Walks over the nodes and tensors of a ModelProto, including its subgraphs and functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

WRITTEN_NAME = "io.sliceport.written_name"
"""Key in the metadata of a node of a function; see `mark_written_names`."""
_HOLDERS_OF_TENSORS = frozenset(
    "AttributeProto FunctionProto GraphProto NodeProto SparseTensorProto TensorProto TrainingInfoProto".split()  # noqa: SIM905
)
"""The messages that are tensors or may have tensors in them."""


def graphs_of(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs of an attribute, but not the graphs nested in these."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def all_graphs(*graphs: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield graphs, each followed by the graphs in its nodes."""
    for graph in graphs:
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                yield from all_graphs(*graphs_of(attribute))


def all_nodes(*holders: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of graphs and functions, each followed by the nodes of the graphs in it."""
    for holder in holders:
        for node in holder.node:
            yield node
            for attribute in node.attribute:
                for graph in graphs_of(attribute):
                    yield from all_nodes(graph)


def proto_node_name(node: onnx.NodeProto) -> str:
    """Return the name of a node, or else of its first named output, or else an empty string."""
    return node.name or next(filter(None, node.output), "")


def mark_node(node: onnx.NodeProto, key: str, text: str) -> None:
    """Set an entry of the metadata of a node. If `text` is empty, remove the entry."""
    for entry in [entry for entry in node.metadata_props if entry.key == key]:
        node.metadata_props.remove(entry)
    if text:
        node.metadata_props.add(key=key, value=text)


def mark_written_names(functions: Sequence[onnx.FunctionProto]) -> None:
    """Store the written name of each node of a function in the node's metadata.

    The written name is `function.node`, in which `node` is the node's `proto_node_name`. If `proto_node_name` is empty,
    `node` is the index of the node among the nodes of the function and of its subgraphs. `function` includes the domain
    and the overload if another function has the same name.
    """
    counts = Counter(function.name for function in functions)
    for function in functions:
        parts = (function.domain, function.name, function.overload)
        title = function.name if counts[function.name] == 1 else "::".join(filter(None, parts))
        for i, node in enumerate(all_nodes(function)):
            mark_node(node, WRITTEN_NAME, f"{title}.{proto_node_name(node) or i}")


def model_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of the main graph and of the functions, including the nodes in subgraphs."""
    return all_nodes(model.graph, *model.functions)


def all_tensors(message: Any) -> Iterator[onnx.TensorProto]:
    """Yield every tensor in a model, also those in training graphs and in sparse tensors."""
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.name in _HOLDERS_OF_TENSORS:
            for part in (value,) if hasattr(value, "ListFields") else value:
                if isinstance(part, onnx.TensorProto):
                    yield part
                else:
                    yield from all_tensors(part)


def resolve_references(
    node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto], *, drops_other_types: bool = False
) -> onnx.NodeProto:
    """Return a copy of a node of a function, for a call of the function with these attributes.

    A reference to an attribute of the function is replaced by the call's attribute of that name. The reference is
    dropped if the call has no such attribute or, with `drops_other_types`, one of another type.
    """
    resolved = onnx.NodeProto()
    resolved.CopyFrom(node)
    del resolved.attribute[:]
    for attribute in node.attribute:
        value = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if value is not None and not (drops_other_types and value.type != attribute.type):
            copied = resolved.attribute.add()
            copied.CopyFrom(value)
            copied.name = attribute.name
    return resolved
