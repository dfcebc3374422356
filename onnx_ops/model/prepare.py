"""Changes that prepare onnx-ir models for reading: functions inlined, left-out outputs named, weights detached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import onnx_ir as ir

from onnx_ops.model.nodes import is_slicing
from onnx_ops.model.walk import all_values, model_graphs, model_nodes
from sliceport.errors import model_error


def name_left_out_outputs(model: ir.Model) -> list[ir.Value]:
    """Give names to the left-out outputs of slicing nodes, and return these outputs.

    Left-out outputs of a Split count as parts. But onnx-ir does not write left-out outputs at the end of the list, and
    onnxruntime's CPU provider crashes on any left-out output.
    """
    slicing_nodes = filter(is_slicing, model_nodes(model))
    left_out = [output for node in slicing_nodes for output in node.outputs if not output.name]
    if left_out:
        for output, name in zip(left_out, unused_names(model, "left_out_"), strict=False):
            output.name = name
    return left_out


def unused_names(model: ir.Model, prefix: str) -> Iterator[str]:
    """Return an endless iterator over names that no value has at the time of this call: the prefix and a number."""
    used = {value.name for graph in model_graphs(model) for value in (*graph.inputs, *graph.initializers.values())}
    used.update(value.name for function in model.functions.values() for value in function.inputs)
    for node in model_nodes(model):
        used.update(value.name for value in (*node.inputs, *node.outputs) if value is not None)
    return (name for number in count() if (name := f"{prefix}{number}") not in used)


def detach_initializer(graph: ir.Graph, value: ir.Value) -> None:
    """Turn an initializer with data into an input of the same type and shape."""
    tensor = value.const_value
    assert tensor is not None
    value.shape, value.dtype = tensor.shape, tensor.dtype  # type: ignore[assignment]
    del graph.initializers[value.name or ""]
    value.const_value = None
    if not value.is_graph_input():
        graph.inputs.append(value)


TensorAndSetter = tuple[ir.ExternalTensor, Callable[[ir.TensorProtocol], None]]
"""An external tensor of a model, and a function that puts another tensor in its place."""


def external_tensors(model: ir.Model) -> Iterator[TensorAndSetter]:
    """Yield the external tensors of a model, each with a function that puts another tensor in its place."""
    yield from external_initializers(model_graphs(model))
    yield from external_attributes(model)


def external_initializers(graphs: Iterable[ir.Graph]) -> Iterator[TensorAndSetter]:
    """Yield the external initializers of graphs, each with a function that puts another tensor in its place."""
    for graph in graphs:
        for value in graph.initializers.data.values():  # a dict; the UserDict around it is slower
            if isinstance(value.const_value, ir.ExternalTensor):
                yield value.const_value, partial(setattr, value, "const_value")


def external_attributes(model: ir.Model) -> Iterator[TensorAndSetter]:
    """Yield the external tensors in attributes of nodes and in default attributes of functions, with their setters."""
    by_node = [node.attributes for node in model_nodes(model)]
    for attributes in (*by_node, *(function.attributes for function in model.functions.values())):
        for name, attribute in attributes.data.items():
            if attribute.type in (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS) and not attribute.is_ref():
                tensors = [attribute.value] if attribute.type == ir.AttributeType.TENSOR else list(attribute.value)
                for i, tensor in enumerate(tensors):
                    if isinstance(tensor, ir.ExternalTensor):
                        yield tensor, partial(_set_tensor, attributes, name, i)


def _set_tensor(attributes: Any, name: str, index: int, tensor: ir.TensorProtocol) -> None:
    """Replace the tensor of an attribute, or the one at `index` in its list of tensors."""
    if attributes[name].type == ir.AttributeType.TENSOR:
        attributes[name] = ir.AttrTensor(name, tensor)
    else:
        tensors = list(attributes[name].value)
        tensors[index] = tensor
        attributes[name] = ir.AttrTensors(name, tensors)


def load_external(tensor: ir.ExternalTensor) -> ir.Tensor[Any]:
    """Return a copy of a tensor in memory, and close its file if it was opened here.

    Raises:
        ModelError: The file cannot be read.
    """
    was_open = tensor.raw is not None
    try:
        return ir.Tensor(
            tensor.numpy().copy(),
            dtype=tensor.dtype,
            name=tensor.name,
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props),
        )
    except Exception as error:  # onnx-ir has several classes of errors for unreadable files
        raise model_error(f"the data of tensor {tensor.name!r} cannot be read ({error}).", error) from error
    finally:
        if not was_open:
            release(tensor)


def release(tensor: ir.ExternalTensor) -> None:
    """Close the file of a tensor, unless a view of its data is still in use."""
    with suppress(BufferError):
        tensor.release()


def open_negative_sizes(model: ir.Model) -> None:
    """Make sizes below 0 open, because some exporters write open sizes as -1. Functions stay as they are."""
    for value in all_values(model.graph):
        if value.shape is not None and any(isinstance(dim, int) and dim < 0 for dim in value.shape):
            value.shape = ir.Shape([None if isinstance(dim, int) and dim < 0 else dim for dim in value.shape])
