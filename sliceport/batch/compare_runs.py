"""Comparison of two runs over the same models, such as before and after the upgrade of an engine."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from sys import intern
from typing import Any, NamedTuple

from sliceport.batch.row import FAILURES, INFORMATIVE, MAX_LISTED, Header, Row
from sliceport.batch.summary import count_models, count_more
from sliceport.commands.outcome import Finding
from sliceport.errors import UsageError
from sliceport.report.table import printable, table, wrap

Key = tuple[str, str, str, str, str]
"""Reason, operator, engine, defect and node, which identify a finding in both runs."""

_Mask = Callable[[str], str]
"""Removes the versions and options of a run from a text, so that the texts of two runs can be compared."""
_PARTS = ("message", "findings", "input_shapes", "result")


class Change(NamedTuple):
    """A package or an option with different versions or values in the two runs. None stands for a missing one."""

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
    """Differences between two runs. A model can be in both `new` and `fixed`; `same` counts the equal models."""

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
        """Whether no model of both runs has a new finding or failure."""
        return not self.new

    def count_common(self) -> int:
        """Return the number of models of both runs."""
        return len({change.model for change in (*self.new, *self.fixed, *self.changed)}) + self.same

    def to_json(self) -> dict[str, Any]:
        """Return the JSON data."""
        return {
            "schema_version": 1,
            "versions": [{"package": name, "before": before, "after": after} for name, before, after in self.versions],
            "options": [{"option": name, "before": before, "after": after} for name, before, after in self.options],
            "summary": self.counts(),
            "new": [asdict(change) for change in self.new],
            "fixed": [asdict(change) for change in self.fixed],
            "changed": [asdict(change) for change in self.changed],
            "added": self.added,
            "removed": self.removed,
        }

    def counts(self) -> dict[str, int]:
        """Count the models that are new, fixed, changed, added, removed and same."""
        counts = {name: len(getattr(self, name)) for name in ("new", "fixed", "changed", "added", "removed")}
        return {**counts, "same": self.same}

    def text(self, columns: int | None) -> str:
        """Return lines wrapped to `columns`: versions, options, counts, and at most 20 models of each kind."""
        parts = []
        for word, differences in (("package", self.versions), ("option", self.options)):
            if differences:
                rows = [(name, show_value(before), show_value(after)) for name, before, after in differences]
                parts.append(table([(word, "before", "after"), *rows], columns))
            elif word == "package":
                parts.append("Both runs have the same versions of all packages.")
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts().items())
        parts.append(f"{count_models(self.count_common())} in both runs: {counts}")
        for title, changes in (("new", self.new), ("fixed", self.fixed), ("changed", self.changed)):
            if changes:
                parts.append(_format_changes(title, changes, columns))
        for title, models in (("added", self.added), ("removed", self.removed)):
            if models:
                lines = [line for model in models[:MAX_LISTED] for line in wrap(f"  {printable(model)}", columns)]
                parts.append("\n".join([f"{title}:", *lines, *count_more(len(models) - MAX_LISTED)]))
        return "\n\n".join(parts)


def describe_finding(finding: Finding) -> str:
    """Format a finding on one line, adding any field that its message omits."""
    message = finding["message"]
    parts = [finding["reason"]]
    if not finding["node"] or finding["node"] not in message:
        parts += [finding["operator"], finding["node"] and f"'{finding['node']}'"]
    if finding["engine"] and finding["engine"] not in message:
        parts.append(f"on {finding['engine']}")
    if finding["defect"] and finding["defect"] not in message:
        parts.append(f"({finding['defect']})")
    line = " ".join(filter(None, parts))
    return printable(f"{line}: {message}" if message else line)


def _format_changes(title: str, changes: list[ModelChange], columns: int | None) -> str:
    lines = [f"{title}:"]
    for change in changes[:MAX_LISTED]:
        verdicts = change.after if change.before == change.after else f"{change.before} to {change.after}"
        differs = f"; other {' and '.join(change.differs).replace('_', ' ')}" if change.differs else ""
        lines += wrap(f"  {printable(change.model)}: {verdicts}{differs}", columns)
        for finding in change.findings[:MAX_LISTED]:
            lines += wrap(f"    {describe_finding(finding)}", columns)
        lines += [f"  {line}" for line in count_more(len(change.findings) - MAX_LISTED)]
    return "\n".join(lines + count_more(len(changes) - MAX_LISTED))


def show_value(value: Any) -> str:
    """Return the value of an option as text; `-` for None.

    >>> show_value("6.4"), show_value([1, 2]), show_value(None)
    ('6.4', '[1, 2]', '-')
    """
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)


def compare_runs(rows_a: Iterable[Row], rows_b: Iterable[Row], headers: tuple[Header, Header]) -> RunComparison:
    """Compare two runs of one command, model by model.

    Two findings are the same if their reason, operator, engine, defect and node are. Only digests and findings of the
    earlier run are kept in memory, and the later run is read row by row. Versions and options that differ between the
    runs are masked in the rows, so that a row does not differ because it names them.

    Args:
        rows_a: The rows of the earlier run, one a model, sorted by model.
        rows_b: The rows of the later run, likewise.
        headers: The headers of the two runs.

    Raises:
        UsageError: The runs are of different commands, or both have models, but none in common.
    """
    first, second = headers
    if first["command"] != second["command"]:
        raise UsageError(f"the runs are of different commands, {first['command']} and {second['command']}.")
    versions = _list_differences(first["versions"], second["versions"])
    options = _list_differences(first["options"], second["options"])
    comparison = RunComparison(versions, options)
    upgrades = [change for change in versions if change.before and change.after]
    masks = (
        _make_mask([change.before for change in upgrades], {change.name: change.before for change in options}),
        _make_mask([change.after for change in upgrades], {change.name: change.after for change in options}),
    )
    earlier = {}
    for row in rows_a:
        problems = tuple(map(_key_of, _list_problems(row)))
        earlier[row["model"]] = _EarlierRow(intern(row["verdict"]), problems, _digest_parts(row, masks[0]))
    for row in rows_b:
        before = earlier.pop(row["model"], None)
        if before is None:
            comparison.added.append(row["model"])
        else:
            _compare_row(comparison, before, row, _digest_parts(row, masks[1]))
    if earlier and comparison.added and not comparison.count_common():
        raise UsageError(
            f"the runs have no model in common, such as {comparison.added[0]!r}; give runs over the same sources."
        )
    comparison.removed += earlier
    return comparison


@dataclass(frozen=True, slots=True)
class _EarlierRow:
    """Digests and findings of a row of the earlier run, small whatever the size of its result."""

    verdict: str
    problems: tuple[Key, ...]
    digests: tuple[bytes, ...]


def _compare_row(comparison: RunComparison, before: _EarlierRow, row: Row, digests: tuple[bytes, ...]) -> None:
    """Compare the rows of one model, and add what changed to the comparison."""
    fixed_keys = Counter(before.problems)
    new = []
    for finding in _list_problems(row):
        if fixed_keys[_key_of(finding)]:
            fixed_keys[_key_of(finding)] -= 1
        else:
            new.append(finding)
    # A model that fails now may still have its earlier findings.
    fixed = [] if row["verdict"] in FAILURES else [_make_finding(key) for key in fixed_keys.elements()]
    change = ModelChange(row["model"], before.verdict, row["verdict"], row["message"])
    if new:
        comparison.new.append(replace(change, findings=tuple(new)))
    if fixed:
        comparison.fixed.append(replace(change, findings=tuple(fixed)))
    if not new and not fixed:
        digests_of_parts = zip(_PARTS, before.digests, digests, strict=True)
        differing = tuple(part for part, earlier, later in digests_of_parts if earlier != later)
        if differing or row["verdict"] != before.verdict:
            comparison.changed.append(replace(change, differs=differing))
        else:
            comparison.same += 1


def _list_problems(row: Row) -> list[Finding]:
    """Return the findings of a model that is not clean, without the informative ones.

    A model that failed, or has no such finding, gets one for its verdict.
    """
    problems = [finding for finding in row["findings"] if finding["reason"] not in INFORMATIVE]
    if row["verdict"] == "clean":
        return []
    if row["verdict"] in FAILURES or not problems:
        failure = (row["verdict"], "", "", "", "")
        problems = [*problems, _make_finding(failure) | {"message": row["message"]}]
    return problems


def _key_of(finding: Finding) -> Key:
    reason, operator, engine, defect = (intern(finding[part]) for part in ("reason", "operator", "engine", "defect"))
    return reason, operator, engine, defect, finding["node"]


def _make_finding(key: Key) -> Finding:
    reason, operator, engine, defect, node = key
    return {"reason": reason, "operator": operator, "engine": engine, "defect": defect, "node": node, "message": ""}


def _digest_parts(row: Row, mask: _Mask) -> tuple[bytes, ...]:
    """Return a digest of each part of a row, in the order of `_PARTS`. The order of findings makes no difference."""
    parts: dict[str, Any] = {**row, "findings": sorted(row["findings"], key=lambda finding: sorted(finding.items()))}
    texts = (mask(json.dumps(parts.get(part), sort_keys=True)) for part in _PARTS)
    return tuple(blake2b(text.encode(), digest_size=8).digest() for text in texts)


def _list_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    changes = [Change(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
    return [change for change in changes if change.before != change.after]


def _make_mask(versions: Iterable[str | None], options: Mapping[str, Any]) -> _Mask:
    """Return a function that masks the versions and options of a run in JSON text.

    A version may be followed by the suffix of a build. A number without a dot is not masked, because it could mean
    anything. An option is masked as a key of JSON and on a command line.
    """
    version_patterns = []
    for version in sorted({version for version in versions if version and "." in version}, key=len, reverse=True):
        escaped = re.escape(version)  # stands first, so that the search for it is fast
        version_patterns.append(
            (version, re.compile(rf"{escaped}(?<![\w.]{escaped})(?:[-+][\w/+-]+(?:\.[\w/+-]+)*)?(?!\w|\.\d)"))
        )
    option_patterns = []
    for option, value in options.items():
        flag = re.escape(option.replace("_", "-"))
        key = rf'"{re.escape(option)}": {re.escape(json.dumps(value, sort_keys=True))}(?=[,}}])'
        # A value of a shell ends at a space, unless it is quoted; JSON escapes the quotes.
        option_patterns.append(
            re.compile(rf""",? ?{key}|(?<!\S) ?--{flag}(?: (?:'[^']*'|[^\s"\\-][^\s"\\]*))?(?=[\s"\\]|$)""")
        )

    def mask(text: str) -> str:
        for version, pattern in version_patterns:
            if version in text:
                text = pattern.sub("{version}", text)
        for pattern in option_patterns:
            text = pattern.sub("", text)
        return text

    return mask
