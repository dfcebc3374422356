"""Optimization of a whole model by onnxscript. The nodes that onnxscript would replace wrongly are hidden from it."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from onnx_ops.model.check import REPLACEABLE_VERSION
from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN, standard_opset
from onnx_ops.model.io import detach_weights, inline_model
from onnx_ops.model.nodes import constant, is_standard
from onnx_ops.model.prepare import name_left_out_outputs
from onnx_ops.model.walk import all_values, graphs_outside_functions, rewritable_nodes
from onnx_ops.passes.analysis import Analysis
from onnx_ops.passes.contested_nodes import clone_model
from onnx_ops.passes.simplify.hidden_nodes import hide_nodes, show_nodes
from sliceport.errors import ModelError, is_out_of_memory, model_error
from sliceport.wording import shorten

_COPYING = ("Cast", "CastLike", "Dropout", "Identity")
"""The operators that the optimizer may replace by a copy of their first input, or remove."""
_MAX_COMPARED = 1024
"""The most elements of two Constants that are compared."""
_NUMBERS_OPSET = 12
"""The first operator set whose Constant has attributes for numbers, such as value_int."""


def optimize(model: ir.Model) -> tuple[ir.Model, int]:
    """Inline the functions of a model and optimize it. Return the new model, and the number of nodes after inlining.

    onnxscript computes nothing from the elements of constants, because engines would round floats differently, and it
    sees only the shapes that this package infers.

    Args:
        model: The model. It is not changed.

    Raises:
        ModelError: onnxscript fails, a function cannot be inlined, or onnxscript changes the list of outputs or makes
            an invalid model of a valid one. In the message, "it" is onnxscript.
        MemoryError, ChildLost: The machine lacks memory, or ended the process that infers shapes.
    """
    optimized = inline_model(clone_model(model))
    name_left_out_outputs(optimized)
    node_count = count_nodes(optimized)
    was_valid = _find_error(optimized) is None
    # The optimizer would rename an output that is listed twice.
    names = [output.name for output in optimized.graph.outputs]
    _set_outputs(optimized.graph, dict.fromkeys(optimized.graph.outputs))
    analysis = Analysis(optimized, folding=True)
    originals = hide_nodes(analysis)
    _declare_inferred(analysis)
    try:
        _run_onnxscript(optimized)
    except Exception as error:  # onnxscript raises errors of many classes
        if is_out_of_memory(error):
            raise MemoryError from error
        reason = shorten(str(error.__cause__ or error)).rstrip(".")
        raise model_error(f"{reason or type(error).__name__}.", error) from error
    show_nodes(originals)
    outputs = {output.name: output for output in optimized.graph.outputs}
    if list(outputs) != list(dict.fromkeys(names)):
        raise ModelError("it changes the names, number or order of the outputs of the model.")
    _set_outputs(optimized.graph, [outputs[name] for name in names])
    for value in optimized.graph.inputs:  # before IR version 4; the optimizer drops those that nothing reads
        if value.const_value is not None and value.name not in optimized.graph.initializers:
            optimized.graph.register_initializer(value)
    _restore_shapes(optimized, model)
    functions = {key: function for key, function in model.functions.items() if key[0] == STRIDED_SLICE_DOMAIN}
    optimized.functions.update(functions)
    error_after = _find_error(optimized) if was_valid else None
    if error_after is not None:
        raise ModelError(f"it makes an invalid model: {error_after}")
    return optimized, node_count


def count_nodes(model: ir.Model) -> int:
    """Count the nodes of graphs, subgraphs and functions, except Constants and the body of `ov_ext::StridedSlice`."""
    return sum(node.op_type != "Constant" for node, _ in rewritable_nodes(model))


def _set_outputs(graph: ir.Graph, outputs: Iterable[ir.Value]) -> None:
    """Replace the list of outputs of a graph."""
    values = list(outputs)
    graph.outputs.clear()
    graph.outputs.extend(values)


def _declare_inferred(analysis: Analysis) -> None:
    """Set the types and shapes of values to the inferred ones. Shapes that are not inferred become open.

    The optimizer relies on the declared shapes, even if these are wrong. Copies get the shapes of their sources.

    Issue for onnxscript: "fold_constants merges the shape of the output of an Identity into the shape of its input. In
    a branch of an If, the shape of the output may hold only if this branch runs, but then the optimizer replaces the
    Shape of the input by a constant for all branches."
    """
    info = analysis.value_info
    for value in all_values(analysis.model.graph):
        if value.const_value is None:
            axes = info.dims.get(value)
            value.type = info.types.get(value, value.type)
            value.shape = None if axes is None else ir.Shape([dims[0] for dims in axes])
    for node in analysis.model.graph.all_nodes():
        if is_standard(node, *_COPYING) and node.inputs and node.inputs[0] is not None and node.outputs:
            node.outputs[0].shape = node.inputs[0].shape


def _run_onnxscript(model: ir.Model) -> None:
    """Run the passes of onnxscript's optimizer that change no bit of a value.

    Left out are its rewrite rules. Some of them round differently, take small floats for 0 or 1, divide an odd axis
    into halves, or write operators of a later operator set; the others remove few nodes.
    """
    from onnxscript import optimizer

    optimizer.fold_constants(model, onnx_shape_inference=False, should_fold=lambda _: False)
    common.RemoveUnusedNodesPass()(model)
    common.CommonSubexpressionEliminationPass(size_limit=_MAX_COMPARED)(model)
    common.NameFixPass()(model)
    if standard_opset(model.opset_imports) < _NUMBERS_OPSET:
        _write_numbers_as_tensors(model)


def _write_numbers_as_tensors(model: ir.Model) -> None:
    """Write the numbers of Constant nodes as tensors, the only form in old operator sets."""
    # `constant` returns None for strings. A Constant with strings stays as it was given.
    for node in model.graph.all_nodes():
        if is_standard(node, "Constant") and "value" not in node.attributes:
            tensor = constant(node.outputs[0])
            if tensor is not None:
                node.attributes.clear()
                node.attributes["value"] = ir.AttrTensor("value", tensor)


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


def _find_error(model: ir.Model) -> str | None:
    """Return the message of onnx's checker, or None if the model is valid.

    Raises:
        ModelError: The model is not well-formed.
    """
    copy = clone_model(model)
    detach_weights(copy)
    # For older IR versions, the checker requires each initializer to be an input.
    copy.ir_version = max(copy.ir_version, REPLACEABLE_VERSION)
    try:
        onnx.checker.check_model(ir.serde.serialize_model(copy))
    except Exception as error:
        return str(error)
    return None
