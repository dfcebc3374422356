"""How many results of each executor the tests looked at: counted where they come out, printed at the end of a run."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import pytest

EXECUTORS = {
    "onnxruntime-cpu": (("onnxruntime", "InferenceSession", ("run", "run_with_ort_values")),),
    "dml-emulator": (("sliceport.directml.emulator", "", ("run",)),),
    "directml": (("sliceport.directml.device.client", "Device", ("run", "run_calls", "create_operator")),),
    "onnxruntime-dml": (("sliceport.directml.device.client", "Device", ("_run_onnx",)),),
}
"""Module, class and functions of each: it must be counted before anything imports the function itself."""

_counts: Counter[str] = Counter()


def count_results() -> None:
    """Count from now on."""
    for executor, places in EXECUTORS.items():
        for module, owner, names in places:
            there: Any = __import__(module, fromlist=[""])
            there = getattr(there, owner) if owner else there
            for name in names:
                setattr(there, name, _counted(getattr(there, name), executor))


def _counted(function: Any, executor: str) -> Any:
    @functools.wraps(function)
    def counted(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        _counts[executor] += 1
        return result

    return counted


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts of a worker to the process that prints them."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["executors"] = dict(_counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a worker counted."""
    _counts.update(getattr(node, "workeroutput", {}).get("executors", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the counts, those of executors that did not run included."""
    listed = ", ".join(f"{_counts[name]} {name}" for name in EXECUTORS)
    terminalreporter.write_line(f"results compared by executor: {listed}")
