"""Lowering of resolved slicing nodes to DirectML operators: exact for every legal node, or a refusal with a reason.

The first rule that applies to an output decides:

  1. An output that selects nothing needs no operator (DirectML windows cannot be empty).
  2. An output that is the whole input in the same order and layout is an alias and needs no operator. With
     `Options.views`, a forward slice that starts at a multiple of 16 bytes is an alias, too: a strided tensor over the
     input's buffer (`views`).
  3. Parts that tile an axis become one SPLIT: the outputs of a Split if all are used, or sibling Slices (`siblings`).
  4. A change of layout alone becomes one ELEMENT_WISE_IDENTITY. Every other output becomes one SLICE1, or one SLICE
     below feature level 2.1 (`choose_operator`).

Axes are coalesced first (`strided_copy`), so that an operator has few dimensions. If only some outputs of a Split are
used, these outputs become slices, because a SPLIT would write every element of its input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod

from sliceport.directml.choose_operator import NotLoweredError, choose_slice, choose_split
from sliceport.directml.elements import ELEMENT_BITS
from sliceport.directml.layouts import Options, Strides, list_layout_notes
from sliceport.directml.lowered import Alias, Binding, Call, LoweredNode, Verdict
from sliceport.directml.operators import Operator, check
from sliceport.directml.program import Program
from sliceport.directml.siblings import group_siblings
from sliceport.directml.strided_copy import StridedCopy
from sliceport.directml.views import Buffers, Location
from sliceport.errors import Refusal
from sliceport.slicing import Region, find_tiled_axis
from sliceport.slicing.node import Cut, Folded, Refused, Resolved, SlicingNode

_MAX_ELEMENTS = 2**60
"""More elements than any buffer has. Beyond 2^63 - 1 indices, Python's `len` of a range fails. This limit is lower,
because `StridedCopy.recast` may replace an element by 4 smaller elements."""


@dataclass
class _Lowering:
    """The state of one call of `lower_nodes`.

    Attributes:
        options: The options of the call.
        buffers: The locations of values.
        slices: A cache of checked operators for single outputs, because identical layers repeat the same slices.
        ids: An iterator over unused numbers for `Call.id`.
    """

    options: Options
    buffers: Buffers
    slices: dict[tuple[Region, str, Strides | None, Strides | None], Operator] = field(default_factory=dict)
    ids: Iterator[int] = field(default_factory=count)

    def make_call(self, operator: Operator, source: Location, outputs: Sequence[str]) -> Call:
        """Return a new call of an operator. It reads the input at `source` and writes the values named in `outputs`."""
        return Call(next(self.ids), operator, source.binding, tuple(map(Binding, outputs)))


def lower_nodes(nodes: Sequence[SlicingNode], options: Options | None = None) -> Program:
    """Lower the slicing nodes of a model. A node that cannot be lowered gets a refusal; nothing is raised for it.

    Raises:
        UsageError: A layout in `options` does not fit a value.
    """
    options = options or Options()
    state = _Lowering(options, Buffers(options))
    # With views, most siblings need no operator, so they are lowered one by one.
    groups = {} if options.views else group_siblings(nodes)
    lowered: dict[int, LoweredNode] = {}
    for i, node in enumerate(nodes):
        if i in groups and i not in lowered:
            group = groups[i]
            lowered |= _lower_siblings({sibling: nodes[sibling] for sibling in group}, state)
            if i not in lowered:  # the other siblings need not try the same SPLIT again
                for sibling in group:
                    del groups[sibling]
        if i not in lowered:
            lowered[i] = _lower_node(node, state)
    in_order = tuple(lowered[i] for i in range(len(nodes)))
    return Program(options.feature_level, in_order, notes=list_layout_notes(options, nodes))


def _lower_node(node: SlicingNode, state: _Lowering) -> LoweredNode:
    """Lower one node by itself, not together with other nodes."""
    if isinstance(node, Refused):
        return LoweredNode(node, "refused", node.refusal)
    if isinstance(node, Folded):
        return LoweredNode(node, "folded")
    try:
        calls, aliases = _lower_cuts(node, state)
    except NotLoweredError as reason:
        return LoweredNode(node, "refused", Refusal(reason.code, f"{node.label}: not lowered: {reason}."))
    verdict: Verdict = "lowered" if calls else "alias" if aliases else "empty"
    return LoweredNode(node, verdict, None, tuple(calls), tuple(aliases))


def _lower_cuts(node: Resolved, state: _Lowering) -> tuple[list[Call], list[Alias]]:
    """Return the calls and the aliases for a node's outputs, and store where later nodes read these outputs.

    Raises:
        NotLoweredError: An output cannot be lowered.
    """
    # A cut is an output with the elements that it selects. Outputs that are left out or empty need no operator.
    cuts = [cut for cut in node.cuts if cut.output and not cut.region.is_empty]
    if not cuts:
        return [], []
    if node.element not in ELEMENT_BITS:
        kind = f"elements of type {node.element}" if node.element else "elements of unknown type"
        raise NotLoweredError("unsupported_type", f"DirectML has no data type that carries {kind}")
    source = state.buffers.locate_input(node)
    cuts_with_aliases = [(cut, state.buffers.find_alias(cut, node, source)) for cut in cuts]
    aliases = [alias for _, alias in cuts_with_aliases if alias is not None]
    # A node that nothing reads gets calls for all its outputs, because without calls its verdict could be `empty`.
    is_read = any(cut.used for cut in cuts)
    parts = [cut for cut, alias in cuts_with_aliases if alias is None and (cut.used or not is_read)]
    split = _make_split_call(node.element, parts, source, state)
    calls = [_make_slice_call(node.element, cut, source, state) for cut in parts] if split is None else [split]
    for cut in cuts:
        state.buffers.store_output(cut, node)
    return calls, aliases


def _lower_siblings(siblings: dict[int, SlicingNode], state: _Lowering) -> dict[int, LoweredNode]:
    """Lower sibling Slices to one SPLIT. Return an empty dict if SPLIT cannot compute them."""
    nodes = {i: node for i, node in siblings.items() if isinstance(node, Resolved)}  # always true, but mypy needs it
    first = next(iter(nodes.values()))
    if first.element not in ELEMENT_BITS:
        return {}
    cuts = [node.cuts[0] for node in nodes.values()]
    call = _make_split_call(first.element, cuts, state.buffers.locate_input(first), state)
    if call is None:
        return {}
    for node in nodes.values():
        state.buffers.store_output(node.cuts[0], node)
    return {i: LoweredNode(node, "lowered", None, (call,)) for i, node in nodes.items()}


def _make_split_call(element: str, cuts: Sequence[Cut], source: Location, state: _Lowering) -> Call | None:
    """Return a call of one SPLIT that computes `cuts`, or None if they tile no axis or SPLIT cannot compute them."""
    tiled = find_tiled_axis([cut.region for cut in cuts])
    if tiled is None:
        return None
    axis, order = tiled
    parts = [cuts[i] for i in order]
    if prod(parts[0].region.input_shape) > _MAX_ELEMENTS:
        return None  # too large for a tensor; `_make_slice_call` raises the error
    strides = [state.buffers.output_strides(cut) for cut in parts]
    copy = StridedCopy.of([cut.region for cut in parts], source.strides, strides, axis)
    try:
        operator = choose_split(copy, element, state.options.feature_level)
    except NotLoweredError:
        return None  # one SLICE1 or SLICE per part may still be possible
    check(operator, state.options.feature_level)
    return state.make_call(operator, source, [cut.output for cut in parts])


def _make_slice_call(element: str, cut: Cut, source: Location, state: _Lowering) -> Call:
    """Return a call that computes one output, or raise NotLoweredError. Equal slices share an operator."""
    region, strides, level = cut.region, state.buffers.output_strides(cut), state.options.feature_level
    key = (region, element, source.strides, strides)
    if key not in state.slices:
        elements = prod(region.input_shape)
        if elements > _MAX_ELEMENTS:
            raise NotLoweredError("size_limit", f"its input has {elements} elements, more than a tensor can have")
        copy = StridedCopy.of([region], source.strides, [strides])
        operator = choose_slice(copy, element, level, selects_all=region.selects_all)
        check(operator, level)
        state.slices[key] = operator
    return state.make_call(state.slices[key], source, [cut.output])
