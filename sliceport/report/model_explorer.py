"""Node data for Google's Model Explorer: texts and colours for the nodes of the graph that it shows.

The format is `GraphNodeData` of
https://github.com/google-ai-edge/model-explorer/blob/main/src/server/package/src/model_explorer/node_data_builder.py
"""

from __future__ import annotations

from collections.abc import Mapping

from sliceport.formats import NamesNodes, format_of
from sliceport.json_text import to_text

RED, AMBER, BLUE = "#d93025", "#f9ab00", "#8ab4f8"


def find_ids(model: str) -> Mapping[str, str] | None:
    """Return the ids of a model's nodes, see `NamesNodes`; None if its nodes go by their names.

    Raises:
        ModelError: The model cannot be read.
    """
    format_ = format_of(model)
    return format_.node_ids(model) if isinstance(format_, NamesNodes) else None


def node_data(name: str, results: Mapping[str, tuple[str, str]]) -> str:
    """Return node data of a text and a colour for each id."""
    values = {key: {"value": value, "bgColor": color} for key, (value, color) in results.items()}
    return to_text({"name": name, "results": values}) + "\n"
