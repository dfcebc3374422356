"""Runs of a command over many models: list the models, do their tasks, and write `results.jsonl`, the view."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sliceport.batch.manifest import Manifest
from sliceport.batch.names import is_url
from sliceport.batch.process import Runner, run_locally
from sliceport.batch.result import make_failure_row
from sliceport.batch.row import Header
from sliceport.batch.run_folder import Journal, Run, read_run, start_time, write_view
from sliceport.batch.sources import BadSource, expand_sources, is_in_shard
from sliceport.batch.store import FOLDERS, Store, open_store
from sliceport.batch.summary import Summary
from sliceport.batch.task import Done, Job, Task
from sliceport.commands.command import NAMES, load
from sliceport.errors import UsageError, check_names
from sliceport.formats import formats

_MIN_INTERVAL = 30.0
_MAX_SHARE = 0.05
"""Least seconds between two writes of the view, and the largest share of the run's time that they may take."""


@dataclass(frozen=True)
class Batch:
    """A job, and the models to do it for.

    Attributes:
        job: The command, its options and the folder or URL of the results.
        sources: Files, folders, globs, `@lists` and URLs; see `sliceport.batch.sources.expand_sources`.
        manifest: Options of single models.
        jobs: The number of models at once; by default the number of cores.
        shard: The part of the models to do, and the number of parts: `(1, 3)`; None for all models.
        cluster: The address of a scheduler that does the work instead of this machine.
    """

    job: Job
    sources: Sequence[str]
    manifest: Manifest | None = None
    jobs: int | None = None
    shard: tuple[int, int] | None = None
    cluster: str | None = None


class Finished(NamedTuple):
    """Outcome of a run: its models, and their counts."""

    run: Run
    summary: Summary


def run_batch(
    batch: Batch, *, begin: Callable[[int], None] = lambda _: None, observe: Callable[[Done], None] = lambda _: None
) -> Finished:
    """Run a command over models. Models that have a valid result are not run again.

    Args:
        batch: The command, models and options.
        begin: Called once, before the first model is done, with the number of models and bad sources together.
        observe: Called with the outcome of each model and each bad source. The verdict on a bad source is `error`.

    Raises:
        UsageError: The command does not exist, all sources are bad, or the cluster or the store of results fails.
        MissingExtra: A package for a URL or a cluster is not installed.
    """
    check_names("command", [batch.job.command], NAMES)
    models, bad = list_models(batch)
    begin(len(models) + len(bad))
    store = open_store(batch.job.root)
    job = replace(batch.job, root=store.root)  # an absolute path, for processes in other folders
    header = _make_header(batch, len(models) + len(bad), start_time(store))
    scratch = store.new_scratch()
    try:
        runner = _choose_runner(batch, scratch)  # before the journal, because connecting to a cluster may fail
        journal = Journal(store, header)
        try:
            with closing(runner(job, _make_tasks(batch, models))) as results:
                rows = (make_failure_row(job.command, "error", source.reason, source.name) for source in bad)
                failures = (Done(row["model"], key="", verdict="error", row=row) for row in rows)
                outcomes = itertools.chain(failures, results)
                _record(outcomes, journal, lambda: write_view(read_run(store), scratch), observe)
        finally:  # also if the user stops the run
            finished = _finish(store, journal, header, scratch)
    finally:
        store.remove_scratch(scratch)
    return finished


def _finish(store: Store, journal: Journal, header: Header, scratch: Path) -> Finished:
    """Complete the journal of a run, write the view of the latest run, and return the outcome of the journal's run."""
    journal.store_lines()
    latest, summary = read_run(store), Summary()
    write_view(latest, scratch, summary.add)
    if latest.header["started"] == header["started"]:
        return Finished(latest, summary)
    run = read_run(store, journal.name)  # another run, such as one of another command, has begun meanwhile
    return Finished(run, Summary.of(run.rows()))


def _record(
    outcomes: Iterator[Done], journal: Journal, write: Callable[[], None], observe: Callable[[Done], None]
) -> None:
    """Add each outcome to the journal and pass it to `observe`. Call `write` from time to time to write the view."""
    last_written, interval = time.monotonic(), _MIN_INTERVAL
    for done in outcomes:
        journal.add(done)
        observe(done)
        if time.monotonic() - last_written > interval:
            start = time.monotonic()
            write()
            last_written = time.monotonic()
            interval = max(_MIN_INTERVAL, (last_written - start) / _MAX_SHARE)  # limits the share of a slow `write`


def list_models(batch: Batch) -> tuple[list[str], list[BadSource]]:
    """Return the models of a batch, and its bad sources. If the batch is a shard, return only those of the shard.

    Raises:
        UsageError: All sources are bad.
        MissingExtra: A package for a URL is not installed.
    """
    readable = filter(load(batch.job.command).reads, formats().values())
    suffixes = [suffix for format_ in readable for suffix in format_.suffixes]
    root = batch.job.root
    folders = [root, *(f"{root.rstrip('/')}/{name}" for name in FOLDERS)]  # the results may lie among the sources
    expanded = list(expand_sources(batch.sources, suffixes, leave_out=folders))
    bad = [source for source in expanded if isinstance(source, BadSource)]
    if bad and len(bad) == len(expanded):
        raise UsageError(bad[0].reason)
    number, count = batch.shard or (1, 1)
    models = [model for model in expanded if isinstance(model, str) and is_in_shard(model, number, count)]
    return models, [source for source in bad if is_in_shard(source.name, number, count)]


def _make_header(batch: Batch, model_count: int, started: str) -> Header:
    """Build the first line of the journal of a run."""
    job = batch.job
    # Options that are not set are left out. Otherwise the options of two runs would differ if one of the runs has a
    # later version with a new option.
    options = {name: value for name, value in job.options.items() if value is not False and value not in (None, {}, [])}
    if options.get("open_sizes") == "primes":  # written `--input-shapes auto` on the command line
        del options["open_sizes"]
        options["input_shapes"] = {**options["input_shapes"], "*": "auto"} if "input_shapes" in options else "auto"
    return Header(
        schema_version=1,
        command=job.command,
        options=options,
        sources=list(batch.sources),
        versions=dict(job.versions),
        started=started,
        shard=None if batch.shard is None else f"{batch.shard[0]}/{batch.shard[1]}",
        timeout=job.timeout,
        memory=job.memory,
        jobs=_choose_job_count(batch),
        models=model_count,
    )


def _choose_job_count(batch: Batch) -> int:
    """Return the number of models to run at once."""
    if batch.jobs is not None:
        return batch.jobs
    affinity = getattr(os, "sched_getaffinity", None)  # this process may be limited to some of the cores
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _make_tasks(batch: Batch, models: Sequence[str]) -> Iterator[Task]:
    for model in models:
        location = model if is_url(model) else os.path.abspath(model)
        options = {} if batch.manifest is None else batch.manifest.options_of(model)
        if "inputs" not in batch.job.options:  # the command, such as `lower`, reads no arrays
            options.pop("inputs", None)
        yield Task(model, location, options)


def _choose_runner(batch: Batch, scratch: Path) -> Runner:
    if batch.cluster is None:
        return partial(run_locally, jobs=_choose_job_count(batch), scratch=scratch)
    from sliceport.batch.cluster import open_cluster

    return open_cluster(batch.cluster)
