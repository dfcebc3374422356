"""Asking `openvino_forms_child.py`, and going on after the end of its process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("openvino_forms_child.py")
Runs = dict[str, dict[str, Any]]


def runs(cases: Sequence[dict[str, Any]], timeout: float = 1800) -> Iterator[Runs]:
    """What came out of each run of each case; `{"exit": code}` where a run ended the process."""
    found: list[Runs] = [{} for _ in cases]
    at = 0
    while at < len(cases):
        given = [{**cases[at], "done": sorted(found[at])}, *cases[at + 1 :]]
        at, code = _go_on(given, found, at, timeout)
        if at < len(cases) and code == 0:
            raise AssertionError("the child ended before its cases did")
    yield from found


def _go_on(given: Sequence[dict[str, Any]], found: list[Runs], at: int, timeout: float) -> tuple[int, int | str]:
    """Run cases until the end of the process; returns the first case that is not done, and the process's code."""
    code: int | str
    try:
        child = subprocess.run(
            [sys.executable, str(CHILD)],
            input="".join(json.dumps(case) + "\n" for case in given),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        lines, code, said = child.stdout, child.returncode, child.stderr[-1000:]
    except subprocess.TimeoutExpired as error:
        lines, code, said = (error.stdout or b"").decode(), "hang", ""
    begun: str | None = None
    for line in map(json.loads, lines[: lines.rfind("\n") + 1].splitlines()):
        if "begin" in line:
            begun = line["begin"]
        elif "end" in line:
            at += 1
        else:
            assert begun is not None
            found[at][begun], begun = line, None
    if begun is not None:
        found[at][begun] = {"exit": code, "said": said}
    elif at < len(found) and code:  # between two runs: what an earlier one left behind
        found[at]["between runs"] = {"exit": code, "said": said}
    return at, code
