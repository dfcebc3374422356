"""Asking OpenVINO in other processes: some of its answers come with the end of the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("openvino_child.py")
POISON = {"MALLOC_PERTURB_": "165"}  # glibc then fills what it hands out, so that no unwritten memory is 0


def answers(cases: Iterable[dict[str, Any]], timeout: float = 300) -> Iterator[dict[str, Any]]:
    """What `openvino_child.py` answers to each case; `{"exit": code}` where the process ended."""
    left = list(cases)
    while left:
        given = "".join(json.dumps(case) + "\n" for case in left)
        child = subprocess.run(
            [sys.executable, str(CHILD)],
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=os.environ | POISON,
        )
        lines = child.stdout.splitlines()
        yield from map(json.loads, lines)
        left = left[len(lines) :]
        if child.returncode == 0:
            assert not left
        elif left:
            yield {"exit": child.returncode, "said": child.stderr[-2000:]}
            left = left[1:]


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """What a process of its own answers to one case."""
    return next(answers([case]))
