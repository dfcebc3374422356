"""Models from files and into files."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from xml.parsers import expat

import openvino as ov

from ov_ext.error_text import last_sentence
from ov_ext.frontend import strided_slice_extension
from ov_ext.openvino_lock import with_openvino_lock
from ov_ext.operators import operator_extensions
from ov_ext.passes import inputs_of, note_operators
from ov_ext.read import bind_shapes, slicing_nodes
from ov_ext.static_values import list_bounds
from sliceport import guarded
from sliceport.arguments import check_path, read_input_shapes
from sliceport.atomic_write import write_files
from sliceport.errors import ModelError, SliceportError, UsageError

SECONDS, SECONDS_FOR_EACH_MIB = 3.0, 0.1
"""Processor time that OpenVINO may take to read a model, by the size of its files; in docs/cli.md, too."""
_WAIT_SECONDS = 60.0
"""How much longer it may take on a loaded machine."""
_MEMORY, _MEMORY_FOR_EACH_BYTE = 600 * 2**20, 8
_MAX_DEPTH, _MAX_DEPTHS = 200, 50_000_000
"""Of elements of XML in one another, and the sum of all: OpenVINO reads by recursion, and indents what it writes."""

logger = logging.getLogger(__name__)


@with_openvino_lock
def read_model(path: str | os.PathLike[str]) -> ov.Model:
    """Read an IR file, or another that OpenVINO reads; our operators stay, and other slicing is built-in operators.

    Args:
        path: The file.

    Raises:
        UsageError: It is no path.
        ModelError: There is no such file, OpenVINO does not read it, or takes too much time or memory for it.
    """
    return _read_after_try(path, None)


@with_openvino_lock
def read_with_shapes(path: str | os.PathLike[str], shapes: Mapping[str, Sequence[int]]) -> ov.Model:
    """Read a model whose slicing nodes are to be looked at, and give its inputs their shapes.

    Args:
        path: The file.
        shapes: See `bind_shapes`.

    Raises:
        UsageError: See `bind_shapes`.
        ModelError: See `read_model`; what OpenVINO computes for the slicing nodes counts, too.
    """
    read = read_input_shapes(shapes)
    model = _read_after_try(path, read)
    bind_shapes(model, read)
    return model


def _read_after_try(path: str | os.PathLike[str], shapes: Mapping[str, Sequence[int]] | None) -> ov.Model:
    """Read a model, first in a worker process: OpenVINO computes what slicing nodes read, however long and large."""
    check_path(path, "model")
    name = os.fspath(path)
    weights = f"{os.path.splitext(name)[0]}.bin"
    for file in (name, weights):
        if os.path.exists(file) and not os.path.isfile(file):
            raise ModelError(f"'{file}' is no file.")
    if not os.path.isfile(name):
        raise ModelError(f"model '{name}' is no file.")
    size = sum(os.path.getsize(file) for file in (name, weights) if os.path.isfile(file))
    seconds = round(SECONDS + SECONDS_FOR_EACH_MIB * size / 2**20, 1)
    most = seconds + _WAIT_SECONDS
    memory = _MEMORY + _MEMORY_FOR_EACH_BYTE * size
    try:
        guarded.call(try_to_read, os.path.abspath(path), name, seconds, shapes, timeout=most, memory=memory)
    except guarded.WorkerNotStarted as error:
        logger.debug("the model is read without a worker: it %s", error)
    except guarded.WorkerUsedTime:
        raise _refusal(name, f"{seconds:g} s of processor time") from None
    except guarded.WorkerTimedOut:
        raise _refusal(name, f"{most:g} s") from None
    except MemoryError:
        raise _refusal(name, f"{memory / 2**20:.0f} MiB") from None
    except guarded.WorkerDied as error:
        raise ModelError(f"model '{name}' cannot be read by OpenVINO: its process {error}.") from None
    return _read(name)


def _refusal(name: str, limit: str) -> ModelError:
    return ModelError(
        f"model '{name}' cannot be read by OpenVINO, which takes more than {limit} for it, as for a Loop of constants."
    )


def try_to_read(path: str, name: str, seconds: float, shapes: Mapping[str, Sequence[int]] | None) -> None:
    """Do with a model what takes OpenVINO long, and forget it: in a worker process, in so much processor time.

    Raises:
        ModelError: OpenVINO does not read it.
        MemoryError: It has not the memory for it.
    """
    with guarded.processor_time(seconds):
        if path.endswith(".xml"):
            _check_depth(path, name)
        model = _read(path, name)
        if shapes is None:
            return
        with suppress(SliceportError):  # whoever gives the shapes hears of it
            bind_shapes(model, shapes)
        for node in slicing_nodes(model):
            for source in inputs_of(node)[1:]:
                try:
                    list_bounds(source)
                except RuntimeError as error:
                    if "bad_alloc" in str(error):
                        raise MemoryError from None


def _check_depth(path: str, name: str) -> None:
    """Check how deep elements of XML are in one another, and how much their indentation would be in all.

    Raises:
        ModelError: It is too deep or too much.
    """
    depth = depths = 0

    def enter(_: str, __: object) -> None:
        nonlocal depth, depths
        depth += 1
        depths += depth
        if depth > _MAX_DEPTH or depths > _MAX_DEPTHS:
            raise ModelError(f"model '{name}' has elements of XML more than {_MAX_DEPTH} deep, or too many deep ones.")

    def leave(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = enter, leave
    try:
        with open(path, "rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise ModelError(f"model '{name}' cannot be read by OpenVINO: it is no well-formed XML ({error}).") from None


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
        raise ModelError(f"model '{name or path}' cannot be read by OpenVINO: {last_sentence(error)}") from None


@with_openvino_lock
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
            raise UsageError(f"output '{target}' cannot be written: {last_sentence(error)}") from None

    note_operators(model)
    write_files([target.with_suffix(".bin"), target], save, overwrite=overwrite)
