"""The child process that runs cases on one engine, in the environment of that engine.

    python -m conformance.worker ENGINE [SECONDS] < cases

With SECONDS, each case runs in a fork of this process, if the system has forks. The fork may take that many seconds.
Each line of stdin has the path of a model, a tab, and the folder of its data. The worker prints a line of JSON when it
is ready, when it begins a case, and when the engine has answered.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from conformance.engines import Run
from conformance.tensors import read_tensors, to_json


def main() -> None:
    """Run the cases that stdin names, and end the process."""
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")

    def answer(values: dict[str, Any]) -> None:
        answers.write(json.dumps(values) + "\n")

    os.dup2(2, 1)  # engines print to stdout, which is for the answers
    engine = importlib.import_module(f"conformance.engines.{sys.argv[1]}")
    forks = bool(sys.argv[2:]) and hasattr(os, "fork")
    for module in getattr(engine, "PRELOAD", ()) if forks else ():
        importlib.import_module(module)
    run = None if forks else engine.open_engine()
    answer({"is_loaded": True})
    for line in sys.stdin:
        model, folder = map(Path, line.rstrip("\n").split("\t"))
        answer({"begins": str(folder)})
        if run is not None:
            answer(run_case(run, model, folder))
        elif (child := os.fork()) == 0:
            signal.alarm(int(sys.argv[2]))
            answer(run_case(engine.open_engine(), model, folder))
            os._exit(0)
        else:
            status = os.waitpid(child, 0)[1]
            if os.WIFSIGNALED(status):
                is_late = os.WTERMSIG(status) == signal.SIGALRM
                end = f"takes longer than {sys.argv[2]} seconds" if is_late else f"signal {os.WTERMSIG(status)}"
                answer({"died": end})
            elif status:
                answer({"died": f"exit status {os.WEXITSTATUS(status)}"})
    os._exit(0)  # at once, because some engines crash while they are unloaded


def run_case(run: Run, model: Path, folder: Path) -> dict[str, Any]:
    """Return the outputs of a model, or the error of the engine, as JSON values."""
    data = folder / "test_data_set_0"
    names = list(read_tensors(data, "output")) or ["y"]  # a case with a forbidden model has no files of outputs
    try:
        outputs = run(model, read_tensors(data, "input"), names)
        return {"outputs": [to_json(output) for output in outputs]}
    except BaseException as error:  # a panic of Rust is not an Exception
        reason = error.__cause__ or error  # An error with a cause may only name the step that failed.
        return {"error": f"{type(reason).__name__}: {reason}"[:500]}


if __name__ == "__main__":
    main()
