"""Tolerances for values that arithmetic has computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_ops.runtime.session import Captured

TOLERANCES = {"FLOAT16": 1e-2, "BFLOAT16": 1e-1}
"""Largest differences of computed floats, relative to the largest absolute value or 1."""
TOLERANCE = 1e-4
"""The same for all other floats; everything else must be equal bit for bit."""


def tolerance_of(dtype: ir.DataType) -> float:
    """Return the largest difference of computed outputs of this type."""
    return TOLERANCES.get(dtype.name, TOLERANCE) if dtype.is_floating_point() else 0.0


def relative_error(got: npt.NDArray[Any], expected: Captured) -> float:
    """Return the largest difference over the largest expected absolute value or 1; 0 only if all bytes are equal."""
    dtype = ir.DataType.from_numpy(got.dtype)
    if got.shape != expected.shape or dtype.value != expected.element:
        return float("inf")
    flat = np.ascontiguousarray(got).reshape(-1)
    if Captured.of(flat).data.tobytes() == expected.data.tobytes():
        return 0.0
    if not dtype.is_floating_point() and got.dtype.kind != "c":
        return float("inf")
    want = expected.array().reshape(-1)
    a, b = flat.astype(np.complex128), want.astype(np.complex128)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(b)
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.where(finite & np.isfinite(a), np.abs(a - b), np.inf)).max()
    scale = max(1.0, float(np.abs(b[finite]).max(initial=0.0)))
    return max(float(difference) / scale, np.finfo(np.float64).tiny)
