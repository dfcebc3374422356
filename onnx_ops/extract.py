"""From an ONNX model to its slicing nodes: each resolved, folded, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import onnx_ir as ir

from onnx_ops.defaults import forget_defaults
from onnx_ops.nodes import Known, MissingParameter, constant, is_slicing, known_shape, resolve
from onnx_ops.resolve_shapes import bind_shapes, inline_functions, resolve_shapes, unknown_inputs
from sliceport.errors import DynamicSlice, InvalidSlice, Refusal
from sliceport.slicing.node import Cut, Folded, Refused, Resolved, SlicingNode
from sliceport.wording import example_shapes

InputShapes = Mapping[str, Sequence[int]]
_ORIGIN = "io.sliceport.origin"


def read_slicing_nodes(model: ir.Model, input_shapes: InputShapes | None = None) -> list[SlicingNode]:
    """The slicing nodes of a model in its order, with those of subgraphs and, once per call, of functions.

    The model is prepared in place: functions inlined, shapes bound and inferred, constants folded.

    Args:
        model: The model; its large constants are not read.
        input_shapes: Sizes of inputs whose shape the model does not fix, by name.

    Raises:
        ModelError: A function cannot be inlined.
        UsageError: `input_shapes` do not fit the model.
    """
    forget_defaults(model)
    _mark_origins(model)
    inline_functions(model)
    bind_shapes(model, input_shapes or {})
    written = [_describe(scope, node, model) for scope, node in _slicing_nodes(model.graph, ())]
    resolved = resolve_shapes(model, [w.node for w in written])
    remaining = {id(node) for node in model.graph.all_nodes() if is_slicing(node)} - resolved.dead
    hint = _shapes_hint(model)
    return [
        _resolve(w, resolved.known.get(id(w.node)), hint)
        if id(w.node) in remaining
        else Folded(*w.place(), constants=resolved.constants.get(id(w.node), ()))
        for w in written
    ]


class _Written(NamedTuple):
    """A slicing node before the model is prepared, which may rename values and remove their readers."""

    node: ir.Node
    name: str
    opset: int
    scope: tuple[str, ...]
    input: str
    outputs: tuple[str, ...]
    used: tuple[bool, ...]

    def place(self) -> tuple[str, str, str, int, tuple[str, ...], str, str, tuple[str, ...], str]:
        """The fields that all slicing nodes have, in the order of `NodeInModel`."""
        node = self.node
        origin = node.metadata_props.get(_ORIGIN, "") if node.metadata_props else ""
        return (
            self.name, node.op_type, node.domain, self.opset, self.scope, self.input, _element(node), self.outputs,
            origin,
        )  # fmt: skip


def _mark_origins(model: ir.Model) -> None:
    for (domain, name, overload), function in model.functions.items():
        for i, node in enumerate(filter(is_slicing, function.all_nodes())):
            node.metadata_props[_ORIGIN] = f"{domain}:{name}:{overload}#{i}"
            node.name = node.name or f"{name}.{_name(node)}"  # or inlining would call it just "node"


def _slicing_nodes(graph: ir.Graph, scope: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ir.Node]]:
    for node in graph:
        if is_slicing(node):
            yield scope, node
        elif node.attributes:
            for name, attribute in node.attributes.items():
                if attribute.is_ref() or attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                    continue
                graphs = attribute.as_graphs() if attribute.type == ir.AttributeType.GRAPHS else [attribute.as_graph()]
                for subgraph in graphs:
                    yield from _slicing_nodes(subgraph, (*scope, f"{_name(node)}.{name}"))


def _is_used(output: ir.Value) -> bool:
    return bool(output.name) and (output.is_graph_output() or bool(output.uses()))


def _name(node: ir.Node) -> str:
    return node.name or next((output.name for output in node.outputs if output.name), "") or ""


def _describe(scope: tuple[str, ...], node: ir.Node, model: ir.Model) -> _Written:
    data = node.inputs[0] if node.inputs else None
    outputs = node.outputs
    return _Written(
        node,
        _name(node),
        model.opset_imports.get(node.domain, model.opset_imports.get("", 1)),
        scope,
        (data.name or "") if data is not None else "",
        tuple([output.name or "" for output in outputs]),
        tuple([_is_used(output) for output in outputs]),
    )


def _resolve(written: _Written, known: Known | None, hint: str) -> Resolved | Refused:
    node = written.node
    try:
        if not node.inputs or node.inputs[0] is None:
            raise InvalidSlice("data is missing")
        spec, parts = known or resolve(node, written.opset)
        if len(parts) != len(written.outputs):
            raise InvalidSlice(f"{node.op_type} has {len(parts)} output, got {len(written.outputs)}")
    except (InvalidSlice, DynamicSlice) as error:
        return Refused(*written.place(), refusal=_refuse(f"{node.op_type} {written.name!r}", error, node, hint))
    cuts = tuple(map(Cut, written.outputs, parts, written.used))
    return Resolved(*written.place(), cuts=cuts, spec=spec)


def _element(node: ir.Node) -> str:
    """The element type of the node's data, which is also that of its outputs; empty where it is not known."""
    data = node.inputs[0] if node.inputs else None
    if data is not None and data.const_value is not None:
        return data.const_value.dtype.name
    values = node.outputs if data is None else (data, *node.outputs)
    return next((value.dtype.name for value in values if value.dtype is not None), "")


def _refuse(label: str, error: InvalidSlice | DynamicSlice, node: ir.Node, hint: str) -> Refusal:
    if isinstance(error, InvalidSlice):
        return Refusal("invalid", f"{label}: {error}.")
    if isinstance(error, MissingParameter):
        return Refusal("missing_parameter", f"{label}: {error}.")
    if known_shape(node) is not None:
        return Refusal("dynamic_parameter", f"{label}: {error}{hint}")
    return Refusal("missing_shape", f"{label}: {_missing_shape(node)}{hint}")


def _missing_shape(node: ir.Node) -> str:
    """Which dimension of the node's input is not known."""
    data = node.inputs[0]
    assert data is not None
    producer = data.producer()
    name = f"its input {data.name!r}" + (f" (made by {producer.op_type} {_name(producer)!r})" if producer else "")
    if data.shape is None:
        return f"the shape of {name} is not known"
    axis, dim = next((axis, dim) for axis, dim in enumerate(data.shape) if not isinstance(dim, int))
    return f"dimension {axis} of {name} is not known" + (f" ({dim.value!r})" if dim.value else "")


def _shapes_hint(model: ir.Model) -> str:
    """The end of a message: which dimensions of which inputs are unknown, and how to give them."""
    wanted = []
    open_shapes: dict[str, list[int | str | None] | None] = {}
    for value, axes in unknown_inputs(model):
        name = value.name or ""
        if constant(value) is not None:
            continue
        if value.shape is None:
            wanted.append(f"the shape of input {name!r}")
            open_shapes[name] = None
            continue
        wanted += [f"dimension {axis} of input {name!r}" for axis in axes]
        open_shapes[name] = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    if not wanted:
        return "."
    several = " are" if len(wanted) > 1 else " is"
    return f"; {', '.join(wanted)}{several} open: give sizes, as in {example_shapes(open_shapes)} (an example)."
