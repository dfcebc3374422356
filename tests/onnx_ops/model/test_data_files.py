"""External data files: found wherever a tensor is stored, and let go when lowering is done."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, parser
from onnx_models import parse, read_model

import sliceport
from onnx_ops.model import io
from onnx_ops.model.external_data import describe_data_files, external_locations
from onnx_ops.model.external_data import external_tensors as external_tensors_of
from onnx_ops.model.prepare import external_tensors
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.proto_walk import all_tensors
from onnx_ops.model.read import read_any
from onnx_ops.running.whole_model import OnnxModel
from sliceport.engines.engine import WholeModel
from sliceport.engines.kept_runs import KeptRuns
from sliceport.errors import ModelError, UsageError

TEXT = """<ir_version: 9, opset_import: ["" : 13, "own" : 1]>
g (float[n,6] x) => (float[a,b] y, float[c,d] z, float[e,f] v) <int64[1] s = {1}, int64[1] e = {3}> {
    y = Slice (x, s, e)  c = Constant <value = int64[1] {1}> ()  z = Slice (y, c, e)  v = own.f (x, e)
}
<domain: "own", opset_import: ["" : 13]>
f (p, q) => (r) { t = Constant <value = int64[1] {1}> () r = Slice (p, t, q) }
"""


def tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    yield from model.graph.initializer
    for node in (*model.graph.node, *(n for f in model.functions for n in f.node)):
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a model whose every tensor, the parameters of its slices included, is in another file."""
    model = parser.parse_model(TEXT)
    weights = onnx.numpy_helper.from_array(np.arange(1, 10001, dtype=np.float32).reshape(100, 100), "w")
    model.graph.initializer.append(weights)
    model.graph.node.append(onnx.helper.make_node("Split", ["w"], ["w1", "w2"], axis=0))
    data = b""
    for tensor in tensors(model):
        raw = onnx.numpy_helper.to_array(tensor).tobytes()
        for field in ("raw_data", "int64_data", "float_data"):
            tensor.ClearField(field)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "m.data"), ("offset", len(data)), ("length", len(raw))):
            tensor.external_data.add(key=key, value=str(value))
        data += raw
    (tmp_path / "m.data").write_bytes(data)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "m.onnx"


def is_mapped(file: Path) -> bool:
    return str(file) in Path("/proc/self/maps").read_text()


def is_open(file: Path) -> bool:
    return any(os.path.realpath(link) == str(file) for link in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
class TestReleased:
    @pytest.fixture(autouse=True)
    def _no_collector(self) -> Iterator[None]:
        """Switch the garbage collector off, so that references alone decide."""
        gc.collect()
        gc.disable()
        yield
        gc.enable()

    @pytest.mark.parametrize("shapes", [None, {"x": (4, 6)}])
    def test_lowering_a_file_closes_its_data(self, path: Path, shapes: dict[str, tuple[int, ...]] | None) -> None:
        program = sliceport.lower(path, input_shapes=shapes)
        assert program.summary["refused"] == (0 if shapes else 3)
        assert not is_mapped(path.with_name("m.data"))
        assert not is_open(path.with_name("m.data"))

    def test_lowering_a_model_in_memory_closes_its_data(self, path: Path) -> None:
        model = read_model(path)
        assert sliceport.lower(model, input_shapes={"x": (4, 6)}).summary["refused"] == 0
        assert not is_mapped(path.with_name("m.data"))
        assert all(isinstance(tensor, ir.ExternalTensor) for tensor, _ in external_tensors(model))

    def test_data_that_the_caller_has_open_stay_open(self, path: Path) -> None:
        model = read_model(path)
        tensor = model.graph.initializers["s"].const_value
        assert tensor is not None
        array = tensor.numpy()
        sliceport.lower(model, input_shapes={"x": (4, 6)})
        assert is_mapped(path.with_name("m.data"))
        assert array.tolist() == [1]
        assert model.graph.initializers["s"].const_value is tensor
        assert tensor.numpy() is array

    @pytest.mark.parametrize(
        ("command", "options"),
        [
            ("rewrite", {}),
            ("rewrite", {"verify": True, "input_shapes": {"x": (4, 6)}}),
            ("rewrite", {"simplify": True}),
            ("harden", {"target": "onnxruntime-dml"}),
        ],
    )
    @pytest.mark.parametrize("folder", ["", "other"])
    def test_writing_a_model_closes_the_old_data(
        self, path: Path, folder: str, command: str, options: dict[str, Any]
    ) -> None:
        (path.parent / folder).mkdir(exist_ok=True)
        getattr(sliceport, command)(path, path.parent / folder / "o.onnx", **options)
        assert not is_mapped(path.with_name("m.data"))
        assert not is_open(path.with_name("m.data"))

    @pytest.mark.parametrize("size", [0, 1, 12])
    def test_a_data_file_that_is_too_short_is_closed(self, path: Path, size: int) -> None:
        path.with_name("m.data").write_bytes(path.with_name("m.data").read_bytes()[:size])
        program = sliceport.lower(path, input_shapes={"x": (4, 6)})
        assert program.summary["refused"] == 3
        assert not is_mapped(path.with_name("m.data"))


def test_weights_that_lie_in_attributes_alone_need_no_file(path: Path, tmp_path: Path) -> None:
    model = onnx.load(path, load_external_data=False)
    del model.graph.initializer[:]
    model.graph.initializer.extend(
        [onnx.numpy_helper.from_array(np.array([value]), name) for name, value in (("s", 1), ("e", 3))]
    )
    del model.graph.node[-1]
    path.write_bytes(model.SerializeToString())
    other = tmp_path / "other"
    other.mkdir()
    sliceport.rewrite(path, other / "o.onnx", verify=True, input_shapes={"x": (5, 6)})
    assert os.listdir(other) == ["o.onnx"]
    (tmp_path / "m.data").unlink()
    with pytest.raises(ModelError, match="the data of tensor .* cannot be read"):
        sliceport.rewrite(path, other / "again.onnx")
    assert os.listdir(other) == ["o.onnx"]


def test_a_file_that_the_model_reads_is_not_replaced(path: Path, tmp_path: Path) -> None:
    """Check that the model's own weights stay."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "m.data").rename(tmp_path / "sub" / "o.onnx.data")
    model = onnx.load(path, load_external_data=False)
    for tensor in external_tensors_of(model):
        next(entry for entry in tensor.external_data if entry.key == "location").value = "sub/o.onnx.data"
    path.write_bytes(model.SerializeToString())
    before = (tmp_path / "sub" / "o.onnx.data").read_bytes()
    with pytest.raises(UsageError, match="is a file with weights of the model"):
        sliceport.rewrite(path, tmp_path / "sub" / "o.onnx", overwrite=True)
    assert (tmp_path / "sub" / "o.onnx.data").read_bytes() == before
    assert os.listdir(tmp_path / "sub") == ["o.onnx.data"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_a_path_that_is_not_a_file_is_not_opened(path: Path, tmp_path: Path, kind: str) -> None:
    data = tmp_path / "m.data"
    data.unlink()
    if kind == "pipe":
        os.mkfifo(data)
    elif kind == "folder":
        data.mkdir()
    else:
        data.symlink_to("/dev/zero")
    for work in (sliceport.lower, read_model):
        with pytest.raises(ModelError, match="its data file 'm.data' is not a regular file"):
            work(path)


def test_data_files_in_several_folders_are_refused(tmp_path: Path) -> None:
    """Check a model whose two tensors have equal names of files in two folders."""
    model = ir.from_proto(parse("(float[1] x) => (float[1] y) <float[1] a = {1}, float[1] b = {2}> { y = Sum (a, b) }"))
    tensors = [ir.ExternalTensor("w", 0, 4, ir.DataType.FLOAT, shape=ir.Shape([1]), name=name) for name in "ab"]
    for tensor, folder in zip(tensors, ("one", "two"), strict=True):
        tensor.base_dir = tmp_path / folder
        model.graph.initializers[tensor.name].const_value = tensor
    with pytest.raises(ModelError, match=r"its data files are in several folders \(.*one' and .*two'\)"):
        read_any(model)
    tensors[1].base_dir = tmp_path / "one"
    assert read_any(model).base_dir == str(tmp_path / "one")


def test_large_attributes_do_not_move_into_the_model(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(io, "_MAX_EMBEDDED", 8)
    with pytest.raises(ModelError, match="16 bytes of external data in attributes or functions would"):
        io.write_model(read_model(path), tmp_path / "other" / "o.onnx")
    monkeypatch.setattr(io, "_MAX_EMBEDDED", 16)
    io.write_model(read_model(path), tmp_path / "other" / "o.onnx")


def test_model_is_written_into_a_file_that_is_named_by_the_ending_alone(tmp_path: Path) -> None:
    proto = parse("(float[2] x) => (float[2] y) { y = Neg (x) }")
    io.write_proto(proto, tmp_path / ".onnx")
    assert read_any(tmp_path / ".onnx").proto == proto


EVERYWHERE = """<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
g (bool c, float[2] x) => (float[2] y) {
    a = Constant <value = float[2] {2, 2}> ()  b = own.many <several = 0> (x)
    y = If (c) <
        then_branch = then () => (float[2] d) { e = Constant <value = float[2] {4, 4}> () d = Add (e, x) },
        else_branch = else () => (float[2] f) { f = own.F (c, x) }
    >
}
<domain: "own", opset_import: ["" : 18, "own" : 1]>
F (q, p) => (r) {
    s = Constant <value = float[2] {6, 6}> ()  h = own.many <several = 0> (s)
    r = If (q) <
        then_branch = then () => (float[2] t) { u = Constant <value = float[2] {7, 7}> () t = Add (u, p) },
        else_branch = else () => (float[2] v) { v = Add (p, w) }
    >
}
"""
PLACES = (
    *("main", "attribute", "attributes", "body", "attribute of body"),
    *("function", "attributes of function", "default", "body of function", "attribute of body of function"),
)


@pytest.fixture
def everywhere(tmp_path: Path) -> Path:
    """Return a model with a tensor in each of PLACES, all in another file; the elements number the places."""
    model = parser.parse_model(EVERYWHERE)
    (main_if,) = (node for node in model.graph.node if node.op_type == "If")
    function = model.functions[0]
    (inner_if,) = (node for node in function.node if node.op_type == "If")
    default = function.attribute_proto.add(name="by_default", type=onnx.AttributeProto.TENSOR)
    for many in (model.graph.node[1], function.node[1]):
        del many.attribute[:]
        many.attribute.add(name="several", type=onnx.AttributeProto.TENSORS).tensors.add()
    holders = {
        "main": model.graph.initializer.add(),
        "attribute": model.graph.node[0].attribute[0].t,
        "attributes": model.graph.node[1].attribute[0].tensors[0],
        "body": main_if.attribute[1].g.initializer.add(),
        "attribute of body": main_if.attribute[0].g.node[0].attribute[0].t,
        "function": function.node[0].attribute[0].t,
        "attributes of function": function.node[1].attribute[0].tensors[0],
        "default": default.t,
        "body of function": inner_if.attribute[1].g.initializer.add(),
        "attribute of body of function": inner_if.attribute[0].g.node[0].attribute[0].t,
    }
    assert tuple(holders) == PLACES
    for number, (place, tensor) in enumerate(holders.items()):
        name = "w" if place == "body of function" else place
        tensor.CopyFrom(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2]))
        tensor.doc_string = place
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "m.data"), ("offset", 8 * number), ("length", 8)):
            tensor.external_data.add(key=key, value=str(value))
    (tmp_path / "m.data").write_bytes(np.arange(len(PLACES), dtype=np.float32).repeat(2).tobytes())
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "m.onnx"


def elements(path: Path) -> dict[str, list[float]]:
    """Map each place to the elements of its tensor."""
    tensors = all_tensors(onnx.load(path, load_external_data=False))
    return {tensor.doc_string: Tensor(tensor, str(path.parent)).numpy().tolist() for tensor in tensors}


def test_tensors_are_found_in_all_places(everywhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "m.data").write_bytes(b"x" * 800)
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = {tensor.doc_string: tensor.numpy().tolist() for tensor, _ in external_tensors(read_model(everywhere))}
    assert found == elements(everywhere) == {place: [float(i)] * 2 for i, place in enumerate(PLACES)}


@pytest.mark.parametrize("place", PLACES)
def test_folder_of_external_tensors_in_one_place_is_found(everywhere: Path, place: str) -> None:
    model = read_model(everywhere)
    io.load_externals([pair for pair in external_tensors(model) if pair[0].doc_string != place])
    assert read_any(model).base_dir == str(everywhere.parent)


@pytest.mark.parametrize("command", ["rewrite", "harden"])
def test_tensors_of_all_places_move(
    everywhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir("/")
    other = tmp_path / "other"
    other.mkdir()
    expected = elements(everywhere)
    options = {"target": "onnxruntime-dml"} if command == "harden" else {}
    getattr(sliceport, command)(everywhere, other / "o.onnx", **options)
    everywhere.unlink()
    everywhere.with_name("m.data").unlink()
    assert external_locations(onnx.load(other / "o.onnx", load_external_data=False)) <= {"o.onnx.data"}
    assert sorted(os.listdir(other)) == ["o.onnx", "o.onnx.data"]
    assert elements(other / "o.onnx") == expected


@pytest.mark.parametrize("name", ["everywhere", "path"])
def test_tensors_that_the_caller_looks_at_move_too(tmp_path: Path, request: pytest.FixtureRequest, name: str) -> None:
    source = request.getfixturevalue(name)
    other = tmp_path / "other"
    other.mkdir()
    model = read_model(source)
    held = [tensor.numpy() for tensor, _ in external_tensors(model)]
    expected = [array.tolist() for array in held]
    io.write_model(model, other / "o.onnx")
    after = all_tensors(onnx.load(other / "o.onnx", load_external_data=False))
    written = [Tensor(tensor, str(other)).numpy().tolist() for tensor in after]
    assert sorted(written, key=str) == sorted(expected, key=str)
    assert [array.tolist() for array in held] == expected


def test_optimizer_leaves_attributes_of_unknown_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check attributes of all types, with tensors in files beside the model, not in the current folder."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "m.data").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    (tmp_path / "elsewhere" / "m.data").write_bytes(b"x" * 24)
    monkeypatch.chdir(tmp_path / "elsewhere")
    tensors = [
        TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2], data_location="EXTERNAL") for name in "abc"
    ]
    for number, tensor in enumerate(tensors):
        for key, value in (("location", "m.data"), ("offset", 8 * number), ("length", 8)):
            tensor.external_data.add(key=key, value=str(value))
    first, *others = tensors
    body = parser.parse_graph("body () => (float[4] n) { n = Constant<value_floats = [1.0, 1.0, 1.0, 1.0]> () }")
    vector = onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    own: dict[str, Any] = {"float": 1.5, "int": 2, "string": "s", "tensor": first, "graph": body, "type": vector}
    own |= {"floats": [1.5, 2.5], "ints": [2, 3], "strings": ["s", "t"], "tensors": others, "graphs": [body, body]}
    nodes = "{ four = Add (two, two)  x1 = Reshape (x, four)  z = Neg (x1)  y = own.Many (z) }"
    model = parse(f"(float[4] x) => (float[4] y, float[4] z) <int64[1] two = {{2}}> {nodes}", 18, 9, own=1)
    model.graph.node[-1].attribute.extend(onnx.helper.make_attribute(name, value) for name, value in own.items())
    onnx.save(model, tmp_path / "m.onnx")
    sliceport.rewrite(tmp_path / "m.onnx", tmp_path / "out" / "o.onnx", simplify=True)
    after = onnx.load(tmp_path / "out" / "o.onnx")
    assert "Add" not in {node.op_type for node in after.graph.node}, "simplified"
    (tmp_path / "m.data").replace(tmp_path / "elsewhere" / "m.data")
    before = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    onnx.external_data_helper.load_external_data_for_model(before, str(tmp_path / "elsewhere"))
    expected = {each.name: each for each in before.graph.node[-1].attribute}
    found = {each.name: each for each in after.graph.node[-1].attribute}
    assert found.keys() == expected.keys() == own.keys()
    for name in own:
        if name.startswith("tensor"):
            pairs = zip(*([each.t, *each.tensors] for each in (found[name], expected[name])), strict=True)
            assert all(one.raw_data == other.raw_data for one, other in pairs), name
        elif name.startswith("graph"):
            graphs = [each for each in (found[name].g, *found[name].graphs) if each.node]
            assert [[node.op_type for node in each.node] for each in graphs] == [["Constant"]] * (
                1 + (name == "graphs")
            )
        else:
            assert found[name] == expected[name], name


@pytest.mark.parametrize("place", PLACES)
def test_the_file_of_a_tensor_in_any_place_is_not_replaced(everywhere: Path, tmp_path: Path, place: str) -> None:
    model = onnx.load(everywhere, load_external_data=False)
    for tensor in external_tensors_of(model):
        if tensor.doc_string == place:
            next(entry for entry in tensor.external_data if entry.key == "location").value = "o.onnx"
    everywhere.write_bytes(model.SerializeToString())
    data = everywhere.with_name("m.data").read_bytes()
    (tmp_path / "o.onnx").write_bytes(data)
    for command, options in (("rewrite", {}), ("harden", {"target": "onnxruntime-dml"})):
        with pytest.raises(UsageError, match="is a file with weights of the model"):
            getattr(sliceport, command)(everywhere, tmp_path / "o.onnx", overwrite=True, **options)
    assert (tmp_path / "o.onnx").read_bytes() == data


@pytest.mark.parametrize("name", ["o.xml", "o.bin"])
def test_ir_does_not_replace_the_weights_of_an_onnx_model(path: Path, tmp_path: Path, name: str) -> None:
    model = onnx.load(path, load_external_data=False)
    for tensor in external_tensors_of(model):
        next(entry for entry in tensor.external_data if entry.key == "location").value = name
    path.write_bytes(model.SerializeToString())
    data = (tmp_path / "m.data").rename(tmp_path / name).read_bytes()
    with pytest.raises(UsageError, match=f"{name}' is a file with weights of the model"):
        sliceport.harden(path, tmp_path / "o.xml", target="openvino-cpu", overwrite=True)
    assert (tmp_path / name).read_bytes() == data


@pytest.fixture
def wide(tmp_path: Path) -> Callable[[int], onnx.ModelProto]:
    """Return a function that writes a sparse file `w.bin` of a size, and returns a model with this weight."""

    def make(size: int) -> onnx.ModelProto:
        with open(tmp_path / "w.bin", "wb") as file:
            file.truncate(size)
        model = parse(f"() => (uint8[{size}] y) {{ y = Identity (w) }}")
        weight = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[size], data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value="w.bin")
        model.graph.initializer.append(weight)
        return model

    return make


def test_version_of_data_changes_with_the_size_and_the_time_of_a_file(
    wide: Callable[[int], onnx.ModelProto], tmp_path: Path
) -> None:
    model, folder = wide(2**20), str(tmp_path)
    versions = [describe_data_files(model, folder)]
    assert describe_data_files(model, folder) == versions[0] != ""
    os.utime(tmp_path / "w.bin", ns=(0, 1))
    versions.append(describe_data_files(model, folder))
    with open(tmp_path / "w.bin", "ab") as file:
        file.write(b"more")
    os.utime(tmp_path / "w.bin", ns=(0, 1))
    versions.append(describe_data_files(model, folder))
    assert len(set(versions)) == 3
    runs = KeptRuns(tmp_path)
    whole = (WholeModel("onnx", b"", (), ("y",), data_version=version) for version in versions)
    assert len({runs.path_of("engine", each, {}) for each in whole}) == 3


def test_weights_above_2_gib_are_refused_before_they_are_read(
    wide: Callable[[int], onnx.ModelProto], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whole(size: int) -> OnnxModel:
        return OnnxModel("onnx", wide(size).SerializeToString(), (), ("y",), data_folder=str(tmp_path))

    assert len(whole(2**20).load().graph.initializer[0].raw_data) == 2**20
    model = whole(2**31)
    monkeypatch.setattr(onnx.external_data_helper, "load_external_data_for_model", lambda *_: pytest.fail("it is read"))
    size = 2**31 + len(model.data)
    message = rf"^the model with all its weights has {size} bytes of data, and protobuf writes at most 2147483647\.$"
    with pytest.raises(ModelError, match=message):
        model.load()


def test_data_file_beside_a_model_that_onnx_ir_loads_by_its_name_is_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    model = ir.load(path.name)  # its tensors have an empty folder, which stands for the current one
    assert read_any(model).base_dir == str(path.parent)
