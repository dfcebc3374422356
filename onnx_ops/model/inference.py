"""Shape inference: onnx's, but for Slice, where this package's rules stand in for onnx's.

onnx ends the process when a Slice meets a size below 0, and its inference makes such sizes itself: of a pooling window
larger than the image, or of padding that takes away more than there is. A Slice that computes with shapes cannot meet
one, and stays onnx's, which then knows its elements too; unless it has a far step, of which onnx dies as well.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnx_ops.errors import InvalidSlice
from onnx_ops.model.nodes import STRIDED_SLICE_DOMAIN, constant
from onnx_ops.slicing import SliceSpec

_DOMAIN = "sliceport.inference"
_REGISTRY = threading.Lock()
_NEGATIVE_AXES_OPSET = 11
_ON_SHAPES = frozenset(
    "Shape Size Constant Identity Cast Gather Concat Slice Squeeze Unsqueeze Add Sub Mul Div".split()  # noqa: SIM905
)
_MOST_STEP = 1000
_PARAMETERS = ("starts", "ends", "axes", "steps")

logger = logging.getLogger(__name__)


def infer_shapes(model: ir.Model) -> None:
    """Give values the static shapes that can be inferred; what cannot be inferred stays as it was."""
    _infer_once(model)
    while model.opset_imports.get("", 1) < _NEGATIVE_AXES_OPSET and _count_axes_from_the_front(model):
        _infer_once(model)


def refresh_constant_shapes(model: ir.Model) -> bool:
    """Give folded constants the shape of their data where folding kept an older, open one; whether there were any."""
    changed = False
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and (value.shape is None or not value.shape.is_static()):
                value.shape = ir.Shape([dim for dim in tensor.shape if isinstance(dim, int)])
                changed = True
    return changed


def open_negative_sizes(model: ir.Model) -> bool:
    """Make sizes below 0, which some exporters write for an open one, open; whether there were any."""
    changed = False
    for value in all_values(model):
        if value.shape is not None and any(isinstance(dim, int) and dim < 0 for dim in value.shape):
            value.shape = ir.Shape([None if isinstance(dim, int) and dim < 0 else dim for dim in value.shape])
            changed = True
    return changed


def all_values(model: ir.Model) -> Iterator[ir.Value]:
    """Every graph input and node output of the model, its control flow bodies included."""
    for graph in model.graphs():
        yield from graph.inputs
        for node in graph:
            yield from node.outputs


@contextmanager
def slices_by_our_rule(model: ir.Model, exceptions: Collection[int] = ()) -> Iterator[None]:
    """While it lasts, Slice nodes are an operator whose shapes onnx asks this package for.

    Args:
        model: The model; afterwards its nodes are as before.
        exceptions: The `id` of values whose slices stay as they are.
    """
    functions = list(model.functions.values())
    holders: list[ir.Graph | ir.Function] = [model.graph, *functions]
    slices = [
        node
        for holder in holders
        for node in holder.all_nodes()
        if node.op_type == "Slice"
        and node.domain in ("", "ai.onnx")
        and (_has_far_step(node) or not (node.inputs and id(node.inputs[0]) in exceptions))
    ]
    domains = [node.domain for node in slices]
    schema = _slice_schema()
    with _REGISTRY, strided_slice_registered(model):
        onnx.defs.register_schema(schema)
        for imports in (model.opset_imports, *(function.opset_imports for function in functions)):
            imports[_DOMAIN] = schema.since_version
        try:
            for node in slices:
                node.domain = _DOMAIN
            yield
        finally:
            for node, domain in zip(slices, domains, strict=True):
                node.domain = domain
            for imports in (model.opset_imports, *(function.opset_imports for function in functions)):
                del imports[_DOMAIN]
            # onnx crashes at the end of the process when a schema that calls Python is still registered
            onnx.defs.deregister_schema(schema.name, schema.since_version, schema.domain)


@contextmanager
def strided_slice_registered(model: ir.Model) -> Iterator[None]:
    """While it lasts, onnx knows `ov_ext::StridedSlice`, if the model has it and nobody registered it."""
    from onnx_ops.model import strided_slice_op

    is_wanted = STRIDED_SLICE_DOMAIN in model.opset_imports and not strided_slice_op.is_registered()
    if is_wanted:
        strided_slice_op.register()
    try:
        yield
    finally:
        if is_wanted:
            strided_slice_op.deregister()


def _has_far_step(node: ir.Node) -> bool:
    """Whether a Slice has a step of which onnx's own inference hangs or ends the process, or one that is not known."""
    steps = node.inputs[4] if len(node.inputs) > 4 else None
    if steps is None:
        return False
    tensor = constant(steps)
    return tensor is None or bool(np.any(np.abs(tensor.numpy().astype(np.float64)) > _MOST_STEP))


def _slice_schema() -> onnx.defs.OpSchema:
    kind = onnx.defs.OpSchema
    every, one = kind.FormalParameterOption.Variadic, kind.FormalParameterOption.Single
    types = onnx.defs.get_schema("Identity").type_constraints[0].allowed_type_strs
    schema = kind(
        "Slice",
        _DOMAIN,
        1,
        inputs=[kind.FormalParameter("data_and_parameters", "T", param_option=every, is_homogeneous=False)],
        outputs=[kind.FormalParameter("output", "T", param_option=one)],
        type_constraints=[("T", list(types), "")],
        attributes=[kind.Attribute(name, kind.AttrType.INTS, "", required=False) for name in _PARAMETERS[:3]],
    )
    schema.set_type_and_shape_inference_function(_infer_slice)
    return schema


def _infer_slice(context: Any) -> None:
    data = context.get_input_type(0)
    if data is None or not data.HasField("tensor_type"):
        return
    output = onnx.TypeProto()
    output.CopyFrom(data)
    if data.tensor_type.HasField("shape"):
        try:
            _slice_dims(context, output.tensor_type.shape.dim)
        except InvalidSlice:  # the node says so when it is read
            return
    context.set_output_type(0, output)


def _slice_dims(context: Any, dims: Any) -> None:
    """Put the sizes of a Slice's output in the place of its input's; open where they are not known.

    Raises:
        InvalidSlice: The parameters break the rules, or a size is below 0.
    """
    given = [name for i, name in enumerate(_PARAMETERS) if _is_given(context, i, name)]
    known = {name: values for name in given if (values := _values(context, name)) is not None}
    axes = known.get("axes")
    if axes is None and "starts" in known and "axes" not in given:
        axes = tuple(range(len(known["starts"])))
    if "starts" in known and "ends" in known and len(known) == len(given):
        spec = SliceSpec(known["starts"], known["ends"], known.get("axes"), known.get("steps"))
        sizes = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in dims]
        if min(sizes, default=0) < 0:
            raise InvalidSlice(f"a size is below 0 in {sizes}")
        cut = spec.resolve(sizes).output_shape
    else:
        cut = None
    for axis in range(len(dims)) if axes is None else axes:
        was_known = dims[axis].HasField("dim_value")
        dims[axis].Clear()
        if cut is not None and was_known:
            dims[axis].dim_value = cut[axis]


def _is_given(context: Any, index: int, name: str) -> bool:
    return context.has_input(index + 1) or context.get_attribute(name) is not None


def _values(context: Any, name: str) -> tuple[int, ...] | None:
    """The integers of a parameter; None where it is not a constant."""
    attribute = context.get_attribute(name)
    if attribute is not None:
        return tuple(attribute.ints)
    tensor = context.get_input_data(_PARAMETERS.index(name) + 1)
    if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    return tuple(onnx.numpy_helper.to_array(tensor).reshape(-1).tolist())


def _computes_with_shapes(model: ir.Model) -> set[int]:
    """The `id` of each value that is computed from shapes and constants by operators that make no size below 0."""
    found: set[int] = set()
    for node in model.graph.all_nodes():
        if node.op_type in ("Shape", "Size") or (
            node.op_type in _ON_SHAPES
            and all(v is None or v.const_value is not None or id(v) in found for v in node.inputs)
        ):
            found.update(map(id, node.outputs))
    return found


def _infer_once(model: ir.Model) -> None:
    arithmetic = _computes_with_shapes(model)
    try:
        with slices_by_our_rule(model, exceptions=arithmetic):
            proto = onnx.shape_inference.infer_shapes(ir.serde.serialize_model(model), data_prop=True)
    except Exception as error:  # too large to serialise, or a node that breaks its schema
        logger.debug("shape inference stopped: %s", error)
        return
    inferred: dict[str, onnx.TypeProto | None] = {}
    for name, type_proto in _inferred(proto.graph):
        known = inferred.setdefault(name, type_proto)
        if known is not type_proto and known != type_proto:
            inferred[name] = None  # two branches may use one name for different values
    for value in all_values(model):
        found = inferred.get(value.name or "")
        if found is None or (value.shape is not None and value.shape.is_static()):
            continue
        if found.HasField("tensor_type") and found.tensor_type.HasField("shape"):
            value.shape = ir.serde.deserialize_type_proto_for_shape(found)
        value.type = value.type or ir.serde.deserialize_type_proto_for_type(found)
    open_negative_sizes(model)


def _inferred(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TypeProto]]:
    for value in (*graph.value_info, *graph.output):
        yield value.name, value.type
    for node in graph.node:
        for attribute in node.attribute:
            for subgraph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _inferred(subgraph)


def _count_axes_from_the_front(model: ir.Model) -> bool:
    """Write negative axes as what they mean, where old operator sets do not allow them and onnx then infers nothing.

    Exporters write them all the same, and runtimes take them. Whether there were any whose input's rank is known.
    """
    changed = False
    for node in model.graph.all_nodes():
        name = {"Concat": "axis", "Flatten": "axis", "TopK": "axis", "Slice": "axes"}.get(node.op_type, "")
        attribute = node.attributes.get(name)
        shape = node.inputs[0].shape if node.inputs and node.inputs[0] is not None else None
        if attribute is None or attribute.is_ref() or shape is None:
            continue
        axes = list(attribute.as_ints()) if attribute.type == ir.AttributeType.INTS else [attribute.value]
        if any(isinstance(axis, int) and -len(shape) <= axis < 0 for axis in axes):
            axes = [axis + len(shape) if axis < 0 else axis for axis in axes]
            kept = ir.AttrInt64s(name, axes) if attribute.type == ir.AttributeType.INTS else ir.AttrInt64(name, axes[0])
            node.attributes[name] = kept
            changed = True
    return changed
