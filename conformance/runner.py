"""Runs of cases on an engine in child processes. Cases that have a result already are not run again."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conformance.cases import Case
from conformance.engine import ROOT, Engine
from conformance.verdicts import judge

Answer = dict[str, Any]
LOAD_TIMEOUT = 300.0
"""Seconds that an engine has to load."""


class CannotLoad(Exception):
    """An engine that cannot be loaded in its environment."""


def run_engine(engine: Engine, cases: Sequence[Case], python: Path, results: Path, timeout: float) -> dict[str, Any]:
    """Return the verdicts on cases by name. Run the cases that have no result in the file `results` yet.

    A result counts only while the files of the case and of the engine stay the same. Each result is appended to the
    file at once, so that the next run continues an interrupted one.

    Args:
        engine: The engine.
        cases: The cases, in formats that the engine reads.
        python: The Python of its environment.
        results: The file of results, with a line of JSON for each.
        timeout: Seconds that a case may take in a fork of its own. Without forks, a case may take twice as long.

    Raises:
        CannotLoad: The engine cannot be loaded, or takes too long to load.
    """
    keys = {case.name: f"{engine.digest}-{case.digest}" for case in cases}
    verdicts = {name: one for name, one in read_results(results).items() if one["key"] == keys.get(name)}
    waiting = [case for case in cases if case.name not in verdicts]
    if waiting:
        results.parent.mkdir(parents=True, exist_ok=True)
        with results.open("a", encoding="utf-8") as file:
            if file.tell():
                file.write("\n")  # ends a line that a killed run left unfinished

            def keep(case: Case, answer: Answer) -> None:
                verdict = {"name": case.name, "key": keys[case.name]} | judge(case, answer, is_loose=engine.is_loose)
                verdicts[case.name] = verdict
                file.write(json.dumps(verdict) + "\n")
                file.flush()

            while waiting:
                # Without forks, each case of an engine that spills gets a process of its own here.
                batch = waiting[:1] if engine.spills and not hasattr(os, "fork") else waiting
                done = run_batch(engine, batch, python, timeout, keep)
                waiting = waiting[done:]
    return {case.name: verdicts[case.name] for case in cases}


def read_results(file: Path) -> dict[str, Any]:
    """Return the last result of each case in a file of results. Skip a line that a killed run left unfinished."""
    results = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            result = json.loads(line)
            results[result["name"]] = result
        except ValueError:
            continue
    return results


def run_batch(
    engine: Engine, cases: Sequence[Case], python: Path, timeout: float, keep: Callable[[Case, Answer], None]
) -> int:
    """Run cases in one child process, or in forks of it. Pass each answer to `keep`, and return the number of answers.

    If the child ends or a case takes too long, the answer to this case is `died`, and the cases after it are not run.

    Raises:
        CannotLoad: The child ends, or takes too long, before it has loaded the engine.
    """
    command = [str(python), "-m", "conformance.worker", engine.name, *([f"{timeout:.0f}"] if engine.spills else [])]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen(command, cwd=ROOT.parent, text=True, encoding="utf-8", errors="replace", **pipes)
    lines: queue.Queue[str] = queue.Queue()
    errors: list[str] = []
    tasks = (_send, _receive, _drain)
    threads = [threading.Thread(target=task, args=(child, cases, lines, errors), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()

    def next_line(seconds: float) -> Answer:
        """Return what the child prints next, or {} if it has ended. Raise queue.Empty after `seconds`."""
        line = lines.get(timeout=seconds)
        return json.loads(line) if line else {}

    done, is_loaded = 0, False
    try:
        if not next_line(LOAD_TIMEOUT):
            child.wait()
            raise CannotLoad("".join(errors).strip().rpartition("\n")[2] or f"exit status {child.returncode}")
        is_loaded = True
        for case in cases:
            # The first line says that the case begins. A fork ends itself after `timeout`.
            begins = next_line(2 * timeout)
            if done and not begins:
                break  # the child ended between two cases, so another child runs this one
            answer = begins and next_line(2 * timeout)
            done += 1
            keep(case, answer or {"died": _describe_end(child.wait())})
            if not answer:
                break
    except queue.Empty:
        if not is_loaded:
            raise CannotLoad(f"takes longer than {LOAD_TIMEOUT:g} seconds to load") from None
        keep(cases[done], {"died": f"takes longer than {2 * timeout:g} seconds"})
        done += 1
    finally:
        child.kill()
        for thread in threads:
            thread.join(timeout=1)  # a fork that still runs may hold the pipes open
        with child:
            pass  # closes the pipes
    return done


def _send(child: subprocess.Popen[str], cases: Sequence[Case], *_: object) -> None:
    assert child.stdin is not None
    try:
        child.stdin.write("".join(f"{case.model}\t{case.folder}\n" for case in cases))
        child.stdin.close()
    except OSError:
        pass  # the child has died, which `run_batch` notices


def _receive(child: subprocess.Popen[str], _: object, lines: queue.Queue[str], __: object) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        lines.put(line)
    lines.put("")


def _drain(child: subprocess.Popen[str], _: object, __: object, errors: list[str]) -> None:
    assert child.stderr is not None
    for line in child.stderr:
        errors[:] = [*errors[-50:], line]


def _describe_end(status: int) -> str:
    """Return how a process ended, as a predicate about the engine."""
    return f"ends the process by signal {-status}" if status < 0 else f"ends the process with exit status {status}"
