"""Models of 2 GiB, and models that do not fit into memory."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from unittest.mock import Mock

import onnx
import onnx_ir as ir
import pytest
from google.protobuf.message import EncodeError
from onnx_models import parse

from onnx_ops.model.io import write_model, write_proto
from onnx_ops.model.read import to_bytes
from sliceport.errors import ModelError
from sliceport.sandbox import supervisor

MODEL = "(float[4] x) => (float[2] y) <int64[1] s = {1}, int64[1] e = {3}> { y = Slice(x, s, e) }"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is enforced on Linux alone")
def test_protobuf_that_lacks_memory_raises_memory_error() -> None:
    model = parse(MODEL)
    model.graph.initializer.add(name="w", data_type=onnx.TensorProto.INT8, dims=[2**26], raw_data=bytes(2**26))
    with pytest.raises(MemoryError):
        supervisor.call(to_bytes, model, "the model", memory=2**25)


@pytest.mark.parametrize(
    ("count", "text", "expected", "message"),
    [
        (32, "Failed to serialize proto", MemoryError, ""),
        (2**31, "", ModelError, f"'m.onnx' has {2**31} bytes of data, and protobuf writes at most 2147483647."),
        (32, "Message size exceeded", ModelError, "'m.onnx' cannot be serialized: Message size exceeded."),
    ],
)
def test_model_that_protobuf_does_not_write_is_refused(
    tmp_path: Path, count: int, text: str, expected: type[Exception], message: str
) -> None:
    model = parse(MODEL)
    model.graph.initializer.add(name="w", data_type=onnx.TensorProto.INT8, dims=[count - 16])
    write = Mock(side_effect=EncodeError(text))
    unwritable = Mock(graph=model.graph, ListFields=model.ListFields, SerializeToString=write)
    with pytest.raises(expected, match=f"^{re.escape(message)}$"):
        write_proto(unwritable, tmp_path / "m.onnx")


@pytest.mark.parametrize("place", ["serde.serialize_model", "external_data.unload_from_model"])
def test_lack_of_memory_while_writing_raises_memory_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    model = parse(MODEL)
    model.graph.initializer.add(name="w", data_type=onnx.TensorProto.INT8, dims=[512], raw_data=bytes(512))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=9)
    loaded = ir.load(tmp_path / "m.onnx")
    monkeypatch.setattr(f"onnx_ir.{place}", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError, match="cannot be written: MemoryError"):
        write_model(loaded, tmp_path / "other" / "o.onnx")
