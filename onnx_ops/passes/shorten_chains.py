"""A chain of slices, squeezes and unsqueezes becomes as short as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ops.model.nodes import is_operator, node_name
from onnx_ops.model.views import Sizes
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.analysis import CUTTING
from onnx_ops.passes.base import NodePass, SlicingPass
from onnx_ops.passes.builders import build_gather, build_slice, build_squeeze, build_unsqueeze
from onnx_ops.passes.compose_slices import compose_entries
from onnx_ops.passes.edits import detach_inputs
from onnx_ops.passes.matchers import data_of, read_gather, read_slice, read_squeezed_axes
from onnx_ops.passes.outcome import SKIPS, Skip
from sliceport.slicing import AxisSlice, resolve_axis
from sliceport.slicing.spec import normalize_axis

NEW = -1
"""The mark of a new axis among the axes of a chain."""


@dataclass
class SliceChain:
    """A chain of nodes, described as one Slice, the axes that are dropped after it, and the axes that are added.

    Attributes:
        sizes: The sizes of the chain's input, None for each unknown one.
        entries: The start, end and step of each axis that is cut.
        axes: For each axis of the output, the input axis that it is, or `NEW`.
    """

    sizes: Sizes
    entries: dict[int, AxisSlice] = field(default_factory=dict)
    axes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.axes = list(range(len(self.sizes)))

    def add(self, node: ir.Node, opset: int) -> None:
        """Add the next node, or raise one of `SKIPS` if it does not compose with the nodes before it."""
        if node.op_type == "Squeeze":
            dropped = [normalize_axis(axis, len(self.axes)) for axis in read_squeezed_axes(node, opset)]
            self.axes = [input_axis for axis, input_axis in enumerate(self.axes) if axis not in dropped]
        elif node.op_type == "Unsqueeze":
            rank = len(self.axes)
            added = read_squeezed_axes(node, opset)
            for axis in sorted(normalize_axis(axis, rank + len(added)) for axis in added):
                self.axes.insert(axis, NEW)
        elif node.op_type == "Slice":
            for axis, entry in read_slice(node, opset, self.shape).items():
                self._cut(axis, entry)
        elif node.op_type == "Gather":
            axis, selected, is_scalar = read_gather(node, opset, self.shape)
            self._cut(axis, AxisSlice.of(selected))
            if is_scalar:
                del self.axes[axis]

    @property
    def shape(self) -> Sizes:
        """The output's shape, None for each unknown size."""
        return tuple([1 if axis == NEW else self.kept_size(axis) for axis in self.axes])

    @property
    def cut_entries(self) -> dict[int, AxisSlice]:
        """The entries of the axes that are not kept whole."""
        return {axis: entry for axis, entry in self.entries.items() if not entry.is_whole(self.sizes[axis])}

    def squeezed_and_new_axes(self) -> tuple[list[int], list[int]]:
        """Return the axes that a Squeeze drops from the input, and the axes that an Unsqueeze then adds to the output.

        A dropped axis of exactly one element replaces a new axis at the same position: neither node needs to list it.
        """
        axes = list(self.axes)
        dropped = [axis for axis in range(len(self.sizes)) if axis not in axes]
        for axis in list(dropped):
            position = next((i for i, kept_axis in enumerate(axes) if kept_axis > axis), len(axes))
            while position and axes[position - 1] == NEW:
                position -= 1  # to the first of the new axes before the next axis that is kept
            if self.kept_size(axis) == 1 and position < len(axes) and axes[position] == NEW:
                axes[position] = axis
                dropped.remove(axis)
        return dropped, [i for i, axis in enumerate(axes) if axis == NEW]

    def _cut(self, axis: int, entry: AxisSlice) -> None:
        source = self.axes[axis]
        if source != NEW:
            before = {source: self.entries[source]} if source in self.entries else {}
            self.entries.update(compose_entries(before, {source: entry}, self.sizes))
        elif not entry.is_whole(1):
            raise Skip("it cuts a new axis")

    def single_index(self, dropped: Sequence[int]) -> int | None:
        """Return the index that one Gather would take in place of the chain's Slice and Squeeze of the `dropped` axes.

        The result is None if the chain does more, or the size of the axis is not known.
        """
        if len(dropped) != 1 or list(self.cut_entries) != list(dropped):
            return None
        (axis,) = dropped
        size = self.sizes[axis]
        selected = range(0) if size is None else resolve_axis(*self.cut_entries[axis], size)
        return selected[0] if len(selected) == 1 else None

    def kept_size(self, axis: int) -> int | None:
        """Return the number of kept elements of an input axis; None if the size of the axis is not known."""
        size, entry = self.sizes[axis], self.entries.get(axis)
        if entry is None or size is None:
            return size
        return len(resolve_axis(*entry, size))


_LINKS = ("Slice", "Gather", "Squeeze", "Unsqueeze", "Identity")


class ShortenChainsPass(NodePass):
    """Replace a chain of Slice, Gather, Squeeze, Unsqueeze and Identity by at most three of them.

    1. The slices of a chain become one, across axes that are new or dropped between them.
    2. An axis of one element that is dropped, and a new one in its place, become the axis as it was.
    3. A single axis that is cut to one element and dropped becomes a Gather of that index, unless
       `SiblingsToSplitPass` replaces the slices by a Split, or `gathers` is False.

    A chain is replaced if fewer slicing nodes remain, or equally many slicing nodes and fewer nodes in total. Each
    value inside the chain is read only by the next node of the chain. Bounds, indices and axes are constant.

    Given: y = Slice(Unsqueeze(Squeeze(Slice(x[4, 6], [1], [2], [0]), [0]), [0]), [2], [5], [1])
    Result: y = Slice(x, [1, 2], [2, 5], [0, 1])

    Skipped: slices of an axis of unknown size that do not compose; a new axis that is cut.
    """

    op_types = _LINKS
    spares_siblings = True

    def __init__(self, *, gathers: bool = True) -> None:
        super().__init__()
        self._gathers = gathers

    def rewrite(self, node: ir.Node, opset: int) -> None:
        """Rewrite a node that matches; see the class."""
        if _find_next(node) is not None:
            return
        links = [node]
        while (previous := _find_previous(links[0])) is not None:
            links.insert(0, previous)
        if not any(link.op_type in CUTTING for link in links):
            return
        reasons: list[str] = []
        while len(links) > 1:
            chain, length = self._compose(links, opset, reasons)
            if chain is not None and (operators := self._shorten(chain, links[:length], opset)) is not None:
                self.report_change(links[length - 1], operators)
                return
            # The link after the first `length` did not compose with them: the search goes on from that link. If the
            # first link alone does not compose, it is left out.
            links = links[max(length, 1) :]
        if reasons:
            raise Skip(reasons[0])

    def _compose(self, links: Sequence[ir.Node], opset: int, reasons: list[str]) -> tuple[SliceChain | None, int]:
        """Return the first links that compose as a chain, and their number. If it ends early, add why to `reasons`."""
        sizes = self.sizes(links[0].inputs[0])
        if sizes is None:
            reasons.append("the rank of the chain's input is not known")
            return None, 0
        chain = SliceChain(sizes)
        for length, link in enumerate(links):
            try:
                chain.add(link, opset)
            except SKIPS as reason:
                reasons.append(f"{link.op_type} {node_name(link)!r}: {reason}")
                return chain, length
        return chain, len(links)

    def _shorten(self, chain: SliceChain, links: Sequence[ir.Node], opset: int) -> str | None:
        """Replace links by the fewest nodes that do the same.

        Returns:
            The operators of the new nodes; None if nothing was replaced, because they would not be fewer.
        """
        old_cuts = sum(link.op_type in ("Slice", "Gather") for link in links)
        if len(links) < 2 or not old_cuts:
            return None
        last, data = links[-1], data_of(links[0])
        gathers = self._gathers and not self.split_members.intersection(links)
        new_nodes = build_chain(self, chain, data, last, opset, gathers=gathers)
        operators = [node.op_type for node in new_nodes if node.op_type != "Constant"]
        cuts = sum(operator in ("Slice", "Gather") for operator in operators)
        if cuts > old_cuts or len(operators) > len(links) or (cuts, len(operators)) == (old_cuts, len(links)):
            for new_node in new_nodes:  # not inserted, but would count as readers of their inputs
                detach_inputs(new_node)
            return None
        self.replace_node(last, new_nodes)
        return ", ".join(operators)


def build_chain(
    owner: SlicingPass, chain: SliceChain, data: ir.Value, last: ir.Node, opset: int, *, gathers: bool = False
) -> list[ir.Node]:
    """Build the fewest nodes that do what a chain does; an Identity if it does nothing.

    Args:
        owner: The pass, which records the shapes of new values.
        chain: The chain.
        data: Its input.
        last: The node whose output the last of the new nodes will write.
        opset: Version of its operator set.
        gathers: Whether a Gather may cut and drop an axis.
    """
    dropped, added = chain.squeezed_and_new_axes()
    index = chain.single_index(dropped) if gathers else None
    shape = list(chain.sizes)
    nodes: list[ir.Node] = []
    if index is not None:
        (axis,) = dropped
        nodes += build_gather(data, axis, index)
        dropped = []
        del shape[axis]
    elif chain.cut_entries:
        nodes += build_slice(data, chain.cut_entries, opset)
        shape = [chain.kept_size(axis) for axis in range(len(shape))]
    for build, axes in ((build_squeeze, dropped), (build_unsqueeze, added)):
        if not axes:
            continue
        if nodes:
            owner.set_value_info(nodes[-1].outputs[0], data, tuple(shape), last.outputs[0])
        nodes += build(nodes[-1].outputs[0] if nodes else data, axes, opset)
        shape = [size for axis, size in enumerate(shape) if axis not in dropped]
    return nodes or [ir.node("Identity", [data])]


def _find_previous(node: ir.Node) -> ir.Node | None:
    """Return the link before a link, if this link alone reads its output."""
    producer = data_of(node).producer()
    return producer if is_operator(producer, *_LINKS) and _find_next(producer) is node else None


def _find_next(node: ir.Node) -> ir.Node | None:
    """Return the link after a link, if it reads the output as its data and nothing else reads it."""
    output = node.outputs[0]
    if output.is_graph_output() or count_uses(output) != 1:
        return None
    (use,) = output.uses()
    return use.node if use.idx == 0 and is_operator(use.node, *_LINKS) and use.node.graph is node.graph else None
