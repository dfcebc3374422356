"""Preparing onnx-ir models: functions inlined, left out outputs named, weights detached."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.model.nodes import LARGE_BYTES, MISSING, is_slicing
from onnx_ops.model.walk import all_nodes, all_values, model_graphs, model_nodes
from sliceport.errors import ModelError
from sliceport.wording import shorten

_Calls = dict[ir.OperatorIdentifier | None, Counter[ir.OperatorIdentifier]]
"""By function, and None for the main graph, how often it calls which."""


def inline_functions(model: ir.Model) -> None:
    """Put the bodies of the model's functions where they are called; those that nothing calls are left out.

    Raises:
        ModelError: A function cannot be inlined (it calls itself, or imports another operator set version), or there
            are too many calls.
    """
    model.functions.pop((STRIDED_SLICE_DOMAIN, "StridedSlice", ""), None)  # known by what it means
    if not model.functions:
        return
    calls = _find_calls(model)
    for key in model.functions.keys() - calls.keys():
        del model.functions[key]
    if not model.functions:
        return
    try:
        InlinePass()(model)
    except Exception as error:
        reason = shorten(str(error.__cause__ or error))
        raise ModelError(f"a function of the model cannot be inlined ({reason}).") from error


def _find_calls(model: ir.Model) -> _Calls:
    """The calls in the main graph, and in each function that it calls, be it through others."""
    calls: _Calls = {}
    waiting: list[ir.OperatorIdentifier | None] = [None]
    while waiting:
        key = waiting.pop()
        if key not in calls:
            called = map(ir.Node.op_identifier, all_nodes(model.graph if key is None else model.functions[key]))
            calls[key] = Counter(each for each in called if each in model.functions)
            waiting += calls[key]
    return calls


def name_left_out_outputs(model: ir.Model) -> None:
    """Give names to the outputs that a Split leaves out.

    They count as parts; onnx-ir does not write trailing ones, and onnxruntime's CPU provider crashes on any.
    """
    nodes = list(model_nodes(model))
    left_out = [output for node in nodes if is_slicing(node) for output in node.outputs if not output.name]
    if not left_out:
        return
    names = {value.name for node in nodes for value in (*node.inputs, *node.outputs) if value is not None}
    names.update(value.name for function in model.functions.values() for value in function.inputs)
    for graph in model_graphs(model):
        names.update(value.name for value in graph.inputs)
        names.update(graph.initializers)
    numbers = count()
    for output in left_out:
        output.name = next(name for n in numbers if (name := f"left_out_{n}") not in names)


def detach_large_initializers(model: ir.Model) -> None:
    """Make inputs of the main graph's large or missing constants: only their shapes matter from here on."""
    for name, value in list(model.graph.initializers.data.items()):
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
    """A tensor in memory; its file is not left open, unless somebody looks at it elsewhere.

    Raises:
        Exception: The file cannot be read; onnx-ir has several classes of errors for it.
    """
    try:
        return ir.Tensor(
            tensor.numpy().copy(),
            dtype=tensor.dtype,
            name=tensor.name,
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props),
        )
    finally:
        release(tensor)


def release(tensor: ir.ExternalTensor) -> None:
    """Close the file of a tensor, unless somebody still looks at it."""
    with suppress(BufferError):
        tensor.release()


def open_negative_sizes(model: ir.Model) -> bool:
    """Make sizes below 0, which some exporters write for an open one, open; whether there were any."""
    changed = False
    for value in all_values(model.graph):
        if value.shape is not None and any(isinstance(dim, int) and dim < 0 for dim in value.shape):
            value.shape = ir.Shape([None if isinstance(dim, int) and dim < 0 else dim for dim in value.shape])
            changed = True
    return changed
