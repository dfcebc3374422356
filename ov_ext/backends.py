"""Which operators are used: those in C++ where there is a library for the openvino that is loaded, else Python's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import openvino as ov
from openvino.utils.node_factory import NodeFactory

from ov_ext.messages import last_words
from ov_ext.native import BUILD_COMMAND, find_library
from ov_ext.native.build import missing_tools
from sliceport.diagnosis import Diagnosis
from sliceport.errors import UsageError

VARIABLE = "SLICEPORT_BACKEND"
_ANY = ("", "python", "native")


@dataclass(frozen=True)
class Backend:
    """The operators that are used.

    Attributes:
        name: `native` for those in C++, `python` for those in Python.
        reason: Why, and how to get the native ones where they are not there.
        path: The library of the native ones, for `Core.add_extension` and `benchmark_app -extensions`; None in Python.
    """

    name: Literal["native", "python"]
    reason: str
    path: Path | None = None


def backend() -> Backend:
    """Which operators `register`, `onnx_extensions`, `Slice` and `StridedSlice` use from now on, and why.

    The environment variable SLICEPORT_BACKEND forces one: `python` or `native`.

    Raises:
        UsageError: The variable asks for native operators and there are none, or for something else.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked not in _ANY:
        raise UsageError(f"{VARIABLE} must be python or native, got {asked!r}.")
    if asked == "python":
        return Backend("python", f"{VARIABLE}=python asks for it")
    found = _find_native()
    if asked == "native" and found.name != "native":
        raise UsageError(f"{VARIABLE}=native asks for operators in C++, but {found.reason}.")
    return found


def diagnose_native() -> Diagnosis:
    """Whether the operators in C++ are used, for `sliceport doctor`."""
    name = "operators in C++"
    try:
        found = backend()
    except UsageError as error:
        return Diagnosis(name, "broken", str(error), f"run: {BUILD_COMMAND}")
    if found.path is not None:
        return Diagnosis(name, "ok", f"used, as {found.reason}")
    detail = f"those in Python are used, as {found.reason.partition('; ')[0]}"
    if os.environ.get(VARIABLE):
        return Diagnosis(name, "ok", detail)
    lacking = missing_tools()
    advice = f"run: {BUILD_COMMAND}" if lacking is None else f"{lacking}, then run: {BUILD_COMMAND}"
    return Diagnosis(name, "broken" if find_library(ov.__version__).path else "missing", detail, advice)


@cache
def _find_native() -> Backend:
    found = find_library(ov.__version__)
    if found.path is None:
        return Backend("python", f"{found.reason}; run: {BUILD_COMMAND}")
    try:
        load_factory(found.path)
    except RuntimeError as error:
        said = last_words(error).rstrip(".")
        return Backend("python", f"'{found.path}' cannot be loaded ({said}); remove it and run: {BUILD_COMMAND}")
    return Backend("native", found.reason, found.path)


@cache
def load_factory(path: Path) -> Any:
    """What makes the nodes of a library; it keeps the library loaded.

    Raises:
        RuntimeError: OpenVINO cannot load it.
    """
    factory = NodeFactory()
    factory.add_extension(str(path))
    return factory
