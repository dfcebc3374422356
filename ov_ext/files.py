"""Models from files and into files."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from xml.parsers import expat

import openvino as ov

from ov_ext.frontend import strided_slice_extension
from ov_ext.messages import last_words
from ov_ext.one_thread import one_thread
from ov_ext.operators import operator_extensions
from ov_ext.passes import note_operators
from sliceport import guarded
from sliceport.arguments import read_path
from sliceport.atomic_write import write_files
from sliceport.errors import ModelError, UsageError

SECONDS, SECONDS_FOR_EACH_MIB = 3.0, 0.1
"""Processor time that OpenVINO may take to read a model, by the size of its files; in docs/cli.md, too."""
_WAIT_SECONDS = 60.0
"""How much longer it may take on a loaded machine."""
_MEMORY, _MEMORY_FOR_EACH_BYTE = 600 * 2**20, 8
_MAX_DEPTH = 200
"""Of elements of XML in one another. OpenVINO reads them by recursion, and indents what it writes."""


@one_thread
def read_model(path: str | os.PathLike[str]) -> ov.Model:
    """Read an IR file, or another that OpenVINO reads; our operators stay, and other slicing is built-in operators.

    Args:
        path: The file.

    Raises:
        UsageError: It is no path.
        ModelError: There is no such file, OpenVINO does not read it, or takes too much time or memory for its loops.
    """
    read_path(path, "model")
    name = os.fspath(path)
    for file in (Path(path), Path(path).with_suffix(".bin")):
        if file.exists() and not file.is_file():
            raise ModelError(f"'{file}' is no file.")
    if not Path(path).is_file():
        raise ModelError(f"model '{name}' is no file.")
    _try_to_read(os.path.abspath(path), name)
    return _read(name)


def _try_to_read(path: str, name: str) -> None:
    """Read a model in a worker process: what a slicing node reads OpenVINO computes, however long and large it is.

    Raises:
        ModelError: It does not read it, or takes too much time or memory.
    """
    size = sum(file.stat().st_size for file in (Path(path), Path(path).with_suffix(".bin")) if file.is_file())
    seconds = float(int(SECONDS + SECONDS_FOR_EACH_MIB * size / 2**20))
    most = seconds + _WAIT_SECONDS
    memory = _MEMORY + _MEMORY_FOR_EACH_BYTE * size
    try:
        guarded.call(check_readable, path, name, seconds, timeout=most, memory=memory)
    except guarded.WorkerUsedTime:
        reason = f"takes more than {seconds:g} s of processor time"
    except guarded.WorkerTimedOut:
        reason = f"takes more than {most:g} s"
    except MemoryError:
        reason = f"takes more than {memory / 2**20:.0f} MiB"
    except guarded.WorkerDied as error:
        raise ModelError(f"model '{name}' cannot be read by OpenVINO: its process {error}.") from None
    else:
        return
    raise ModelError(f"model '{name}' cannot be read by OpenVINO, which {reason} for it, as for a Loop of constants.")


def check_readable(path: str, name: str, seconds: float) -> None:
    """Read a model and forget it: what a worker process does, in so much processor time.

    Raises:
        ModelError: OpenVINO does not read it.
    """
    with guarded.processor_time(seconds):
        if path.endswith(".xml"):
            _check_depth(path, name)
        _read(path, name)


def _check_depth(path: str, name: str) -> None:
    """Raises ModelError where elements are nested too deep; what is no XML OpenVINO says."""
    depth = 0

    def enter(_: str, __: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise ModelError(f"model '{name}' has elements of XML more than {_MAX_DEPTH} deep in one another.")

    def leave(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = enter, leave
    with suppress(expat.ExpatError), open(path, "rb") as file:
        parser.ParseFile(file)


def _read(path: str, name: str = "") -> ov.Model:
    core = ov.Core()
    if sys.platform == "win32":  # where nobody can replace weights that are mapped, and so no model in its place
        core.set_property({"ENABLE_MMAP": False})
    for extension in (*operator_extensions(), strided_slice_extension()):
        core.add_extension(extension)
    try:
        return core.read_model(path)
    except Exception as error:  # OpenVINO raises what its front ends happen to raise
        if "bad_alloc" in str(error):
            raise MemoryError from None
        raise ModelError(f"model '{name or path}' cannot be read by OpenVINO: {last_words(error)}") from None


@one_thread
def write_model(model: ov.Model, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write an IR file, `.xml` with its `.bin`: both or neither. Weights keep their types.

    Args:
        model: The model.
        path: The `.xml` file.
        overwrite: Whether to replace existing files.

    With our operators in it, the model's `rt_info`, and so the file, says where they come from.

    Raises:
        UsageError: The name does not end in .xml, the file exists and is to be kept, or it cannot be written.
    """
    target = Path(path)
    if target.suffix != ".xml":
        raise UsageError(f"output '{target}' must end in .xml: OpenVINO's own format is what is written.")

    def save(folder: Path) -> None:
        try:
            ov.save_model(model, str(folder / target.name), compress_to_fp16=False)
        except RuntimeError as error:
            raise UsageError(f"output '{target}' cannot be written: {last_words(error)}") from None

    note_operators(model)
    write_files([target.with_suffix(".bin"), target], save, overwrite=overwrite)
