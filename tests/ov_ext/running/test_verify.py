"""`harden --verify` for OpenVINO: before on the reference, after on the CPU plugin and by Model.evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from command_line import Invoke
from onnx_models import save
from openvino import opset1, opset8
from openvino_forms_child import Built
from openvino_models import constant, fixed, make, one_slice, parameter

import sliceport
from ov_ext.defects import hardening
from ov_ext.running.verify import verify_hardening
from sliceport.defects.cases import OpenVINOCase
from sliceport.defects.table import DEFECTS

MASKS = {"new_axis_mask": [0, 1], "shrink_axis_mask": [1, 0]}
OPEN = """(float[n,6] x) => (float[n,m] y, float[n,m] z)
    <int64[1] s = {4}, int64[1] e = {1}, int64[1] a = {1}, int64[1] t = {-1}> {
    y = Slice(x, s, e, a, t)  z = Sigmoid(y)
}"""


def wrong(rows: int = 2) -> ov.Model:
    """Return a model with a node that the plugin computes wrongly."""
    return one_slice("StridedSlice", [rows, 3], ([1, 0], [2, 0], [1, 1]), MASKS, name="row")


@pytest.fixture
def wrong_file(tmp_path: Path) -> Path:
    ov.save_model(wrong(), str(tmp_path / "wrong.xml"), compress_to_fp16=False)
    return tmp_path / "wrong.xml"


def plant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hardening take the row before the right one."""

    def build(view: Any, *_: Any, **__: Any) -> tuple[ov.Node, str]:
        return make("StridedSlice", [view.inputs[0], *map(constant, ([0, 0], [1, 0], [1, 1]))], MASKS), "StridedSlice"

    monkeypatch.setattr(hardening, "_build_replacement", build)


@pytest.mark.parametrize("words", [["--verify"], ["--verify=openvino-cpu"]])
def test_right_model_is_written(wrong_file: Path, tmp_path: Path, invoke: Invoke, words: list[str]) -> None:
    said = invoke("harden", wrong_file, "-o", tmp_path / "o.xml", *words).out
    assert "all outputs are equal: bit for bit if their elements are only moved" in said
    assert "not compared" not in said
    assert (tmp_path / "o.bin").exists()


def test_planted_wrong_rewrite_leaves_no_file(
    wrong_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    plant(monkeypatch)
    before = sorted(tmp_path.iterdir())
    said = invoke("harden", wrong_file, "-o", tmp_path / "o.xml", "--verify", code=1)
    assert "did not write" in said.err
    for place in ("on openvino-cpu:precision=f32", "by Model.evaluate"):
        assert f"differs {place}: first at index [0, 0], " in said.out
    assert sorted(tmp_path.iterdir()) == before


def test_planted_wrong_rewrite_gives_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sliceport.harden(wrong(), verify=True).model is not None
    plant(monkeypatch)
    result = sliceport.harden(wrong(), verify="openvino-cpu")
    assert (result.model, result.is_clean) == (None, False)
    assert result.to_json()["different_outputs"]


def test_model_that_is_left_wrong_is_noted() -> None:
    """Verify the model as it was in place of a hardened one."""
    verification = verify_hardening(wrong(3), wrong(3))
    assert verification.is_equal
    assert "differs on openvino-cpu:precision=f32 as it did before the change" in verification.notes[0]


def test_onnx_is_compared_with_onnxruntime_at_several_sizes(tmp_path: Path) -> None:
    path = save(OPEN, tmp_path / "m.onnx", 13)
    result = verify_hardening(path, ov.Core().read_model(path))
    assert result.is_equal
    runs = result.runs
    assert [run.inputs["x"].shape for run in runs] == [(2, 6)] * 3 + [(3, 6), (1, 6)]
    other = save(OPEN.replace("{4}", "{5}"), tmp_path / "other.onnx", 13)
    verification = verify_hardening(other, ov.Core().read_model(path))
    assert {difference.output for difference in verification.differences} == {"y", "z"}


def test_difference_by_a_contested_reading_names_the_node(tmp_path: Path) -> None:
    path = save(OPEN.replace("n,6", "3,6").replace("{1}", "{2147483647}", 1), tmp_path / "m.onnx", 13)
    text = str(verify_hardening(path, ov.Core().read_model(path)))
    assert "output 'y' differs on openvino-cpu:precision=f32 as it did before the change" in text
    assert "1 Slice 'y': a contested reading: engines disagree about it: by Slice-13, " in text


def test_other_reading_is_no_excuse_for_another_error(tmp_path: Path) -> None:
    """The original model differs on both engines, and so does the other one, by another part."""
    paths = [
        save(
            f"""(float[3,6] x) => (float[3,6] y) <int64[1] s = {{{start}}}, int64[1] e = {{{end}}}, int64[1] a = {{1}},
            int64[1] t = {{-1}}, float k = {{10.0}}> {{
            b = Mul (x, k)  c = Slice (x, s, e, a, t)  r = ReduceSum (c, a)  y = Add (b, r) }}""",
            tmp_path / f"{start}.onnx",
            13,
        )
        for start, end in ((4, 2**31 - 1), (3, 1))
    ]
    same = verify_hardening(paths[0], ov.Core().read_model(paths[0]))
    assert same.is_equal
    assert same.summary == "no output differs by more than before the change"
    other = verify_hardening(paths[0], ov.Core().read_model(paths[1]))
    assert other.differences[0].message.startswith("output 'y' differs by Model.evaluate: ")


def test_output_within_the_tolerance_as_a_whole_is_untested(tmp_path: Path) -> None:
    nodes = "{ c = Slice (x, s, e, a)  y = Mul (c, k) }"
    paths = [
        save(
            f"""(float[3,6] x) => (float[3,3] y) <int64[1] s = {{{start}}}, int64[1] e = {{{start + 3}}},
            int64[1] a = {{1}}, float k = {{0.00001}}> {nodes}""",
            tmp_path / f"{start}.onnx",
            13,
        )
        for start in (1, 2)
    ]
    result = verify_hardening(paths[0], ov.Core().read_model(paths[1]))
    assert result.summary == "no output was verified, because none shows anything"
    assert result.untested["y"].startswith("its elements differ by up to ")
    assert not verify_hardening(paths[0], ov.Core().read_model(paths[0])).untested


@pytest.mark.parametrize("batch", [1, -1])
def test_model_that_evaluate_cannot_run_is_compared_on_the_plugin(batch: int) -> None:
    data = parameter([batch, 3, 8, 8])
    cut = make(
        "StridedSlice",
        [data, *map(constant, ([0, 0, 1], [1, 3, 8], [1, 1, 1]))],
        {"new_axis_mask": [0, 0, 0]},
        ours=False,
    )
    weights = fixed(np.arange(1, 82, dtype=np.float32).reshape(3, 3, 3, 3) / 81)
    sizes: list[list[int]] = [[1, 1], [0, 0], [0, 0], [1, 1]]
    model = ov.Model([opset1.convolution(cut, weights, *sizes).output(0)], [data], "m")
    verification = verify_hardening(model, model)
    assert verification.is_equal
    assert any(
        note.startswith("not compared by Model.evaluate, because neither model runs: ") for note in verification.notes
    )


def test_rounding_differs_on_the_plugin_alone() -> None:
    """Multiply by a number that is larger by one unit in the last place."""

    def model(factor: np.float32) -> ov.Model:
        data = parameter([4, 4])
        return ov.Model([opset8.multiply(data, fixed(np.array([factor]))).output(0)], [data], "m")

    (difference,) = verify_hardening(
        model(np.float32(1)), model(np.nextafter(np.float32(1), np.float32(2)))
    ).differences
    assert "differs by Model.evaluate" in difference.message


def test_other_verifiers_are_refused(wrong_file: Path, tmp_path: Path) -> None:
    with pytest.raises(sliceport.UsageError, match="verify 'onnxruntime-dml' is not known"):
        sliceport.harden(wrong_file, tmp_path / "o.xml", verify="onnxruntime-dml")


def test_model_that_cannot_be_run_is_not_kept(tmp_path: Path) -> None:
    data = parameter([-1])
    data.set_friendly_name("x")
    model = ov.Model([opset1.reshape(data, np.array([7]), False).output(0)], [data], "m")
    with pytest.raises(sliceport.SliceportError, match="openvino does not run the original model .* values for 'x'"):
        verify_hardening(model, model, input_shapes={"x": (5,)})


def test_rank_of_an_input_is_chosen() -> None:
    data = parameter(None)
    model = ov.Model([opset1.relu(data).output(0)], [data], "m")
    assert verify_hardening(model, model).is_equal


@pytest.mark.parametrize("element", ["f64", "f16", "i64", "u8", "boolean"])
def test_types_that_the_plugin_narrows_are_equal(element: str) -> None:
    data = parameter([2, 3], element)
    model = ov.Model([opset8.concat([data, data], 0).output(0)], [data], "m")
    assert verify_hardening(model, model).is_equal


def test_doubles_are_computed_in_single_precision_on_the_plugin() -> None:
    data = parameter([2, 3], "f64")
    model = ov.Model([opset8.multiply(data, fixed(np.array([1 / 3]))).output(0)], [data], "m")
    assert verify_hardening(model, model).is_equal


CASES = {
    defect.id: case
    for defect in DEFECTS
    if defect.handling == "rewritten"
    for example in defect.examples
    if isinstance(case := example.case, OpenVINOCase) and not any(case.run_time) and case.element == "i32"
}


@pytest.mark.parametrize("name", CASES)
def test_hardened_case_of_the_table_is_verified(name: str) -> None:
    result = sliceport.harden(Built(CASES[name].to_json(), folding=False).model, verify=True)
    assert result.is_clean
    assert not [note for note in result.to_json()["notes"] if "not compared" in note or "as it did before" in note]
