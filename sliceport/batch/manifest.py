"""Manifests: shapes and arrays for the inputs of single models.

A manifest is TOML or JSON lines:

    [defaults]                             # for all models; only in TOML
    input_shapes = {x = [1, 16]}

    [[models]]
    model = "zoo/gpt*.onnx"
    input_shapes = {x = [1, 32], mask = [1, 32]}
    input = {x = "arrays/x.npy"}

    {"model": "zoo/gpt2.onnx", "input_shapes": {"x": [1, 32]}, "input": {"x": "arrays/x.npy"}}

`model` is a path relative to the manifest's folder, a URL, or a pattern of paths or URLs. In a pattern, `*` matches any
characters, `?` matches one character, and `[…]` matches one of the characters in the brackets. `*` and `?` also match
`/`. If several entries match a model, an input gets the last shape and the last array that the entries have for it. The
defaults count as the first entry.
"""

from __future__ import annotations

import errno
import fnmatch
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sliceport.arguments import quote
from sliceport.batch.names import WILDCARD, has_wildcards, is_url, with_slashes
from sliceport.errors import UsageError

_KEYS = ("model", "input_shapes", "input")
_DEFAULTS = "[defaults]"
_MAX_SIZE = 2**63 - 1


@dataclass(frozen=True)
class Entry:
    """Entry of a manifest about a model, or about all models that a pattern matches.

    Attributes:
        where: Its line or number in the manifest, for messages.
        model: The model or pattern as written; empty for the defaults.
        input_shapes: Shapes by input.
        inputs: Files of arrays by input.
    """

    where: str
    model: str
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)


class Manifest:
    """The manifest in a file: defaults, entries in the file's order, and which of the entries have matched a model."""

    def __init__(self, path: str, defaults: Entry, entries: Sequence[Entry]) -> None:
        self.path = path
        self._defaults = defaults
        self._entries = tuple(entries)
        self._unused = set(range(len(entries)))
        self._exact: dict[str, int] = {}
        self._patterns: list[tuple[re.Pattern[str], int]] = []
        for i, entry in enumerate(entries):
            name = _locate(path, entry.model)
            # A pattern can also be an exact name, as names may contain wildcards. `read_manifest` refuses equal names.
            self._exact[name] = i
            if has_wildcards(entry.model):
                self._patterns.append((_compile_pattern(path, entry.model), i))

    def options_of(self, model: str) -> dict[str, Any]:
        """Return the options for `model`, a URL or a path relative to the current folder.

        The key `input_shapes` maps inputs to tuples of sizes, and `inputs` maps inputs to paths or URLs of arrays.
        Leave out a key without entries. The entries that match the model no longer count as unused.
        """
        name = _locate("", model)
        indices = {i for pattern, i in self._patterns if pattern.match(name)}
        if name in self._exact:
            indices.add(self._exact[name])
        shapes, inputs = dict(self._defaults.input_shapes), dict(self._defaults.inputs)
        for i in sorted(indices):  # in the order of the file, because later entries win
            self._unused.discard(i)
            shapes |= self._entries[i].input_shapes
            inputs |= self._entries[i].inputs
        options: dict[str, Any] = {"input_shapes": shapes, "inputs": inputs}
        return {name: value for name, value in options.items() if value}

    def describe_unused(self) -> tuple[str, ...]:
        """Return a sentence about each entry that matched no model."""
        unused = [self._entries[i] for i in sorted(self._unused)]
        return tuple(f"manifest '{self.path}', {entry.where}: {entry.model!r} matches no model." for entry in unused)


def _locate(manifest: str, name: str) -> str:
    """Return a URL unchanged. Join any other name to the folder of `manifest`, as a normalized absolute path."""
    return name if is_url(name) else os.path.normcase(os.path.abspath(os.path.join(os.path.dirname(manifest), name)))


def _compile_pattern(manifest: str, pattern: str) -> re.Pattern[str]:
    """Compile a pattern to match URLs or absolute paths. A relative pattern starts in the folder of the manifest."""
    if is_url(pattern):
        return re.compile(fnmatch.translate(pattern))
    drive, path = os.path.splitdrive(with_slashes(pattern))
    parts = path.split("/")
    fixed_count = next(i for i, part in enumerate(parts) if WILDCARD.search(part))  # the caller has found a wildcard
    # The folders before the first wildcard are located like a name, so that ".." in them is resolved. The root folder
    # is "/" here, because "" stands for the folder of the manifest.
    name = drive + "".join(f"{part}/" for part in parts[:fixed_count])
    folder = os.path.join(_locate(manifest, name), "")  # with the slash that `_locate` may drop
    return re.compile(re.escape(folder) + fnmatch.translate(os.path.normcase("/".join(parts[fixed_count:]))))


class _Mistake(Exception):
    """Mistake in a part of a manifest. The message does not name the part; `read_manifest` does."""


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest: TOML if its name ends in `.toml`, JSON lines if it ends in `.jsonl` or `.ndjson`.

    The files of arrays need not exist.

    Raises:
        UsageError: The manifest cannot be read, or has a mistake; the message says where.
    """
    name = os.fspath(path)
    is_toml = name.endswith(".toml")
    if not is_toml and not name.endswith((".jsonl", ".ndjson")):
        raise UsageError(f"manifest '{name}' must end in .toml, .jsonl or .ndjson.")
    text = _read_text(name)
    where, defaults, entries = "the top", Entry("", ""), dict[str, Entry]()
    try:  # `where` names the part with a mistake; "the top" is for the keys of the TOML file itself
        for where, part in _split_toml(text) if is_toml else _split_lines(text):
            if where == _DEFAULTS:
                defaults = _read_entry(name, where, part, _KEYS[1:])  # all keys but `model`
                continue
            entry = _read_entry(name, where, part if is_toml else _parse_line(part))
            first = entries.setdefault(_locate(name, entry.model), entry)
            if first is not entry:
                raise _Mistake(f"model {entry.model!r} has an entry already, {first.where}")
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"manifest '{name}' is not TOML: {str(error).rstrip('.')}.") from None
    except _Mistake as mistake:
        raise UsageError(f"manifest '{name}', {where}: {mistake}.") from None
    return Manifest(name, defaults, list(entries.values()))


def _read_text(path: str) -> str:
    try:
        if os.path.isdir(path):  # Windows would report a folder as a missing permission
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        with open(path, encoding="utf-8-sig") as file:  # skips a byte order mark
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: text not in UTF-8, or NUL in the path
        raise UsageError(f"manifest '{path}' cannot be read ({getattr(error, 'strerror', None) or error}).") from None


def _split_toml(text: str) -> Iterator[tuple[str, Any]]:
    """Yield each part of a TOML manifest, the defaults first: a name for messages, and the data."""
    try:
        data = tomllib.loads(text)
    except RecursionError as error:
        raise tomllib.TOMLDecodeError(str(error)) from None
    _check_keys(data, ("defaults", "models"))
    models = data.get("models", [])
    if not isinstance(models, list):
        raise _Mistake(f"'models' must be a list of tables, written [[models]], got {quote(models)}")
    yield _DEFAULTS, data.get("defaults", {})
    for i, entry in enumerate(models, 1):
        yield f"entry {i} of [[models]]", entry


def _split_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line that is not empty: a name for messages, and the text."""
    for number, line in enumerate(text.split("\n"), 1):  # `splitlines` would split JSON texts at U+2028
        if line.strip():
            yield f"line {number}", line


def _parse_line(line: str) -> Any:
    try:
        return json.loads(line, object_pairs_hook=_read_object)
    except (ValueError, RecursionError) as error:
        raise _Mistake(f"it is not JSON ({error})") from None


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dict of a JSON object. Refuse a repeated key, although JSON permits it."""
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Mistake(f"key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")
    return data


def _check_keys(data: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in data:
        if key not in keys:
            raise _Mistake(f"key {key!r} is not known; known are {', '.join(keys)}")


def _read_entry(path: str, where: str, data: Any, keys: Sequence[str] = _KEYS) -> Entry:
    """Check the data of an entry, and build the entry. Only keys in `keys` are allowed."""
    if not isinstance(data, dict):
        raise _Mistake(f"an entry must be an object with the keys {', '.join(keys)}, got {quote(data)}")
    _check_keys(data, keys)
    model = data.get("model", "")
    if "model" in keys and (not isinstance(model, str) or not model or "\0" in model):
        raise _Mistake(f"'model' must be the name of a model, got {quote(model)}")
    tables = {key: data.get(key, {}) for key in _KEYS[1:]}  # all keys but `model`
    for key, table in tables.items():
        if not isinstance(table, dict):
            raise _Mistake(f"{key!r} must be an object whose keys are names of inputs, got {quote(table)}")
    shapes = {name: _read_shape(name, sizes) for name, sizes in tables["input_shapes"].items()}
    inputs = {name: _resolve_array_file(path, name, file) for name, file in tables["input"].items()}
    return Entry(where, model, shapes, inputs)


def _read_shape(name: str, sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size <= _MAX_SIZE for size in sizes):
        raise _Mistake(
            f"the shape of input {name!r} must be a list of integers in [0, 2**63), such as [1, 3], got {quote(sizes)}"
        )
    return tuple(sizes)


def _resolve_array_file(path: str, name: str, file: Any) -> str:
    if not isinstance(file, str) or not file or "\0" in file:
        raise _Mistake(f"the file of input {name!r} must be a name, such as 'x.npy', got {quote(file)}")
    return file if is_url(file) else with_slashes(os.path.join(os.path.dirname(path), file))
