"""Node data for Google's Model Explorer: texts and colours for the nodes of the graph that it shows.

The format is `GraphNodeData` of
https://github.com/google-ai-edge/model-explorer/blob/main/src/server/package/src/model_explorer/node_data_builder.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sliceport.checking import KINDS
from sliceport.formats import NamesNodes, format_of
from sliceport.json_text import to_text

if TYPE_CHECKING:
    from sliceport.diffing.report import DiffReport
    from sliceport.report.check import Result

Marks = Iterator[tuple[Sequence[str], str, str]]
"""For nodes, the names of each node and of its outputs, a text, and a colour."""
_RED, _AMBER, _BLUE = "#d93025", "#f9ab00", "#8ab4f8"
_COLORS = {"invalid": _RED, "fragile": _BLUE, "defect": _AMBER}


def diff_node_data(report: DiffReport, model: str) -> str:
    """Return node data of the smallest parts that differ: their nodes in amber, the first that differ in red.

    A part of a body stands for the node of the main graph that has the body.
    """

    def marks() -> Marks:
        for case in [part.case for part in report.parts]:
            for node in case.nodes if case.holder is None else [case.holder]:
                is_first = node is case.main_node
                text = case.failure.message if is_first else "in the smallest model that differs"
                yield (*node.writes, node.name), text, _RED if is_first else _AMBER

    return _node_data(f"sliceport diff: {report.on}", model, marks())


def check_node_data(result: Result, model: str) -> str:
    """Return node data of the nodes with findings: the names of the rules, coloured by the first kind of `KINDS`.

    A finding in the body of a node marks the node of the main graph that contains the body.
    """

    def marks() -> Marks:
        for finding in sorted(result["findings"], key=lambda finding: KINDS.index(finding["kind"])):
            holders = [scope.rpartition(".")[0] for scope in finding["scope"]]  # without the attribute
            yield [*holders, finding["node"]][:1], result["rules"][finding["rule"]]["id"], _COLORS[finding["kind"]]

    return _node_data("sliceport check", model, marks())


def _node_data(title: str, model: str, marks: Marks) -> str:
    """Return node data as JSON. Nodes without an id are left out; a node with several texts has its first colour."""
    format_ = format_of(model)
    ids = format_.node_ids(model) if isinstance(format_, NamesNodes) else None
    colors: dict[str, dict[str, str]] = {}
    for names, text, color in marks:
        id_ = names[-1] if ids is None else next((ids[name] for name in names if name in ids), None)
        if id_ is not None:
            colors.setdefault(id_, {}).setdefault(text, color)
    results = {
        id_: {"value": "; ".join(by_text), "bgColor": next(iter(by_text.values()))} for id_, by_text in colors.items()
    }
    return to_text({"name": title, "results": results}) + "\n"
