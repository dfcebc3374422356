"""Running a command over many models, from the list of them to the view of the results."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sliceport.batch.manifest import Manifest
from sliceport.batch.names import is_url
from sliceport.batch.result import make_failure_row
from sliceport.batch.row import Header
from sliceport.batch.run_folder import Journal, Run, read_run, start_time, write_view
from sliceport.batch.runner import LocalRunner, Runner
from sliceport.batch.sources import BadSource, expand, is_in_shard
from sliceport.batch.store import FOLDERS, open_store
from sliceport.batch.summary import Summary
from sliceport.batch.task import Done, Job, Task
from sliceport.batch.versions import versions
from sliceport.commands.command import COMMANDS
from sliceport.errors import UsageError, unknown_name
from sliceport.formats import formats

DEFAULT_TIMEOUT = 300.0
DEFAULT_MEMORY = 4 * 2**30
_MIN_INTERVAL = 30.0
_MAX_SHARE = 0.05
"""The time between two views on the way: at least so many seconds, and so long that views take at most this share."""


@dataclass(frozen=True)
class Batch:
    """Command and the models to run it over.

    Attributes:
        command: The command's name, one of `sliceport.commands.command.COMMANDS`.
        sources: Files, folders, globs, `@lists` and URLs; see `sliceport.batch.sources.expand`.
        root: The folder or URL of the results.
        options: Arguments of the Python function that does the same; `inputs` by name of file.
        manifest: Options of single models.
        jobs: The number of models at once; by default the number of cores.
        timeout: Seconds that a model may take; None for any.
        memory: Bytes that each process of a model may allocate; None for any.
        writes: Whether the files that the command can write are kept; `rewrite` and `harden` always do.
        chooses_shapes: Whether open sizes of inputs are chosen where none are given.
        shard: Which part of the models, of how many: `(1, 3)`; None for all.
        retries: Whether models that failed before are tried again.
        cluster: The address of a scheduler that does the work instead of this machine.
    """

    command: str
    sources: Sequence[str]
    root: str
    options: Mapping[str, Any] = field(default_factory=dict)
    manifest: Manifest | None = None
    jobs: int | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    memory: int | None = DEFAULT_MEMORY
    writes: bool = False
    chooses_shapes: bool = False
    shard: tuple[int, int] | None = None
    retries: bool = False
    cluster: str | None = None


@dataclass(frozen=True)
class Finished:
    """Outcome of a run.

    Attributes:
        run: Its models.
        summary: Their counts.
    """

    run: Run
    summary: Summary


def run_batch(
    batch: Batch,
    *,
    begin: Callable[[int], None] = lambda _: None,
    observe: Callable[[Done], None] = lambda _: None,
) -> Finished:
    """Run a command over models: those whose results are there already are not run again.

    Args:
        batch: The command, models and options.
        begin: Called with the number of models before the first.
        observe: Called with each model that is done.

    Raises:
        UsageError: The command does not exist, a source matches nothing, or the results cannot be read or stored.
        MissingExtra: A package that something of it needs is not installed.
    """
    if batch.command not in COMMANDS:
        raise unknown_name("command", batch.command, list(COMMANDS))
    models, bad = list_models(batch)
    begin(len(models) + len(bad))
    store = open_store(batch.root)
    job = _make_job(batch, store.root)
    header = _make_header(batch, job, len(models) + len(bad), start_time(store))
    scratch = store.new_scratch()
    try:
        runner = _choose_runner(batch, scratch)
        journal = Journal(store, header, scratch)
        try:
            with closing(runner.run(job, _tasks(batch, models))) as results:
                done = itertools.chain((_describe_bad_source(batch.command, one) for one in bad), results)
                _follow(done, journal, lambda: write_view(read_run(store), scratch), observe)
        finally:
            journal.close()
            summary = Summary()
            run = latest = read_run(store)
            if latest.header["started"] != header["started"]:  # of another command, say, which has begun meanwhile
                run = read_run(store, journal.name)
                summary = Summary.of(run.rows())
            write_view(latest, scratch, summary.add if run is latest else lambda _: None)
    finally:
        store.remove_scratch(scratch)
    return Finished(run, summary)


def _follow(
    results: Iterator[Done], journal: Journal, write: Callable[[], None], observe: Callable[[Done], None]
) -> None:
    """Take down what is done, and write a view of it from time to time."""
    written, interval = time.monotonic(), _MIN_INTERVAL
    for done in results:
        journal.add(done)
        observe(done)
        if time.monotonic() - written > interval:
            begun = time.monotonic()
            write()
            written = time.monotonic()
            interval = max(_MIN_INTERVAL, (written - begun) / _MAX_SHARE)


def list_models(batch: Batch) -> tuple[list[str], list[BadSource]]:
    """Return the models of a batch, and the sources that have none.

    Raises:
        UsageError: No source has a model.
    """
    takes = [one for one in formats().values() if batch.command != "rewrite" or any(one.passes())]
    suffixes = [suffix for one in takes for suffix in one.suffixes if suffix]
    own = [f"{batch.root.rstrip('/')}/{name}" for name in FOLDERS]  # the results may lie in the very source
    found = list(expand(batch.sources, suffixes, leave_out=[batch.root, *own]))
    bad = [one for one in found if isinstance(one, BadSource)]
    if bad and len(bad) == len(found):
        raise UsageError(bad[0].reason)
    i, n = batch.shard or (1, 1)
    models = [one for one in found if isinstance(one, str) and is_in_shard(one, i, n)]
    return models, [one for one in bad if is_in_shard(one.name, i, n)]


def _describe_bad_source(command: str, source: BadSource) -> Done:
    row = make_failure_row(command, "error", source.reason, source.name)
    return Done(source.name, "", "error", source.reason, row=row)


def _make_job(batch: Batch, root: str) -> Job:
    return Job(
        command=batch.command,
        options=dict(batch.options),
        versions=versions(),
        root=root,
        timeout=batch.timeout,
        memory=batch.memory,
        writes=batch.writes,
        chooses_shapes=batch.chooses_shapes,
        retries=batch.retries,
    )


def _make_header(batch: Batch, job: Job, models: int, started: str) -> Header:
    given = {name: value for name, value in job.options.items() if value is not False and value not in (None, {}, [])}
    if batch.chooses_shapes:
        given["input_shapes"] = {**given["input_shapes"], "*": "auto"} if "input_shapes" in given else "auto"
    return Header(
        schema_version=1,
        command=batch.command,
        options=given,
        sources=list(batch.sources),
        versions=dict(job.versions),
        started=started,
        shard=None if batch.shard is None else f"{batch.shard[0]}/{batch.shard[1]}",
        timeout=batch.timeout,
        memory=batch.memory,
        jobs=_jobs(batch),
        models=models,
    )


def _jobs(batch: Batch) -> int:
    if batch.jobs is not None:
        return batch.jobs
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _tasks(batch: Batch, models: Sequence[str]) -> Iterator[Task]:
    for model in models:
        location = model if is_url(model) else os.path.abspath(model)
        options = {} if batch.manifest is None else batch.manifest.options_of(model)
        if not COMMANDS[batch.command].takes_inputs:
            options.pop("inputs", None)
        yield Task(model, location, options)


def _choose_runner(batch: Batch, scratch: Path) -> Runner:
    if batch.cluster is None:
        return LocalRunner(_jobs(batch), scratch)
    from sliceport.batch.cluster import open_cluster

    return open_cluster(batch.cluster)
