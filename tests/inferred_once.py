"""What onnx infers follows from the bytes of a model alone: asked once, however many passes and levels see the model.

For tests of what is made of it; those of inference itself, and of its worker process, do without.
"""

from __future__ import annotations

import functools
import pickle

from onnx_ops import inference
from onnx_ops.facts import Found

_ask = inference._propagate


@functools.lru_cache(maxsize=256)
def _answer(model: bytes) -> bytes:
    return pickle.dumps(_ask(model))


def propagate(model: bytes) -> list[Found]:
    """What stands in for `onnx_ops.inference._propagate`: its answer, each time anew, as it is from the worker."""
    found: list[Found] = pickle.loads(_answer(model))
    return found
