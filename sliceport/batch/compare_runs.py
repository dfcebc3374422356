"""Comparison of two runs over the same models, such as before and after the upgrade of an engine."""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sliceport.batch.row import FAILURES, INFORMATIVE, MAX_LISTED, Header, Row
from sliceport.batch.summary import format_model_count, format_more
from sliceport.commands.outcome import Finding, make_finding
from sliceport.errors import UsageError
from sliceport.report.table import printable, table, wrap

_OF_THE_RUN = frozenset({"against", "command", "on", "reference", "version", "versions"})
"""Fields of a result that state the versions and options of its run, in which two runs may differ."""


class Change(NamedTuple):
    """A package or an option that differs: its version or value in each run, or None for a run that lacks it."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class ModelChange:
    """Change of one model between the two runs.

    Attributes:
        model: The model's name, as the user gave it.
        before: Its verdict in the earlier run.
        after: Its verdict in the later run.
        message: Its message in the later run.
        findings: The new findings, or the fixed ones without their messages. A failure, such as a crash, counts as a
            finding with the verdict as its reason.
        differs: The parts of the row that differ, such as `result`, if no finding is new or fixed.
    """

    model: str
    before: str
    after: str
    message: str
    findings: tuple[Finding, ...] = ()
    differs: tuple[str, ...] = ()


@dataclass
class RunComparison:
    """Differences between two runs. A model can be in both `new` and `fixed`. `same` is the number of equal models."""

    versions: list[Change] = field(default_factory=list)
    options: list[Change] = field(default_factory=list)
    new: list[ModelChange] = field(default_factory=list)
    fixed: list[ModelChange] = field(default_factory=list)
    changed: list[ModelChange] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    same: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether no model that is in both runs has a new finding or failure."""
        return not self.new

    def count_common(self) -> int:
        """Return the number of models that are in both runs."""
        return len({change.model for changes in self.changes().values() for change in changes}) + self.same

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON data."""
        return {
            "schema_version": 1,
            "versions": [{"package": name, "before": before, "after": after} for name, before, after in self.versions],
            "options": [{"option": name, "before": before, "after": after} for name, before, after in self.options],
            "summary": self.counts(),
            **{kind: [asdict(change) for change in changes] for kind, changes in self.changes().items()},
            "added": self.added,
            "removed": self.removed,
        }

    def changes(self) -> dict[str, list[ModelChange]]:
        """Return the models of both runs that changed, by kind of change."""
        return {"new": self.new, "fixed": self.fixed, "changed": self.changed}

    def counts(self) -> dict[str, int]:
        """Return the number of models by kind of change. A model with both new and fixed findings counts twice."""
        counts = {kind: len(changes) for kind, changes in self.changes().items()}
        return {**counts, "same": self.same, "added": len(self.added), "removed": len(self.removed)}

    def text(self, columns: int | None) -> str:
        """Return versions, options, counts and at most 20 models of each kind. Wrap lines unless `columns` is None."""
        parts = [] if self.versions else ["\n".join(wrap("Both runs have the same versions of all packages.", columns))]
        for heading, differences in (("package", self.versions), ("option", self.options)):
            if differences:
                rows = [(name, show_value(before), show_value(after)) for name, before, after in differences]
                parts.append(table([(heading, "before", "after"), *rows], columns))
        kinds = [f"{count:,} {name}" for name, count in self.counts().items()]
        counts = f"{', '.join(kinds[:4])}; {', '.join(kinds[4:])}"  # added and removed models are in one run only
        parts.append("\n".join(wrap(f"{format_model_count(self.count_common())} in both runs: {counts}", columns)))
        parts += [_format_changes(kind, changes, columns) for kind, changes in self.changes().items() if changes]
        for title, models in (("added", self.added), ("removed", self.removed)):
            if models:
                lines = [line for model in models[:MAX_LISTED] for line in wrap(f"  {printable(model)}", columns)]
                parts.append("\n".join([f"{title}:", *lines, *format_more(len(models) - MAX_LISTED)]))
        return "\n\n".join(parts)


def describe_finding(finding: Finding) -> str:
    """Format a finding on one line. Leave out the node, engine or defect that its message names.

    The operator is left out together with the node.
    """
    message, node, engine, defect = (finding[part] for part in ("message", "node", "engine", "defect"))
    parts = [finding["reason"]]
    # Only the quoted name counts, because a name may be a single letter, which occurs in any message.
    if not node or (f"'{node}'" not in message and repr(node) not in message):
        parts += [finding["operator"], node and f"'{node}'"]
    if engine and engine not in re.findall(r"[\w-]+", message):  # whole words, not a part of another engine's name
        parts.append(f"on {engine}")
    if defect and defect not in message:
        parts.append(f"({defect})")
    line = " ".join(filter(None, parts))
    return printable(f"{line}: {message}" if message else line)


def _format_changes(title: str, changes: list[ModelChange], columns: int | None) -> str:
    lines = [f"{title}:"]
    for change in changes[:MAX_LISTED]:
        verdicts = change.after if change.before == change.after else f"{change.before} to {change.after}"
        differs = f"; other {' and '.join(change.differs).replace('_', ' ')}" if change.differs else ""
        lines += wrap(f"  {printable(change.model)}: {verdicts}{differs}", columns)
        for each in change.findings[:MAX_LISTED]:
            lines += wrap(f"    {describe_finding(each)}", columns)
        lines += [f"  {line}" for line in format_more(len(change.findings) - MAX_LISTED)]
    return "\n".join(lines + format_more(len(changes) - MAX_LISTED))


def show_value(value: Any) -> str:
    """Return a version, or the value of an option, as text; `-` for None.

    >>> show_value("6.4"), show_value([1, 2]), show_value(None)
    ('6.4', '[1, 2]', '-')
    """
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


def compare_runs(rows_a: Iterable[Row], rows_b: Iterable[Row], headers: tuple[Header, Header]) -> RunComparison:
    """Compare two runs of one command, model by model.

    `rows_a` and the first header are those of the earlier run. Each run has one row per model, sorted by model; the
    rows are read one by one. Two findings are the same if they have the same reason, operator, engine, defect and node.
    If a model has no new or fixed finding, the parts of its rows are compared, without the fields of the result that
    state the versions of the run, or options that differ between the runs.

    Raises:
        UsageError: The runs are of different commands, or both have models, but none in common.
    """
    earlier, later = headers
    if earlier["command"] != later["command"]:
        raise UsageError(f"the runs are of different commands, {earlier['command']} and {later['command']}.")
    versions = _list_differences(earlier["versions"], later["versions"])
    options = _list_differences(earlier["options"], later["options"])
    comparison = RunComparison(versions, options)
    left_out = _OF_THE_RUN.union(change.name for change in options)
    entries_a = ((row["model"], 0, row) for row in rows_a)
    entries_b = ((row["model"], 1, row) for row in rows_b)
    # The key leaves out the row, because Python cannot order dictionaries.
    for model, pair in groupby(heapq.merge(entries_a, entries_b, key=itemgetter(0, 1)), itemgetter(0)):
        rows_by_run = {number: row for _, number, row in pair}
        if len(rows_by_run) == 2:
            _compare_row(comparison, rows_by_run[0], rows_by_run[1], left_out)
        else:
            (comparison.removed if 0 in rows_by_run else comparison.added).append(model)
    if comparison.removed and comparison.added and not comparison.count_common():
        raise UsageError(
            f"the runs have no model in common: {comparison.removed[0]!r} is only in the earlier run, and "
            f"{comparison.added[0]!r} only in the later one; give runs over the same sources."
        )
    return comparison


def _compare_row(comparison: RunComparison, before: Row, after: Row, left_out: Set[str]) -> None:
    """Compare the rows of one model. Add it to `new`, `fixed` or both, or else to `changed` or `same`."""
    unmatched = Counter(map(_identify, _list_problems(before)))  # the loop removes each problem that both runs have
    new = []
    for problem in _list_problems(after):
        if unmatched[_identify(problem)]:
            unmatched[_identify(problem)] -= 1
        else:
            new.append(problem)
    # A model that fails now, or is untested, is not fixed: it may still have its earlier findings.
    gone = () if after["verdict"] in (*FAILURES, "untested") else unmatched.elements()
    fixed = [make_finding(**dict(key)) for key in gone]
    change = ModelChange(after["model"], before["verdict"], after["verdict"], after["message"])
    if new:
        comparison.new.append(replace(change, findings=tuple(new)))
    if fixed:
        comparison.fixed.append(replace(change, findings=tuple(fixed)))
    if not new and not fixed:
        parts, later_parts = _select_parts(before, left_out), _select_parts(after, left_out)
        differing = tuple(name for name, part in parts.items() if part != later_parts[name])
        if differing or before["verdict"] != after["verdict"]:
            comparison.changed.append(replace(change, differs=differing))
        else:
            comparison.same += 1


def _list_problems(row: Row) -> list[Finding]:
    """Return the findings of a model, without those that only inform. Return an empty list for a clean model.

    If the model failed, or if no finding remains, add a finding with the verdict as its reason.
    """
    if row["verdict"] == "clean":
        return []
    problems = [each for each in row["findings"] if each["reason"] not in INFORMATIVE]
    if row["verdict"] in FAILURES or not problems:
        problems.append(make_finding(row["verdict"], message=row["message"]))
    return problems


def _identify(problem: Finding) -> tuple[tuple[str, str], ...]:
    """Return the fields that identify a finding in both runs: all but its message."""
    return tuple(sorted((name, str(text)) for name, text in problem.items() if name != "message"))


def _select_parts(row: Row, left_out: Set[str]) -> dict[str, Any]:
    """Return the parts of a row that must be equal in both runs, without the fields in `left_out`."""
    return {
        # The message of a model that did not fail repeats its findings or its result.
        "message": row["message"] if row["verdict"] in FAILURES else "",
        "findings": sorted(row["findings"], key=lambda finding: sorted(finding.items())),
        "input_shapes": row.get("input_shapes"),
        "result": _leave_out(row["result"], left_out),
    }


def _leave_out(data: Any, names: Set[str]) -> Any:
    """Copy JSON data without the fields that have one of the names."""
    if isinstance(data, dict):
        return {name: _leave_out(value, names) for name, value in data.items() if name not in names}
    return [_leave_out(value, names) for value in data] if isinstance(data, list) else data


def _list_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    changes = [Change(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
    return [change for change in changes if change.before != change.after]
