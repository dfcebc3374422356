"""Hardening: the replacement of slicing nodes that OpenVINO computes wrongly by nodes that it computes correctly."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import openvino as ov
from openvino import opset1, opset8

from ov_ext.defects.conditions import SUB_BYTES, BuiltInNode, find_defects
from ov_ext.model.openvino_lock import with_openvino_lock
from ov_ext.model.passes import (
    BUILT_IN,
    kind_of,
    nodes_with_scope,
    note_operators,
    replace_nodes,
    strided_slice,
)
from ov_ext.model.read import resolve
from ov_ext.operators.slicing_op import REFUSED_ELEMENTS
from ov_ext.operators.static_values import as_constant
from sliceport.defects.defect import Defect
from sliceport.defects.engines import OPENVINO_CPU
from sliceport.errors import DynamicSlice, InvalidSlice
from sliceport.hardening import Change, Hardening, InvalidNode
from sliceport.slicing.axis import INT64_MAX, INT64_MIN
from sliceport.slicing.masks import Entry, Masks

_INT32_MAX = 2**31 - 1
_Element = int | Entry
"""An element of an index list: the entry whose element is read, or a number; 1 if the engine reads no element here."""
_Replacement = tuple[ov.Node, str] | None
"""The node that replaces another one, and the names of its operators; None if no operator is right."""


@with_openvino_lock
def harden(model: ov.Model) -> Hardening:
    """Rewrite the slicing nodes that the CPU plugin or Model.evaluate computes wrongly, and no others.

    A node that triggers a defect of `openvino.toml` is rewritten, or only reported if no replacement is
    right. Defects that only show when the model runs (their `handling` is `unseen`) are not found. The replacement
    consists of built-in operators, so that `ovc`, C++ programs and `benchmark_app` run the model. If these operators
    have a defect as well, an operator of ov_ext replaces the node. For the names that are kept, see `use_custom_ops`.

    Args:
        model: The model. It is changed in place, also in bodies of If, Loop and TensorIterator.

    Returns:
        The changes with their reasons, and the invalid nodes, which stay. If the `replacement` of a change is None, its
        node stays, too.
    """
    changes: list[Change] = []
    invalid: list[InvalidNode] = []
    nodes = [node for _, node in nodes_with_scope(model)]
    node_count = sum(kind_of(node) in BUILT_IN for node in nodes)
    # The CPU plugin ends the process if a TensorIterator's body reads no input. So no node in it becomes a constant.
    iterators = [node for node in nodes if node.get_type_name() == "TensorIterator"]
    iterated = {node.get_instance_id() for each in iterators for _, node in nodes_with_scope(each.get_function())}

    def replacement_of(node: ov.Node) -> ov.Node | None:
        if kind_of(node) not in BUILT_IN:
            return None
        view = BuiltInNode(node)
        name = node.get_friendly_name()
        try:
            triggered = find_defects(view)
            if not triggered:
                return None
            may_be_constant = node.get_instance_id() not in iterated
            replacement = _build_replacement(view, triggered, may_be_constant=may_be_constant)
        except InvalidSlice as error:
            invalid.append(InvalidNode(name, view.op, str(error).rstrip(".")))
            return None
        new_node, operators = replacement or (None, None)
        changes.append(Change(name, view.op, operators, tuple(triggered)))
        return new_node

    replace_nodes(model, replacement_of)
    note_operators(model)
    is_extended = any((change.replacement or "").startswith("ov_ext.") for change in changes)
    extension = "ov_ext.register" if is_extended else ""
    report = (OPENVINO_CPU, ov.__version__, node_count, tuple(changes), tuple(invalid))
    return Hardening(*report, extension=extension)


def _build_replacement(view: BuiltInNode, triggered: Sequence[Defect], *, may_be_constant: bool) -> _Replacement:
    """Build the replacement of a node.

    A node with an empty result becomes a Constant if `may_be_constant` is true. Otherwise, built-in operators are
    preferred to the operator of ov_ext. Raise InvalidSlice if the node breaks the rules of its operator.
    """
    ids = {defect.id for defect in triggered}
    output = view.custom_node.output(0)
    is_empty = output.get_partial_shape().is_static and 0 in output.get_shape()
    # OpenVINO cannot make an empty constant of strings.
    if is_empty and may_be_constant and "strings" not in ids:
        return ov.op.Constant(output.get_element_type(), output.get_shape(), []), "Constant"
    custom = (view.custom_node, f"ov_ext.{view.op}")
    if view.element in SUB_BYTES:
        return _replace_sub_byte(view, custom, may_be_constant=may_be_constant)
    if "more than 2^24 elements on an axis" in ids:
        splits = _build_splits(view)
        return custom if splits is None else (splits, "VariadicSplit")
    # No built-in slicing operator is right for a node that triggers one of these three defects.
    if ids.isdisjoint(("sizes known by bounds", "strings", "axes alone at run time")):
        explicit = _slice_with_clamped_constants(view) if view.op == "Slice" else _expand_to_explicit_entries(view)
        if explicit is not None and not _has_defects(explicit[0], view.inputs):
            return explicit
    return custom


def _has_defects(node: ov.Node, inputs: Sequence[ov.Output]) -> bool:
    """Return whether a node of a replacement triggers a defect. The replacement reaches from `inputs` to `node`."""
    if kind_of(node) in BUILT_IN and find_defects(BuiltInNode(node)):
        return True
    return any(_has_defects(source.get_node(), inputs) for source in node.input_values() if source not in inputs)


def _replace_sub_byte(view: BuiltInNode, custom: _Replacement, *, may_be_constant: bool) -> _Replacement:
    """Return the replacement of a node whose elements are smaller than a byte.

    The replacement is a constant if data and indices are known and `may_be_constant` is true, or else `custom`, the
    operator of ov_ext. Return None if ov_ext does not compute elements of this type, or refuses the node.
    """
    data = view.inputs[0].get_node()
    if data.get_type_name() != "Constant" or view.at_run_time or not may_be_constant:
        return None if view.element in REFUSED_ELEMENTS else custom
    output = view.custom_node.output(0)
    tensor = ov.Tensor(output.get_element_type(), output.get_shape())
    # All elements are known; the checks for None are for mypy. A u64 may be too large for a 64-bit signed integer.
    lists = [[min(value, INT64_MAX) for value in values or () if value is not None] for values in view.index_values]
    indices = [ov.Tensor(np.array(values, np.int64)) for values in lists]
    try:
        is_computed = view.custom_node.evaluate([tensor], [data.get_tensor_view(), *indices])
    except (InvalidSlice, RuntimeError):  # Native operators raise RuntimeError.
        return None
    return (ov.op.Constant(tensor), "Constant") if is_computed else None


def _build_splits(view: BuiltInNode) -> ov.Node | None:
    """Build a VariadicSplit for each sliced axis, and return the last node, which is a Convert.

    Return None if the shape or an index is not known, if a step is not 1, if an axis is added or dropped, or if the
    output is empty but not all of its sizes are 0. Raise InvalidSlice if the node breaks the rules of its operator.
    """
    try:
        _, (region,) = resolve(view.node)
    except DynamicSlice:
        return None
    has_all_axes = region.output_shape == tuple(map(len, region.ranges))
    if not has_all_axes or any(selected.step != 1 for selected in region.ranges):
        return None
    part = view.inputs[0]
    for axis, (selected, size) in enumerate(zip(region.ranges, region.input_shape, strict=True)):
        if len(selected) != size:
            lengths = [selected.start, len(selected), size - selected.stop]
            # Output 1 is the selected part, between the elements before and after it.
            part = opset1.variadic_split(part, opset8.constant(np.int64(axis)), _constant(lengths)).output(1)
    # A VariadicSplit has several outputs, and a replacement must have one. So the last node is a Convert to the type of
    # the data. It is not a ConvertLike, because Model.evaluate does not compute that operator.
    return opset1.convert(part, view.element)


def _slice_with_clamped_constants(view: BuiltInNode) -> tuple[ov.Node, str]:
    """Build a Slice whose constant indices every engine reads alike, and return it with the operator's name."""
    if view.count == 0:  # No axis is sliced.
        return _build_whole_slice(view.inputs[0]), "Slice"
    inputs = [view.inputs[0]]
    for index, (source, values) in enumerate(zip(view.inputs[1:], view.index_values, strict=True)):
        if values is None or None in values:
            inputs.append(_to_whole_bytes(source))
        else:
            inputs.append(_constant([_clamp(value, index) for value in values if value is not None]))
    return opset8.slice(*inputs), "Slice"


def _build_whole_slice(data: ov.Output) -> ov.Node:
    """Build a Slice that selects all of the data, which must not be a scalar."""
    return opset8.slice(data, _constant([0]), _constant([INT64_MAX]), _constant([1]), _constant([0]))


def _expand_to_explicit_entries(view: BuiltInNode) -> tuple[ov.Node, str] | None:
    """Build a StridedSlice with one explicit entry for each axis and each new axis.

    A Slice in front of it handles the entries that a StridedSlice computes wrongly. They slice backward along an axis
    that may be empty, or shrink an axis by an index that is known only at run time. (A Gather is not used for this:
    OpenVINO divides by the size of its axis, which may be 0.) If nothing is left for the StridedSlice, it is left out.
    Three kinds of nodes become other operators: a node that only returns its data becomes a Slice of all data, a node
    whose data have an open rank an Unsqueeze, and a node whose data are a scalar a Reshape.

    Returns:
        The replacement with the names of its operators. None if the number of entries is not known, if an entry of the
        Slice has a masked bound and an unknown step, or if the rank is not known and the node does not only add axes.
    """
    if view.count is None:
        return None
    if view.rank is None:
        return _build_unsqueeze(view)
    if view.rank == 0:  # StridedSlice computes scalars wrongly.
        return opset8.reshape(view.inputs[0], _constant([1] * len(view.entries)), special_zero=False), "Reshape"
    output, operators = view.inputs[0], []
    # Entries that shrink an axis by an index that is known only at run time.
    preselected = {each for each in view.entries if each.kind == "shrink" and _constant_element(view, 0, each) is None}
    reversed_entries = set(filter(view.entry_may_reverse_empty_axis, view.entries))
    sliced_first = [entry for entry in view.entries if entry in preselected | reversed_entries]
    if sliced_first:
        arguments = [each for entry in sliced_first if (each := _slice_inputs(view, entry)) is not None]
        if len(arguments) < len(sliced_first):
            return None
        starts_stops_steps = [_join_values(values) for values in zip(*arguments, strict=True)]
        output = opset8.slice(output, *starts_stops_steps, _constant([entry.axis for entry in sliced_first])).output(0)
        operators.append("Slice")
    # The Slice does all that reversed entries do, so they become `keep` entries, which have no position in the inputs.
    entries = [Entry("keep", -1, entry.axis) if entry in reversed_entries else entry for entry in view.entries]
    if any(entry.kind != "keep" for entry in entries):
        output = _build_strided_slice(view, output, entries, preselected).output(0)
        operators.append("StridedSlice")
    return (output.get_node(), " + ".join(operators)) if operators else (_build_whole_slice(output), "Slice")


def _build_unsqueeze(view: BuiltInNode) -> tuple[ov.Node, str] | None:
    """Build and name the Unsqueeze of a node that only adds axes, or return None. `view.count` must be known."""
    bits = list(zip(view.aligned_masks.ellipsis, view.aligned_masks.new_axis, strict=True))
    kinds = ["ellipsis" if ellipsis else "new" if new else "other" for ellipsis, new in bits]
    if "other" in kinds or "new" not in kinds:
        return None
    # New axes before the ellipsis are counted from the front of the output, those after it from the back.
    leading = kinds.index("ellipsis") if "ellipsis" in kinds else len(kinds)
    trailing = kinds[leading:].count("new")
    axes = [*range(leading), *range(-trailing, 0)]
    return opset1.unsqueeze(view.inputs[0], _constant(axes)), "Unsqueeze"


def _slice_inputs(view: BuiltInNode, entry: Entry) -> tuple[int | ov.Output, int | ov.Output, int | ov.Output] | None:
    """Return start, stop and step of a Slice that selects the same as an entry of a StridedSlice, but keeps the axis.

    Return None if a bound is masked and the sign of the step is unknown, because the sign decides where the bound is.
    """
    if entry.kind == "shrink":
        # A huge step selects one element. The plugin narrows steps to 32 bits. A stop of index + 1 would be 0 for index
        # -1, and select nothing.
        return _build_element(view, 0, entry), INT64_MAX, _INT32_MAX
    masks, step = view.aligned_masks, _constant_element(view, 2, entry)
    if step is None and (masks.begin[entry.position] or masks.end[entry.position]):
        return None
    # If the step is not known, no bound is masked.
    masked_start, masked_stop = (0, INT64_MAX) if step is None or step > 0 else (INT64_MAX, INT64_MIN)
    start = masked_start if masks.begin[entry.position] else _element_or_output(view, 0, entry)
    stop = masked_stop if masks.end[entry.position] else _element_or_output(view, 1, entry)
    return start, stop, _element_or_output(view, 2, entry)


def _join_values(values: Sequence[int | ov.Output]) -> ov.Output:
    """Join numbers, and outputs that are lists of one element, into one list."""
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) == len(values):
        return _constant(numbers)
    lists = [_constant([value]) if isinstance(value, int) else value for value in values]
    return lists[0] if len(lists) == 1 else opset8.concat(lists, 0).output(0)


def _build_strided_slice(
    view: BuiltInNode, data: ov.Output, entries: Sequence[Entry], preselected: Collection[Entry]
) -> ov.Node:
    """Build a StridedSlice in which each axis has an entry of its own. Only the mask bits that it needs are set.

    The entries of `preselected` shrink their axis to element 0, the only one that the Slice before the new node leaves.
    """
    rows = [_make_explicit(view, entry, is_preselected=entry in preselected) for entry in entries]
    begin_mask, end_mask = zip(*(bits for bits, _ in rows), strict=True)
    columns = zip(*(elements for _, elements in rows), strict=True)
    lists = [_index_list(view, index, column) for index, column in enumerate(columns)]
    new_axis_mask, shrink_axis_mask = (tuple(int(each.kind == kind) for each in entries) for kind in ("new", "shrink"))
    return strided_slice([data, *lists], Masks(begin_mask, end_mask, new_axis_mask, shrink_axis_mask))


def _make_explicit(
    view: BuiltInNode, entry: Entry, *, is_preselected: bool
) -> tuple[tuple[int, int], tuple[_Element, _Element, _Element]]:
    """Return the bits of an entry in the begin and end masks, and its begin, end and stride."""
    masks, position = view.aligned_masks, entry.position
    # The Slice before the new node changes no axis with an entry of the kind `slice`. Any slice of an axis of size 0 is
    # the whole axis.
    is_empty = entry.kind == "slice" and view.inputs[0].get_partial_shape()[entry.axis] == 0
    if entry.kind == "keep" or is_empty:
        return (1, 1), (1, 1, 1)
    if entry.kind == "slice":
        begin, end = (1 if mask[position] else entry for mask in (masks.begin, masks.end))
        return (masks.begin[position], masks.end[position]), (begin, end, entry)
    # A shrunk axis gets no bits, because the plugin misreads a begin mask on it.
    index = entry if entry.kind == "shrink" else 1
    return (0, 0), (0 if is_preselected else index, 1, 1)


def _index_list(view: BuiltInNode, index: int, column: Sequence[_Element]) -> ov.Output:
    """Return the list of begin (`index` 0), end (1) or strides (2) of a StridedSlice."""
    values = view.index_values[index] if index < len(view.index_values) else []
    positions = [each.position if isinstance(each, Entry) else -1 for each in column]
    # An input with unknown elements is used as a whole if the entries read all of its elements in order.
    if (values is None or None in values) and positions == list(range(view.count or 0)):
        return _to_whole_bytes(view.inputs[1 + index])
    return _join_values([_element_or_output(view, index, e) if isinstance(e, Entry) else e for e in column])


def _element_or_output(view: BuiltInNode, index: int, entry: Entry) -> int | ov.Output:
    """Return an entry's begin (`index` 0), end (1) or stride (2): a clamped number if constant, else an output."""
    value = _constant_element(view, index, entry)
    return _build_element(view, index, entry) if value is None else _clamp(value, index)


def _build_element(view: BuiltInNode, index: int, entry: Entry) -> ov.Output:
    """Return an entry's begin (`index` 0), end (1) or stride (2) as an output: a list of one 64-bit integer."""
    source, position = _to_whole_bytes(view.inputs[1 + index]), entry.position
    if view.count != 1:
        arguments = [_constant([value]) for value in (position, position + 1, 1, 0)]  # start, stop, step, axis
        source = opset8.slice(source, *arguments).output(0)
    return source if source.get_element_type() == ov.Type.i64 else opset1.convert(source, "i64").output(0)


def _to_whole_bytes(source: ov.Output) -> ov.Output:
    """Return an index input. Packed elements, which Model.evaluate misreads, are converted to 64 bits."""
    return source if source.get_element_type().bitwidth >= 8 else opset1.convert(source, "i64").output(0)


def _constant_element(view: BuiltInNode, index: int, entry: Entry) -> int | None:
    """Return an entry's element of index input `index`, or None if it is not constant.

    The strides, which are the last input, may be left out. Then each of them is 1.
    """
    if index >= len(view.index_values):
        return 1
    values = view.index_values[index]
    return None if values is None else values[entry.position]


def _clamp(value: int, input_index: int) -> int:
    """Clamp an element to the range that every engine reads alike. Index input 2 holds the steps."""
    # For a step of -2^31 or below, the CPU plugin divides INT32_MIN by -1, which ends the process.
    least = -_INT32_MAX if input_index == 2 else INT64_MIN
    return min(max(value, least), INT64_MAX)


def _constant(values: Sequence[int]) -> ov.Output:
    return as_constant(np.array(values, np.int64)).output(0)
