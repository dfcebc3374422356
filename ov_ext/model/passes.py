"""Replacement of built-in slicing operators by ours, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import openvino as ov
from openvino import opset1, opset8

from ov_ext.operators.nodes import SLICE, STRIDED_SLICE, make_node
from ov_ext.operators.slicing_op import VERSION
from ov_ext.operators.static_values import ones_like
from sliceport.slicing import Masks
from sliceport.slicing.node import extend_scope

BUILT_IN = {("Slice", "opset8"), ("StridedSlice", "opset1")}
"""The built-in slicing operators that have a counterpart in ov_ext, each by the `kind_of` its nodes."""
CUSTOM = {(SLICE, VERSION), (STRIDED_SLICE, VERSION)}
"""The operators of ov_ext."""
SLICES = {("Slice", "opset8"), (SLICE, VERSION)}
NOTE = (
    "operators of version ov_ext belong to sliceport: in Python call ov_ext.register(core) before reading this model; "
    "elsewhere load the library that 'python -m ov_ext.native --path' prints"
)
"""The note in IR files with our operators, for programs that lack them. It is in the rt_info of the model, because
OpenVINO does not write the rt_info of nodes."""
_NOTE_KEY = "sliceport"


def kind_of(node: ov.Node) -> tuple[str, str]:
    """Return a node's type name and version."""
    info = node.get_type_info()
    return info.name, info.version_id


def use_custom_ops(model: ov.Model) -> int:
    """Replace the built-in Slice and StridedSlice by those of ov_ext, also in bodies of If, Loop and TensorIterator.

    Friendly names, tensor names, and the strings and integers in `rt_info` are kept. Other values in `rt_info` are
    lost, because OpenVINO's Python API cannot write them.

    Args:
        model: The model, which is changed in place. If it has operators of ov_ext, its `rt_info` gets `NOTE`.

    Returns:
        The number of replaced nodes.

    Raises:
        InvalidSlice: A node breaks the rules of its operator. The nodes before it are then replaced already.
        UsageError: See `backend`.
    """
    replaced = replace_nodes(model, lambda node: build_custom(node) if kind_of(node) in BUILT_IN else None)
    note_operators(model)
    return replaced


def use_builtin_ops(model: ov.Model) -> int:
    """Replace the operators of ov_ext by the built-in ones, also in bodies. This undoes `use_custom_ops`.

    Args:
        model: The model, which is changed in place. The note of `use_custom_ops` is removed. Values of
            `rt_info` that `use_custom_ops` could not keep are not restored.

    Returns:
        The number of replaced nodes.
    """
    replaced = replace_nodes(model, lambda node: build_built_in(node) if kind_of(node) in CUSTOM else None)
    note_operators(model)
    return replaced


def note_operators(model: ov.Model) -> None:
    """Put `NOTE` into the rt_info of a model with operators of ov_ext, or remove it from a model without them."""
    if any(kind_of(node) in CUSTOM for _, node in nodes_with_scope(model)):
        model.set_rt_info(NOTE, [_NOTE_KEY, "note"])
    elif model.has_rt_info([_NOTE_KEY]):
        del model.rt_info[_NOTE_KEY]


def name_unnamed_nodes(model: ov.Model) -> None:
    """Name the nodes that have no name, so that the file of a model has the same bytes in every process.

    OpenVINO's own name for such a node contains the number of nodes that the process has built before the node.
    """
    # `get_name` returns OpenVINO's own name, which is also the friendly name of a node without a name.
    used_names = {name for node in model.get_ops() if (name := node.get_friendly_name()) != node.get_name()}
    numbers = count()
    for node in model.get_ordered_ops():
        for body in bodies_of(node).values():
            name_unnamed_nodes(body)
        if node.get_friendly_name() == node.get_name():
            names = (f"{node.get_type_name()}_{i}" for i in numbers)
            node.set_friendly_name(next(name for name in names if name not in used_names))


def replace_nodes(model: ov.Model, make: Callable[[ov.Node], ov.Node | None]) -> int:
    """Replace each node for which `make` returns another one, also in bodies. Return the number of replaced nodes.

    For names and `rt_info`, see `_copy_names_and_info`. The shapes in the model are inferred again.
    """
    replaced = 0
    for node in model.get_ordered_ops():
        for body in bodies_of(node).values():
            replaced += replace_nodes(body, make)
        replacement = make(node)
        if replacement is not None:
            _copy_names_and_info(node, replacement)
            ov.utils.replace_node(node, replacement)
            replaced += 1
    if replaced:
        model.validate_nodes_and_infer_types()
    return replaced


def bodies_of(node: ov.Node) -> dict[str, ov.Model]:
    """Return the bodies of an If, Loop or TensorIterator by name; other nodes have none."""
    kind = node.get_type_name()
    if kind == "If":
        return {"then_body": node.get_function(0), "else_body": node.get_function(1)}
    return {"body": node.get_function()} if kind in ("Loop", "TensorIterator") else {}


def nodes_with_scope(model: ov.Model, scope: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ov.Node]]:
    """Yield the nodes of a model in `scope` and of its bodies, each with its scope; see `NodeInModel.scope`."""
    used: dict[str, int] = {}
    for node in model.get_ordered_ops():
        yield scope, node
        for title, body in bodies_of(node).items():
            yield from nodes_with_scope(body, extend_scope(scope, node.get_friendly_name(), title, used))


def _copy_names_and_info(old: ov.Node, new: ov.Node) -> None:
    """Copy the friendly name, the tensor names, and the strings and integers of `rt_info`."""
    new.set_friendly_name(old.get_friendly_name())
    new.output(0).get_tensor().set_names(old.output(0).get_tensor().get_names())
    info = new.get_rt_info()
    for key, entry in old.get_rt_info().items():
        try:
            value = entry.value
        except TypeError:  # OpenVINO's Python API cannot read a value of this type.
            continue
        if isinstance(value, (str, int)):
            info[key] = value


def masks_of(node: ov.Node) -> Masks:
    """Return the masks of a StridedSlice, built-in or of ov_ext."""
    return Masks.of(node.get_attributes())


def build_custom(node: ov.Node, inputs: list[ov.Output] | None = None) -> ov.Node:
    """Build the operator of ov_ext for a Slice or StridedSlice. The name is kept, as are the inputs without `inputs`.

    Raises:
        InvalidSlice: The node breaks the rules of its operator.
        UsageError: See `backend`.
    """
    kind, masks = (SLICE, None) if kind_of(node) in SLICES else (STRIDED_SLICE, masks_of(node))
    return make_node(kind, inputs or node.input_values(), masks, name=node.get_friendly_name())


def build_built_in(node: ov.Node, inputs: list[ov.Output] | None = None) -> ov.Node:
    """Build the built-in operator for a Slice or StridedSlice, built-in or of ov_ext. See `build_custom`."""
    inputs = inputs or node.input_values()
    return opset8.slice(*inputs) if kind_of(node) in SLICES else strided_slice(inputs, masks_of(node))


def strided_slice(inputs: list[ov.Output], masks: Masks) -> ov.Node:
    """Build the built-in StridedSlice.

    OpenVINO requires strides, and masks of equal length. Missing strides are 1, and shorter masks are padded with 0.
    """
    if len(inputs) == 3:
        inputs = [*inputs, ones_like(inputs[1])]
    length = max(map(len, masks.attributes.values()))
    # `attributes` lists the masks in the order of the parameters.
    return opset1.strided_slice(*inputs, *map(list, masks.align(length).attributes.values()))
