"""The conversion of a model to a later operator set by onnx's version converter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import onnx
import onnx_ir as ir

from onnx_ops.model.defaults import without_defaults
from onnx_ops.model.domains import standard_opset
from onnx_ops.model.nodes import (
    MAX_AXES,
    is_standard,
    is_valid_operator,
    node_name,
    read_elements,
    read_int,
    read_string,
    sizes_of,
)
from onnx_ops.model.read import to_bytes
from onnx_ops.model.walk import graphs_in, model_nodes
from sliceport.errors import DynamicSlice, InvalidSlice, ModelError, model_error
from sliceport.sandbox import supervisor
from sliceport.sandbox.child import is_expendable
from sliceport.sandbox.child_process import ChildDied, ChildLost
from sliceport.wording import shorten

_ASYMMETRIC_RESIZE = 10
"""The last operator set whose Resize maps coordinates as `asymmetric` does; 11 has another default."""
_BATCHED_SCAN = 8
"""The only operator set whose Scan has a batch axis and lengths of sequences."""
_MASK_OF_ZEROS = 11
"""The last operator set whose Dropout has a mask of zeros on onnxruntime; from 12 on, ones mark what is kept."""
_FLATTENING_SOFTMAX = 12
"""The last operator set whose Softmax and Hardmax work on all axes from `axis` on; from 13 on, on `axis` alone."""


def raise_opset(model: ir.Model, version: int) -> ir.Model:
    """Return a copy of a model, converted from a lower operator set to `version`.

    The copy shares the tensors of the model. It also gets the model's metadata, denotations, quantization annotations
    and doc strings, because onnx's converter drops most of them.

    Raises:
        ModelError: The model has functions, which onnx's converter drops; a node might compute something else, or fail
            at size 0, after the conversion; a node has an invalid attribute; or the converter fails.
        ChildLost: The machine ended the process of the converter.
    """
    if model.functions:
        raise ModelError("onnx's version converter drops functions, and the model has some.")
    opset = standard_opset(model.opset_imports)
    try:
        with without_defaults(model):
            unconvertible = next((node for node in model_nodes(model) if _changes_meaning(node, opset)), None)
            softmaxes = [node for node in model_nodes(model) if _may_be_flattened(node, opset)]
            softmax_outputs = {output.name for node in softmaxes for output in node.outputs}
    except (InvalidSlice, DynamicSlice, TypeError) as error:
        raise ModelError(f"a node has an invalid attribute ({error}).") from None
    if unconvertible is not None:
        name = f"{unconvertible.op_type} {node_name(unconvertible)!r}"
        raise ModelError(
            f"{name} means something else in later operator sets, and onnx's version converter does not adapt it."
        )
    try:
        serialized = to_bytes(ir.to_proto(model), "the model")
        raised = ir.from_proto(onnx.load_model_from_string(_convert_apart(serialized, version)))
    except ChildLost:  # the machine's fault, not the model's
        raise
    except ChildDied as error:
        raise ModelError(f"the process of onnx's version converter {error}.") from error
    except Exception as error:  # onnx's converter and protobuf have several classes of errors
        raise model_error(f"onnx's version converter fails ({shorten(str(error))}).", error) from error
    if standard_opset(raised.opset_imports) != version:
        raise ModelError("onnx's version converter leaves the operator set as it is.")
    for node in model_nodes(raised):
        # A Reshape that the converter adds after a Softmax takes over the name of the Softmax's output.
        output_name = node.outputs[0].name if node.outputs else None
        if output_name in softmax_outputs and _may_lose_size_0(node):
            raise ModelError(
                f"onnx's version converter adds a Reshape to the Softmax of {output_name!r}, which may fail at size 0."
            )
    _copy_annotations(model.graph, raised.graph)
    return raised


def _changes_meaning(node: ir.Node, opset: int) -> bool:
    """Return whether a node may compute something else after its conversion by onnx's version converter."""
    if is_standard(node, "Hardmax"):
        # The converter leaves a Hardmax as it is, which is right only on the last axis. Only -1 surely names that axis.
        return opset <= _FLATTENING_SOFTMAX and read_int(node, "axis", 1) != -1
    if is_standard(node, "Scan"):
        return opset <= _BATCHED_SCAN
    if is_standard(node, "Dropout"):
        return opset <= _MASK_OF_ZEROS and any(output.name for output in node.outputs[1:])
    return is_standard(node, "Upsample", "Resize") and opset <= _ASYMMETRIC_RESIZE and not _repeats_elements(node)


def _may_be_flattened(node: ir.Node, opset: int) -> bool:
    """Return whether a node is a Softmax whose data the converter may flatten: `axis` may be before the last axis."""
    is_softmax = opset <= _FLATTENING_SOFTMAX and is_standard(node, "Softmax", "LogSoftmax")
    return is_softmax and read_int(node, "axis", 1) != -1  # as the rank may be unknown, only -1 is surely the last


def _may_lose_size_0(node: ir.Node) -> bool:
    """Return whether a node is a Reshape that the converter added, and may change a size of 0.

    The converter flattens the data of a Softmax into a matrix, and restores the sizes by this Reshape. A 0 in the shape
    of the Reshape copies the size of the matrix at the same index. That size may not be 0, or may not exist.
    """
    # The caller finds nodes by the name of an output. Another graph may repeat the name, so the node may be any node.
    if not is_valid_operator(node, "Reshape") or node.inputs[0] is None:
        return False
    softmax = node.inputs[0].producer()
    if not is_valid_operator(softmax, "Softmax", "LogSoftmax") or softmax.inputs[0] is None:
        return False
    flatten = softmax.inputs[0].producer()
    if not is_valid_operator(flatten, "Flatten"):
        return False
    axis, data = read_int(flatten, "axis", 1), flatten.inputs[0]
    sizes = None if data is None else sizes_of(data)
    if sizes is None:
        return True
    # The matrix has two sizes: the product of the sizes before `axis`, which the converter counts from the front, and
    # the product of the other sizes. So a 0 at index 0 is kept if it is a factor of the first product, and a 0 at
    # index 1 if it is a factor of the second one. At any other index, the matrix has no size to copy.
    kept_indices = ({0} if axis > 0 else set()) | ({1} if axis <= 1 else set())
    may_be_0 = {index for index, size in enumerate(sizes) if not size}  # an open size may be 0
    return not may_be_0 <= kept_indices


def _repeats_elements(node: ir.Node) -> bool:
    """Return whether an Upsample or a Resize certainly repeats each element a whole number of times.

    If so, the coordinates of opset 10, which are rounded down, agree with the default coordinates of later opsets.
    """
    if "mode" in node.attributes and read_string(node, "mode") != "nearest":
        return False
    if "scales" in node.attributes:
        return all(scale >= 1 and scale.is_integer() for scale in node.attributes["scales"].as_floats())
    value = node.inputs[1] if len(node.inputs) > 1 else None
    scales = None if value is None else read_elements(value, MAX_AXES)
    return scales is not None and all(float(scale) >= 1 and float(scale).is_integer() for scale in scales)


def _convert_apart(model: bytes, version: int) -> bytes:
    """Run `convert`, which may crash, in a child of the sandbox, or here if this process is an expendable child."""
    if is_expendable():
        return convert(model, version)
    converted: bytes = supervisor.call(convert, model, version)
    return converted


def convert(model: bytes, version: int) -> bytes:
    """Convert a serialized model. Raise a TypeError if only the converted model fails onnx's strict inference."""
    from onnx import version_converter  # only needed here

    proto = onnx.load_model_from_string(model)
    converted = version_converter.convert_version(proto, version)
    # The converter writes the bounds of a Clip and the value of a Pad as 32-bit floats, even if the data are not.
    if _passes_strict_inference(proto) and not _passes_strict_inference(converted):
        raise TypeError("the converted model fails onnx's strict inference")
    serialized: bytes = converted.SerializeToString()
    return serialized


def _passes_strict_inference(model: onnx.ModelProto) -> bool:
    """Return whether onnx infers the types and shapes of a model without an error."""
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def _copy_annotations(before: ir.Graph, after: ir.Graph) -> None:
    """Copy what the converter drops (see `raise_opset`) from a graph to the converted graph, and share the tensors.

    Subgraphs are included. Values correspond if they have the same name. A node in `after` corresponds to the node in
    `before` that has an output of the same name as its first output, not counting outputs that are left out.
    """
    after.metadata_props.update(before.metadata_props)
    values = {value.name: value for value in _list_values(before)}
    for value in _list_values(after):
        original = values.get(value.name) if value.name else None  # an output that is left out has no name
        if original is None:
            continue
        value.metadata_props.update(original.metadata_props)
        value.meta.update(original.meta)  # onnx-ir keeps the quantization annotation there
        value.doc_string = original.doc_string or value.doc_string
        if original.const_value is not None:
            # The original tensor has metadata and, if its data are external, the folder of its file.
            value.const_value = original.const_value
        if original.type is not None and value.type is not None:
            value.type.denotation = original.type.denotation
        if original.shape is not None and value.shape is not None:
            for axis in range(min(len(original.shape), len(value.shape))):
                value.shape.set_denotation(axis, original.shape.get_denotation(axis))
        old, new = original.producer(), value.producer()
        if old is not None and new is not None and value is next(output for output in new.outputs if output.name):
            new.metadata_props.update(old.metadata_props)
            originals = {a.name: a for a in old.attributes.values() if a.type == ir.AttributeType.TENSOR}
            new.attributes.update({name: originals[name] for name in originals.keys() & new.attributes.keys()})
            # Not strict: a graph without a counterpart only loses its annotations.
            for old_graph, new_graph in zip(graphs_in(old), graphs_in(new), strict=False):
                _copy_annotations(old_graph, new_graph)


def _list_values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Return the inputs and initializers of a graph, and the values that its nodes compute."""
    return chain(graph.inputs, graph.initializers.values(), *(node.outputs for node in graph))
