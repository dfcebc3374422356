"""A view of an onnx-ir model, for callers that pass an onnx-ir model and for models that `ProtoModel` cannot view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_ops.model.defaults import pop_defaults
from onnx_ops.model.domains import usual_name
from onnx_ops.model.nodes import is_slicing, node_name
from onnx_ops.model.prepare import detach_weights, inline_functions, name_left_out_outputs
from onnx_ops.model.read import to_bytes
from onnx_ops.model.views import Array, Dims
from onnx_ops.model.walk import all_nodes, all_values

_ORIGIN, WRITTEN_NAME = "io.sliceport.origin", "io.sliceport.written_name"
_ELEMENT_TYPES = frozenset(ir.DataType)


class IrModel:
    """A `ModelView` of an onnx-ir model without functions or defaults. Each change of the view changes the model."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model

    @classmethod
    def prepared(cls, model: ir.Model) -> IrModel:
        """Inline the functions of a model in place, remove the defaults of its inputs, and return a view of it.

        Inlining renames nodes. So the written name of each node of a function is first stored in the node's metadata,
        with the origin if it is a slicing node: see `mark_written_names` and `NodeInModel.origin`.

        Raises:
            ModelError: A function cannot be inlined.
        """
        pop_defaults(model)
        mark_written_names(model)
        for (domain, name, overload), function in model.functions.items():
            for i, node in enumerate(filter(is_slicing, all_nodes(function))):
                node.metadata_props[_ORIGIN] = f"{domain}:{name}:{overload}#{i}"
                node.name = node.name or f"{name}.{node_name(node)}"  # otherwise inlining names it "node"
        inline_functions(model)
        return cls(model)

    @property
    def graph(self) -> ir.Graph:
        return self._model.graph

    @property
    def opset_imports(self) -> Mapping[str, int]:
        return {usual_name(domain): version for domain, version in self._model.opset_imports.items()}

    def origin(self, node: ir.Node) -> str:
        return node.metadata_props.get(_ORIGIN, "") if node.metadata_props else ""

    def written_name(self, node: ir.Node) -> str:
        return node.metadata_props.get(WRITTEN_NAME) or node_name(node)

    def set_constant(self, value: ir.Value, element: int, array: Array) -> None:
        value.const_value = ir.Tensor(array, dtype=ir.DataType(element))

    def set_shape(self, value: ir.Value, dims: Dims) -> None:
        value.shape = ir.Shape(dims)

    def set_type(self, value: ir.Value, element: int, dims: Dims | None) -> None:
        if dims is not None:
            value.shape = ir.Shape(dims)
        if element and element in _ELEMENT_TYPES:
            dtype = ir.DataType(element)
            if not isinstance(value.type, ir.TensorType) or value.type.dtype != dtype:
                value.type = ir.TensorType(dtype)

    def detach_weights(self) -> None:
        detach_weights(self._model)
        # Without names, `serialize` would omit left-out outputs at the end of a Split, which would have fewer parts.
        name_left_out_outputs(self._model)

    def serialize(self) -> tuple[bytes, Sequence[ir.Value]]:
        serialized = to_bytes(ir.serde.serialize_model(self._model), "the model")
        return serialized, [value for value in all_values(self.graph) if not _is_unwritten(value)]

    def fold(self, node: ir.Node, constants: Sequence[tuple[int, Array]]) -> None:
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        for output, (element, array) in zip(node.outputs, constants, strict=True):
            if not output.name:
                continue  # the output is left out
            dtype = ir.DataType(element)
            folded = ir.Value(
                name=output.name,
                type=ir.TensorType(dtype),
                shape=ir.Shape(array.shape),
                const_value=ir.Tensor(array, dtype=dtype, name=output.name),
            )
            graph.register_initializer(folded)
            output.replace_all_uses_with(folded)  # raises an error for an output of the graph: see `ModelView.fold`
        graph.remove(node, safe=True)


def _is_unwritten(value: ir.Value) -> bool:
    """Return whether onnx-ir omits a value because the value and all later outputs of its node have no names."""
    producer = None if value.name else value.producer()
    return producer is not None and not any(output.name for output in producer.outputs[value.index() :])


def mark_written_names(model: ir.Model) -> None:
    """Store the written name of each node of a function in the node's metadata.

    The written name is `function.node`, in which `node` is the node's `node_name`. If `node_name` is empty, `node`
    is the index of the node among the nodes of the function and of its subgraphs. `function` includes the domain and
    the overload if another function has the same name.
    """
    counts = Counter(name for _, name, _ in model.functions)
    for (domain, name, overload), function in model.functions.items():
        title = name if counts[name] == 1 else "::".join(filter(None, (domain, name, overload)))
        for i, node in enumerate(all_nodes(function)):
            node.metadata_props[WRITTEN_NAME] = f"{title}.{node_name(node) or i}"
