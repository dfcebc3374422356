"""Whether a model and what passes made of it compute the same, on onnxruntime's CPU provider."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from platforms import assert_well_formed
from running import as_arrays
from sessions import open_session


def outputs(opened: ort.InferenceSession, shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], bytes]] | None:
    """Return shapes and bytes of what comes out; None where the model does not take this shape."""
    x = np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32).reshape(shape)
    try:
        results = opened.run(None, {"x": x})
    except Exception:
        return None
    return [(array.shape, array.tobytes()) for array in as_arrays(results)]


def is_valid(proto: onnx.ModelProto, shape: tuple[int, ...]) -> bool:
    """Whether the model takes a shape; onnxruntime joins what does not fit if there is nothing in it."""
    return _is_valid(proto.SerializeToString(deterministic=True), shape)


@functools.lru_cache(maxsize=64)  # `check` asks again what the caller has asked
def _is_valid(model: bytes, shape: tuple[int, ...]) -> bool:
    try:
        _evaluator(model).run(None, {"x": np.zeros(shape, np.float32)})
    except Exception:
        return False
    return True


@functools.lru_cache(maxsize=4)  # the shapes of a model come one after the other
def _evaluator(model: bytes) -> ReferenceEvaluator:
    return ReferenceEvaluator(onnx.load_model_from_string(model))


@functools.lru_cache(maxsize=64)  # several passes see a model
def _expected(model: bytes, shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], bytes]] | None:
    return outputs(_session(model), shape)


@functools.lru_cache(maxsize=4)
def _session(model: bytes) -> ort.InferenceSession:
    return open_session(onnx.load_model_from_string(model), optimized=False)


def show(proto: onnx.ModelProto) -> str:
    """Return a model for people: each node with its constants."""
    constants = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in proto.graph.initializer}
    lines = []
    for node in proto.graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t).tolist()
            continue
        read = [str(constants.get(name, name)) for name in node.input]
        read += [f"{attribute.name}={helper.get_attribute_value(attribute)}" for attribute in node.attribute]
        lines.append(f"{', '.join(node.output)} = {node.op_type}({', '.join(read)})")
    return "\n".join(lines)


def check(before: onnx.ModelProto, after: onnx.ModelProto, shape: tuple[int, ...]) -> None:
    """Compare what comes out for the shape and, where the input is open, for others."""
    assert_well_formed(after)
    first, second = before.SerializeToString(deterministic=True), open_session(after, optimized=False)
    dims = [dim.HasField("dim_param") for dim in before.graph.input[0].type.tensor_type.shape.dim]
    sizes = [(size, size + 1, size - 1, 1) if is_open else (size,) for size, is_open in zip(shape, dims, strict=True)]
    compared = 0
    for other in itertools.islice(itertools.product(*sizes), 16):
        expected = _expected(first, other) if _is_valid(first, other) else None
        if expected is not None:
            assert outputs(second, other) == expected, f"{other}:\n{show(before)}\n{show(after)}"
            compared += 1
    # 1.23 infers one element of a backward slice of nothing, and runs no model that it has planned so
    assert compared or ort.__version__.startswith("1.23.")
