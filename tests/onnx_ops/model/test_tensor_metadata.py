"""The metadata of tensors come out of a file as often as they go in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx_models import parse, read_model, save

import sliceport
from onnx_ops.model.io import write_model
from onnx_ops.model.read import read_any

TEXT = """(bool c) => (float[2] y, float[2] u) <float[2] weight = {1, 2}> {
    k = Constant <value = float[2] in_node {1, 2}> ()  u = own.Unknown (k)
    chosen = If (c) <
        then_branch = then () => (float[2] out) <float[2] inner = {1, 2}> { out = Identity (inner) },
        else_branch = else () => (float[2] out) <float[2] inner = {1, 2}> { out = Identity (inner) }
    >
    called = own.F (chosen)
    y = Add (called, weight)
}
<domain: "own", opset_import: ["" : 17]> F (x) => (y) {
    k = Constant <value = float[2] in_function {1, 2}> ()
    y = Add (x, k)
}"""


def build() -> onnx.ModelProto:
    """Return a model with a tensor wherever one may be."""
    model = parse(TEXT, 17, 10, own=1)
    listed = [onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [2], [1, 2]) for name in ("first", "second")]
    model.graph.node[1].attribute.append(onnx.helper.make_attribute("listed", listed))
    for each in tensors(model):
        each.doc_string = f"doc of {each.name}"
        for key in ("a", "b"):
            each.metadata_props.add(key=key, value=f"{key} of {each.name}")
    return model


def tensors(holder: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    graphs = [holder.graph]
    nodes = [node for function in holder.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                graphs.append(attribute.g)


def metadata(holder: onnx.ModelProto) -> list[tuple[str, str, list[tuple[str, str]]]]:
    return sorted(
        (each.name, each.doc_string, [(entry.key, entry.value) for entry in each.metadata_props])
        for each in tensors(holder)
    )


def test_metadata_of_tensors_are_written_once(tmp_path: Path) -> None:
    onnx.save(build(), tmp_path / "0.onnx")
    for i in range(3):
        write_model(read_model(tmp_path / f"{i}.onnx"), tmp_path / f"{i + 1}.onnx")
        assert metadata(onnx.load(tmp_path / f"{i + 1}.onnx")) == metadata(build())
    assert (tmp_path / "2.onnx").read_bytes() == (tmp_path / "1.onnx").read_bytes()


def test_repeated_metadata_are_written_once(tmp_path: Path) -> None:
    proto = build()
    for each in tensors(proto):
        each.metadata_props.extend(list(each.metadata_props))
    write_model(read_model(save(proto, tmp_path / "0.onnx")), tmp_path / "1.onnx")
    assert metadata(onnx.load(tmp_path / "1.onnx")) == metadata(build())


def test_a_model_may_be_written_again(tmp_path: Path) -> None:
    model = read_model(save(build(), tmp_path / "0.onnx"))
    for name in ("1.onnx", "2.onnx"):
        write_model(model, tmp_path / name)
        assert metadata(onnx.load(tmp_path / name)) == metadata(build())


def test_weights_that_move_keep_their_metadata(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.ones((100, 100), np.float32), "w")
    weights.doc_string = "doc of w"
    weights.metadata_props.add(key="a", value="b")
    model = parse("() => (float[100, 100] y) { y = Neg (w) }")
    model.graph.initializer.append(weights)
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.data")
    (tmp_path / "other").mkdir()
    sliceport.rewrite(tmp_path / "m.onnx", tmp_path / "other" / "o.onnx", passes=["identity"])
    (written,) = onnx.load(tmp_path / "other" / "o.onnx", load_external_data=False).graph.initializer
    assert written.doc_string == "doc of w"
    assert [(entry.key, entry.value) for entry in written.metadata_props] == [("a", "b")]
    assert [entry.value for entry in written.external_data if entry.key == "location"] == ["o.onnx.data"]
    (read,) = onnx.load(tmp_path / "other" / "o.onnx").graph.initializer
    assert onnx.numpy_helper.to_array(read).tolist() == np.ones((100, 100)).tolist()


def test_metadata_of_a_model_in_memory_are_written_once(tmp_path: Path) -> None:
    model = ir.from_proto(build())
    assert metadata(read_any(model).proto) == metadata(build())
    sliceport.lower(model).write(tmp_path / "out")
    assert metadata(onnx.load(tmp_path / "out" / "model.onnx")) == metadata(build())
