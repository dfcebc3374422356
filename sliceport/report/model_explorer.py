"""Node data for Google's Model Explorer: texts and colors for the nodes of the graph that it shows.

The format is `GraphNodeData` for one graph, or `ModelNodeData` for several, of
https://github.com/google-ai-edge/model-explorer/blob/main/src/server/package/src/model_explorer/node_data_builder.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sliceport.checking import KINDS
from sliceport.formats import NamesNodes, format_of
from sliceport.wording.json_text import to_text

if TYPE_CHECKING:
    from sliceport.report.check import Result
    from sliceport.search.report import DiffReport


class Mark(NamedTuple):
    """A text and a color for a node of the main graph, and if `inner` is not empty, for a node in a body of that node.

    Attributes:
        names: Names for the node of the main graph: the names of its outputs, if known, and then its own name.
        text: The text.
        color: The color, as `#rrggbb`.
        attribute: The attribute that holds the body; empty if only the node of the main graph is marked.
        inner: The names for the node in the body, like `names`; empty if only the node of the main graph is marked.
    """

    names: Sequence[str]
    text: str
    color: str
    attribute: str = ""
    inner: Sequence[str] = ()


_RED, _AMBER, _BLUE = "#d93025", "#f9ab00", "#8ab4f8"
_COLORS = {"invalid": _RED, "fragile": _BLUE, "defect": _AMBER}


def node_data_of_diff(report: DiffReport, model: str) -> str:
    """Return texts and colors for the nodes of the smallest parts that differ, as JSON for Google's Model Explorer.

    The node at fault in a part is red, and the other nodes of the part are amber. A part in a body also marks the node
    of the main graph that contains the body. A part in a body of a body marks only the node of the main graph.
    """

    def marks() -> Iterator[Mark]:
        for case in [part.case for part in report.parts]:
            # If the case is in a body, each mark is for the holder, too, and the first one decides the holder's color.
            # So the culprit comes first.
            for node in sorted(case.nodes, key=lambda node: node is not case.culprit):
                text = case.failure.message if node is case.culprit else "in the smallest model that fails"
                color = _RED if node is case.culprit else _AMBER
                if case.holder is None:
                    yield Mark(node.written_names, text, color)
                else:
                    # `scope[0]` ends with the attribute of an If, or with the iteration of a Loop or Scan.
                    title = case.scope[0].rpartition(", ")[2]
                    attribute = title if title in ("then_branch", "else_branch") else "body"
                    # Nodes in a body of a body have no ids, so only the holder is marked.
                    inner = node.written_names if len(case.scope) == 1 else ()
                    yield Mark(case.holder.written_names, text, color, attribute, inner)

    return _node_data(f"sliceport diff: {report.on}", model, marks())


def node_data_of_check(result: Result, model: str) -> str:
    """Return texts and colors for the nodes with findings, as JSON for Google's Model Explorer.

    The text of a node lists the defects that its findings are about. If the findings are of several kinds, the first
    one in `KINDS` decides the color. A finding in a body also marks the node of the main graph that contains the body.
    A finding in a body of a body marks only the node of the main graph.
    """

    def marks() -> Iterator[Mark]:
        for finding in sorted(result["findings"], key=lambda finding: KINDS.index(finding["kind"])):
            text, color = result["rules"][finding["rule"]]["id"], _COLORS[finding["kind"]]
            if not finding["scope"]:
                yield Mark([finding["node"]], text, color)
            else:
                holder, _, attribute = finding["scope"][0].rpartition(".")
                # With one scope, the node is in the body `attribute` of `holder`. With more, it is deeper in this body.
                inner = [finding["node"]] if len(finding["scope"]) == 1 else []
                yield Mark([holder], text, color, attribute, inner)

    return _node_data("sliceport check", model, marks())


def _node_data(title: str, model: str, marks: Iterable[Mark]) -> str:
    """Return the marks of nodes as JSON for Google's Model Explorer.

    The JSON holds the marks of the main graph. If another graph has marks, it maps the id of each graph to its marks.
    Nodes without an id are left out. A node with several texts has the color of its first text.
    """
    format_ = format_of(model)
    graphs = format_.node_ids(model) if isinstance(format_, NamesNodes) else {"": None}
    main = next(iter(graphs))
    marks_by_node: dict[str, dict[str, list[Mark]]] = {main: {}}

    def find_id(graph: str, names: Sequence[str]) -> str:
        """Return the id of the node with one of the names, or an empty string if the graph has no such node."""
        ids = graphs.get(graph, {})
        # `ids` is None if the format has no `node_ids`. In this case the node's own name, the last one, is the id.
        return names[-1] if ids is None else next((ids[name] for name in names if name in ids), "")

    for mark in marks:
        # The main graph comes first. A node that is not in it is in the graph of a function.
        places = [(graph, find_id(graph, mark.names)) for graph in graphs]
        graph, holder = next((place for place in places if place[1]), (main, ""))
        marked = [(graph, holder)]
        if mark.inner:
            # Model Explorer shows a body as a part of the main graph or as a graph of its own.
            body = f"{holder}/{mark.attribute}"
            inner_id = find_id(main, [f"{body}/{name}" for name in mark.inner])
            marked.append((main, inner_id) if inner_id else (body, find_id(body, mark.inner)))
        for graph, id_ in marked:
            if id_:
                marks_by_node.setdefault(graph, {}).setdefault(id_, []).append(mark)
    data = {}
    for graph, nodes in marks_by_node.items():
        results = {
            id_: {"value": "; ".join(dict.fromkeys(mark.text for mark in node_marks)), "bgColor": node_marks[0].color}
            for id_, node_marks in nodes.items()
        }
        data[graph] = {"name": title, "results": results}
    return to_text(data[main] if len(data) == 1 else data) + "\n"
