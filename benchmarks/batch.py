"""Overhead of `sliceport batch lower` over a bare loop: time for each model and core, and memory of the main process.

The models are those of models/ and distinct tiny ones, so that nearly all of the time is overhead. One time is the wall
time multiplied by the cores in use, the other is the processor time. Both are compared with the time of a loop that
calls `sliceport.lower` for each model in one process. The time to start processes does not count. The benchmark also
prints how many models it finds, and how many results it stores, in a second.

    python benchmarks/batch.py [--models 2000] [--large 10000] [--no-dask]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lower import slices

MODELS = Path(__file__).parents[1] / "models"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MEASURE = """
import json, resource, sys, time
begun = time.perf_counter()
{work}
passed = time.perf_counter() - begun
own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
peak = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
times = passed, own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime, peak / 1024
print(json.dumps(times), file=sys.stderr)
"""
LOOP = """
from pathlib import Path
import sliceport
for path in sorted(Path(sys.argv[1]).rglob("*.onnx")):
    try:
        sliceport.lower(path).to_json()
    except sliceport.SliceportError:
        pass
"""
BATCH = """
from sliceport.sandbox import supervisor
from sliceport.cli.main import main
assert main(sys.argv[1:]) in (0, 1, 2)  # 2 if a model cannot be read
supervisor.end_idle()
"""


@dataclass(frozen=True)
class Times:
    """Resources that a process used.

    Attributes:
        passed: Wall time in seconds.
        own: Processor time of the process in seconds.
        children: Processor time of its children in seconds.
        peak: Its largest memory in MiB.
    """

    passed: float
    own: float
    children: float
    peak: float

    @property
    def processor(self) -> float:
        """Processor time of the process and its children in seconds."""
        return self.own + self.children


def make_models(folder: Path, count: int, *, real: bool) -> Path:
    """Write `count` models into a new folder, and return the folder.

    Up to half of them are copies of those in models/ if `real` is true. All others are tiny, a thousand in each
    subfolder.
    """
    copied = sorted(MODELS.glob("*.onnx"))[: count // 2] if real else []
    folder.mkdir()
    for path in copied:
        shutil.copy(path, folder)
    model = slices(2)
    for i in range(count - len(copied)):
        subfolder = folder / f"{i // 1000:04d}"
        subfolder.mkdir(exist_ok=True)
        model.doc_string = str(i)  # makes the models distinct, so that no result is found in the cache
        (subfolder / f"{i:07d}.onnx").write_bytes(model.SerializeToString())
    return folder


def measure(work: str, *words: object) -> Times:
    """Run code in a process of its own, and return the resources that it used."""
    command = [sys.executable, "-c", MEASURE.format(work=work), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Times(*json.loads(done.stderr.splitlines()[-1]))


def run_batch(models: Path, run: Path, *words: object) -> Times:
    """Run `sliceport batch lower` on a folder of models, and return the resources that it used."""
    return measure(BATCH, "batch", "lower", models, "-o", run, "--format", "json", *words)


def measure_commands(folder: Path) -> None:
    """Print how long each command takes for a model of models/ with one job. The start of processes is included."""
    count = len(list(MODELS.glob("*.onnx")))
    for command in ("lower", "rewrite", "harden", "compare"):
        run = folder / command
        words = (command, MODELS / "*.onnx", "-o", run, "--jobs", 1, "--input-shapes", "auto", "--format", "json")
        times = measure(BATCH, "batch", *words)
        print(f"{command} of the {count} models of models/: {times.passed / count * 1e3:.0f} ms a model")


def measure_report(run: Path) -> Times:
    """Read the results of a run again by `sliceport batch report`."""
    return measure(BATCH, "batch", "report", run, "--format", "json")


def rate_of_names(models: Path) -> float:
    """Return how many models are found in a folder in a second."""
    from sliceport.batch.sources import expand_sources

    begun = time.perf_counter()
    count = sum(1 for _ in expand_sources([str(models)], [".onnx"]))
    return count / (time.perf_counter() - begun)


def rate_of_results(folder: Path, count: int) -> float:
    """Return how many results one process stores in a second."""
    from sliceport.batch.result import result_name
    from sliceport.batch.store import Folder

    store, data = Folder(str(folder)), b"x" * 2000
    begun = time.perf_counter()
    for i in range(count):
        # The factor spreads the names over all folders, as hashes are.
        store.write(result_name(f"{i * 0x9E3779B97F4A7C15 % 2**64:016x}"), data)
    return count / (time.perf_counter() - begun)


def measure_dask(models: Path, folder: Path, count: int) -> None:
    """Print how long two workers take for `count` models, and how many empty tasks the scheduler passes in a second."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # workers that outlive the scheduler
    with LocalCluster(
        n_workers=2, threads_per_worker=1, protocol="tcp", dashboard_address=None, silence_logs=logging.CRITICAL
    ) as cluster:
        url = cluster.scheduler_address.replace("tcp://", "dask://")
        few = make_models(folder / "few", 8, real=False)
        run_batch(few, folder / "dask-few", "--cluster", url)  # not measured: the workers import their packages
        start = run_batch(few, folder / "dask-start", "--cluster", url)
        times = run_batch(models, folder / "dask", "--cluster", url)
        each = (times.passed - start.passed) / count * 1e3
        print(f"Dask, 2 workers: {times.passed:.1f} s, with {start.passed:.1f} s for the start; ", end="")
        print(
            f"{each:.2f} ms a model; coordinator {(times.own - start.own) / count * 1e3:.2f} ms, {times.peak:.0f} MiB"
        )
        with Client(cluster) as client:
            begun = time.perf_counter()
            client.gather(client.map(abs, range(5000), pure=False))
            print(f"Dask's scheduler: {5000 / (time.perf_counter() - begun):.0f} empty tasks a second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=2000, help="number of models; default 2000")
    parser.add_argument("--large", type=int, default=10_000, help="number for the memory; default 10000, 0 skips it")
    parser.add_argument("--no-dask", action="store_true", help="do not measure Dask")
    options = parser.parse_args()
    count = options.models
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models, few = make_models(folder / "models", count, real=True), make_models(folder / "two", 2, real=False)
        # The loop over two models and the runs on them measure the start of the processes.
        loop, loop_start = measure(LOOP, models), measure(LOOP, few)
        starts = {jobs: run_batch(few, folder / f"start{jobs}", "--jobs", jobs) for jobs in (1, 2)}

        def show(title: str, times: Times, jobs: int, number: int, bare: Times) -> None:
            """Print a row about a run of `number` models; `bare` are the times of the bare loop for the same work."""
            passed = (times.passed - starts[jobs].passed) * min(jobs, CORES)
            bare_passed = bare.passed - loop_start.passed
            ratio = f"{passed / bare_passed:5.2f}" if bare_passed else "    -"
            passed_beyond = (passed - bare_passed) / number * 1e3
            processor = times.processor - starts[jobs].processor - (bare.processor - loop_start.processor)
            coordinator = (times.own - starts[jobs].own) / number * 1e3
            cells = f"{passed_beyond:8.2f}{processor / number * 1e3:14.2f}{coordinator:15.2f}"
            print(f"{title:24s}{times.passed:8.1f}  {ratio}{cells}", flush=True)

        print(f"{count} models, a bare loop: {(loop.passed - loop_start.passed) / count * 1e3:.2f} ms a model")
        print(f"the start of a run: {starts[2].passed:.1f} s")
        print("beyond the loop                s  ratio  ms a model  processor ms  coordinator ms")
        show("1 job", run_batch(models, folder / "run1", "--jobs", 1), 1, count, loop)
        show("2 jobs", run_batch(models, folder / "run2", "--jobs", 2), 2, count, loop)
        # The loop has nothing to do for cached results, so it gets the time of its start.
        show("2 jobs, all cached", run_batch(models, folder / "run2", "--jobs", 2), 2, count, loop_start)
        measure_commands(folder)
        print(f"report: {measure_report(folder / 'run2').passed / count * 1e3:.2f} ms a model")
        print(f"sources: {rate_of_names(models):.0f} names a second")
        print(f"file system: {rate_of_results(folder / 'results', count):.0f} results a second by one process")
        if not options.no_dask and find_spec("distributed") is not None:
            measure_dask(models, folder, count)
        if options.large:
            large, run = make_models(folder / "large", options.large, real=False), folder / "large-run"
            times = run_batch(large, run, "--jobs", 2)
            show(f"{options.large}, 2 jobs", times, 2, options.large, measure(LOOP, large))
            again, report = run_batch(large, run, "--jobs", 2), measure_report(run)
            show(f"{options.large}, all cached", again, 2, options.large, loop_start)
            print(
                f"{options.large} models: coordinator at most {times.peak:.0f} MiB, again {again.peak:.0f} MiB; ",
                end="",
            )
            print(f"report {report.passed:.1f} s, {report.peak:.0f} MiB")


if __name__ == "__main__":
    main()
