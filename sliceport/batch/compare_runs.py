"""Two runs over the same models, such as before and after an engine's upgrade: what is new, fixed or changed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from sys import intern
from typing import Any, NamedTuple

from sliceport.batch.row import FAILURES, INFORMATIVE, MAX_LISTED, Header, Row
from sliceport.batch.summary import count_models, fold, more
from sliceport.commands.outcome import Finding
from sliceport.errors import UsageError
from sliceport.report.table import printable, table

Key = tuple[str, str, str, str, str]
"""Reason, operator, engine, defect and node, which identify a finding in both runs."""

_Mask = Callable[[str], str]
_PARTS = ("message", "findings", "input_shapes", "result")
_DIGEST_SIZE = 8


class Change(NamedTuple):
    """A package or an option that the two runs had in different versions or values; None if a run was without it."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class ModelChange:
    """Change of one model between the two runs.

    Attributes:
        model: As the user gave it.
        before: Its verdict in the earlier run.
        after: Its verdict in the later run.
        message: Its message in the later run.
        findings: The new findings, or the fixed ones without their messages. A failure, such as a crash, counts as a
            finding with the verdict as its reason.
        differs: For a model that is only changed, the parts of the row that differ, such as `result`.
    """

    model: str
    before: str
    after: str
    message: str
    findings: tuple[Finding, ...] = ()
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunComparison:
    """Differences between two runs. A model can be among the new and the fixed ones; `same` counts the equal ones."""

    versions: tuple[Change, ...] = ()
    options: tuple[Change, ...] = ()
    new: tuple[ModelChange, ...] = ()
    fixed: tuple[ModelChange, ...] = ()
    changed: tuple[ModelChange, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    same: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether no model of both runs has a finding or failure that it had not before."""
        return not self.new

    def to_json(self) -> dict[str, Any]:
        """Return the JSON data."""
        parts = asdict(self)
        del parts["same"]
        for name, word in (("versions", "package"), ("options", "option")):
            parts[name] = [{word: one.name, "before": one.before, "after": one.after} for one in getattr(self, name)]
        return {"schema_version": 1, "versions": parts.pop("versions"), "options": parts.pop("options")} | {
            "summary": self.counts(),
            **parts,
        }

    def counts(self) -> dict[str, int]:
        """Count the models that are new, fixed, changed, added, removed and same."""
        counts = {name: len(getattr(self, name)) for name in ("new", "fixed", "changed", "added", "removed")}
        return {**counts, "same": self.same}

    def text(self, columns: int | None) -> str:
        """Return lines as wide as `columns`: versions, counts, and at most 20 models of each kind."""
        parts = []
        for word, differences in (("package", self.versions), ("option", self.options)):
            if differences:
                rows = [(one.name, show_value(one.before), show_value(one.after)) for one in differences]
                parts.append(table([(word, "before", "after"), *rows], columns))
            elif word == "package":
                parts.append("Both runs have the same versions of all packages.")
        counts = self.counts()
        total = count_models(len({one.model for one in (*self.new, *self.fixed, *self.changed)}) + self.same)
        parts.append(f"{total} in both runs: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()))
        for title, changes in (("new", self.new), ("fixed", self.fixed), ("changed", self.changed)):
            if changes:
                parts.append(_section(title, changes, columns))
        for title, models in (("added", self.added), ("removed", self.removed)):
            if models:
                lines = [line for model in models[:MAX_LISTED] for line in fold(f"  {model}", columns)]
                parts.append("\n".join([f"{title}:", *lines, *more(len(models) - MAX_LISTED)]))
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


def _section(title: str, changes: tuple[ModelChange, ...], columns: int | None) -> str:
    lines = [f"{title}:"]
    for change in changes[:MAX_LISTED]:
        verdicts = change.after if change.before == change.after else f"{change.before} to {change.after}"
        differs = f"; other {' and '.join(change.differs).replace('_', ' ')}" if change.differs else ""
        lines += fold(f"  {change.model}: {verdicts}{differs}", columns)
        for finding in change.findings[:MAX_LISTED]:
            lines += fold(f"    {describe_finding(finding)}", columns)
        lines += [f"  {line}" for line in more(len(change.findings) - MAX_LISTED)]
    return "\n".join(lines + more(len(changes) - MAX_LISTED))


def show_value(value: Any) -> str:
    """Return the value of an option as text; `-` for None.

    >>> show_value("6.4"), show_value([1, 2]), show_value(None)
    ('6.4', '[1, 2]', '-')
    """
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)


def compare_runs(
    rows_a: Iterable[Row], rows_b: Iterable[Row], headers: tuple[Header, Header] | None = None
) -> RunComparison:
    """Compare two runs of one command, model by model.

    A finding is the same in both by its reason, operator, engine, defect and node. Of the earlier run, only digests and
    findings are kept, and the later one is read row by row. A result that names a changed
    version does not differ by that.

    Args:
        rows_a: The rows of the earlier run, one a model.
        rows_b: The rows of the later run, one a model.
        headers: The headers of the two runs.

    Raises:
        UsageError: The runs are of different commands, or have no model in common.
    """
    masks: tuple[_Mask, _Mask] = (_mask_nothing, _mask_nothing)
    versions: tuple[Change, ...] = ()
    options: tuple[Change, ...] = ()
    if headers is not None:
        first, second = headers
        if first["command"] != second["command"]:
            raise UsageError(f"the runs are of different commands, {first['command']} and {second['command']}.")
        versions = _list_changes(first["versions"], second["versions"])
        options = _list_changes(first["options"], second["options"])
        upgraded = [one for one in versions if one.before and one.after]
        masks = (
            _make_mask([one.before for one in upgraded], {one.name: one.before for one in options}),
            _make_mask([one.after for one in upgraded], {one.name: one.after for one in options}),
        )
    earlier = {row["model"]: _Earlier.of(row, masks[0]) for row in rows_a}
    found = _compare_rows(earlier, rows_b, masks[1])
    if earlier and found.added and not found.common:
        raise UsageError(
            f"the runs have no model in common, such as {found.added[0]!r}; give runs over the same sources."
        )
    return RunComparison(
        versions=versions,
        options=options,
        new=_by_model(found.new),
        fixed=_by_model(found.fixed),
        changed=_by_model(found.changed),
        added=tuple(sorted(found.added)),
        removed=tuple(sorted(set(earlier) - found.common)),
        same=found.same,
    )


def _by_model(changes: Iterable[ModelChange]) -> tuple[ModelChange, ...]:
    return tuple(sorted(changes, key=lambda change: change.model))


@dataclass(frozen=True, slots=True)
class _Earlier:
    """Digests and findings of a row of the earlier run, small whatever the size of its result."""

    verdict: str
    problems: tuple[Key, ...]
    digests: bytes

    @classmethod
    def of(cls, row: Row, mask: _Mask) -> _Earlier:
        return cls(intern(row["verdict"]), tuple(_key(finding) for finding in _problems(row)), _digests(row, mask))


@dataclass
class _Found:
    new: list[ModelChange] = field(default_factory=list)
    fixed: list[ModelChange] = field(default_factory=list)
    changed: list[ModelChange] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    common: set[str] = field(default_factory=set)
    same: int = 0


def _compare_rows(earlier: Mapping[str, _Earlier], rows: Iterable[Row], mask: _Mask) -> _Found:
    found = _Found()
    for row in rows:
        before = earlier.get(row["model"])
        if before is None:
            found.added.append(row["model"])
            continue
        found.common.add(row["model"])
        left = Counter(before.problems)
        new = []
        for finding in _problems(row):
            if left[_key(finding)]:
                left[_key(finding)] -= 1
            else:
                new.append(finding)
        # Where a model fails, nothing is known of what it had before.
        fixed = [] if row["verdict"] in FAILURES else [_finding(key) for key in left.elements()]
        digests = _digests(row, mask)

        def change(*findings: Finding, before: _Earlier = before, row: Row = row, **rest: Any) -> ModelChange:
            return ModelChange(row["model"], before.verdict, row["verdict"], row["message"], findings, **rest)

        if new:
            found.new.append(change(*new))
        if fixed:
            found.fixed.append(change(*fixed))
        if not new and not fixed:
            if digests == before.digests and row["verdict"] == before.verdict:
                found.same += 1
            else:
                found.changed.append(change(differs=_differing(before.digests, digests)))
    return found


def _problems(row: Row) -> list[Finding]:
    """Return the findings of a model, without the informative ones, and its failure."""
    problems = [finding for finding in row["findings"] if finding["reason"] not in INFORMATIVE]
    if row["verdict"] == "clean":
        return []
    if row["verdict"] in FAILURES or not problems:
        failure = (row["verdict"], "", "", "", "")
        problems = [*problems, _finding(failure) | {"message": row["message"]}]
    return problems


def _key(finding: Finding) -> Key:
    reason, operator, engine, defect = (intern(finding[part]) for part in ("reason", "operator", "engine", "defect"))
    return reason, operator, engine, defect, finding["node"]


def _finding(key: Key) -> Finding:
    reason, operator, engine, defect, node = key
    return {"reason": reason, "operator": operator, "engine": engine, "defect": defect, "node": node, "message": ""}


def _digests(row: Row, mask: _Mask) -> bytes:
    """Return a digest of each part of a row, in the order of `_PARTS`. The order of findings makes no difference."""
    parts: dict[str, Any] = {**row, "findings": sorted(row["findings"], key=lambda one: sorted(one.items()))}
    digests = b""
    for part in _PARTS:
        text = mask(json.dumps(parts.get(part), sort_keys=True))
        digests += blake2b(text.encode(), digest_size=_DIGEST_SIZE).digest()
    return digests


def _differing(before: bytes, after: bytes) -> tuple[str, ...]:
    starts = range(0, len(before), _DIGEST_SIZE)
    pairs = zip(_PARTS, starts, strict=True)
    return tuple(part for part, at in pairs if before[at : at + _DIGEST_SIZE] != after[at : at + _DIGEST_SIZE])


def _list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    pairs = [Change(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
    return tuple(pair for pair in pairs if pair.before != pair.after)


def _mask_nothing(text: str) -> str:
    """Return the text of a row as it is: the runs have no headers, so no version or option is known to differ."""
    return text


def _make_mask(versions: Iterable[str | None], options: Mapping[str, Any]) -> _Mask:
    """Return a function that masks the versions and options of a run in JSON text.

    A version may have a build's suffix; a number alone is not one. An option is masked where the text names it, as a
    key or on a command line.
    """
    patterns = []
    for version in sorted({one for one in versions if one and "." in one}, key=len, reverse=True):
        name = re.escape(version)  # stands first, so that the search for it is fast
        patterns.append((version, re.compile(rf"{name}(?<![\w.]{name})(?:[-+][\w/+-]+(?:\.[\w/+-]+)*)?(?!\w|\.\d)")))
    named = []
    for option, value in options.items():
        flag = re.escape(option.replace("_", "-"))
        key = rf'"{re.escape(option)}": {re.escape(json.dumps(value, sort_keys=True))}(?=[,}}])'
        # A value of a shell ends at a space, unless it is quoted; JSON escapes the quotes.
        named.append(re.compile(rf""",? ?{key}|(?<!\S) ?--{flag}(?: (?:'[^']*'|[^\s"\\-][^\s"\\]*))?(?=[\s"\\]|$)"""))

    def mask(text: str) -> str:
        for version, pattern in patterns:
            if version in text:
                text = pattern.sub("{version}", text)
        for pattern in named:
            text = pattern.sub("", text)
        return text

    return mask
