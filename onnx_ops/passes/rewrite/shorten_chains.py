"""A chain of slices, squeezes and unsqueezes becomes as short as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ops.model.nodes import is_valid_operator, node_name
from onnx_ops.model.views import Sizes
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.analysis import CUTTING
from onnx_ops.passes.base import NodePass, SlicingPass
from onnx_ops.passes.builders import build_gather, build_slice, build_with_axes
from onnx_ops.passes.edits import detach_inputs
from onnx_ops.passes.matchers import data_of, read_axes, read_gather, read_slice
from onnx_ops.passes.outcome import SKIPS, Skip
from onnx_ops.passes.reshape_fusion import WOULD_FAIL
from onnx_ops.passes.rewrite.compose_slices import compose_entries
from sliceport.slicing import AxisSlice, resolve_axis
from sliceport.slicing.spec import normalize_axis

NEW = -1
"""The mark of a new axis among the axes of a chain."""


@dataclass
class SliceChain:
    """A chain of nodes, described as one Slice, a Squeeze after it, and an Unsqueeze after that.

    Attributes:
        sizes: The sizes of the chain's input, None for each unknown one.
        axes: For each axis of the output, the input axis that it comes from, or `NEW`.
        entries: The start, end and step of each input axis that is cut.
    """

    sizes: Sizes
    axes: list[int] = field(default_factory=list)
    entries: dict[int, AxisSlice] = field(default_factory=dict)

    def add(self, node: ir.Node, opset: int) -> None:
        """Add the next node, or raise one of `SKIPS` if it does not compose with the nodes before it."""
        if node.op_type == "Squeeze":
            dropped = [normalize_axis(axis, len(self.axes)) for axis in read_axes(node, opset)]
            self.axes = [input_axis for axis, input_axis in enumerate(self.axes) if axis not in dropped]
        elif node.op_type == "Unsqueeze":
            rank = len(self.axes)
            added = read_axes(node, opset)
            for axis in sorted(normalize_axis(axis, rank + len(added)) for axis in added):
                self.axes.insert(axis, NEW)
        elif node.op_type == "Slice":
            self._cut(read_slice(node, opset, self.shape))
        elif node.op_type == "Gather":
            axis, selected, is_scalar = read_gather(node, opset, self.shape)
            self._cut({axis: AxisSlice.of(selected)})
            if is_scalar:
                del self.axes[axis]
        else:
            assert node.op_type == "Identity"  # it changes nothing

    @property
    def shape(self) -> Sizes:
        """The output's shape, None for each unknown size."""
        return tuple([1 if axis == NEW else self.kept_size(axis) for axis in self.axes])

    @property
    def cut_entries(self) -> dict[int, AxisSlice]:
        """The bounds by axis, without axes that are certainly kept whole."""
        return {axis: entry for axis, entry in self.entries.items() if not entry.is_whole(self.sizes[axis])}

    def squeezed_and_new_axes(self) -> tuple[list[int], list[int]]:
        """Return the input axes that a Squeeze must drop, and the output axes that an Unsqueeze must then add.

        If an axis of one element is dropped and a new axis is added at the same position, neither is listed, because
        the two steps cancel out.
        """
        axes = list(self.axes)
        for axis in sorted(set(range(len(self.sizes))).difference(axes)):
            place = _find_new_axis(axes, axis)
            if place is not None and self.kept_size(axis) == 1:
                axes[place] = axis
        dropped = [axis for axis in range(len(self.sizes)) if axis not in axes]
        return dropped, [i for i, axis in enumerate(axes) if axis == NEW]

    def _cut(self, cuts: dict[int, AxisSlice]) -> None:
        """Add cuts of output axes. Raise Skip and add no cut if one Slice of the chain's input cannot make all cuts."""
        if any(self.axes[axis] == NEW and not entry.is_whole(1) for axis, entry in cuts.items()):
            raise Skip("it cuts a new axis")
        entries = {self.axes[axis]: entry for axis, entry in cuts.items() if self.axes[axis] != NEW}
        self.entries = compose_entries(self.entries, entries, self.sizes)

    def single_index(self, dropped: Sequence[int]) -> int | None:
        """Return the index for one Gather that replaces the chain's Slice and its Squeeze of the `dropped` axes.

        Return None unless the chain cuts a single axis of known size to one index, and drops this axis and no other.
        """
        if len(dropped) != 1 or list(self.cut_entries) != list(dropped):
            return None
        (axis,) = dropped
        size = self.sizes[axis]
        selected = range(0) if size is None else resolve_axis(*self.cut_entries[axis], size)
        return selected[0] if len(selected) == 1 else None

    def kept_size(self, axis: int) -> int | None:
        """Return how many elements of an input axis the Slice keeps. Return None if the size of the axis is unknown."""
        size, entry = self.sizes[axis], self.entries.get(axis)
        if entry is None or size is None:
            return size
        return len(resolve_axis(*entry, size))


_CUTS = ("Slice", "Gather")
_OTHER_LINKS = ("Squeeze", "Unsqueeze", "Identity")
_LINKS = (*_CUTS, *_OTHER_LINKS)


def _find_new_axis(axes: Sequence[int], dropped: int) -> int | None:
    """Return the index in `axes` of the first new axis between the neighbours of a dropped axis, or None.

    The neighbours are the last kept axis before `dropped` and the first one after it.
    """
    end = next((i for i, axis in enumerate(axes) if axis > dropped), len(axes))  # `NEW` is less than any axis
    start = next((i + 1 for i in reversed(range(end)) if axes[i] != NEW), 0)
    return start if start < end else None


class ShortenChainsPass(NodePass, name="chain", after="part"):
    """Replace a chain of Slice, Gather, Squeeze, Unsqueeze and Identity by at most three of them.

    1. The slices of a chain become one, even if axes are added or dropped between them.
    2. A dropped axis of one element, and a new axis at its position, become the axis as it was.
    3. If the chain cuts a single axis to one element and drops it, a Gather of that index replaces both steps, unless
       `SiblingsToSplitPass` replaces the slices by a Split, or `gathers` is False.

    A chain is replaced if fewer slicing nodes remain, or equally many slicing nodes and fewer nodes in total. In a
    chain, only the next node may read the output of each node. Bounds, indices and axes must be constant.

    Given: y = Slice(Unsqueeze(Squeeze(Slice(x[4, 6], [1], [2], [0]), [0]), [0]), [2], [5], [1])
    Result: y = Slice(x, [1, 2], [2, 5], [0, 1])

    Skipped: slices of an axis of unknown size that do not compose; a new axis that is cut.

    Fires:
        - Squeeze between: `a = Slice(x[4, 6], [1], [2], [0], [1]); b = Squeeze(a, [0]);
          y = Slice(b, [2], [5], [0], [1])`
        - axis stays: `a = Gather(x[4, 6], 1); y = Unsqueeze(a, [0])`
        - Gather of Gather: `a = Gather(x[4, 6], 1); y = Gather(a, 2)`
        - to Gather: `a = Slice(x[9], [2], [8], [0], [1]); y = Gather(a, 3)`
        - new axis whole: `a = Slice(x[9], [2], [8], [0], [1]); b = Unsqueeze(a, [0]); y = Slice(b, [0], [3], [1], [1])`
        - before a Slice that composes in one axis: `a = Slice(x[6, n], [-3], [M], [1], [1]);
          b = Squeeze(Unsqueeze(a, [0]), [0]); y = Slice(b, [1, -2], [M, M])`
        - in a shape without a 0: `s = Shape(x[n, m]); a = Unsqueeze(Gather(s, 1), [0]); t = Concat([-1], a, axis=0);
          y = Reshape(Reshape(x, t), [-1])`

    Stays:
        - cut new axis: `a = Slice(x[9], [2], [8], [0], [1]); b = Unsqueeze(a, [0]); y = Slice(b, [1], [1], [0], [1])`:
          "it cuts a new axis"
        - Squeeze without axes: `a = Slice(x[2, 3], [0], [1], [0], [1]); y = Squeeze(a)`: "does not name its axes"
        - beside a sibling: `a = Slice(x[2, 3], [0], [1], [0], [1]); y = Squeeze(a, [0]);
          b = Slice(x, [1], [2], [0], [1]); z = Squeeze(b, [0])`
        - no shorter: `a = Slice(x[9, 2], [2], [3], [1], [1]); y = Unsqueeze(a, [0])`
        - of a copied size: `s = Shape(x[n, m]); a = Unsqueeze(Gather(s, 1), [0]); t = Concat([0], a, axis=0);
          y = Reshape(x, t)`: "a constant with a 0 and a -1, which fails at size 0"
    """

    op_types = _CUTS
    visits = _OTHER_LINKS
    spares_siblings = True

    def __init__(self, *, gathers: bool = True) -> None:
        super().__init__()
        self._gathers = gathers

    def _rewrite(self, node: ir.Node, opset: int) -> None:
        if _find_next(node) is not None:  # the chain is rewritten when its last node is visited
            return
        links = [node]
        while (previous := _find_previous(links[0])) is not None:
            links.insert(0, previous)
        if not any(link.op_type in CUTTING for link in links):
            return
        reasons: list[str] = []
        while len(links) > 1:
            chain, length = self._compose(links, opset, reasons)
            if chain is not None and self._shorten(chain, links[:length], opset):
                return  # the next run of the pass tries the rest of the chain
            # Go on from the link that did not fit, or from the second link if the first one did not fit.
            links = links[max(length, 1) :]
        if reasons:
            raise Skip(reasons[0])

    def _compose(self, links: Sequence[ir.Node], opset: int, reasons: list[str]) -> tuple[SliceChain | None, int]:
        """Compose the nodes in `links` before the first that does not fit. Return the chain and its number of nodes.

        If a node does not fit, add the reason to `reasons`. The chain is None if the rank of its input is not known.
        """
        sizes = self.sizes(links[0].inputs[0])
        if sizes is None:
            reasons.append("the rank of the chain's input is not known")
            return None, 0
        chain = SliceChain(sizes, list(range(len(sizes))))
        for length, link in enumerate(links):
            try:
                chain.add(link, opset)
            except SKIPS as reason:
                reasons.append(f"{link.op_type} {node_name(link)!r}: {reason}")
                return chain, length
        return chain, len(links)

    def _shorten(self, chain: SliceChain, links: Sequence[ir.Node], opset: int) -> bool:
        """Replace a chain, and return True, if fewer slicing nodes remain, or equally many and fewer nodes in total.

        A chain of a single node, or without a Slice or Gather, stays.
        """
        old_slices = sum(link.op_type in _CUTS for link in links)
        if len(links) < 2 or not old_slices:
            return False
        last, data = links[-1], data_of(links[0])
        gathers = self._gathers and not self.split_members.intersection(links)
        new_nodes = build_chain(self, chain, data, last, opset, gathers=gathers)
        operators = [node.op_type for node in new_nodes if node.op_type != "Constant"]
        slices = sum(operator in _CUTS for operator in operators)
        is_longer = (slices, len(operators)) >= (old_slices, len(links))  # slicing nodes count first, then all nodes
        if is_longer or self.breaks_reshape({last.outputs[0]: new_nodes[-1].outputs[0]}):
            for new_node in new_nodes:  # they are not in the graph, but would count as readers of their inputs
                detach_inputs(new_node)
            if not is_longer:
                raise Skip(WOULD_FAIL)
            return False
        self.replace_node(last, new_nodes)
        return True


def build_chain(
    owner: SlicingPass, chain: SliceChain, data: ir.Value, last: ir.Node, opset: int, *, gathers: bool = False
) -> list[ir.Node]:
    """Return the fewest new nodes that do what a chain does with `data`. A chain that does nothing becomes an Identity.

    The pass `owner` records the shape of each value between the new nodes, and names it after the output of `last`. If
    `gathers` is true, a Gather may replace a Slice and a Squeeze of one axis.
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
    shape_of_rest = [size for axis, size in enumerate(shape) if axis not in dropped]
    for op_type, axes, input_shape in (("Squeeze", dropped, shape), ("Unsqueeze", added, shape_of_rest)):
        if axes and nodes:
            owner.set_value_info(nodes[-1].outputs[0], data, tuple(input_shape), last.outputs[0])
        if axes:
            nodes += build_with_axes(op_type, nodes[-1].outputs[0] if nodes else data, axes, opset)
    return nodes or [ir.node("Identity", [data])]


def _find_previous(node: ir.Node) -> ir.Node | None:
    """Return the node before `node` in a chain of `_LINKS`: it writes the data of `node`, which nothing else reads."""
    producer = data_of(node).producer()
    return producer if is_valid_operator(producer, *_LINKS) and _find_next(producer) is node else None


def _find_next(node: ir.Node) -> ir.Node | None:
    """Return the node that alone reads a node's output, as data, if it is one of `_LINKS` and in the same graph."""
    output = node.outputs[0]
    if output.is_graph_output() or count_uses(output) != 1:
        return None
    (use,) = output.uses()
    return use.node if use.idx == 0 and is_valid_operator(use.node, *_LINKS) and use.node.graph is node.graph else None
