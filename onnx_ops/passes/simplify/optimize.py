"""Optimization of a whole model by another package. Its floats and some nodes are hidden from the optimizer."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import count

import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.model.io import inline_model, load_externals
from onnx_ops.model.nodes import LARGE_BYTES, constant
from onnx_ops.model.prepare import (
    detach_initializer,
    external_tensors,
    name_left_out_outputs,
    unused_names,
)
from onnx_ops.model.walk import all_values, graphs_outside_functions, rewritable_nodes
from onnx_ops.passes.builders import build_tensor_constant
from onnx_ops.passes.contested_nodes import build_probe, clone_model
from onnx_ops.passes.simplify.hidden_nodes import hide_nodes, show_nodes
from onnx_ops.passes.simplify.optimizers import run_optimizer
from sliceport.errors import ModelError


def optimize(model: ir.Model, name: str) -> tuple[ir.Model, int]:
    """Inline the functions of a model and optimize it. Return the new model, and the number of nodes after inlining.

    The optimizer sees the values of small integers, but only the shapes of floats and large tensors. If it saw floats,
    it would round them differently from the engine that runs the model, or treat small floats as 0. Nodes that engines
    read differently, and nodes that the optimizer would change wrongly, are hidden from it (`hide_nodes`).

    Args:
        model: The model. Only the marks of contested nodes change.
        name: `ONNXSCRIPT` or `ONNXSLIM`.

    Raises:
        ModelError: `run_optimizer` fails, a function cannot be inlined, external data cannot be read, or the optimizer
            changes the list of outputs or makes an invalid model.
        MemoryError, ChildLost: See `run_optimizer`.
    """
    probe = inline_model(build_probe(model))
    # All constants become initializers of the main graph, for `_detach_initializers` and `hide_nodes`.
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(probe)
    _lift_initializers(probe)
    for graph in graphs_outside_functions(probe):
        if graph is not probe.graph:  # OnnxSlim loses initializers that are outputs of a body
            _make_constants(graph)
    name_left_out_outputs(probe)
    node_count = count_nodes(probe)
    # Optimizers rename an output that is listed twice or is an input. So they see only computed outputs, each once.
    computed = {value.name: value for value in probe.graph.outputs if not value.is_graph_input()}
    probe.graph.outputs.clear()
    probe.graph.outputs.extend(computed.values())
    detached = _detach_initializers(probe)
    withheld = hide_nodes(probe, name)
    load_externals(list(external_tensors(probe)))  # serialization loses the folder of the files
    optimized = run_optimizer(name, probe)
    # OnnxSlim adds initializers to bodies, where they would have to be inputs before IR version 4.
    _lift_initializers(optimized)
    _attach_initializers(optimized.graph, detached)
    _restore_interface(optimized.graph, model.graph, computed)
    # Constants become nodes again, because onnxruntime 1.23 infers no shapes from initializers of more than 127 bytes.
    _make_constants(optimized.graph, model.graph.initializers)
    show_nodes(optimized, withheld)
    _restore_shapes(optimized, model)
    # The probe has the metadata of the model, but no functions. StridedSlice is never inlined, so the function of this
    # operator is copied from the model.
    probe.graph = optimized.graph
    functions = {key: function for key, function in model.functions.items() if key[0] == STRIDED_SLICE_DOMAIN}
    probe.functions.update(functions)
    try:
        clone_model(probe)  # fails if the optimized model is not well-formed
    except ModelError as error:
        raise ModelError(f"it makes an invalid model: {error}") from error
    return probe, node_count


def count_nodes(model: ir.Model) -> int:
    """Count the nodes of graphs, subgraphs and functions, except Constants and the body of `ov_ext::StridedSlice`."""
    return sum(node.op_type != "Constant" for node, _ in rewritable_nodes(model))


def _lift_initializers(model: ir.Model) -> None:
    """Move the initializers of bodies to the main graph, except inputs and outputs of a body.

    An initializer gets a new name if another value has its name. onnx-ir's own pass would ignore names in other bodies.
    """
    lifted: list[ir.Value] = []
    taken = {value.name for value in all_values(model.graph)} | model.graph.initializers.keys()
    for body in graphs_outside_functions(model)[1:]:
        for name, value in list(body.initializers.items()):
            if value.is_graph_input() or value.is_graph_output():
                taken.add(name)
            else:
                lifted.append(body.initializers.pop(name))
    for value in lifted:
        candidates = (f"{value.name}_{number}" if number else value.name for number in count())
        value.name = next(name for name in candidates if name not in taken)
        taken.add(value.name)
        model.graph.register_initializer(value)


def _prepend(graph: ir.Graph, node: ir.Node) -> None:
    """Insert a node before all other nodes of a graph."""
    if len(graph):
        graph.insert_before(graph[0], node)
    else:
        graph.append(node)


def _detach_initializers(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    """Turn the initializers of the main graph into inputs, except small integers and booleans that are not external.

    Optimizers need small integers and booleans, which are shapes, axes and indices. They must not see floats, which
    they would round differently from engines. They need not see large or external tensors, which are slow to copy.

    Returns:
        The tensors of the new inputs, by name.
    """
    detached: dict[str, ir.TensorProtocol] = {}
    for value in list(model.graph.initializers.values()):
        tensor = constant(value)
        if tensor is None:
            continue
        is_integer = tensor.dtype.is_integer() or tensor.dtype == ir.DataType.BOOL
        if is_integer and tensor.nbytes <= LARGE_BYTES and not isinstance(tensor, ir.ExternalTensor):
            continue
        detach_initializer(model.graph, value)
        if value.is_graph_output():
            _copy_to_output(model, value)
        detached[value.name or ""] = tensor  # after `_copy_to_output`, which renames the value
    return detached


def _copy_to_output(model: ir.Model, value: ir.Value) -> None:
    """Replace an output that is also an input by an Identity of the input, because optimizers would rename the output.

    The input gets a new name.
    """
    new_name = next(unused_names(model, f"{value.name}_"))
    copy = ir.node("Identity", [value])
    output, name = copy.outputs[0], value.name
    output.shape, output.type = value.shape, value.type
    value.replace_all_uses_with(output, replace_graph_outputs=True)
    copy.replace_input_with(0, value)  # since the line before, the copy reads its own output
    value.name = new_name
    output.name = name
    _prepend(model.graph, copy)


def _attach_initializers(graph: ir.Graph, detached: Mapping[str, ir.TensorProtocol]) -> None:
    """Turn each input in `detached` into an initializer again, or remove it if nothing reads it any more."""
    for value in list(graph.inputs):
        tensor = detached.get(value.name or "")
        if tensor is None:
            continue
        graph.inputs.remove(value)
        if value.uses() or value.is_graph_output():
            value.const_value = tensor
            graph.register_initializer(value)


def _restore_interface(graph: ir.Graph, original: ir.Graph, computed_names: Iterable[str | None]) -> None:
    """Restore the inputs and outputs of the original graph in an optimized graph. Add the operator sets that it lacks.

    `computed_names` lists the outputs that the optimizer saw: each output once, except outputs that are inputs.

    Raises:
        ModelError: The names, number or order of the outputs of `graph` differ from `computed_names`.
    """
    if [value.name for value in graph.outputs] != list(computed_names):
        raise ModelError("it changes the names, number or order of the outputs of the model.")
    values = {value.name: value for value in (*graph.initializers.values(), *graph.inputs)}
    graph.inputs.clear()
    for original_input in original.inputs:
        value = values.get(original_input.name) or ir.Value(name=original_input.name)
        value.shape, value.type = original_input.shape, original_input.type
        graph.inputs.append(value)
        if original_input.const_value is not None:  # before IR version 4, initializers are inputs, too
            value.const_value = original_input.const_value
            graph.register_initializer(value)
    outputs = {value.name: value for value in (*graph.inputs, *graph.outputs)}
    graph.outputs.clear()
    for original_output in original.outputs:
        value = outputs[original_output.name]
        value.shape, value.type = original_output.shape, original_output.type
        graph.outputs.append(value)
    for domain, version in original.opset_imports.items():
        graph.opset_imports.setdefault(domain, version)


def _make_constants(graph: ir.Graph, kept_names: Container[str] = ()) -> None:
    """Turn initializers into Constant nodes, except those that are inputs or named in `kept_names`."""
    for name, value in list(graph.initializers.items()):
        if value.is_graph_input() or value.const_value is None or name in kept_names:
            continue
        node = build_tensor_constant(value.const_value)
        output = node.outputs[0]
        output.name, output.shape, output.type = name, value.shape, value.type
        del graph.initializers[name]
        value.replace_all_uses_with(output, replace_graph_outputs=True)
        _prepend(graph, node)


def _restore_shapes(model: ir.Model, original: ir.Model) -> None:
    """Restore types and shapes of original values, which are found by name. New values lose their types and shapes.

    New inputs and outputs of bodies keep them, unless the type is undefined. A name that stands for several types
    or shapes, such as a name in both branches of an If, counts as new.
    """
    original_values: dict[str | None, ir.Value] = {}
    ambiguous: set[str | None] = set()
    for value in all_values(original.graph):
        same_name = original_values.setdefault(value.name, value)
        if (value.type, value.shape) != (same_name.type, same_name.shape):
            ambiguous.add(value.name)
    declared = {id(value) for graph in graphs_outside_functions(model) for value in (*graph.inputs, *graph.outputs)}
    for value in all_values(model.graph):
        original_value = original_values.get(value.name)
        if original_value is not None and value.name not in ambiguous:
            value.type, value.shape = original_value.type, original_value.shape
        elif id(value) not in declared or value.dtype == ir.DataType.UNDEFINED:
            value.type = value.shape = None
