"""Operators of which onnx's shape inference ends or blocks the process, registered where the worker imports this."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import onnx

from onnx_ops.infer import propagate as real
from onnx_ops.infer.facts import Facts
from sliceport import guarded


def _spin(_: object) -> None:
    while True:
        pass


def propagate(
    proto: bytes,
    skipped: Sequence[int] = (),
    journal: str = "",
    seconds: float = 60.0,
    fatal: frozenset[bytes] = frozenset(),
) -> list[Facts]:
    """`propagate` where onnx knows these operators."""
    actions: dict[str, Callable[[object], None]] = {"Die": lambda _: os.abort(), "Hang": _spin}
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
    return real.propagate(proto, skipped, journal, seconds, fatal)


def propagate_and_look(model: bytes, skipped: Sequence[int], journal: str, *more: Any) -> list[Facts]:
    """`propagate`, but whether the journal's name is left at its end."""
    real.propagate(model, skipped, journal, *more)
    return [Facts(1 + os.path.exists(journal))]


def get_ready_slowly() -> None:
    """What takes longer than a model may."""
    time.sleep(3)


def abort(_: bytes, __: float) -> bytes:
    """What is called in place of an optimizer, and ends the process."""
    os.abort()


def refuse(_: bytes, __: float) -> bytes:
    """What is called in place of an optimizer, and raises."""
    raise TypeError("a list is\nno tensor.")


def scribble(_: bytes, __: float) -> bytes:
    """What is called in place of an optimizer, and gives no model."""
    return b"nothing of the kind"


def break_up(model: bytes, _: float) -> bytes:
    """What is called in place of an optimizer, and gives a model whose node has an attribute that it must not have."""
    proto = onnx.ModelProto.FromString(model)
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("num_outputs", 1))
    broken: bytes = proto.SerializeToString()
    return broken


def spin(_: bytes, seconds: float) -> bytes:
    """What is called in place of an optimizer, and never ends."""
    with guarded.processor_time(seconds):
        while True:
            pass
