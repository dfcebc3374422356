"""A module like onnxruntime, a device that lies: it computes one node wrongly, always or under a condition.

The environment variable LIE says which one: the kind of the lie, and the names of nodes or a size, separated by spaces.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

__version__ = "0.1"
KINDS = ("always", "fused", "size", "float16")


class InferenceSession:
    """A session of onnxruntime on a model that a lie has changed."""

    def __init__(self, path: str, providers: Sequence[Any]) -> None:
        proto = onnx.load(path)
        kind, _, words = os.environ.get("LIE", "").partition(" ")
        if kind:
            lie(proto, kind, words.split())
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
        self._providers = [provider for provider, _ in providers if provider != "AbsentProvider"]

    def get_providers(self) -> list[str]:
        return self._providers

    def get_inputs(self) -> Any:
        return self._session.get_inputs()

    def run(self, names: None, feeds: Any) -> Any:
        return self._session.run(names, feeds)


def lie(proto: onnx.ModelProto, kind: str, words: Sequence[str]) -> None:
    """Change a model that has the node with the first name, if the condition of the lie holds."""
    graph = proto.graph
    nodes = {node.name: node for node in graph.node}
    node = nodes.get(words[0])
    if node is None:
        return
    if kind == "crash":
        os.abort()
    if kind == "fused":
        before = nodes.get(words[1])
        if before is None or before.output[0] in {value.name for value in graph.output}:
            return
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    element = types.get(node.output[0]) or next(iter(types.values()), onnx.TensorProto.FLOAT)
    if kind == "float16" and element != onnx.TensorProto.FLOAT16:
        return
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    error = np.array(np.nan if kind == "nan" else 3, dtype)
    output = node.output[0]
    right, scale = f"{output}_right", f"{output}_scale"
    node.output[0] = right
    made = [onnx.helper.make_node("Constant", [], [scale], value=onnx.numpy_helper.from_array(error))]
    if kind == "size":
        size = np.array(int(words[1]))
        made += [
            onnx.helper.make_node("Shape", [right], [f"{output}_shape"]),
            onnx.helper.make_node("Constant", [], [f"{output}_0"], value=onnx.numpy_helper.from_array(np.array(0))),
            onnx.helper.make_node("Gather", [f"{output}_shape", f"{output}_0"], [f"{output}_size"]),
            onnx.helper.make_node("Constant", [], [f"{output}_lies"], value=onnx.numpy_helper.from_array(size)),
            onnx.helper.make_node("Equal", [f"{output}_size", f"{output}_lies"], [f"{output}_is"]),
            onnx.helper.make_node("Cast", [f"{output}_is"], [f"{output}_cast"], to=element),
            onnx.helper.make_node("Mul", [scale, f"{output}_cast"], [f"{output}_error"]),
        ]
        scale = f"{output}_error"
    made.append(onnx.helper.make_node("Add", [right, scale], [output]))
    at = list(graph.node).index(node) + 1
    rest = list(graph.node)[at:]
    del graph.node[at:]
    graph.node.extend([*made, *rest])
