"""Preparing onnx-ir models: functions inlined, left out outputs named, weights detached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_ops.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.facts import LARGE_BYTES
from onnx_ops.nodes import MISSING, is_slicing
from onnx_ops.traversal import all_graphs, all_nodes, model_nodes
from sliceport.errors import ModelError

_MAX_INLINED = 10**6


def inline_functions(model: ir.Model) -> None:
    """Put the bodies of the model's functions where they are called.

    Raises:
        ModelError: A function cannot be inlined (it calls itself, or imports another operator set version).
    """
    model.functions.pop((STRIDED_SLICE_DOMAIN, "StridedSlice", ""), None)  # known by what it means
    if not model.functions:
        return
    if _count_inlined(model) > _MAX_INLINED:
        raise ModelError(f"its functions call each other so often that it would have more than {_MAX_INLINED} nodes.")
    try:
        InlinePass()(model)
    except Exception as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise ModelError(f"a function of the model cannot be inlined ({reason}).") from error


def _count_inlined(model: ir.Model) -> int:
    """How many nodes there would be without functions; nodes of functions that call themselves count once."""
    counts: dict[ir.OperatorIdentifier, int] = {}

    def count_of(nodes: Iterable[ir.Node]) -> int:
        return sum(count_function(node.op_identifier()) for node in nodes)

    def count_function(key: ir.OperatorIdentifier) -> int:
        if key not in model.functions:
            return 1
        if key not in counts:
            counts[key] = 1
            counts[key] = count_of(all_nodes(model.functions[key]))
        return counts[key]

    return count_of(all_nodes(model.graph))


def name_left_out_outputs(model: ir.Model) -> None:
    """Give names to the outputs that a Split leaves out.

    They count as parts; onnx-ir does not write trailing ones, and onnxruntime's CPU provider crashes on any.
    """
    nodes = list(model_nodes(model))
    left_out = [output for node in nodes if is_slicing(node) for output in node.outputs if not output.name]
    if not left_out:
        return
    names = {value.name for value in all_values(model)} | {name for g in all_graphs(model) for name in g.initializers}
    names |= {value.name for node in nodes for value in (*node.inputs, *node.outputs) if value is not None}
    numbers = count()
    for output in left_out:
        output.name = next(name for n in numbers if (name := f"left_out_{n}") not in names)


def detach_large_initializers(model: ir.Model) -> None:
    """Make inputs of the main graph's large or missing constants: only their shapes matter from here on."""
    for name, value in list(model.graph.initializers.items()):
        tensor = value.const_value
        if tensor is None:
            continue
        if tensor.nbytes <= LARGE_BYTES:
            if not isinstance(tensor, ir.ExternalTensor):
                continue
            try:
                value.const_value = load_external(tensor)
                continue
            except Exception as error:
                value.meta[MISSING] = str(error)
        value.shape, value.dtype = tensor.shape, tensor.dtype  # type: ignore[assignment]
        del model.graph.initializers[name]
        value.const_value = None
        if not value.is_graph_input():
            model.graph.inputs.append(value)


def load_external(tensor: ir.ExternalTensor) -> ir.Tensor[Any]:
    """A tensor in memory; its file is not left open.

    Raises:
        Exception: The file cannot be read; onnx-ir has several classes of errors for it.
    """
    try:
        return ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=tensor.name)
    finally:
        tensor.release()


def open_negative_sizes(model: ir.Model) -> bool:
    """Make sizes below 0, which some exporters write for an open one, open; whether there were any."""
    changed = False
    for value in all_values(model):
        if value.shape is not None and any(isinstance(dim, int) and dim < 0 for dim in value.shape):
            value.shape = ir.Shape([None if isinstance(dim, int) and dim < 0 else dim for dim in value.shape])
            changed = True
    return changed


def all_values(model: ir.Model) -> Iterator[ir.Value]:
    """Every graph input and node output of the model, its control flow bodies included."""
    for graph in all_graphs(model):
        yield from graph.inputs
        for node in graph:
            yield from node.outputs
