"""A run that is interrupted and started again comes to what an uninterrupted one does, and does nothing twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import onnx
import pytest
from dask_cluster import wait_until
from deadly_format import environment
from onnx_models import parse

COUNT, REAL = 60, 15
LAST = "last.onnx"
"""A model that nobody can read to its end while it is a pipe: until then, no run is over before it is interrupted."""


def crop(i: int) -> onnx.ModelProto:
    """Return a model of one Slice, another for each number."""
    bounds = f"int64[1] starts = {{{i % 7}}}, int64[1] ends = {{{8 + i}}}, int64[1] axes = {{1}}"
    return parse(f"(float[4,{8 + i}] x) => (float[a,b] y) <{bounds}> {{ y = Slice (x, starts, ends, axes) }}")


def make_models(folder: Path, models: Path) -> None:
    """Write models, copies of the smallest real ones among them, and a list of them in a random order."""
    folder.mkdir()
    real = sorted(models.glob("*.onnx"), key=lambda path: (path.stat().st_size, path.name))[:REAL]
    for path in real:
        shutil.copy(path, folder)
    names = [path.name for path in real] + [f"crop_{i}.onnx" for i in range(COUNT - REAL - 1)]
    for i, name in enumerate(names[REAL:]):
        onnx.save(crop(i), folder / name)
    os.mkfifo(folder / LAST)
    random.Random(0).shuffle(names)
    (folder / "models.txt").write_text("".join(f"{name}\n" for name in [LAST, *names]))


def start(folder: Path, run: str) -> subprocess.Popen[bytes]:
    words = ["-m", "sliceport", "batch", "lower", "@models.txt", "-o", run, "--jobs", "2", "--timeout", "0"]
    return subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def read_states(run: Path) -> dict[str, tuple[int, int]]:
    """Map the key of each stored result to its file's inode and time of change."""
    return {file.stem: (file.stat().st_ino, file.stat().st_mtime_ns) for file in run.glob("results/*/*.json")}


def has_stored(process: subprocess.Popen[bytes], run: Path, runs: int, least: int) -> bool:
    """Return whether the last of so many runs has stored so many results, or has ended."""
    return process.poll() is not None or (len(list(run.glob("runs/*"))) == runs and len(read_states(run)) >= least)


def read_made(run: Path) -> set[str]:
    """Return the keys that the run of the latest journal made."""
    lines = max((run / "runs").iterdir()).read_text().splitlines(keepends=True)[1:]
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    return {entry["key"] for entry in entries if "key" in entry and not entry["cached"]}


def read_files(run: Path) -> dict[str, bytes]:
    """Return the contents of all files of a run except its journals."""
    files = (path for path in run.rglob("*") if path.is_file() and path.parent.name != "runs")
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


@pytest.mark.skipif(sys.platform != "linux", reason="needs pipes, and workers that end with who was killed")
def test_a_run_goes_on_where_it_was_interrupted(tmp_path: Path, models: Path) -> None:
    folder, run = tmp_path / "models", tmp_path / "models" / "run"
    make_models(folder, models)
    before: dict[str, tuple[int, int]] = {}

    def check_that_stored_results_stay() -> None:
        after = read_states(run)
        assert after.items() >= before.items()
        assert not read_made(run) & before.keys()
        before.update(after)

    for i, (least, number) in enumerate([(12, signal.SIGINT), (35, signal.SIGKILL)], 1):
        process = start(folder, "run")
        wait_until(partial(has_stored, process, run, i, least), f"{least} results")
        process.send_signal(number)
        assert process.wait(600) == (130 if number == signal.SIGINT else -number)
        check_that_stored_results_stay()
        assert least <= len(before) < COUNT
    (folder / LAST).unlink()
    onnx.save(crop(COUNT), folder / LAST)
    assert start(folder, "run").wait(600) == 1
    check_that_stored_results_stay()
    assert start(folder, "whole").wait(600) == 1
    rows = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert len(rows) == len({row["model"] for row in rows}) == COUNT
    assert {row["verdict"] for row in rows} == {"clean", "finding"}
    assert not list(run.glob("scratch/*"))
    assert read_files(run) == read_files(folder / "whole")
