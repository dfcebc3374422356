"""Raising the operator set of a model by onnx's version converter."""

from __future__ import annotations

from itertools import chain

import onnx
import onnx_ir as ir

from onnx_ops.model.domains import standard_opset
from onnx_ops.model.walk import graphs_in
from sliceport.errors import ModelError
from sliceport.sandbox import supervisor
from sliceport.sandbox.child import is_expendable
from sliceport.wording import shorten


def raise_opset(model: ir.Model, version: int) -> ir.Model:
    """Return a copy of a model of a lower operator set, converted to `version`.

    The copy shares the weights that are external data. It has the metadata of the model, which onnx's converter drops.

    Raises:
        ModelError: The model has functions, which onnx's converter drops; or the converter fails.
    """
    if model.functions:
        raise ModelError("onnx's version converter drops functions, and the model has some.")
    try:
        raised = ir.from_proto(
            onnx.load_model_from_string(_convert_apart(ir.to_proto(model).SerializeToString(), version))
        )
    except (supervisor.ChildLost, supervisor.ChildDied) as error:
        raise ModelError(f"the process of onnx's version converter {error}.") from error
    except Exception as error:  # onnx's converter and protobuf have several classes of errors
        raise ModelError(f"onnx's version converter fails ({shorten(str(error))}).") from error
    if standard_opset(raised.opset_imports) != version:
        raise ModelError("onnx's version converter leaves the operator set as it is.")
    _copy_annotations(model.graph, raised.graph)
    return raised


def _convert_apart(model: bytes, version: int) -> bytes:
    """Run `convert` in a child of the sandbox, which may be this process, because onnx's converter may crash."""
    if is_expendable():
        return convert(model, version)
    converted: bytes = supervisor.call(convert, model, version)
    return converted


def convert(model: bytes, version: int) -> bytes:
    """Convert a serialized model to a version of the standard operator set."""
    from onnx import version_converter  # only needed here

    converted = version_converter.convert_version(onnx.load_model_from_string(model), version)
    serialized: bytes = converted.SerializeToString()
    return serialized


def _copy_annotations(before: ir.Graph, after: ir.Graph) -> None:
    """Copy the metadata, the doc strings, the quantization annotations and the external tensors of a graph."""
    after.metadata_props.update(before.metadata_props)
    for name, value in after.initializers.items():
        original = before.initializers.get(name)
        if original is not None and isinstance(original.const_value, ir.ExternalTensor):
            value.const_value = original.const_value  # one that onnx-ir reads from a proto has lost its folder
    values = {value.name: value for value in chain(before.inputs, *(node.outputs for node in before))}
    for value in chain(after.inputs, *(node.outputs for node in after)):
        original = values.get(value.name)
        if original is None:
            continue
        value.metadata_props.update(original.metadata_props)
        value.meta.update(original.meta)
        value.doc_string = original.doc_string or value.doc_string
        old, new = original.producer(), value.producer()
        if old is not None and new is not None and value is new.outputs[0]:
            new.metadata_props.update(old.metadata_props)
            for graph, twin in zip(graphs_in(old), graphs_in(new), strict=False):
                _copy_annotations(graph, twin)
