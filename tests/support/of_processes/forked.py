"""Python in a process of its own, forked from a server that has imported what takes long and is not ours.

What runs there imports our packages anew, as `python -m` and `python -c` do in a folder. Not for tests of how an
interpreter starts: its streams, its environment, what it loads.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fork_server import IS_SUPPORTED, Child, ForkServer

POISON = {"MALLOC_PERTURB_": "165"}  # glibc then fills what it hands out, so that no unwritten memory is 0
NO_PROFILE = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}  # every 10 ms of what its threads do
if sys.platform == "win32":
    CONTEXT = multiprocessing.get_context("spawn")
else:
    CONTEXT = multiprocessing.get_context("forkserver")
    CONTEXT.set_forkserver_preload(["openvino_forms_child", "openvino_child"])
PRELOADED = ["numpy.random", "numpy.testing", "onnx", "onnx_ir", "onnx_ir.passes.common", "onnxruntime", "distributed"]
_started: list[Child | subprocess.Popen[bytes]] = []


@functools.cache
def server() -> ForkServer:
    """Return the server of this process, and start it at the first call."""
    return ForkServer(PRELOADED, POISON | NO_PROFILE)


@atexit.register
def _end_all() -> None:
    for process in _started:
        if process.poll() is None:
            process.kill()


@contextmanager
def server_environment() -> Iterator[None]:
    """Set the environment for starting the server, so that processes that it forks import the same modules."""
    before = dict(os.environ)
    os.environ.update(POISON | NO_PROFILE, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    try:
        yield
    finally:
        for name in (*POISON, *NO_PROFILE, "PYTHONPATH"):
            del os.environ[name]
        os.environ.update(before)


def run(
    words: Sequence[str],
    folder: Path | None = None,
    *,
    timeout: float = 300,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Python with `-m MODULE` or `-c CODE` and further words in a folder; return as `subprocess.run` does.

    `environment` is that of the new process; None for that of this process.

    Raises:
        subprocess.TimeoutExpired: The process took longer.
    """
    command = [sys.executable, *words]
    if sys.platform == "win32":
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=timeout,
        )
    process = Forked(words, folder, environment)
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    return subprocess.CompletedProcess(command, code, *process.said())


class Forked:
    """A process that was started and goes on, with what the tests use of `subprocess.Popen`; not on Windows.

    Args:
        words: The words of `run`.
        folder: The working folder.
        environment: The environment; None for that of this process.
        log: A file for both streams; None for a file each, which `said` reads.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        self._command = [sys.executable, *words]
        aside = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, aside)
        self._streams = [Path(aside) / name if log is None else log for name in ("stdout", "stderr")]
        self._process: Child | subprocess.Popen[bytes]
        with ExitStack() as stack:
            files = [stack.enter_context(stream.open("ab")) for stream in self._streams]
            if IS_SUPPORTED:
                given = (list(words), str(folder or Path.cwd()), dict(environment or os.environ))
                self._process = server().fork(Child, _interpret, *given, descriptors=[file.fileno() for file in files])
            else:
                self._process = subprocess.Popen(
                    self._command, stdout=files[0], stderr=files[1], cwd=folder, env=environment
                )
        self.pid = self._process.pid
        _started.append(self._process)

    @property
    def returncode(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, but not for the end of its children.

        Raises:
            subprocess.TimeoutExpired: The process took longer.
        """
        return self._process.wait(timeout)

    def said(self) -> tuple[str, str]:
        """Return the text on stdout and stderr so far."""
        stdout, stderr = (stream.read_text(encoding="utf-8") for stream in self._streams)
        return stdout, stderr


def _interpret(descriptors: list[int], words: list[str], folder: str, environment: Mapping[str, str]) -> int:
    for number, descriptor in zip((1, 2), descriptors, strict=True):
        os.dup2(descriptor, number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - until the end of the process
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    paths = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]
    return _run(words)


def _run(words: list[str]) -> int:
    """Run a module or code as `__main__`."""
    option, what, *more = words
    sys.argv = [option, *more]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)
    return 0
