"""Node data for Google's Model Explorer: a colour and a text for nodes of the graph that it shows.

The format is `GraphNodeData` of
https://github.com/google-ai-edge/model-explorer/blob/main/src/server/package/src/model_explorer/node_data_builder.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sliceport.formats import NamesNodes, format_of
from sliceport.json_text import to_text

if TYPE_CHECKING:
    from sliceport.diffing.report import DiffReport

RED, AMBER, BLUE = "#d93025", "#f9ab00", "#8ab4f8"
_COLORS = {"invalid": RED, "defect": AMBER, "fragile": BLUE}


def diff_node_data(report: DiffReport, ids: Mapping[str, str] | None) -> str:
    """Return node data of the smallest part that differs: its nodes in amber, the first that differs in red.

    A part of a body is shown as the node of the main graph that has the body. Nodes without an id are left out.

    Args:
        report: The report.
        ids: See `sliceport.formats.NamesNodes`; None if nodes go by their names.
    """
    results: dict[str, Any] = {}
    if report.part is not None:
        case = report.part.case
        for node in (case.holder,) if case.holder is not None else case.nodes:
            name = node.name if ids is None else next((ids[n] for n in (*node.writes, node.name) if n in ids), None)
            is_first = node in (case.culprit, case.holder)
            value = case.failure.message if is_first else "in the smallest model that differs"
            if name is not None:
                results[name] = {"value": value, "bgColor": RED if is_first else AMBER}
    return _to_text(f"sliceport diff: {report.on}", results)


def find_ids(model: str) -> Mapping[str, str] | None:
    """Return the ids of a model's nodes in Model Explorer; None if its format knows none.

    Raises:
        ModelError: The model cannot be read.
    """
    format_ = format_of(model)
    return format_.node_ids(model) if isinstance(format_, NamesNodes) else None


def _to_text(name: str, results: Mapping[str, Any]) -> str:
    return to_text({"name": name, "results": results}) + "\n"
