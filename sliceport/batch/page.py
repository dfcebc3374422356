"""The page of a run: one HTML file with all models, to filter, search and open. It loads no other file."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from sliceport.batch.compare_runs import RunComparison, describe_finding, show_value
from sliceport.batch.result import map_texts
from sliceport.batch.row import MAX_LISTED, MEANINGS, VERDICTS, Header, Row, reasons_of
from sliceport.batch.summary import Summary
from sliceport.report.page import open_template, read_text
from sliceport.report.table import printable

_CHUNK = 2**18
"""Number of characters of findings and results after which a chunk is compressed, and the next chunk begins."""
_CHANGES = ("new", "fixed", "changed", "added", "same")


def render_page(header: Header, rows: Iterable[Row], comparison: RunComparison | None = None, gap: str = "") -> str:
    """Return the page of a run as one HTML file. It also shows the comparison with an earlier run, if given.

    The rows, in any order, are read once. The page holds the data of the table as one compressed block of JSON. Chunks
    hold findings and results, and the browser unpacks a chunk when the user opens a model in it. `gap` is the result of
    `Run.describe_gap`.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    template = open_template(
        "batch/page.html",
        finding=describe_finding,
        fragment=lambda model: quote(printable(model), safe=""),
        value=show_value,
    )
    data = _Data(_changes_by_model(comparison) if comparison is not None else None)
    for row in rows:
        data.add(row)
    return template.render(
        header=header,
        comparison=comparison,
        gap=gap,
        verdicts=[(verdict, MEANINGS[verdict]) for verdict in VERDICTS if data.summary.verdicts[verdict]],
        listed=MAX_LISTED,
        title=f"sliceport {header['command']}: {' '.join(header['sources'])}",
        summary_line=data.summary.verdict_line(),
        script=read_text("batch/page.js"),
        index=data.pack_table(),
        chunks=data.chunks(),
    )


@dataclass
class _Data:
    """Data of the page. Details of models are compressed as they are added, so that memory stays small."""

    changes: dict[str, list[str]] | None
    """The kinds of change of each model since the earlier run; None without an earlier run."""
    summary: Summary = field(default_factory=Summary)
    _change_counts: Counter[str] = field(default_factory=Counter)
    _rows: list[tuple[bool, int, str, str]] = field(default_factory=list)
    """Sort keys and JSON of each row. The keys: whether no finding is new, the number of the verdict, and the model."""
    _starts: list[int] = field(default_factory=list)
    """The number of the first model of each chunk."""
    _chunks: list[str] = field(default_factory=list)
    _details: list[str] = field(default_factory=list)
    _size: int = 0

    def add(self, row: Row) -> None:
        """Add the row of a model to the table, and its details to the current chunk."""
        number = self.summary.models
        self.summary.add(row)
        findings = row["findings"]
        # `self.changes` has no entry for a model that is the same in both runs.
        changes = [] if self.changes is None else self.changes.get(row["model"], ["same"])
        operators, engines, defects, nodes = (
            sorted({finding[part] for finding in findings} - {""}) for part in ("operator", "engine", "defect", "node")
        )
        # The groups are in the order of the filters in `pack_table`, which has no filter for nodes.
        groups = [changes, reasons_of(row), [row["verdict"]], operators, engines, defects]
        table_row = {
            "at": number,
            "model": printable(row["model"]),
            "message": printable(row["message"]),
            "count": len(findings),
            "nodes": map_texts(nodes, printable),
            "groups": map_texts(groups, printable),
        }
        self._change_counts.update(changes)
        self._rows.append(("new" not in changes, VERDICTS.index(row["verdict"]), row["model"], _json(table_row)))
        if not self._details:
            self._starts.append(number)
        self._details.append(_json(_build_detail(row)))
        self._size += len(self._details[-1])
        if self._size >= _CHUNK:
            self._close_chunk()

    def pack_table(self) -> str:
        """Return the packed data of the table: the values to filter by, the first model of each chunk, and the rows."""
        groups: dict[str, dict[str, int]] = {
            "Since the earlier run": {
                word: self._change_counts[word] for word in _CHANGES if self._change_counts[word]
            },
            "Reason": {},  # filled below; listed here, because the page shows reasons before verdicts
            "Verdict": {word: self.summary.verdicts[word] for word in VERDICTS if self.summary.verdicts[word]},
        }
        for part, tallies in self.summary.sorted_tallies():
            groups[part.capitalize()] = {printable(tally.name): tally.models for tally in tallies}
        filters = [
            {"title": title, "names": list(models), "largest": max(models.values(), default=0)}
            for title, models in groups.items()
        ]
        rows = ",".join(row[-1] for row in sorted(self._rows))
        return _pack(f'{{"groups":{_json(filters)},"starts":{_json(self._starts)},"rows":[{rows}]}}')

    def chunks(self) -> Sequence[str]:
        """Close the last chunk, and return all chunks: the packed details of the models."""
        if self._details:
            self._close_chunk()
        return self._chunks

    def _close_chunk(self) -> None:
        self._chunks.append(_pack(f"[{','.join(self._details)}]"))
        self._details.clear()
        self._size = 0


def _build_detail(row: Row) -> dict[str, Any]:
    """Return the details of a row. `result` is JSON as text, so that no browser rounds numbers beyond 2**53."""
    shapes, result = row.get("input_shapes"), row["result"]
    parts = ("reason", "operator", "engine", "defect", "node", "message")
    lines = [] if result is None else json.dumps(result, ensure_ascii=False, indent=1).split("\n")
    facts = {
        "Key": row["key"],
        "Input shapes": json.dumps(shapes, ensure_ascii=False) if shapes else "",
        "Output": row.get("output", ""),
    }
    return {
        "facts": [[name, printable(value)] for name, value in facts.items() if value],
        "findings": [[printable(finding[part]) for part in parts] for finding in row["findings"]],  # type: ignore[literal-required]
        "stderr": "\n".join(map(printable, row.get("stderr", []))),
        "result": "\n".join(map(printable, lines)),
    }


def _changes_by_model(comparison: RunComparison) -> dict[str, list[str]]:
    """Map each model that is changed or added since the earlier run to its kinds of change."""
    kinds: dict[str, list[str]] = {}
    for word, changes in comparison.changes().items():
        for change in changes:
            kinds.setdefault(change.model, []).append(word)
    return kinds | {model: ["added"] for model in comparison.added}


def _json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def _pack(text: str) -> str:
    """Compress ASCII text and encode it as base64, so that none of it can be taken for markup."""
    return base64.b64encode(gzip.compress(text.encode("ascii"), 6, mtime=0)).decode("ascii")  # mtime=0: no time stamp
