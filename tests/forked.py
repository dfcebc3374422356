"""Python in a process of its own, forked from a server that has imported what takes long and is not ours.

What runs there imports our packages anew, as `python -m` and `python -c` do in a folder. Not for tests of how an
interpreter starts: its streams, its environment, what it loads.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

POISON = {"MALLOC_PERTURB_": "165"}  # glibc then fills what it hands out, so that no unwritten memory is 0
OURS = ("sliceport", "onnx_ops", "ov_ext")
if sys.platform == "win32":
    CONTEXT = multiprocessing.get_context("spawn")
else:
    CONTEXT = multiprocessing.get_context("forkserver")
    CONTEXT.set_forkserver_preload(
        ["numpy", "onnx", "onnx_ir", "onnxruntime", "openvino_forms_child", "openvino_child"]
    )


@contextmanager
def server_environment() -> Iterator[None]:
    """That of a server that is started, and so of the processes that it forks, which import what is imported here."""
    before = dict(os.environ)
    os.environ.update(POISON, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    try:
        yield
    finally:
        for name in (*POISON, "PYTHONPATH"):
            del os.environ[name]
        os.environ.update(before)


def run(words: Sequence[str], folder: Path | None = None, *, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` gives for Python with `-m MODULE` or `-c CODE` and further words, in a folder.

    Raises:
        subprocess.TimeoutExpired: It took longer.
    """
    command = [sys.executable, *words]
    if sys.platform == "win32":
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False, timeout=timeout
        )
    with tempfile.TemporaryDirectory() as aside:
        streams = [Path(aside) / name for name in ("stdout", "stderr")]
        given = (list(words), Path(folder or Path.cwd()), dict(os.environ), streams)
        process = CONTEXT.Process(target=_interpret, args=given, daemon=True)
        with server_environment():
            process.start()
        process.join(timeout)
        code = process.exitcode
        if code is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, timeout)
        process.close()
        stdout, stderr = (stream.read_text(encoding="utf-8") if stream.exists() else "" for stream in streams)
        return subprocess.CompletedProcess(command, code, stdout, stderr)


def _interpret(words: list[str], folder: Path, environment: Mapping[str, str], streams: list[Path]) -> None:
    for descriptor, stream in zip((1, 2), streams, strict=True):
        with stream.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - until the end of the process
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    code = _run(words)
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
