"""Doing tasks on a cluster: the scheduler of dask.distributed gives them to its workers.

Tasks go in chunks, and results go to the store, from whichever worker; what comes back only says so. A chunk that gets
lost, with a worker, the scheduler or the connection, is given again: the results that it had are there already.
"""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import re
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sliceport import progress
from sliceport.batch import cluster_worker
from sliceport.batch.cluster_worker import Setup, find_marker, pack, pack_call, pack_versions, unpack
from sliceport.batch.names import is_url
from sliceport.batch.result import to_row
from sliceport.batch.runner import Runner
from sliceport.batch.store import SCRATCH, open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.errors import MissingExtra, SliceportError, UsageError

_SCHEMES = {"dask": "", "tcp": "tcp://", "tls": "tls://"}
"""What a URL begins with, and an address of Dask. One without a scheme gets that of Dask's configuration."""
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):[0-9]{1,5}/?")
_FIRST_PATIENCE = 20.0
"""Seconds for the first connection to the scheduler."""
_PATIENCE = 300.0
"""Seconds without a scheduler after which a run ends."""
_MAX_PAUSE = 15.0
_ROUND = 2.0
"""Seconds after which workers are counted anew."""
_UNDELIVERED = 5.0
"""Seconds between two looks for results that workers have and that do not come."""
_ALL_WORKERS = 60.0
"""Seconds for what every worker is asked before the first model."""
_MAX_END = 10.0
"""Seconds in which every worker is told that the run is over."""
_MAX_CHUNK = 32
_CHUNK_SECONDS = 1.0
"""How long a chunk is to take."""
_MIN_FUTURES = 16
_FUTURES_A_THREAD = 3
_MAX_MODELS = 4096
"""How many models are given to the cluster at once."""
_MAX_LOSSES = 10
"""How often a model may get lost with the scheduler or the connection."""

logger = logging.getLogger(__name__)


def open_cluster(url: str) -> Runner:
    """Connect to a cluster.

    Args:
        url: `dask://HOST:PORT`, the scheduler of dask.distributed. Its configuration applies, certificates for TLS
            among it; `tls://HOST:PORT` asks for TLS whatever the configuration says.

    Raises:
        UsageError: The URL is none of these, or there is no scheduler.
        MissingExtra: distributed is not installed.
    """
    scheme, _, address = url.partition("://")
    if scheme not in _SCHEMES or not _ADDRESS.fullmatch(address):
        raise UsageError(f"--cluster must be dask://HOST:PORT, the scheduler of dask.distributed, got {url!r}.")
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise MissingExtra.of("distributed", "dask", "by --cluster") from None
    return DaskRunner(_SCHEMES[scheme] + address.rstrip("/"))


class DaskRunner:
    """Does tasks on the workers of a scheduler.

    Args:
        address: Of the scheduler.

    Raises:
        UsageError: There is no scheduler.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        progress.say(f"connecting to {address}")
        try:
            self._session = _Session(address, _FIRST_PATIENCE)
        except ConnectionError as error:
            raise UsageError(f"--cluster: the scheduler at {address} cannot be reached ({error}).") from None

    def run(self, job: Job, tasks: Iterable[Task]) -> Generator[Done]:
        """See `Runner.run`. When the iterator is closed early, models under way are given up, without a result.

        Raises:
            UsageError: A worker does not fit, results cannot be read or stored, or the scheduler is gone for long.
        """
        tasks = iter(tasks)
        first = list(itertools.islice(tasks, 1))
        path = first[0].location if first else ""
        model = path if not is_url(path) and os.path.exists(path) else None
        setup = Setup(secrets.token_hex(8), job, find_marker(open_store(job.root)), model)
        run = _Run(self._address, self._session, setup, itertools.chain(first, tasks))
        try:
            run.session.check(setup)
            yield from run.results()
        finally:
            run.session.end_run(setup.run)
            run.session.close()


@dataclass(frozen=True)
class _Chunk:
    """Tasks that are under way.

    Attributes:
        tasks: The tasks.
        future: What Dask gives for them.
        is_alone: Whether nothing else is under way.
    """

    tasks: Sequence[Task]
    future: Any
    is_alone: bool


class _Session:
    """A connection to a scheduler. One that breaks is not mended: `is_broken` says so, and another one takes its place.

    Raises:
        ConnectionError: There is no scheduler.
    """

    def __init__(self, address: str, patience: float) -> None:
        from distributed import Client, as_completed

        try:
            self._client = Client(address, timeout=patience, set_as_default=False, name="sliceport")
            self._completed = as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        except Exception as error:  # of the network, of TLS, of another version of distributed
            logger.debug("no scheduler", exc_info=True)
            raise ConnectionError(str(error).partition("\n")[0].rstrip(".") or type(error).__name__) from None
        self._needed = pack_versions()

    def check(self, setup: Setup) -> None:
        """Find out whether the workers that are there fit; those that come later do so themselves.

        Raises:
            UsageError: One does not.
        """
        arguments = self._needed, pack(setup)
        found = self._ask_all(cluster_worker.inspect, *arguments)
        wrong = [_describe_unfit(error) for error in found.values() if _is_unfit(error)]
        if wrong:
            others = f" (and {len(wrong) - 1} more workers)" if len(wrong) > 1 else ""
            raise UsageError(wrong[0] + others)
        root = setup.job.root
        for address, scratch in found.items():
            if is_url(root) or not isinstance(scratch, str) or not scratch:
                continue
            if not os.path.isdir(Path(root, SCRATCH, Path(scratch).name)):
                raise UsageError(
                    f"the worker at {address} writes to '{root}', and nothing arrives here; "
                    "results must go to a folder that all see by the same path, or to the URL of a bucket."
                )

    def submit(self, setup: Setup, tasks: Sequence[Task]) -> Any:
        """Give tasks to the cluster; returns Dask's future."""
        key = f"sliceport-{setup.run}-{secrets.token_hex(8)}"
        packed = pack_call(cluster_worker.do_chunk, self._needed, pack(setup), pack(*tasks))
        future = self._client.submit(pickle.loads, packed, key=key, pure=False)
        self._completed.add(future)
        return future

    def completed(self, seconds: float) -> list[tuple[Any, Any]]:
        """Wait for futures that are over; returns them with their results, or none."""
        deadline = time.monotonic() + seconds
        while not self._completed.has_ready():
            if time.monotonic() > deadline:
                return []
            time.sleep(0.01)
        batch: list[tuple[Any, Any]] = self._completed.next_batch(block=False)
        return batch

    def kept_by_workers(self, futures: Iterable[Any]) -> set[str]:
        """The keys of those futures whose results workers have, by what the scheduler says."""
        found = _within(_UNDELIVERED, lambda: self._client.who_has(list(futures))) or {}
        return {key for key, workers in found.items() if workers}

    def is_broken(self) -> bool:
        """Whether the connection is lost."""
        return bool(self._client.status != "running")

    def threads(self) -> int | None:
        """How many tasks the workers that are there can do at once; None where the scheduler does not say."""
        try:
            return int(sum(self._client.nthreads().values()))
        except Exception:
            logger.debug("the scheduler does not answer", exc_info=True)
            return None

    def end_run(self, run: str) -> None:
        """Let all workers end a run."""
        if not self.is_broken():
            self._ask_all(cluster_worker.end_run, run, seconds=_MAX_END)

    def close(self) -> None:
        """Cancel what is under way, and close the connection."""
        _within(10, lambda: self._client.close(timeout=5))

    def _ask_all(self, function: Callable[..., Any], *arguments: Any, seconds: float = _ALL_WORKERS) -> dict[str, Any]:
        """Call a function on all workers; returns by address what it gave or raised. What takes long is left out."""
        packed = pack_call(function, *arguments)
        return _within(seconds, lambda: self._client.run(pickle.loads, packed, on_error="return")) or {}


def _within(seconds: float, function: Callable[[], Any]) -> Any:
    """What a function returns; None where it takes longer, or fails."""
    results = []

    def call() -> None:
        try:
            results.append(function())
        except Exception:
            logger.debug("a question to the cluster", exc_info=True)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else None


class _Run:
    """Tasks on their way to the cluster and back.

    Attributes:
        session: The connection.
    """

    def __init__(self, address: str, session: _Session, setup: Setup, tasks: Iterator[Task]) -> None:
        self.session = session
        self._address = address
        self._setup = setup
        self._source = tasks
        self._retries: deque[Task] = deque()
        """Tasks of chunks that got lost, or that a worker gave back."""
        self._suspects: deque[Task] = deque()
        """Tasks of chunks that failed: one of them may end its workers."""
        self._chunks: dict[str, _Chunk] = {}
        self._losses: Counter[str] = Counter()
        self._seconds = _CHUNK_SECONDS
        self._threads = 0
        self._counted = -_ROUND
        self._checked = time.monotonic()
        self._undelivered: set[str] = set()
        self._is_waiting = False

    def results(self) -> Iterator[Done]:
        """Do all tasks."""
        while True:
            self._count_workers()
            self._submit()
            if not self._chunks:
                return
            for future, result in self.session.completed(0.5):
                if self._is_waiting:
                    self._counted = -_ROUND
                yield from self._collect(future, result)
            self._retry_undelivered()
            if self.session.is_broken() or any(chunk.future.cancelled() for chunk in self._chunks.values()):
                yield from self._reconnect()

    def _count_workers(self) -> None:
        """Count the workers, and say so where there are none."""
        if time.monotonic() - self._counted < _ROUND:
            return
        self._counted = time.monotonic()
        threads = self.session.threads()
        if threads is None:
            return
        self._threads = threads
        if not threads and not self._is_waiting:
            self._is_waiting = True
            progress.announce(f"no worker is connected to {self._address}; waiting for one")
            progress.say(f"waiting for a worker of {self._address}")
        elif threads and self._is_waiting:
            self._is_waiting = False
            progress.announce(f"{self._address} has workers for {threads} models at once")
            progress.say("working")

    def _retry_undelivered(self) -> None:
        """Give chunks again whose results a worker has and that do not come.

        distributed loses one now and then where a worker dies while its results are fetched.
        """
        if time.monotonic() - self._checked < _UNDELIVERED:
            return
        kept = self.session.kept_by_workers(chunk.future for chunk in self._chunks.values())
        for key in kept & self._undelivered & self._chunks.keys():
            chunk = self._chunks.pop(key)
            logger.debug("the result of %s does not come", key)
            chunk.future.release()
            (self._suspects if chunk.is_alone else self._retries).extend(chunk.tasks)
        self._undelivered = kept
        self._checked = time.monotonic()

    def _submit(self) -> None:
        """Give the cluster as much as it needs in order not to wait."""
        most = max(_MIN_FUTURES, _FUTURES_A_THREAD * self._threads)
        while len(self._chunks) < most and sum(len(chunk.tasks) for chunk in self._chunks.values()) < _MAX_MODELS:
            tasks = self._next_tasks(self._chunk_size(most))
            if not tasks:
                break
            self._submit_chunk(tasks)
        if not self._chunks and self._suspects:
            self._submit_chunk([self._suspects.popleft()], is_alone=True)

    def _chunk_size(self, futures: int) -> int:
        fitting = int(_CHUNK_SECONDS / max(self._seconds, 1e-3))
        return max(1, min(fitting, _MAX_CHUNK, _MAX_MODELS // futures))

    def _next_tasks(self, count: int) -> list[Task]:
        tasks = [self._retries.popleft() for _ in range(min(count, len(self._retries)))]
        return tasks + list(itertools.islice(self._source, count - len(tasks)))

    def _submit_chunk(self, tasks: Sequence[Task], *, is_alone: bool = False) -> None:
        future = self.session.submit(self._setup, tasks)
        self._chunks[future.key] = _Chunk(tasks, future, is_alone)

    def _collect(self, future: Any, result: Any) -> Iterator[Done]:
        """Take down what became of a chunk."""
        status = future.status
        if status not in ("finished", "error") or future.key not in self._chunks:
            return  # `results` sees that it was cancelled
        chunk = self._chunks.pop(future.key)
        if status == "error":
            yield from self._handle_failure(chunk, result[1])
            return
        done: tuple[Done, ...] = unpack(result)  # type: ignore[assignment]
        self._retries.extend(chunk.tasks[len(done) :])
        for one in done:
            self._seconds += 0.1 * (one.seconds - self._seconds)
            yield one

    def _handle_failure(self, chunk: _Chunk, error: BaseException) -> Iterator[Done]:
        """Take down that a chunk failed: its tasks are tried again one by one, with nothing else under way.

        Raises:
            SliceportError: Something is wrong with the run itself.
        """
        from distributed import KilledWorker

        if isinstance(error, SliceportError):
            raise error
        if _is_unfit(error):
            raise UsageError(_describe_unfit(error)) from None
        if not chunk.is_alone:
            self._suspects.extend(chunk.tasks)
            return
        if isinstance(error, KilledWorker):
            message = "every worker that it was given to ended, although none had anything else to do."
        else:
            message = f"no worker could do it ({type(error).__name__}: {error})."
        for task in chunk.tasks:
            yield self._give_up(task, message)

    def _give_up(self, task: Task, message: str) -> Done:
        result = {"command": self._setup.job.command, "verdict": "lost", "message": message}
        return Done(
            task.model, "", "lost", message, row=to_row(result | {"findings": [], "result": None}, task.model, "")
        )

    def _reconnect(self) -> Iterator[Done]:
        """Connect again, and give again what was under way.

        Raises:
            UsageError: There is no scheduler for long.
        """
        progress.announce(f"the connection to {self._address} is lost; trying again for {_PATIENCE / 60:.0f} minutes")
        progress.say(f"connecting to {self._address}")
        self.session.close()
        for chunk in self._chunks.values():
            for task in chunk.tasks:
                self._losses[task.model] += 1
                if self._losses[task.model] > _MAX_LOSSES:
                    yield self._give_up(
                        task, f"the connection to the cluster was lost {_MAX_LOSSES} times while it was under way."
                    )
                else:
                    (self._suspects if chunk.is_alone else self._retries).append(task)
        self._chunks.clear()
        deadline = time.monotonic() + _PATIENCE
        for pause in itertools.chain((0.5, 1, 2, 4, 8), itertools.repeat(_MAX_PAUSE)):
            try:
                self.session = _Session(self._address, max(1.0, min(_MAX_PAUSE, deadline - time.monotonic())))
            except ConnectionError as error:
                if time.monotonic() > deadline:
                    raise UsageError(
                        f"--cluster: the scheduler at {self._address} has gone ({error}); "
                        "the same command goes on where this one has ended."
                    ) from None
                time.sleep(pause)
            else:
                break
        self._counted = -_ROUND
        progress.announce(f"connected to {self._address} again")
        progress.say("working")


def _is_unfit(error: Any) -> bool:
    """Whether a worker says that it does not fit, or does not know what it is asked for."""
    return isinstance(error, UsageError) or any(map(_is_unknown, _causes(error)))


def _is_unknown(error: BaseException) -> bool:
    """Whether a name of sliceport could not be imported."""
    return isinstance(error, ImportError | AttributeError) and "sliceport" in str(error)


def _describe_unfit(error: BaseException) -> str:
    if isinstance(error, UsageError):
        return str(error)
    cause = next(filter(_is_unknown, _causes(error)))
    return f"a worker lacks this version of sliceport ({cause}); install the same there, with the same extras."


def _causes(error: Any) -> Iterator[BaseException]:
    while isinstance(error, BaseException):
        yield error
        error = error.__cause__ or error.__context__


__all__ = ["DaskRunner", "open_cluster"]
