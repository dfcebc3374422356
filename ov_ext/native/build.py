"""The build of the operators in C++ by CMake, against the headers of an openvino that pip installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from ov_ext.native import LIBRARY, RECORD, SOURCE, cached_folder, find_library, hash_file, make_record
from sliceport.errors import SliceportError, UsageError
from sliceport.sandbox.lock import locked
from sliceport.sandbox.place import fill_folder, write_json

_MAX_REASON = 300


class BuildError(SliceportError):
    """The operators in C++ cannot be built."""


def build(say: Callable[[str], None]) -> Path:
    """Return the path of the library for the installed openvino. If there is no library, build it in the user's cache.

    If several processes build at once, one builds and the others wait. `say` gets a sentence before the build.

    Raises:
        BuildError: openvino or a tool is missing on this machine, or a step failed.
    """
    folder, version = find_openvino()
    library = find_library(version)
    if library.path is not None:  # before the lock, which cannot be made in a read-only cache
        return library.path
    target = cached_folder(version)
    lock = target.with_name(f"{target.name}.lock")
    with ExitStack() as stack:  # so that only an OSError of the lock becomes a BuildError
        try:
            stack.enter_context(locked(lock))
        except OSError as error:
            raise BuildError(f"'{lock}' cannot be made ({error.strerror}).") from None
        library = find_library(version)
        if library.path is None:
            say(f"building the operators in C++ for openvino {version}")
            _remove_if_no_record(target)
            fill = partial(build_into, openvino=folder, version=version)
            try:
                fill_folder(target, fill, mark=RECORD, others=(LIBRARY,), overwrite=True)
            except UsageError as error:
                advice = f" Remove '{target}', and build again." if os.path.lexists(target) else ""
                raise BuildError(f"{error}{advice}") from None
            library = find_library(version)
    assert library.path is not None, library.reason
    return library.path


def _remove_if_no_record(target: Path) -> None:
    """Remove a folder that is empty or holds only a library. `fill_folder` replaces only folders with a record."""
    with suppress(OSError):
        if not target.is_symlink() and set(os.listdir(target)) <= {LIBRARY}:
            shutil.rmtree(target)


def find_openvino() -> tuple[Path, str]:
    """Return the folder of the installed openvino and its version.

    Raises:
        BuildError: openvino cannot be imported, or lacks its CMake files, which pip installs with the headers.
    """
    try:
        import openvino
    except ImportError as error:
        raise BuildError(f'openvino cannot be imported ({error}); run: pip install "sliceport[openvino]"') from None
    folder = Path(str(openvino.__file__)).parent
    if not (folder / "cmake" / "OpenVINOConfig.cmake").is_file():
        raise BuildError(f"the openvino in {folder} has no headers and CMake files; install openvino with pip.")
    return folder, str(openvino.__version__)


def missing_tools() -> str | None:
    """Return which tool the build lacks and how to get it, as part of a sentence. Return None if no tool is missing."""
    if find_cmake() is None:
        return "there is no cmake; run: pip install cmake"
    if not has_compiler():
        return "there is no C++ compiler; install g++, clang++ or Visual Studio's Build Tools"
    if find_generator() is None:
        return "there is neither make nor ninja; run: pip install ninja"
    return None


def find_cmake() -> str | None:
    """Return the path of `cmake`, or None if it is not installed."""
    return _find_program("cmake")


def find_generator() -> str | None:
    """Return a CMake generator, or "" for CMake's default. Return None if neither ninja nor make is installed.

    The environment variable CMAKE_GENERATOR, which CMake reads too, takes precedence.
    """
    if "CMAKE_GENERATOR" in os.environ:
        return os.environ["CMAKE_GENERATOR"]
    if sys.platform == "win32":
        return ""
    if _find_program("ninja") is not None:
        return "Ninja"
    return "Unix Makefiles" if _find_program("make", "gmake") is not None else None


def has_compiler() -> bool:
    """Return whether there seems to be a C++ compiler. On Windows, CMake finds Visual Studio by `vswhere`."""
    if os.environ.get("CXX"):
        return True
    if sys.platform == "win32":
        programs = os.environ.get("PROGRAMFILES(X86)", r"C:\Program Files (x86)")
        has_installer = Path(programs, "Microsoft Visual Studio", "Installer", "vswhere.exe").is_file()
        # The default generator needs Visual Studio. Another generator may use a compiler that is on the path.
        if has_installer or "CMAKE_GENERATOR" not in os.environ:
            return has_installer
    return _find_program("c++", "g++", "clang++") is not None


def build_into(folder: Path, openvino: Path, version: str) -> None:
    """Build the library and its `RECORD` into `folder`. `openvino` is the package's folder, `version` its release.

    Raises:
        BuildError: A tool is missing on this machine, or a step failed.
    """
    obstacle = missing_tools()
    if obstacle is not None:
        raise BuildError(f"the operators in C++ cannot be built here: {obstacle}.")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:  # If CMake is killed, its files remain only here.
        work = Path(scratch)
        # No path of this machine goes into the library: CMAKE_SKIP_RPATH leaves out the folder of openvino.
        options = [f"-DOpenVINO_DIR={openvino / 'cmake'}", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_SKIP_RPATH=ON"]
        generator = find_generator()
        options += ["-G", generator] if generator else []
        _run_cmake(["-S", str(SOURCE), "-B", str(work), *options])
        _run_cmake(["--build", str(work), "--config", "Release", "--parallel", str(os.cpu_count() or 1)])
        built = next((path for path in sorted(work.rglob(LIBRARY)) if path.is_file()), None)
        if built is None:
            raise BuildError(f"CMake built no {LIBRARY}.")
        shutil.copyfile(built, folder / LIBRARY)
    write_json(folder / RECORD, {**make_record(version), "library": hash_file(folder / LIBRARY)})


def _run_cmake(arguments: Sequence[str]) -> None:
    """Run CMake. Raise BuildError if it cannot be started or fails."""
    try:
        process = subprocess.run(  # noqa: S603 - a fixed program, no shell
            [find_cmake() or "cmake", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "PATH": _search_path()},
            check=False,
        )
    except OSError as error:
        raise BuildError(f"cmake cannot be started ({error.strerror}).") from None
    if process.returncode:
        reason = _find_reason(process.stdout, process.stderr)
        raise BuildError(f"cmake failed with exit code {process.returncode} ({reason}).")


def _find_reason(stdout: str, stderr: str) -> str:
    """Return a failed run's output as one short line: the lines from the first "error" on, or else the last three."""
    # CMake's own errors are on stderr. Ninja prints the errors of the compiler on stdout.
    lines = [line.strip() for line in (*stderr.splitlines(), *stdout.splitlines())]
    # CMake begins lines about its progress by "-- ", and those that name its log files by "See also".
    lines = [line for line in lines if line and not line.startswith(("-- ", "See also"))]
    first = next((i for i, line in enumerate(lines) if "error" in line.lower()), max(len(lines) - 3, 0))
    return " ".join(lines[first:])[:_MAX_REASON].rstrip(". ")


def _find_program(*names: str) -> str | None:
    """Return the path of the first of these programs that exists, or None."""
    return next((path for path in (shutil.which(name, path=_search_path()) for name in names) if path), None)


def _search_path() -> str:
    """Return PATH and the folder of the interpreter, where pip installs programs."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
