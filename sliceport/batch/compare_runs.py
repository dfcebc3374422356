"""Two runs over the same models, such as before and after an engine's upgrade: what is new, fixed or changed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from sys import intern
from typing import Any

from sliceport.batch.row import FAILURES, INFORMATIVE, MAX_LISTED, Header, Row
from sliceport.batch.summary import count_models, fold, more
from sliceport.commands.outcome import Finding
from sliceport.errors import UsageError
from sliceport.report.table import printable, table

Key = tuple[str, str, str, str, str]
"""What makes a finding the same in both runs: reason, operator, engine, defect, node."""

_Mask = Callable[[str], str]
_PARTS = ("message", "findings", "input_shapes", "result")
_DIGEST_SIZE = 8


@dataclass(frozen=True)
class VersionChange:
    """A package that the two runs had in different versions; None where a run was without it."""

    package: str
    before: str | None
    after: str | None

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {"package": self.package, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class OptionChange:
    """An option that the two runs had with different values; None where a run was without it."""

    option: str
    before: Any
    after: Any

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {"option": self.option, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class ModelChange:
    """How one model's rows differ.

    Attributes:
        model: As the user gave it.
        before: Its verdict in the earlier run.
        after: Its verdict in the later run.
        message: That of the later run.
        findings: Those that are new, or those that are fixed, these without their messages. A failure, such as a
            crash, stands as a finding with the verdict as its reason.
        differs: For a model that is only changed, the parts of the row that differ, such as `result`.
    """

    model: str
    before: str
    after: str
    message: str
    findings: tuple[Finding, ...] = ()
    differs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "model": self.model,
            "before": self.before,
            "after": self.after,
            "message": self.message,
            "findings": [dict(finding) for finding in self.findings],
            "differs": list(self.differs),
        }


@dataclass(frozen=True)
class RunComparison:
    """What differs between two runs. A model can be among the new and the fixed ones; `same` is how many are equal."""

    versions: tuple[VersionChange, ...] = ()
    options: tuple[OptionChange, ...] = ()
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
        """As JSON data."""
        return {
            "schema_version": 1,
            "versions": [change.to_json() for change in self.versions],
            "options": [change.to_json() for change in self.options],
            "summary": self.counts(),
            "new": [change.to_json() for change in self.new],
            "fixed": [change.to_json() for change in self.fixed],
            "changed": [change.to_json() for change in self.changed],
            "added": list(self.added),
            "removed": list(self.removed),
        }

    def counts(self) -> dict[str, int]:
        """How many models are new, fixed, changed, added, removed and same."""
        counts = {name: len(getattr(self, name)) for name in ("new", "fixed", "changed", "added", "removed")}
        return {**counts, "same": self.same}

    def text(self, columns: int | None) -> str:
        """As lines, as wide as `columns`: versions, counts, and at most 20 models of each kind."""
        parts = []
        if self.versions:
            rows = [(one.package, one.before or "-", one.after or "-") for one in self.versions]
            parts.append(table([("package", "before", "after"), *rows], columns))
        else:
            parts.append("Both runs have the same versions of all packages.")
        if self.options:
            options = [(one.option, show_value(one.before), show_value(one.after)) for one in self.options]
            parts.append(table([("option", "before", "after"), *options], columns))
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
    """A finding on a line: its reason, its message, and of operator, node, engine and defect what that leaves out."""
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
    """The value of an option; `-` for none.

    >>> show_value("6.4"), show_value([1, 2]), show_value(None)
    ('6.4', '[1, 2]', '-')
    """
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)


def compare_runs(
    rows_a: Iterable[Row], rows_b: Iterable[Row], headers: tuple[Header, Header] | None = None
) -> RunComparison:
    """Compare two runs of one command, model by model.

    A finding is the same in both by its reason, operator, engine, defect and node. Of the earlier run, only digests and
    findings are kept, and the later one is read row by row. A version that changed is no difference where a result
    names it.

    Args:
        rows_a: The rows of the earlier run, one a model.
        rows_b: The rows of the later run, one a model.
        headers: What the two runs were asked to do, and with which packages.

    Raises:
        UsageError: The runs are of different commands, or have no model in common.
    """
    masks: tuple[_Mask, _Mask] = (_mask_nothing, _mask_nothing)
    versions: tuple[VersionChange, ...] = ()
    options: tuple[OptionChange, ...] = ()
    if headers is not None:
        commands = [header["command"] for header in headers]
        if commands[0] != commands[1]:
            raise UsageError(f"the runs are of different commands, {commands[0]} and {commands[1]}.")
        versions = _compare_versions(*headers)
        options = _compare_options(*headers)
        upgraded = [one for one in versions if one.before and one.after]
        masks = (
            _make_mask([one.before for one in upgraded], {one.option: one.before for one in options}),
            _make_mask([one.after for one in upgraded], {one.option: one.after for one in options}),
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
    """What is kept of a row of the earlier run, whatever the size of its result."""

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
    """What is wrong with a model: its findings, less those that tell what was done, and its failure."""
    problems = [finding for finding in row["findings"] if finding["reason"] not in INFORMATIVE]
    if row["verdict"] == "clean":
        return []
    if row["verdict"] in FAILURES or not problems:
        failure = (row["verdict"], "", "", "", "")
        problems = [*problems, _finding(failure) | {"message": row["message"]}]
    return problems


def _key(finding: Finding) -> Key:
    return (
        intern(finding["reason"]),
        intern(finding["operator"]),
        intern(finding["engine"]),
        intern(finding["defect"]),
        finding["node"],
    )


def _finding(key: Key) -> Finding:
    reason, operator, engine, defect, node = key
    return {"reason": reason, "operator": operator, "engine": engine, "defect": defect, "node": node, "message": ""}


def _digests(row: Row, mask: _Mask) -> bytes:
    """A digest of each part of a row, in the order of `_PARTS`. The order of findings makes no difference."""
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


def _compare_versions(a: Header, b: Header) -> tuple[VersionChange, ...]:
    packages = sorted(set(a["versions"]) | set(b["versions"]))
    pairs = [VersionChange(package, a["versions"].get(package), b["versions"].get(package)) for package in packages]
    return tuple(pair for pair in pairs if pair.before != pair.after)


def _compare_options(a: Header, b: Header) -> tuple[OptionChange, ...]:
    options = sorted(set(a["options"]) | set(b["options"]))
    pairs = [OptionChange(option, a["options"].get(option), b["options"].get(option)) for option in options]
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
