"""Tasks on a cluster: the scheduler of dask.distributed gives them to its workers.

The workers write results to the store. If a worker dies, Dask gives its tasks to other workers. If the scheduler is
lost, the run ends, and the same command continues it.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import secrets
import time
from asyncio import CancelledError
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from sliceport import progress
from sliceport.batch.cluster_worker import make_remote, needed_versions
from sliceport.batch.names import is_url
from sliceport.batch.result import make_failure_row
from sliceport.batch.runner import Runner
from sliceport.batch.store import open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.errors import MissingExtra, SliceportError, UsageError

if TYPE_CHECKING:
    from distributed import Client

_SCHEMES = {"dask": "", "tcp": "tcp://", "tls": "tls://"}
"""Map the scheme of a URL to that of Dask's address. An address without a scheme gets that of Dask's configuration."""
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):[0-9]{1,5}/?")
_TIMEOUT = 20.0
"""Seconds to connect to the scheduler, and to tell the workers that the run is over."""
_RETRIES = 2
"""Number of times that a task is repeated after an exception, such as a share that does not answer."""
_MIN_FUTURES, _FUTURES_A_THREAD = 32, 4
"""The scheduler has 32 tasks at once, or 4 for each thread if that is more.

It does not have all tasks, because each death of a worker counts against all tasks of the worker.
"""
_PAUSE = 1.0
"""Seconds between two attempts while every worker that is left is unfit."""
_LOGGERS = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")
"""Loggers that have a handler of their own. The handlers print tracebacks when a scheduler ends."""


def open_cluster(url: str) -> Runner:
    """Connect to a cluster.

    Args:
        url: `dask://HOST:PORT`, the scheduler, with the protocol of Dask's configuration. `tcp://HOST:PORT` and
            `tls://HOST:PORT` set the protocol.

    Raises:
        UsageError: The URL is not written like that, or the scheduler cannot be reached.
        MissingExtra: distributed is not installed.
    """
    scheme, _, address = url.partition("://")
    if scheme not in _SCHEMES or not _ADDRESS.fullmatch(address):
        raise UsageError(f"--cluster must be dask://HOST:PORT, the scheduler of dask.distributed, got {url!r}.")
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra.of("distributed", "dask", "by --cluster") from None
    for name in _LOGGERS:
        logging.getLogger(name).handlers[:] = [logging.NullHandler()]
        logging.getLogger(name).propagate = False
    address = _SCHEMES[scheme] + address.rstrip("/")
    progress.say(f"connecting to {address}")
    try:
        client = Client(address, timeout=_TIMEOUT, set_as_default=False, name="sliceport")
    except Exception as error:  # of the network, of TLS, of another version of distributed
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise UsageError(f"--cluster: the scheduler at {address} cannot be reached ({reason}).") from None
    return _DaskRunner(client, address).run


class _DaskRunner:
    """A runner that gives tasks to the workers of a scheduler.

    A worker finds out with its first task of a run whether it fits. If not, the task goes to another worker.
    """

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address
        self._name = f"sliceport-{secrets.token_hex(8)}"
        self._work = make_remote("serve")
        self._versions = needed_versions()
        self._tasks: dict[str, Task] = {}
        """Tasks under way, by the key of their future."""
        self._refusals: dict[str, str] = {}
        """Map the address of each worker that does not fit to the reason."""
        self._has_fit_worker = False

    def run(self, job: Job, tasks: Iterable[Task]) -> Generator[Done]:
        """Do all tasks; see `Runner`."""
        from distributed import as_completed

        try:
            journal = open_store(job.root).names("runs")[-1]
            completed = as_completed(loop=self._client.loop)
            remaining = iter(tasks)
            to_submit = list(islice(remaining, 1))  # the first task alone, because its worker may not fit
            while to_submit or self._tasks:
                workers = self._find_workers()
                limit = max(_MIN_FUTURES, _FUTURES_A_THREAD * sum(workers.values()))
                free = limit - len(self._tasks) - len(to_submit)
                for task in (*to_submit, *islice(remaining, max(0, free))):
                    completed.add(self._submit(job, task, journal, list(workers)))
                to_submit = []
                futures = completed.next_batch()
                with self._dask_errors_as_loss():  # Dask repeats a task whose result is lost
                    results = self._client.gather({future.key: future for future in futures}, errors="skip")
                for future in futures:
                    task = self._tasks.pop(future.key)
                    done = self._read_future(job, task, future, results[future.key])
                    if done is None:
                        to_submit.append(task)
                    else:
                        yield done
        finally:
            with suppress(Exception, CancelledError):  # a cluster that is ending raises many kinds of errors
                limits: Any = {"on_error": "ignore", "callback_timeout": _TIMEOUT}
                self._client.sync(self._client.run, make_remote("stop_run"), self._name, **limits)
            self._client.close(timeout=_TIMEOUT)

    def _find_workers(self) -> dict[str, int]:
        """Map the address of each worker that may fit to its number of threads.

        Raises:
            UsageError: Workers are connected, but none fits and none has done a task; or the connection is lost.
        """
        with self._dask_errors_as_loss():
            workers: dict[str, int] = self._client.nthreads()
        if not workers and not self._tasks:
            progress.announce(f"no worker is connected to {self._address}; waiting for one")
        fit = {address: threads for address, threads in workers.items() if address not in self._refusals}
        if workers and not fit:
            if not self._has_fit_worker:
                others = f" (and {len(workers) - 1} more workers)" if len(workers) > 1 else ""
                raise UsageError(next(iter(self._refusals.values())) + others)
            time.sleep(_PAUSE)  # the workers that fit have ended, and others may come
        return fit

    def _submit(self, job: Job, task: Task, journal: str, workers: list[str]) -> Any:
        """Give a task to the scheduler. Once a worker has refused the run, the scheduler prefers `workers`."""
        key = f"{self._name}-{secrets.token_hex(8)}"
        # Other workers remain allowed: a task would wait for ever for workers that have ended.
        limits: dict[str, Any] = {"workers": workers, "allow_other_workers": True} if self._refusals and workers else {}
        model = task.location if not is_url(task.location) and os.path.exists(task.location) else None
        packed = pickle.dumps((job, task, journal, model))
        with self._dask_errors_as_loss():
            future = self._client.submit(
                self._work, self._name, self._versions, packed, key=key, pure=False, retries=_RETRIES, **limits
            )
        self._tasks[key] = task
        return future

    def _read_future(self, job: Job, task: Task, future: Any, result: Any) -> Done | None:
        """Return the outcome of a task, or None if the worker does not fit.

        Raises:
            SliceportError: Something is wrong with the run itself.
        """
        from distributed import KilledWorker

        if result is not None:
            address, refusal, packed = result
            if not refusal:
                self._has_fit_worker = True
                return pickle.loads(packed)  # type: ignore[no-any-return]  # noqa: S301 - from this run's own code
            if address not in self._refusals:
                self._refusals[address] = refusal
                progress.announce(f"the run does without a worker: {refusal}")
            return None
        if future.status != "error":
            raise self._describe_loss()
        error = future.exception()
        if isinstance(error, SliceportError):
            raise error
        message = f"no worker could do it ({type(error).__name__}: {error})."
        if isinstance(error, KilledWorker):
            message = "every worker that it was given to ended; the same command tries it again."
        return Done(task.model, "", "lost", row=make_failure_row(job.command, "lost", message, task.model))

    @contextmanager
    def _dask_errors_as_loss(self) -> Iterator[None]:
        """Raise every error of Dask as the loss of the connection, because Dask has many classes of errors for it.

        Raises:
            UsageError: The scheduler, or the connection to the scheduler, is lost.
        """
        try:
            yield
        except (Exception, CancelledError):
            raise self._describe_loss() from None

    def _describe_loss(self) -> UsageError:
        loss = f"--cluster: the connection to the scheduler at {self._address} is lost"
        return UsageError(f"{loss}; the same command goes on where this one has ended.")
