"""Ids of nodes in Google's Model Explorer."""

from __future__ import annotations

import os

import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass

from onnx_ops.model.nodes import node_name
from onnx_ops.model.read import read_checked


def node_ids(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the ids of the nodes of the main graph by their names, and by the names of their outputs.

    Version 0.4.2 of model-explorer-onnx takes names for ids after onnx-ir's NameFixPass has named the unnamed nodes,
    and renamed those whose name another node has.

    Raises:
        ModelError: The model cannot be read.
    """
    model = ir.from_proto(read_checked(path).proto)
    nodes = [(node_name(node), [output.name for output in node.outputs], node) for node in model.graph]
    NameFixPass()(model)
    ids: dict[str, str] = {}
    for name, outputs, node in nodes:
        for key in (*outputs, name):
            if key:
                ids.setdefault(key, node.name or "")
    return ids
