"""The verdict on the answer of an engine to a case.

equal    every output has the right type, shape and bytes, or the engine refuses a forbidden model
other    the outputs are those of the other reading of a disputed rule
wrong    an output is not right, or the engine computes a forbidden model
refused  the engine raises an error, though the model is not forbidden
dies     the process ends, or takes too long
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.cases import Case
from conformance.tensors import Array, from_json

VERDICTS = ("equal", "other", "wrong", "refused", "dies")


def judge(case: Case, answer: dict[str, Any], *, is_loose: bool) -> dict[str, str]:
    """Return the `verdict` on an answer of the worker, with a `detail` on one line, which is empty for `equal`."""
    if "died" in answer:
        return {"verdict": "dies", "detail": answer["died"]}
    if "error" in answer:
        verdict = "equal" if case.is_refused else "refused"
        return {"verdict": verdict, "detail": "" if case.is_refused else _one_line(answer["error"])}
    if case.is_refused:
        return {"verdict": "wrong", "detail": "computes a model that its standard forbids"}
    results, expected = [from_json(output) for output in answer["outputs"]], case.outputs
    if are_equal(results, expected, is_loose=is_loose, tolerance=case.tolerance):
        return {"verdict": "equal", "detail": ""}
    is_other = case.is_disputed and are_equal(results, case.other_outputs, is_loose=is_loose)
    detail = f"gives {describe(results)} instead of {describe(expected)}"
    return {"verdict": "other" if is_other else "wrong", "detail": detail}


def are_equal(results: list[Array], expected: list[Array], *, is_loose: bool, tolerance: float = 0) -> bool:
    """Return whether outputs are the same: bit for bit, floats within a tolerance, or with `is_loose` as numbers."""
    if len(results) != len(expected):
        return False
    for result, right in zip(results, expected, strict=True):
        if result.shape != right.shape or not (is_loose or result.dtype == right.dtype):
            return False
        # complex128 holds the numbers of all types, but integers above 2**53 only roughly.
        if is_loose and not np.array_equal(result.astype(np.complex128), right.astype(np.complex128)):
            return False
        if tolerance and np.allclose(result.astype(float), right.astype(float), 1e-4, tolerance):
            continue
        if not is_loose and result.tobytes() != right.tobytes():
            return False
    return True


def describe(outputs: list[Array]) -> str:
    """Return the types, shapes and first elements of outputs on one line."""
    parts = []
    for output in outputs:
        elements = [str(element) for element in output.ravel()[:8].tolist()]
        more = ", …" if output.size > 8 else ""
        parts.append(f"{output.dtype}{list(output.shape)} {', '.join(elements)}{more}".rstrip())
    return "; ".join(parts) or "no outputs"


def _one_line(text: str) -> str:
    """Return up to 300 characters of an error on one line, without lines that name places in OpenVINO's source."""
    return " ".join(" ".join(line for line in text.splitlines() if "Exception from " not in line).split())[:300]
