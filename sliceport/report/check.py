"""The findings of `sliceport check` as text and as an HTML page, from their JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sliceport.checking import KINDS
from sliceport.report.page import open_template
from sliceport.report.table import printable, wrap
from sliceport.wording import count_of
from sliceport.wording.shell import join

Result = Mapping[str, Any]
"""The file name `model`, with the values of `CheckReport.to_json()`, or with the `error` that prevented the check."""
LEVELS = {"invalid": "error", "fragile": "warning", "defect": "warning"}
"""The levels of kinds in SARIF and on GitHub."""
HINT = "engines that are known from the reports of users alone"
"""The end of the last line, after the command that adds them."""


@dataclass(frozen=True)
class Group:
    """The findings of one kind, rule, operator and detail.

    Attributes:
        kind: The kind.
        rule: The key of the entry in `rules`.
        entry: The entry of `rules`, as `CheckReport.to_json()` describes it.
        op: The operator.
        detail: The values that cause the findings; may be empty.
        nodes: The path of each node: the names of the nodes and attributes that contain its graph, then its own name.
        model: The model's file.
        is_reported: Whether the group is about reports of users; such groups come last.
    """

    kind: str
    rule: str
    entry: Mapping[str, Any]
    op: str
    detail: str
    nodes: tuple[str, ...]
    model: str
    is_reported: bool

    @property
    def effects(self) -> str:
        """The behavior of the engines as clauses of a sentence. Engines that behave alike share a clause.

        For a contested entry, a last clause says what is right and on which engines. The text is empty for an entry
        known from reports alone, unless `is_reported` is set.
        """
        if self.entry["evidence"] == "reported" and not self.is_reported:
            return ""
        engines_by_behavior: dict[str, list[str]] = {}
        for engine in self.entry["engines"]:
            name = " ".join(filter(None, (engine["engine"], engine["versions"])))
            engines_by_behavior.setdefault(engine["does"], []).append(name)
        effects = [
            f"{'each of ' if len(names) > 1 else ''}{_join_names(names)} {behavior}"
            for behavior, names in engines_by_behavior.items()
        ]
        if self.entry["is_contested"] and effects:  # engines disagree about the result
            right_on = self.entry["right_on"]
            engines = f"{_join_names(right_on)} {'is' if len(right_on) == 1 else 'are'} right: " if right_on else ""
            effects.append(f"{engines}{self.entry['right']}")
        return "; ".join(effects)

    @property
    def issues(self) -> list[str]:
        """The reports about the entry, as `owner/repository#number`."""
        return list(dict.fromkeys(issue for engine in self.entry["engines"] for issue in engine["issues"]))

    @property
    def message(self) -> str:
        """The id of the defect, the detail, the behavior of the engines, and the help, as one line."""
        help_ = self.entry["help_if_fragile" if self.kind == "fragile" and not self.is_reported else "help"]
        return f"{': '.join(filter(None, (self.entry['id'], self.detail, self.effects)))}; {help_}"

    def __str__(self) -> str:
        return f"{len(self.nodes)} {self.op}: {self.message}"


def _join_names(names: Sequence[str]) -> str:
    """Join names, as in `a, b and c`."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def group_findings(result: Result) -> list[Group]:
    """Group findings by kind, rule, operator and detail. Groups with `is_reported` come last."""
    nodes: dict[tuple[str, ...], list[str]] = {}
    for finding in result["findings"]:
        key = (finding["kind"], finding["rule"], finding["op"], finding["detail"])
        nodes.setdefault(key, []).append("/".join([*finding["scope"], finding["node"]]))
    groups = []
    for (kind, rule, op, detail), names in nodes.items():
        entry = result["rules"][rule]
        has_reports = entry["evidence"] == "reported"
        group = Group(kind, rule, entry, op, detail, tuple(names), result["model"], is_reported=False)
        # A defect that is known only from reports has a group of reports alone. Invalid and fragile nodes always have a
        # group of their kind, and one of reports as well if there are reports on a selected engine.
        if kind != "defect" or not has_reports:
            groups.append(group)
        if has_reports and entry["engines"]:
            groups.append(replace(group, is_reported=True))
    return sorted(groups, key=lambda group: (group.is_reported, KINDS.index(group.kind)))


def summarize(result: Result) -> str:
    """Format the counts of the findings about a model on one line."""
    groups = group_findings(result)
    counts = []
    for kind in ("invalid", "fragile"):
        count = sum(len(group.nodes) for group in groups if group.kind == kind and not group.is_reported)
        if count:
            counts.append(f"{count} {kind}")
    # A node with several defects counts once.
    nodes = {node for group in groups if group.kind == "defect" and not group.is_reported for node in group.nodes}
    if result["engines"]:
        text = f"{count_of(len(nodes), 'node')} with a known defect" if nodes else "no known defect"
        counts.append(f"{text} (checked for {_name_engines(result['engines'])})")
    if result["reported_engines"]:
        report_count = sum(len(group.nodes) for group in groups if group.is_reported)  # of findings, not of nodes
        counts.append(f"{report_count or 'nothing'} reported of {_name_engines(result['reported_engines'])}")
    if result["unchecked_engines"]:
        counts.append(f"nothing to check for {_join_names(result['unchecked_engines'])} in a model of this format")
    return ", ".join(counts)


def _name_engines(names: Sequence[str]) -> str:
    """Return the names of the engines, or only their number if there are more than 3."""
    return _join_names(names) if len(names) <= 3 else count_of(len(names), "engine")


def check_text(results: Sequence[Result], *, verbose: bool, columns: int | None, hint: bool) -> str:
    """Format the findings about models for people, a section for each model. If no model was checked, return "".

    The lines of findings are wrapped to `columns`, unless it is None. With `hint`, the last line is `_format_hint`.
    """
    if all("error" in result for result in results):
        return ""  # stderr has the reasons
    lines: list[str] = []
    for result in results:
        if len(results) > 1:
            if lines:
                lines.append("")
            lines.append(result["model"])
        for line in _format_model(result, verbose):
            lines += wrap(line, columns, hanging=4)
    versions = {engine: version for result in results for engine, version in result.get("versions", {}).items()}
    if versions:
        text = ", ".join(f"{engine} {version}" for engine, version in versions.items())
        lines.append(f"judged for {text}; --engine-versions chooses others")
    return "\n".join([*lines, _format_hint(results)] if hint else lines)


def _format_hint(results: Sequence[Result]) -> str:
    """Return the command that also checks for the engines that are left out by default."""
    command = f"{join(['sliceport', 'check', results[0]['model']])} " if len(results) == 1 else ""
    left_out = list(dict.fromkeys(engine for result in results for engine in result.get("left_out_engines", ())))
    converted = f"{_join_names(left_out)}, for which the model is converted, and " if left_out else ""
    return f"{command}--engines {','.join(['all', *left_out])} adds {converted}{HINT}"


def _format_model(result: Result, verbose: bool) -> Iterator[str]:
    """Yield the lines about one model: its groups of findings, and then the counts."""
    if "error" in result:
        yield f"not checked: {result['error']}"
        return
    has_title = False
    for group in group_findings(result):
        if group.is_reported and not has_title:
            has_title = True
            yield "from reports or single runs, not from tests:"
        yield f"{'  ' if group.is_reported else f'{group.kind}: '}{printable(str(group))}"
        if verbose:
            yield from (f"    {printable(name)}" for name in group.nodes)
            yield f"    see {', '.join([group.entry['page'], *group.issues])}"
    yield summarize(result)
    if verbose:
        yield f"engines: {', '.join(result['engines'])}"


def check_page(results: Sequence[Result]) -> str:
    """Return an HTML page of findings: a section for each model, with a card for each group of findings.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    return open_template("report/check.html", groups=group_findings, summary=summarize, count=count_of).render(
        title=f"sliceport check: {' '.join(result['model'] for result in results)}", results=results
    )
