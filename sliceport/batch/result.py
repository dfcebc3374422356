"""Results of models: their files and their rows.

A result depends only on the model's content and on the job.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sliceport.batch.row import Row
from sliceport.batch.store import Store
from sliceport.wording import shell
from sliceport.wording.json_text import replace_non_finite

SCHEMA_VERSION = 1
MODEL = "{model}"
"""Placeholder for the model's path in a result."""
_COMMAND = "sliceport "  # begins a command line, in which the model's path is quoted for a shell


def result_name(key: str) -> str:
    """Return the name of the file of a result. Results are in 256 folders, because large folders are slow."""
    return f"results/{key[:2]}/{key}.json"


def read_result(store: Store, key: str) -> dict[str, Any] | None:
    """Read a result. Return None if it is missing, has another schema version, or was cut off by a loss of power.

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
    return result if isinstance(result, dict) and result.get("schema_version") == SCHEMA_VERSION else None


def outputs_name(key: str) -> str:
    """Return the name of the folder with the files that a command wrote for a model."""
    return f"outputs/{key[:2]}/{key}"


def stderr_name(key: str) -> str:
    """Return the name of the file with the last lines of a process that died.

    The result does not contain these lines: they change from run to run, but equal runs must have equal results.
    """
    return f"results/{key[:2]}/{key}.stderr"


def read_stderr(store: Store, key: str) -> list[str]:
    """Return the last lines that a model's process wrote before the process died, or an empty list if none are stored.

    Raises:
        UsageError: The file cannot be read.
    """
    return (store.read(stderr_name(key)) or b"").decode("utf-8", "replace").splitlines()


_ABSOLUTE = re.compile(r"""(?<![\w.:/\\}])(?:[A-Za-z]:)?[/\\][^\s'"<>|*?:;,()]*\w""")
"""Text that looks like an absolute path, as the names of many nodes do."""


def make_result(command: str, path: str, output: Path, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Build a result without the paths of this machine, so that other machines compute the same result.

    Args:
        command: The command's name.
        path: The model's path. It is removed from the start of the message, and replaced by `MODEL` in all texts.
        output: The folder that the command wrote into. Its path is removed from all texts.
        parts: Further fields of the result. `verdict` and `message` are required.
    """
    result = {"schema_version": SCHEMA_VERSION, "command": command, "findings": [], "result": None, **parts}
    result["message"] = result["message"].removeprefix(f"'{path}': ")
    hide = _make_path_hider(path, output)
    return {key: map_texts(value, hide) for key, value in result.items()}


def _make_path_hider(path: str, output: Path) -> Callable[[str], str]:
    """Return a function that escapes `{model}`, replaces the model's path by `MODEL`, and shortens paths of files."""
    # Some messages contain the path in the form of `repr`.
    escaped, escaped_repr = _escape_placeholder(path), _escape_placeholder(repr(path)[1:-1])
    folders = [str(output), str(output.parent), sys.prefix, sys.base_prefix, tempfile.gettempdir()]
    # A short folder such as /model is kept, because names of nodes may begin with it.
    if len(Path(path).parent.parts) > 2:
        folders.append(os.path.dirname(path))
    # Inner folders come first, because their names begin with those of the folders around them.
    folders.sort(key=len, reverse=True)
    prefixes = [_escape_placeholder(os.path.join(folder, "")) for folder in folders if len(folder) > 1]  # not "/"
    folder_pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, prefixes))})")

    def hide(text: str) -> str:
        if text.startswith(_COMMAND):  # remove the shell's quotes around the path, which `fill_in_model` adds again
            text = text.replace(shell.join([path]), path)
        hidden = _escape_placeholder(text).replace(escaped, MODEL)
        if escaped_repr != escaped:  # a second replacement would change the new `{model}` if the path is `model`
            hidden = hidden.replace(escaped_repr, MODEL)
        return _ABSOLUTE.sub(_shorten_existing_path, folder_pattern.sub("", hidden))

    return hide


def _shorten_existing_path(path: re.Match[str]) -> str:
    """Return the last part of a matched path if the path exists on this machine. Otherwise return the whole path."""
    return os.path.basename(path[0]) if os.path.lexists(path[0]) else path[0]


def encode_result(result: Mapping[str, Any]) -> bytes:
    """Encode a result as JSON, with null for numbers that JSON lacks.

    Raises:
        TypeError, ValueError, RecursionError: JSON cannot hold the result.
    """
    return json.dumps(replace_non_finite(result), sort_keys=True, allow_nan=False).encode("ascii") + b"\n"


def _escape_placeholder(text: str) -> str:
    """Replace `{model}` in a text by `{{model}}`, because `{model}` is the placeholder for the path of the model."""
    return text.replace(MODEL, "{{model}}")


_PLACEHOLDER = re.compile(r"\{\{model\}\}|\{model\}")  # the escaped one first, because it contains the other


def fill_in_model(value: Any, model: str) -> Any:
    """Replace the placeholder `{model}` in JSON data by a model's name. Change `{{model}}` back to `{model}`."""

    def fill_in(text: str) -> str:
        if MODEL not in text:  # a search by `re` takes much longer
            return text
        name = shell.join([model]) if text.startswith(_COMMAND) else model
        return _PLACEHOLDER.sub(lambda match: name if match[0] == MODEL else MODEL, text)

    return map_texts(value, fill_in)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Copy JSON data with `change` applied to each text and key. Tuples become lists."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(item, change) for item in value]
    return value


def to_row(result: Mapping[str, Any], model: str, key: str) -> Row:
    """Convert the stored result of a model to its row of results.jsonl, and fill in the name of the model."""
    fields = ("verdict", "message", "findings", "result", "input_shapes", "stderr", "output")
    row = {name: fill_in_model(result[name], model) for name in fields if name in result}
    command = result["command"]
    return {"schema_version": SCHEMA_VERSION, "model": model, "key": key, "command": command, **row}  # type: ignore[typeddict-item]


def make_failure_row(command: str, verdict: str, message: str, model: str, key: str = "") -> Row:
    """Build the row of a model without a result. `key` is the key of a stored result that is gone, or empty."""
    parts: dict[str, Any] = {"command": command, "verdict": verdict, "findings": [], "result": None}
    return to_row(parts | {"message": _escape_placeholder(message)}, model, key)  # `to_row` replaces placeholders
