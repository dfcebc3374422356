"""A whole graph made simpler by an optimizer that sees no more of the model than it may change."""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import count

import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass, LiftSubgraphInitializersToMainGraphPass

from onnx_ops.model.clone import model_like
from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.model.io import external_tensors, load_externals
from onnx_ops.model.nodes import LARGE_BYTES, constant
from onnx_ops.model.prepare import name_left_out_outputs
from onnx_ops.model.walk import all_graphs, all_values, rewritable_nodes
from onnx_ops.passes.builders import build_tensor
from onnx_ops.passes.contested_nodes import build_probe, clone_model
from onnx_ops.passes.hidden_nodes import hide_nodes, show_nodes
from onnx_ops.passes.optimizers import run_optimizer
from sliceport.errors import ModelError


def optimize(model: ir.Model, name: str) -> tuple[ir.Model, int]:
    """Return the model that an optimizer makes, and the number of nodes before, both with functions inlined.

    The optimizer sees the shapes of weights and floats, and the values of integers: what it could compute, or take for
    0 or 1, would be rounded in another way than by the engine that runs the model. Nodes that engines read
    differently are hidden from it, and those that it would get wrong (`hide_nodes`).

    Args:
        model: The model, which has been rewritten; it is not changed.
        name: One of `OPTIMIZERS`.

    Raises:
        ModelError: See `run_optimizer`; or a function cannot be inlined.
    """
    probe, _ = build_probe(model)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(probe)
    LiftSubgraphInitializersToMainGraphPass()(probe)
    for graph in all_graphs(probe):
        if graph is not probe.graph:  # what is an output of a body is left, and OnnxSlim forgets it
            _make_constants(graph)
    name_left_out_outputs(probe)
    nodes = count_nodes(probe)
    _keep_own_outputs(probe.graph)
    detached = _detach(probe)
    withheld = hide_nodes(probe, name)
    load_externals(list(external_tensors(probe)))  # what it makes of the model does not say where their files are
    optimized = run_optimizer(name, probe)
    # OnnxSlim gives bodies initializers of their own, which before version 4 of the format must be inputs
    LiftSubgraphInitializersToMainGraphPass()(optimized)
    _attach(optimized.graph, detached)
    _restore_interface(optimized.graph, model.graph)
    # they were nodes: onnxruntime 1.23 infers no shapes by initializers of more than 127 bytes
    _make_constants(optimized.graph, model.graph.initializers)
    show_nodes(optimized, withheld)
    _restore_shapes(optimized, model)
    kept = [function for key, function in model.functions.items() if key[0] == STRIDED_SLICE_DOMAIN]
    result = model_like(model, optimized.graph, kept)
    try:
        clone_model(result)
    except ModelError as error:
        raise ModelError(f"it makes an invalid model: {error}") from error
    return result, nodes


def count_nodes(model: ir.Model) -> int:
    """Return the nodes of graphs, subgraphs and functions, constants left out."""
    return sum(node.op_type != "Constant" for node, _ in rewritable_nodes(model))


def _prepend(graph: ir.Graph, node: ir.Node) -> None:
    if len(graph):
        graph.insert_before(graph[0], node)
    else:
        graph.append(node)


def _keep_own_outputs(graph: ir.Graph) -> None:
    """Leave out the outputs that are inputs and those that are there twice, which optimizers rename."""
    own = {value.name: value for value in graph.outputs if not value.is_graph_input()}
    graph.outputs.clear()
    graph.outputs.extend(own.values())


def _detach(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    """Make inputs of the main graph's initializers that no optimizer shall look into.

    Returns:
        Their tensors by name.
    """
    detached: dict[str, ir.TensorProtocol] = {}
    for name, value in list(model.graph.initializers.items()):
        tensor = constant(value)
        if tensor is None or (
            tensor.nbytes <= LARGE_BYTES
            and (tensor.dtype.is_integer() or tensor.dtype == ir.DataType.BOOL)
            and not isinstance(tensor, ir.ExternalTensor)
        ):
            continue
        value.shape, value.dtype = tensor.shape, tensor.dtype  # type: ignore[assignment]
        del model.graph.initializers[name]
        value.const_value = None
        if value.is_graph_output():
            _copy_to_output(model, value)
        detached[value.name or ""] = tensor
        if not value.is_graph_input():
            model.graph.inputs.append(value)
    return detached


def _copy_to_output(model: ir.Model, value: ir.Value) -> None:
    """Let a copy be the output: optimizers rename an input that is one."""
    taken = {each.name for each in all_values(model.graph)}.union(model.graph.initializers)
    copy = ir.node("Identity", [value])
    output, name = copy.outputs[0], value.name
    output.shape, output.type = value.shape, value.type
    value.replace_all_uses_with(output, replace_graph_outputs=True)
    copy.replace_input_with(0, value)
    value.name = next(new for i in count() if (new := f"{name}_{i}") not in taken)
    output.name = name
    _prepend(model.graph, copy)


def _attach(graph: ir.Graph, detached: Mapping[str, ir.TensorProtocol]) -> None:
    """Make the inputs that `_detach` made initializers again; what nothing reads any more is left out."""
    for value in list(graph.inputs):
        tensor = detached.get(value.name or "")
        if tensor is None:
            continue
        graph.inputs.remove(value)
        if value.uses() or value.is_graph_output():
            value.const_value = tensor
            graph.register_initializer(value)


def _restore_interface(graph: ir.Graph, original: ir.Graph) -> None:
    """Give a graph the inputs and outputs of another, which an optimizer has left out, or whose types it has.

    Raises:
        ModelError: The outputs have other names.
    """
    own = dict.fromkeys(value.name for value in original.outputs if not value.is_graph_input())
    if [value.name for value in graph.outputs] != list(own):
        raise ModelError("it renames the outputs of the model.")
    there = {value.name: value for value in (*graph.initializers.values(), *graph.inputs)}
    graph.inputs.clear()
    for old in original.inputs:
        value = there.get(old.name) or ir.Value(name=old.name)
        value.shape, value.type = old.shape, old.type
        graph.inputs.append(value)
        if old.const_value is not None:  # as before version 4 of the format
            value.const_value = old.const_value
            graph.register_initializer(value)
    outputs = {value.name: value for value in (*graph.inputs, *graph.outputs)}
    graph.outputs.clear()
    for old in original.outputs:
        value = outputs[old.name]
        value.shape, value.type = old.shape, old.type
        graph.outputs.append(value)
    for domain, version in original.opset_imports.items():
        graph.opset_imports.setdefault(domain, version)


def _make_constants(graph: ir.Graph, initializers: Container[str] = ()) -> None:
    """Make Constant nodes of the initializers that are no inputs and not among these."""
    for name, value in list(graph.initializers.items()):
        if value.is_graph_input() or value.const_value is None or name in initializers:
            continue
        made = build_tensor(value.const_value)
        output = made.outputs[0]
        output.name, output.shape, output.type = name, value.shape, value.type
        del graph.initializers[name]
        value.replace_all_uses_with(output, replace_graph_outputs=True)
        _prepend(graph, made)


def _restore_shapes(model: ir.Model, original: ir.Model) -> None:
    """Keep what the model said of the types and shapes of its values, and nothing that an optimizer inferred."""
    said = {value.name: value for value in all_values(original.graph)}
    declared = {id(value) for graph in all_graphs(model) for value in (*graph.inputs, *graph.outputs)}
    for value in all_values(model.graph):
        known = said.get(value.name)
        if known is not None:
            value.type, value.shape = known.type, known.shape
        elif id(value) not in declared or value.dtype == ir.DataType.UNDEFINED:
            value.type = value.shape = None
