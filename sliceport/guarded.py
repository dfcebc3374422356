"""Calling functions in a worker process, for third-party code that can end, block or exhaust the one it runs in.

A worker is started when it is first needed, serves one call after another, and ends with the process that started it;
on Linux and Windows at once even where that one is killed, whatever the worker is doing.
One that dies, takes too long or too much memory is replaced at the next call.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import logging
import math
import os
import pickle
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

from sliceport import limits
from sliceport.errors import SliceportError
from sliceport.guarded_worker import (
    GRACE,
    NO_PIPE,
    TELLS_OF_BROKEN_PIPES,
    CallStatus,
    processor_time,
    read_message,
    this_process,
    write_message,
)

__all__ = [
    "DEFAULT_MEMORY",
    "WorkerDied",
    "WorkerKilled",
    "WorkerNotStarted",
    "WorkerTerminated",
    "WorkerTimedOut",
    "WorkerUsedTime",
    "call",
    "call_status",
    "end_calls",
    "end_idle",
    "processor_time",
    "start",
]

T = TypeVar("T")
DEFAULT_MEMORY = 2**30
_START = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from sliceport.guarded_worker import serve; serve(int(sys.argv[1]), sys.argv[2])"
)
_MAX_STDERR = 2000

logger = logging.getLogger(__name__)


class WorkerDied(SliceportError):
    """The worker ended, or was ended because it took too long; the message says which, as half a sentence.

    Attributes:
        stderr: The last of what it wrote to stderr during the call.
    """

    def __init__(self, message: str, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class WorkerTimedOut(WorkerDied):
    """The worker was ended because it took too long."""


class WorkerUsedTime(WorkerTimedOut):
    """The worker was ended because it used more processor time than `processor_time` allowed it."""


class WorkerTerminated(WorkerDied):
    """The worker was ended by SIGTERM, as all processes are when a machine or a job of a cluster shuts down."""


class WorkerKilled(WorkerDied):
    """The worker was ended by somebody else's SIGKILL, such as that of a system without memory."""


class WorkerNotStarted(WorkerDied):
    """There is no worker: the system has no process, memory or space for it."""


class _Watchdog:
    """Ends a call that takes too long. Its thread stays: to start one takes longer than many a call.

    Args:
        end: Ends the call.

    Attributes:
        has_ended: Whether it has ended the latest call.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self.has_ended = False
        self._end = end
        self._changed = threading.Condition()
        self._deadline = self._wakes = math.inf
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def begin(self, timeout: float) -> None:
        """A call begins, and may take so many seconds."""
        with self._changed:
            self.has_ended = False
            self._deadline = time.monotonic() + timeout
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
            elif self._deadline < self._wakes:
                self._changed.notify()

    def finish(self) -> None:
        """The call is over. The thread is not told, and finds out when it wakes."""
        with self._changed:
            self._deadline = math.inf

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_closed:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    self._deadline, self.has_ended = math.inf, True
                    self._end()
                    continue
                self._wakes = self._deadline
                self._changed.wait(None if left == math.inf else left)


_KINDS: dict[int, type[WorkerDied]] = {signal.SIGTERM: WorkerTerminated}
if sys.platform != "win32":
    _KINDS[signal.SIGKILL] = WorkerKilled
    _KINDS[signal.SIGXCPU] = WorkerUsedTime


class _Worker:
    """A worker process.

    Args:
        module: What it imports before the first call.

    Attributes:
        must_be_replaced: Whether it is of no use for another call.
    """

    must_be_replaced = False

    def __init__(self, module: str = "") -> None:
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        except OSError as error:  # a full disk
            raise WorkerNotStarted(f"could not be started ({error.strerror or error})") from None
        try:
            if not sys.executable:
                raise OSError("there is no Python to run")
            paths = [path or os.getcwd() for path in sys.path]
            with _open_parent_pipe() as (end, self._pipe):
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                    [sys.executable, "-c", _START, str(end), module, *paths],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._stderr,
                    pass_fds=[] if end == NO_PIPE else [end],
                    process_group=None if this_process.is_worker or os.name != "posix" else 0,
                )
        except OSError as error:
            self._stderr.close()
            raise WorkerNotStarted(f"could not be started ({error.strerror or error})") from None
        self._job = _open_job(self._process.pid)
        self._watchdog = _Watchdog(self.kill)

    def call(self, request: bytes, timeout: float | None) -> Any:
        """Send a request and wait for the answer.

        Raises:
            WorkerDied: There is none.
        """
        self._stderr.seek(0)  # for the worker, too: what it writes during this call begins here
        self._stderr.truncate()
        try:
            if timeout is not None:
                self._watchdog.begin(timeout)
            answer = self._exchange(request)
        except OSError:
            answer = None
        except BaseException:  # interrupted: what comes back belongs to nobody any more
            self.close()
            raise
        finally:
            self._watchdog.finish()
        is_late = timeout is not None and self._watchdog.has_ended
        if answer is None:
            if not is_late:
                self._let_end()
            self.kill()
            used = _time_of_children()
            self._process.wait()
            limits.count(_time_of_children() - used)
            said = self._last_words()
            self.close()
            if is_late:
                raise WorkerTimedOut(f"took longer than {timeout:g} s", said)
            raise _KINDS.get(-self._process.returncode, WorkerDied)(self._ending(), said)
        try:
            value, self.must_be_replaced, seconds = pickle.loads(answer)  # noqa: S301 - from the process that this one started
        except Exception as error:
            self.close()
            raise WorkerDied(f"gave what cannot be read ({type(error).__name__})") from None
        limits.count(seconds)
        self.must_be_replaced |= is_late  # it answered, and was ended after all
        return value

    def _exchange(self, request: bytes) -> bytes | None:
        """The answer to a request; None where the worker ended. Ctrl-C interrupts it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if sys.platform != "win32" or threading.current_thread() is not threading.main_thread():
            write_message(self._process.stdin, request)
            return read_message(self._process.stdout) if self._await_answer() else None
        stdin, stdout, answers = self._process.stdin, self._process.stdout, queue.Queue[bytes | None]()

        def exchange() -> None:
            answer = None
            with contextlib.suppress(OSError, ValueError):  # it is closed when the main thread was interrupted
                write_message(stdin, request)
                answer = read_message(stdout)
            answers.put(answer)

        threading.Thread(target=exchange, daemon=True).start()
        return take(answers)

    def _await_answer(self) -> bool:
        """Wait until it answers or ends: its end alone is not seen where a process that it forked holds its pipe."""
        if sys.platform == "win32" or not hasattr(os, "pidfd_open") or not hasattr(select, "poll"):
            return True
        assert self._process.stdout is not None
        try:
            process = os.pidfd_open(self._process.pid)
        except OSError:  # an old kernel, or no descriptor is left
            return True
        try:
            poll = select.poll()
            poll.register(self._process.stdout, select.POLLIN)
            poll.register(process, select.POLLIN)
            return any(descriptor != process for descriptor, _ in poll.poll())
        finally:
            os.close(process)

    def is_alive(self) -> bool:
        """Whether the process has not ended. It is not waited for: those that it has started can still be found."""
        if sys.platform == "win32" or not hasattr(os, "waitid"):
            return self._process.poll() is None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    def _let_end(self) -> None:
        """Give a process that closed its pipe the time to end by itself, which tells why; those it started are left."""
        deadline = time.monotonic() + GRACE
        can_look = hasattr(os, "waitid") or sys.platform == "win32"  # elsewhere to look is to wait for it
        while can_look and self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.002)

    def kill(self) -> None:
        """End the process and those that it has started; on POSIX, if this is a worker, they end with this one."""
        if self._process.returncode is not None:
            return
        if sys.platform == "win32":
            if self._job is not None:
                self._job.kill()
            with contextlib.suppress(PermissionError):  # it is just ending
                self._process.kill()
        elif this_process.is_worker:
            self._process.kill()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process; what it printed goes to the log."""
        self._watchdog.close()
        self.kill()
        self._process.wait()
        logger.debug("worker: %s", self._last_words())
        for stream in (self._process.stdin, self._process.stdout, self._stderr, self._pipe, self._job):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _ending(self) -> str:
        code = self._process.returncode
        if _KINDS.get(-code) is WorkerUsedTime:
            return "took more processor time than it may"
        if code >= 0:
            return f"ended with exit code {code if code < 2**31 else hex(code)}"  # a status of Windows
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"

    def _last_words(self) -> str:
        self._stderr.seek(0, io.SEEK_END)
        self._stderr.seek(max(self._stderr.tell() - _MAX_STDERR, 0))
        return self._stderr.read().decode(errors="replace").strip()


def _time_of_children() -> float:
    """Processor time of the processes that were waited for; 0 where the system does not say."""
    used = os.times()
    return used.children_user + used.children_system


def _open_job(process: int) -> Any:
    """What ends a worker and those that it has started, on Windows; None elsewhere, and where there is none."""
    if sys.platform == "win32":
        from sliceport.windows import Job

        with contextlib.suppress(OSError):
            return Job(process)
    return None


@contextlib.contextmanager
def _open_parent_pipe() -> Iterator[tuple[int, IO[bytes] | None]]:
    """A pipe that nobody writes to: its end for a worker, open while this lasts, and that for this process.

    It breaks when this process ends, however it does. Linux tells the worker by a signal; elsewhere there is no pipe,
    but on Windows a job (see `_open_job`).
    """
    if not TELLS_OF_BROKEN_PIPES:
        yield NO_PIPE, None
        return
    theirs, ours = os.pipe()
    kept = os.fdopen(ours, "wb")
    try:
        yield theirs, kept
    except BaseException:
        kept.close()
        raise
    finally:
        os.close(theirs)


class _Pool:
    """The idle workers of this process. Those of a process that was forked are not its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._owner = os.getpid()

    def take(self, module: str = "") -> _Worker:
        """An idle worker, or a new one, which imports a module."""
        if self._owner != os.getpid():
            self.__init__()  # type: ignore[misc]
        worker = self._take_idle() or _Worker(module)
        with self._lock:
            self._busy.add(worker)
        return worker

    def _take_idle(self) -> _Worker | None:
        """An idle worker; those that somebody has ended meanwhile are dropped."""
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None or worker.is_alive():
                return worker
            worker.close()

    def give_back(self, worker: _Worker) -> None:
        """Keep a worker for the next call, or end it if it must be replaced."""
        with self._lock:
            self._busy.discard(worker)
            if not worker.must_be_replaced:
                self._idle.append(worker)
                return
        worker.close()

    def forget(self, worker: _Worker) -> None:
        """Drop a worker that has ended."""
        with self._lock:
            self._busy.discard(worker)

    def kill_busy(self) -> None:
        """End the workers that are at work."""
        with self._lock:
            for worker in self._busy:
                worker.kill()

    def close(self) -> None:
        """End the workers."""
        if self._owner != os.getpid():
            return
        with self._lock:
            for worker in self._idle:
                worker.close()
            self._idle.clear()


_TURN = 0.2
"""Seconds after which Ctrl-C counts on Windows, where nothing interrupts a wait."""


def take(waiting: queue.Queue[T]) -> T:
    """What is put into a queue next. Ctrl-C interrupts it."""
    while True:
        with contextlib.suppress(queue.Empty):
            return waiting.get(timeout=_TURN if sys.platform == "win32" else None)


_pool = _Pool()


@atexit.register
def _end_workers() -> None:
    with contextlib.suppress(KeyboardInterrupt):  # the process ends anyway, and the workers with it
        _pool.close()


def start(module: str = "") -> None:
    """Start a worker ahead of the first call, so that it gets ready while this process does something else.

    Args:
        module: What it imports meanwhile.
    """
    with contextlib.suppress(WorkerDied):
        _pool.give_back(_pool.take(module))


def end_idle() -> None:
    """End the workers that wait for a call; the next one starts another."""
    _pool.close()


def end_calls() -> None:
    """End the calls that other threads are waiting for: they raise `WorkerDied`."""
    _pool.kill_busy()


def call(function: Callable[..., Any], *args: Any, timeout: float | None, memory: int | None = DEFAULT_MEMORY) -> Any:
    """Call a function in a worker process.

    Args:
        function: A function of a module that the worker can import.
        args: Its arguments; they and what it returns are pickled.
        timeout: Seconds that it may take, the start of the worker included; None for any.
        memory: Bytes that it, and each process that it starts, may allocate beyond what the worker has; enforced on
            Linux alone. In a worker, what its own call may allocate bounds it, too. None for any.

    Raises:
        WorkerTimedOut: The worker took longer; WorkerUsedTime: it used more processor time than it allowed itself.
        WorkerTerminated: The worker was told to end.
        WorkerKilled: The worker was ended by somebody else.
        WorkerNotStarted: There is none, and could not be.
        WorkerDied: The worker ended.
        Exception: What the function raised, MemoryError among it.
    """
    allowed = this_process.memory
    is_bounded = allowed is not None and (memory is None or memory > allowed)
    if is_bounded:
        memory = allowed
    request = pickle.dumps((function.__module__, function.__qualname__, args, timeout, memory))
    try:
        worker = _pool.take()
        try:
            is_error, value = worker.call(request, timeout)
        except BaseException:
            _pool.forget(worker)
            raise
    except (WorkerNotStarted, WorkerKilled, WorkerTerminated):
        this_process.status.lost_worker = True
        raise
    except WorkerDied as error:
        this_process.status.hit_memory_limit |= is_bounded and not isinstance(error, WorkerTimedOut)
        raise
    _pool.give_back(worker)
    if is_error:
        this_process.status.hit_memory_limit |= is_bounded and isinstance(value, MemoryError)
        raise value
    return value


def call_status() -> CallStatus:
    """That of the call that this worker answers. What runs out of memory by itself and goes on notes it here."""
    return this_process.status
