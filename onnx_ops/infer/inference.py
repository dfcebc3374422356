"""Inference of the types, shapes and constants of a model's values.

`propagate` does the work in a child of the sandbox. It calls onnx's inference for single nodes, which aborts on some
malformed nodes.
"""

from __future__ import annotations

import logging
from types import MappingProxyType
from typing import Any

from onnx_ops.infer.facts import NO_FACTS, Facts
from onnx_ops.infer.propagate import propagate
from onnx_ops.model.nodes import node_name
from onnx_ops.model.proto_model import ProtoModel
from sliceport.engines.sizes import InputShapes
from sliceport.errors import UsageError, is_out_of_memory
from sliceport.sandbox import progress, supervisor
from sliceport.sandbox.child import is_expendable
from sliceport.sandbox.child_process import ChildDied, ChildLost

logger = logging.getLogger(__name__)


def infer(model: ProtoModel, bound_shapes: InputShapes = MappingProxyType({})) -> dict[Any, Facts]:
    """Return the facts of all graph inputs and node outputs, by value. Values without facts are omitted.

    The result is empty if the model cannot be serialised, or if its graphs are nested too deep.

    Args:
        model: The model. The facts are not stored in it, and large tensors in other files are not read.
        bound_shapes: The shapes that the user has given for inputs and outputs of nodes; see `bind_shapes`.
    """
    try:
        serialized, values = model.serialize()
    except Exception as error:  # the model is too large, or has something that a file cannot hold
        logger.debug("shape inference is left out: %s", error)
        return {}
    try:
        facts_in_order = _propagate(serialized, dict(bound_shapes))
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryError from error
        # RecursionError and DecodeError mean that graphs are nested too deep. DecodeError is compared by name, to avoid
        # an import of protobuf.
        if not isinstance(error, RecursionError) and type(error).__name__ != "DecodeError":
            raise
        return {}
    pairs = zip(values, facts_in_order, strict=True)
    return {value: facts for value, facts in pairs if facts.element or facts.dims is not None or facts.non_tensor_type}


def infer_shapes(model: ProtoModel, bound_shapes: InputShapes = MappingProxyType({})) -> dict[Any, Facts]:
    """Set the inferred types and sizes of values. Types and sizes that are not inferred stay as they are declared.

    Large and unreadable initializers of the main graph become graph inputs, and small ones in other files are loaded.

    Returns:
        The result of `infer`. See there for `bound_shapes`.

    Raises:
        UsageError: A shape that the user gives for a node's output differs from the inferred one. Then no types or
            sizes are set, but initializers have been replaced and loaded.
    """
    model.detach_weights()
    facts_by_value = infer(model, bound_shapes)
    for node in model.graph:
        for output in node.outputs:
            dims, bound_shape = facts_by_value.get(output, NO_FACTS).dims, bound_shapes.get(output.name or "")
            if dims is not None and bound_shape is not None and dims != tuple(bound_shape):
                raise UsageError(
                    f"{output.name!r} is the output of {node.op_type} {node_name(node)!r}, whose shape is "
                    f"{list(dims)} for these inputs, not {list(bound_shape)} as given: leave out {output.name!r}, or "
                    "change the shapes of the inputs."
                )
    for value, facts in facts_by_value.items():
        value.set_type(facts.element, facts.dims)
    return facts_by_value


def _propagate(model: bytes, bound_shapes: InputShapes) -> list[Facts]:
    """Run `propagate` in a child of the sandbox, or in this process if this process is a child that may crash.

    If the child dies, or memory runs out, this process applies only the rules of this package. If graphs are nested too
    deep, raise a RecursionError.
    """
    try:
        if is_expendable():
            return propagate(model, bound_shapes)
        facts: list[Facts] = supervisor.call(propagate, model, bound_shapes)
        return facts
    except ChildLost as error:  # the machine caused this, not the model
        progress.announce(f"shapes are inferred without onnx, because the process for onnx's inference {error}.")
    except (ChildDied, MemoryError) as error:
        logger.debug("shape inference is repeated without onnx: %r", error)
    return propagate(model, bound_shapes, uses_onnx=False)
