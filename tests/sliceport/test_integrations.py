"""sliceport in other tools. Olive, Polygraphy and pre-commit are not installed with the development group."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from pages import ROOT, blocks

import sliceport

yaml = pytest.importorskip("yaml")


needs_description = pytest.mark.skipif(not (ROOT / "action.yml").exists(), reason="only the source has action.yml")
ENVIRONMENT = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}


def check_by_action(models: str, options: str, folder: Path) -> tuple[int, Any]:
    """Run the step of the action that checks models, and return its exit code and the SARIF file."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (step,) = (step for step in action["runs"]["steps"] if " check " in step.get("run", ""))
    inputs = {name: value.get("default", "") for name, value in action["inputs"].items()}
    inputs |= {"models": models, "options": options}
    contexts = {f"inputs.{name}": value for name, value in inputs.items()}
    contexts["steps.python.outputs.python-path"] = sys.executable
    values = {name: contexts[text.removeprefix("${{ ").removesuffix(" }}")] for name, text in step["env"].items()}
    # GitHub runs a step with `shell: bash` in this way.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    run = subprocess.run(command, cwd=folder, env={**os.environ, **values}, check=False)
    return run.returncode, json.loads((folder / inputs["sarif"]).read_text(encoding="utf-8"))


@needs_description
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_action_fails_on_a_finding_and_writes_it_as_sarif(tmp_path: Path) -> None:
    shutil.copy(ROOT / "models" / "rule_glu.onnx", tmp_path / "glu.onnx")
    status, log = check_by_action("*.onnx", "--engines onnxruntime-dml", tmp_path)
    assert status == 1
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["one-part-gates-another"]
    status, log = check_by_action("glu.onnx", "--engines onnx-reference", tmp_path)
    assert (status, log["runs"][0]["results"]) == (0, [])


@needs_description
def test_hook_runs_in_pre_commit(tmp_path: Path) -> None:
    pytest.importorskip("pre_commit")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    # The hook runs in this environment, because pre-commit would install the packages anew.
    config = {"repos": [{"repo": "local", "hooks": [{**hook, "language": "system"}]}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(json.dumps(config))
    shutil.copy(ROOT / "models" / "rule_glu.onnx", tmp_path)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "one-part-gates-another" in run.stdout or "defect: " in run.stdout


def run_example(tool: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Run the block of docs/integrations.md that imports a tool, in a folder that has the models."""
    (folder / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(folder)
    (block,) = (text for language, text in blocks("docs/integrations.md") if f"from {tool}." in text)
    exec(compile(block, tool, "exec"), {})


def test_olive_runs_the_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("olive")
    run_example("olive", monkeypatch, tmp_path)
    (output,) = (tmp_path / "hardened").rglob("*.onnx")
    before = sliceport.check(ROOT / "models" / "rule_split_empty_part.onnx", engines=["onnxruntime-dml"])
    after = sliceport.check(output, engines=["onnxruntime-dml"])
    assert (before.is_clean, after.is_clean) == (False, True)


def test_olive_pass_fails_if_the_result_is_not_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("olive")
    from olive.model import ONNXModelHandler
    from olive.passes.olive_pass import create_pass_from_dict

    from sliceport.integrations.olive import SliceportRewrite

    result = SimpleNamespace(is_written=False, text=lambda: "not verified")
    monkeypatch.setattr(sliceport, "rewrite", lambda *_, **__: result)
    run = create_pass_from_dict(SliceportRewrite, {}, disable_search=True).run
    with pytest.raises(sliceport.SliceportError, match="not verified"):
        run(ONNXModelHandler(ROOT / "models" / "rule_glu.onnx"), str(tmp_path / "out"))


def test_polygraphy_compares_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polygraphy")
    run_example("polygraphy", monkeypatch, tmp_path)


def test_polygraphy_runs_a_model_with_a_scalar() -> None:
    pytest.importorskip("polygraphy")
    from sliceport.integrations.polygraphy import EngineRunner

    text = '<ir_version: 8, opset_import: ["": 13]> g (float x) => (float y) { y = Neg (x) }'
    with EngineRunner(onnx.parser.parse_model(text), "onnxruntime-cpu") as runner:
        assert runner.infer({"x": np.array(5, np.float32)})["y"].shape == ()


def test_polygraphy_holds_moved_outputs_to_the_bit() -> None:
    pytest.importorskip("polygraphy")
    from sliceport.integrations.polygraphy import CompareOutputs

    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[2] y) '
        "<int64[1] starts = {1}, int64[1] ends = {3}> { y = Slice (x, starts, ends) }"
    )
    right = {"y": np.array([1, 2], np.float32)}
    almost = {"y": np.array([1, np.nextafter(np.float32(2), np.float32(3))], np.float32)}
    assert CompareOutputs(model)(almost, right) == {"y": False}
    assert CompareOutputs()(almost, right) == {"y": True}
    assert CompareOutputs(model)(right, right) == {"y": True}
