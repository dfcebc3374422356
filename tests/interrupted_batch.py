"""A run over many models that is interrupted again and again, and its result.

python tests/interrupted_batch.py [COUNT] [SEED]
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MODELS = Path(__file__).parents[1] / "models"
LAST = "last.onnx"
"""A model that nobody can read to its end while it is a pipe: until then, no run is over before it is interrupted."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL", "SIGINT", "SIGTERM")
JOBS = 2
PATIENCE = 600.0
"""Seconds in which a run must get on."""


@dataclass(frozen=True)
class Report:
    """Result of an interrupted run.

    Attributes:
        stored: The number of results at each interruption.
        models: The number of models with a row in the end.
        verdicts: The verdicts in the rows.
        recomputed: Results that were written again although they were stored.
        repeated: Results that a journal says were made again although they were stored.
        left: Files in the scratch folder.
        differing: Files that are not those of an uninterrupted run, byte for byte.
    """

    stored: tuple[int, ...]
    models: int
    verdicts: frozenset[str]
    recomputed: tuple[str, ...]
    repeated: tuple[str, ...]
    left: tuple[str, ...]
    differing: tuple[str, ...]


def make_crop(i: int) -> bytes:
    """Return a model of one Slice, another for each number."""
    values = {"starts": i % 7, "ends": 8 + i, "axes": 1}
    weights = [numpy_helper.from_array(np.array([value], np.int64), name) for name, value in values.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8 + i])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", *values], ["y"], f"crop_{i}")], "crop", [x], [y], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def make_models(folder: Path, count: int, real: int) -> None:
    """Write `count` models, copies of `real` ones in `models/` among them, and a list of them."""
    folder.mkdir()
    copied = sorted(MODELS.glob("*.onnx"), key=lambda path: (path.stat().st_size, path.name))[:real]
    for path in copied:
        shutil.copy(path, folder)
    names = [path.name for path in copied]
    for i in range(count - len(copied) - 1):
        names.append(f"crop_{i:06d}.onnx")
        (folder / names[-1]).write_bytes(make_crop(i))
    os.mkfifo(folder / LAST)
    random.Random(0).shuffle(names)
    (folder / "models.txt").write_text("".join(f"{name}\n" for name in [LAST, *names]))


def start(folder: Path, run: str) -> subprocess.Popen[bytes]:
    """Start a run in a process of its own."""
    command = ["-m", "sliceport", "batch", "lower", "@models.txt", "-o", run, "--jobs", str(JOBS), "--timeout", "0"]
    paths = os.pathsep.join([str(MODELS.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def results(run: Path) -> dict[str, tuple[int, int]]:
    """Return the inode and time of change of each stored result."""
    found = {}
    for file in run.glob("results/*/*.json"):
        status = file.stat()
        found[file.stem] = (status.st_ino, status.st_mtime_ns)
    return found


def wait_for_results(run: Path, count: int, journals: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until so many results and journals are there."""
    deadline = time.monotonic() + PATIENCE
    while len(list(run.glob("runs/*"))) < journals or sum(1 for _ in run.glob("results/*/*.json")) < count:
        assert process.poll() is None, f"the run has ended with {process.returncode}"
        assert time.monotonic() < deadline, "the run does not get on"
        time.sleep(0.01 if count < 1000 else 0.2)


def contents(run: Path) -> dict[str, bytes]:
    """Return the contents of all files in a run's folder except its journals."""
    files = (path for path in run.rglob("*") if path.is_file() and path.parent.name != "runs")
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def newly_made(run: Path) -> set[str]:
    """Return the keys that the run of the latest journal made."""
    journal = max((run / "runs").iterdir())
    lines = [json.loads(line) for line in journal.read_text().splitlines(keepends=True)[1:] if line.endswith("\n")]
    return {line["key"] for line in lines if "key" in line and not line["cached"]}


def interrupt(folder: Path, count: int, seed: int, signals: Sequence[str] = SIGNALS, real: int = 80) -> Report:
    """Run over generated and real models, interrupted by each signal in turn, to the end, and once more uninterrupted.

    Args:
        folder: The folder for everything; it must not exist.
        count: The number of models.
        seed: The seed for the times of signals.
        signals: The signals that end the run, one after another.
        real: The number of models from `models/`, the smallest first.
    """
    make_models(folder, count, real)
    run, stored = folder / "run", []
    recomputed: set[str] = set()
    repeated: set[str] = set()
    before: dict[str, tuple[int, int]] = {}

    def check() -> None:
        after = results(run)
        recomputed.update(key for key, status in before.items() if after.get(key) != status)
        repeated.update(newly_made(run) & before.keys())
        before.update(after)

    thresholds = sorted(random.Random(seed).sample(range(1, count - len(signals)), len(signals)))
    for i, threshold in enumerate(thresholds):
        process = start(folder, "run")
        wait_for_results(run, min(max(threshold, len(before) + 1), count - 1), i + 1, process)
        process.send_signal(signal.Signals[signals[i]])
        process.wait(PATIENCE)
        check()
        stored.append(len(before))
    (folder / LAST).unlink()
    (folder / LAST).write_bytes(make_crop(count))
    assert start(folder, "run").wait() in (0, 1)
    check()
    assert start(folder, "whole").wait() in (0, 1)
    rows = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    assert len(rows) == len({row["model"] for row in rows})
    ours, theirs = contents(run), contents(folder / "whole")
    return Report(
        tuple(stored),
        len(rows),
        frozenset(row["verdict"] for row in rows),
        tuple(sorted(recomputed)),
        tuple(sorted(repeated)),
        tuple(str(path) for path in run.glob("scratch/*")),
        tuple(sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))),
    )


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:]]
    count, seed = numbers + [10_000, 0][len(numbers) :]
    with tempfile.TemporaryDirectory() as name:
        begun = time.monotonic()
        sys.stdout.write(f"{interrupt(Path(name) / 'models', count, seed)}\n{time.monotonic() - begun:.0f} s\n")


if __name__ == "__main__":
    main()
