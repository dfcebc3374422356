"""Functions of `sliceport` on models in memory: the result is of the same type, and the argument is not changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import openvino as ov
import pytest
from onnx import numpy_helper
from onnx_models import parse, save
from openvino_models import constant, parameter

import ov_ext
import sliceport
from sliceport.errors import UsageError

TWO_SLICES = """(float[4,6] x) => (float[2,2] y) <int64[1] one = {1}, int64[1] three = {3}, int64[1] axis = {1}> {
    z = Slice(x, one, three, axis)
    y = Slice(z, one, three)
}"""
GLU = "(float[4] x) => (float[2] y) { p, q = Split(x) s = Sigmoid(q) y = Mul(p, s) }"
GRAPHS = {"rewrite": TWO_SLICES, "harden": GLU}
KINDS: dict[str, Callable[[onnx.ModelProto], Any]] = {
    "ModelProto": lambda proto: proto,
    "onnx_ir": ir.serde.deserialize_model,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"rewrite": sliceport.rewrite, "harden": sliceport.harden}


def model_for(name: str) -> onnx.ModelProto:
    return parse(GRAPHS[name], 13)


def to_proto(model: Any) -> onnx.ModelProto:
    return model if isinstance(model, onnx.ModelProto) else ir.to_proto(model)


def ops(model: Any) -> list[str]:
    return [node.op_type for node in to_proto(model).graph.node]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
class TestChanges:
    def test_result_has_the_type_of_the_argument_and_the_nodes_of_the_file(
        self, tmp_path: Path, kind: str, name: str
    ) -> None:
        model = KINDS[kind](model_for(name))
        before = to_proto(model).SerializeToString()
        FUNCTIONS[name](save(model_for(name), tmp_path / "m.onnx"), tmp_path / "o.onnx")
        result = FUNCTIONS[name](model)
        assert type(result.model) is type(model)
        assert ops(result.model) == ops(onnx.load(tmp_path / "o.onnx")) != ops(model)
        assert to_proto(model).SerializeToString() == before

    def test_output_is_written_too(self, tmp_path: Path, kind: str, name: str) -> None:
        result = FUNCTIONS[name](KINDS[kind](model_for(name)), tmp_path / "o.onnx")
        assert ops(result.model) == ops(onnx.load(tmp_path / "o.onnx"))
        with pytest.raises(UsageError, match="exists"):
            FUNCTIONS[name](KINDS[kind](model_for(name)), tmp_path / "o.onnx")

    def test_model_without_work_comes_back_equal(self, kind: str, name: str) -> None:
        model = KINDS[kind](parse("(float[4] x) => (float[4] y) { y = Neg(x) }", 13))
        assert to_proto(FUNCTIONS[name](model).model) == to_proto(model)

    def test_file_without_an_output_is_refused(self, kind: str, name: str, tmp_path: Path) -> None:
        path = tmp_path / f"{kind}.onnx"
        onnx.save(model_for(name), path)
        with pytest.raises(UsageError, match="a model in a file needs an output"):
            FUNCTIONS[name](path)


@pytest.mark.parametrize("kind", KINDS)
class TestVerified:
    def test_equal_result_is_returned(self, kind: str) -> None:
        result = sliceport.rewrite(KINDS[kind](model_for("rewrite")), verify=True)
        assert result.is_written
        assert ops(result.model).count("Slice") == 1

    def test_different_result_is_dropped(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def break_model(model: ir.Model, *_: object) -> Any:
            next(node for node in model.graph if node.op_type == "Slice").replace_input_with(1, model.graph.inputs[1])
            return report

        report = sliceport.rewrite(parse(TWO_SLICES, 13)).changes
        proto = parse(TWO_SLICES.replace("float[4,6] x)", "float[4,6] x, int64[1] i)"), 13)
        monkeypatch.setattr("onnx_ops.passes.rewrite", break_model)
        result = sliceport.rewrite(KINDS[kind](proto), verify=True, inputs={"i": np.array([0])})
        assert not result.is_written
        assert result.model is None
        assert "differs" in result.text()


def test_external_weights_stay_in_their_file(tmp_path: Path) -> None:
    proto = model_for("rewrite")
    weights = np.arange(24, dtype=np.float32).reshape(4, 6)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    proto.graph.node.insert(0, onnx.helper.make_node("Add", ["x", "w"], ["sum"]))
    proto.graph.node[1].input[0] = "sum"
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    model = ir.load(tmp_path / "m.onnx")
    result = sliceport.rewrite(model, verify=True)
    assert isinstance(result.model.graph.initializers["w"].const_value, ir.ExternalTensor)
    assert result.model.graph.initializers["w"].const_value.numpy().tolist() == weights.tolist()
    assert sliceport.compare(model).is_clean
    (tmp_path / "other").mkdir()
    sliceport.rewrite(model, tmp_path / "other" / "o.onnx")
    written = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in onnx.load(tmp_path / "other" / "o.onnx").graph.initializer
    }
    assert written["w"].tolist() == weights.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_compare_takes_the_model(kind: str) -> None:
    report = sliceport.compare(KINDS[kind](model_for("rewrite")))
    assert [one.status for one in report.comparisons] == ["equal", "equal"]
    assert report.command.startswith("sliceport compare MODEL ")


def test_command_of_a_comparison_names_the_option_of_inputs() -> None:
    model = parse("(float[4] x) => (y) <int64[1] s = {1}> { y = Slice (x, s, s) }")
    report = sliceport.compare(model, inputs={"x": np.ones(4, np.float32)})
    assert report.command.endswith(" (and the same --input)")


@pytest.mark.parametrize("kind", KINDS)
def test_diff_takes_models(kind: str) -> None:
    before, after = KINDS[kind](model_for("rewrite")), KINDS[kind](model_for("rewrite"))
    assert sliceport.diff(before, on="onnxruntime-cpu").is_equal
    assert sliceport.diff(before, sliceport.rewrite(after).model, on="onnxruntime-cpu").is_equal
    wrong = model_for("rewrite")
    wrong.graph.initializer[1].int64_data[0] = 4
    report = sliceport.diff(before, KINDS[kind](wrong), on="onnxruntime-cpu")
    assert not report.is_equal


class TestOpenVINO:
    def model(self) -> ov.Model:
        data = parameter([3, 2], "i32")
        node = ov.opset1.strided_slice(
            data, constant([1]), constant([2]), constant([1]), [1], [0], shrink_axis_mask=[1]
        )
        return ov.Model([node.output(0)], [data], "m")

    def test_harden_returns_a_model_and_leaves_the_argument(self) -> None:
        model = self.model()
        result = sliceport.harden(model)
        (change,) = result.to_json()["changes"]
        assert change["replacement"] == "StridedSlice"
        run = ov.Core().compile_model(result.model, "CPU")
        assert run([np.arange(6, dtype=np.int32).reshape(3, 2)])[0].tolist() == [2, 3]
        assert next(op for op in model.get_ops() if op.get_type_name() == "StridedSlice").get_attributes()[
            "begin_mask"
        ] == [1]

    def test_harden_writes_an_output(self, tmp_path: Path) -> None:
        result = sliceport.harden(self.model(), tmp_path / "o.xml")
        assert result.model is not None
        assert ov_ext.read_model(tmp_path / "o.xml").output(0).get_partial_shape().to_shape() == [2]

    def test_compare_takes_the_model(self) -> None:
        statuses = {one.executor: one.status for one in sliceport.compare(self.model()).comparisons}
        assert statuses["ov_ext"] == statuses["dml-emulator"] == "equal"
        assert statuses["openvino-cpu"] == "mismatch"

    def test_diff_takes_the_model(self) -> None:
        report = sliceport.diff(self.model(), on="openvino-cpu", against="openvino")
        assert report.part is not None
        assert report.part.case.culprit.op_type == "StridedSlice"
        assert repr(report).startswith("<DiffReport: openvino-cpu")
        assert "<td>different</td>" in report._repr_html_()

    def test_rewrite_and_other_targets_are_refused(self) -> None:
        with pytest.raises(UsageError, match="rewrite takes ONNX models, not OpenVINO IR, got Model"):
            sliceport.rewrite(self.model())
        with pytest.raises(UsageError, match="an object of openvino cannot be hardened for onnxruntime-dml: it is Op"):
            sliceport.harden(self.model(), target="onnxruntime-dml")
