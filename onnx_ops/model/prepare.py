"""Changes that prepare onnx-ir models for reading: functions inlined, left-out outputs named, weights detached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from threading import Lock
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, inliner

from onnx_ops.model.domains import STRIDED_SLICE_DOMAIN
from onnx_ops.model.nodes import LARGE_BYTES, MISSING, is_slicing
from onnx_ops.model.views import sizes_of_shape
from onnx_ops.model.walk import all_nodes, all_values, graphs_outside_functions, model_graphs, model_nodes
from sliceport.errors import ModelError, model_error
from sliceport.wording import shorten

_inliner_lock = Lock()  # `_linear_naming` replaces functions of onnx-ir for all threads


def inline_functions(model: ir.Model) -> None:
    """Replace each call of a function by the function's body, and remove the functions.

    A node of `ov_ext::StridedSlice` stays, because it is read as an operator.

    Raises:
        ModelError: A function cannot be inlined (say, it calls itself or imports another opset version than the model).
    """
    model.functions.pop((STRIDED_SLICE_DOMAIN, "StridedSlice", ""), None)
    _remove_unused_functions(model)  # InlinePass would inline, or refuse, unused functions, too
    for function in model.functions.values():
        for value in all_values(function):
            # Drop symbols: the same name may stand for another size in another call, and in the main graph.
            if value.shape is not None:
                value.shape = ir.Shape(sizes_of_shape(value.shape))
    if not model.functions:
        return
    try:
        with _inliner_lock, _linear_naming(model):
            InlinePass()(model)
    except Exception as error:
        reason = shorten(str(error.__cause__ or error))
        raise model_error(f"a function of the model cannot be inlined ({reason}).", error) from error


def _remove_unused_functions(model: ir.Model) -> None:
    """Remove the functions that the model does not call. onnx-ir's pass may fail, because it recurses."""
    used = {}
    holders: list[ir.Graph | ir.Function] = [model.graph]
    for holder in holders:  # the list grows during the loop, by each function that is called
        for node in all_nodes(holder):
            key = node.op_identifier()
            if key in model.functions and key not in used:
                used[key] = model.functions[key]
                holders.append(used[key])
    for key in model.functions.keys() - used.keys():
        del model.functions[key]


@contextmanager
def _linear_naming(model: ir.Model) -> Iterator[None]:
    """Make onnx-ir's inliner find unique names in linear time inside the context.

    Two functions of the inliner take quadratic time, so they are replaced. One of them tries all numbers from 2 on for
    each name. The other one compares every pair of functions to abbreviate their names, but no name in the model
    depends on the abbreviations.

    The new names avoid the names of all values in subgraphs of the main graph. The inliner itself avoids only names
    that it has already seen, and it names the values of an inlined call before it reads the subgraphs that follow.
    """
    bodies = [graph for graph in graphs_outside_functions(model) if graph is not model.graph]
    body_names = {value.name for graph in bodies for value in (*graph.inputs, *graph.initializers.values())}
    body_names |= {output.name for graph in bodies for node in graph for output in node.outputs}
    # The keys are (`id` of a set of used names, name). The inliner has a set for values and a set for nodes.
    numbers: dict[tuple[int, str], Iterator[int]] = defaultdict(lambda: count(2))

    def make_unique(name: str, _call_stack: object, used: set[str]) -> str:
        candidate = name
        while candidate in used or candidate in body_names:
            candidate = f"{name}_{next(numbers[id(used), name])}"
        used.add(candidate)
        return candidate

    module = vars(inliner)
    # The keys are identifiers of functions: (domain, name, overload).
    replacements = {"_make_unique_name": make_unique, "_abbreviate": lambda keys: {key: key[1] for key in keys}}
    originals = {name: module[name] for name in replacements}
    module.update(replacements)
    try:
        yield
    finally:
        module.update(originals)


def name_left_out_outputs(model: ir.Model) -> bool:
    """Give names to the left-out outputs of slicing nodes. Return whether there were any.

    Left-out outputs of a Split count as parts. But onnx-ir does not write left-out outputs at the end of the list, and
    onnxruntime's CPU provider crashes on any left-out output.
    """
    slicing_nodes = filter(is_slicing, model_nodes(model))
    left_out = [output for node in slicing_nodes for output in node.outputs if not output.name]
    if left_out:
        for output, name in zip(left_out, unused_names(model, "left_out_"), strict=False):
            output.name = name
    return bool(left_out)


def unused_names(model: ir.Model, prefix: str) -> Iterator[str]:
    """Return an endless iterator over names that no value has at the time of this call: the prefix and a number."""
    used = {value.name for graph in model_graphs(model) for value in (*graph.inputs, *graph.initializers.values())}
    used.update(value.name for function in model.functions.values() for value in function.inputs)
    for node in model_nodes(model):
        used.update(value.name for value in (*node.inputs, *node.outputs) if value is not None)
    return (name for number in count() if (name := f"{prefix}{number}") not in used)


def detach_weights(model: ir.Model) -> None:
    """Load small external initializers of the main graph. Turn large or unreadable initializers into inputs."""
    for value in list(model.graph.initializers.data.values()):
        tensor = value.const_value
        if tensor is None:
            continue
        is_kept = tensor.nbytes <= LARGE_BYTES
        if is_kept and isinstance(tensor, ir.ExternalTensor):
            try:
                value.const_value = load_external(tensor)
            except ModelError as error:
                is_kept = False
                value.meta[MISSING] = str(error.__cause__)  # the message of `error` has more than the reason
        if not is_kept:
            detach_initializer(model.graph, value)


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
