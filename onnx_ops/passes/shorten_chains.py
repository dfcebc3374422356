"""A chain of slices, squeezes and unsqueezes becomes as short as possible."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Self

import onnx_ir as ir

from onnx_ops.model.nodes import is_operator, node_name
from onnx_ops.model.walk import count_uses
from onnx_ops.passes.base import NodePass, SlicingPass
from onnx_ops.passes.builders import build_constant, build_slice, build_squeeze, build_unsqueeze, list_operators
from onnx_ops.passes.cleanup import detach
from onnx_ops.passes.outcome import Rewritten, Skip
from onnx_ops.passes.scalar_gather_to_slice import ScalarGatherToSlicePass
from onnx_ops.passes.slice_chain import SliceChain
from sliceport.errors import InvalidSlice

_LINKS = ("Slice", "Gather", "Squeeze", "Unsqueeze", "Identity")


class ShortenChainsPass(NodePass):
    """Replace a chain of Slice, Squeeze, Unsqueeze, Gather and Identity by at most one Slice, Squeeze and Unsqueeze.

    1. The slices of a chain become one, across axes that are new or dropped between them.
    2. An axis of one element that is dropped, and a new one in its place, become the axis as it was.
    3. A single axis that is cut to one element and dropped becomes a Gather of that index; not where
       `SiblingsToSplitPass` replaces the slices by a Split, or `gathers` is False.

    It is done if fewer slicing nodes remain, or as many of them and fewer nodes. Only the next node of the chain reads
    a value of it; bounds, indices and axes are constant.

    Given: y = Slice(Unsqueeze(Squeeze(Slice(x[4, 6], [1], [2], [0]), [0]), [0]), [2], [5], [1])
    Result: y = Slice(x, [1, 2], [2, 5], [0, 1])

    Skipped: slices of an axis of unknown size that do not compose; a new axis that is cut.
    """

    op_types = _LINKS
    spares_siblings = True

    def __init__(self, *, gathers: bool = True) -> None:
        super().__init__()
        self._gathers = gathers

    @classmethod
    def create(cls, kinds: Collection[type[SlicingPass]]) -> Self:
        """Create the pass. It emits no Gather if `ScalarGatherToSlicePass` also runs, since that would undo it."""
        return cls(gathers=ScalarGatherToSlicePass not in kinds)

    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:
        """Rewrite a node that matches; see the class."""
        if not node.inputs or _find_next(node) is not None:
            return None
        links = [node]
        while (before := _find_previous(links[0])) is not None and before.inputs:
            links.insert(0, before)
        reasons: list[str] = []
        while len(links) > 1:
            chain, length = self._compose(links, opset, reasons)
            if chain is not None and (new := self._shorten(chain, links[:length], opset)) is not None:
                return Rewritten(new)
            links = links[max(length, 1) :]
        if reasons:
            raise Skip(reasons[0])
        return None

    def _compose(self, links: Sequence[ir.Node], opset: int, reasons: list[str]) -> tuple[SliceChain | None, int]:
        """Return the first links that compose as a chain, and their number. `reasons` gets what ended the chain."""
        sizes = self.sizes(links[0].inputs[0])
        if sizes is None:
            reasons.append("the rank of the chain's input is not known")
            return None, 0
        chain = SliceChain(sizes)
        for i, link in enumerate(links):
            try:
                chain.add(link, opset)
            except (InvalidSlice, Skip) as reason:
                reasons.append(f"{link.op_type} {node_name(link)!r}: {reason}")
                return chain, i
        return chain, len(links)

    def _shorten(self, chain: SliceChain, links: Sequence[ir.Node], opset: int) -> str | None:
        """Replace links by the shortest nodes that do the same; return their operators, None if that is no shorter."""
        slicing = sum(link.op_type in ("Slice", "Gather") for link in links)
        if len(links) < 2 or not slicing:
            return None
        last, data = links[-1], links[0].inputs[0]
        assert data is not None
        gathers = self._gathers and not self.split_members.intersection(links)
        new = self._build(chain, data, last, opset, gathers=gathers)
        made = [one for one in new if one.op_type != "Constant"]
        cuts = sum(one.op_type in ("Slice", "Gather") for one in made)
        if cuts > slicing or len(made) > len(links) or (cuts, len(made)) == (slicing, len(links)):
            detach(new)
            return None
        self.replace_node(last, new)
        return list_operators(new)

    def _build(self, chain: SliceChain, data: ir.Value, last: ir.Node, opset: int, *, gathers: bool) -> list[ir.Node]:
        """Return the shortest nodes that do what a chain does."""
        dropped, added = chain.views()
        index = chain.single_index(dropped) if gathers else None
        shape = list(chain.sizes)
        new: list[ir.Node] = []
        if index is not None:
            (axis,) = dropped
            constant = build_constant(index)
            new += [constant, ir.node("Gather", [data, constant.outputs[0]], {"axis": axis})]
            dropped = []
            del shape[axis]
        elif chain.cut:
            new += build_slice(data, chain.cut, opset)
            shape = [chain.kept_size(axis) for axis in range(len(shape))]
        for build, axes in ((build_squeeze, dropped), (build_unsqueeze, added)):
            if not axes:
                continue
            if new:
                self.set_value_info(new[-1].outputs[0], data, tuple(shape), last.outputs[0])
            new += build(new[-1].outputs[0] if new else data, axes, opset)
            shape = [size for axis, size in enumerate(shape) if axis not in dropped]
        return new or [ir.node("Identity", [data])]


def _find_previous(node: ir.Node) -> ir.Node | None:
    """Return the link before a link, if nothing else reads its output."""
    value = node.inputs[0] if node.inputs else None
    producer = None if value is None else value.producer()
    if value is None or producer is None or not is_operator(producer, *_LINKS) or producer.graph is not node.graph:
        return None
    return None if value.is_graph_output() or count_uses(value) != 1 else producer


def _find_next(node: ir.Node) -> ir.Node | None:
    """Return the link after a link, if it reads the output as its data and nothing else reads it."""
    output = node.outputs[0]
    if output.is_graph_output() or count_uses(output) != 1:
        return None
    (use,) = output.uses()
    return use.node if use.idx == 0 and is_operator(use.node, *_LINKS) and use.node.graph is node.graph else None
