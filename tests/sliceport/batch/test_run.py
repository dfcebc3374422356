"""A command over many models: every model once, whatever happens, and the rest another time."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sliceport.batch import run as module
from sliceport.batch import run_folder
from sliceport.batch.manifest import read_manifest
from sliceport.batch.run import Batch, run_batch
from sliceport.batch.run_folder import VIEW, join_shards, read_run
from sliceport.batch.sources import is_in_shard
from sliceport.batch.store import Folder
from sliceport.batch.summary import Summary
from sliceport.batch.task import Done, Job
from sliceport.errors import UsageError

MODELS = Path(__file__).parents[3] / "models"


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    folder = tmp_path / "zoo"
    folder.mkdir()
    for name in ("rule_glu", "rule_strings", "rule_identity", "rule_rank_limit"):
        shutil.copy(MODELS / f"{name}.onnx", folder)
    (folder / "damaged.onnx").write_bytes((MODELS / "rule_glu.onnx").read_bytes()[:90])
    return folder


@pytest.fixture
def batch(zoo: Path, tmp_path: Path) -> Batch:
    return Batch(Job("lower", str(tmp_path / "run"), timeout=300.0, memory=2**32), [str(zoo)], jobs=2)


def vary(batch: Batch, **parts: Any) -> Batch:
    """Return a batch with other parts, of its job or of itself."""
    of_job = {name: parts.pop(name) for name in list(parts) if name in Job.__dataclass_fields__}
    return replace(batch, job=replace(batch.job, **of_job), **parts)


def rows(batch: Batch) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(batch.job.root, VIEW).read_text("ascii").splitlines()]


def results(batch: Batch) -> dict[str, bytes]:
    folder = Path(batch.job.root, "results")
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*.json"))}


def test_every_model_has_a_row(batch: Batch, zoo: Path) -> None:
    seen: list[Done] = []
    totals: list[int] = []
    finished = run_batch(batch, begin=totals.append, observe=seen.append)
    made = rows(batch)
    assert [row["model"] for row in made] == sorted(file.as_posix() for file in zoo.iterdir())
    assert {Path(row["model"]).stem: row["verdict"] for row in made} == {
        "damaged": "error",
        "rule_glu": "clean",
        "rule_identity": "clean",
        "rule_rank_limit": "finding",
        "rule_strings": "finding",
    }
    assert totals == [5]
    assert sorted(done.model for done in seen) == [row["model"] for row in made]
    assert finished.summary.exit_code == 2
    assert list(finished.run.rows()) == made
    assert not Path(batch.job.root, "scratch").exists()


def test_nothing_is_done_twice(batch: Batch, zoo: Path) -> None:
    run_batch(batch)
    before, view = results(batch), rows(batch)
    seen: list[Done] = []
    run_batch(batch, observe=seen.append)
    assert [done.cached for done in seen] == [True] * 5
    assert (results(batch), rows(batch)) == (before, view)
    shutil.copy(MODELS / "rule_symbolic.onnx", zoo / "rule_glu.onnx")
    seen.clear()
    run_batch(batch, observe=seen.append)
    assert [Path(done.model).name for done in seen if not done.cached] == ["rule_glu.onnx"]


def test_models_that_are_gone_have_no_row(batch: Batch, zoo: Path) -> None:
    run_batch(batch)
    (zoo / "rule_glu.onnx").unlink()
    run_batch(batch)
    assert [Path(row["model"]).stem for row in rows(batch)] == [
        "damaged", "rule_identity", "rule_rank_limit", "rule_strings"
    ]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="links need privileges there")
def test_one_that_cannot_be_read_has_a_row_without_a_key(batch: Batch, tmp_path: Path) -> None:
    folder = tmp_path / "zoo" / "a folder.onnx"
    (tmp_path / "list.txt").write_text(f"{folder}\n")
    folder.symlink_to(tmp_path / "nowhere")
    run_batch(vary(batch, sources=[str(tmp_path / "zoo")]))
    (row,) = [row for row in rows(batch) if row["model"] == str(folder)]
    assert (row["key"], row["verdict"], row["result"]) == ("", "error", None)
    assert row["message"] == "it cannot be read (No such file or directory)."


def test_a_bad_source_is_a_row(batch: Batch, tmp_path: Path) -> None:
    missing = (tmp_path / "a {model}.onnx").as_posix()
    (tmp_path / "list.txt").write_text(f"{tmp_path}/zoo/rule_glu.onnx\n{missing}\n")
    batch = vary(batch, sources=[f"@{tmp_path}/list.txt"])
    totals: list[int] = []
    finished = run_batch(batch, begin=totals.append)
    assert [(row["verdict"], row["message"]) for row in finished.run.rows()] == [
        ("error", f"source '{missing}' is not there."),
        ("clean", rows(batch)[1]["message"]),
    ]
    assert (totals, finished.run.header["models"], finished.summary.exit_code) == ([2], 2, 2)
    with pytest.raises(UsageError, match="is not there"):
        run_batch(vary(batch, sources=[missing]))


def test_a_run_that_is_stopped_goes_on(batch: Batch, zoo: Path) -> None:
    def stop(done: Done) -> None:
        if Path(done.model).stem == "rule_identity":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_batch(vary(batch, jobs=1), observe=stop)
    assert [Path(row["model"]).stem for row in rows(batch)] == ["damaged", "rule_glu", "rule_identity"]
    assert not Path(batch.job.root, "scratch").exists()
    stored = results(batch)
    assert len(stored) >= 3  # others may have been done meanwhile
    seen: list[Done] = []
    run_batch(batch, observe=seen.append)
    assert Counter(done.cached for done in seen) == {True: len(stored), False: 5 - len(stored)}
    assert len(rows(batch)) == 5


def test_two_runs_at_once_into_one_folder(batch: Batch, zoo: Path) -> None:
    """Each with some models of its own; the second ends first."""
    others = zoo.parent / "others"
    others.mkdir()
    for name in ("rule_alias", "rule_glu"):
        if (MODELS / f"{name}.onnx").exists():
            shutil.copy(MODELS / f"{name}.onnx", others)
    second = vary(batch, sources=[str(others)])
    started = threading.Event()

    def run_the_other(_: Done) -> None:
        if not started.is_set():
            started.set()
            run_batch(second)

    run_batch(vary(batch, jobs=1), observe=run_the_other)
    expected = sorted(file.as_posix() for folder in (zoo, others) for file in folder.iterdir())
    assert [row["model"] for row in rows(batch)] == expected


def test_a_run_is_judged_by_its_own_models_though_another_command_began_meanwhile(batch: Batch, zoo: Path) -> None:
    only = vary(batch, sources=[str(zoo / "rule_glu.onnx")], options={"feature_level": "4.0"})
    started = threading.Event()

    def run_the_other(_: Done) -> None:
        if not started.is_set():
            started.set()
            assert run_batch(only).summary.models == 1

    finished = run_batch(batch, observe=run_the_other)
    assert (finished.summary.models, finished.summary.exit_code) == (5, 2)
    assert [Path(row["model"]).stem for row in rows(batch)] == ["rule_glu"]


def test_clocks_that_are_put_back_hide_no_run(batch: Batch, zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = "2999-12-31T23:59:59.999999Z"
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "now", lambda: ahead)
        run_batch(batch)
    (zoo / "damaged.onnx").unlink()
    for _ in range(2):
        finished = run_batch(batch)
        assert (finished.summary.models, finished.summary.exit_code) == (4, 1)
        assert finished.run.header["started"] > ahead
        assert len(rows(batch)) == len(list(read_run(Folder(batch.job.root)).rows())) == 4


def test_a_copy_whose_files_have_other_times_is_the_same_run(batch: Batch, zoo: Path, tmp_path: Path) -> None:
    run_batch(batch)
    (zoo / "damaged.onnx").unlink()
    run_batch(batch)
    shutil.copytree(batch.job.root, tmp_path / "copy", copy_function=shutil.copyfile)
    assert list(read_run(Folder(str(tmp_path / "copy"))).rows()) == rows(batch)


def test_journals_of_another_form_are_left_out(batch: Batch) -> None:
    run_batch(batch)
    before = rows(batch)
    (file,) = Path(batch.job.root, "runs").iterdir()
    header, *lines = map(json.loads, file.read_text().splitlines())
    headers: list[Any] = [1, None, [], {}, {**header, "schema_version": 2}]
    entries: list[Any] = [1, [], None]
    journals = [[other, *lines] for other in headers] + [[header, entry] for entry in entries]
    for i, journal in enumerate(journals):
        file.with_name(f"{i}.jsonl").write_text("".join(f"{json.dumps(part)}\n" for part in journal))
    run = read_run(Folder(batch.job.root))
    assert list(run.rows()) == before


def cut_journal(batch: Batch, lines: int, tail: str = "") -> None:
    """Leave the journal of a run as it is when the run is killed after a number of models."""
    (file,) = Path(batch.job.root, "runs").iterdir()
    kept = [line for line in file.read_text().splitlines() if not line.startswith('{"written"')][: lines + 1]
    file.write_text("".join(f"{line}\n" for line in kept) + tail)


@pytest.mark.parametrize("tail", ["", '{"model": "zoo/cut', "\0\0\0"])
def test_a_killed_run_is_incomplete(batch: Batch, tail: str) -> None:
    finished = run_batch(batch)
    assert finished.run.describe_gap() == ""
    cut_journal(batch, 2, tail)
    run = read_run(Folder(batch.job.root))
    assert (len(run.entries), run.describe_gap()) == (2, "2 of 5 models")
    summary = Summary.of(run.rows(), run.describe_gap())
    assert summary.exit_code == 2
    assert summary.text(None).startswith("incomplete: 2 of 5 models\n")
    assert summary.to_json()["incomplete"] == "2 of 5 models"
    assert run_batch(batch).run.describe_gap() == ""


def test_a_killed_shard_is_incomplete(batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # absolute names would be in other shards each time
    batch = vary(batch, sources=["zoo"])
    shards = [vary(batch, shard=(i, 2), root=str(tmp_path / f"shard{i}")) for i in (1, 2)]
    for shard in shards:
        run_batch(shard)
    cut_journal(shards[0], 0)
    run = join_shards([read_run(Folder(shard.job.root)) for shard in shards])
    assert run.unfinished > 0
    assert run.describe_gap() == f"{5 - run.unfinished} of 5 models"
    assert read_run(Folder(shards[0].job.root)).describe_gap().endswith("models, without shard 2/2")


def test_a_view_is_written_on_the_way(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MIN_INTERVAL", 0.0)
    monkeypatch.setattr(module, "_MAX_SHARE", 1e9)
    lengths: list[int] = []

    def look(_: Done) -> None:
        lengths.append(len(rows(batch)) if Path(batch.job.root, VIEW).exists() else 0)

    run_batch(batch, observe=look)
    assert lengths == [0, 1, 2, 3, 4]


def test_shards_into_one_folder_make_one_view(batch: Batch, zoo: Path) -> None:
    for i in (1, 2, 3):
        run_batch(vary(batch, shard=(i, 3)))
    assert [row["model"] for row in rows(batch)] == sorted(file.as_posix() for file in zoo.iterdir())
    run_batch(vary(batch, shard=(2, 3)))
    assert len(rows(batch)) == 5


def test_shards_of_folders_of_their_own_are_joined(batch: Batch, tmp_path: Path) -> None:
    shards = [vary(batch, shard=(i, 3), root=str(tmp_path / f"shard{i}")) for i in (1, 2, 3)]
    for shard in shards:
        run_batch(shard)
    run_batch(batch)
    runs = [read_run(Folder(shard.job.root)) for shard in shards]
    assert list(join_shards(runs).rows()) == rows(batch)
    with pytest.raises(UsageError, match="not the shards of one run"):
        join_shards([runs[0], runs[0]])
    with pytest.raises(UsageError, match="not the shards of one run"):
        join_shards([runs[0], read_run(Folder(batch.job.root))])
    run_batch(vary(batch, shard=(2, 3), root=shards[0].job.root))
    with pytest.raises(UsageError, match="not the shards of one run"):  # shard 1 is in both, but is not the latest
        join_shards([read_run(Folder(shards[0].job.root)), runs[0]])


def test_shards_of_other_sources_are_not_of_the_run(batch: Batch, zoo: Path, tmp_path: Path) -> None:
    shutil.copytree(zoo, tmp_path / "others")
    run_batch(vary(batch, sources=[str(tmp_path / "others")], shard=(1, 2)))
    finished = run_batch(vary(batch, shard=(2, 2)))
    second = [file.as_posix() for file in zoo.iterdir() if is_in_shard(file.as_posix(), 2, 2)]
    assert sorted(row["model"] for row in rows(batch)) == sorted(second)
    assert finished.run.describe_gap() == "without shard 1/2"
    run_batch(vary(batch, shard=(1, 2)))
    run = read_run(Folder(batch.job.root))
    assert (len(run.entries), run.describe_gap()) == (5, "")
    assert replace(run, headers=({**run.header, "shard": "1/30"},)).describe_gap().endswith(" 20/30, 21/30, ...")


def test_other_commands_in_the_same_folder_do_not_mix(batch: Batch) -> None:
    run_batch(batch)
    finished = run_batch(vary(batch, options={"feature_level": "4.0"}))
    assert finished.summary.models == 5
    assert {row["result"]["feature_level"] for row in rows(batch) if row["result"]} == {"4.0"}


def test_a_header_has_the_options_that_were_given(batch: Batch) -> None:
    options = {"seed": 0, "verify": False, "passes": [], "input_shapes": {}, "executors": None, "feature_level": "4.0"}
    finished = run_batch(vary(batch, options={**options}, sources=[]))
    assert finished.run.header["options"] == {"seed": 0, "feature_level": "4.0"}


def test_options_of_single_models(batch: Batch, zoo: Path, tmp_path: Path) -> None:
    for copy in ("given", "open"):
        shutil.copy(MODELS / "rule_symbolic.onnx", zoo / f"{copy}.onnx")
    file = tmp_path / "manifest.toml"
    file.write_text('[[models]]\nmodel = "zoo/given.onnx"\ninput_shapes = { x = [2, 5, 8] }\n')
    run_batch(vary(batch, manifest=read_manifest(str(file))))
    verdicts = {Path(row["model"]).stem: row["verdict"] for row in rows(batch)}
    assert (verdicts["given"], verdicts["open"]) == ("clean", "finding")


def test_shapes_for_all_are_for_models_that_have_the_input(batch: Batch, zoo: Path) -> None:
    shutil.copy(MODELS / "rule_symbolic.onnx", zoo / "open.onnx")
    run_batch(vary(batch, options={"input_shapes": {"x": (2, 5, 8), "other": (3,)}}, sources=[str(zoo / "open.onnx")]))
    assert [row["verdict"] for row in rows(batch)] == ["clean"]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Write a model of two inputs that it leaves open, and a manifest that says something of one."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[N, 5] a, float[M, 4] b) => (float[P, 5] y, float[Q, 4] z)
        <int64[1] start = {0}, int64[1] end = {4}> { y = Slice(a, start, end) z = Slice(b, start, end) }""")
    onnx.save(model, tmp_path / "two.onnx")
    np.save(tmp_path / "a.npy", np.ones((4, 5), np.float32))
    np.save(tmp_path / "b.npy", np.ones((6, 4), np.float32))
    entry = {"model": "two.onnx", "input_shapes": {"a": [4, 5]}, "input": {"a": "a.npy"}}
    (tmp_path / "m.jsonl").write_text(json.dumps(entry))
    return tmp_path / "two.onnx"


def test_shapes_for_all_and_for_single_models_are_both_used(batch: Batch, two: Path) -> None:
    manifest = read_manifest(str(two.with_name("m.jsonl")))
    found = []
    for size in (6, 9):
        options = {"input_shapes": {"a": (9, 9), "b": (size, 4)}}
        run_batch(vary(batch, sources=[str(two)], manifest=manifest, options=options))
        (row,) = rows(batch)
        found.append(
            [each["desc"]["InputTensor"]["Sizes"] for node in row["result"]["nodes"] for each in node["operators"]]
        )
    assert found == [[[24]], [[36]]]


def test_arrays_for_all_and_for_single_models_are_both_used(batch: Batch, two: Path) -> None:
    manifest = read_manifest(str(two.with_name("m.jsonl")))
    options = {"inputs": {"b": str(two.with_name("b.npy"))}}
    run_batch(vary(batch, command="compare", sources=[str(two)], manifest=manifest, options=options))
    assert [row["verdict"] for row in rows(batch)] == ["clean"]


def test_a_command_that_takes_no_arrays_ignores_those_of_a_manifest(batch: Batch, two: Path) -> None:
    two.with_name("a.npy").unlink()
    manifest = read_manifest(str(two.with_name("m.jsonl")))
    run_batch(vary(batch, sources=[str(two)], manifest=manifest, options={"input_shapes": {"b": (6, 4)}}))
    assert [row["verdict"] for row in rows(batch)] == ["clean"]


def test_the_results_lie_in_the_sources(batch: Batch, zoo: Path) -> None:
    batch = vary(batch, command="harden", root=str(zoo / "run"))
    for _ in range(2):
        assert run_batch(batch).summary.models == 5
    assert len(list((zoo / "run" / "outputs").rglob("model.onnx"))) == 4


@pytest.mark.parametrize("source", ["", "/**/*.onnx"])
def test_the_results_lie_beside_the_sources(batch: Batch, zoo: Path, source: str) -> None:
    batch = vary(batch, command="harden", root=str(zoo), sources=[f"{zoo}{source}"])
    for _ in range(2):
        assert run_batch(batch).summary.models == 5


def test_a_journal_that_cannot_be_written_is_told(batch: Batch) -> None:
    Path(batch.job.root).mkdir()
    Path(batch.job.root, "runs").write_text("a file, and no folder")
    with pytest.raises(UsageError, match=r"runs/.*\.jsonl' cannot be written \("):
        run_batch(batch)
    assert not Path(batch.job.root, "scratch").exists()


def test_a_result_that_is_gone_is_told(batch: Batch) -> None:
    finished = run_batch(batch)
    shutil.rmtree(Path(batch.job.root, "results"))
    verdicts = {row["verdict"] for row in finished.run.rows()}
    assert verdicts == {"lost"}


def test_unknown_commands_and_empty_folders() -> None:
    with pytest.raises(UsageError, match="did you mean 'lower'"):
        run_batch(Batch(Job("lowr", "run"), ["."]))
    with pytest.raises(UsageError, match="holds no run"):
        read_run(Folder("nowhere"))
