"""Summaries of runs: counts, and the models that need attention."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sliceport.batch.row import MAX_LISTED, VERDICTS, Row, Verdict, reasons_of
from sliceport.report.table import printable, table, wrap

_VERDICT_WORDS = {
    "error": "with an error",
    "finding": "with findings",
    "memory": "out of memory",
    "timeout": "timed out",
    "crash": "crashed",
}
"""Words for verdicts after a number of models. For other verdicts, the verdict is the word."""


def format_model_count(count: int) -> str:
    """Format a number of models, with the noun.

    >>> format_model_count(1), format_model_count(2000)
    ('1 model', '2,000 models')
    """
    return f"{count:,} model" + "s" * (count != 1)


_PARTS: tuple[Literal["reason", "operator", "engine", "defect"], ...] = ("reason", "operator", "engine", "defect")


class Tally(NamedTuple):
    """A value of a part of findings, and the numbers of models and findings that have it."""

    name: str
    models: int
    findings: int


@dataclass
class Summary:
    """Counts of a run, which grow row by row. At most 20 rows are kept, so memory stays small."""

    models: int = 0
    gap: str = ""
    """Progress of an incomplete run, such as `13 of 120 models` for 13 done models; empty for a complete run."""
    verdicts: Counter[str] = field(default_factory=Counter)
    model_counts: dict[str, Counter[str]] = field(default_factory=lambda: {part: Counter() for part in _PARTS})
    """For each part of a finding, the numbers of models by its value."""
    finding_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The numbers of findings by a part and its value."""
    attention: list[tuple[str, Verdict, str]] = field(default_factory=list)
    """Model, verdict and message of at most 20 models that need attention, the worst first."""

    @classmethod
    def of(cls, rows: Iterable[Row], gap: str = "") -> Summary:
        """Return the summary of all rows. `rows` is read once, so it may be a generator."""
        summary = cls(gap=gap)
        for row in rows:
            summary.add(row)
        return summary

    def add(self, row: Row) -> None:
        """Count one more model."""
        self.models += 1
        self.verdicts[row["verdict"]] += 1
        for part in _PARTS:
            values = [finding[part] for finding in row["findings"] if finding[part]]
            self.model_counts[part].update(set(values))
            self.finding_counts.update((part, value) for value in values)
        if not row["findings"]:  # the cause of a failure is counted as a reason
            self.model_counts["reason"].update(reasons_of(row))
        if row["verdict"] != "clean":
            entry = (row["model"], row["verdict"], row["message"])
            insort(self.attention, entry, key=lambda entry: (VERDICTS.index(entry[1]), entry))  # the worst first
            del self.attention[MAX_LISTED:]

    @property
    def exit_code(self) -> int:
        """Exit code: 2 if a model failed or the run is incomplete, otherwise 1 if a model has findings, otherwise 0."""
        if self.gap:
            return 2
        if self.models == self.verdicts["clean"]:
            return 0
        return 1 if self.models == self.verdicts["clean"] + self.verdicts["finding"] else 2

    def sorted_tallies(self) -> Iterator[tuple[str, list[Tally]]]:
        """Yield each part of findings, such as `operator`, with the counts of its values, the most frequent first."""
        for part, counts in self.model_counts.items():
            tallies = [Tally(name, count, self.finding_counts[part, name]) for name, count in counts.items()]
            yield part, sorted(tallies, key=lambda tally: (-tally.models, -tally.findings, tally.name))

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON data, with at most 20 of the models that need attention."""
        need_attention = self.models - self.verdicts["clean"]
        return {
            "schema_version": 1,
            "models": self.models,
            "incomplete": self.gap or None,
            "exit_code": self.exit_code,
            "verdicts": {verdict: self.verdicts[verdict] for verdict in VERDICTS},
            **{f"{part}s": [tally._asdict() for tally in tallies] for part, tallies in self.sorted_tallies()},
            "attention": [
                {"model": model, "verdict": verdict, "message": message} for model, verdict, message in self.attention
            ],
            "more": need_attention - len(self.attention),
        }

    def text(self, columns: int | None) -> str:
        """Return the counts, and at most 20 models that need attention. Tables and models are wrapped to `columns`."""
        parts = [*([f"incomplete: {self.gap}"] if self.gap else []), self.verdict_line()]
        for part, tallies in self.sorted_tallies():
            if tallies:
                parts.append(_format_tallies(part, tallies, columns))
        if self.attention:
            lines = ["models that need attention:"]
            for model, verdict, message in self.attention:
                lines += wrap(printable(f"  {verdict}  {model}" + (f": {message}" if message else "")), columns)
            parts.append("\n".join(lines + format_more(self.models - self.verdicts["clean"] - len(self.attention))))
        return "\n\n".join(parts)

    def verdict_line(self) -> str:
        """Return the number of all models, and of the models with each verdict, in one line."""
        present = [verdict for verdict in reversed(VERDICTS) if self.verdicts[verdict]]  # clean models first
        counts = [f"{self.verdicts[verdict]:,} {_VERDICT_WORDS.get(verdict, verdict)}" for verdict in present]
        return printable(f"{format_model_count(self.models)}: {', '.join(counts) or 'nothing to do'}")


def _format_tallies(heading: str, tallies: Sequence[Tally], columns: int | None) -> str:
    rows = [(heading, "models", "findings"), *([*map(str, tally)] for tally in tallies[:MAX_LISTED])]
    return "\n".join([table(rows, columns), *format_more(len(tallies) - MAX_LISTED)])


def format_more(count: int) -> list[str]:
    """Return a line about the `count` entries that are not listed, or no line if `count` is not positive.

    >>> format_more(3), format_more(0)
    (['  and 3 more'], [])
    """
    return [f"  and {count:,} more"] if count > 0 else []
