"""`import sliceport`: the same four functions whatever the format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import openvino as ov
import pytest
from openvino import opset8

import sliceport
from sliceport.formats import choose_target, format_of


def slice_proto() -> onnx.ModelProto:
    text = '<ir_version: 9, opset_import: ["" : 9]> g (float[4,6] x) => (float[2,6] y) {'
    return onnx.parser.parse_model(f"{text} y = Slice <starts = [1], ends = [3], axes = [0]> (x) }}")


def openvino_model() -> ov.Model:
    data = ov.op.Parameter(ov.Type.f32, ov.PartialShape([4, 6]))
    made = opset8.slice(data, [1], [3], [1], [0])
    return ov.Model([made.output(0)], [data], "m")


def test_lower_takes_files_and_objects_of_every_format(tmp_path: Path) -> None:
    proto, model = slice_proto(), openvino_model()
    onnx.save(proto, tmp_path / "m.onnx")
    onnx.save(proto, tmp_path / "m.anything")
    ov.save_model(model, tmp_path / "m.xml")
    expected = sliceport.lower(proto).to_json()
    for given in (proto, ir.from_proto(proto), tmp_path / "m.onnx", str(tmp_path / "m.anything")):
        assert sliceport.lower(given).to_json() == expected
    expected = sliceport.lower(model).to_json()
    for given in (model, tmp_path / "m.xml"):
        assert [node["operators"] for node in sliceport.lower(given).to_json()["nodes"]] == [
            node["operators"] for node in expected["nodes"]
        ]


def test_write_needs_the_model_no_more(tmp_path: Path) -> None:
    """A program owns its model: the file may go, and objects may change."""
    proto = slice_proto()
    model = ir.from_proto(proto)
    onnx.save(proto, tmp_path / "m.onnx")
    programs = [sliceport.lower(given) for given in (tmp_path / "m.onnx", proto, model)]
    (tmp_path / "m.onnx").unlink()
    proto.graph.node[0].output[0] = proto.graph.output[0].name = "z"
    model.graph[0].op_type = "Neg"
    for i, program in enumerate(programs):
        program.write(tmp_path / str(i))
        annotated = onnx.load(tmp_path / str(i) / "model.onnx")
        assert (annotated.graph.node[0].op_type, list(annotated.graph.node[0].output)) == ("Slice", ["y"])
        found = {entry.key: entry.value for entry in annotated.graph.node[0].metadata_props}
        assert found["io.sliceport.verdict"] == "lowered"
        assert found["io.sliceport.dxdispatch"] == '["dxdispatch/0000_y.json"]'


def test_weights_are_only_read_to_write_them(tmp_path: Path) -> None:
    """The weights of a model in memory are lazy."""

    def fail() -> ir.Tensor[Any]:
        raise OSError("the disk is gone")

    model = ir.from_proto(slice_proto())
    weights = ir.LazyTensor(fail, ir.DataType.FLOAT, ir.Shape([2**20]), name="w")
    model.graph.register_initializer(ir.Value(name="w", const_value=weights))
    program = sliceport.lower(model)
    assert program.summary["lowered"] == 1
    with pytest.raises(sliceport.ModelError, match="annotated model cannot be written: the disk is gone"):
        program.write(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_options_are_those_of_the_format() -> None:
    program = sliceport.lower(slice_proto(), feature_level="2.0", views=False)
    assert str(program.feature_level) == "2.0"
    with pytest.raises(sliceport.UsageError, match="input 'z'"):
        sliceport.lower(slice_proto(), input_shapes={"z": (1,)})


def test_compare_runs_the_named_executors(tmp_path: Path) -> None:
    onnx.save(slice_proto(), tmp_path / "m.onnx")
    report = sliceport.compare(tmp_path / "m.onnx", executors=["dml-emulator"], seed=2)
    assert [c.status for c in report.comparisons] == ["equal"]


def test_rewrite_and_harden_write_files(tmp_path: Path) -> None:
    onnx.save(slice_proto(), tmp_path / "m.onnx")
    result = sliceport.rewrite(tmp_path / "m.onnx", tmp_path / "out.onnx", verify=True)
    assert result.is_clean
    assert result.verification is not None
    assert result.verification.is_equal
    assert "nodes_before" in result.to_json()
    with pytest.raises(sliceport.UsageError, match=r"exists; give another name or overwrite=True"):
        sliceport.harden(tmp_path / "m.onnx", tmp_path / "out.onnx")
    result = sliceport.harden(tmp_path / "m.onnx", tmp_path / "out.onnx", overwrite=True)
    assert result.changes.to_json()["target"] == "onnxruntime-dml"
    result = sliceport.harden(tmp_path / "m.onnx", tmp_path / "out.xml")
    assert result.changes.to_json()["target"] == "openvino-cpu"
    assert (tmp_path / "out.xml").is_file()


@pytest.mark.parametrize(
    ("model", "output", "target", "chosen"),
    [
        ("m.onnx", "o.onnx", None, ("onnx", "onnxruntime-dml")),
        ("m.onnx", "o.xml", None, ("openvino", "openvino-cpu")),
        ("m.xml", "o.xml", None, ("openvino", "openvino-cpu")),
        ("m.xml", "o.onnx", None, ("openvino", "openvino-cpu")),
        ("m.pb", "o.onnx", None, ("onnx", "onnxruntime-dml")),
        ("m.onnx", "o.onnx", "openvino-cpu", ("openvino", "openvino-cpu")),
        ("m.onnx", "o.xml", "onnxruntime-dml", ("onnx", "onnxruntime-dml")),
    ],
)
def test_target_is_chosen_by_the_files(model: str, output: str, target: str | None, chosen: tuple[str, ...]) -> None:
    format_, engine = choose_target(model, output, target)
    assert (format_.name, engine) == chosen


@pytest.mark.parametrize(
    ("model", "target", "message"),
    [
        ("m.xml", "onnxruntime-dml", "'m.xml' cannot be hardened for onnxruntime-dml: it is OpenVINO IR"),
        ("m.pb", "openvino-cpu", "'m.pb' cannot be hardened for openvino-cpu: it is ONNX"),
        ("m.onnx", "openvino-gpu", "target 'openvino-gpu' is not known, did you mean 'openvino-cpu'"),
    ],
)
def test_targets_that_do_not_fit(model: str, target: str, message: str) -> None:
    with pytest.raises(sliceport.UsageError, match=message):
        choose_target(model, "o.onnx", target)


def test_simplify_names_no_optimizer() -> None:
    with pytest.raises(sliceport.UsageError, match="simplify must be True or False, got 'onnxslim'"):
        sliceport.rewrite("m.onnx", "out.onnx", simplify="onnxslim")  # type: ignore[arg-type]


def test_rewrite_takes_no_openvino_model(tmp_path: Path) -> None:
    with pytest.raises(sliceport.UsageError, match="rewrite takes ONNX models, not OpenVINO IR"):
        sliceport.rewrite("m.xml", tmp_path / "o.onnx")
    assert format_of("m.xml").passes() == ({}, {})


@pytest.mark.parametrize(
    "call",
    ["lower('m.xml')", "check('m.xml')", "compare('m.xml')", "harden('m.xml', 'n')", "diff('m.xml', on='openvino')"],
)
def test_missing_openvino_is_reported(call: str) -> None:
    code = f"import sys; sys.modules['openvino'] = None; import sliceport; sliceport.{call}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.endswith(
        'MissingExtra: openvino is needed by ov_ext, but it is not installed; run: pip install "sliceport[openvino]".\n'
    )


class TestRepresentations:
    def test_repr_is_one_short_line(self) -> None:
        proto = slice_proto()
        assert repr(sliceport.lower(proto)) == "<Program: 1 slicing node: 1 lowered>"
        assert repr(sliceport.compare(proto)) == "<Report: 1 comparison: 1 equal>"
        assert repr(sliceport.rewrite(proto)) == "<Result: slicing nodes: 1 before, 1 after>"

    def test_html_escapes_names(self) -> None:
        proto = slice_proto()
        proto.graph.node[0].name = "<b>"
        results: list[Any] = [sliceport.lower(proto), sliceport.compare(proto), sliceport.harden(proto)]
        for result in results:
            assert "<b>" not in result._repr_html_()
        assert (
            "<td>&lt;b&gt;</td><td>Slice</td><td>lowered</td><td>DML_OPERATOR_SLICE1</td>" in results[0]._repr_html_()
        )

    def test_json_has_a_schema_version(self) -> None:
        proto = slice_proto()
        for function in (sliceport.lower, sliceport.compare, sliceport.rewrite, sliceport.harden):
            assert type(function(proto).to_json()["schema_version"]) is int
