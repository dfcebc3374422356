"""Python in a process of its own, forked from a server that has imported what takes long and is not ours.

What runs there imports our packages anew, as `python -m` and `python -c` do in a folder. Not for tests of how an
interpreter starts: its streams, its environment, what it loads.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

POISON = {"MALLOC_PERTURB_": "165"}  # glibc then fills what it hands out, so that no unwritten memory is 0
NO_PROFILE = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}  # every 10 ms of what its threads do
OURS = ("sliceport", "onnx_ops", "ov_ext")
if sys.platform == "win32":
    CONTEXT = multiprocessing.get_context("spawn")
else:
    CONTEXT = multiprocessing.get_context("forkserver")
    CONTEXT.set_forkserver_preload(
        ["numpy", "onnx", "onnx_ir", "onnxruntime", "distributed", "openvino_forms_child", "openvino_child"]
    )


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
        for stream in self._streams:
            stream.touch()
        given = (list(words), Path(folder or Path.cwd()), dict(environment or os.environ), self._streams)
        self._process = CONTEXT.Process(target=_interpret, args=given, daemon=True)
        with server_environment():
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.exitcode

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
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self._command, timeout)
        return code

    def said(self) -> tuple[str, str]:
        """Return the text on stdout and stderr so far."""
        stdout, stderr = (stream.read_text(encoding="utf-8") for stream in self._streams)
        return stdout, stderr


def _interpret(words: list[str], folder: Path, environment: Mapping[str, str], streams: list[Path]) -> None:
    for descriptor, stream in zip((1, 2), streams, strict=True):
        with stream.open("ab") as file:
            os.dup2(file.fileno(), descriptor)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - until the end of the process
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    paths = [str(folder), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]
    code = _run(words)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def _run(words: list[str]) -> int:
    """Run a module or code as `__main__`; returns the exit code of the interpreter."""
    option, what, *more = words
    sys.argv = [option, *more]
    try:
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), main.__dict__)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
