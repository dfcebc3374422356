"""The journals of runs, and `results.jsonl`, the view that is made of them and of the results.

A run appends a line for each model to a journal of its own, so that any number of runs can share a folder. The view has
the models of the latest run, of those that were under way at the same time, and of the other shards of the same run.
"""

from __future__ import annotations

import heapq
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeGuard

from sliceport.batch.result import is_result, make_failure_row, read_result, read_stderr, to_row
from sliceport.batch.row import DEATHS, MAX_LISTED, Header, Row
from sliceport.batch.store import Store
from sliceport.batch.task import Done
from sliceport.errors import UsageError

VIEW = "results.jsonl"
_JOURNALS = "runs"
_WRITTEN = "written"
"""In the last line of a journal: when it was. The times of files are others once somebody has copied them."""
_INTERVAL = 30.0
"""Seconds between two times in a journal. A killed run at a URL loses the lines after the last one."""


class Journal:
    """The journal of a run under way.

    In a local folder each line is written at once, so a killed run loses none. At a URL the journal is stored whole,
    every 30 seconds.
    """

    def __init__(self, store: Store, header: Header, scratch: Path) -> None:
        self._store = store
        self._started = header["started"]
        self.name = f"{_JOURNALS}/{header['started'].replace(':', '')}-{secrets.token_hex(4)}.jsonl"
        path = store.local_path(self.name)
        self._is_remote = path is None
        self._path = path or scratch / "journal.jsonl"
        with self._os_errors_reported():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._path, "w", encoding="ascii", buffering=1)  # noqa: SIM115 - closed by `close`
        try:
            self._add(header)
            self._store_lines()
        except BaseException:
            self._close()
            raise

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
            self._store_lines()

    def close(self) -> None:
        """Store the lines that are not stored yet."""
        try:
            self._store_lines()
        finally:
            self._close()

    def _close(self) -> None:
        with suppress(OSError):  # the same error was raised when the line was added
            self._file.close()

    def _add(self, line: Mapping[str, Any]) -> None:
        with self._os_errors_reported():
            self._file.write(json.dumps(line) + "\n")

    @contextmanager
    def _os_errors_reported(self) -> Iterator[None]:
        """Raise errors of the system as errors of the journal.

        Raises:
            UsageError: The system raised an error.
        """
        try:
            yield
        except OSError as error:
            raise UsageError(f"'{self._path}' cannot be written ({error.strerror or error}).") from None

    def _store_lines(self) -> None:
        """Add the time, which shows that the run is under way, and store what was added."""
        self._add({_WRITTEN: max(now(), self._started)})
        if self._is_remote:
            with self._os_errors_reported():
                lines = self._path.read_bytes()
            self._store.write(self.name, lines)
        self._written = time.monotonic()


@dataclass(frozen=True)
class Run:
    """The models of a run, as its journals list them.

    Attributes:
        store: The folder of the results.
        headers: The headers of its journals, the latest first: one for each shard and each run at the same time.
        entries: Map each model to the key of its result or to its row. The last line about a model counts.
        unfinished: The number of models that the headers announce and no journal lists.
    """

    store: Store
    headers: tuple[Header, ...]
    entries: Mapping[str, str | Row]
    unfinished: int = 0

    @property
    def header(self) -> Header:
        """The header of the latest journal."""
        return self.headers[0]

    def __len__(self) -> int:
        """Return the number of models that are done."""
        return len(self.entries)

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all models, sorted by model.

        Raises:
            UsageError: A result cannot be read.
        """
        for model in sorted(self.entries):
            yield self._row(model, self.entries[model])

    def describe_gap(self) -> str:
        """Return what the run lacks, such as `13 of 120 models`, or an empty string if it is complete."""
        parts = [f"{len(self):,} of {len(self) + self.unfinished:,} models"] if self.unfinished else []
        if missing := self._missing_shards():
            parts.append(f"without shard{'s' * (len(missing) > 1)} {', '.join(missing[:MAX_LISTED])}")
        return ", ".join(parts)

    def _missing_shards(self) -> list[str]:
        shards = {header["shard"] for header in self.headers}
        counts = {count for header in self.headers if (count := _count_of(header)) is not None}
        if None in shards or len(counts) != 1:
            return []
        count = counts.pop()
        return [shard for i in range(1, int(count) + 1) if (shard := f"{i}/{count}") not in shards]

    def _row(self, model: str, entry: str | Row) -> Row:
        if not isinstance(entry, str):
            return entry
        result = read_result(self.store, entry)
        if result is not None:
            stderr = read_stderr(self.store, entry) if result["verdict"] in DEATHS else []
            return to_row(result | ({"stderr": stderr} if stderr else {}), model, entry)
        return make_failure_row(self.header["command"], "lost", "its result is no longer there.", model, entry)


def read_run(store: Store, own: str | None = None) -> Run:
    """Return the latest run of a folder, or the run of a journal, with all runs that belong to it.

    Args:
        store: The folder.
        own: The name of a journal.

    Raises:
        UsageError: The folder holds no run, or cannot be read.
    """
    journals = sorted(_read_headers(store), key=lambda one: (one.name == own, one.header["started"]), reverse=True)
    latest: Header | None = None
    shards: set[str | None] = set()
    chosen = []
    for journal in journals:
        header = journal.header
        if latest is not None and not _belongs_to_latest_run(journal, latest, shards):
            continue
        lines = _read_entries(store, journal.name)
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
    return Run(store, tuple(header for header, _ in chosen), entries, _count_unfinished(chosen))


def _belongs_to_latest_run(journal: _Journal, latest: Header, shards: Set[str | None]) -> bool:
    """Return whether a run overlaps `latest` in time, or is one of its shards and not yet in `shards`.

    Only a run of the same command with the same options belongs to `latest`.
    """
    header = journal.header
    if any(header[key] != latest[key] for key in ("command", "options")):
        return False
    is_shard = _count_of(header) == _count_of(latest) is not None and header["sources"] == latest["sources"]
    return (is_shard and header["shard"] not in shards) or journal.written >= latest["started"]


def _count_unfinished(journals: Sequence[tuple[Header, Mapping[str, str | Row]]]) -> int:
    """Return the number of models that headers announce and journals lack.

    Runs over the same sources that overlap in time complete one another.
    """
    announced: dict[str, int] = {}
    done: dict[str, set[str]] = {}
    for header, lines in journals:
        part = json.dumps([header["sources"], header["shard"]])
        announced.setdefault(part, header["models"])
        done.setdefault(part, set()).update(lines)
    return sum(max(0, count - len(done[part])) for part, count in announced.items())


def join(runs: Iterable[Run]) -> Run:
    """Join the shards of one run that have a folder each.

    Raises:
        UsageError: The runs are not the shards of one run, each once.
    """
    listed = list(runs)
    headers = [header for run in listed for header in run.headers]
    kinds = {
        (header["command"], json.dumps([header["options"], header["sources"]], sort_keys=True), _count_of(header))
        for header in headers
    }
    shards = [run.header["shard"] for run in listed]
    if len(kinds) > 1 or None in shards or len(set(shards)) < len(shards):
        roots = ", ".join(f"'{run.store.root}'" for run in listed)
        raise UsageError(f"{roots} are not the shards of one run, so they cannot be joined.")
    return _Joined(listed[0].store, tuple(headers), {}, sum(run.unfinished for run in listed), tuple(listed))


@dataclass(frozen=True)
class _Joined(Run):
    """Several runs with their results in several stores."""

    parts: tuple[Run, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all parts, sorted by model."""
        yield from heapq.merge(*(run.rows() for run in self.parts), key=lambda row: row["model"])


@dataclass(frozen=True)
class _Journal:
    """A journal.

    Attributes:
        name: Its file.
        header: Its first line.
        written: When it was last stored.
    """

    name: str
    header: Header
    written: str


def _read_headers(store: Store) -> Iterator[_Journal]:
    """Yield the headers of the journals. A journal that somebody damaged is left out.

    Most journals are of runs long ago, so no more than the header of each is kept.
    """
    for name in store.names(_JOURNALS):
        if not name.endswith(".jsonl"):
            continue
        text = store.read(name) or b""
        with suppress(ValueError, RecursionError):
            header = json.loads(text.partition(b"\n")[0])
            if _is_header(header):
                yield _Journal(name, header, _read_time(text) or header["started"])


def _read_time(text: bytes) -> str | None:
    """Return the last time in a journal."""
    start = text.rfind(f'{{"{_WRITTEN}"'.encode())
    with suppress(ValueError, RecursionError):
        line = json.loads(text[start:].partition(b"\n")[0]) if start >= 0 else {}
        if _is_time(written := line.get(_WRITTEN)):
            return written
    return None


def _is_header(data: Any) -> TypeGuard[Header]:
    return (
        isinstance(data, dict)
        and data.get("schema_version") == 1
        and isinstance(data.get("command"), str)
        and all(isinstance(data.get(name), dict) for name in ("options", "versions"))
        and all(isinstance(version, str) for version in data["versions"].values())
        and isinstance(sources := data.get("sources"), list)
        and all(isinstance(source, str) for source in sources)
        and isinstance(data.get("models"), int)
        and _is_time(data.get("started"))
        and (
            data.get("shard") is None
            or (isinstance(data["shard"], str) and _SHARD.fullmatch(data["shard"]) is not None)
        )
    )


_SHARD = re.compile(r"[1-9][0-9]{0,8}/[1-9][0-9]{0,8}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")


def _is_time(data: Any) -> TypeGuard[str]:
    """Whether something is a time as headers have it; such texts stand in the order of their times."""
    return isinstance(data, str) and _TIME.fullmatch(data) is not None


def _read_entries(store: Store, name: str) -> dict[str, str | Row] | None:
    """Map the models of a journal to their keys or rows; None for a journal that somebody damaged.

    The last line may be cut off, because a run can be killed at any time.
    """
    entries: dict[str, str | Row] = {}
    for text in (store.read(name) or b"").split(b"\n")[1:-1]:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(line, dict):
            return None
        if _WRITTEN in line:
            continue
        model, entry = line.get("model"), line.get("row") or line.get("key")
        if not isinstance(model, str) or not (is_result(entry) if isinstance(entry, dict) else _is_key(entry)):
            return None
        entries[model] = entry  # type: ignore[assignment]
    return entries


def _is_key(data: Any) -> bool:
    return isinstance(data, str) and re.fullmatch("[0-9a-f]{64}", data) is not None


def _count_of(header: Header) -> str | None:
    """Return the N of shard I/N."""
    return None if header["shard"] is None else header["shard"].partition("/")[2]


def now() -> str:
    """Return the time in the form that headers have."""
    return _to_text(datetime.now(UTC))


def _to_text(time: datetime) -> str:
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def start_time(store: Store) -> str:
    """Return the time for a new run: now, or just after the latest time in a journal if clocks were put back.

    Raises:
        UsageError: The journals cannot be read.
    """
    times = [time for one in _read_headers(store) for time in (one.header["started"], one.written)]
    latest = max(times, default="")
    if now() > latest:
        return now()
    return _to_text(datetime.fromisoformat(latest) + timedelta(microseconds=1))


def write_view(run: Run, scratch: Path, observe: Callable[[Row], None] = lambda _: None) -> None:
    """Write `results.jsonl`, a row a model.

    Args:
        run: The run.
        scratch: A folder for the file before it gets its name.
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
