"""A lack of memory is a MemoryError: no model, file or option is blamed for it. A model of 2 GiB is a ModelError."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError
from onnx import numpy_helper
from onnx_models import parse, read_model

import sliceport
from onnx_ops.infer import inference
from onnx_ops.model.external_data import load_whole
from onnx_ops.model.io import to_proto, write_proto
from onnx_ops.model.proto_model import ProtoModel
from onnx_ops.model.raise_opset import raise_opset
from onnx_ops.model.read import read_proto, to_bytes
from onnx_ops.passes.optimizers import ONNXSCRIPT, run_optimizer
from onnx_ops.verify.onnx_graph import OnnxGraph
from sliceport.arguments import load_array
from sliceport.engines.engine import WholeModel
from sliceport.entry_points import load_entry_points
from sliceport.errors import ModelError
from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildDied, ChildKilled

MODEL = "(float[4] x) => (float[2] y) <int64[1] s = {1}, int64[1] e = {3}> { y = Slice(x, s, e) }"
UNKNOWN_END = "(float[4] x, int64[1] e) => (float[n] y) <int64[1] s = {1}> { y = Slice(x, s, e) }"
CALL = '(float[4] x) => (y) { y = own.F(x) } <domain: "own", opset_import: ["" : 13]> F (a) => (b) { b = Neg(a) }'


@pytest.fixture(name="path")
def fixture_path(tmp_path: Path) -> Path:
    """Save a Slice whose parameters are in another file."""
    model = parse(MODEL)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    return tmp_path / "m.onnx"


ACTIONS: dict[str, Callable[[Path], object]] = {
    "onnx.load": read_proto,
    "onnx_ir.serde.deserialize_model": read_model,
    "onnx_ir.serde.serialize_model": lambda path: to_proto(read_model(path)),
    "onnx_ir.to_proto": lambda path: raise_opset(read_model(path), 21),
    "onnx_ir.ExternalTensor.numpy": sliceport.lower,
    "onnx_ir.Model.clone": lambda _: sliceport.rewrite(parse(MODEL)),
    "onnx_ops.model.prepare.InlinePass": lambda _: sliceport.lower(parse(CALL, own=1)),
    "onnx_ops.model.proto_model.ProtoModel.serialize": lambda _: sliceport.check(parse(UNKNOWN_END)),
    "onnx.external_data_helper.load_external_data_for_model": lambda path: load_whole(
        WholeModel("onnx", path.read_bytes(), ("x",), ("y",), data_folder=str(path.parent))
    ),
    "sliceport.sandbox.supervisor.call": lambda path: run_optimizer(ONNXSCRIPT, read_model(path)),
    "numpy.load": load_array,
    "importlib.metadata.EntryPoint.load": lambda _: load_entry_points("sliceport.formats", lambda _: ""),
}
ERRORS = (MemoryError(), ValueError("Arena alloc failed"), RuntimeError("std::bad_alloc"), OSError(errno.ENOMEM, ""))


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("target", ACTIONS)
def test_lack_of_memory_is_not_blamed_on_the_model(
    path: Path, monkeypatch: pytest.MonkeyPatch, target: str, error: Exception
) -> None:
    wrapper = RuntimeError("a library failed")
    wrapper.__cause__ = error
    for raised in (error, wrapper):
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(target, Mock(side_effect=raised))
            ACTIONS[target](path)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is enforced on Linux alone")
def test_protobuf_that_lacks_memory_raises_memory_error() -> None:
    model = parse(MODEL)
    model.graph.initializer.add(name="w", data_type=onnx.TensorProto.INT8, dims=[2**26], raw_data=bytes(2**26))
    with pytest.raises(MemoryError):
        supervisor.call(to_bytes, model, "the model", memory=2**25)


class Unwritable:
    """A model that protobuf does not write. Its weight `w` has `elements` of 4 bytes."""

    SerializeToString = Mock(side_effect=EncodeError("Failed to serialize proto"))

    def __init__(self, proto: onnx.ModelProto, elements: int) -> None:
        self._proto = proto
        proto.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT, dims=[elements])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._proto, name)


@pytest.mark.parametrize(("elements", "expected"), [(4, MemoryError), (2**29, ModelError)])
def test_model_that_protobuf_does_not_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elements: int, expected: type[Exception]
) -> None:
    size = 16 + 4 * elements  # with the 16 bytes of the bounds of the Slice
    match = rf"has {size} bytes of data, and protobuf writes at most 2147483647\.$" if expected is ModelError else "^$"
    model: Any = Unwritable(parse(MODEL), elements)
    graph = OnnxGraph(model)
    monkeypatch.setattr(graph, "_empty_model", lambda: Unwritable(onnx.ModelProto(), elements))
    for act in (
        lambda: write_proto(model, tmp_path / "m.onnx"),
        graph.whole,
        lambda: graph.cut([0], ["y"], {"x": np.arange(4, dtype=np.float32)}, {}),
    ):
        with pytest.raises(expected, match=match):
            act()


@pytest.mark.parametrize(("error", "expected"), [(ChildKilled, ChildKilled), (ChildDied, ModelError)])
def test_converter_whose_process_the_machine_ended_is_not_blamed(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: type[ChildDied], expected: type[Exception]
) -> None:
    monkeypatch.setattr(supervisor, "call", Mock(side_effect=error("was ended by SIGKILL")))
    with pytest.raises(expected, match="was ended by SIGKILL"):
        raise_opset(read_model(path), 21)


@pytest.mark.parametrize("dies", [False, True])
def test_graphs_that_are_nested_too_deep_for_protobuf_have_no_facts(
    monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    model = parse("(float[4] x, bool c) => (float[4] o0) { }")
    graph = model.graph
    for i in range(40):
        node = graph.node.add(op_type="If", input=["c"], output=[f"o{i}"])
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        graph.output.add(name=f"o{i + 1}")
    graph.node.add(op_type="Neg", input=["x"], output=["o40"])
    if dies:
        monkeypatch.setattr(supervisor, "call", Mock(side_effect=ChildDied("was ended by SIGSEGV")))
    assert inference.infer(ProtoModel(model)) == {}
