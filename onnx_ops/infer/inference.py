"""Shapes, types and constants of a model's values.

`propagate` does the work. It asks onnx about single nodes, and onnx's inference aborts on some malformed ones: the work
is therefore done in a child of the sandbox.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from onnx_ops.infer.propagate import propagate
from onnx_ops.model.facts import NOTHING_FOUND, Found
from onnx_ops.model.views import all_values
from sliceport import progress
from sliceport.sandbox import supervisor
from sliceport.sandbox.child import is_expendable

if TYPE_CHECKING:
    import onnx_ir as ir

logger = logging.getLogger(__name__)


def infer(model: ir.Model) -> dict[ir.Value, Found]:
    """What is known of the graph inputs and node outputs of a model's graphs, where something is.

    Args:
        model: The model; it is not changed. Tensors in other files are not read.
    """
    import onnx_ir as ir

    values = [value for value in all_values(model.graph) if not _is_unwritten(value)]
    return infer_values(values, lambda: ir.serde.serialize_model(model).SerializeToString())


def _is_unwritten(value: Any) -> bool:
    """Whether its node leaves out a value and all that would follow it: onnx-ir does not write these."""
    producer = None if value.name else value.producer()
    return producer is not None and not any(output.name for output in producer.outputs[value.index() :])


def infer_values(values: Iterable[Any], serialize: Callable[[], bytes]) -> dict[Any, Found]:
    """What is known of the values of a model, where something is.

    Args:
        values: What `propagate` reports of, in its order.
        serialize: Gives the model as a file has it.
    """
    try:
        serialized = serialize()
    except Exception as error:  # too large, or something that a file cannot hold
        logger.debug("shape inference is left out: %s", error)
        return {}
    found = _propagate(serialized)
    values = list(values)
    if len(values) != len(found):
        return {}
    return {value: facts for value, facts in zip(values, found, strict=True) if facts != NOTHING_FOUND}


def infer_shapes(model: ir.Model) -> dict[ir.Value, Found]:
    """Give values the types and sizes that can be inferred; what is written for them counts where nothing can.

    Returns:
        What was found, constants included.
    """
    import onnx_ir as ir

    elements = frozenset(ir.DataType)
    found = infer(model)
    for value, facts in found.items():
        if facts.dims is not None:
            value.shape = ir.Shape(facts.dims)
        if facts.element and facts.element in elements:
            dtype = ir.DataType(facts.element)
            if not isinstance(value.type, ir.TensorType) or value.type.dtype != dtype:
                value.type = ir.TensorType(dtype)
    return found


def _propagate(model: bytes) -> list[Found]:
    """Run `propagate` where a crash of onnx's inference is acceptable: in this process if it is a child of the sandbox.

    If onnx's inference ends a process, the rules of this package alone go on.
    """
    try:
        if is_expendable():
            return propagate(model)
        found: list[Found] = supervisor.call(propagate, model)
        return found
    except supervisor.ChildLost as error:  # nothing that the model is to blame for
        progress.announce(f"shapes are inferred without onnx: the process for that {error}.")
    except (supervisor.ChildDied, MemoryError) as error:
        logger.debug("shape inference: the process of onnx %s", error)
    except RecursionError:
        return []
    return propagate(model, asks_onnx=False)
