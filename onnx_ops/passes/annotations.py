"""Annotations of nodes and values. No engine computes with them, and replacements keep them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

_MOST = 2**20


def annotate_value(value: ir.Value, replaced: ir.Value) -> None:
    """Give a value what is said of another that it replaces: metadata, doc string and quantization annotation."""
    value.metadata_props.update(replaced.metadata_props)
    value.meta.update(replaced.meta)  # where onnx-ir keeps the quantization annotation
    value.doc_string = replaced.doc_string or value.doc_string


def move_annotations(value: ir.Value, replaced: ir.Value) -> None:
    """Annotate a value and take the annotations from the replaced one, whose node stays."""
    annotate_value(value, replaced)
    replaced.metadata_props.clear()
    replaced.meta.clear()
    replaced.doc_string = None


def annotate_nodes(nodes: Sequence[ir.Node], replaced: Sequence[ir.Node]) -> None:
    """Give nodes what is said of those that they replace: metadata and doc string; of several, that of the first.

    Only the first node gets it where that adds up to more than 1 MiB.
    """
    size = sum(len(key) + len(value) for each in replaced for key, value in each.metadata_props.items())
    size += sum(len(each.doc_string or "") for each in replaced)
    for node in nodes if size * len(nodes) <= _MOST else nodes[:1]:
        for each in reversed(replaced):
            node.metadata_props.update(each.metadata_props)
            node.doc_string = each.doc_string or node.doc_string
