"""A model is read alike whether it is a ModelProto, which is read where it is, or onnx-ir's; and what that loads."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conftest import MODELS, SHARED
from fuzz.modules import generate, load
from fuzz.one_node import model_of
from onnx.reference import ReferenceEvaluator
from onnx_models import parse

import sliceport
from onnx_ops.model.element_type import ElementType
from onnx_ops.model.io import from_proto
from onnx_ops.model.nodes import constant
from onnx_ops.model.proto_reader import read_view
from onnx_ops.model.proto_tensor import Tensor
from onnx_ops.model.read import read_proto
from sliceport.errors import ModelError, UsageError

InputShapes = Mapping[str, Sequence[int]] | None
DEFECTS = sorted((SHARED / "vectors" / "found_defects").glob("*.onnx"))
ZOO = sorted((SHARED / "zoo").glob("*.onnx"))
FUZZED = 150
SLOW_MODULES = ("onnx_ir", "sympy", "onnxscript", "onnxruntime", "openvino")
"""Modules that take long to load."""


def outcome(read: Callable[[], onnx.ModelProto | ir.Model], input_shapes: InputShapes) -> Any:
    """Return the nodes of the program, or the error."""
    try:
        return sliceport.lower(read(), input_shapes=input_shapes).nodes
    except (ModelError, UsageError) as error:
        return f"{type(error).__name__}: {error}"


def assert_read_alike(proto: onnx.ModelProto, input_shapes: InputShapes = None) -> None:
    assert outcome(lambda: proto, input_shapes) == outcome(lambda: from_proto(proto), input_shapes)


def sizes_of_inputs(proto: onnx.ModelProto, of_open_ones: int) -> dict[str, list[int]]:
    shapes: dict[str, Any] = {value.name: value.type.tensor_type.shape.dim for value in proto.graph.input}
    return {name: [max(dim.dim_value, 0) or of_open_ones for dim in dims] for name, dims in shapes.items()}


@pytest.mark.parametrize("entry", json.loads((MODELS / "models.json").read_text()), ids=lambda entry: entry["file"])
def test_both_views_read_the_same_of_models(entry: dict[str, Any]) -> None:
    path = MODELS / entry["file"]
    if path.suffix == ".onnx":
        proto = read_proto(path)
        assert_read_alike(proto)
        assert_read_alike(proto, entry["input_shapes"])


def test_typed_data_have_the_bytes_of_their_element_type() -> None:
    tensor = onnx.helper.make_tensor("t", onnx.TensorProto.UINT32, [2], [1, 2**31])
    assert Tensor(tensor).tobytes() == np.array([1, 2**31], "<u4").tobytes()


@pytest.mark.parametrize("path", [*ZOO, *DEFECTS], ids=lambda path: path.name)
def test_both_views_read_the_same_of_exports(path: Path) -> None:
    try:
        proto = read_proto(path)
    except ModelError:
        return
    for size in (2, 7):
        assert_read_alike(proto, sizes_of_inputs(proto, size))


@pytest.mark.parametrize("numbers", [range(FUZZED), range(FUZZED, 2 * FUZZED)], ids=str)
def test_both_views_read_the_same_of_single_nodes(numbers: range) -> None:
    for number in numbers:
        assert_read_alike(model_of(generate(load("one_node"), "views", number)))


def test_both_views_read_the_same_of_random_graphs() -> None:
    for number in range(FUZZED // 3):
        case = generate(load("graphs"), "views", number)
        assert_read_alike(onnx.ModelProto.FromString(base64.b64decode(case["model"])))


@pytest.mark.parametrize("ir_version", [3, 8])
def test_both_views_read_the_same_of_defaults_in_subgraphs(ir_version: int) -> None:
    """Check that only those of the main graph were constants once; a loop gives the inputs of its body."""
    proto = onnx.parser.parse_model(f"""<ir_version: {ir_version}, opset_import: ["" : 17]>
        g (float[9] x, int64[1] e) => (float[9] y, float[a, b] parts) <int64[1] e = {{3}}> {{
            z = Constant<value_ints=[0]>()  m = Constant<value_int=2>()  t = Constant<value_int=1>()  c = Cast<to=9>(t)
            y, parts = Loop(m, c, x)
        }}""")
    body = onnx.parser.parse_graph("""body (int64 n, bool c, float[9] v) => (bool d, float[9] w, float[k] part) {
        d = Identity(c)  w = Neg(v)  s = Unsqueeze(n, z)  part = Slice(v, s, e)
    }""")
    body.initializer.append(onnx.numpy_helper.from_array(np.array(1), "n"))
    proto.graph.node[-1].attribute.append(onnx.helper.make_attribute("body", body))
    assert_read_alike(proto)
    (node,) = sliceport.lower(proto).nodes
    assert node.reason is not None
    assert "starts comes from node" in node.reason.message


@pytest.mark.parametrize(
    "attribute", ["value_int = 3", "value_ints = [3, 4]", "value_float = 3.1", "value_floats = [3.1]"]
)
def test_both_views_read_the_numbers_of_a_constant(attribute: str) -> None:
    proto = parse(f"() => (y) {{ y = Constant<{attribute}>() }}", 17)
    expected = np.asarray(next(iter(ReferenceEvaluator(proto).run(None, {}))))
    graphs: list[Any] = [read_view(proto).graph, from_proto(proto).graph]
    for graph in graphs:
        tensor = constant(next(iter(graph)).outputs[0])
        assert tensor is not None
        array = tensor.numpy()
        assert (array.dtype, array.shape, array.tolist()) == (expected.dtype, expected.shape, expected.tolist())


ADVICE = re.compile(r"is not known; .*? \(an example\)")


def outcome_of_ir(proto: onnx.ModelProto) -> str:
    return str(outcome(lambda: from_proto(proto), None))


def test_both_views_read_the_same_of_damaged_files() -> None:
    for number in range(FUZZED):
        proto = onnx.ModelProto()
        try:
            proto.ParseFromString(base64.b64decode(generate(load("files"), "views", number)["file"]))
        except Exception:  # protobuf has its own classes of errors
            continue
        if len(ir.DataType) < len(ElementType) and "is not a valid DataType" in outcome_of_ir(proto):
            continue  # an older onnx-ir lacks element types
        if "the model cannot be represented" in outcome_of_ir(proto):
            outcome(lambda: proto, None)  # noqa: B023 - the view of protos may read it, and raises nothing else
            continue
        # The advice names an input, whose damaged type onnx-ir may leave out.
        read, of_ir = (ADVICE.sub("", text) for text in (str(outcome(lambda: proto, None)), outcome_of_ir(proto)))  # noqa: B023
        assert read == of_ir


def loaded_by(*words: str) -> list[str]:
    """Return the slow modules that a command line loads."""
    code = "import sys; from sliceport.cli.main import main; main(sys.argv[1:]); "
    code += f"print([name for name in {SLOW_MODULES} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stderr.splitlines()[-1].replace("'", '"'))
    return found


@pytest.mark.parametrize("name", ["rule_coalesce.onnx", "rule_subgraphs.onnx", "rule_siblings.onnx"])
def test_a_model_of_known_shapes_is_read_without_onnx_ir(name: str, tmp_path: Path) -> None:
    assert loaded_by("lower", str(MODELS / name), "-o", str(tmp_path / "out")) == []
    assert (tmp_path / "out" / "model.onnx").exists()


def test_a_model_of_inferred_shapes_is_read_without_onnx_ir() -> None:
    words = ["lower", str(MODELS / "ts_bert_dyn_14.onnx"), "--input-shapes", "x:1,16"]
    assert loaded_by(*words) == []


@pytest.mark.parametrize("command", ["lower", "check"])
def test_a_model_with_functions_is_read_without_onnx_ir(command: str) -> None:
    assert loaded_by(command, str(MODELS / "rule_function.onnx")) == []
