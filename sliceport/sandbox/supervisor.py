"""The parent's side of the sandbox: call functions in child processes that may crash, hang or run out of memory.

A child is started when it is first needed, serves one call after another, and ends with this process; on Linux and
Windows at once, even if this process is killed. A child that dies is replaced at the next call.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import logging
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
from types import FrameType
from typing import IO, Any, TypeVar

from sliceport import progress
from sliceport.errors import SliceportError
from sliceport.sandbox.child import (
    ANNOUNCEMENT,
    ANSWER,
    HAS_PIPE_SIGNALS,
    NO_PIPE,
    PROGRESS,
    STOPPING,
    read_message,
    redirect_standard_streams,
    serve,
    this_process,
    write_message,
)

T = TypeVar("T")
_START = "import sys; sys.path[:] = sys.argv[2:]; from sliceport.sandbox.child import main; main()"
_MAX_STDERR = 2000
_GRACE = 2.0
"""Seconds in which a child that closed its pipe may end by itself, which gives its exit status."""
_TURN = 0.2
"""Seconds after which Ctrl-C is noticed on Windows, where it interrupts no wait."""

logger = logging.getLogger(__name__)


class ChildDied(SliceportError):
    """The child ended, or was ended; the message is a predicate, such as `was ended by SIGSEGV`.

    Attributes:
        stderr: The end of what the child wrote to stderr during the call.
    """

    def __init__(self, message: str, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class ChildTimedOut(ChildDied):
    """The child was ended because it took too long."""


class ChildCrashed(ChildDied):
    """The child was ended by a signal of a crash, such as SIGSEGV or SIGABRT."""


class ChildLost(ChildDied):
    """The machine, and not the call, ended the child."""


class ChildTerminated(ChildLost):
    """SIGTERM ended the child, as it ends all processes when a machine or a job of a cluster shuts down."""


class ChildKilled(ChildLost):
    """Somebody else's SIGKILL ended the child, such as that of a system without memory."""


class ChildNotStarted(ChildLost):
    """The system has no process, memory or disk space for a child."""


_KINDS: dict[int, type[ChildDied]] = {signal.SIGTERM: ChildTerminated}
if sys.platform != "win32":
    _KINDS |= {signal.SIGKILL: ChildKilled, signal.SIGBUS: ChildCrashed, signal.SIGTRAP: ChildCrashed}
_KINDS |= dict.fromkeys((signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE), ChildCrashed)


if sys.platform != "win32":

    class _Forked:
        """A child forked from this process, with the attributes of `subprocess.Popen` that `_Child` reads.

        It starts in 2 ms with all modules that this process has imported, so this process must have started no thread.
        """

        returncode: int | None = None

        def __init__(self, log: int, parent: int, ours: IO[bytes] | None) -> None:
            requests, to_child = os.pipe()
            from_child, answers = os.pipe()
            # Python loses an exception of a signal handler that runs within its hooks of a fork.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
            try:
                self.pid = os.fork()
                if self.pid == 0:
                    try:
                        os.setpgid(0, 0)
                        for stream in (to_child, from_child):
                            os.close(stream)
                        if ours is not None:
                            ours.close()  # or the pipe would not break when the parent dies
                        redirect_standard_streams(log)
                        serve(os.fdopen(requests, "rb"), os.fdopen(answers, "wb"), parent)
                    finally:
                        os._exit(0)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            with contextlib.suppress(OSError):  # the child has done so already
                os.setpgid(self.pid, self.pid)
            os.close(requests)
            os.close(answers)
            self.stdin, self.stdout = os.fdopen(to_child, "wb"), os.fdopen(from_child, "rb")

        def wait(self) -> int:
            """Wait for the end of the child."""
            if self.returncode is None:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return self.returncode


class _Child:
    """A child process.

    Args:
        forks: Whether to fork the child instead of starting an interpreter.
        log: The descriptor that the child writes its own output to; by default a file for `ChildDied.stderr`.

    Attributes:
        must_be_replaced: Whether the child must not serve another call.
    """

    must_be_replaced = False

    def __init__(self, *, forks: bool = False, log: int | None = None) -> None:
        self._process: Any
        self._log: IO[bytes] | None = None
        try:
            if log is None:
                self._log = _open_log()
            with _open_parent_pipe() as (end, self._pipe):
                descriptor = log if self._log is None else self._log.fileno()
                assert descriptor is not None
                if sys.platform != "win32" and forks:
                    self._process = _Forked(descriptor, end, self._pipe)
                else:
                    self._process = _start(descriptor, end)
        except OSError as error:  # a full disk, for one
            if self._log is not None:
                self._log.close()
            raise ChildNotStarted(f"could not be started ({error.strerror or error})") from None
        self._stdout = self._process.stdout.detach()  # unbuffered: `_has_message` looks at the descriptor alone
        self._job = _open_job(self._process.pid)
        self._has_expired = False

    def call(self, request: bytes, timeout: float | None) -> tuple[bool, Any]:
        """Send a request and wait for its answer: whether it is an error, and the value.

        Raises:
            ChildDied: The child ended before it answered.
        """
        if self._log is not None:
            self._log.seek(0)  # for the child, too, which shares the position
            self._log.truncate()
        timer = None if timeout is None else threading.Timer(timeout, self._expire)
        try:
            if timer is not None:
                timer.daemon = True
                timer.start()
            answer = self._exchange(request)
        except OSError:
            answer = None
        except BaseException:  # interrupted: the answer belongs to nobody any more
            self.close()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if answer is None:
            raise self._describe_death(timeout)
        try:
            is_error, value, self.must_be_replaced = pickle.loads(answer)  # noqa: S301 - from the own child
        except Exception as error:
            self.close()
            raise ChildDied(f"gave what cannot be read ({type(error).__name__})") from None
        self.must_be_replaced |= self._has_expired  # the child answered, and was ended after all
        return is_error, value

    def _describe_death(self, timeout: float | None) -> ChildDied:
        if not self._has_expired:
            self._let_end()
        self.kill()
        code = self._process.wait()
        stderr = self._read_log()
        self.close()
        if self._has_expired:
            return ChildTimedOut(f"took longer than {timeout:g} s", stderr)
        if code >= 0:
            kind = ChildCrashed if code > 0xFF else ChildDied  # a status of Windows
            return kind(f"ended with exit code {code if code <= 0xFF else hex(code)}", stderr)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return _KINDS.get(-code, ChildDied)(f"was ended by {name}", stderr)

    def _exchange(self, request: bytes) -> bytes | None:
        """Return the answer to a request; None if the child ended. Ctrl-C interrupts the wait."""
        if sys.platform != "win32" or threading.current_thread() is not threading.main_thread():
            write_message(self._process.stdin, request)
            return self._await_answer()
        answers: queue.Queue[bytes | None] = queue.Queue()

        def exchange() -> None:
            answer = None
            with contextlib.suppress(OSError, ValueError):  # the pipe is closed when the main thread was interrupted
                write_message(self._process.stdin, request)
                answer = self._await_answer()
            answers.put(answer)

        threading.Thread(target=exchange, daemon=True).start()
        return take(answers)

    def _await_answer(self) -> bytes | None:
        """Read messages until an answer comes or the child ends; pass progress on."""
        listeners = {PROGRESS: progress.say, ANNOUNCEMENT: progress.announce}
        with _open_process(self._process.pid) as process:
            while self._has_message(process):
                message = read_message(self._stdout)
                if message is None or message[0] == ANSWER:
                    return None if message is None else message[1]
                listeners[message[0]](message[1].decode())
        return None

    def _has_message(self, process: int | None) -> bool:
        """Wait for a message, or for the child's end, which the pipe does not show while a grandchild holds it."""
        if sys.platform == "win32" or process is None:
            return True
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        poll.register(process, select.POLLIN)
        return any(descriptor != process for descriptor, _ in poll.poll())

    def is_alive(self) -> bool:
        """Return whether the process has not ended; it stays a zombie, so that its group can still be found."""
        if sys.platform == "win32" or not hasattr(os, "waitid"):
            return self._process.poll() is None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    def _let_end(self) -> None:
        deadline = time.monotonic() + _GRACE
        can_look = hasattr(os, "waitid") or sys.platform == "win32"  # elsewhere, to look is to wait for it
        while can_look and self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.002)

    def _expire(self) -> None:
        self._has_expired = True
        self.kill()

    def kill(self) -> None:
        """End the process and its descendants; those of a child on POSIX end with the group of the outermost one."""
        if self._process.returncode is not None:
            return
        if sys.platform == "win32":
            if self._job is not None:
                self._job.kill()
            with contextlib.suppress(PermissionError):  # it is just ending
                self._process.kill()
        else:
            end, target = (os.kill if this_process.is_child else os.killpg), self._process.pid
            with contextlib.suppress(ProcessLookupError):
                end(target, signal.SIGKILL)

    def close(self) -> None:
        """End the process and log its output; do nothing the second time."""
        if self._stdout.closed:
            return
        self.kill()
        self._process.wait()
        if output := self._read_log():
            logger.debug("child: %s", output)
        for stream in (self._process.stdin, self._stdout, self._log, self._pipe, self._job):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _read_log(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0, io.SEEK_END)
        self._log.seek(max(self._log.tell() - _MAX_STDERR, 0))
        return self._log.read().decode(errors="replace").strip()


def _open_log() -> IO[bytes]:
    """Open a file without a name; in memory on Linux, where containers may have no folder for temporary files."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("stderr"), "w+b")
    return tempfile.TemporaryFile()


def _start(log: int, parent: int) -> Any:
    """Start an interpreter that serves calls."""
    if not sys.executable:
        raise OSError("there is no Python to run")
    return subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", _START, str(parent), *(path or os.getcwd() for path in sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        pass_fds=[] if parent == NO_PIPE else [parent],
        process_group=None if this_process.is_child or os.name != "posix" else 0,
    )


@contextlib.contextmanager
def _open_process(process: int) -> Iterator[int | None]:
    """Open a descriptor that becomes readable when a process ends; None on systems other than Linux."""
    if sys.platform == "win32" or not hasattr(os, "pidfd_open") or not hasattr(select, "poll"):
        yield None
        return
    try:
        descriptor = os.pidfd_open(process)
    except OSError:  # an old kernel, or no descriptor is left
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_job(process: int) -> Any:
    """Return the job object that ends a child with its descendants on Windows; None elsewhere."""
    if sys.platform == "win32":
        from sliceport.sandbox.windows import Job

        with contextlib.suppress(OSError):
            return Job(process)
    return None


@contextlib.contextmanager
def _open_parent_pipe() -> Iterator[tuple[int, IO[bytes] | None]]:
    """Open a pipe that breaks when this process ends: the child's end, while the context lasts, and this process's."""
    if not HAS_PIPE_SIGNALS:
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
    """The warm children of this process. A forked process starts with an empty pool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()
        self._owner = os.getpid()

    @contextlib.contextmanager
    def borrow(self) -> Iterator[_Child]:
        """Yield an idle child, or a new one. Keep it for the next call unless it failed or must be replaced."""
        if self._owner != os.getpid():
            self.__init__()  # type: ignore[misc]
        with self._lock:
            while self._idle and not self._idle[-1].is_alive():  # somebody else has ended it
                self._idle.pop().close()
            child = self._idle.pop() if self._idle else None
        child = child or _Child()
        with self._lock:
            self._busy.add(child)
        is_reusable = False
        try:
            yield child
            is_reusable = not child.must_be_replaced
        finally:
            with self._lock:
                self._busy.discard(child)
                if is_reusable:
                    self._idle.append(child)
            if not is_reusable:
                child.close()

    def kill_busy(self) -> None:
        """End the children that answer a call."""
        with self._lock:
            for child in self._busy:
                child.kill()

    def close(self) -> None:
        """End the idle children."""
        if self._owner != os.getpid():
            return
        with self._lock:
            for child in self._idle:
                child.close()
            self._idle.clear()


_pool = _Pool()


@atexit.register
def end_idle() -> None:
    """End the children that wait for a call; the next call starts another."""
    _pool.close()


def end_calls() -> None:
    """End the calls that other threads are waiting for: they raise `ChildDied`."""
    _pool.kill_busy()


def take(waiting: queue.Queue[T]) -> T:
    """Return the next item of a queue. Ctrl-C interrupts the wait."""
    while True:
        with contextlib.suppress(queue.Empty):
            return waiting.get(timeout=_TURN if sys.platform == "win32" else None)


def call(
    function: Callable[..., Any],
    *args: Any,
    timeout: float | None = None,
    memory: int | None = None,
    is_isolated: bool = False,
    forks: bool = False,
    log: int | None = None,
) -> Any:
    """Call a function in a child.

    Args:
        function: A function of a module that the child can import.
        args: Its arguments; they and the result are pickled.
        timeout: Seconds that the call may take, the start of the child included; None for no limit.
        memory: Bytes that the child, and each process that it starts, may allocate beyond what it has; enforced on
            Linux alone. None for no limit but that of the call that this process answers.
        is_isolated: Whether the function hands code that may crash to a child of its own; see `child.is_expendable`.
        forks: Whether the child is made for this call, forked if that is safe, instead of taken from the warm ones.
        log: The descriptor that a child made for this call writes its own output to; by default a file for
            `ChildDied.stderr`.

    Raises:
        ChildDied: The child ended, or was ended; see its subclasses.
        Exception: An error of the function, MemoryError included.
    """
    bounds = [bound for bound in (memory, this_process.memory) if bound is not None]
    limit = min(bounds) if bounds else None
    request = pickle.dumps((function.__module__, function.__qualname__, args, limit, is_isolated))
    if forks or log is not None:
        child = _Child(forks=forks and _can_fork(), log=log)
        try:
            is_error, value = child.call(request, timeout)
        finally:
            child.close()
    else:
        is_error, value = _call_warm(request, timeout)
    if is_error:
        raise value
    return value


def _can_fork() -> bool:
    """Return whether a fork is safe: libraries of macOS do not survive one, nor do locks that other threads hold."""
    return sys.platform not in ("win32", "darwin") and threading.active_count() == 1


def _call_warm(request: bytes, timeout: float | None) -> tuple[bool, Any]:
    with _pool.borrow() as child:
        return child.call(request, timeout)


def call_twice(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function in a child; if it crashes, once more in a child that isolates what may crash.

    Args, Raises: See `call`.
    """
    try:
        return call(function, *args, **options)
    except ChildCrashed as error:
        logger.debug("the call is repeated, isolated: its process %s", error)
    return call(function, *args, is_isolated=True, **options)


class Stopped(BaseException):
    """A signal that ends this process.

    Attributes:
        number: The signal: SIGINT or SIGTERM.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


_is_shielded = False


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` for the first SIGINT or SIGTERM, unless the process ignores it; only in the main thread.

    The next ones are ignored until the process ends, so that they do not interrupt the clean-up.
    """
    stopped: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if not (stopped or _is_shielded):
            stopped.append(number)
            raise Stopped(number)

    numbers: list[int] = []
    if threading.current_thread() is threading.main_thread():
        usual = (signal.SIG_DFL, signal.default_int_handler)
        numbers = [each for each in STOPPING if signal.getsignal(each) in usual]
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items() if not stopped else ():
            signal.signal(number, handler)


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM within `stoppable`: for short steps that belong together, such as renaming files."""
    global _is_shielded  # noqa: PLW0603 - signals are the process's
    _is_shielded = True
    try:
        yield
    finally:
        _is_shielded = False
