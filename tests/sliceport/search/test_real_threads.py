"""Failures of real threads: diff names the node, and the known defect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import save
from planted_faults import part_of
from platforms import require_shader_model_6

from sliceport.device import Device
from sliceport.search.diff import diff
from sliceport.search.report import Part


def find_part(*models: Path, **options: Any) -> Part:
    return part_of(diff(*models, open_sizes="primes", **options))


@pytest.mark.usefixtures("provider_kept")
def test_wrong_fusion_of_directml_is_explained(directml: Device, models: Path) -> None:
    """onnxruntime#32146."""
    require_shader_model_6(directml)
    part = find_part(models / "rule_glu.onnx", on="onnxruntime-dml")
    assert [node.op_type for node in part.case.nodes] == ["Split", "Sigmoid", "Mul"]
    assert part.case.is_fusion
    assert [defect.id for defect in part.defects] == ["one part gates another"]


@pytest.mark.usefixtures("directml", "provider_kept")
def test_refusal_of_directml_is_explained(models: Path) -> None:
    """A Reshape as torch's dynamo exporter writes it."""
    part = find_part(models / "dynamo_attention_dyn.onnx", on="onnxruntime-dml")
    assert [node.op_type for node in part.case.nodes] == ["Reshape"]
    assert [defect.id for defect in part.defects] == ["allowzero and a -1"]


def test_slices_that_an_optimizer_merges_wrongly_are_named(tmp_path: Path) -> None:
    """OnnxSlim#277: it leaves out that the second Slice counts from the first one's start."""
    text = """(float[1,16,4] x) => (y, u)
        <int64[1] s1 = {2}, int64[1] e1 = {12}, int64[1] a = {1}, int64[1] s2 = {3}, int64[1] e2 = {9}> {
        [first] t = Slice (x, s1, e1, a)
        [second] y = Slice (FROM, s2, e2, a)  [r] u = Relu (t) }"""
    before = save(text.replace("FROM", "t"), tmp_path / "before.onnx")
    part = find_part(before, save(text.replace("FROM", "x"), tmp_path / "after.onnx"))
    assert [node.name for node in part.case.nodes] == ["second"]
    assert part.counterpart == "Slice 'second'"


def test_slice_of_a_shape_that_an_optimizer_drops_is_named(tmp_path: Path) -> None:
    """onnx/optimizer#263."""
    before = """(float[n,3,5] x) => (y) <int64[1] one = {1}, int64[1] end = {3}> {
        [shape] s = Shape (x)  [slice] t = Slice (s, one, end)  [fill] f = ConstantOfShape (t)  [last] y = Exp (f) }"""
    after = before.replace("Slice (s, one, end)", "Identity (s)")
    part = find_part(*(save(text, tmp_path / f"{i}.onnx") for i, text in enumerate((before, after))))
    assert [node.name for node in part.case.nodes] == ["slice"]
    assert part.case.failure.kind == "shape"


def test_reversal_by_a_step_at_run_time_is_equal_on_the_cpu_plugin(tmp_path: Path) -> None:
    """openvino#38240 is about the GPU plugin."""
    pytest.importorskip("openvino")
    text = """(float[4] x, int64[1] step) => (y)
        <int64[1] s = {-1}, int64[1] e = {-9223372036854775808}, int64[1] a = {0}>
        { y = Slice (x, s, e, a, step) }"""
    path = save(text, tmp_path / "model.onnx")
    assert diff(path, on="openvino-cpu", inputs={"step": np.array([-1])}).is_equal
