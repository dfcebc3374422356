"""Edits of onnx-ir graphs. The time that an edit takes does not grow with the rest of the graph.

onnx-ir's own functions look at all outputs of the graph for each node that they remove or replace. They copy all inputs
of a node for each input that they replace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_ops.model.domains import STANDARD_DOMAINS
from onnx_ops.model.nodes import ORIGIN, RANDOM, USED, is_valid_operator
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.names import mark_new

MANY = 64
"""The most outputs of a graph, or inputs of a node, for which onnx-ir's own functions are fast enough."""

GRAPH_TYPES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
"""The types of attributes that hold graphs."""


class Identities:
    """Cache of the source of each value. A source is the value that Identity nodes in a row copy to another value."""

    def __init__(self) -> None:
        self._sources: dict[ir.Value, ir.Value] = {}

    def source_of(self, value: ir.Value) -> ir.Value:
        """Return the source of a value. A value that no Identity writes is its own source."""
        copies = []
        while (source := self._read_identity(value)) is not None:
            copies.append(value)
            value = source
        # The next search for the source of a copy skips all Identity nodes in between.
        self._sources.update(dict.fromkeys(copies, value))
        return value

    def note_replacement(self, value: ir.Value, successor: ir.Value) -> None:
        """Update the cache after an edit: all nodes read `successor` instead of `value`."""
        # If `value` is a key of the cache, its source and those of its copies may have changed. If not, all earlier
        # searches that reached `value` ended there. With this entry, later ones go on to `successor`.
        if value in self._sources:
            self._sources.clear()
        else:
            self._sources[value] = successor

    def _read_identity(self, value: ir.Value) -> ir.Value | None:
        """Return the cached source of a value, or else the input of the Identity that writes it, or else None."""
        if value in self._sources:
            return self._sources[value]
        producer = value.producer()
        return producer.inputs[0] if is_valid_operator(producer, "Identity") else None


class GraphEdits:
    """Edits of graphs. Nothing else may change the outputs of the graphs, because their positions are cached.

    Attributes:
        identities: The sources of values.
    """

    def __init__(self) -> None:
        self.identities = Identities()
        self._positions: dict[ir.Graph, dict[ir.Value, list[int]]] = {}

    def replace_nodes(
        self, position: ir.Node, old: Sequence[ir.Node], new: Sequence[ir.Node], successors: Mapping[ir.Value, ir.Value]
    ) -> None:
        """Insert the `new` nodes after `position`, replace values, and remove the `old` nodes.

        `successors` maps each old value to the value that replaces it. The successor takes over the name, type, shape
        and constant, as far as the old value has them. `make_names_unique` may rename the new nodes and their
        other outputs. `ir.convenience.replace_nodes_and_values` also replaces nodes, but takes longer.
        """
        for value, successor in successors.items():
            successor.type = value.type if value.type is not None else successor.type
            successor.shape = value.shape if value.shape is not None else successor.shape
            successor.const_value = value.const_value if value.const_value is not None else successor.const_value
            successor.name = value.name if value.name is not None else successor.name
            self.replace_value(value, successor)
        graph = position.graph
        assert graph is not None
        named = set(successors.values())  # the successors have the names of the values that they replace
        for node in new:
            mark_new(node)
            for output in node.outputs:
                if output not in named:
                    mark_new(output)
        graph.insert_after(position, new)
        remove_nodes(old)

    def replace_value(self, value: ir.Value, successor: ir.Value) -> None:
        """Replace a value by `successor` in the inputs of all nodes and in the outputs of its graph."""
        self.identities.note_replacement(value, successor)
        graph = value.graph
        if value.is_graph_output() and graph is not None:
            positions_by_output = self._positions_in(graph)
            positions = positions_by_output.pop(value, [])
            for index in positions:
                graph.outputs[index] = successor
            positions_by_output.setdefault(successor, []).extend(positions)
        # For each use, `replace_input_with` copies all inputs of the node. So in a node of many inputs, all uses are
        # replaced in one step.
        for use in value.uses():
            if len(use.node.inputs) <= MANY:
                use.node.replace_input_with(use.idx, successor)
            elif use.node.inputs[use.idx] is value:  # false if an earlier round of the loop replaced it
                inputs = [successor if source is value else source for source in use.node.inputs]
                _replace_all_inputs(use.node, inputs)

    def _positions_in(self, graph: ir.Graph) -> dict[ir.Value, list[int]]:
        """Return the positions of each output in the graph's list of outputs, which may repeat an output."""
        if graph not in self._positions:
            self._positions[graph] = {}
            for index, output in enumerate(graph.outputs):
                self._positions[graph].setdefault(output, []).append(index)
        return self._positions[graph]


def remove_nodes(nodes: Sequence[ir.Node]) -> None:
    """Remove nodes from their graphs, and detach their inputs.

    Other nodes must not read the outputs of these nodes, and the outputs must not be outputs of the graph.
    """
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
            graph._nodes.remove(node)  # `graph.remove` would first make a set of all outputs of the graph


def detach_inputs(node: ir.Node) -> None:
    """Replace all inputs of a node by None."""
    _replace_all_inputs(node, [None] * len(node.inputs))


def _replace_all_inputs(node: ir.Node, inputs: Sequence[ir.Value | None]) -> None:
    """Replace all inputs of a node by the same number of inputs, and update the uses of the values."""
    old_inputs = node.inputs
    if getattr(node, "device_configurations", None):  # only `replace_input_with` updates the input names in these
        for index, value in enumerate(inputs):
            node.replace_input_with(index, value)
        return
    node._inputs = tuple(inputs)
    for index, (old, new) in enumerate(zip(old_inputs, inputs, strict=True)):
        if old is new:
            continue
        if old is not None:
            old._remove_usage(node, index)
        if new is not None:
            new._add_usage(node, index)


def is_used(value: ir.Value) -> bool:
    """Return whether a node reads a value, or the value is an output of its graph."""
    return value.is_graph_output() or count_uses(value) > 0


def remove_unread(value: ir.Value | None) -> None:
    """Unless a value is used, remove the initializer or node that defines it. Repeat this for the node's inputs.

    Initializers that are graph inputs stay. So do nodes that `_can_be_removed` excludes.
    """
    candidates = [value]
    while candidates:
        candidate = candidates.pop()
        if candidate is None or is_used(candidate):
            continue
        producer = candidate.producer()
        if producer is None:
            if candidate.is_initializer() and not candidate.is_graph_input() and candidate.graph is not None:
                del candidate.graph.initializers[candidate.name or ""]
        elif _can_be_removed(producer):
            candidates += producer.inputs
            remove_nodes([producer])


def _can_be_removed(node: ir.Node) -> bool:
    """Return whether a node is in a graph, nothing reads its outputs, and running it has no effect.

    A node that is not of ONNX's own domain may have effects. A node that draws random numbers changes the numbers that
    later nodes draw, and a node with a subgraph may contain such a node.
    """
    is_plain = node.domain in STANDARD_DOMAINS and node.op_type not in RANDOM and not holds_graph(node)
    return is_plain and node.graph is not None and not _has_used_output(node)


def holds_graph(node: ir.Node) -> bool:
    """Return whether an attribute of a node has the type graph or list of graphs, even as a reference."""
    return any(attribute.type in GRAPH_TYPES for attribute in node.attributes.values())


def _has_used_output(node: ir.Node) -> bool:
    """Return whether an output of a node is used; see `is_used`.

    The index of the used output is stored in the node's `meta`. The next call checks this output first. This saves time
    if the readers of many outputs are removed one by one.
    """
    cached_index = node.meta.get(USED, 0)
    indices = (cached_index, *range(len(node.outputs)))
    used_index = next((index for index in indices if is_used(node.outputs[index])), None)
    if used_index:  # 0 is the default
        node.meta[USED] = used_index
    return used_index is not None


def annotate_value(value: ir.Value, replaced: ir.Value) -> None:
    """Copy the metadata, `meta` and doc string of a replaced value to the new value. An empty doc string is ignored."""
    value.metadata_props.update(replaced.metadata_props)
    value.meta.update(replaced.meta)  # onnx-ir keeps the quantization annotation in `meta`
    value.doc_string = replaced.doc_string or value.doc_string


def open_unconfirmed_sizes(value: ir.Value, inferred: Sequence[object] | None) -> None:
    """Set to None each declared size that is a number and differs from the inferred size.

    Do nothing if a rank is open, or if the ranks differ.
    """
    if value.shape is not None and inferred is not None and len(value.shape) == len(inferred):
        pairs = zip(value.shape, inferred, strict=True)
        dims = [None if isinstance(dim, int) and dim != size else dim for dim, size in pairs]
        value.shape = ir.Shape(dims)


def origin_of(node: ir.Node) -> object:
    """Return the `Change.origin` of a node; the first call creates it. Nodes that replace the node share its origin."""
    return node.meta.setdefault(ORIGIN, object())


def annotate_nodes(nodes: Sequence[ir.Node], replaced: Sequence[ir.Node]) -> None:
    """Copy metadata, doc string and origin of replaced nodes to each new node. The first replaced node has priority."""
    for node in nodes:
        for old in reversed(replaced):  # later updates replace earlier ones, so the first node comes last
            node.metadata_props.update(old.metadata_props)
            node.doc_string = old.doc_string or node.doc_string
            node.meta[ORIGIN] = origin_of(old)
