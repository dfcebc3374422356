"""Operators whose shape inference ends the process."""

import os
from collections.abc import Callable
from types import MappingProxyType

import onnx

from onnx_ops.infer import propagate as real
from onnx_ops.infer.facts import Facts
from sliceport.engines.sizes import InputShapes


def propagate(proto: bytes, bound_shapes: InputShapes = MappingProxyType({}), *, uses_onnx: bool = True) -> list[Facts]:
    """Call the real `propagate` after registering the operators."""
    actions: dict[str, Callable[[object], None]] = {"Die": lambda _: os.abort()}
    for name, action in actions.items():
        if onnx.defs.has(name, "deadly"):
            continue
        kind = onnx.defs.OpSchema
        schema = kind(
            name,
            "deadly",
            1,
            inputs=[kind.FormalParameter("x", "T")],
            outputs=[kind.FormalParameter("y", "T")],
            type_constraints=[("T", ["tensor(float)"], "")],
        )
        schema.set_type_and_shape_inference_function(action)
        onnx.defs.register_schema(schema)
    return real.propagate(proto, bound_shapes, uses_onnx=uses_onnx)
