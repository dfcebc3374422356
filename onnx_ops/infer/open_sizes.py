"""The sizes that the inputs of a model leave open, by names that a user can recognise."""

from __future__ import annotations

from functools import cached_property

from onnx_ops.model.nodes import constant, find_computing_node, is_standard, is_valid_operator, read_elements, read_int
from onnx_ops.model.proto_model import Graph
from onnx_ops.model.views import NodeView, ValueView
from onnx_ops.model.walk import all_nodes, graphs_in


class OpenSizes:
    """The open sizes of a graph, and of the graphs in it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        # An initializer may also be a graph input: a constant before IR version 4, and a default from then on.
        inputs = [value for value in graph.inputs if value.const_value is None]
        self._input_ids = set(map(id, inputs))
        dims = [dim for value in inputs for dim in value.shape or ()]
        self._input_symbols = {dim.value for dim in dims if not isinstance(dim, int) and dim.value}

    def name(self, value: ValueView, axis: int) -> str:
        """Return a name for an axis whose size the model's inputs leave open. Return an empty string otherwise."""
        dims = list(value.shape or ())
        dim = dims[axis] if -len(dims) <= axis < len(dims) else 0  # an axis out of range has no name
        if isinstance(dim, int):
            return ""
        if dim.value in self._input_symbols:
            return repr(dim.value)
        is_unnamed_input = id(value) in self._input_ids and not dim.value
        return f"axis {axis % len(dims)} of {value.name!r}" if is_unnamed_input else ""

    def size_of(self, value: ValueView, axis: int) -> int | str | None:
        """Return the size of an axis, or its name if the model's inputs leave it open. Otherwise return None."""
        dims = list(value.shape or ())
        dim = dims[axis] if -len(dims) <= axis < len(dims) else None
        return dim if isinstance(dim, int) else self.name(value, axis) or None

    def held_size(self, value: ValueView) -> int | str | None:
        """Return the size that a value of one element holds, or the name of the size if the inputs leave it open.

        Return None unless the value comes from a Shape, or from a Gather of one element of a Shape.

        Raises:
            InvalidSlice, DynamicSlice: An attribute of the Shape is not valid or not known.
        """
        node, index = find_computing_node(value), 0
        if is_valid_operator(node, "Gather") and node.inputs[0] is not None and node.inputs[1] is not None:
            indices = read_elements(node.inputs[1], 1)
            if indices is None or not indices.size:
                return None
            node, index = find_computing_node(node.inputs[0]), int(indices.flat[0])
        if not is_valid_operator(node, "Shape") or (data := node.inputs[0]) is None or data.shape is None:
            return None
        axes = range(len(data.shape))[read_int(node, "start", 0) : read_int(node, "end", None)]
        return self.size_of(data, axes[index]) if -len(axes) <= index < len(axes) else None

    def may_decide(self, name: str, node: NodeView) -> bool:
        """Return whether the open size `name` may decide whether a node in a branch or a loop runs.

        The condition of an If, or the count or condition of a Loop, may be computed from the size. A Scan may iterate
        over an axis 0 of this size.

        Raises:
            InvalidSlice, DynamicSlice: The attribute num_scan_inputs is not valid or not known.
        """
        while (owner := self._owners.get(id(node.graph))) is not None:
            inputs = owner.inputs
            if is_standard(owner, "Scan"):
                # Other scanned axes are left out: if one has size 0, onnxruntime ends the process, so nothing runs.
                scan_inputs = inputs[len(inputs) - read_int(owner, "num_scan_inputs", 0) :]
                decides = any(value is not None and self.size_of(value, 0) == name for value in scan_inputs)
            else:  # the condition of an If, or the count and condition of a Loop: if computed, any size may decide
                given = [value for value in inputs[:2] if value is not None]
                decides = not all(id(value) in self._input_ids or constant(value) is not None for value in given)
            if decides:
                return True
            node = owner
        return False

    @cached_property
    def _owners(self) -> dict[int, NodeView]:
        """The node that contains each graph, by the `id` of the graph."""
        return {id(body): node for node in all_nodes(self._graph) for body in graphs_in(node)}
