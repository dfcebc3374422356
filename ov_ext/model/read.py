"""The slicing nodes of an OpenVINO model, each resolved, folded, or refused with the reason."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np
import openvino as ov

from ov_ext.model.openvino_lock import with_openvino_lock
from ov_ext.model.passes import BUILT_IN, CUSTOM, SLICES, bodies_of, kind_of, masks_of, nodes_with_scope
from ov_ext.operators.error_text import last_sentence
from ov_ext.operators.static_values import bounds_of, element_bounds, is_integral, read_integers
from sliceport.errors import DynamicSlice, InvalidSlice, Refusal, UsageError
from sliceport.slicing import Region, SliceSpec, SplitSpec, StridedSliceSpec
from sliceport.slicing.axis import INT64_MAX
from sliceport.slicing.node import Cut, Folded, Refused, Resolved, SlicingNode, Spec
from sliceport.wording import example_shapes

SPLITS = {("Split", "opset1"), ("VariadicSplit", "opset1")}
_MAX_SIZE = 2**31 - 1
"""The greatest size to choose for an open dimension whose bounds allow smaller ones."""
_NEVER_CONSTANT = {"RandomUniform", "Multinomial", "ReadValue"}
"""Operators whose outputs vary even if their inputs are constant."""
_ONNX_NAMES = {
    "f32": "FLOAT",
    "f16": "FLOAT16",
    "f64": "DOUBLE",
    "bf16": "BFLOAT16",
    "boolean": "BOOL",
    "f8e4m3": "FLOAT8E4M3FN",
    "f8e5m2": "FLOAT8E5M2",
    "f8e8m0": "FLOAT8E8M0",
    "f4e2m1": "FLOAT4E2M1",
    "nf4": "FLOAT4E2M1",
} | {f"{sign}{bits}": f"{name}{bits}" for sign, name in (("i", "INT"), ("u", "UINT")) for bits in (2, 4, 8, 16, 32, 64)}
"""ONNX names of element types. nf4, which ONNX lacks, gets the name of another 4-bit float: only the bits count."""


def bind_shapes(model: ov.Model, input_shapes: Mapping[str, Sequence[int]]) -> None:
    """Reshape a model, so that its inputs have these shapes. If two names mean one input, the last shape counts.

    Raises:
        UsageError: `input_shapes` names an input that the model lacks, a size is too large, or a shape contradicts the
            model. In the last case, OpenVINO may have changed some shapes already.
    """
    shapes = {}
    for name, shape in input_shapes.items():
        matching = [port for port in model.inputs if name in (*port.get_names(), port.get_node().get_friendly_name())]
        if not matching:
            names = ", ".join(repr(name_of(value)) for value in model.inputs)
            raise UsageError(f"the model has no input {name!r} to give a shape to; its inputs are {names}.")
        if any(size >= INT64_MAX for size in shape):
            raise UsageError(
                f"the shape of input {name!r} must have sizes below 2**63 - 1 (OpenVINO reads that size as open), "
                f"got {list(shape)}."
            )
        declared, wanted = matching[0].get_partial_shape(), ov.PartialShape(list(shape))
        if not declared.compatible(wanted):
            raise UsageError(f"input {name!r} is declared {declared}, but its given shape is {list(shape)}.")
        shapes[matching[0]] = wanted
    if shapes:
        try:
            model.reshape(shapes)
        except RuntimeError as error:
            raise UsageError(f"the model cannot have these shapes: {last_sentence(error)}") from None


def name_of(value: ov.Output) -> str:
    """Return the first tensor name of a value in sorted order, or else its node's name.

    If the node has several outputs, the number of the output follows the node's name, as in `split:1`.
    """
    names = value.get_names()
    if names:
        return str(min(names))
    node = value.get_node()
    name = str(node.get_friendly_name())
    return name if node.get_output_size() == 1 else f"{name}:{value.get_index()}"


@with_openvino_lock
def read_slicing_nodes(model: ov.Model) -> list[SlicingNode]:
    """Read the slicing nodes (built-in ones and those of ov_ext) of a model and its bodies, in topological order."""
    constants, hint = _find_constants(model), _shapes_hint(model)
    return [
        _read_node(node, scope, hint, is_constant=node.get_instance_id() in constants)
        for scope, node in slicing_nodes(model)
    ]


def slicing_nodes(model: ov.Model) -> Iterator[tuple[tuple[str, ...], ov.Node]]:
    """Return the nodes that `read_slicing_nodes` reads, in the same order, each with its scope."""
    kinds = BUILT_IN | CUSTOM | SPLITS
    return ((scope, node) for scope, node in nodes_with_scope(model) if kind_of(node) in kinds)


def _find_constants(model: ov.Model) -> set[int]:
    """Return the instance numbers of the nodes whose outputs depend only on constants and static shapes."""
    constants: set[int] = set()
    for _, node in nodes_with_scope(model):  # in topological order
        kind, sources = node.get_type_name(), node.input_values()
        inner = [each.get_type_name() for body in bodies_of(node).values() for _, each in nodes_with_scope(body)]
        is_constant = kind == "Constant"
        if kind == "ShapeOf":
            is_constant = sources[0].get_partial_shape().is_static
        elif sources and _NEVER_CONSTANT.isdisjoint([kind, *inner]):
            is_constant = all(source.get_node().get_instance_id() in constants for source in sources)
        if is_constant:
            constants.add(node.get_instance_id())
    return constants


def input_dims(model: ov.Model) -> dict[str, list[int | range | None] | None]:
    """Map the name of each input to its sizes; see `dims_of`."""
    return {name_of(value): dims_of(value) for value in model.inputs}


def dims_of(value: ov.Output) -> list[int | range | None] | None:
    """Return the sizes of a value; see `_declared_dim`. Return None for an open rank."""
    shape = value.get_partial_shape()
    return list(map(_declared_dim, shape)) if shape.rank.is_static else None


def _declared_dim(dim: ov.Dimension) -> int | range | None:
    """Return a known size, None for a size without bounds, or else the range of its bounds, cut off at `_MAX_SIZE`."""
    low, high = bounds_of(dim)
    if low == high:
        return low
    # The range is never empty: a lower bound above `_MAX_SIZE` stays.
    return None if (low, high) == (0, INT64_MAX) else range(low, max(low, min(high, _MAX_SIZE)) + 1)


def _shapes_hint(model: ov.Model) -> str:
    """Return the end of a message: an example of shapes for inputs of open shape, or "" if all shapes are known."""
    shapes = {
        name: None if dims is None else [max(dim.start, 1) if isinstance(dim, range) else dim for dim in dims]
        for name, dims in input_dims(model).items()
        if dims is None or not all(isinstance(dim, int) for dim in dims)
    }
    return f"; give sizes, as in {example_shapes(shapes)} (an example)" if shapes else ""


def _read_node(node: ov.Node, scope: tuple[str, ...], hint: str, *, is_constant: bool) -> SlicingNode:
    """Return a node as `Folded` if `is_constant`, or else as `Resolved`, or as `Refused` with the reason.

    `hint` is appended to the message if the shape of the data is not known.
    """
    type_name, opset = kind_of(node)
    data = node.input_value(0)
    # A type name of ov_ext ends in the version of the operator in OpenVINO, as in Slice8.
    is_custom = opset == "ov_ext"
    op_type, version = (type_name[:-1], type_name[-1]) if is_custom else (type_name, opset.removeprefix("opset"))
    name = node.get_friendly_name()
    outputs = tuple(name_of(output) for output in node.outputs())
    element_name = data.get_element_type().get_type_name()
    element = _ONNX_NAMES.get(element_name, element_name.upper())
    domain = opset if is_custom else ""
    # `origin` is empty, because OpenVINO models have no functions. `may_capture` is False, because a body reads values
    # of the graph around it only through its own inputs.
    fields = (name, op_type, domain, int(version), scope, name_of(data), element, outputs, "", False)
    if is_constant:
        return Folded(*fields)
    label = f"{op_type} {name!r}"
    try:
        spec, regions = resolve(node)
    except InvalidSlice as error:
        return Refused(*fields, refusal=Refusal("invalid", f"{label}: {error}."))
    except DynamicSlice as error:
        code = "dynamic_parameter" if data.get_partial_shape().is_static else "missing_shape"
        refusal = Refusal(code, f"{label}: {error}{hint if code == 'missing_shape' else ''}.")
        return Refused(*fields, refusal=refusal)
    is_used = [bool(output.get_target_inputs()) for output in node.outputs()]
    return Resolved(*fields, cuts=tuple(map(Cut, outputs, regions, is_used)), spec=spec)


def resolve(node: ov.Node, data_dependent: Container[int] = ()) -> tuple[Spec, tuple[Region, ...]]:
    """Return the parameters of a slicing node, and the region that each output selects.

    For `data_dependent`, see `find_data_dependent`.

    Raises:
        InvalidSlice: The node breaks its specification.
        DynamicSlice: The shape or an index is not known before the model runs.
    """
    shape = node.input_value(0).get_partial_shape()
    if shape.is_dynamic:
        raise DynamicSlice(f"the shape of its input {name_of(node.input_value(0))!r} is {shape}, not wholly known")
    sizes = tuple(shape.to_shape())
    kind = kind_of(node)
    if kind in SPLITS:
        (axis,) = _read_indices(node.input_value(1), data_dependent)
        if kind[0] == "Split":
            split_spec = SplitSpec.evenly(axis, sizes, node.get_output_size())
        else:  # A VariadicSplit, in which a length of -1 stands for the rest of the axis.
            split_spec = SplitSpec.with_rest(axis, sizes, _read_indices(node.input_value(2), data_dependent))
        return split_spec, split_spec.resolve(sizes)
    starts, ends, *optional = (_read_indices(source, data_dependent) for source in node.input_values()[1:])
    steps, axes = [*optional, None, None][:2]
    is_slice = kind in SLICES
    spec = SliceSpec(starts, ends, axes, steps) if is_slice else StridedSliceSpec(starts, ends, steps, masks_of(node))
    return spec, (spec.resolve(sizes),)


def _read_indices(source: ov.Output, data_dependent: Container[int]) -> tuple[int, ...]:
    """Return the elements of an index input."""
    node, element = source.get_node(), source.get_element_type()
    if element.is_static() and not is_integral(element):
        raise InvalidSlice(f"an index input must hold integers, got {element.get_type_name()}")
    if node.get_type_name() == "Constant":
        return tuple(map(int, read_integers(node).reshape(-1).tolist()))
    bounds = element_bounds(source, data_dependent)
    if bounds is None or not np.array_equal(*bounds):
        raise DynamicSlice(f"an index comes from {node.get_type_name()} {node.get_friendly_name()!r}, not a constant")
    return tuple(bounds[0].tolist())
