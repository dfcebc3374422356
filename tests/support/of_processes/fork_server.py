"""A process that has imported what takes long, and forks children of the process that it serves.

`serve` runs in the server. The children are children of the server's parent, not of the server, so that the parent can
wait for them as for those that it starts itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import os
import pickle
import platform
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

_CLONE = {"x86_64": 56, "aarch64": 220}
"""The number of the system call `clone`, by processor."""
_CLONE_PARENT = 0x8000
_MAX_MESSAGE = 2**20
IS_SUPPORTED = sys.platform == "linux" and platform.machine() in _CLONE


class Child:
    """A child of this process, with what its users need of `subprocess.Popen`.

    Attributes:
        pid: Its id.
        returncode: The exit code, negative for a signal; None before `poll` or `wait` has seen its end.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        return self._reap(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, but not for the end of its children.

        Raises:
            subprocess.TimeoutExpired: The process took longer.
        """
        if timeout is not None and self.returncode is None:
            with os.fdopen(os.pidfd_open(self.pid)) as end:
                if not select.select([end], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(str(self.pid), timeout)
        code = self._reap(0)
        assert code is not None
        return code

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


AnyChild = TypeVar("AnyChild", bound=Child)


class ForkServer:
    """A server of this process. It ends with it.

    Args:
        modules: Modules that it imports; those that are not installed are left out.
        environment: Variables that it starts with, beside those of this process.
    """

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_MESSAGE)
        with theirs:
            given = f"{theirs.fileno()}, {modules}"
            code = f"import sys; sys.path[:] = {sys.path}; from fork_server import serve; serve({given})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], pass_fds=[theirs.fileno()], env={**os.environ, **environment}
            )
        atexit.register(self.close)

    def fork(
        self, kind: type[AnyChild], function: Callable[..., int], *args: object, descriptors: Sequence[int]
    ) -> AnyChild:
        """Call a function of a module in a child.

        The child has the working folder, the environment and the `sys.path` of this process.

        Args:
            kind: The class of what is returned.
            function: A function of the descriptors' numbers in the child and of `args` that returns the exit code.
            args: Arguments that can be pickled.
            descriptors: Descriptors that the child gets copies of.
        """
        name = (function.__module__, function.__qualname__)
        task = pickle.dumps((name, args, os.getcwd(), dict(os.environ), sys.path))
        with self._lock:
            socket.send_fds(self._ours, [task], list(descriptors))
            return kind(int(self._ours.recv(64)))

    def close(self) -> None:
        """End the server, but not the children."""
        self._ours.close()
        self._process.wait()


def serve(descriptor: int, modules: Sequence[str]) -> None:
    """Fork a child for each request that comes, until the other end is closed."""
    for module in modules:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)
    with socket.socket(fileno=descriptor) as requests:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for its parent
        while True:
            task, descriptors, _, _ = socket.recv_fds(requests, _MAX_MESSAGE, 16)
            if not task:
                return
            pid = _clone()
            if pid == 0:
                requests.close()
                signal.signal(signal.SIGINT, signal.default_int_handler)
                _run(descriptors, *pickle.loads(task))
            requests.send(str(pid).encode())
            for each in descriptors:
                os.close(each)


def _clone() -> int:
    """Fork a sibling of this process, which runs one thread. Return its id, 0 in the sibling."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid: int = ctypes.CDLL(None).syscall(_CLONE[platform.machine()], _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    (python.PyOS_AfterFork_Child if pid == 0 else python.PyOS_AfterFork_Parent)()
    return pid


def _run(descriptors: list[int], name: tuple[str, str], args: tuple[Any, ...], *settings: Any) -> None:
    """Call a function, and end the process as an interpreter ends."""
    code = 1
    try:
        folder, environment, sys.path[:] = settings
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = getattr(importlib.import_module(name[0]), name[1])(descriptors, *args)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            code = error.code or 0
        else:
            sys.stderr.write(f"{error.code}\n")
    except BaseException:
        traceback.print_exc()
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    finally:
        os._exit(code)
