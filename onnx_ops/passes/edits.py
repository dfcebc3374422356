"""Changes of onnx-ir graphs that take as long as what they change.

onnx-ir's own functions look at all outputs of the graph for each node that they remove or replace, and at all inputs of
a node for each input that they replace.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.nodes import is_operator
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.names import mark_new

MANY = 64
"""With fewer outputs of a graph or inputs of a node, onnx-ir changes them."""


RANDOM = frozenset(
    ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli")
)
"""Operators that stay, because without them others of them would draw other numbers."""

_USED = "sliceport.used"
"""In the `meta` of a node: the index of an output that something read when its readers were last looked for."""


class Identities:
    """The values before chains of Identity nodes. Each node is walked once."""

    def __init__(self) -> None:
        self._sources: dict[ir.Value, ir.Value] = {}

    def skip(self, value: ir.Value) -> ir.Value:
        """Return the value before all Identity nodes that lead to this one."""
        walked = []
        while (before := self._before(value)) is not None:
            walked.append(value)
            value = before
        self._sources.update(dict.fromkeys(walked, value))
        return value

    def replace(self, value: ir.Value, successor: ir.Value) -> None:
        """Record that all nodes read `successor` instead of `value`."""
        if value in self._sources:  # nodes after this Identity may be known to follow from what is before it
            self._sources.clear()
        else:
            self._sources[value] = successor

    def _before(self, value: ir.Value) -> ir.Value | None:
        if value in self._sources:
            return self._sources[value]
        producer = value.producer()
        return producer.inputs[0] if is_operator(producer, "Identity") else None


class GraphEdits:
    """Changes of graphs whose outputs nothing else changes meanwhile.

    Attributes:
        identities: The values before chains of Identity nodes.
    """

    def __init__(self) -> None:
        self.identities = Identities()
        self._places: dict[ir.Graph, dict[ir.Value, list[int]]] = {}

    def replace_nodes(
        self,
        place: ir.Node,
        old: Sequence[ir.Node],
        new: Sequence[ir.Node],
        old_values: Sequence[ir.Value],
        new_values: Sequence[ir.Value],
    ) -> None:
        """Replace nodes and values as `ir.convenience.replace_nodes_and_values` does. New nodes follow `place`."""
        for value, successor in zip(old_values, new_values, strict=True):
            successor.type = value.type if value.type is not None else successor.type
            successor.shape = value.shape if value.shape is not None else successor.shape
            successor.const_value = value.const_value if value.const_value is not None else successor.const_value
            successor.name = value.name if value.name is not None else successor.name
        for value, successor in zip(old_values, new_values, strict=True):
            self.replace_value(value, successor)
        graph = place.graph
        assert graph is not None
        for node in new:
            mark_new(node)
        graph.insert_after(place, new)
        remove_nodes(old)

    def replace_value(self, value: ir.Value, successor: ir.Value) -> None:
        """Let all nodes read another value instead of one, and the graph give it out."""
        self.identities.replace(value, successor)
        graph = value.graph
        if value.is_graph_output() and graph is not None:
            places = self._places_of(graph)
            positions = places.pop(value, [])
            for i in positions:
                graph.outputs[i] = successor
            places.setdefault(successor, []).extend(positions)
        for use in value.uses():
            if len(use.node.inputs) <= MANY:
                use.node.replace_input_with(use.idx, successor)
            elif use.node.inputs[use.idx] is value:  # else replaced with another input of that node
                _set_inputs(use.node, [successor if each is value else each for each in use.node.inputs])

    def _places_of(self, graph: ir.Graph) -> dict[ir.Value, list[int]]:
        """Return the positions of each output of a graph in its list of outputs."""
        if graph not in self._places:
            self._places[graph] = {}
            for i, output in enumerate(graph.outputs):
                self._places[graph].setdefault(output, []).append(i)
        return self._places[graph]


def remove_nodes(nodes: Sequence[ir.Node]) -> None:
    """Remove nodes of a graph that nothing else reads; they read nothing any more."""
    removed = set(nodes)
    for node in nodes:
        for output in node.outputs:
            assert not output.is_graph_output()
            assert all(use.node in removed for use in output.uses())
    for node in nodes:
        graph = node.graph
        assert graph is not None
        detach_inputs(node)
        if len(graph.outputs) <= MANY:
            graph.remove(node)
        else:
            node.graph = None
            graph._nodes.remove(node)  # where `remove` makes a set of all outputs first


def detach_inputs(node: ir.Node) -> None:
    """Let a node read nothing."""
    if len(node.inputs) <= MANY:
        for i in range(len(node.inputs)):
            node.replace_input_with(i, None)
    else:
        _set_inputs(node, [None] * len(node.inputs))


def _set_inputs(node: ir.Node, inputs: Sequence[ir.Value | None]) -> None:
    """Set all inputs of a node at once, because `replace_input_with` copies all of them each time."""
    before = node.inputs
    if getattr(node, "device_configurations", None):  # which name inputs
        for i, value in enumerate(inputs):
            node.replace_input_with(i, value)
        return
    node._inputs = tuple(inputs)
    for i, (old, new) in enumerate(zip(before, inputs, strict=True)):
        if old is new:
            continue
        if old is not None:
            old._remove_usage(node, i)
        if new is not None:
            new._add_usage(node, i)


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
