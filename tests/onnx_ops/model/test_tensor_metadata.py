"""The metadata of tensors come out of a file as often as they go in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import sliceport
from onnx_ops.model.io import read_model, write_model


def tensor(name: str, *, data_type: int = TensorProto.FLOAT) -> onnx.TensorProto:
    made = helper.make_tensor(name, data_type, [2], [1, 2])
    made.doc_string = f"doc of {name}"
    for key in ("a", "b"):
        made.metadata_props.add(key=key, value=f"{key} of {name}")
    return made


def build() -> onnx.ModelProto:
    """Return a model with a tensor wherever one may be."""
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, [2])
    body = helper.make_graph(
        [helper.make_node("Identity", ["inner"], ["out"])], "body", [], [output], [tensor("inner")]
    )
    function = helper.make_function(
        "own",
        "F",
        ["x"],
        ["y"],
        [
            helper.make_node("Constant", [], ["k"], value=tensor("in function")),
            helper.make_node("Add", ["x", "k"], ["y"]),
        ],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        helper.make_node("Constant", [], ["k"], value=tensor("in node")),
        helper.make_node("Unknown", ["k"], ["u"], domain="own", listed=[tensor("first"), tensor("second")]),
        helper.make_node("If", ["c"], ["chosen"], then_branch=body, else_branch=body),
        helper.make_node("F", ["chosen"], ["called"], domain="own"),
        helper.make_node("Add", ["called", "weight"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("y", "u")],
        [tensor("weight")],
    )
    return helper.make_model(
        graph,
        functions=[function],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
        ir_version=10,
    )


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


def said(holder: onnx.ModelProto) -> list[tuple[str, str, list[tuple[str, str]]]]:
    return sorted(
        (each.name, each.doc_string, [(entry.key, entry.value) for entry in each.metadata_props])
        for each in tensors(holder)
    )


def test_metadata_of_tensors_are_written_once(tmp_path: Path) -> None:
    onnx.save(build(), tmp_path / "0.onnx")
    for i in range(3):
        sliceport.rewrite(tmp_path / f"{i}.onnx", tmp_path / f"{i + 1}.onnx", passes=["strided"])
        assert said(onnx.load(tmp_path / f"{i + 1}.onnx")) == said(build())
    assert (tmp_path / "2.onnx").read_bytes() == (tmp_path / "1.onnx").read_bytes()


def test_what_was_there_twice_is_there_once(tmp_path: Path) -> None:
    proto = build()
    for each in tensors(proto):
        each.metadata_props.extend(list(each.metadata_props))
    onnx.save(proto, tmp_path / "0.onnx")
    sliceport.rewrite(tmp_path / "0.onnx", tmp_path / "1.onnx", passes=["strided"])
    assert said(onnx.load(tmp_path / "1.onnx")) == said(build())


def test_a_model_may_be_written_again(tmp_path: Path) -> None:
    onnx.save(build(), tmp_path / "0.onnx")
    model = read_model(tmp_path / "0.onnx")
    for name in ("1.onnx", "2.onnx"):
        write_model(model, tmp_path / name, source=tmp_path / "0.onnx")
        assert said(onnx.load(tmp_path / name)) == said(build())


def test_weights_that_move_keep_what_is_said_of_them(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.ones((100, 100), np.float32), "w")
    weights.doc_string = "doc of w"
    weights.metadata_props.add(key="a", value="b")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [100, 100])
    graph = helper.make_graph([helper.make_node("Neg", ["w"], ["y"])], "g", [], [output], [weights])
    onnx.save_model(helper.make_model(graph), tmp_path / "m.onnx", save_as_external_data=True, location="w.data")
    (tmp_path / "other").mkdir()
    sliceport.rewrite(tmp_path / "m.onnx", tmp_path / "other" / "o.onnx", passes=["identity"])
    (written,) = onnx.load(tmp_path / "other" / "o.onnx", load_external_data=False).graph.initializer
    assert written.doc_string == "doc of w"
    assert [(entry.key, entry.value) for entry in written.metadata_props] == [("a", "b")]
    assert [entry.value for entry in written.external_data if entry.key == "location"] == ["o.onnx.data"]
    (read,) = onnx.load(tmp_path / "other" / "o.onnx").graph.initializer
    assert onnx.numpy_helper.to_array(read).tolist() == np.ones((100, 100)).tolist()
