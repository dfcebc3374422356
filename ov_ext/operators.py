"""Nodes of our operators, in C++ or in Python, and what makes a Core know them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import openvino as ov

from ov_ext import slice as in_python
from ov_ext import strided_slice as strided_in_python
from ov_ext.backends import Backend, backend, load_factory
from ov_ext.values import as_output
from sliceport.errors import InvalidSlice
from sliceport.slicing import Masks
from sliceport.slicing.axis import INT64_MAX, INT64_MIN

SLICE, STRIDED_SLICE = "Slice8", "StridedSlice1"
_IN_PYTHON = {SLICE: in_python.Slice, STRIDED_SLICE: strided_in_python.StridedSlice}
_SENTENCE = re.compile(rf"({SLICE}|{STRIDED_SLICE}) '([^'\n]*)': ([^\n]*)")


def Slice(inputs: Sequence[Any]) -> ov.Node:  # noqa: N802 - an operator's name
    """A node of OpenVINO's Slice-8, as operator `Slice8` of version `ov_ext`; see `backend` for which kind.

    Where OpenVINO's shape inference is not exact, this is: all sizes that the bounds allow.

    Args:
        inputs: `data` of any type and rank from 1 up; `start`, `stop`, `step` and, optionally, `axes`: lists of
            integers of one length, an entry an axis. Without `axes` they are the first axes. Each is a node of one
            output, an output of a node, or values that become a constant.

    Returns:
        The node; its output has the rank of `data`.

    Raises:
        InvalidSlice: The inputs break the rules.
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
    """A node of OpenVINO's StridedSlice-1, as operator `StridedSlice1` of version `ov_ext`; see `backend` for the kind.

    The masks hold 0 and 1, aligned with the entries of `begin`; missing bits are 0, further ones are ignored. At one
    entry the ellipsis goes before the new axis, that before the shrink, that before a slice.

    Source: OpenVINO's StridedSlice-1 page, and OpenVINO itself where that contradicts it (`docs/strided_slice.md`).

    Args:
        inputs: `data` of any type and rank; `begin`, `end` and, optionally, `strides` (1 everywhere without): lists of
            integers of one length. Each is a node of one output, an output of a node, or values that become a constant.
        begin_mask: Where the axis is taken from its beginning.
        end_mask: Where the axis is taken to its end.
        new_axis_mask: Where an axis of size 1 is put in.
        shrink_axis_mask: Where one element is taken and its axis dropped.
        ellipsis_mask: Where one entry stands for all axes that no other names.

    Raises:
        InvalidSlice: The inputs or masks break the rules.
    """
    given = (begin_mask, end_mask, new_axis_mask, shrink_axis_mask, ellipsis_mask)
    return make_node(STRIDED_SLICE, inputs, Masks(*[tuple(map(int, mask)) for mask in given]))


def make_node(
    kind: str,
    inputs: Sequence[Any],
    masks: Masks | None = None,
    *,
    name: str | None = None,
    using: Backend | None = None,
) -> ov.Node:
    """A node of one of our operators.

    Args:
        kind: `SLICE` or `STRIDED_SLICE`.
        inputs: Its inputs, as `Slice` and `StridedSlice` take them.
        masks: The masks of a StridedSlice.
        name: Its friendly name, which errors tell; by default one that OpenVINO makes.
        using: The backend; by default that of `backend`.

    Raises:
        InvalidSlice: The inputs or masks break the rules.
    """
    using = backend() if using is None else using
    if using.path is None:
        return _make_in_python(kind, inputs, masks, name)
    label = kind if name is None else f"{kind} '{name}'"
    arguments = [as_output(value, i, label) for i, value in enumerate(inputs)]
    attributes = {} if masks is None else _list_bits(masks, label)
    try:
        node = load_factory(using.path).create(kind, arguments, attributes)
    except (RuntimeError, ValueError) as error:
        raise _say_again(error, kind, name) from None
    if name is not None:
        node.set_friendly_name(name)
    return node


def operator_extensions(using: Backend | None = None) -> list[Any]:
    """What makes a Core read our operators, each an argument of `Core.add_extension`; of those it is told first counts.

    Args:
        using: The backend; by default that of `backend`.
    """
    using = backend() if using is None else using
    return list(_IN_PYTHON.values()) if using.path is None else [str(using.path)]


def _make_in_python(kind: str, inputs: Sequence[Any], masks: Masks | None, name: str | None) -> ov.Node:
    node = _IN_PYTHON[kind](**({} if masks is None else masks.attributes))
    if name is not None:
        node.set_friendly_name(name)
    node.set_inputs(inputs)
    return node


def _list_bits(masks: Masks, label: str) -> dict[str, list[int]]:
    """The masks as OpenVINO takes them, integers of 64 bits.

    Raises:
        InvalidSlice: One is no such integer, which surely is neither 0 nor 1.
    """
    lists = {name: list(bits) for name, bits in masks.attributes.items()}
    if any(not INT64_MIN <= bit <= INT64_MAX for bits in lists.values() for bit in bits):
        try:
            masks.check()
        except InvalidSlice as error:
            raise InvalidSlice(f"{label}: {error}.") from None
    return lists


def _say_again(error: Exception, kind: str, name: str | None) -> Exception:
    """What a native operator said, as the error that one in Python raises; it does not know the node's name yet."""
    said = _SENTENCE.findall(str(error))
    if not said:
        return error
    _, given, rest = said[-1]
    return InvalidSlice(f"{kind} '{given if name is None else name}': {rest}")
