"""Removing what nothing reads any more."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.edits import detach_inputs, remove_nodes

RANDOM = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
)
"""Operators that stay, because without them others of them would draw other numbers."""

_USED = "sliceport.used"
"""In the `meta` of a node: the index of an output that something read when its readers were last looked for."""


def is_used(value: ir.Value) -> bool:
    """Return whether anything reads a value."""
    return value.is_graph_output() or count_uses(value) > 0


def remove_unread(value: ir.Value | None) -> None:
    """Remove the constant or standard node behind a value that nothing reads, and what only that read."""
    unread = [value]
    while unread:
        value = unread.pop()
        if value is None or is_used(value):
            continue
        producer = value.producer()
        if producer is None:
            if value.is_initializer() and not value.is_graph_input() and value.graph is not None:
                del value.graph.initializers[value.name or ""]
        elif _may_go(producer):
            unread += producer.inputs
            remove_nodes([producer])


def _may_go(node: ir.Node) -> bool:
    is_plain = node.domain in STANDARD_DOMAINS and node.op_type not in RANDOM
    holds_graph = any(
        attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attribute in node.attributes.values()
    )
    return is_plain and not holds_graph and node.graph is not None and not _writes_used(node)


def _writes_used(node: ir.Node) -> bool:
    """Return whether anything reads an output of a node. The output that was found last is looked at first."""
    last = node.meta.get(_USED, 0)
    found = next((i for i in (last, *range(len(node.outputs))) if is_used(node.outputs[i])), None)
    if found:
        node.meta[_USED] = found
    return found is not None


def detach(nodes: Sequence[ir.Node]) -> None:
    """Let new nodes that are not used after all read nothing, for they would count as readers."""
    for node in nodes:
        detach_inputs(node)
