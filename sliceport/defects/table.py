"""The table: every entry of the files of this package, in their order."""

from __future__ import annotations

from types import ModuleType

from sliceport.defects import directml, onnxruntime, openvino
from sliceport.defects.defect import Defect
from sliceport.defects.engines import TITLES
from sliceport.errors import unknown_name


def entries_of(module: ModuleType) -> tuple[Defect, ...]:
    """Return the entries that a module defines."""
    return tuple(value for value in vars(module).values() if isinstance(value, Defect))


MODULES = (onnxruntime, openvino, directml)
DEFECTS = tuple(defect for module in MODULES for defect in entries_of(module))


def defects_of(engine: str) -> tuple[Defect, ...]:
    """Return the defects of an engine.

    Args:
        engine: A name of `TITLES`.

    Raises:
        UsageError: The table does not have this engine.
    """
    if engine not in TITLES:
        raise unknown_name("engine", engine, list(TITLES))
    return tuple(defect for defect in DEFECTS if engine in defect.engines)
