"""The journals of runs, and their view: the file `results.jsonl`, with a row for each model.

A run appends a line for each model to a journal of its own, so that any number of runs can share a folder. The view has
the models of the latest run, of the runs that were under way at the same time, and of the other shards of the same run.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sliceport.batch.result import make_failure_row, read_result, read_stderr, to_row
from sliceport.batch.row import DEATHS, MAX_LISTED, Header, Row
from sliceport.batch.store import Store
from sliceport.batch.task import Done
from sliceport.errors import UsageError

VIEW = "results.jsonl"
_JOURNALS = "runs"
_WRITTEN = "written"
"""Key of a line that states when it was written. The file's own time is not used, because a copy may have another."""
_INTERVAL = 30.0
"""Least seconds between two lines with the time. If a run at a URL is killed, lines after the last time are lost."""

Entries = Mapping[str, str | Row]
"""Each model of a journal, with the key of its result, or with its row if its result is not stored."""


class Journal:
    """The journal of a run under way.

    A store that can append gets each line at once, so that a killed run loses none. Any other store gets the whole
    journal again if a model is added 30 seconds or more after the last write.

    Raises:
        UsageError: The journal cannot be written. The methods raise it, too.
    """

    def __init__(self, store: Store, header: Header) -> None:
        self._store = store
        self._started = header["started"]
        started = header["started"].replace(":", "")  # Windows forbids colons in names of files
        self.name = f"{_JOURNALS}/{started}-{secrets.token_hex(4)}.jsonl"
        """The name of the journal's file in the store. Sorted names are in the order of the runs' starts."""
        self._lines: list[str] = []
        self._append_line(header)
        self.store_lines()

    def add(self, done: Done) -> None:
        """Add a line for a model. If the last call of `store_lines` was more than 30 seconds ago, call it again."""
        self._append_line({name: value for name, value in vars(done).items() if value is not None})
        if time.monotonic() - self._last_stored > _INTERVAL:
            self.store_lines()

    def store_lines(self) -> None:
        """Add a line with the time, to show that the run is under way. If the store cannot append, write all lines."""
        # If clocks were put back, the start may be later than now; see `start_time`.
        self._append_line({_WRITTEN: max(now(), self._started)})
        if self._lines:
            self._store.write(self.name, "".join(self._lines).encode("ascii"))
        self._last_stored = time.monotonic()

    def _append_line(self, line: Mapping[str, Any]) -> None:
        """Append a line to the journal. If the store cannot append, keep the line for `store_lines`."""
        text = json.dumps(line) + "\n"
        if not self._store.append(self.name, text.encode("ascii")):
            self._lines.append(text)


@dataclass(frozen=True)
class Run:
    """The models of a run, as its journals list them.

    Attributes:
        store: The folder of the results; the first one if the shards of the run lie in different folders.
        headers: The header of the run, then those of its other shards and of runs at the same time.
        entries: The models, each with the folder of its result and an entry of a journal. The last line about a model
            counts.
        unfinished: The number of models that the headers announce and no journal lists.
    """

    store: Store
    headers: tuple[Header, ...]
    entries: Mapping[str, tuple[Store, str | Row]]
    unfinished: int = 0

    @property
    def header(self) -> Header:
        """The header of the journal that `read_run` was asked for, or of the latest journal."""
        return self.headers[0]

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all models, sorted by model.

        Raises:
            UsageError: A result cannot be read.
        """
        for model in sorted(self.entries):
            store, entry = self.entries[model]
            yield self._read_row(store, model, entry) if isinstance(entry, str) else entry

    def describe_gap(self) -> str:
        """Return the progress of a partial run, as in `13 of 120 models, without shard 2/3`; "" for a complete run."""
        done = len(self.entries)
        parts = [f"{done:,} of {done + self.unfinished:,} models"] if self.unfinished else []
        if missing := self._missing_shards():
            more = ", ..." * (len(missing) > MAX_LISTED)
            parts.append(f"without shard{'s' * (len(missing) > 1)} {', '.join(missing[:MAX_LISTED])}{more}")
        return ", ".join(parts)

    def _missing_shards(self) -> list[str]:
        """Return the shards `I/N` that have no journal.

        Return an empty list if a journal covers all models. Do the same if the journals differ in N.
        """
        shards = {header["shard"] for header in self.headers}
        counts = {_count_shards(header) for header in self.headers}
        if None in shards or len(counts) != 1:
            return []
        count = counts.pop()
        return [shard for i in range(1, count + 1) if (shard := f"{i}/{count}") not in shards]

    def _read_row(self, store: Store, model: str, key: str) -> Row:
        """Return the row of a model whose result is stored under `key`."""
        result = read_result(store, key)
        if result is None:
            return make_failure_row(self.header["command"], "lost", "its result is no longer there.", model, key)
        stderr = read_stderr(store, key) if result["verdict"] in DEATHS else []
        return to_row(result | ({"stderr": stderr} if stderr else {}), model, key)


def read_run(store: Store, journal: str | None = None) -> Run:
    """Return the latest run of a folder, or the run of `journal`, joined with its other shards and overlapping runs.

    Raises:
        UsageError: The folder holds no run, or cannot be read.
    """
    journals: list[tuple[Header, Entries]] = []
    shards: set[str | None] = set()
    for header, lines in _read_journals(store, journal):
        if journals and not _belongs_to_run(header, _last_time(header, lines), journals[0][0], shards):
            continue
        entries = _read_entries(lines)
        if entries is None:  # a damaged journal
            continue
        shards.add(header["shard"])
        journals.append((header, entries))
    if not journals:
        raise UsageError(f"'{store.root}' holds no run of sliceport batch.")
    models: dict[str, tuple[Store, str | Row]] = {}
    for _, entries in reversed(journals):  # the first journal last, because its entries win
        models |= {model: (store, entry) for model, entry in entries.items()}
    return Run(store, tuple(header for header, _ in journals), models, _count_unfinished(journals))


def _belongs_to_run(header: Header, written: str, first: Header, shards: Set[str | None]) -> bool:
    """Return whether the run with `header` belongs to the run with the header `first`.

    Both must have the same command and options. In addition, one of these must be true:
      * Both are shards I/N of the same sources with the same N, and the shard of `header` is not yet in `shards`.
      * The run with `header` wrote its last line, at the time `written`, after the run of `first` began.
    """
    if any(header[key] != first[key] for key in ("command", "options")):
        return False
    count = _count_shards(header)
    is_shard = count > 0 and count == _count_shards(first) and header["sources"] == first["sources"]
    return (is_shard and header["shard"] not in shards) or written >= first["started"]


def _count_unfinished(journals: Sequence[tuple[Header, Entries]]) -> int:
    """Return the number of models that the headers of journals announce, but no journal lists.

    Journals of the same sources and the same shard have the same models, so only their first header counts.
    """
    announced: dict[str, int] = {}
    done: dict[str, set[str]] = {}
    for header, entries in journals:
        part = json.dumps([header["sources"], header["shard"]])
        announced.setdefault(part, header["models"])  # keeps the number of the first journal
        done.setdefault(part, set()).update(entries)
    return sum(max(0, count - len(done[part])) for part, count in announced.items())


def are_distinct_shards(runs: Sequence[Run]) -> bool:
    """Return whether each run consists of shards, and no shard is in two of the runs."""
    shards = [shard for run in runs for shard in {header["shard"] for header in run.headers}]
    return None not in shards and len(set(shards)) == len(shards)


def join_shards(runs: Sequence[Run]) -> Run:
    """Join shards of one run that lie in different folders.

    Raises:
        UsageError: The runs are not different shards of one run.
    """
    headers = tuple(header for run in runs for header in run.headers)
    identities = {
        (header["command"], json.dumps([header["options"], header["sources"]], sort_keys=True), _count_shards(header))
        for header in headers
    }
    if len(identities) > 1 or not are_distinct_shards(runs):
        roots = ", ".join(f"'{run.store.root}'" for run in runs)
        raise UsageError(f"{roots} are not the shards of one run, so they cannot be joined.")
    entries = {model: entry for run in runs for model, entry in run.entries.items()}
    return Run(runs[0].store, headers, entries, sum(run.unfinished for run in runs))


def _read_journals(store: Store, first: str | None = None) -> Iterator[tuple[Header, list[bytes]]]:
    """Yield the header and the other lines of each journal, the latest journal first.

    If `first` names a journal, it precedes all others. Journals without a header of this schema version are skipped.
    """
    # Names begin with the time of the start.
    for name in sorted(store.names(_JOURNALS), key=lambda name: (name == first, name), reverse=True):
        # The last line may be cut off, because a run can be killed at any time.
        lines = (store.read(name) or b"").split(b"\n")[:-1]
        header = _parse(lines[0]) if lines else None
        if header is not None and header.get("schema_version") == 1:
            yield header, lines[1:]  # type: ignore[misc]


def _last_time(header: Header, lines: Sequence[bytes]) -> str:
    """Return the time in the last line that has one. Without such a line, return the time in the header."""
    times = (line[_WRITTEN] for text in reversed(lines) if (line := _parse(text)) and _WRITTEN in line)
    return next(times, header["started"])


def _read_entries(lines: Sequence[bytes]) -> Entries | None:
    """Map each model of a journal to the key of its result, or to its row. Return None if a line is damaged."""
    entries: dict[str, str | Row] = {}
    for text in lines:
        line = _parse(text)
        if line is None:
            return None
        if _WRITTEN not in line:  # a line with the time alone has no model
            entries[line["model"]] = line.get("row") or line["key"]
    return entries


def _parse(line: bytes) -> dict[str, Any] | None:
    """Parse a line of a journal. Return None if the line is not a JSON object."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _count_shards(header: Header) -> int:
    """Return the N of shard I/N, or 0 for a run that is not a shard."""
    return 0 if header["shard"] is None else int(header["shard"].partition("/")[2])


def now() -> str:
    """Return the current time in the form of a header's `started`."""
    return _format_time(datetime.now(UTC))


def _format_time(time: datetime) -> str:
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def start_time(store: Store) -> str:
    """Return the start time for a new run: now, or just after the latest time in a journal if a clock was put back.

    Raises:
        UsageError: The journals cannot be read.
    """
    latest = max((_last_time(header, lines) for header, lines in _read_journals(store)), default="")
    if now() > latest:
        return now()
    return _format_time(datetime.fromisoformat(latest) + timedelta(microseconds=1))


def write_view(run: Run, scratch: Path, observe: Callable[[Row], None] = lambda _: None) -> None:
    """Write `results.jsonl` by way of the folder `scratch`, with a row for each model. Call `observe` with each row.

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
