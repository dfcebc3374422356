"""Findings of `sliceport check` as SARIF 2.1.0, which code scanners and editors read.

Source: Static Analysis Results Interchange Format (SARIF) Version 2.1.0, OASIS Standard. Section numbers refer to that
document.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from sliceport import __version__
from sliceport.report.check import LEVELS, Group, Result, group_findings
from sliceport.wording.shell import join

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_HOME = "https://github.com/sliceport/sliceport"


def sarif_log(results: Sequence[Result]) -> dict[str, Any]:
    """Build a log with one run: a result for each node of a group, and a notification for each model not checked."""
    groups = [group for result in results if "error" not in result for group in group_findings(result)]
    group_by_rule = {group.rule: group for group in groups}
    indices = {rule: i for i, rule in enumerate(group_by_rule)}
    errors = [result for result in results if "error" in result]
    descriptors = [_reporting_descriptor(group) for group in group_by_rule.values()]
    driver = {"name": "sliceport", "version": __version__, "informationUri": _HOME, "rules": descriptors}
    notifications = [
        {
            "level": "error",
            "message": {"text": result["error"]},
            "locations": [{"physicalLocation": _physical_location(result["model"])}],
        }
        for result in errors
    ]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not errors, "toolExecutionNotifications": notifications}],
        "results": [_make_result(group, node, indices[group.rule]) for group in groups for node in group.nodes],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _reporting_descriptor(group: Group) -> dict[str, Any]:
    """Build a reportingDescriptor (3.49)."""
    entry = group.entry
    advice = entry["help"].replace(f" {join([group.model])} ", " MODEL ")  # the rule is about every model
    return {
        "id": group.rule,
        "shortDescription": {"text": entry["id"]},
        "fullDescription": {"text": f"Found: {entry['trigger']}. Right: {entry['right']}."},
        "helpUri": entry["page"],
        "help": {"text": advice},
        "properties": {"kind": group.kind, "evidence": entry["evidence"]},
    }


def _make_result(group: Group, node: str, rule_index: int) -> dict[str, Any]:
    """Build a result (3.27). Code scanners require a line number, so the result is on line 1."""
    origin = "reported, not tested here: " if group.is_reported else ""
    return {
        "ruleId": group.rule,
        "ruleIndex": rule_index,
        "level": "note" if group.is_reported else LEVELS[group.kind],
        "message": {"text": f"{group.op} {node!r}: {origin}{group.message}"},
        "locations": [
            {
                "physicalLocation": {**_physical_location(group.model), "region": {"startLine": 1}},
                "logicalLocations": [{"fullyQualifiedName": node, "kind": "element"}],
            }
        ],
        "partialFingerprints": {"node/v1": f"{group.rule}:{node}"},
    }


def _physical_location(model: str) -> dict[str, Any]:
    """Build a physicalLocation (3.29) of a file. The location is relative unless the path is absolute."""
    path = PurePath(model)
    return {"artifactLocation": {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())}}
