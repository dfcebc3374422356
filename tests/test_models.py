"""Real exports and rule models: everything lowered or folded, compared with onnxruntime inside the whole model."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from amounts import some

import sliceport
from onnx_ops.running.compare import compare

MODELS = Path(__file__).parent.parent / "models"
EXPORTS = json.loads((MODELS / "models.json").read_text())

# verdict of each node, in order
RULES = {
    "rule_coalesce": "lowered lowered lowered",
    "rule_empty": "empty empty",
    "rule_function": "lowered lowered",
    "rule_glu": "lowered",
    "rule_identity": "alias alias",
    "rule_opset9": "lowered lowered",
    "rule_rank_limit": "refused",
    "rule_rank_nine": "lowered",
    "rule_siblings": "lowered lowered lowered",
    "rule_split_empty_part": "lowered alias",
    "rule_split_uneven": "lowered",
    "rule_split_unused": "lowered",
    "rule_strings": "refused",
    "rule_subgraphs": "lowered lowered",
    "rule_symbolic": "refused refused",
    "rule_types": "lowered lowered lowered lowered",
}
ZOO: dict[str, dict[str, tuple[int, ...]]] = {
    "gpt2": {},
    "gptneox_dyn": {"x": (1, 16)},
    "swin": {},
    "ts_roformer_op13": {"x": (1, 16)},
}


def check(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    report = compare(path, input_shapes=shapes)
    assert [c.detail for c in report.comparisons if c.status not in ("equal", "folded")] == []
    assert report.comparisons
    lowered = [c for c in report.comparisons if c.lowered.verdict == "lowered"]
    assert all(c.bytes_compared > 0 for c in lowered)


def test_the_list_names_every_export() -> None:
    assert {entry["file"] for entry in EXPORTS} | {f"{name}.onnx" for name in RULES} == {
        p.name for p in MODELS.glob("*.onnx")
    }


def test_opsets_9_to_20_and_both_exporters_are_there() -> None:
    assert {entry["opset"] for entry in EXPORTS} == set(range(9, 21))
    assert {entry["exporter"] for entry in EXPORTS} == {"TorchScript", "dynamo"}
    assert {bool(entry["input_shapes"]) for entry in EXPORTS} == {True, False}


def test_models_are_small() -> None:
    assert sum(path.stat().st_size for path in MODELS.glob("*.onnx")) < 2**20


@pytest.mark.parametrize("entry", EXPORTS, ids=lambda entry: entry["file"])
def test_export_is_equal_to_the_reference(entry: dict[str, Any]) -> None:
    model = onnx.load(MODELS / entry["file"])
    assert {o.version for o in model.opset_import if not o.domain} == {entry["opset"]}
    check(MODELS / entry["file"], {name: tuple(shape) for name, shape in entry["input_shapes"].items()})


@pytest.mark.usefixtures("inferred_once")
@pytest.mark.parametrize("level", ["1.0", "2.1", "3.0", "4.1"])
@pytest.mark.parametrize("entry", some(EXPORTS), ids=lambda entry: entry["file"])
def test_export_is_equal_or_refused_at_older_feature_levels(entry: dict[str, Any], level: str) -> None:
    """Equal wherever it is lowered; refused only for what the level lacks."""
    shapes = {name: tuple(shape) for name, shape in entry["input_shapes"].items()}
    report = compare(MODELS / entry["file"], input_shapes=shapes, feature_level=level)
    for comparison in report.comparisons:
        if comparison.status == "refused":
            reason = comparison.lowered.reason
            assert reason is not None
            assert reason.code in {"1.0": ("feature_level", "unaligned_type")}.get(level, ())
        else:
            assert comparison.status in ("equal", "folded")


@pytest.mark.parametrize("name", sorted(RULES))
def test_rule_model_has_its_verdicts(name: str) -> None:
    program = sliceport.lower(MODELS / f"{name}.onnx")
    assert [node.verdict for node in program.nodes] == RULES[name].split()
    if program.summary["refused"] == 0:
        check(MODELS / f"{name}.onnx", {})


def test_symbolic_rule_is_equal_for_given_sizes() -> None:
    check(MODELS / "rule_symbolic.onnx", {"x": (2, 5, 8)})


def test_siblings_share_one_split() -> None:
    program = sliceport.lower(MODELS / "rule_siblings.onnx")
    by_name = {node.node.name: node.calls for node in program.nodes}
    assert by_name["slice_l"] == by_name["slice_r"] != by_name["slice_m"]


@pytest.mark.parametrize("name", sorted(ZOO))
def test_zoo_is_equal_to_the_reference(zoo: Path, name: str) -> None:
    check(zoo / f"{name}.onnx", ZOO[name])


def test_rule_models_are_what_their_script_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(MODELS), *sys.path])
    make_rules = importlib.import_module("make_rules")
    assert set(make_rules.RULES) == set(RULES)
    for name in make_rules.RULES:
        assert make_rules.make(name) == onnx.load(MODELS / f"{name}.onnx")
    for name in make_rules.OPENVINO_RULES:
        shipped = [(MODELS / f"{name}{suffix}").read_bytes() for suffix in (".xml", ".bin")]
        assert list(make_rules.make_openvino(name)) == shipped
    sys.modules.pop("make_rules")


def test_the_new_axis_of_the_readme_is_right_once_hardened(tmp_path: Path) -> None:
    """The README's x[1, newaxis]: the CPU plugin computes it wrongly, and right once it is hardened."""
    report = sliceport.compare(MODELS / "rule_new_axis.xml")
    status = {comparison.executor: comparison.status for comparison in report.comparisons}
    assert status == {"openvino-cpu": "mismatch", "ov_ext": "equal", "dml-emulator": "equal"}
    assert sliceport.harden(MODELS / "rule_new_axis.xml", tmp_path / "right.xml").is_clean
    report = sliceport.compare(tmp_path / "right.xml")
    assert {comparison.status for comparison in report.comparisons} == {"equal"}
