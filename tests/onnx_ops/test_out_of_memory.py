"""Models of 2 GiB, and models that do not fit into memory."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import Mock

import onnx
import pytest
from google.protobuf.message import EncodeError
from onnx_models import parse

from onnx_ops.model.io import write_proto
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


@pytest.mark.parametrize(("count", "expected"), [(32, MemoryError), (2**31, ModelError)])
def test_model_that_protobuf_does_not_write_is_refused(tmp_path: Path, count: int, expected: type[Exception]) -> None:
    model = parse(MODEL)
    model.graph.initializer.add(name="w", data_type=onnx.TensorProto.INT8, dims=[count - 16])
    write = Mock(side_effect=EncodeError("Failed to serialize proto"))
    unwritable = Mock(graph=model.graph, functions=[], training_info=[], SerializeToString=write)
    message = rf"^'m.onnx' has {count} bytes of data, and protobuf writes at most 2147483647\.$"
    with pytest.raises(expected, match=message if expected is ModelError else "^$"):
        write_proto(unwritable, tmp_path / "m.onnx")
