"""A run as a Parquet file, for tools that query tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sliceport.batch.row import Row, reasons_of
from sliceport.errors import MissingExtra
from sliceport.sandbox.place import write_files

_MAX_ROWS = 1000
_MAX_SIZE = 2**24
"""Characters of results in a row group, which is what memory is needed for."""

_TEXTS = ("model", "key", "command", "verdict", "message")
_LISTS = ("reasons", "operators", "engines", "defects")


def write_parquet(rows: Iterable[Row], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a row a model: texts, the number of findings, lists of what they name, and the result as JSON text.

    The columns are `model`, `key`, `command`, `verdict`, `message` (strings), `findings` (int64), `reasons`,
    `operators`, `engines`, `defects` (lists of strings, each once), `result` (a string, or null). The file is written
    group by group, beside, and renamed into place. A lone surrogate, which Parquet cannot hold, is escaped.

    Args:
        rows: Those of the run, which are read once.
        path: The file.
        overwrite: Whether to replace a file that exists.

    Raises:
        MissingExtra: pyarrow is not installed.
        UsageError: The file exists and is to be kept, or cannot be written.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra.of("pyarrow", "parquet", "by --parquet") from None

    text = pyarrow.string()
    schema = pyarrow.schema(
        [
            *((name, text) for name in _TEXTS),
            ("findings", pyarrow.int64()),
            *((name, pyarrow.list_(text)) for name in _LISTS),
            ("result", text),
        ]
    )
    file = Path(path)

    def write(folder: Path) -> None:
        with pyarrow.parquet.ParquetWriter(folder / file.name, schema, compression="zstd") as writer:
            for group in _groups(rows):
                writer.write_table(pyarrow.Table.from_pylist(group, schema))

    write_files([file], write, overwrite=overwrite)


def _groups(rows: Iterable[Row]) -> Iterator[list[dict[str, Any]]]:
    """The lines of the table, as many at a time as make a row group."""
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(_flatten(row))
        size += len(group[-1]["result"] or "")
        if len(group) == _MAX_ROWS or size >= _MAX_SIZE:
            yield group
            group, size = [], 0
    if group:
        yield group


def _flatten(row: Row) -> dict[str, Any]:
    findings, result = row["findings"], row["result"]
    return {
        **{name: _encodable(row[name]) for name in _TEXTS},  # type: ignore[literal-required]
        "findings": len(findings),
        "reasons": [_encodable(reason) for reason in reasons_of(row)],
        "operators": _names(finding["operator"] for finding in findings),
        "engines": _names(finding["engine"] for finding in findings),
        "defects": _names(finding["defect"] for finding in findings),
        "result": None if result is None else json.dumps(result),
    }


def _names(names: Iterable[str]) -> list[str]:
    return sorted({_encodable(name) for name in names if name})


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
