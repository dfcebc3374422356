"""The journals of runs, and `results.jsonl`, the view that is made of them and of the results.

A run appends a line for each model to a journal of its own, so that any number of runs can share a folder. The view has
the models of the latest run, of those that were under way at the same time, and of the other shards of the same run.
"""

from __future__ import annotations

import heapq
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sliceport.batch.row import Header, Row
from sliceport.batch.store import Store
from sliceport.batch.task import Done, read_result, to_row
from sliceport.errors import UsageError

VIEW = "results.jsonl"
_JOURNALS = "runs"
_INTERVAL = 30.0
"""Seconds after which what was added to a journal is in the store at the latest."""


class Journal:
    """The journal of a run under way."""

    def __init__(self, store: Store, header: Header, scratch: Path) -> None:
        self._store = store
        self.name = f"{_JOURNALS}/{header['started'].replace(':', '')}-{secrets.token_hex(4)}.jsonl"
        self._local = scratch / "journal.jsonl"
        self._written = time.monotonic()
        self._file = open(self._local, "w", encoding="ascii")  # noqa: SIM115 - closed by `close`
        self._add(header)
        self.flush()

    def add(self, done: Done) -> None:
        """Add a model."""
        line: dict[str, Any] = {
            "model": done.model,
            "key": done.key,
            "verdict": done.verdict,
            "seconds": done.seconds,
            "cached": done.cached,
        }
        self._add(line if done.row is None else line | {"row": done.row})
        if time.monotonic() - self._written > _INTERVAL:
            self.flush()

    def close(self) -> None:
        """Store what is not stored yet."""
        self.flush()
        self._file.close()

    def _add(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")

    def flush(self) -> None:
        """Store what was added."""
        self._file.flush()
        self._store.write(self.name, self._local.read_bytes())
        self._written = time.monotonic()


@dataclass(frozen=True)
class Run:
    """The models of a run, as its journals list them.

    Attributes:
        store: Where the results are.
        headers: The headers of its journals, the latest first: one for each shard and each run at the same time.
        entries: By model, the key of its result or its row, as the last line that a journal has about it says.
    """

    store: Store
    headers: tuple[Header, ...]
    entries: Mapping[str, str | Row]

    @property
    def header(self) -> Header:
        """The header of the latest."""
        return self.headers[0]

    def rows(self) -> Iterator[Row]:
        """The rows of all models, sorted by model.

        Raises:
            UsageError: A result cannot be read.
        """
        for model in sorted(self.entries):
            yield self._row(model, self.entries[model])

    def _row(self, model: str, entry: str | Row) -> Row:
        if not isinstance(entry, str):
            return entry
        result = read_result(self.store, entry)
        if result is not None:
            return to_row(result, model, entry)
        lost = {"command": self.header["command"], "verdict": "lost", "message": "its result is no longer there."}
        return to_row(lost | {"findings": [], "result": None}, model, entry)


def read_run(store: Store) -> Run:
    """The latest run of a folder, with those of the same command that belong to it.

    Raises:
        UsageError: There is none, or it cannot be read.
    """
    headers = sorted(_read_headers(store), key=lambda found: found[1]["started"], reverse=True)
    latest: Header | None = None
    shards: set[str | None] = set()
    chosen = []
    for name, header in headers:
        if latest is not None and not _belongs(store, name, header, latest, shards):
            continue
        lines = _read_entries(store, name)
        if lines is None:
            continue
        latest = latest or header
        shards.add(header["shard"])
        chosen.append((header, lines))
    if latest is None:
        raise UsageError(f"'{store.root}' holds no run of sliceport batch.")
    entries: dict[str, str | Row] = {}
    for _, lines in reversed(chosen):
        entries |= lines
    return Run(store, tuple(header for header, _ in chosen), entries)


def _belongs(store: Store, name: str, header: Header, latest: Header, shards: Set[str | None]) -> bool:
    """Whether a run was under way at the same time as the latest, or is another shard of it than these."""
    if any(header[key] != latest[key] for key in ("command", "options")):
        return False
    is_other_shard = _count_of(header) == _count_of(latest) is not None and header["shard"] not in shards
    return is_other_shard or store.changed(name) >= _seconds(latest["started"])


def join(runs: Iterable[Run]) -> Run:
    """Shards of one run that have folders of their own, as one.

    Raises:
        UsageError: They are not the shards of one run, each once.
    """
    listed = list(runs)
    headers = [header for run in listed for header in run.headers]
    kinds = {
        (header["command"], json.dumps(header["options"], sort_keys=True), _count_of(header)) for header in headers
    }
    shards = [run.header["shard"] for run in listed]
    if len(kinds) > 1 or None in shards or len(set(shards)) < len(shards):
        roots = ", ".join(f"'{run.store.root}'" for run in listed)
        raise UsageError(f"{roots} are not the shards of one run, so they cannot be joined.")
    return _Joined(listed[0].store, tuple(headers), {}, tuple(listed))


@dataclass(frozen=True)
class _Joined(Run):
    """Several runs, whose results lie in several stores."""

    parts: tuple[Run, ...] = ()

    def rows(self) -> Iterator[Row]:
        """See `Run.rows`."""
        yield from heapq.merge(*(run.rows() for run in self.parts), key=lambda row: row["model"])


def _read_headers(store: Store) -> Iterator[tuple[str, Header]]:
    """The names of the journals, and how they begin. All but a few are of runs long ago, so no more of them is kept."""
    for name in store.names(_JOURNALS):
        if name.endswith(".jsonl"):
            with suppress(ValueError):  # cut off when a machine lost its power
                header = json.loads((store.read(name) or b"").partition(b"\n")[0])
                if isinstance(header, dict) and header.get("schema_version") == 1:
                    yield name, header  # type: ignore[misc]


def _read_entries(store: Store, name: str) -> dict[str, str | Row] | None:
    """What a journal says of models; None for one that is cut off."""
    try:
        lines = map(json.loads, (store.read(name) or b"").splitlines()[1:])
        return {line["model"]: line.get("row") or line["key"] for line in lines}
    except ValueError:
        return None


def _count_of(header: Header) -> str | None:
    """The N of shard I/N."""
    return None if header["shard"] is None else header["shard"].partition("/")[2]


def _seconds(started: str) -> float:
    """A time of a header, in seconds since 1970."""
    return datetime.fromisoformat(started).timestamp()


def now() -> str:
    """The time as headers have it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def write_view(run: Run, scratch: Path, observe: Callable[[Row], None] = lambda _: None) -> None:
    """Write `results.jsonl`, a row a model.

    Args:
        run: The run.
        scratch: Where it is written before it gets its name.
        observe: Called with each row.

    Raises:
        UsageError: A result cannot be read, or the view cannot be written.
    """
    local = scratch / VIEW
    try:
        with open(local, "w", encoding="ascii") as file:
            for row in run.rows():
                file.write(json.dumps(row) + "\n")
                observe(row)
    except OSError as error:
        raise UsageError(f"'{run.store.root}/{VIEW}' cannot be written ({error.strerror or error}).") from None
    run.store.put_file(VIEW, local)
