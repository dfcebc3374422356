"""Findings of `sliceport check` as workflow commands of GitHub Actions, which become annotations.

Source: "Workflow commands for GitHub Actions" in GitHub's documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from sliceport.report.check import LEVELS, Result, group_findings, summarize
from sliceport.report.table import printable


def github_text(results: Sequence[Result]) -> str:
    """Format a GitHub workflow command, such as `::error`, for each group of findings and each model not checked.

    A line of counts follows the commands of each model that was checked.
    """
    lines = []
    for result in results:
        if "error" in result:
            lines.append(_format_command("error", result["model"], "not checked", result["error"]))
            continue
        for group in group_findings(result):
            level = "notice" if group.is_reported else LEVELS[group.kind]
            title = f"{'reported, not tested' if group.is_reported else group.kind}: {group.rule}"
            lines.append(_format_command(level, group.model, title, f"{group} ({', '.join(group.nodes)})"))
        lines.append(f"{printable(result['model'])}: {summarize(result)}")  # no command, so a % is not escaped
    return "\n".join(lines)


def _format_command(level: str, file: str, title: str, message: str) -> str:
    return f"::{level} file={_escape_property(file)},title={_escape_property(title)}::{_escape(message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")  # % first: the other escapes contain it


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
