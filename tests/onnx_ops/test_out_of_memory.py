"""A lack of memory is a MemoryError: no model, file or option is blamed for it. A model of 2 GiB is told as that."""

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
from onnx_models import parse
from sandbox_calls import serialize_weights

import sliceport
from onnx_ops.infer import inference
from onnx_ops.model.external_data import load_whole
from onnx_ops.model.io import read_to_change, to_ir, to_proto, write_proto
from onnx_ops.model.proto_model import ProtoModel
from onnx_ops.model.raise_opset import raise_opset
from onnx_ops.model.read import read_proto
from onnx_ops.passes.optimizers import ONNXSCRIPT, run_optimizer
from onnx_ops.verify.onnx_graph import OnnxGraph
from sliceport.arguments import load_array
from sliceport.engines.engine import WholeModel
from sliceport.errors import ModelError
from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildDied, ChildKilled

FUNCTION = (
    """(float[4] x) => (y) { y = own.F(x) } <domain: "own", opset_import: ["" : 13]> F (a) => (b) { b = Neg(a) }"""
)
MODEL = "(float[4] x) => (float[2] y) <int64[1] s = {1}, int64[1] e = {3}> { y = Slice(x, s, e) }"


def external(folder: Path) -> Path:
    """Save a Slice whose parameters are in another file."""
    model = parse(MODEL)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    return folder / "m.onnx"


def ir_model(folder: Path) -> Any:
    return to_ir(read_to_change(external(folder)))


ACTIONS: dict[str, Callable[[Path], object]] = {
    "onnx.load": lambda folder: read_proto(folder / "m.onnx"),
    "onnx_ir.serde.deserialize_model": ir_model,
    "onnx_ir.serde.serialize_model": lambda folder: to_proto(ir_model(folder)),
    "onnx_ir.to_proto": lambda folder: raise_opset(ir_model(folder), 21),
    "onnx_ir.ExternalTensor.numpy": lambda folder: sliceport.lower(external(folder)),
    "onnx_ir.Model.clone": lambda _: sliceport.rewrite(parse(MODEL)),
    "onnx_ops.model.prepare.InlinePass": lambda _: sliceport.lower(parse(FUNCTION, own=1)),
    "onnx_ops.model.proto_model.ProtoModel.serialize": lambda _: sliceport.check(
        parse(MODEL.replace("(x, s", "(x, x"))
    ),
    "onnx.external_data_helper.load_external_data_for_model": lambda folder: load_whole(
        WholeModel("onnx", external(folder).read_bytes(), ("x",), ("y",), data_folder=str(folder))
    ),
    "sliceport.sandbox.supervisor.call": lambda folder: run_optimizer(ONNXSCRIPT, ir_model(folder)),
    "numpy.load": lambda folder: load_array(external(folder)),
}


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ValueError("Error parsing message: Arena alloc failed"),
        RuntimeError("std::bad_alloc"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("target", ACTIONS)
def test_lack_of_memory_is_not_blamed_on_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, error: Exception
) -> None:
    wrapper = RuntimeError("a library failed")
    wrapper.__cause__ = error
    for raised in (error, wrapper):
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(target, Mock(side_effect=raised))
            ACTIONS[target](tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is enforced on Linux alone")
def test_protobuf_that_lacks_memory_raises_memory_error() -> None:
    with pytest.raises(MemoryError):  # the weights are allocated twice to make the model, and once more to write it
        supervisor.call(serialize_weights, 2**26, memory=5 * 2**25)


class Unwritable:
    """A model that protobuf does not write. `elements` is the size of a weight of 4 bytes for each element."""

    def __init__(self, proto: onnx.ModelProto, elements: int) -> None:
        self._proto = proto
        proto.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT, dims=[elements])
        self.SerializeToString = Mock(side_effect=EncodeError("Failed to serialize proto"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._proto, name)


@pytest.mark.parametrize(("elements", "expected"), [(4, MemoryError), (2**29, ModelError)])
def test_model_that_protobuf_does_not_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elements: int, expected: type[Exception]
) -> None:
    size = 16 + 4 * elements  # with the 16 bytes of the bounds of the Slice
    match = rf"has {size} bytes of data, and protobuf writes at most 2147483647\.$" if expected is ModelError else "^$"
    graph = OnnxGraph(Unwritable(parse(MODEL), elements))  # type: ignore[arg-type]
    monkeypatch.setattr(graph, "_empty_model", lambda: Unwritable(onnx.ModelProto(), elements))
    x = np.arange(4, dtype=np.float32)
    for act in (
        lambda: write_proto(Unwritable(parse(MODEL), elements), tmp_path / "m.onnx"),  # type: ignore[arg-type]
        graph.whole,
        lambda: graph.cut([0], ["y"], {"x": x}, {}),
    ):
        with pytest.raises(expected, match=match):
            act()


@pytest.mark.parametrize(("error", "expected"), [(ChildKilled, ChildKilled), (ChildDied, ModelError)])
def test_converter_whose_process_the_machine_ended_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[ChildDied], expected: type[Exception]
) -> None:
    monkeypatch.setattr(supervisor, "call", Mock(side_effect=error("was ended by SIGKILL")))
    with pytest.raises(expected, match="was ended by SIGKILL"):
        raise_opset(ir_model(tmp_path), 21)


@pytest.mark.parametrize("dies", [False, True])
def test_graphs_that_are_nested_too_deep_for_protobuf_have_no_facts(
    monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    depth = 40
    model = parse("(float[4] x, bool c) => (float[4] o0) { }")
    graph = model.graph
    for i in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=[f"o{i}"])
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        graph.output.add(name=f"o{i + 1}")
    graph.node.add(op_type="Neg", input=["x"], output=[f"o{depth}"])
    if dies:
        monkeypatch.setattr(supervisor, "call", Mock(side_effect=ChildDied("was ended by SIGSEGV")))
    assert inference.infer(ProtoModel(model)) == {}
