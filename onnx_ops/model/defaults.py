"""Defaults: initializers of graph inputs. They are not constants, because a caller may pass other values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import onnx_ir as ir

from onnx_ops.model.check import REPLACEABLE_VERSION
from onnx_ops.model.walk import model_graphs


@contextmanager
def without_defaults(model: ir.Model) -> Iterator[None]:
    """Remove the initializers of replaceable graph inputs inside the context, and restore them after it.

    The inputs of the main graph are replaceable from IR version 4 on. In earlier versions, every initializer must also
    be an input, and counts as a constant. The inputs of a body are replaceable in all versions, because the node that
    contains the body sets them.
    """
    defaults = _defaults(model)
    original_order = {graph: list(graph.initializers.data.values()) for graph, _ in defaults}
    tensors = [value.const_value for _, value in defaults]
    pop_defaults(model)
    try:
        yield
    finally:
        for (_, value), tensor in zip(defaults, tensors, strict=True):
            value.const_value = tensor
        restored = {value for _, value in defaults}
        for graph, values in original_order.items():
            # `add` appends. So all initializers are removed, and then added in their original order. Initializers that
            # were removed inside the context stay removed, and new initializers come last.
            remaining = [graph.initializers.pop(name) for name in list(graph.initializers)]
            present = restored.union(remaining)
            for value in dict.fromkeys([*(value for value in values if value in present), *remaining]):
                graph.initializers.add(value)


def pop_defaults(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    """Remove initializers of replaceable inputs (see `without_defaults`). Return those of the main graph by name."""
    tensors: dict[str, ir.TensorProtocol] = {}
    for graph, value in _defaults(model):
        name, tensor = value.name or "", value.const_value
        if graph is model.graph and tensor is not None:
            tensors[name] = tensor
        del graph.initializers[name]
        value.const_value = None
    return tensors


def put_defaults(model: ir.Model, defaults: Mapping[str, ir.TensorProtocol]) -> None:
    """Give inputs of the main graph the defaults that `pop_defaults` returned. Ignore names that are not inputs."""
    for value in model.graph.inputs:
        tensor = defaults.get(value.name or "")
        if tensor is not None:
            value.const_value = tensor
            model.graph.register_initializer(value)


def _defaults(model: ir.Model) -> list[tuple[ir.Graph, ir.Value]]:
    """Return the replaceable graph inputs that have an initializer, each with its graph; see `without_defaults`."""
    return [
        (graph, value)
        for graph in model_graphs(model)
        if graph is not model.graph or model.ir_version >= REPLACEABLE_VERSION
        for value in graph.initializers.data.values()
        if value.is_graph_input()
    ]
