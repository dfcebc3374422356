"""A model of 2 GiB is a ModelError, and one that lacks memory a MemoryError, or the sentence about it of a command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from command_line import Invoke
from google.protobuf.message import EncodeError
from onnx_models import parse

from onnx_ops.model.io import write_proto
from onnx_ops.model.read import to_bytes
from onnx_ops.verify.onnx_graph import OnnxGraph
from sliceport.errors import ModelError
from sliceport.sandbox import supervisor

MODEL = "(float[4] x) => (float[2] y) <int64[1] s = {1}, int64[1] e = {3}> { y = Slice(x, s, e) }"


@pytest.mark.parametrize("target", ["onnx_ir.serde.deserialize_model", "onnx_ir.serde.serialize_model"])
def test_command_does_not_blame_the_model_for_a_lack_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, target: str
) -> None:
    onnx.save(parse(MODEL), tmp_path / "m.onnx")
    monkeypatch.setattr(target, Mock(side_effect=RuntimeError("std::bad_alloc")))
    message = f"sliceport: '{tmp_path / 'm.onnx'}': the model exceeds the memory of this machine.\n"
    assert invoke("rewrite", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", code=2).err == message


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is enforced on Linux alone")
def test_protobuf_that_lacks_memory_raises_memory_error() -> None:
    model = parse(MODEL)
    model.graph.initializer.add(name="w", data_type=onnx.TensorProto.INT8, dims=[2**26], raw_data=bytes(2**26))
    with pytest.raises(MemoryError):
        supervisor.call(to_bytes, model, "the model", memory=2**25)


class Unwritable:
    """A model of `count` bytes that protobuf does not write."""

    SerializeToString = Mock(side_effect=EncodeError("Failed to serialize proto"))

    def __init__(self, proto: onnx.ModelProto, count: int) -> None:
        self._proto = proto
        proto.graph.initializer.add(name="w", data_type=onnx.TensorProto.INT8, dims=[count - 16])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._proto, name)


@pytest.mark.parametrize(("count", "expected"), [(32, MemoryError), (2**31, ModelError)])
def test_model_that_protobuf_does_not_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, expected: type[Exception]
) -> None:
    message = rf"has {count} bytes of data, and protobuf writes at most 2147483647\.$" if count == 2**31 else "^$"
    model: Any = Unwritable(parse(MODEL), count)
    graph = OnnxGraph(model)
    monkeypatch.setattr(graph, "_empty_model", lambda: Unwritable(onnx.ModelProto(), count))
    for act in (
        lambda: write_proto(model, tmp_path / "m.onnx"),
        graph.whole,
        lambda: graph.cut([0], ["y"], {"x": np.arange(4, dtype=np.float32)}, {}),
    ):
        with pytest.raises(expected, match=message):
            act()
