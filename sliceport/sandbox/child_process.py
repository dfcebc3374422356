"""A child process as its parent sees it: start it, send it a request, wait for the answer, end it."""

from __future__ import annotations

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
from collections.abc import Iterator
from typing import IO, Any

from sliceport.errors import SliceportError
from sliceport.sandbox import progress
from sliceport.sandbox.child import (
    ANNOUNCEMENT,
    ANSWER,
    PROGRESS,
    read_message,
    redirect_standard_streams,
    serve,
    this_process,
    write_message,
)
from sliceport.sandbox.parent_pipe import NO_PIPE, open_parent_pipe
from sliceport.sandbox.signals import STOPPING, get_interruptibly

_START = "import sys; sys.path[:] = sys.argv[2:]; from sliceport.sandbox.child import main; main()"
_MAX_STDERR = 2000
_GRACE = 2.0
"""Seconds to wait for the end of a child that has closed its pipe; killing it would hide its exit status."""

logger = logging.getLogger(__name__)


class ChildDied(SliceportError):
    """The child ended, or was ended; the message is a predicate, such as `was ended by SIGSEGV`.

    Attributes:
        stderr: The last 2000 bytes that the child wrote to stdout and stderr during the call; empty if it has a `log`.
    """

    def __init__(self, message: str, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class ChildTimedOut(ChildDied):
    """The child was ended because it took too long."""


class ChildCrashed(ChildDied):
    """A crash ended the child: a signal such as SIGSEGV or SIGABRT, or a status above 255 on Windows."""


class ChildLost(ChildDied):
    """The machine ended the child, or could not start it, for a reason other than the call."""


class ChildTerminated(ChildLost):
    """SIGTERM ended the child, as it ends all processes when a machine or a job of a cluster shuts down."""


class ChildKilled(ChildLost):
    """SIGKILL from elsewhere ended the child, such as from a kernel that has run out of memory."""


class ChildNotStarted(ChildLost):
    """The child could not be started, for example because the system has no memory or thread left."""


_BY_SIGNAL: dict[int, type[ChildDied]] = {signal.SIGTERM: ChildTerminated}
if sys.platform != "win32":
    _BY_SIGNAL |= {signal.SIGKILL: ChildKilled, signal.SIGBUS: ChildCrashed, signal.SIGTRAP: ChildCrashed}
_BY_SIGNAL |= dict.fromkeys((signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE), ChildCrashed)


if sys.platform != "win32":

    class ForkedProcess:
        """A child forked from this process, with the attributes of `subprocess.Popen` that `ChildProcess` reads.

        It starts in 2 ms, because it has all modules that this process has imported. This process must have only one
        thread: a lock that another thread holds would stay locked in the child. The child writes stdout and stderr to
        `log`. `child_end` and `parent_end` come from `open_parent_pipe`.
        """

        returncode: int | None = None

        def __init__(self, log: int, child_end: int, parent_end: IO[bytes] | None) -> None:
            with contextlib.ExitStack() as on_error:
                requests, self.stdin = _open_pipe(on_error)
                self.stdout, answers = _open_pipe(on_error)
                # Signals are blocked during the fork: if a signal handler raises an error while a hook of `os.fork`
                # runs, Python prints the error and goes on. In the child, `serve` unblocks them.
                mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
                try:
                    self.pid = os.fork()
                    if self.pid == 0:
                        try:
                            os.setpgid(0, 0)  # a group of its own, so that its children are killed with it
                            for stream in filter(None, (self.stdin, self.stdout, parent_end)):
                                stream.close()  # otherwise no pipe would break when the parent dies
                            redirect_standard_streams(log)
                            serve(requests, answers, child_end)
                        finally:
                            os._exit(0)  # the child must not return into the code of its parent, even after an error
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                on_error.pop_all()
            with contextlib.suppress(OSError):  # both processes do it, as either may be first; the child may have ended
                os.setpgid(self.pid, self.pid)
            requests.close()
            answers.close()

        def wait(self) -> int:
            """Wait for the end of the child. Return its exit code, or minus the number of the signal, as Popen does."""
            if self.returncode is None:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return self.returncode


class ChildProcess:
    """A child process.

    Args:
        forks: Whether to fork the child instead of starting an interpreter.
        log: The descriptor for the child's stdout and stderr; by default a file that `ChildDied.stderr` is read from.

    Attributes:
        must_be_replaced: Whether the child must not serve another call.

    Raises:
        ChildNotStarted: The child cannot be started.
    """

    must_be_replaced = False

    def __init__(self, *, forks: bool = False, log: int | None = None) -> None:
        self._process: Any
        self._log: IO[bytes] | None = None
        try:
            if log is None:
                self._log = _open_log()
                log = self._log.fileno()
            with open_parent_pipe() as (child_end, self._pipe):
                if sys.platform != "win32" and forks:
                    self._process = ForkedProcess(log, child_end, self._pipe)
                else:
                    self._process = _start(log, child_end)
        except OSError as error:  # such as a full disk
            if self._log is not None:
                self._log.close()
            raise ChildNotStarted(f"could not be started ({error.strerror or error})") from None
        self._stdout = self._process.stdout.detach()  # unbuffered, because `poll` does not see a buffer
        self._job = _open_job(self._process.pid)
        self._has_expired = False

    def call(self, request: bytes, timeout: float | None) -> tuple[bool, Any]:
        """Send a request and wait for the answer. Return whether the answer is an error, and the error or the result.

        Raises:
            ChildNotStarted: A thread for the time limit, or on Windows for the answer, cannot be started.
            ChildDied: The child ended before it answered, took too long, or sent an unreadable answer.
        """
        if self._log is not None:
            self._log.seek(0)  # the child shares the position, and writes from the start again
            self._log.truncate()
        timer = None if timeout is None else threading.Timer(timeout, self._expire)
        try:
            if timer is not None:
                _start_thread(timer)
            answer = self._exchange(request)
        except BaseException:  # such as Ctrl-C: the next call would get the answer to this request
            self.close()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if answer is None:
            raise self._close_after_death(timeout)
        try:
            is_error, value, self.must_be_replaced = pickle.loads(answer)  # noqa: S301 - from the own child
        except Exception as error:
            self.close()
            raise ChildDied(f"sent an answer that cannot be read ({type(error).__name__})") from None
        self.must_be_replaced |= self._has_expired  # the timer may have ended the child just after its answer
        return is_error, value

    def _close_after_death(self, timeout: float | None) -> ChildDied:
        """Close a child that has ended or was stopped by its timer, and return the error that describes its end."""
        if not self._has_expired:
            self._wait_for_exit()
        self.kill()  # ends the child's descendants, and the child if it closed its pipe without ending
        code = self._process.wait()
        stderr = self._read_log()
        self.close()
        if self._has_expired:
            return ChildTimedOut(f"took longer than {timeout:g} s", stderr)
        if code >= 0:
            kind = ChildCrashed if code > 0xFF else ChildDied  # Windows ends crashed processes with a status above 255
            return kind(f"ended with exit code {code if code <= 0xFF else hex(code)}", stderr)
        name = {each.value: each.name for each in signal.Signals}.get(-code, f"signal {-code}")
        return _BY_SIGNAL.get(-code, ChildDied)(f"was ended by {name}", stderr)

    def _exchange(self, request: bytes) -> bytes | None:
        """Send a request. Return the answer, or None if the child ended. Ctrl-C interrupts the wait of the main thread.

        Raises:
            ChildNotStarted: On Windows, the thread that waits for the answer cannot be started.
        """
        if sys.platform != "win32" or threading.current_thread() is not threading.main_thread():
            return self._send_and_wait(request)
        # Ctrl-C does not interrupt the main thread of Windows while it reads from a pipe, so another thread reads.
        answers: queue.Queue[bytes | Exception | None] = queue.Queue()

        def exchange() -> None:
            try:
                answers.put(self._send_and_wait(request))
            except Exception as error:  # such as an error of a progress listener; the main thread raises it
                answers.put(error)

        _start_thread(threading.Thread(target=exchange))
        answer = get_interruptibly(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _send_and_wait(self, request: bytes) -> bytes | None:
        """Send a request. Return the answer, or None if the child ended. Pass progress of the child to listeners."""
        try:
            write_message(self._process.stdin, request)
        except OSError:  # the child has ended, so the pipe is broken; an OSError of a listener, below, is not caught
            return None
        listeners = {PROGRESS: progress.say, ANNOUNCEMENT: progress.announce}
        with _open_pidfd(self._process.pid) as pidfd:
            while self._wait_for_message(pidfd):
                message = read_message(self._stdout)
                if message is None or message[0] == ANSWER:
                    return None if message is None else message[1]
                listeners[message[0]](message[1].decode())
        return None

    def _wait_for_message(self, pidfd: int | None) -> bool:
        """Wait for a message or the end of the child. Return whether the pipe has a message or is closed.

        A grandchild may hold the pipe open after the child has ended. So also wait for `pidfd`, a descriptor of the
        child. On Windows, or if `pidfd` is None, return True at once; reading the message then waits.
        """
        if sys.platform == "win32" or pidfd is None:
            return True
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        poll.register(pidfd, select.POLLIN)
        return any(descriptor != pidfd for descriptor, _ in poll.poll())

    def is_alive(self) -> bool:
        """Return whether the process runs.

        If possible, do not reap a process that has ended. Its id is then not used again, so its group can be killed.
        """
        if sys.platform == "win32" or not hasattr(os, "waitid"):
            return self._process.poll() is None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    def _wait_for_exit(self) -> None:
        """Wait for a child that has closed its pipe, at most `_GRACE` seconds: `kill` would hide its exit status."""
        deadline = time.monotonic() + _GRACE
        can_poll = hasattr(os, "waitid") or sys.platform == "win32"  # elsewhere `is_alive` would reap the child
        while can_poll and self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.002)

    def _expire(self) -> None:
        """End the child because its time is over."""
        self._has_expired = True
        self.kill()

    def kill(self) -> None:
        """Kill the child and, if possible, its descendants.

        On POSIX, kill the process group of the child. But if this process is itself a child of the sandbox, kill only
        the child, because this process is in the same group.
        """
        if self._process.returncode is not None:
            return
        if sys.platform == "win32":
            if self._job is not None:
                self._job.kill()
            with contextlib.suppress(PermissionError):  # the process is just ending
                self._process.kill()
        else:
            kill = os.kill if this_process.is_child else os.killpg
            with contextlib.suppress(ProcessLookupError):
                kill(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and log its output. Do nothing if this object is closed already."""
        if self._stdout.closed:
            return
        self.kill()
        self._process.wait()
        if output := self._read_log():
            logger.debug("child: %s", output)
        for stream in filter(None, (self._process.stdin, self._stdout, self._log, self._pipe, self._job)):
            with contextlib.suppress(OSError):  # closing stdin may write the rest of a request to a dead process
                stream.close()

    def _read_log(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0, io.SEEK_END)
        self._log.seek(max(self._log.tell() - _MAX_STDERR, 0))  # only the end of a long log
        return self._log.read().decode(errors="replace").strip()


def _start_thread(thread: threading.Thread) -> None:
    """Start a thread that does not keep this process alive. Raise ChildNotStarted if the system has no thread left."""
    thread.daemon = True
    try:
        thread.start()
    except RuntimeError as error:
        raise ChildNotStarted(f"could not be started ({error})") from None


def _open_log() -> IO[bytes]:
    """Open a temporary file. On Linux it is in memory, because containers may have no folder for temporary files."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("stderr"), "w+b")
    return tempfile.TemporaryFile()


def _start(log: int, child_end: int) -> Any:
    """Start an interpreter that serves calls. `child_end` comes from `open_parent_pipe`."""
    if not sys.executable:
        raise OSError("there is no Python to run")
    return subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", _START, str(child_end), *(path or os.getcwd() for path in sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        pass_fds=[] if child_end == NO_PIPE else [child_end],
        # The child leads a new group, so that its own children, which stay in the group, are killed with it.
        process_group=None if this_process.is_child or os.name != "posix" else 0,
    )


@contextlib.contextmanager
def _open_pidfd(pid: int) -> Iterator[int | None]:
    """Yield a descriptor that becomes readable when a process ends. Yield None if the system cannot open one."""
    descriptor = None
    with contextlib.ExitStack() as stack:
        if sys.platform != "win32" and hasattr(os, "pidfd_open") and hasattr(select, "poll"):
            with contextlib.suppress(OSError):  # an old kernel, or no descriptor is left
                descriptor = os.pidfd_open(pid)
                stack.callback(os.close, descriptor)
        yield descriptor


def _open_job(pid: int) -> Any:
    """Return a `windows.Job` for a child. Return None on other systems, or if the system makes no job."""
    if sys.platform == "win32":
        from sliceport.sandbox.windows import Job

        with contextlib.suppress(OSError):
            return Job(pid)
    return None


def _open_pipe(stack: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """Open a pipe, and return the end to read and the end to write. The stack closes both."""
    read_end, write_end = os.pipe()
    return stack.enter_context(os.fdopen(read_end, "rb")), stack.enter_context(os.fdopen(write_end, "wb"))
