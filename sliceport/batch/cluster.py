"""Tasks on a cluster: the scheduler of dask.distributed gives them to its workers.

Results go to the store, from whichever worker. Dask itself gives a task again that a dying worker had. A run whose
scheduler is lost ends; the same command goes on where it ended.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from sliceport import progress
from sliceport.batch.cluster_worker import Setup, find_marker, needed_versions
from sliceport.batch.names import is_url
from sliceport.batch.result import to_row
from sliceport.batch.runner import Runner
from sliceport.batch.store import open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.errors import MissingExtra, SliceportError, UsageError

if TYPE_CHECKING:
    from distributed import Client, WorkerPlugin

_SCHEMES = {"dask": "", "tcp": "tcp://", "tls": "tls://"}
"""Map the scheme of a URL to that of Dask's address. An address without a scheme gets that of Dask's configuration."""
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):[0-9]{1,5}/?")
_PATIENCE = 20.0
"""Seconds for the connection to the scheduler, and for telling the workers that the run is over."""
_RETRIES = 2
"""The number of times that a task is given again after an exception, such as a share that does not answer."""
_MIN_FUTURES, _FUTURES_A_THREAD = 32, 4
"""Tasks that the scheduler has at once. Each death of a worker counts against all tasks that it was given."""


def open_cluster(url: str) -> Runner:
    """Connect to a cluster.

    Args:
        url: `dask://HOST:PORT`, the scheduler, with Dask's configuration. `tls://HOST:PORT` asks for TLS in any case.

    Raises:
        UsageError: The URL is not written like that, or there is no scheduler.
        MissingExtra: distributed is not installed.
    """
    scheme, _, address = url.partition("://")
    if scheme not in _SCHEMES or not _ADDRESS.fullmatch(address):
        raise UsageError(f"--cluster must be dask://HOST:PORT, the scheduler of dask.distributed, got {url!r}.")
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra.of("distributed", "dask", "by --cluster") from None
    address = _SCHEMES[scheme] + address.rstrip("/")
    progress.say(f"connecting to {address}")
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False, name="sliceport")
    except Exception as error:  # of the network, of TLS, of another version of distributed
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise UsageError(f"--cluster: the scheduler at {address} cannot be reached ({reason}).") from None
    return DaskRunner(client, address)


class DaskRunner:
    """A runner that gives tasks to the workers of a scheduler."""

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address
        # The name of the run's plugin, of the resource that a worker gets from it, and of the topic of its events.
        self._name = f"sliceport-{secrets.token_hex(8)}"
        self._threads = 0
        self._is_prepared = False

    def run(self, job: Job, tasks: Iterable[Task]) -> Generator[Done]:
        """Implement `Runner.run`. If the iterator is closed early, models under way are given up, without a result.

        Raises:
            UsageError: No worker fits, results cannot be read or stored, or the scheduler is lost.
        """
        from distributed import as_completed

        tasks, work = iter(tasks), _make_work()
        futures: dict[str, Task] = {}
        try:
            completed = as_completed(loop=self._client.loop, with_results=True, raise_errors=False)

            def submit(task: Task) -> None:
                if not self._is_prepared:
                    self._prepare(job, task)
                packed = pickle.dumps((self._name, job, task))
                key = f"{self._name}-{secrets.token_hex(8)}"
                limits: dict[str, Any] = {"resources": {self._name: 1}, "retries": _RETRIES}
                completed.add(self._client.submit(work, packed, key=key, pure=False, **limits))
                futures[key] = task

            for task in islice(tasks, _MIN_FUTURES):
                submit(task)
            for batch in completed.batches():
                for future, result in batch:
                    yield self._read(job, futures.pop(future.key), future.status, result)
                for task in islice(tasks, max(_MIN_FUTURES, _FUTURES_A_THREAD * self._threads) - len(futures)):
                    submit(task)
        finally:
            with suppress(Exception):  # whatever a dying cluster answers
                scheduler: Any = self._client.scheduler
                self._client.sync(scheduler.unregister_worker_plugin, name=self._name, callback_timeout=_PATIENCE)
            self._client.close(timeout=_PATIENCE)

    def _prepare(self, job: Job, first: Task) -> None:
        """Let the workers that are there and those that come later find out whether they fit.

        Raises:
            UsageError: Workers are there, and none fits.
        """
        self._is_prepared = True
        model = first.location if not is_url(first.location) and os.path.exists(first.location) else None
        setup = Setup(self._name, job, needed_versions(), find_marker(open_store(job.root)), model)
        self._client.register_plugin(_make_plugin(self._name, pickle.dumps(setup)), name=self._name)
        events = [message for _, message in self._client.get_events(self._name)]
        refusals = [event["refusal"] for event in events if event["refusal"]]
        if refusals and len(refusals) == len(events):
            others = f" (and {len(refusals) - 1} more workers)" if len(refusals) > 1 else ""
            raise UsageError(refusals[0] + others)
        if not events:
            progress.announce(f"no worker is connected to {self._address}; waiting for one")
        for event in events:
            self._note_worker(event)
        self._client.subscribe_topic(self._name, lambda event: self._note_worker(event[1]))

    def _note_worker(self, event: dict[str, Any]) -> None:
        """Count the threads of a worker that fits, or tell why the run does without it."""
        self._threads += event["threads"]
        if event["refusal"]:
            progress.announce(f"the run does without a worker: {event['refusal']}")

    def _read(self, job: Job, task: Task, status: str, result: Any) -> Done:
        """Return the outcome of a task. What is wrong with the run itself is raised."""
        from distributed import KilledWorker

        if status == "finished":
            return pickle.loads(result)  # type: ignore[no-any-return]  # noqa: S301 - from this run's own code
        if status != "error":
            raise UsageError(
                f"--cluster: the connection to the scheduler at {self._address} is lost; "
                "the same command goes on where this one has ended."
            )
        error = result[1]
        if isinstance(error, SliceportError):
            raise error
        message = f"no worker could do it ({type(error).__name__}: {error})."
        if isinstance(error, KilledWorker):
            message = "every worker that it was given to ended; the same command tries it again."
        lost: dict[str, Any] = {"command": job.command, "verdict": "lost", "message": message}
        row = to_row(lost | {"findings": [], "result": None}, task.model, "")
        return Done(task.model, "", "lost", message, row=row)


def _make_plugin(name: str, setup: bytes) -> WorkerPlugin:
    """Return the plugin of a run.

    Its class is local, so that Dask sends its code. A worker without sliceport would end if it had to load it by name.
    """
    from distributed import Status, WorkerPlugin

    class RunPlugin(WorkerPlugin):
        """Gives a worker that fits a run the resource that the tasks of the run need."""

        async def setup(self, worker: Any) -> None:
            import asyncio

            try:
                from sliceport.batch import cluster_worker

                refusal = await asyncio.to_thread(cluster_worker.start_run, setup)
            except ImportError as error:
                refusal = f"the worker at {worker.address} lacks this version of sliceport ({error}); install it there."
            threads = 0 if refusal else worker.state.nthreads
            if threads:
                await worker.set_resources(**{name: threads})
                # The scheduler looks for waiting tasks when a worker resumes, but not when its resources change.
                worker.status = Status.paused
                worker.status = Status.running
            worker.log_event(name, {"refusal": refusal, "threads": threads})

        async def teardown(self, worker: Any) -> None:  # noqa: ARG002 - the name that Dask gives
            import asyncio

            from sliceport.batch import cluster_worker

            await asyncio.to_thread(cluster_worker.stop_run, name)

    return RunPlugin()


def _make_work() -> Callable[[bytes], bytes]:
    """Return the function of a task. It is local, so that a scheduler without sliceport can load it."""

    def work(packed: bytes) -> bytes:
        import pickle

        from sliceport.batch import cluster_worker

        return pickle.dumps(cluster_worker.do_task(*pickle.loads(packed)))  # noqa: S301 - from the client

    return work
