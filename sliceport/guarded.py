"""Calling functions in a worker process, for third-party code that can end, block or exhaust the one it runs in.

A worker is started when it is first needed, serves one call after another, and ends with the process that started it;
on Linux at once even where that one is killed, whatever the worker is doing.
One that dies, takes too long or too much memory is replaced at the next call.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import logging
import math
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from sliceport.errors import SliceportError

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

DEFAULT_MEMORY = 2**30
_HEADER = struct.Struct("<Q")
_START = "import sys; sys.path[:] = sys.argv[2:]; from sliceport.guarded import serve; serve(int(sys.argv[1]))"
_NO_LIFELINE = -1
_MAX_STDERR = 2000
_MAX_LIMIT = 2**63 - 1
_GRACE = 2.0
_MAX_IDLE_MEMORY = 2**30
"""Bytes that an idle worker may hold; one that holds more is replaced."""
_is_worker = False
"""Whether this process is a worker. The workers of workers end with them, as one group of processes."""
_memory: int | None = None
"""What the call under way in this worker may allocate."""


@dataclass
class Circumstances:
    """What the surroundings of a call did to it, though the function may have made do with that and said nothing.

    Attributes:
        is_short: Something had no more memory where only the bound of the call kept it from more.
        is_disturbed: A worker of the call could not be started, or somebody else ended it.
    """

    is_short: bool = False
    is_disturbed: bool = False


_circumstances = Circumstances()

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


class WorkerTerminated(WorkerDied):
    """The worker was ended by SIGTERM, as all processes are when a machine or a job of a cluster shuts down."""


class WorkerKilled(WorkerDied):
    """The worker was ended by somebody else's SIGKILL, such as that of a system without memory."""


class WorkerNotStarted(WorkerDied):
    """There is no worker: the system has no process, memory or space for it."""


_KINDS: dict[int, type[WorkerDied]] = {signal.SIGTERM: WorkerTerminated}
if sys.platform != "win32":
    _KINDS[signal.SIGKILL] = WorkerKilled


class _Worker:
    """A worker process.

    Attributes:
        is_worn: Whether it is to be replaced.
    """

    is_worn = False

    def __init__(self) -> None:
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        except OSError as error:  # a full disk
            raise WorkerNotStarted(f"could not be started ({error.strerror or error})") from None
        paths = [path or os.getcwd() for path in sys.path]
        try:
            with _open_lifeline() as (lifeline, self._lifeline):
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                    [sys.executable, "-c", _START, str(lifeline), *paths],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._stderr,
                    pass_fds=[] if lifeline == _NO_LIFELINE else [lifeline],
                    process_group=None if _is_worker or os.name != "posix" else 0,
                )
        except OSError as error:
            self._stderr.close()
            raise WorkerNotStarted(f"could not be started ({error.strerror or error})") from None
        self._watchdog = _Watchdog(self.kill)

    def call(self, request: bytes, timeout: float | None) -> Any:
        """Send a request and wait for the answer.

        Raises:
            WorkerDied: There is none.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stderr.seek(0)  # for the worker, too: what it writes during this call begins here
        self._stderr.truncate()

        try:
            if timeout is not None:
                self._watchdog.begin(timeout)
            _write(self._process.stdin, request)
            answer = _read(self._process.stdout) if self._await_answer() else None
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
            self._process.wait()
            said = self._last_words()
            self.close()
            if is_late:
                raise WorkerTimedOut(f"took longer than {timeout:g} s", said)
            raise _KINDS.get(-self._process.returncode, WorkerDied)(self._ending(), said)
        try:
            value, self.is_worn = pickle.loads(answer)  # noqa: S301 - from the process that this one started
        except Exception as error:
            self.close()
            raise WorkerDied(f"gave what cannot be read ({type(error).__name__})") from None
        self.is_worn |= is_late  # it answered, and was ended after all
        return value

    def _await_answer(self) -> bool:
        """Wait until it answers or ends: its end alone is not seen where a process that it forked holds its pipe."""
        if not hasattr(os, "pidfd_open") or not hasattr(select, "poll"):
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
        if not hasattr(os, "waitid"):
            return self._process.poll() is None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    def _let_end(self) -> None:
        """Give a process that closed its pipe the time to end by itself, which tells why; those it started are left."""
        deadline = time.monotonic() + _GRACE
        while hasattr(os, "waitid") and self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.002)

    def kill(self) -> None:
        """End the process, and on POSIX those that it has started."""
        if self._process.returncode is not None:
            return
        if os.name == "posix" and not _is_worker:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()

    def close(self) -> None:
        """End the process; what it printed goes to the log."""
        self._watchdog.close()
        self.kill()
        self._process.wait()
        logger.debug("worker: %s", self._last_words())
        for stream in (self._process.stdin, self._process.stdout, self._stderr, self._lifeline):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _ending(self) -> str:
        code = self._process.returncode
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"

    def _last_words(self) -> str:
        self._stderr.seek(0, io.SEEK_END)
        self._stderr.seek(max(self._stderr.tell() - _MAX_STDERR, 0))
        return self._stderr.read().decode(errors="replace").strip()


@contextlib.contextmanager
def _open_lifeline() -> Iterator[tuple[int, IO[bytes] | None]]:
    """A pipe that nobody writes to: its end for a worker, open while this lasts, and that for this process.

    It breaks when this process ends, however it does. Linux tells the worker by a signal; elsewhere there is no pipe.
    """
    if not hasattr(fcntl, "F_SETSIG"):
        yield _NO_LIFELINE, None
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


def _hold(lifeline: int) -> None:
    """Let this process, and those of the group that it may lead, be killed when its lifeline breaks."""
    if lifeline != _NO_LIFELINE:
        leads = os.getpgrp() == os.getpid()
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid() if leads else os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)


class _Pool:
    """The idle workers of this process. Those of a process that was forked are not its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._owner = os.getpid()

    def take(self) -> _Worker:
        """An idle worker, or a new one."""
        if self._owner != os.getpid():
            self.__init__()  # type: ignore[misc]
        worker = self._take_idle() or _Worker()
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
        """Keep a worker for the next call, or end it if it is worn."""
        with self._lock:
            self._busy.discard(worker)
            if not worker.is_worn:
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


_pool = _Pool()
atexit.register(_pool.close)


def start() -> None:
    """Start a worker ahead of the first call, so that it gets ready while this process does something else."""
    with contextlib.suppress(WorkerDied):
        _pool.give_back(_pool.take())


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
        memory: Bytes that it, and each process that it starts, may allocate beyond what the worker has; not enforced
            on Windows. In a worker, what its own call may allocate bounds it, too. None for any.

    Raises:
        WorkerTimedOut: The worker took longer.
        WorkerTerminated: The worker was told to end.
        WorkerKilled: The worker was ended by somebody else.
        WorkerNotStarted: There is none, and could not be.
        WorkerDied: The worker ended.
        Exception: What the function raised, MemoryError among it.
    """
    is_bounded = _memory is not None and (memory is None or memory > _memory)
    if is_bounded:
        memory = _memory
    request = pickle.dumps((function.__module__, function.__qualname__, args, timeout, memory))
    try:
        worker = _pool.take()
        try:
            is_error, value = worker.call(request, timeout)
        except BaseException:
            _pool.forget(worker)
            raise
    except (WorkerNotStarted, WorkerKilled, WorkerTerminated):
        _circumstances.is_disturbed = True
        raise
    except WorkerDied as error:
        _circumstances.is_short |= is_bounded and not isinstance(error, WorkerTimedOut)
        raise
    _pool.give_back(worker)
    if is_error:
        _circumstances.is_short |= is_bounded and isinstance(value, MemoryError)
        raise value
    return value


def circumstances() -> Circumstances:
    """Those of the call that this worker answers. What runs short of memory by itself and goes on tells it here."""
    return _circumstances


def serve(lifeline: int = _NO_LIFELINE) -> None:
    """Answer calls until the other side closes the pipe: what a worker process does."""
    global _is_worker  # noqa: PLW0603 - it is about this process
    _is_worker = True
    _hold(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that waits
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not mix with answers
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    while (request := _read(requests)) is not None:
        answer = _answer(request)
        try:
            _write(answers, answer)
        except OSError:
            return


def _answer(request: bytes) -> bytes:
    module, name, args, timeout, memory = pickle.loads(request)  # noqa: S301 - see `_Worker.call`
    try:
        function = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        with _limits(timeout, memory):
            return _dump((False, function(*args)))  # type: ignore[operator]
    except Exception as error:
        try:
            answer = _dump((True, error.with_traceback(None)))
            pickle.loads(answer)  # noqa: S301 - own; there are errors that cannot be made again of what they hold
            return answer
        except Exception:
            return _dump((True, RuntimeError(f"{type(error).__name__}: {error}")))


def _dump(answer: tuple[bool, Any]) -> bytes:
    """An answer, and whether this worker is worn."""
    return pickle.dumps((answer, (_allocated() or 0) > _MAX_IDLE_MEMORY))


@contextlib.contextmanager
def _limits(timeout: float | None, memory: int | None) -> Any:
    """Bound memory, and time where nobody waits any more, as far as the system can."""
    global _memory, _circumstances
    _memory, _circumstances = memory, Circumstances()
    try:
        import resource
    except ImportError:
        yield
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    signal.setitimer(signal.ITIMER_REAL, 0 if timeout is None else timeout + _GRACE)
    allocated = _allocated()
    if allocated is not None and memory is not None:
        bound = min(allocated + memory, _MAX_LIMIT)
        resource.setrlimit(resource.RLIMIT_DATA, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _allocated() -> int | None:
    """Bytes that this process has allocated, files that it maps left out; None where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(_HEADER.pack(len(data)))
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the stream."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    (size,) = _HEADER.unpack(header)
    data = stream.read(size)
    return data if len(data) == size else None
