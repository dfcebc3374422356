"""Calling functions in a worker process, for third-party code that can end, block or exhaust the one it runs in.

A worker is started when it is first needed, serves one call after another, and ends with the process that started it,
whatever it is doing then (on Windows once it has done it).
One that dies, takes too long or too much memory is replaced at the next call.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import logging
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import IO, Any

from sliceport.errors import SliceportError

DEFAULT_MEMORY = 2**30
_HEADER = struct.Struct("<Q")
_START = "import sys; sys.path[:] = sys.argv[1:]; from sliceport.guarded import serve; serve()"
_MAX_STDERR = 2000
_GRACE = 2.0

logger = logging.getLogger(__name__)


class WorkerDied(SliceportError):
    """The worker ended, or was ended because it took too long; the message says which, as half a sentence."""


class WorkerTimedOut(WorkerDied):
    """The worker was ended because it took too long."""


class _Worker:
    """A worker process."""

    def __init__(self) -> None:
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        except OSError as error:  # a full disk
            raise WorkerDied(f"could not be started ({error.strerror or error})") from None
        paths = [path or os.getcwd() for path in sys.path]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-c", _START, *paths],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
            )
        except OSError as error:
            self._stderr.close()
            raise WorkerDied(f"could not be started ({error.strerror or error})") from None

    def call(self, request: bytes, timeout: float) -> Any:
        """Send a request and wait for the answer.

        Raises:
            WorkerDied: There is none.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        is_late = threading.Event()

        def kill() -> None:
            is_late.set()
            self._process.kill()

        timer = threading.Timer(timeout, kill)
        timer.start()
        try:
            _write(self._process.stdin, request)
            answer = _read(self._process.stdout)
        except OSError:
            answer = None
        except BaseException:  # interrupted: what comes back belongs to nobody any more
            self.close()
            raise
        finally:
            timer.cancel()
        if answer is None:
            self.close()
            if is_late.is_set():
                raise WorkerTimedOut(f"took longer than {timeout:g} s")
            raise WorkerDied(self._ending())
        return pickle.loads(answer)  # noqa: S301 - from the process that this one started

    def close(self) -> None:
        """End the process; what it printed goes to the log."""
        self._process.kill()
        self._process.wait()
        logger.debug("worker: %s", self._last_words())
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
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


class _Pool:
    """The idle workers of this process. Those of a process that was forked are not its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._owner = os.getpid()

    def take(self) -> _Worker:
        """An idle worker, or a new one."""
        if self._owner != os.getpid():
            self.__init__()  # type: ignore[misc]
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Worker()

    def give_back(self, worker: _Worker) -> None:
        """Keep a worker for the next call."""
        with self._lock:
            self._idle.append(worker)

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


def call(function: Callable[..., Any], *args: Any, timeout: float, memory: int = DEFAULT_MEMORY) -> Any:
    """Call a function in a worker process.

    Args:
        function: A function of a module that the worker can import.
        args: Its arguments; they and what it returns are pickled.
        timeout: Seconds that it may take, the start of the worker included.
        memory: Bytes that it may allocate beyond what the worker has; not enforced on Windows.

    Raises:
        WorkerTimedOut: The worker took longer.
        WorkerDied: The worker ended, or could not be started.
        Exception: What the function raised, MemoryError among it.
    """
    request = pickle.dumps((function.__module__, function.__qualname__, args, timeout, memory))
    worker = _pool.take()
    is_error, value = worker.call(request, timeout)
    _pool.give_back(worker)
    if is_error:
        raise value
    return value


def serve() -> None:
    """Answer calls until the other side closes the pipe: what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process that waits
    requests = os.fdopen(os.dup(0), "rb")
    threading.Thread(target=_end_with_other_side, args=(requests.fileno(),), daemon=True).start()
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


def _end_with_other_side(pipe: int) -> None:
    """End this process when nobody can write to a pipe any more, though a call is under way."""
    if sys.platform == "win32":  # which has no poll
        return
    waiting = select.poll()
    waiting.register(pipe, 0)  # being hung up is told always
    waiting.poll()
    os._exit(0)


def _answer(request: bytes) -> bytes:
    module, name, args, timeout, memory = pickle.loads(request)  # noqa: S301 - see `_Worker.call`
    try:
        function = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
        with _limits(timeout, memory):
            return pickle.dumps((False, function(*args)))  # type: ignore[operator]
    except Exception as error:
        try:
            return pickle.dumps((True, error.with_traceback(None)))
        except Exception:
            return pickle.dumps((True, RuntimeError(f"{type(error).__name__}: {error}")))


@contextlib.contextmanager
def _limits(timeout: float, memory: int) -> Any:
    """Bound memory, and time where nobody waits any more, as far as the system can."""
    try:
        import resource
    except ImportError:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    signal.setitimer(signal.ITIMER_REAL, timeout + _GRACE)
    used = _address_space()
    if used is not None:
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int | None:
    """Bytes of address space that this process has; None where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
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
