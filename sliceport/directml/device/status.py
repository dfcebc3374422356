"""The state of the real DirectML on this machine, with a self-test."""

from __future__ import annotations

from typing import Any

import numpy as np

from sliceport.directml import device
from sliceport.directml.device import install
from sliceport.directml.device.libraries import read_package_spec
from sliceport.directml.operators import Slice1
from sliceport.directml.tensor import BufferTensor, DataType


def status(*, full: bool = False) -> dict[str, Any]:
    """Describe the installation, and run example 2 of DML_SLICE1's page on it.

    Args:
        full: Whether to describe the installation with every operator.
    """
    backend = install.backend(full=full)
    report: dict[str, Any] = {
        "schema_version": 1,
        "installed": backend.is_installed(),
        "missing": install.missing(full=full),
        "full": full,
        "folder": str(backend.folder),
        "backend": backend.text,
        "packages": read_package_spec(backend.home),
        "self_test": "not run",
    }
    if not report["installed"]:
        return report
    try:
        with device.open(full=full) as opened:
            report |= opened.facts()
            report["self_test"] = "passed" if _self_test(opened) else "failed: wrong values"
    except device.DeviceError as error:
        report["self_test"] = f"failed: {error}"
    return report


def status_text(report: dict[str, Any]) -> str:
    """Format the status with one fact per line."""
    if not report["installed"]:
        missing = report["missing"]
        option = " --full" if report["full"] else ""
        hint = f"run: sliceport directml install{option}"
        if missing is not None:
            hint = f"it cannot be installed here: {missing}"
        return f"DirectML is not installed; {hint}"
    facts = {"backend": report["backend"], "folder": report["folder"], "packages": report["packages"]}
    facts |= {
        name: report[name] for name in ("adapter", "shader_model", "feature_level", "onnxruntime") if name in report
    }
    lines = [f"{name.replace('_', ' '):14} {value}" for name, value in facts.items()]
    return "\n".join([*lines, f"{'self-test':14} {report['self_test']}"])


def _self_test(opened: device.Device) -> bool:
    four, two = BufferTensor.of(DataType.FLOAT32, (1, 1, 4, 4)), BufferTensor.of(DataType.FLOAT32, (1, 1, 2, 2))
    operator = Slice1(four, two, 4, (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2))
    (result,) = opened.run(operator, np.arange(1, 17, dtype=np.float32).view(np.uint8))
    return np.array_equal(result.view(np.float32), [14, 16, 6, 8])
