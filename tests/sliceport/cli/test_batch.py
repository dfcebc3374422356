"""`sliceport batch` as its user sees it: options, exit codes, progress, reports, interruptions."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import deadly_format
import pytest
from command_line import Invoke
from terminal import in_terminal

from sliceport.cli.batch_progress import Progress
from sliceport.cli.main import main

MODELS = Path(__file__).parents[3] / "models"


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    folder = tmp_path / "zoo"
    folder.mkdir()
    for name in ("rule_glu", "rule_strings", "rule_identity"):
        shutil.copy(MODELS / f"{name}.onnx", folder)
    return folder


def sliceport(folder: Path, *words: object) -> subprocess.Popen[str]:
    """Start the command line in a process of its own, with the format of a package in a folder."""
    command = [sys.executable, "-m", "sliceport", *map(str, words)]
    environment = deadly_format.environment(folder)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


class TestRuns:
    @pytest.mark.parametrize(
        ("names", "code"), [(["rule_glu"], 0), (["rule_glu", "rule_strings"], 1), (["rule_strings", "none"], 2)]
    )
    def test_exit_codes(self, invoke: Invoke, zoo: Path, tmp_path: Path, names: list[str], code: int) -> None:
        (zoo / "none.onnx").write_text("no model")
        models = [zoo / f"{name}.onnx" for name in names]
        out, err = invoke("batch", "lower", *models, "-o", tmp_path / "run", code=code)
        assert out.startswith(f"{len(names)} model")
        # On a busy machine, the progress of a run of more than some seconds comes first.
        lines = [line for line in err.splitlines() if not line.endswith(" s left")]
        assert lines == [f"sliceport: wrote {tmp_path / 'run'}"]

    def test_commands_take_their_own_options(self, invoke: Invoke, zoo: Path, tmp_path: Path) -> None:
        run = str(tmp_path / "run")
        words = ["batch", "compare", str(zoo), "-o", run, "--executors", "onnxruntime-cpu,dml-emulator", "--seed", "7"]
        summary = json.loads(invoke(*words, "--format", "json", code=1).out)
        assert summary["verdicts"] | {"clean": 2, "finding": 1} == summary["verdicts"]
        for line in Path(run, "results.jsonl").read_text().splitlines():
            assert "--seed 7" in json.loads(line)["result"]["command"]

    def test_shapes_are_chosen(self, tmp_path: Path) -> None:
        model = str(MODELS / "dynamo_phi_dyn.onnx")
        run = tmp_path / "run"
        assert main(["batch", "lower", "--input-shapes", "auto", model, "-o", str(run)]) == 0
        (line,) = (run / "results.jsonl").read_text().splitlines()
        assert len(json.loads(line)["input_shapes"]["x"]) == 2
        assert json.loads(next((run / "runs").iterdir()).read_text().splitlines()[0])["options"] == {
            "feature_level": "6.4",
            "input_shapes": "auto",
        }
        both = ["auto", "x:2,16", "--shard", "1/1", "-o", str(tmp_path / "both")]
        assert main(["batch", "lower", model, "--input-shapes", *both]) == 0
        header = json.loads(next((tmp_path / "both" / "runs").iterdir()).read_text().splitlines()[0])
        assert header["options"]["input_shapes"] == {"x": [2, 16], "*": "auto"}

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["lower", "{zoo}/nothing*"], "nothing*"),
            (["lower", "{zoo}", "--feature-level", "9.9"], "feature level '9.9' does not exist"),
            (
                ["compare", "{zoo}", "--executors", "openvin"],
                "executor 'openvin' is not known, did you mean 'openvino'?",
            ),
            (["rewrite", "{zoo}", "--passes", "siblngs"], "pass 'siblngs' is not known, did you mean 'siblings'?"),
            (["lower", "{zoo}", "--jobs", "0"], "'0' is not a number from 1 to 9999."),
            (["lower", "{zoo}", "--jobs", "10000"], "'10000' is not a number from 1 to 9999."),
            (
                ["lower", "{zoo}", "--timeout", "soon"],
                "--timeout must be a number of seconds of at most 9 digits and 3 decimals (0 disables the limit), got",
            ),
            (["lower", "{zoo}", "--timeout", "-1"], "(0 disables the limit), got '-1'."),
            (["lower", "{zoo}", "--timeout", "0.0001"], "(0 disables the limit), got '0.0001'."),
            (["lower", "{zoo}", "--memory", "1K"], "--memory must be at least 256M (0 disables the limit), got '1K'."),
            (
                ["lower", "{zoo}", "--memory", "lots"],
                "--memory must be a size such as 512M or 4G (0 disables the limit)",
            ),
            (["lower", "{zoo}", "--shard", "4/3"], "shard"),
            (["lower", "{zoo}", "--manifest", "none.toml"], "none.toml"),
            (["lower", "{zoo}", "--html", "{zoo}/rule_glu.onnx"], "exists; give another name or --overwrite"),
            (["lower", "{zoo}", "--html", "{zoo}", "--overwrite"], "zoo' is a folder."),
            (["lower", "{zoo}", "--html", "{zoo}/rule_glu.onnx/a.html"], "a.html' cannot be made ("),
            (["lower", "{zoo}", "--cluster", "slurm://a:1"], "slurm"),
            (["lower", "{zoo}", "-o", "{zoo}/rule_glu.onnx"], "is not a folder"),
            (["report", "{zoo}"], "holds no run of sliceport batch"),
            (["lowr", "{zoo}"], "did you mean 'lower'?"),
        ],
    )
    def test_what_is_wrong_is_a_sentence(
        self, invoke: Invoke, zoo: Path, tmp_path: Path, words: list[str], message: str
    ) -> None:
        given = [word.replace("{zoo}", str(zoo)) for word in words]
        output = [] if "-o" in words or "report" in words else ["-o", tmp_path / "run"]
        out, err = invoke("batch", *given, *output, code=2)
        assert out == ""
        assert message in err
        assert err.count("\n") == 1
        assert not (tmp_path / "run" / "results.jsonl").exists()

    def test_entries_of_a_manifest_that_match_nothing_are_told(self, invoke: Invoke, zoo: Path, tmp_path: Path) -> None:
        manifest = tmp_path / "manifest.jsonl"
        manifest.write_text('{"model": "zoo/rule_gul.onnx", "input_shapes": {"x": [2, 4]}}\n')
        printed = invoke("batch", "lower", zoo, "-o", tmp_path / "run", "--manifest", manifest, code=1)
        assert "'zoo/rule_gul.onnx' matches no model" in printed.err


def test_a_dry_run_lists_the_models_and_writes_nothing(invoke: Invoke, zoo: Path, tmp_path: Path) -> None:
    words = ["batch", "lower", str(zoo), str(tmp_path / "none.onnx"), "-o", str(tmp_path / "run"), "--dry-run"]
    models = sorted(file.as_posix() for file in zoo.iterdir())
    reason = f"source '{tmp_path.as_posix()}/none.onnx' is not there."
    assert invoke(*words, code=2) == ("".join(f"{model}\n" for model in models), f"sliceport: {reason}\n")
    listed = json.loads(invoke(*words, "--format", "json", code=2).out)
    assert (listed["models"], listed["bad_sources"][0]["reason"]) == (models, reason)
    assert not (tmp_path / "run").exists()


def test_a_batch_of_rewrite_finds_only_models_that_rewrite_takes(invoke: Invoke, zoo: Path, tmp_path: Path) -> None:
    shutil.copy(MODELS / "rule_new_axis.xml", zoo)
    for command, count in (("rewrite", 3), ("lower", 4)):
        assert len(invoke("batch", command, zoo, "-o", tmp_path / "run", "--dry-run").out.splitlines()) == count


class TestReports:
    def test_two_runs_are_compared(self, invoke: Invoke, zoo: Path, tmp_path: Path) -> None:
        before, after = str(tmp_path / "before"), str(tmp_path / "after")
        main(["batch", "lower", str(zoo), "-o", before])
        (zoo / "rule_glu.onnx").write_text("damaged")
        main(["batch", "lower", str(zoo), "-o", after])
        printed = json.loads(invoke("batch", "report", before, after, "--format", "json", code=1).out)
        assert [Path(change["model"]).stem for change in printed["comparison"]["new"]] == ["rule_glu"]
        assert printed["exit_code"] == 1
        assert "rule_glu.onnx" in invoke("batch", "report", after, before).out
        # The run `after` has an error, but no new one.
        printed = json.loads(invoke("batch", "report", after, after, "--format", "json").out)
        assert printed["exit_code"] == 0

    def test_shards_are_joined_and_one_run_is_told_again(self, invoke: Invoke, zoo: Path, tmp_path: Path) -> None:
        shards = [str(tmp_path / f"shard{i}") for i in (1, 2)]
        for i, shard in enumerate(shards, 1):
            main(["batch", "lower", str(zoo), "-o", shard, "--shard", f"{i}/2"])
        whole = invoke("batch", "lower", zoo, "-o", tmp_path / "run", code=1).out.rpartition("3 models")[2]
        assert invoke("batch", "report", *shards, code=1).out.rpartition("3 models")[2] == whole
        assert invoke("batch", "report", tmp_path / "run", code=1).out.rpartition("3 models")[2] == whole

    def test_files_are_written_and_kept(self, invoke: Invoke, zoo: Path, tmp_path: Path) -> None:
        run, page = (str(tmp_path / name) for name in ("run", "run.html"))
        words = ["batch", "lower", str(zoo), "-o", run, "--html", page]
        assert "rule_glu" not in invoke(*words, code=1).err
        assert Path(page).read_text("utf-8").lower().startswith("<!doctype html>")
        assert f"'{page}' exists" in invoke(*words, code=2).err
        invoke(*words, "--overwrite", code=1)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return deadly_format.install(tmp_path_factory.mktemp("site"))


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_what_is_done(site: Path, tmp_path: Path, number: int, code: int) -> None:
    models = deadly_format.write_models(tmp_path / "zoo", ["", "", "hang"])
    with sliceport(site, "batch", "lower", tmp_path / "zoo", "-o", tmp_path / "run", "--jobs", 2) as process:
        results = tmp_path / "run" / "results"
        while len(list(results.rglob("*.json"))) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    view = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    assert {json.loads(line)["model"] for line in view} <= {str(models[0]), str(models[1])}
    assert not (tmp_path / "run" / "scratch").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the processes at work with it")
def test_a_killed_run_goes_on_and_leaves_nothing_behind(site: Path, tmp_path: Path) -> None:
    deadly_format.write_models(tmp_path / "zoo", ["", "", "hang", ""])
    words = ["batch", "lower", tmp_path / "zoo", "-o", tmp_path / "run", "--jobs", 1, "--timeout", 3]
    with sliceport(site, *words) as process:
        while [file.read_text().count('"verdict"') for file in tmp_path.glob("run/runs/*.jsonl")] != [2]:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
        process.communicate()
    assert (tmp_path / "run" / "scratch").exists()
    with sliceport(site, "batch", "report", tmp_path / "run", "--html", tmp_path / "page.html") as process:
        out, _ = process.communicate()
    assert (out.splitlines()[0], process.returncode) == ("incomplete: 2 of 4 models", 2)
    assert "Incomplete: 2 of 4 models" in (tmp_path / "page.html").read_text("utf-8")
    with sliceport(site, *words) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 2, err
    assert out.startswith("4 models: 3 clean, 1 timed out")
    assert not (tmp_path / "run" / "scratch").exists()


class TestProgress:
    def test_a_line_now_and_then_where_there_is_no_terminal(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from sliceport.batch.task import Done
        from sliceport.cli import batch_progress

        monkeypatch.setattr(batch_progress, "_INTERVAL", 0.0)
        shown = Progress()
        shown.set_total(3)
        shown.add(Done("a", "0", "clean"))
        shown.add(Done("b", "1", "crash"))
        first, second = capsys.readouterr().err.splitlines()
        assert first.startswith("sliceport: 1 of 3 models, ")
        assert second.endswith(" left, 1 crash")

    def test_a_line_for_each_model_if_it_is_wanted(self, invoke: Invoke, zoo: Path, tmp_path: Path) -> None:
        words = ["batch", "lower", zoo / "rule_glu.onnx", "-v", "-o", tmp_path / "run"]
        assert f"sliceport: 1/1 clean '{zoo.as_posix()}/rule_glu.onnx' (" in invoke(*words).err
        assert " s, stored by an earlier run)" in invoke(*words).err

    @pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
    def test_a_line_is_shown_and_cleared_on_a_terminal(self, zoo: Path, tmp_path: Path) -> None:
        text = in_terminal("batch", "lower", zoo, "-o", tmp_path / "run", code=1)
        assert re.search(r"sliceport: [1-3] of 3 models, [\d.]+ a second, about \d+ s left", text)
        assert re.search(r"\r +\rsliceport: wrote ", text)
