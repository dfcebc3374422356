"""The form of a result: what its file holds, which depends on the content of the model alone, and a row of it."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from sliceport.batch.row import VERDICTS, Row
from sliceport.batch.store import Store
from sliceport.commands.outcome import Finding
from sliceport.json_text import finite
from sliceport.shell import join

SCHEMA_VERSION = 1
MODEL = "{model}"
"""Placeholder for the model's path in a result."""


def result_name(key: str) -> str:
    """Return the file of a result. 256 folders share them, as folders of many files are slow."""
    return f"results/{key[:2]}/{key}.json"


def read_result(store: Store, key: str) -> dict[str, Any] | None:
    """Read a result. Return None if it is missing, or was cut off when a machine lost its power.

    Raises:
        UsageError: The file cannot be read.
    """
    data = store.read(result_name(key))
    if data is None:
        return None
    try:
        result = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return result if is_result(result) else None


def stderr_name(key: str) -> str:
    """Return the name of the file with the last lines of a process that died.

    The result excludes these lines: a process that dies twice rarely writes the same.
    """
    return f"results/{key[:2]}/{key}.stderr"


def read_stderr(store: Store, key: str) -> list[str]:
    """Return the last lines that the process of a model wrote before it died.

    Raises:
        UsageError: The file cannot be read.
    """
    return (store.read(stderr_name(key)) or b"").decode("utf-8", "replace").splitlines()


_FINDING_PARTS = frozenset(Finding.__annotations__)


def _is_finding(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and data.keys() == _FINDING_PARTS
        and all(isinstance(text, str) for text in data.values())
    )


def is_result(data: Any) -> TypeGuard[dict[str, Any]]:
    """Whether data have the parts of a result and their types, whatever somebody made of the file."""
    return (
        isinstance(data, dict)
        and data.get("schema_version") == SCHEMA_VERSION
        and all(isinstance(data.get(name), str) for name in ("command", "verdict", "message"))
        and data["verdict"] in VERDICTS
        and isinstance(data.get("findings"), list)
        and all(map(_is_finding, data["findings"]))
        and isinstance(data.get("result"), dict | None)
        and isinstance(data.get("output", ""), str)
        and isinstance(data.get("stderr", []), list)
        and isinstance(data.get("input_shapes", {}), dict)
        and isinstance(limits := data.get("limits", {}), dict)
        and all(name in ("timeout", "memory") for name in limits)
        and all(isinstance(limit, int | float | None) for limit in limits.values())
    )


def make_result(command: str, path: str, output: Path, made: Mapping[str, Any]) -> dict[str, Any]:
    """Build a result, the same wherever the model lies and its files are written.

    Args:
        command: The command's name.
        path: The model's path, for which `MODEL` stands in the result.
        output: The folder that the command wrote into, which messages do not name.
        made: The parts that are known, `verdict` and `message` among them.
    """
    whole = {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "verdict": "error",
        "message": "",
        "findings": [],
        "result": None,
        **made,
    }
    whole["message"] = whole["message"].removeprefix(f"'{path}': ")
    escaped, literal = _escape(path), _escape(repr(path)[1:-1])
    # Folders that differ from machine to machine, the innermost first.
    folders = [
        str(output),
        str(output.parent),
        os.path.dirname(path),
        sys.prefix,
        sys.base_prefix,
        tempfile.gettempdir(),
    ]
    prefixes = [os.path.join(folder, "") for folder in folders if len(folder) > 1]

    def hide(text: str) -> str:
        hidden = _escape(text).replace(escaped, MODEL)
        hidden = hidden if literal == escaped else hidden.replace(literal, MODEL)
        for prefix in map(_escape, prefixes):
            hidden = hidden.replace(prefix, "")
        return hidden

    hidden = {key: _map_texts(value, hide) for key, value in whole.items()}
    if isinstance(line := (whole["result"] or {}).get("command"), str):  # for a shell: a path may be quoted in it
        hidden["result"]["command"] = _escape(line).replace(_escape(join([path])), MODEL)
    return hidden


def encode_result(result: Mapping[str, Any]) -> bytes:
    """Encode a result as JSON, with null for numbers that JSON lacks.

    Raises:
        TypeError, ValueError, RecursionError: JSON cannot hold it.
    """
    try:
        text = json.dumps(result, sort_keys=True, allow_nan=False)
    except ValueError:
        text = json.dumps(finite(result), sort_keys=True, allow_nan=False)
    return text.encode("ascii") + b"\n"


def _escape(text: str) -> str:
    return text.replace(MODEL, f"{{{MODEL}}}") if MODEL in text else text


_HIDDEN = re.compile(re.escape(f"{{{MODEL}}}") + "|" + re.escape(MODEL))


def show_path(value: Any, model: str) -> Any:
    """Replace `MODEL` by the name of a model in a part of a result."""

    def show(text: str) -> str:
        return _HIDDEN.sub(lambda match: model if match[0] == MODEL else MODEL, text) if MODEL in text else text

    return _map_texts(value, show)


def _map_texts(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_texts(one, change) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(one, change) for one in value]
    return value


def to_row(result: Mapping[str, Any], model: str, key: str) -> Row:
    """Build the row of a model with a result."""
    named = ("verdict", "message", "findings", "result", "input_shapes", "stderr", "output")
    shown = {name: show_path(result[name], model) for name in named if name in result}
    if isinstance(line := (result["result"] or {}).get("command"), str):
        shown["result"]["command"] = show_path(line, join([model]))
    command = result["command"]
    return {"schema_version": SCHEMA_VERSION, "model": model, "key": key, "command": command, **shown}  # type: ignore[typeddict-item]


def make_failure_row(command: str, verdict: str, message: str, model: str, key: str = "") -> Row:
    """Build the row of a model that has no result."""
    made: dict[str, Any] = {"command": command, "verdict": verdict, "message": message, "findings": [], "result": None}
    return to_row(made, model, key)
