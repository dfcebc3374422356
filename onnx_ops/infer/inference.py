"""Inference of the types, shapes and constants of a model's values.

`propagate` does the work in a child of the sandbox. It calls onnx's inference for single nodes, which aborts on some
malformed nodes.
"""

from __future__ import annotations

import logging
from typing import Any

from onnx_ops.infer.facts import Facts
from onnx_ops.infer.propagate import propagate
from onnx_ops.model.views import ModelView
from sliceport import progress
from sliceport.sandbox import supervisor
from sliceport.sandbox.child import is_expendable
from sliceport.sandbox.child_process import ChildDied, ChildLost

logger = logging.getLogger(__name__)


def infer(model: ModelView, bound_names: frozenset[str] = frozenset()) -> dict[Any, Facts]:
    """Return the facts of all graph inputs and node outputs, by value. Values without facts are omitted.

    The result is empty if the model cannot be serialized, or if its graphs are nested too deep.

    Args:
        model: The model. The facts are not stored in it, and large tensors in other files are not read.
        bound_names: The names of values whose shapes the user has given; see `bind_shapes`.
    """
    try:
        serialized, values = model.serialize()
    except Exception as error:  # the model is too large, or has something that a file cannot hold
        logger.debug("shape inference is left out: %s", error)
        return {}
    facts_in_order = _propagate(serialized, bound_names)
    if len(values) != len(facts_in_order):  # empty if graphs are nested too deep
        return {}
    pairs = zip(values, facts_in_order, strict=True)
    return {value: facts for value, facts in pairs if facts.element or facts.dims is not None or facts.non_tensor_type}


def infer_shapes(model: ModelView, bound_names: frozenset[str] = frozenset()) -> dict[Any, Facts]:
    """Set the inferred types and sizes of values. Types and sizes that are not inferred stay as they are declared.

    Large and unreadable constants of the main graph become graph inputs.

    Returns:
        The facts of `infer`.
    """
    model.detach_weights()
    facts_by_value = infer(model, bound_names)
    for value, facts in facts_by_value.items():
        model.set_type(value, facts.element, facts.dims)
    return facts_by_value


def _propagate(model: bytes, bound_names: frozenset[str]) -> list[Facts]:
    """Run `propagate` in a child of the sandbox, or in this process if this process is such a child.

    If the child fails, this process applies only the rules of this package. The result is empty if graphs are nested
    too deep.
    """
    try:
        if is_expendable():
            return propagate(model, bound_names)
        facts: list[Facts] = supervisor.call(propagate, model, bound_names)
        return facts
    except ChildLost as error:  # the machine's fault, not the model's
        progress.announce(f"shapes are inferred without onnx: the process for that {error}.")
    except (ChildDied, MemoryError) as error:
        logger.debug("shape inference: the process of onnx %s", error)
    except RecursionError:  # graphs are nested too deep, for our own rules too
        return []
    return propagate(model, bound_names, uses_onnx=False)
