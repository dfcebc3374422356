"""Runs on a cluster of Dask, whose parts come, go and die: each model is reported once, as a local run reports it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from dask_cluster import PATIENCE, Cluster, wait_until
from deadly_format import environment, install, write_models
from forked import Forked
from platforms import POSIX
from processes import assert_gone, children, ticks

from sliceport.batch import cluster
from sliceport.batch.cluster import open_cluster
from sliceport.batch.process import RunStopped
from sliceport.batch.store import Folder, open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.errors import MissingExtra, UsageError
from sliceport.sandbox.progress import listen_to_progress

pytestmark = [POSIX, pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")]

COUNT = 60
"""Models of the large run, but for the one that waits."""
VERDICTS = {"say and abort": "crash", "allocate": "memory", "refuse": "error", "raise": "error"}
"""Models of the deadly format among them, of each verdict; test_process.py has all the ways to die. No model hangs: how
long an honest one takes depends on the machine."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with models that are deadly."""
    return environment(install(tmp_path_factory.mktemp("site")))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, site: dict[str, str]) -> Iterator[Cluster]:
    """Start a cluster of one worker that does two tasks at once."""
    with Cluster(tmp_path_factory.mktemp("cluster"), site) as started:
        started.start_scheduler()
        started.start_worker("--nthreads", "2")
        yield started


@pytest.fixture(autouse=True)
def _none_left() -> Iterator[None]:
    """Leave no run behind after a test that fails."""
    yield
    while _started:
        process = _started.pop()
        if process.returncode is None:
            process.kill()
            process.wait()


_started: list[Forked] = []


def start(site: Mapping[str, str], *words: object, program: Sequence[str] = ("-m", "sliceport")) -> Forked:
    _started.append(Forked([*program, "batch", *map(str, words)], environment=site))
    return _started[-1]


def finish(process: Forked, code: int) -> tuple[str, str]:
    """Wait for the end of a run; return its output. Check its exit code, and that it prints no traceback."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE)
    out, err = process.said()
    assert process.returncode == code, (out, err)
    assert "Traceback" not in err
    return out, err


def read_rows(root: Path) -> list[dict[str, Any]]:
    """Read the rows without what dying processes wrote: the result excludes it, because no two write the same."""
    rows = [json.loads(line) for line in (root / "results.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "stderr"} for row in rows]


def read_results(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in (root / "results").rglob("*.json")}


def count_results(root: Path) -> int:
    return sum(1 for _ in (root / "results").glob("*/*.json"))


def is_at_work(root: Path) -> bool:
    """Return whether a worker has a scratch folder, too, and not only the client."""
    return len([*(root / "scratch").glob("*")]) > 1


def last_journal(root: Path) -> list[dict[str, Any]]:
    journal = max((root / "runs").glob("*.jsonl"))
    return [line for text in journal.read_text().splitlines()[1:] if "model" in (line := json.loads(text))]


def write_slices(folder: Path, count: int) -> None:
    """Write ONNX models of a Slice each, no two alike."""
    folder.mkdir()
    for i in range(count):
        constants = f"int64[2] starts = {{1, 0}}, int64[2] ends = {{{i + 2}, 4}}"
        body = f"(float[{i + 3}, 5] x) => (float[?, ?] y) <{constants}> {{ y = Slice (x, starts, ends) }}"
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> sliced {body}')
        onnx.save(model, folder / f"slice_{i:03d}.onnx")


def damage(folder: Path, models: Path) -> int:
    """Write an empty file, and real models that are cut off; return their number."""
    folder.mkdir()
    (folder / "empty.onnx").touch()
    files = sorted(models.glob("rule_*.onnx"))[:8]
    for i, file in enumerate(files):
        data = file.read_bytes()
        (folder / f"damaged_{file.name}").write_bytes(data[: len(data) * (i + 1) // 16])
    return len(files) + 1


def test_every_model_is_reported_once_whatever_dies(tmp_path: Path, models: Path, site: dict[str, str]) -> None:
    """A worker is killed twice, the client is killed and run again, and so is the scheduler.

    The last model waits for a file, so that no run can end before the test has killed what it is about to kill.
    """
    damaged = damage(tmp_path / "damaged", models)
    write_models(tmp_path / "deadly", [*VERDICTS])
    real = list(models.glob("rule_*.onnx"))
    write_slices(tmp_path / "generated", COUNT - damaged - len(VERDICTS) - len(real))
    write_models(tmp_path / "last", ["wait"])
    folders = [tmp_path / name for name in ("deadly", "damaged", "generated", "last")]
    words = ["lower", models / "rule_*.onnx", *folders, "--timeout", "0", "--memory", "4G", "-o"]

    local, root = tmp_path / "local", tmp_path / "run"
    with Cluster(tmp_path / "cluster", site) as started:
        scheduler = started.start_scheduler()
        first, second = (started.start_worker("--nthreads", "1") for _ in range(2))
        client = start(site, *words, root, "--cluster", started.url)
        wait_until(lambda: count_results(root) >= 8, "the first 8 models")
        doomed = children(first.pid)
        started.kill(first)
        third = started.start_worker("--nthreads", "1")
        wait_until(lambda: count_results(root) >= 16, "the first 16 models")
        client.kill()
        client.wait()
        client = start(site, *words, root, "--cluster", started.url)
        wait_until(lambda: count_results(root) >= 24, "the first 24 models")
        doomed += children(second.pid)
        started.kill(second)
        wait_until(lambda: count_results(root) >= 32, "the first 32 models")
        wait_until(lambda: started.count_registered() >= 3, "all workers")  # another would stay for the next scheduler
        started.kill(scheduler)
        _, said = finish(client, 2)
        (tmp_path / "last" / "open").touch()
        assert "is lost; run the same command again to continue.\n" in said
        third.wait(PATIENCE)  # a worker ends with its scheduler
        started.start_scheduler()
        for _ in range(2):
            started.start_worker("--nthreads", "1")
        _, said = finish(start(site, *words, root, "--cluster", started.url), 2)
        assert_gone(doomed)
    _, said_here = finish(start(site, *words, local, "--jobs", "2"), 2)

    rows = read_rows(local)
    assert len(rows) == COUNT + 1, said_here
    assert Counter(line["model"] for line in last_journal(root)) == Counter(row["model"] for row in rows)
    assert any(line["cached"] for line in last_journal(root))
    assert read_rows(root) == rows
    assert read_results(root) == read_results(local)
    assert not (root / "scratch").exists()
    verdicts = {Path(row["model"]).stem[5:]: row["verdict"] for row in rows if "/deadly/" in row["model"]}
    assert verdicts == {action.replace(" ", "_"): verdict for action, verdict in VERDICTS.items()}
    assert Counter(row["verdict"] for row in rows)["error"] >= damaged // 2


def test_without_a_worker_it_waits(tmp_path: Path, site: dict[str, str]) -> None:
    """No worker is there at first. Later, the client stands still while the only one finishes and dies.

    So the client knows that the last model is done, but Dask has lost its result.
    """
    write_models(tmp_path / "models", [*[""] * 4, "wait"])
    words = ["lower", tmp_path / "models", "-o", tmp_path / "run", "--timeout", "0"]
    with Cluster(tmp_path / "cluster", site) as started:
        started.start_scheduler()
        process = start(site, *words, "--cluster", started.url)
        line = f"sliceport: no worker is connected to 127.0.0.1:{started.port}; waiting for one\n"
        wait_until(lambda: process.said()[1] or process.poll() is not None, "a line")
        assert process.said() == ("", line)
        worker = started.start_worker("--nthreads", "2")
        wait_until(lambda: len(last_journal(tmp_path / "run")) == 4, "all models but one")
        process.send_signal(signal.SIGSTOP)
        (tmp_path / "models" / "open").touch()
        wait_until(lambda: not is_at_work(tmp_path / "run"), "the last result")
        time.sleep(1)  # for what the worker and the scheduler tell the client
        started.kill(worker)
        time.sleep(1)
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: process.said()[1] != line or process.poll() is not None, "another line")
        assert process.said() == ("", 2 * line)
        started.start_worker("--nthreads", "2")
        finish(process, 0)
    assert {row["verdict"] for row in read_rows(tmp_path / "run")} == {"clean"}


def test_looks_find_each_lack_of_workers_and_a_lost_connection(tmp_path: Path) -> None:
    """A worker comes, does a task and goes between two looks. Then the client has connected to another scheduler."""
    messages: list[str] = []
    client: Any = SimpleNamespace(nthreads=dict, next_batch=dict, close=dict, status="closed")
    future: Any = Future()
    task, done = Task("a.onnx", "a.onnx"), Done("a.onnx", "", "clean")
    runner = cluster._DaskRunner(client, "node1:8786", completed=client)
    with listen_to_progress(announcement=messages.append):
        runner._look_for_workers()
        runner._tasks[future] = task
        assert runner._read_results(Job("lower", "run"), [(future, ("tcp://node2:1", done))]) == ([done], [])
        runner._look_for_workers()
        runner._look_for_workers()
    assert messages == 2 * ["no worker is connected to node1:8786; waiting for one"]
    runner._tasks[future] = task
    future.cancel()
    open_store(str(tmp_path)).write("runs/a.jsonl", b"")
    with pytest.raises(UsageError, match="the connection to the scheduler at node1:8786 is lost; run the same command"):
        next(runner.run(Job("lower", str(tmp_path)), []))


def test_error_of_a_task_ends_the_run_after_the_other_outcomes(tmp_path: Path) -> None:
    done, error = Done("a.onnx", "", "clean"), UsageError("the results cannot be stored.")
    futures: list[Any] = [Future(), Future()]
    batch = [(futures[0], ("tcp://node2:1", done)), (futures[1], (UsageError, error, None))]
    client: Any = SimpleNamespace(next_batch=lambda **_: batch, close=dict, status="closed")
    runner = cluster._DaskRunner(client, "node1:8786", completed=client)
    runner._tasks = dict.fromkeys(futures, Task("a.onnx", "a.onnx"))
    open_store(str(tmp_path)).write("runs/a.jsonl", b"")
    outcomes = runner.run(Job("lower", str(tmp_path)), [])
    assert next(outcomes) == done
    with pytest.raises(UsageError, match="the results cannot be stored"):
        next(outcomes)


def test_refusal_that_ends_the_run_is_of_a_connected_worker() -> None:
    client: Any = SimpleNamespace(nthreads=lambda: {"tcp://b:1": 1})
    runner = cluster._DaskRunner(client, "node1:8786", completed=client)
    runner._refusals = {"tcp://a:1": "the worker at a", "tcp://b:1": "the worker at b"}
    with pytest.raises(UsageError, match="^the worker at b$"):
        runner._look_for_workers()


def test_end_of_a_run_ends_no_model_of_another_run(tmp_path: Path, site: dict[str, str]) -> None:
    write_models(tmp_path / "models", ["wait"])
    with Cluster(tmp_path / "cluster", site) as started:
        started.start_scheduler()
        started.start_worker("--nthreads", "2")
        words = ["lower", tmp_path / "models", "--timeout", "0", "--cluster", started.url, "-o"]
        first, second = (start(site, *words, tmp_path / name) for name in ("first", "second"))
        wait_until(lambda: is_at_work(tmp_path / "first") and is_at_work(tmp_path / "second"), "the tasks")
        first.send_signal(signal.SIGINT)
        finish(first, 130)
        wait_until(lambda: not (tmp_path / "first" / "scratch").exists(), "the end of the task")
        assert is_at_work(tmp_path / "second")
        (tmp_path / "models" / "open").touch()
        finish(second, 0)
    assert {row["verdict"] for row in read_rows(tmp_path / "second")} == {"clean"}


def test_a_model_that_ends_every_worker_is_lost(tmp_path: Path, site: dict[str, str]) -> None:
    write_models(tmp_path / "models", [*[""] * 4, "kill parent"])
    with Cluster(tmp_path / "cluster", site) as started:
        started.start_scheduler(DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
        started.start_worker("--nthreads", "1", "--nanny")
        finish(start(site, "lower", tmp_path / "models", "-o", tmp_path / "run", "--cluster", started.url), 2)
    verdicts = {Path(row["model"]).stem: row for row in read_rows(tmp_path / "run")}
    lost = verdicts.pop("0004_kill_parent")
    assert (lost["verdict"], lost["key"]) == ("lost", "")
    assert lost["message"] == "every worker that got this model ended; run the same command again to retry it."
    assert {row["verdict"] for row in verdicts.values()} <= {"clean", "lost"}  # the worker had several models


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_ends_what_is_under_way(
    tmp_path: Path, site: dict[str, str], small: Cluster, number: int, code: int
) -> None:
    write_models(tmp_path / "models", ["", "", "spin", "spin"])
    process = start(
        site, "lower", tmp_path / "models", "-o", tmp_path / "run", "--timeout", "600", "--cluster", small.url
    )
    wait_until(lambda: count_results(tmp_path / "run") == 2, "the first two models")
    worker = small.processes[1].pid
    wait_until(lambda: len(children(worker)) == 3, "a process for each model")
    at_work = children(worker)[1:]
    begun = {pid: ticks(pid) for pid in at_work}
    wait_until(lambda: all(ticks(pid) > begun[pid] + 20 for pid in at_work), "the models that hang")
    process.send_signal(number)
    finish(process, code)
    assert_gone(at_work)
    assert {row["verdict"] for row in read_rows(tmp_path / "run")} == {"clean"}
    assert count_results(tmp_path / "run") == 2
    wait_until(lambda: not (tmp_path / "run" / "scratch").exists(), "the end of what was written on the way")


def make_other(folder: Path) -> str:
    """Install another version of the deadly format; return a search path with it."""
    (install(folder) / "deadly_format-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: deadly-format\nVersion: 2.0\n"
    )
    return environment(folder)["PYTHONPATH"]


def test_a_run_does_without_a_worker_of_other_versions(tmp_path: Path, site: dict[str, str]) -> None:
    """The run ends only if no other worker is there. The last model waits until a late worker was unfit, too."""
    write_models(tmp_path / "models", [*[""] * 4, "wait"])
    words = ["lower", tmp_path / "models", "-o", tmp_path / "run", "--timeout", "0", "--cluster"]
    sentence = "has deadly-format 2.0 instead of 1.0, and would compute something else; install the same versions."
    with Cluster(tmp_path / "cluster", site) as started:
        started.start_scheduler()
        started.start_worker("--nthreads", "1", PYTHONPATH=make_other(tmp_path / "other"))
        wait_until(lambda: started.count_registered() == 1, "the worker")
        _, said = finish(start(site, *words, started.url), 2)
        assert sentence in said
        assert count_results(tmp_path / "run") == 0
        fit = started.start_worker("--nthreads", "1")
        wait_until(lambda: started.count_registered() == 2, "the other worker")
        process = start(site, *words, started.url)
        wait_until(lambda: count_results(tmp_path / "run"), "the first model")
        started.start_worker("--nthreads", "1", PYTHONPATH=make_other(tmp_path / "another"))
        wait_until(lambda: started.count_registered() == 3, "the late worker")
        started.kill(fit)  # its model goes to the late worker, for which Dask may have none otherwise
        wait_until(lambda: process.said()[1].count(sentence) == 2 or process.poll() is not None, "the sentence")
        started.start_worker("--nthreads", "1")
        (tmp_path / "models" / "open").touch()
        _, said = finish(process, 0)
        assert said.count(sentence) == 2
    assert Counter(row["verdict"] for row in read_rows(tmp_path / "run")) == {"clean": 5}


def test_a_worker_without_sliceport_is_told(tmp_path: Path, site: dict[str, str]) -> None:
    write_models(tmp_path / "models", [""])
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sliceport.py").write_text("raise ImportError('it is not installed')\n")
    path = os.pathsep.join([str(tmp_path / "without"), site["PYTHONPATH"]])
    with Cluster(tmp_path / "cluster", site) as started:
        started.start_scheduler()
        words = ["lower", tmp_path / "models", "-o", tmp_path / "run", "--cluster", started.url]
        started.start_worker("--nthreads", "1", PYTHONPATH=path)
        wait_until(lambda: started.count_registered() == 1, "the worker")
        _, said = finish(start(site, *words), 2)
    assert " lacks this version of sliceport (" in said


def test_worker_that_does_not_see_the_results_is_refused(tmp_path: Path, site: dict[str, str], small: Cluster) -> None:
    """A file system in memory is one that nobody shares."""
    write_models(tmp_path / "models", [""])
    _, said = finish(start(site, "lower", tmp_path / "models", "-o", "memory://run", "--cluster", small.url), 2)
    assert "does not see 'memory://run/runs/" in said
    assert "models and results must lie in folders that all machines see by the same path, or at URLs." in said


def test_a_worker_that_does_not_see_a_file_does_not_fit(tmp_path: Path) -> None:
    open_store(str(tmp_path)).write("runs/a.jsonl", b"")
    root, describe = str(tmp_path), cluster.describe_refusal
    rule = "models and results must lie in"
    assert describe(root, "runs/a.jsonl", None) == describe(root, "runs/a.jsonl", __file__) == ""
    assert describe(root, "runs/b.jsonl", None).startswith(f"does not see '{tmp_path}/runs/b.jsonl'; {rule}")
    assert describe(root, "runs/a.jsonl", "/none/there").startswith(f"does not see '/none/there'; {rule}")


def test_task_that_begins_while_its_run_stops_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(store: Folder, make_scratch: Any = Folder.new_scratch) -> Any:
        cluster.stop_run("the run")
        return make_scratch(store)

    monkeypatch.setattr(Folder, "new_scratch", stop)
    monkeypatch.setattr(cluster, "_stop_events", {"the run": threading.Event()})
    packed = pickle.dumps((Job("lower", str(tmp_path)), Task("a.onnx", "a.onnx"), "", False))
    with pytest.raises(RunStopped):
        cluster.serve("the run", cluster.needed_versions(), packed)
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize("url", ["spark://a:1", "dask://", "dask://host", "dask:host:1", "host:1", "dask://a b:1", ""])
def test_url_that_names_no_cluster_is_refused(url: str) -> None:
    rule = "^--cluster must be dask://HOST:PORT, the scheduler of dask.distributed, got '"
    with pytest.raises(UsageError, match=rule):
        open_cluster(url)


def test_missing_distributed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r'distributed is needed by --cluster.*"sliceport\[dask\]"'):
        open_cluster("dask://127.0.0.1:8786")


def test_missing_scheduler_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster, "_TIMEOUT", 0.5)
    port = Cluster(tmp_path, {}).port
    with pytest.raises(UsageError, match=rf"^--cluster: the scheduler at 127.0.0.1:{port} cannot be reached \("):
        open_cluster(f"dask://127.0.0.1:{port}")
