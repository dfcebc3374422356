"""Rewriting the slicing that OpenVINO's CPU plugin computes wrongly into forms that it computes right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import openvino as ov
from openvino import opset1, opset8

from onnx_ops.hardening import Change, Defect, Hardening
from onnx_ops.slicing.axis import INT64_MAX
from onnx_ops.slicing.spec import MASKS, Entry
from ov_ext.defects import MANY_ELEMENTS, STRINGS, SUB_BYTE, WRONG_BOUNDS, BuiltInNode, defects
from ov_ext.passes import BUILT_IN, kind_of, replace_nodes, strided_slice
from ov_ext.values import as_constant

_INT32_MAX = 2**31 - 1


def harden(model: ov.Model) -> Hardening:
    """Rewrite the slicing nodes that OpenVINO's CPU plugin computes wrongly; the others stay as they are.

    The new form is made of built-in operators, so that `ovc`, C++ and `benchmark_app` run the model; our own operator
    takes the place where there is no such form. Names stay as in `use_custom_ops`.

    Not seen before a model runs, so not rewritten: an index of more than 32 bits, or a shrink out of range, that only
    comes with the model's inputs.

    Args:
        model: The model; it is changed, bodies of If, Loop and TensorIterator too.

    Returns:
        What was changed, and why.
    """
    changes: list[Change] = []
    nodes = 0

    def repair(node: ov.Node) -> ov.Node | None:
        nonlocal nodes
        if kind_of(node) not in BUILT_IN:
            return None
        nodes += 1
        view = BuiltInNode(node)
        found = defects(view)
        if not found:
            return None
        new, form = _repaired(view, found)
        changes.append(Change(node.get_friendly_name(), view.op, form, tuple(found)))
        return new

    replace_nodes(model, repair)
    return Hardening("openvino-cpu", ov.__version__, nodes, tuple(changes))


def _repaired(view: BuiltInNode, found: Sequence[Defect]) -> tuple[ov.Node | None, str | None]:
    """The node that takes the place, and what it is made of."""
    output = view.ours.output(0)
    is_empty = output.get_partial_shape().is_static and 0 in output.get_shape()
    if is_empty and STRINGS not in found:  # OpenVINO makes no constants of strings that are none
        return ov.op.Constant(output.get_element_type(), output.get_shape(), []), "Constant"
    if SUB_BYTE in found:
        folded = _folded(view)
        return (None, None) if folded is None else (folded, "Constant")
    if MANY_ELEMENTS in found:
        parts = _as_split(view)
        return (parts, "VariadicSplit") if parts is not None else (view.ours, _extension(view))
    if WRONG_BOUNDS not in found and STRINGS not in found:
        spelled = _slice_with_sane_values(view) if view.op == "Slice" else _spelled_out(view)
        if spelled is not None:
            return spelled
    return view.ours, _extension(view)


def _extension(view: BuiltInNode) -> str:
    return f"ov_ext.{view.op}"


def _folded(view: BuiltInNode) -> ov.Node | None:
    """The values themselves."""
    data = view.inputs[0].get_node()
    output = view.ours.output(0)
    tensor = ov.Tensor(output.get_element_type(), output.get_shape())
    indices = [ov.Tensor(np.array(values, np.int64)) for values in view.all_values or ()]
    try:
        done = view.ours.evaluate([tensor], [data.get_tensor_view(), *indices])
    except RuntimeError:
        return None
    return ov.op.Constant(tensor) if done else None


def _as_split(view: BuiltInNode) -> ov.Node | None:
    """A part of a VariadicSplit for each cut axis, if the shape is known, steps are 1 and no axis comes or goes."""
    shape = view.inputs[0].get_partial_shape()
    values = view.all_values
    if shape.is_dynamic or values is None or view.ours.get_output_partial_shape(0).rank != shape.rank:
        return None
    region = view.ours.region(tuple(shape.to_shape()), tuple(map(tuple, values)))
    if any(kept.step != 1 for kept in region.ranges):
        return None
    part = view.inputs[0]
    for axis, (kept, size) in enumerate(zip(region.ranges, region.input_shape, strict=True)):
        if len(kept) != size:
            lengths = [kept.start, len(kept), size - kept.stop]
            part = opset1.variadic_split(part, _scalar(axis), _constant(lengths)).output(1)
    return opset8.convert_like(part, view.inputs[0])  # a node of one output, to take the place


def _slice_with_sane_values(view: BuiltInNode) -> tuple[ov.Node, str] | None:
    """Slice with constants that every engine reads as the same numbers."""
    if not view.count:
        return _identity(view)
    inputs = [view.inputs[0]]
    for i, (source, values) in enumerate(zip(view.inputs[1:], view.values, strict=True)):
        if values is None or None in values:
            inputs.append(source)
        else:
            inputs.append(_constant([_sane(value, i) for value in values if value is not None]))
    return opset8.slice(*inputs), "Slice"


def _identity(view: BuiltInNode) -> tuple[ov.Node, str]:
    """All of the data."""
    if view.rank == 0:
        return opset8.reshape(view.inputs[0], _constant([]), special_zero=False), "Reshape"
    one, masked = _constant([1]), {**dict.fromkeys(MASKS, (0,)), "begin_mask": (1,), "end_mask": (1,)}
    return strided_slice([view.inputs[0], one, one, one], masked), "StridedSlice"


def _spelled_out(view: BuiltInNode) -> tuple[ov.Node, str] | None:
    """Gather for what is shrunk at run time, then StridedSlice with an entry for each axis and each new one."""
    if view.count is None or view.rank is None:
        return None
    node, form = view.inputs[0], []
    chosen = [entry for entry in view.entries if entry.kind == "shrink" and _known(view, 0, entry) is None]
    for entry in reversed(chosen):
        begin = opset8.gather(view.inputs[1], _scalar(entry.position), _scalar(0))
        node = opset8.gather(node, begin, _scalar(entry.axis)).output(0)
        form.append("Gather")
    entries = [entry for entry in view.entries if entry not in chosen]
    if view.rank == len(chosen) and entries:  # StridedSlice is wrong on scalars
        node = opset1.unsqueeze(node, _constant(list(range(len(entries))))).output(0)
        form.append("Unsqueeze")
    elif any(entry.kind != "keep" for entry in entries):
        node = _sliced(view, node, entries).output(0)
        form.append("StridedSlice")
    if not form:
        return _identity(view)
    return node.get_node(), " + ".join(dict.fromkeys(form))


def _sliced(view: BuiltInNode, data: ov.Output, entries: Sequence[Entry]) -> ov.Node:
    """StridedSlice with these entries, in which all axes of data are named; only masks that matter are set."""
    shape = view.inputs[0].get_partial_shape()
    masks = dict.fromkeys(MASKS, (0,) * len(entries))
    masks["new_axis_mask"] = tuple(int(entry.kind == "new") for entry in entries)
    masks["shrink_axis_mask"] = tuple(int(entry.kind == "shrink") for entry in entries)
    whole = [entry.kind == "keep" or (entry.kind == "slice" and shape[entry.axis] == 0) for entry in entries]
    for name in ("begin", "end"):
        bits = view.bits(name)
        masks[f"{name}_mask"] = tuple(
            1 if is_whole else bits[entry.position] if entry.kind == "slice" else 0
            for entry, is_whole in zip(entries, whole, strict=True)
        )
    both = zip(entries, masks["begin_mask"], masks["end_mask"], whole, strict=True)
    needed = [
        (
            entry.kind == "shrink" or (entry.kind == "slice" and not begins),
            entry.kind == "slice" and not ends,
            entry.kind == "slice" and not is_whole,
        )
        for entry, begins, ends, is_whole in both
    ]
    inputs = [_picked(view, i, entries, [need[i] for need in needed]) for i in range(3)]
    return strided_slice([data, *inputs], masks)


def _picked(view: BuiltInNode, index: int, entries: Sequence[Entry], needed: Sequence[bool]) -> ov.Output:
    """The elements of an index input for some entries, 1 where it does not matter."""
    known = [_known(view, index, entry) if need else 1 for entry, need in zip(entries, needed, strict=True)]
    if None not in known:
        return _constant([_sane(value, index) for value in known if value is not None])
    source = view.inputs[1 + index]
    positions = [entry.position if need else -1 for entry, need in zip(entries, needed, strict=True)]
    if positions == list(range(view.count or 0)):
        return source
    one = ov.op.Constant(source.get_element_type(), ov.Shape([1]), [1])
    chosen = _constant([(view.count or 0) if at < 0 else at for at in positions])
    return opset8.gather(opset8.concat([source, one], 0), chosen, _scalar(0)).output(0)


def _known(view: BuiltInNode, index: int, entry: Entry) -> int | None:
    """The element of an index input for an entry, if it is known; steps that are not given are 1."""
    if index >= len(view.values):
        return 1
    values = view.values[index]
    return None if values is None else values[entry.position]


def _sane(value: int, index: int) -> int:
    """The same index within what every engine reads alike; index 2 are the steps."""
    return max(value, -_INT32_MAX) if index == 2 else min(value, INT64_MAX)


def _scalar(value: int) -> ov.Node:
    return opset8.constant(np.int64(value))


def _constant(values: Sequence[int]) -> ov.Output:
    return as_constant(np.array(values, np.int64)).output(0)
