"""Manifests, which give shapes and arrays for inputs of single models.

A manifest is TOML or JSON lines:

    [defaults]                             # for all models; only in TOML
    input_shapes = {x = [1, 16]}

    [[models]]
    model = "zoo/gpt*.onnx"
    input_shapes = {x = [1, 32], mask = [1, 32]}
    input = {x = "arrays/x.npy"}

    {"model": "zoo/gpt2.onnx", "input_shapes": {"x": [1, 32]}, "input": {"x": "arrays/x.npy"}}

`model` is a path, relative to the manifest's folder, or a URL; or a pattern of these, in which `*` and `?` stand for
anything, `/` too, and `[…]` for one of several characters. For each input of a model, what the last entry that matches
the model says of it holds, its shape and its array by themselves; the defaults come before all entries.
"""

from __future__ import annotations

import errno
import fnmatch
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sliceport.batch.names import WILDCARD, has_wildcards, is_url, with_slashes
from sliceport.errors import UsageError

_KEYS = ("model", "input_shapes", "input")
_MAX_SIZE = 2**63 - 1


@dataclass(frozen=True)
class Entry:
    """Entry of a manifest about a model, or about all models that a pattern matches.

    Attributes:
        where: Its place in the manifest, for messages.
        model: The model or pattern as written; empty for the defaults.
        input_shapes: Shapes by input.
        inputs: Files of arrays by input.
    """

    where: str
    model: str
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)


class Manifest:
    """A manifest, and which of its entries were asked for.

    Args:
        path: Its file.
        defaults: The entry for all models.
        entries: The entries for some models, in the file's order.
    """

    def __init__(self, path: str, defaults: Entry, entries: Sequence[Entry]) -> None:
        self.path = path
        self._defaults = defaults
        self._entries = tuple(entries)
        self._unused = set(range(len(entries)))
        self._exact: dict[str, int] = {}
        self._patterns: list[tuple[re.Pattern[str], int]] = []
        for i, entry in enumerate(entries):
            name = _locate(path, entry.model)
            self._exact[name] = i
            if has_wildcards(entry.model):
                self._patterns.append((_compile(path, entry.model), i))

    def options_of(self, model: str) -> dict[str, Any]:
        """Return the options that the manifest gives for a model.

        Args:
            model: Its path, relative to the current folder, or its URL.

        Returns:
            `input_shapes`, by input a tuple of sizes, and `inputs`, by input the path or URL of a file of an array;
            each only if the manifest says something of it.
        """
        shapes, inputs = dict(self._defaults.input_shapes), dict(self._defaults.inputs)
        for i in self._matching(_locate("", model)):
            self._unused.discard(i)
            shapes |= self._entries[i].input_shapes
            inputs |= self._entries[i].inputs
        said: dict[str, Any] = {"input_shapes": shapes, "inputs": inputs}
        return {name: value for name, value in said.items() if value}

    def unused(self) -> tuple[str, ...]:
        """Return a sentence about each entry that matched none of the models asked for."""
        unused = [self._entries[i] for i in sorted(self._unused)]
        return tuple(f"manifest '{self.path}', {one.where}: {one.model!r} matches no model." for one in unused)

    def _matching(self, name: str) -> list[int]:
        found = {i for pattern, i in self._patterns if pattern.match(name)}
        if name in self._exact:
            found.add(self._exact[name])
        return sorted(found)


def _locate(manifest: str, name: str) -> str:
    """Return the URL or the absolute path of a name in a manifest, in lower case on Windows."""
    return name if is_url(name) else os.path.normcase(os.path.abspath(os.path.join(os.path.dirname(manifest), name)))


def _compile(manifest: str, pattern: str) -> re.Pattern[str]:
    if is_url(pattern):
        return re.compile(fnmatch.translate(pattern))
    drive, rest = os.path.splitdrive(with_slashes(pattern))
    parts = rest.split("/")
    fixed = next(i for i, part in enumerate(parts) if WILDCARD.search(part))
    start = os.path.join(_locate(manifest, drive + "/".join([*parts[:fixed], ""])), "")
    return re.compile(re.escape(start) + fnmatch.translate(os.path.normcase("/".join(parts[fixed:]))))


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest: TOML if its name ends in `.toml`, JSON lines if it ends in `.jsonl` or `.ndjson`.

    Files of arrays are not looked for.

    Raises:
        UsageError: The manifest cannot be read, or has a mistake; the message says where.
    """
    name = os.fspath(path)
    try:
        if os.path.isdir(name):  # which Windows says in other words
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        with open(name, "rb") as file:
            data = file.read()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"manifest '{name}' cannot be read ({error.strerror or error}).") from None
    except ValueError as error:  # UnicodeDecodeError, or a name with a null character
        raise UsageError(f"manifest '{name}' cannot be read ({error}).") from None
    if name.endswith(".toml"):
        return _read_toml(name, text)
    if name.endswith((".jsonl", ".ndjson")):
        return Manifest(name, Entry("", ""), _check_unique(name, _read_lines(name, text)))
    raise UsageError(f"manifest '{name}' must end in .toml or .jsonl.")


def _read_toml(path: str, text: str) -> Manifest:
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"manifest '{path}' is not TOML: {str(error).rstrip('.')}.") from None
    reader = _Reader(path, "the top")
    reader.check_keys(data, ("defaults", "models"))
    defaults = reader.at("[defaults]").read(data.get("defaults", {}), is_default=True)
    models = data.get("models", [])
    if not isinstance(models, list):
        raise reader.error(f"'models' must be a list of tables, written [[models]], got {_kind(models)}")
    entries = [reader.at(f"entry {i} of [[models]]").read(each) for i, each in enumerate(models, 1)]
    return Manifest(path, defaults, _check_unique(path, entries))


def _read_lines(path: str, text: str) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        reader = _Reader(path, f"line {number}")
        try:
            data = json.loads(line, object_pairs_hook=reader.read_object)
        except (ValueError, RecursionError) as error:
            if isinstance(error, UsageError):
                raise
            raise reader.error(f"it is not JSON ({error})") from None
        yield reader.read(data)


def _check_unique(path: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries. Check that no two are about the same model."""
    first: dict[str, Entry] = {}
    for entry in entries:
        other = first.setdefault(_locate(path, entry.model), entry)
        if other is not entry:
            raise _Reader(path, entry.where).error(f"model {entry.model!r} has an entry already, {other.where}")
    return list(first.values())


@dataclass(frozen=True)
class _Reader:
    """Reader of a part of a manifest; errors say where.

    Attributes:
        path: The manifest.
        where: The part.
    """

    path: str
    where: str

    def at(self, where: str) -> _Reader:
        """Return the reader of another part."""
        return _Reader(self.path, where)

    def error(self, what: str) -> UsageError:
        """Return an error that names this part."""
        return UsageError(f"manifest '{self.path}', {self.where}: {what}.")

    def read_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Build a JSON object. Check that no key stands there twice."""
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise self.error(f"key {key!r} stands there twice")
            found[key] = value
        return found

    def check_keys(self, data: Mapping[str, Any], known: Sequence[str]) -> None:
        """Check that an object has no other keys."""
        for key in data:
            if key not in known:
                raise self.error(f"key {key!r} is not known; known are {', '.join(known)}")

    def read(self, data: Any, *, is_default: bool = False) -> Entry:
        """Read an entry."""
        if not isinstance(data, dict):
            raise self.error(f"an entry must be an object with the keys {', '.join(_KEYS)}, got {_kind(data)}")
        self.check_keys(data, _KEYS[1:] if is_default else _KEYS)
        model = "" if is_default else data.get("model")
        if not is_default and (not isinstance(model, str) or not model or "\0" in model):
            raise self.error(f"'model' must be the name of a model, got {_shown(data, 'model')}")
        shapes = {name: self._read_shape(name, each) for name, each in self._read_table(data, "input_shapes")}
        inputs = {name: self._read_file(name, each) for name, each in self._read_table(data, "input")}
        return Entry(self.where, str(model), shapes, inputs)

    def _read_table(self, data: Mapping[str, Any], key: str) -> Iterable[tuple[str, Any]]:
        table = data.get(key, {})
        if not isinstance(table, dict):
            raise self.error(f"{key!r} must be an object by names of inputs, got {_kind(table)}")
        return table.items()

    def _read_shape(self, name: str, sizes: Any) -> tuple[int, ...]:
        if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size <= _MAX_SIZE for size in sizes):
            raise self.error(
                f"the shape of input {name!r} must be a list of integers from 0 up, such as [1, 3], got {_brief(sizes)}"
            )
        return tuple(sizes)

    def _read_file(self, name: str, file: Any) -> str:
        if not isinstance(file, str) or not file or "\0" in file:
            raise self.error(f"the file of input {name!r} must be a name, such as 'x.npy', got {_brief(file)}")
        return file if is_url(file) else with_slashes(os.path.join(os.path.dirname(self.path), file))


def _shown(data: Mapping[str, Any], key: str) -> str:
    return _brief(data[key]) if key in data else "none"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", int: "a number", float: "a number"}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "null" if value is None else f"a {type(value).__name__}")
