"""Packages of npm, run by a process of node: `javascript.mjs` answers one request for each model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run
from conformance.tensors import from_json, to_json

SCRIPT = Path(__file__).with_name("javascript.mjs")


def open_node(package: str) -> Run:
    """Start node with a package of npm in this environment, and return the function that runs models on it.

    If node ends, the function ends this process, too.
    """
    modules = Path(sys.prefix) / "node_modules" / package
    command = ["node", str(SCRIPT), str(modules), package]
    node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert node.stdin is not None
    assert node.stdout is not None
    stdin, stdout = node.stdin, node.stdout

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        with suppress(BrokenPipeError):  # node has ended, and its output ends, too
            stdin.write(json.dumps({"model": str(model), "inputs": {n: to_json(a) for n, a in inputs.items()}}) + "\n")
            stdin.flush()
        for line in stdout:
            if line.startswith("{"):  # the package may print other lines
                answer = json.loads(line)
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return [from_json(output) for output in answer["outputs"]]
        os._exit(1)  # an exception would count as a refusal of the model

    return run
