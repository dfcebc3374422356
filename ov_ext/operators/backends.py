"""The choice of operators: C++ if there is a library for the openvino that is loaded, else Python."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import openvino as ov
from openvino.utils.node_factory import NodeFactory

from ov_ext.native import BUILD_COMMAND, find_library
from ov_ext.native.build import missing_tools
from ov_ext.operators.error_text import last_sentence
from sliceport.engines.diagnosis import Diagnosis
from sliceport.errors import UsageError

VARIABLE = "SLICEPORT_BACKEND"


@dataclass(frozen=True)
class Backend:
    """A kind of operators.

    Attributes:
        name: `native` for operators in C++, `python` for operators in Python.
        reason: The reason for the choice, and how to get native operators if they are missing.
        path: The library of native operators, for `Core.add_extension` and `benchmark_app -extensions`, or None.
    """

    name: Literal["native", "python"]
    reason: str
    path: Path | None = None


def backend() -> Backend:
    """Return whether `register`, `onnx_extensions`, `Slice` and `StridedSlice` use operators in C++ or Python, and why.

    The environment variable SLICEPORT_BACKEND forces a kind: `python` or `native`.

    Raises:
        UsageError: The variable has another value, or it is `native` and no native operators can be loaded.
    """
    requested = os.environ.get(VARIABLE, "")
    if requested not in ("", "python", "native"):
        raise UsageError(f"{VARIABLE} must be python or native, got {requested!r}.")
    if requested == "python":
        return Backend("python", f"{VARIABLE}=python asks for it")
    chosen = _choose_backend()
    if requested == "native" and chosen.name != "native":
        raise UsageError(f"{VARIABLE}=native asks for operators in C++, but {chosen.reason}.")
    return chosen


def diagnose_native() -> Diagnosis:
    """Return the diagnosis of `sliceport doctor` about the operators in C++: whether they are used, or why not."""
    name = "operators in C++"
    try:
        chosen = backend()
    except UsageError as error:
        advice = f"run: {BUILD_COMMAND}" if os.environ[VARIABLE] == "native" else f"unset {VARIABLE}"
        return Diagnosis(name, "broken", str(error), advice)
    if chosen.path is not None:
        return Diagnosis(name, "ok", f"used, because {chosen.reason}")
    if os.environ.get(VARIABLE):  # The user has chosen the operators in Python.
        return Diagnosis(name, "ok", f"those in Python are used, because {chosen.reason}")
    reason, _, advice = chosen.reason.rpartition("; ")  # `_choose_backend` writes the advice at the end of the reason
    detail = f"those in Python are used, because {reason}"
    obstacle = missing_tools()
    advice = advice if obstacle is None else f"{obstacle}, then {advice}"
    # A library that exists has failed to load, because it would be used otherwise. So it is broken, not missing.
    return Diagnosis(name, "broken" if find_library(ov.__version__).path else "missing", detail, advice)


@cache
def _choose_backend() -> Backend:
    """Return native operators if their library loads, or else operators in Python with the reason."""
    library = find_library(ov.__version__)
    if library.path is None:
        return Backend("python", f"{library.reason}; run: {BUILD_COMMAND}")
    try:
        load_factory(library.path)
    except RuntimeError as error:
        reason = last_sentence(error).rstrip(".")
        advice = f"remove the library and run: {BUILD_COMMAND}"
        return Backend("python", f"'{library.path}' cannot be loaded ({reason}); {advice}")
    return Backend("native", library.reason, library.path)


@cache
def load_factory(path: Path) -> Any:
    """Return a factory that builds the nodes of a library, and keeps the library loaded.

    Raises:
        RuntimeError: OpenVINO cannot load the library.
    """
    factory = NodeFactory()
    factory.add_extension(str(path))
    return factory
