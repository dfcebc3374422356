"""Replacement of the slicing nodes that OpenVINO computes wrongly by operators that it computes right."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import openvino as ov
from openvino import opset1, opset8

from ov_ext.defects import SUB_BYTES, BuiltInNode, defects
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
    `benchmark_app` run the model. If these are wrong, too, it is our operator. Names stay as in `use_custom_ops`.

    Args:
        model: The model, which is changed in place, as are bodies of If, Loop and TensorIterator.

    Returns:
        The changes with their reasons.
    """
    changes: list[Change] = []
    invalid: list[InvalidNode] = []
    nodes = 0

    def repair(node: ov.Node) -> ov.Node | None:
        nonlocal nodes
        if kind_of(node) not in BUILT_IN:
            return None
        nodes += 1
        view = BuiltInNode(node)
        name = node.get_friendly_name()
        try:
            found = defects(view)
            if not found:
                return None
            new, replacement = _repair(view, found)
        except InvalidSlice as error:
            invalid.append(InvalidNode(name, view.op, str(error).rstrip(".")))
            return None
        changes.append(Change(name, view.op, replacement, tuple(found)))
        return new

    replace_nodes(model, repair)
    note_operators(model)
    return Hardening(OPENVINO_CPU, ov.__version__, nodes, tuple(changes), tuple(invalid))


def _repair(view: BuiltInNode, found: Sequence[Defect]) -> tuple[ov.Node | None, str | None]:
    """Build the replacement of a node, and return it with the names of its operators."""
    output = view.ours.output(0)
    is_empty = output.get_partial_shape().is_static and 0 in output.get_shape()
    if is_empty and STRINGS not in found:  # OpenVINO cannot make an empty constant of strings.
        return ov.op.Constant(output.get_element_type(), output.get_shape(), []), "Constant"
    if view.element in SUB_BYTES:
        return _of_sub_bytes(view)
    if MANY_ELEMENTS in found:
        parts = _as_split(view)
        return (parts, "VariadicSplit") if parts is not None else (view.ours, _extension(view))
    if not {WRONG_BOUNDS, STRINGS, AXES_AT_RUN_TIME}.intersection(found):
        explicit = _slice_with_clamped_constants(view) if view.op == "Slice" else _expand_to_explicit_entries(view)
        if explicit is not None and not _has_defects(explicit[0], view.inputs):
            return explicit
    return view.ours, _extension(view)


def _has_defects(node: ov.Node, inputs: Sequence[ov.Output]) -> bool:
    """Return whether a replacement on these inputs triggers a defect, too, for example by the sizes that it infers."""
    if kind_of(node) in BUILT_IN and defects(BuiltInNode(node)):
        return True
    return any(_has_defects(source.get_node(), inputs) for source in inputs_of(node) if source not in inputs)


def _extension(view: BuiltInNode) -> str:
    return f"ov_ext.{view.op}"


def _of_sub_bytes(view: BuiltInNode) -> tuple[ov.Node | None, str | None]:
    """Return a constant if the values are known, or else our operator if it takes the type."""
    data = view.inputs[0].get_node()
    if data.get_type_name() != "Constant" or view.all_values is None:
        return (None, None) if view.element in REFUSED_ELEMENTS else (view.ours, _extension(view))
    output = view.ours.output(0)
    tensor = ov.Tensor(output.get_element_type(), output.get_shape())
    indices = [ov.Tensor(np.array([min(value, INT64_MAX) for value in values], np.int64)) for values in view.all_values]
    try:
        done = view.ours.evaluate([tensor], [data.get_tensor_view(), *indices])
    except (InvalidSlice, RuntimeError):  # Native operators raise RuntimeError.
        return None, None
    return (ov.op.Constant(tensor), "Constant") if done else (None, None)


def _as_split(view: BuiltInNode) -> ov.Node | None:
    """Build a VariadicSplit for each sliced axis, if the shape is known, steps are 1 and no axis is new or shrunk."""
    region = view.region
    if region is None or len(region.output_shape) != len(region.input_shape):
        return None
    if any(selected.step != 1 for selected in region.ranges):
        return None
    part = view.inputs[0]
    for axis, (selected, size) in enumerate(zip(region.ranges, region.input_shape, strict=True)):
        if len(selected) != size:
            lengths = [selected.start, len(selected), size - selected.stop]
            part = opset1.variadic_split(part, opset8.constant(np.int64(axis)), _constant(lengths)).output(1)
    return opset8.convert_like(part, view.inputs[0])  # Only a node of one output can replace the other.


def _slice_with_clamped_constants(view: BuiltInNode) -> tuple[ov.Node, str]:
    """Build a Slice with constants that every engine reads as the same numbers."""
    if not view.count:
        return _whole(view.inputs[0]), "Slice"
    inputs = [view.inputs[0]]
    for i, (source, values) in enumerate(zip(view.inputs[1:], view.values, strict=True)):
        if values is None or None in values:
            inputs.append(_whole_bytes(source))
        else:
            inputs.append(_constant([_clamp(value, i) for value in values if value is not None]))
    return opset8.slice(*inputs), "Slice"


def _whole(data: ov.Output) -> ov.Node:
    """Build a Slice that selects all of the data, which must not be a scalar."""
    return opset8.slice(data, _constant([0]), _constant([INT64_MAX]), _constant([1]), _constant([0]))


def _expand_to_explicit_entries(view: BuiltInNode) -> tuple[ov.Node, str] | None:
    """Rewrite as a StridedSlice with one explicit entry for each axis and each new axis.

    A Slice in front of it takes the entries that StridedSlice itself computes wrongly: backward walks through axes that
    may be empty, and axes that are shrunk at run time. A Gather would divide by the size of an axis, which may be 0.

    Returns:
        The replacement with its operators, or None if the number of entries or a needed step is not known.
    """
    if view.count is None:
        return None
    if view.rank is None:
        return _new_axes(view)
    if view.rank == 0:  # StridedSlice computes scalars wrongly.
        return opset8.reshape(view.inputs[0], _constant([1] * len(view.entries)), special_zero=False), "Reshape"
    node, operators = view.inputs[0], []
    firsts = {entry for entry in view.entries if entry.kind == "shrink" and _find_known(view, 0, entry) is None}
    cut = [entry for entry in view.entries if entry in firsts or view.may_reverse_nothing(entry)]
    if cut:
        bounds = [_slice_bounds(view, entry) for entry in cut]
        if None in bounds:
            return None
        lists = [_join(values) for values in zip(*(found for found in bounds if found), strict=True)]
        node = opset8.slice(node, *lists, _constant([entry.axis for entry in cut])).output(0)
        operators.append("Slice")
    walked = set(cut) - firsts
    entries = [Entry("keep", -1, entry.axis) if entry in walked else entry for entry in view.entries]
    if any(entry.kind != "keep" for entry in entries):
        node = _by_strided_slice(view, node, entries, firsts).output(0)
        operators.append("StridedSlice")
    return (node.get_node(), " + ".join(operators)) if operators else (_whole(node), "Slice")


def _new_axes(view: BuiltInNode) -> tuple[ov.Node, str] | None:
    """Build the replacement for data of open rank, if the node only adds axes."""
    bits = list(zip(view.bits.ellipsis, view.bits.new_axis, strict=True))
    kinds = ["ellipsis" if ellipsis else "new" if new else "cut" for ellipsis, new in bits]
    if "cut" in kinds or "new" not in kinds:
        return None
    before = kinds.index("ellipsis") if "ellipsis" in kinds else len(kinds)
    behind = kinds[before:].count("new")
    axes = [*range(before), *range(-behind, 0)]
    return opset1.unsqueeze(view.inputs[0], _constant(axes)), "Unsqueeze"


def _slice_bounds(view: BuiltInNode, entry: Entry) -> tuple[int | ov.Output, int | ov.Output, int | ov.Output] | None:
    """Return start, stop and step of Slice for an entry, or None if a masked bound depends on an unknown step."""
    if entry.kind == "shrink":
        return _pick(view, 0, entry), INT64_MAX, _INT32_MAX
    begin, end, step = (_find_known(view, i, entry) for i in range(3))
    masked = [mask[entry.position] for mask in (view.bits.begin, view.bits.end)]
    if any(masked) and step is None:
        return None
    limits = (0, INT64_MAX) if step is None or step > 0 else (INT64_MAX, INT64_MIN)
    first, last = (
        limit if is_masked else _pick(view, i, entry) if value is None else _clamp(value, i)
        for i, (value, limit, is_masked) in enumerate(zip((begin, end), limits, masked, strict=True))
    )
    return first, last, _pick(view, 2, entry) if step is None else _clamp(step, 2)


def _join(values: Sequence[int | ov.Output]) -> ov.Output:
    """Join numbers and lists of one element into one list."""
    if all(isinstance(value, int) for value in values):
        return _constant([value for value in values if isinstance(value, int)])
    listed = [_constant([value]) if isinstance(value, int) else value for value in values]
    return listed[0] if len(listed) == 1 else opset8.concat(listed, 0).output(0)


def _by_strided_slice(
    view: BuiltInNode, data: ov.Output, entries: Sequence[Entry], firsts: Collection[Entry]
) -> ov.Node:
    """Build a StridedSlice of entries that name all axes. Only masks that matter are set.

    The entries of `firsts` shrink an axis to its element 0, since Slice has selected one element.
    """
    shape = view.inputs[0].get_partial_shape()
    whole = [entry.kind == "keep" or (entry.kind == "slice" and shape[entry.axis] == 0) for entry in entries]
    begin, end = (
        tuple(
            1 if is_whole else mask[entry.position] if entry.kind == "slice" else 0
            for entry, is_whole in zip(entries, whole, strict=True)
        )
        for mask in (view.bits.begin, view.bits.end)
    )
    new_axis, shrink_axis = (tuple(int(entry.kind == kind) for entry in entries) for kind in ("new", "shrink"))
    masks = Masks(begin, end, new_axis, shrink_axis).align(len(entries))
    both = zip(entries, masks.begin, masks.end, whole, strict=True)
    needed = [
        (
            entry.kind == "shrink" or (entry.kind == "slice" and not begins),
            entry.kind == "slice" and not ends,
            entry.kind == "slice" and not is_whole,
        )
        for entry, begins, ends, is_whole in both
    ]
    lists = []
    for i in range(3):
        wanted = [entry if need[i] else None for entry, need in zip(entries, needed, strict=True)]
        lists.append(_index_list(view, i, wanted, firsts))
    return strided_slice([data, *lists], masks)


def _index_list(view: BuiltInNode, index: int, entries: Sequence[Entry | None], firsts: Collection[Entry]) -> ov.Output:
    """Return the elements of an index input for some entries, with 1 for those that are ignored."""
    known = [1 if e is None else 0 if e in firsts else _find_known(view, index, e) for e in entries]
    is_as_it_is = [-1 if e is None or e in firsts else e.position for e in entries] == list(range(view.count or 0))
    if None in known and is_as_it_is:
        return _whole_bytes(view.inputs[1 + index])
    listed: list[int | ov.Output] = []
    for entry, value in zip(entries, known, strict=True):
        if value is not None:
            listed.append(_clamp(value, index))
        elif entry is not None:
            listed.append(_pick(view, index, entry))
    return _join(listed)


def _pick(view: BuiltInNode, index: int, entry: Entry) -> ov.Output:
    """Return the element of an index input for an entry, as a list of 64-bit integers."""
    source, at = _whole_bytes(view.inputs[1 + index]), entry.position
    if view.count != 1:
        bounds = [_constant([value]) for value in (at, at + 1, 1, 0)]
        source = opset8.slice(source, *bounds).output(0)
    return source if source.get_element_type() == ov.Type.i64 else opset1.convert(source, "i64").output(0)


def _whole_bytes(source: ov.Output) -> ov.Output:
    """Return an index input, converted to 64 bits if it has 4."""
    return source if source.get_element_type().bitwidth >= 8 else opset1.convert(source, "i64").output(0)


def _find_known(view: BuiltInNode, index: int, entry: Entry) -> int | None:
    """Return the element of an index input for an entry, or None if it is not known. The default step is 1."""
    if index >= len(view.values):
        return 1
    values = view.values[index]
    return None if values is None else values[entry.position]


def _clamp(value: int, index: int) -> int:
    """Clamp an index to the range that every engine reads alike. Input 2 holds the steps."""
    return min(max(value, -_INT32_MAX) if index == 2 else value, INT64_MAX)


def _constant(values: Sequence[int]) -> ov.Output:
    return as_constant(np.array(values, np.int64)).output(0)
