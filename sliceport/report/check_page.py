"""Results of `check` as an HTML page, and as node data for Google's Model Explorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sliceport.checking import KINDS
from sliceport.report.check import Result, group_findings, summarize
from sliceport.report.model_explorer import AMBER, BLUE, RED, node_data
from sliceport.report.page import open_template
from sliceport.wording import count_of

_COLORS = {"invalid": RED, "fragile": BLUE, "defect": AMBER}


def check_page(results: Sequence[Result]) -> str:
    """Return the page of findings: a section for each model, with a card for each group.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    models = [
        (result, "", []) if "error" in result else (result, summarize(result), group_findings(result))
        for result in results
    ]
    title = f"sliceport check: {' '.join(result['model'] for result in results)}"
    return open_template("report/check.html").render(title=title, models=models, count_of=count_of)


def check_node_data(result: Result, ids: Mapping[str, str] | None) -> str:
    """Return node data of the nodes with findings: the names of the rules, coloured by the first kind in `KINDS`.

    A node of a body stands for the node of the main graph that has the body. Nodes without an id are left out.

    Args:
        result: The findings about one model.
        ids: Ids by the names of nodes and outputs; None if nodes go by their names.
    """
    by_id: dict[str, list[Mapping[str, Any]]] = {}
    for one in sorted(result["findings"], key=lambda one: KINDS.index(one["kind"])):
        name = [*one["scope"], one["node"]][0]
        if ids is None or name in ids:
            by_id.setdefault(name if ids is None else ids[name], []).append(one)
    results = {}
    for id_, findings in by_id.items():
        titles = dict.fromkeys(result["rules"][one["rule"]]["id"] for one in findings)
        results[id_] = ("; ".join(titles), _COLORS[findings[0]["kind"]])
    return node_data("sliceport check", results)
