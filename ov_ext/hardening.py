"""Replacement of the slicing nodes that OpenVINO computes wrongly by operators that it computes correctly."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import openvino as ov
from openvino import opset1, opset8

from ov_ext.defects import SUB_BYTES, BuiltInNode, find_defects
from ov_ext.openvino_lock import with_openvino_lock
from ov_ext.passes import BUILT_IN, inputs_of, kind_of, note_operators, replace_nodes, strided_slice
from ov_ext.slicing_op import REFUSED_ELEMENTS
from ov_ext.static_values import as_constant
from sliceport.defects.defect import Defect
from sliceport.defects.engines import OPENVINO_CPU
from sliceport.defects.openvino import AXES_AT_RUN_TIME, MANY_ELEMENTS, STRINGS, WRONG_BOUNDS
from sliceport.errors import InvalidSlice
from sliceport.hardening import Change, Hardening, InvalidNode
from sliceport.slicing.axis import INT64_MAX, INT64_MIN
from sliceport.slicing.masks import Entry, Masks

_INT32_MAX = 2**31 - 1


@with_openvino_lock
def harden(model: ov.Model) -> Hardening:
    """Rewrite the slicing nodes that the CPU plugin or Model.evaluate computes wrongly, and no others.

    A node is rewritten if it triggers a defect of `sliceport.defects.openvino`, except for defects that only show when
    the model runs (`handling` is `unseen`). The replacement consists of built-in operators, so that `ovc`, C++ and
    `benchmark_app` run the model. If the built-in operators have defects too, an operator of ov_ext replaces the node.
    Names are kept as by `use_custom_ops`.

    Args:
        model: The model, which is changed in place, as are bodies of If, Loop and TensorIterator.

    Returns:
        The changes with their reasons.
    """
    changes: list[Change] = []
    invalid: list[InvalidNode] = []
    node_count = 0

    def replace(node: ov.Node) -> ov.Node | None:
        nonlocal node_count
        if kind_of(node) not in BUILT_IN:
            return None
        node_count += 1
        view = BuiltInNode(node)
        name = node.get_friendly_name()
        try:
            triggered = find_defects(view)
            if not triggered:
                return None
            new_node, replacement = _build_replacement(view, triggered)
        except InvalidSlice as error:
            invalid.append(InvalidNode(name, view.op, str(error).rstrip(".")))
            return None
        changes.append(Change(name, view.op, replacement, tuple(triggered)))
        return new_node

    replace_nodes(model, replace)
    note_operators(model)
    return Hardening(OPENVINO_CPU, ov.__version__, node_count, tuple(changes), tuple(invalid))


def _build_replacement(view: BuiltInNode, triggered: Sequence[Defect]) -> tuple[ov.Node | None, str | None]:
    """Return the replacement of a node and its operators in words, or (None, None) if none computes it correctly."""
    output = view.custom_node.output(0)
    is_empty = output.get_partial_shape().is_static and 0 in output.get_shape()
    if is_empty and STRINGS not in triggered:  # OpenVINO cannot make an empty constant of strings.
        return ov.op.Constant(output.get_element_type(), output.get_shape(), []), "Constant"
    if view.element in SUB_BYTES:
        return _replace_sub_byte(view)
    if MANY_ELEMENTS in triggered:
        parts = _build_splits(view)
        return (parts, "VariadicSplit") if parts is not None else (view.custom_node, _extension_name(view))
    # No built-in replacement avoids these three defects.
    if not {WRONG_BOUNDS, STRINGS, AXES_AT_RUN_TIME}.intersection(triggered):
        explicit = _slice_with_clamped_constants(view) if view.op == "Slice" else _expand_to_explicit_entries(view)
        if explicit is not None and not _has_defects(explicit[0], view.inputs):
            return explicit
    return view.custom_node, _extension_name(view)


def _has_defects(node: ov.Node, inputs: Sequence[ov.Output]) -> bool:
    """Return whether a replacement on these inputs triggers a defect itself, for example because of inferred sizes."""
    if kind_of(node) in BUILT_IN and find_defects(BuiltInNode(node)):
        return True
    return any(_has_defects(source.get_node(), inputs) for source in inputs_of(node) if source not in inputs)


def _extension_name(view: BuiltInNode) -> str:
    return f"ov_ext.{view.op}"


def _replace_sub_byte(view: BuiltInNode) -> tuple[ov.Node | None, str | None]:
    """Build a constant if the data are constant and the indices known, or else the operator of ov_ext.

    Returns:
        The replacement and the name of its operator, or (None, None) if ov_ext does not compute the type or the node.
    """
    data = view.inputs[0].get_node()
    if data.get_type_name() != "Constant" or view.all_values is None:
        return (None, None) if view.element in REFUSED_ELEMENTS else (view.custom_node, _extension_name(view))
    output = view.custom_node.output(0)
    tensor = ov.Tensor(output.get_element_type(), output.get_shape())
    indices = [ov.Tensor(np.array([min(value, INT64_MAX) for value in values], np.int64)) for values in view.all_values]
    try:
        is_computed = view.custom_node.evaluate([tensor], [data.get_tensor_view(), *indices])
    except (InvalidSlice, RuntimeError):  # Native operators raise RuntimeError.
        return None, None
    return (ov.op.Constant(tensor), "Constant") if is_computed else (None, None)


def _build_splits(view: BuiltInNode) -> ov.Node | None:
    """Build a VariadicSplit for each sliced axis, if the shape is known, steps are 1 and no axis is new or shrunk."""
    region = view.region
    if region is None or region.output_shape != tuple(map(len, region.ranges)):
        return None
    if any(selected.step != 1 for selected in region.ranges):
        return None
    part = view.inputs[0]
    for axis, (selected, size) in enumerate(zip(region.ranges, region.input_shape, strict=True)):
        if len(selected) != size:
            lengths = [selected.start, len(selected), size - selected.stop]
            part = opset1.variadic_split(part, opset8.constant(np.int64(axis)), _constant(lengths)).output(1)
    # A replacement must have one output, so it ends in a Convert to the type that the data have already. Model.evaluate
    # could not compute ConvertLike.
    return opset1.convert(part, view.element)


def _slice_with_clamped_constants(view: BuiltInNode) -> tuple[ov.Node, str]:
    """Build a Slice with constants that every engine reads as the same numbers."""
    if view.count == 0:
        return _build_whole_slice(view.inputs[0]), "Slice"
    inputs = [view.inputs[0]]
    for index, (source, values) in enumerate(zip(view.inputs[1:], view.values, strict=True)):
        if values is None or None in values:
            inputs.append(_to_whole_bytes(source))
        else:
            inputs.append(_constant([_clamp(value, index) for value in values if value is not None]))
    return opset8.slice(*inputs), "Slice"


def _build_whole_slice(data: ov.Output) -> ov.Node:
    """Build a Slice that selects all of the data, which must not be a scalar."""
    return opset8.slice(data, _constant([0]), _constant([INT64_MAX]), _constant([1]), _constant([0]))


def _expand_to_explicit_entries(view: BuiltInNode) -> tuple[ov.Node, str] | None:
    """Rewrite as a StridedSlice with one explicit entry for each axis and each new axis.

    A Slice before it handles the entries that StridedSlice itself computes wrongly: backward walks through axes
    that may be empty, and axes that are shrunk by an index known at run time only. A Gather is not used, because it
    divides by the size of the axis, which may be 0.

    Returns:
        The replacement with its operators, or None if the number of entries or a needed step is not known, or the rank
        is not known and the node does more than add axes.
    """
    if view.count is None:
        return None
    if view.rank is None:
        return _build_unsqueeze(view)
    if view.rank == 0:  # StridedSlice computes scalars wrongly.
        return opset8.reshape(view.inputs[0], _constant([1] * len(view.entries)), special_zero=False), "Reshape"
    node, operators = view.inputs[0], []
    # Entries that shrink an axis by an index that is known only at run time.
    preselected = {
        entry for entry in view.entries if entry.kind == "shrink" and _constant_index(view, 0, entry) is None
    }
    sliced_first = [entry for entry in view.entries if entry in preselected or view.entry_may_reverse_empty_axis(entry)]
    if sliced_first:
        bounds = [bound for entry in sliced_first if (bound := _slice_bounds(view, entry)) is not None]
        if len(bounds) < len(sliced_first):
            return None
        starts_stops_steps = [_join_values(values) for values in zip(*bounds, strict=True)]
        node = opset8.slice(node, *starts_stops_steps, _constant([entry.axis for entry in sliced_first])).output(0)
        operators.append("Slice")
    reversed_entries = set(sliced_first) - preselected
    entries = [Entry("keep", -1, entry.axis) if entry in reversed_entries else entry for entry in view.entries]
    if any(entry.kind != "keep" for entry in entries):
        node = _build_strided_slice(view, node, entries, preselected).output(0)
        operators.append("StridedSlice")
    return (node.get_node(), " + ".join(operators)) if operators else (_build_whole_slice(node), "Slice")


def _build_unsqueeze(view: BuiltInNode) -> tuple[ov.Node, str] | None:
    """Build the replacement for data of open rank, if the node only adds axes."""
    bits = list(zip(view.aligned_masks.ellipsis, view.aligned_masks.new_axis, strict=True))
    kinds = ["ellipsis" if ellipsis else "new" if new else "other" for ellipsis, new in bits]
    if "other" in kinds or "new" not in kinds:
        return None
    leading = kinds.index("ellipsis") if "ellipsis" in kinds else len(kinds)
    trailing = kinds[leading:].count("new")
    axes = [*range(leading), *range(-trailing, 0)]
    return opset1.unsqueeze(view.inputs[0], _constant(axes)), "Unsqueeze"


def _slice_bounds(view: BuiltInNode, entry: Entry) -> tuple[int | ov.Output, int | ov.Output, int | ov.Output] | None:
    """Return start, stop and step of Slice for an entry, or None if a masked bound depends on an unknown step."""
    if entry.kind == "shrink":
        # A huge step selects one element. A stop of index + 1 would be 0 for index -1, and select nothing.
        return _index_element(view, 0, entry), INT64_MAX, _INT32_MAX
    begin, end, step = (_constant_index(view, i, entry) for i in range(3))
    masked = [mask[entry.position] for mask in (view.aligned_masks.begin, view.aligned_masks.end)]
    if any(masked) and step is None:
        return None
    limits = (0, INT64_MAX) if step is None or step > 0 else (INT64_MAX, INT64_MIN)
    start, stop = (
        limit if is_masked else _index_element(view, i, entry) if value is None else _clamp(value, i)
        for i, (value, limit, is_masked) in enumerate(zip((begin, end), limits, masked, strict=True))
    )
    return start, stop, _index_element(view, 2, entry) if step is None else _clamp(step, 2)


def _join_values(values: Sequence[int | ov.Output]) -> ov.Output:
    """Join numbers and lists of one element into one list."""
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) == len(values):
        return _constant(numbers)
    lists = [_constant([value]) if isinstance(value, int) else value for value in values]
    return lists[0] if len(lists) == 1 else opset8.concat(lists, 0).output(0)


def _build_strided_slice(
    view: BuiltInNode, data: ov.Output, entries: Sequence[Entry], preselected: Collection[Entry]
) -> ov.Node:
    """Build a StridedSlice of entries that name all axes. Only masks that matter are set.

    The entries of `preselected` shrink an axis to its element 0, because a Slice before this node selects one element.
    """
    shape = view.inputs[0].get_partial_shape()
    # Any slice of an axis of size 0 is the whole axis.
    whole = [entry.kind == "keep" or (entry.kind == "slice" and shape[entry.axis] == 0) for entry in entries]
    begin, end = (
        tuple(
            1 if is_whole else mask[entry.position] if entry.kind == "slice" else 0
            for entry, is_whole in zip(entries, whole, strict=True)
        )
        for mask in (view.aligned_masks.begin, view.aligned_masks.end)
    )
    new_axis, shrink_axis = (tuple(int(entry.kind == kind) for entry in entries) for kind in ("new", "shrink"))
    masks = Masks(begin, end, new_axis, shrink_axis).align(len(entries))
    columns = zip(entries, masks.begin, masks.end, whole, strict=True)
    # For each entry: whether StridedSlice reads its elements of begin, end and strides.
    needed = [
        (
            entry.kind == "shrink" or (entry.kind == "slice" and not begins),
            entry.kind == "slice" and not ends,
            entry.kind == "slice" and not is_whole,
        )
        for entry, begins, ends, is_whole in columns
    ]
    lists = []
    for index in range(3):
        needed_entries = [entry if is_read[index] else None for entry, is_read in zip(entries, needed, strict=True)]
        lists.append(_index_list(view, index, needed_entries, preselected))
    return strided_slice([data, *lists], masks)


def _index_list(
    view: BuiltInNode, index: int, entries: Sequence[Entry | None], preselected: Collection[Entry]
) -> ov.Output:
    """Return the list of begin, end or strides, by `index`, for entries of a StridedSlice.

    An entry whose element is not read is None and gets 1. A preselected entry gets 0, because the Slice before this
    node leaves one element of its axis.
    """
    constants: list[int | None] = []
    for entry in entries:
        if entry is None or entry in preselected:
            constants.append(1 if entry is None else 0)
        else:
            constants.append(_constant_index(view, index, entry))
    positions = [-1 if entry is None or entry in preselected else entry.position for entry in entries]
    # An input that is not constant is used unchanged if these are all of its elements in order. Constants are clamped.
    if None in constants and positions == list(range(view.count or 0)):
        return _to_whole_bytes(view.inputs[1 + index])
    elements: list[int | ov.Output] = []
    for entry, value in zip(entries, constants, strict=True):
        if value is not None:
            elements.append(_clamp(value, index))
        elif entry is not None:
            elements.append(_index_element(view, index, entry))
    return _join_values(elements)


def _index_element(view: BuiltInNode, index: int, entry: Entry) -> ov.Output:
    """Return the element of an index input for an entry, as a list of 64-bit integers."""
    source, position = _to_whole_bytes(view.inputs[1 + index]), entry.position
    if view.count != 1:
        bounds = [_constant([value]) for value in (position, position + 1, 1, 0)]
        source = opset8.slice(source, *bounds).output(0)
    return source if source.get_element_type() == ov.Type.i64 else opset1.convert(source, "i64").output(0)


def _to_whole_bytes(source: ov.Output) -> ov.Output:
    """Return an index input; elements of 4 bits are converted to 64 bits."""
    return source if source.get_element_type().bitwidth >= 8 else opset1.convert(source, "i64").output(0)


def _constant_index(view: BuiltInNode, index: int, entry: Entry) -> int | None:
    """Return the element of an index input for an entry, or None if it is not constant. Strides default to 1."""
    if index >= len(view.values):
        return 1
    values = view.values[index]
    return None if values is None else values[entry.position]


def _clamp(value: int, index: int) -> int:
    """Clamp an index to the range that every engine reads alike. Input 2 holds the steps."""
    return min(max(value, -_INT32_MAX) if index == 2 else value, INT64_MAX)


def _constant(values: Sequence[int]) -> ov.Output:
    return as_constant(np.array(values, np.int64)).output(0)
