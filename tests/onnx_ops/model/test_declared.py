"""Inputs that an ONNX file declares, and the data files that it names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper
from onnx_models import parse, save

import sliceport
from onnx_ops.format import FORMAT
from onnx_ops.model import declared
from onnx_ops.model.declared import files_beside
from sliceport.errors import ModelError
from sliceport.formats import DeclaresShapes, ManyFiles
from sliceport.slicing.node import Resolved


def test_the_format_has_both_methods() -> None:
    assert isinstance(FORMAT, DeclaresShapes)
    assert isinstance(FORMAT, ManyFiles)


def make_model() -> onnx.ModelProto:
    """Return a model with an input and nothing external."""
    return parse("(float[batch, 3, ?] x) => (float[a, b, c] y) { y = Identity (x) }")


class TestShapes:
    def test_sizes_symbols_and_unknown_dimensions_are_listed(self, tmp_path: Path) -> None:
        model = make_model()
        inputs: dict[str, list[str | int | None] | None]
        inputs = {"scalar": [], "zero": [0, "batch"], "negative": [-1, 2], "rank": None}
        for name, dims in inputs.items():
            model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, dims))
        sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"]))
        model.graph.input.append(helper.make_value_info("sequence", sequence))
        for name in ("default", "sparse"):
            model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["open"]))
        model.graph.initializer.append(external("default", "gone.data"))
        model.graph.sparse_initializer.add().values.name = "sparse"
        assert FORMAT.declared_shapes(save(model, tmp_path / "m.onnx")) == {
            "x": ["batch", 3, None],
            "scalar": [],
            "zero": [0, "batch"],
            "negative": [None, 2],
            "rank": None,
            "sequence": None,
        }

    def test_a_missing_file_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="cannot be read"):
            FORMAT.declared_shapes(tmp_path / "nothing.onnx")


def external(name: str, location: str) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def add_node(graph: onnx.GraphProto, **attribute: object) -> None:
    graph.node.add(op_type="Constant", output=["c"]).attribute.add(name="value", **attribute)


def sparse(*, indices: bool) -> onnx.SparseTensorProto:
    found = onnx.SparseTensorProto()
    (found.indices if indices else found.values).CopyFrom(external("s", "w.data"))
    return found


def subgraph() -> onnx.GraphProto:
    return onnx.GraphProto(initializer=[external("inner", "w.data")])


def in_function(model: onnx.ModelProto) -> None:
    node = model.functions.add(name="f").node.add(op_type="Constant")
    node.attribute.add(name="value", type=AttributeProto.TENSOR, t=external("w", "w.data"))


def in_function_default(model: onnx.ModelProto) -> None:
    model.functions.add(name="f").attribute_proto.add(name="a", type=AttributeProto.TENSOR, t=external("w", "w.data"))


PLACES: dict[str, Callable[[onnx.ModelProto], object]] = {
    "initializer": lambda model: model.graph.initializer.append(external("w", "w.data")),
    "sparse values": lambda model: model.graph.sparse_initializer.append(sparse(indices=False)),
    "sparse indices": lambda model: model.graph.sparse_initializer.append(sparse(indices=True)),
    "tensor": lambda model: add_node(model.graph, t=external("w", "w.data")),
    "tensors": lambda model: add_node(model.graph, tensors=[external("w", "w.data")]),
    "sparse tensor": lambda model: add_node(model.graph, sparse_tensor=sparse(indices=True)),
    "sparse tensors": lambda model: add_node(model.graph, sparse_tensors=[sparse(indices=False)]),
    "graph": lambda model: add_node(model.graph, g=subgraph()),
    "graphs": lambda model: add_node(model.graph, graphs=[subgraph()]),
    "function": in_function,
    "default of a function": in_function_default,
    "training": lambda model: model.training_info.add().algorithm.CopyFrom(subgraph()),
}


class TestFiles:
    @pytest.mark.parametrize("place", PLACES)
    def test_files_of_tensors_in_any_place_are_listed(self, tmp_path: Path, place: str) -> None:
        model = make_model()
        PLACES[place](model)
        assert files_beside(save(model, tmp_path / "m.onnx")) == ("w.data",)

    def test_each_file_is_listed_once_even_if_missing(self, tmp_path: Path) -> None:
        model = make_model()
        for i, location in enumerate(("z.data", "a/b.data", "./z.data", "z.data")):
            model.graph.initializer.append(external(f"w{i}", location))
        (tmp_path / "z.data").touch()
        assert files_beside(save(model, tmp_path / "m.onnx")) == ("a/b.data", "z.data")

    @pytest.mark.parametrize(
        "location", ["../w", "a/../../w", "/w", "", ".", "C:w", "C:\\w", "\\w", "\\\\host\\w", "..\\w", "a\0b"]
    )
    def test_names_that_leave_the_folder_are_left_out(self, tmp_path: Path, location: str) -> None:
        model = make_model()
        model.graph.initializer.append(external("w", location))
        model.graph.initializer.append(external("v", "v.data"))
        assert files_beside(save(model, tmp_path / "m.onnx")) == ("v.data",)

    def test_names_that_are_no_utf8_are_left_out(self, tmp_path: Path) -> None:
        model = make_model()
        model.graph.initializer.append(external("w", "WWWW"))
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString().replace(b"WWWW", b"\xff\xff\xff\xff"))
        assert files_beside(tmp_path / "m.onnx") == ()

    def test_tensors_without_external_data_name_no_file(self, tmp_path: Path) -> None:
        model = make_model()
        model.doc_string = "location: w.data"
        tensor = external("w", "w.data")
        tensor.data_location = TensorProto.DEFAULT
        model.graph.initializer.append(tensor)
        assert files_beside(save(model, tmp_path / "m.onnx")) == ()

    def test_a_file_that_can_name_none_is_not_parsed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[object] = []
        monkeypatch.setattr(declared, "read_proto", read.append)
        assert files_beside(save(make_model(), tmp_path / "m.onnx")) == ()
        assert read == []

    @pytest.mark.parametrize("data", [b"", b"location", b"\x0a\xff location", b"\x3a\x05location"])
    def test_damaged_files_name_no_file(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "m.onnx").write_bytes(data)
        assert files_beside(tmp_path / "m.onnx") == ()

    def test_folders_and_missing_files_name_no_file(self, tmp_path: Path) -> None:
        assert files_beside(tmp_path) == files_beside(tmp_path / "nothing.onnx") == files_beside("a\0b") == ()

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes there")
    def test_a_pipe_names_no_file(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "m.onnx")
        assert files_beside(tmp_path / "m.onnx") == ()


@pytest.mark.parametrize("dims", ["", "[2,4]", "[a,b]"])
def test_an_input_that_is_also_an_output_keeps_its_own_shape(dims: str) -> None:
    """Before, an input of an open batch became `[2,4]`, and onnxruntime refused other batches."""
    nodes = "s = Slice(x, start, far)  y = Neg(s)"
    constants = "int64[1] start = {0}, int64[1] far = {9223372036854775807}"
    model = parse(f"(float[n,4] x) => (float y, float{dims} x) <{constants}> {{ {nodes} }}")
    rewritten = sliceport.rewrite(model).model
    assert [node.op_type for node in rewritten.graph.node] == ["Neg"]
    assert rewritten.graph.input == model.graph.input


@pytest.mark.parametrize("dims", ["[n,2]", "[6,2]"])
def test_lower_reads_the_shape_that_an_input_declares_for_itself(dims: str) -> None:
    (node,) = sliceport.lower(
        parse(f"(float[4,2] x) => (float{dims} x, float y) {{ y, z = Split<num_outputs = 2>(x) }}")
    ).nodes
    assert isinstance(node.node, Resolved)
    assert [cut.region.input_shape for cut in node.node.cuts] == [(4, 2), (4, 2)]
