"""Nodes of our operators, in C++ or in Python, and the extensions for a Core."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import openvino as ov

from ov_ext.operators import slice as python_slice
from ov_ext.operators import strided_slice as python_strided_slice
from ov_ext.operators.backends import Backend, backend, load_factory
from ov_ext.operators.static_values import as_output
from sliceport.errors import InvalidSlice
from sliceport.slicing import Masks
from sliceport.slicing.axis import INT64_MAX, INT64_MIN

SLICE, STRIDED_SLICE = "Slice8", "StridedSlice1"
_IN_PYTHON = {SLICE: python_slice.Slice, STRIDED_SLICE: python_strided_slice.StridedSlice}
_SENTENCE = re.compile(rf"({SLICE}|{STRIDED_SLICE}) '([^'\n]*)': ([^\n]*)")
"""A sentence of a native operator in an error of OpenVINO: the operator, the name of the node, and the rest."""


def Slice(inputs: Sequence[Any]) -> ov.Node:  # noqa: N802 - an operator's name
    """Build a node that computes OpenVINO's Slice-8, by the Python or native operator that `backend` chooses.

    The node's type is `Slice8` of version `ov_ext`. If the steps and axes are known, each open size of the output has
    the tightest possible bounds, which OpenVINO's own Slice does not always find.

    Args:
        inputs: `data` of any type but u3 and u6, and of rank 1 or more; `start`, `stop`, `step` and, optionally,
            `axes`: lists of integers of the same length, with one entry for each sliced axis. Without `axes`, the first
            axes are sliced. An input is a node of one output, an output of a node, or values that become a constant.

    Returns:
        The node, whose output has the rank of `data`.

    Raises:
        InvalidSlice: The inputs break the rules of Slice.
        UsageError: See `backend`.
    """
    return make_node(SLICE, inputs)


def StridedSlice(  # noqa: N802
    inputs: Sequence[Any],
    *,
    begin_mask: Sequence[int] = (),
    end_mask: Sequence[int] = (),
    new_axis_mask: Sequence[int] = (),
    shrink_axis_mask: Sequence[int] = (),
    ellipsis_mask: Sequence[int] = (),
) -> ov.Node:
    """Build a node that computes OpenVINO's StridedSlice-1, by the Python or native operator that `backend` chooses.

    The node's type is `StridedSlice1` of version `ov_ext`.

    The masks hold a 0 or 1 for each entry. Missing bits are 0, and further bits are ignored. An ellipsis bit takes
    precedence over a new axis, a new axis over a shrunk axis, and a shrunk axis over a slice.

    Source: OpenVINO's StridedSlice-1 page, and OpenVINO itself where the two differ (`docs/strided_slice.md`).

    Args:
        inputs: `data` of any rank, and any type but u3 and u6; `begin`, `end` and, optionally, `strides` (all 1 by
            default): lists of integers of the same length. For the kinds of inputs, see `Slice`.
        begin_mask: Entries whose `begin` is ignored: they start at the first element in the direction of the stride.
        end_mask: Entries whose `end` is ignored: they stop behind the last element in that direction.
        new_axis_mask: Entries that insert an axis of size 1.
        shrink_axis_mask: Entries that select one element and drop its axis.
        ellipsis_mask: The entry that stands for all axes without an entry.

    Raises:
        InvalidSlice: The inputs or masks break the rules of the operator.
        UsageError: See `backend`.
    """
    masks = (begin_mask, end_mask, new_axis_mask, shrink_axis_mask, ellipsis_mask)
    return make_node(STRIDED_SLICE, inputs, Masks(*[tuple(map(int, mask)) for mask in masks]))


def make_node(
    kind: str,
    inputs: Sequence[Any],
    masks: Masks | None = None,
    *,
    name: str | None = None,
    using: Backend | None = None,
) -> ov.Node:
    """Build a Slice or StridedSlice of ov_ext.

    Args:
        kind: `SLICE` or `STRIDED_SLICE`.
        inputs: The inputs; see `Slice` and `StridedSlice`.
        masks: The masks of a StridedSlice.
        name: The friendly name, which errors contain. By default OpenVINO makes one.
        using: The backend. The default is the result of `backend`.

    Raises:
        InvalidSlice: The inputs or masks break the rules of the operator.
        UsageError: See `backend`, which is called if `using` is None.
    """
    using = backend() if using is None else using
    if using.path is None:  # operators in Python
        node = _IN_PYTHON[kind](**(masks or Masks()).attributes)
        if name is not None:
            node.set_friendly_name(name)
        node.set_inputs(inputs)
        return node
    label = kind if name is None else f"{kind} '{name}'"
    arguments = [as_output(value, i, label) for i, value in enumerate(inputs)]
    attributes = {} if masks is None else _masks_to_lists(masks, label)
    try:
        node = load_factory(using.path).create(kind, arguments, attributes)
    except (RuntimeError, ValueError) as error:
        raise _translate_error(error, kind, name) from None
    if name is not None:
        node.set_friendly_name(name)
    return node


def operator_extensions() -> list[Any]:
    """Return extensions with which a Core reads operators of ov_ext; see `Core.add_extension`.

    If a Core already has an extension for an operator, OpenVINO ignores a further one.

    Raises:
        UsageError: See `backend`.
    """
    path = backend().path
    return list(_IN_PYTHON.values()) if path is None else [str(path)]


def _masks_to_lists(masks: Masks, label: str) -> dict[str, list[int]]:
    """Return the masks as lists of 64-bit integers, by the names of the attributes.

    Raises:
        InvalidSlice: A mask holds a number that does not fit into 64 bits.
    """
    lists = {name: list(bits) for name, bits in masks.attributes.items()}
    # Larger numbers cannot be passed to the native operator. It checks all other masks itself, after its inputs.
    if any(not INT64_MIN <= bit <= INT64_MAX for bits in lists.values() for bit in bits):
        try:
            masks.check()
        except InvalidSlice as error:
            raise InvalidSlice(f"{label}: {error}.") from None
    return lists


def _translate_error(error: Exception, kind: str, name: str | None) -> Exception:
    """Turn an error of a native operator into the InvalidSlice that the Python operator would raise.

    An error of another origin is returned unchanged.
    """
    sentences = _SENTENCE.findall(str(error))
    if not sentences:
        return error
    # The native operator gets its friendly name only after it is built, so its error has a generated name.
    _, generated_name, sentence = sentences[-1]
    return InvalidSlice(f"{kind} '{generated_name if name is None else name}': {sentence}")
