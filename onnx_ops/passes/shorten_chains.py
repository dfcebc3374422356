"""A chain of slices with new and dropped axes becomes its shortest form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_ops.nodes import is_operator
from onnx_ops.passes.base import NodePass, NotApplied, Outcome
from onnx_ops.passes.builders import constant_node, discard, slice_node, view_node
from onnx_ops.passes.compose_slices import compose_entries
from onnx_ops.passes.matchers import gathered, view_axes, written_slice
from onnx_ops.passes.siblings_to_split import split_members
from onnx_ops.passes.value_info import Sizes
from sliceport.errors import InvalidSlice
from sliceport.slicing import AxisSlice, resolve_axis
from sliceport.slicing.spec import normalize_axis

_LINKS = ("Slice", "Gather", "Squeeze", "Unsqueeze", "Identity")
_NEW = -1


@dataclass
class _Chain:
    """What the nodes of a chain do together.

    Attributes:
        sizes: What is known of the size of each axis of the chain's input.
        entries: What is done to each of them.
        axes: For each axis of the output the input's axis that it is, or `_NEW`.
    """

    sizes: Sizes
    entries: dict[int, AxisSlice] = field(default_factory=dict)
    axes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.axes = list(range(len(self.sizes)))

    def add(self, node: ir.Node, opset: int) -> None:
        """Take one node more.

        Raises:
            NotApplied: What it does is not known, or is no slice together with what was done before.
        """
        if node.op_type == "Squeeze":
            dropped = [normalize_axis(axis, len(self.axes)) for axis in view_axes(node, opset)]
            self.axes = [axis for i, axis in enumerate(self.axes) if i not in dropped]
        elif node.op_type == "Unsqueeze":
            rank = len(self.axes)
            added = view_axes(node, opset)
            for axis in sorted(normalize_axis(axis, rank + len(added)) for axis in added):
                self.axes.insert(axis, _NEW)
        elif node.op_type == "Slice":
            for axis, entry in written_slice(node, opset, self.shape).items():
                self._cut(axis, entry)
        elif node.op_type == "Gather":
            axis, kept, is_scalar = gathered(node, opset, self.shape)
            self._cut(axis, AxisSlice.of(kept))
            if is_scalar:
                del self.axes[axis]

    @property
    def shape(self) -> Sizes:
        """What is known of the output's shape."""
        return tuple([1 if axis == _NEW else self._kept(axis) for axis in self.axes])

    @property
    def cut(self) -> dict[int, AxisSlice]:
        """What is done to the axes that are not kept whole."""
        return {axis: entry for axis, entry in self.entries.items() if not entry.is_whole(self.sizes[axis])}

    def views(self) -> tuple[list[int], list[int]]:
        """The input's axes that a Squeeze drops, and the output's axes that an Unsqueeze makes after it.

        An axis that surely has one element and is dropped beside a new one stays instead.
        """
        axes = list(self.axes)
        dropped = [axis for axis in range(len(self.sizes)) if axis not in axes]
        for axis in list(dropped):
            at = next((i for i, other in enumerate(axes) if other > axis), len(axes))
            while at and axes[at - 1] == _NEW:
                at -= 1
            if self._kept(axis) == 1 and at < len(axes) and axes[at] == _NEW:
                axes[at] = axis
                dropped.remove(axis)
        return dropped, [i for i, axis in enumerate(axes) if axis == _NEW]

    def _cut(self, axis: int, entry: AxisSlice) -> None:
        source = self.axes[axis]
        if source != _NEW:
            done = {source: self.entries[source]} if source in self.entries else {}
            self.entries.update(compose_entries(done, {source: entry}, self.sizes))
        elif not entry.is_whole(1):
            raise NotApplied("a new axis is cut")

    def _kept(self, axis: int) -> int | None:
        size, entry = self.sizes[axis], self.entries.get(axis)
        if entry is None or size is None:
            return size
        return len(resolve_axis(*entry, size))


class ShortenChainsPass(NodePass):
    """Make at most one Slice, one Squeeze and one Unsqueeze of a chain of them, Gathers of one index and Identities.

    1. The chain's slices become one, across axes that are new or dropped in between.
    2. Of an axis that is dropped and a new one in its place, the axis stays.
    3. A single axis that is cut to one element and dropped is a Gather of that index; not where `SiblingsToSplitPass`
       makes a Split of the slices, or `gathers` is False.

    It is done where slicing nodes become fewer, or nodes do and slicing nodes not more. The chain's values are read by
    its next node alone; all that it names is constant.

    Given: y = Slice(Unsqueeze(Squeeze(Slice(x[4, 6], [1], [2], [0]), [0]), [0]), [2], [5], [1])
    Result: y = Slice(x, [1, 2], [2, 5], [0, 1])

    Not rewritten: slices of an open axis that do not compose; a cut new axis.
    """

    op_types = _LINKS

    def __init__(self, *, gathers: bool = True) -> None:
        super().__init__()
        self._gathers = gathers

    def apply(self, model: ir.Model) -> None:
        """See the class."""
        self._split_members = split_members(model, self.known)
        super().apply(model)

    def rewrite(self, node: ir.Node, opset: int) -> Outcome:
        """See the class."""
        if not node.inputs or _next(node) is not None:
            return None
        links = [node]
        while (before := _before(links[0])) is not None and before.inputs:
            links.insert(0, before)
        reasons: list[str] = []
        while len(links) > 1:
            chain, length = self._chain(links, opset, reasons)
            if chain is not None and (form := self._shorten(chain, links[:length], opset)) is not None:
                return form, ()
            links = links[max(length, 1) :]
        if reasons:
            raise NotApplied(reasons[0])
        return None

    def _chain(self, links: Sequence[ir.Node], opset: int, reasons: list[str]) -> tuple[_Chain | None, int]:
        """What the first links do together, and how many they are; why they are no more goes to the reasons."""
        sizes = self.sizes(links[0].inputs[0])
        if sizes is None:
            reasons.append("the rank of the chain's input is not known")
            return None, 0
        chain = _Chain(sizes)
        for i, link in enumerate(links):
            try:
                chain.add(link, opset)
            except (InvalidSlice, NotApplied) as reason:
                reasons.append(f"{link.op_type} {link.name!r}: {reason}")
                return chain, i
        return chain, len(links)

    def _shorten(self, chain: _Chain, links: Sequence[ir.Node], opset: int) -> str | None:
        """Write links in their shortest form; what that is, None if it is no shorter."""
        slicing = sum(link.op_type in ("Slice", "Gather") for link in links)
        if len(links) < 2 or not slicing:
            return None
        last, data = links[-1], links[0].inputs[0]
        assert data is not None
        gathers = self._gathers and not self._split_members.intersection(links)
        new, form = self._written(chain, data, last, opset, gathers=gathers)
        made = [one for one in new if one.op_type != "Constant"]
        cuts = sum(one.op_type in ("Slice", "Gather") for one in made)
        if cuts > slicing or len(made) > len(links) or (cuts, len(made)) == (slicing, len(links)):
            discard(new)
            return None
        new[-1].name = last.name
        self.put_in_place([last], new, {last.outputs[0]: new[-1].outputs[0]})
        return form

    def _written(
        self, chain: _Chain, data: ir.Value, last: ir.Node, opset: int, *, gathers: bool
    ) -> tuple[list[ir.Node], str]:
        """The chain's shortest form."""
        dropped, added = chain.views()
        cut = chain.cut
        new: list[ir.Node] = []
        value = data
        single = _single(chain, cut, dropped) if gathers else None
        shape = list(chain.sizes)
        if single is not None:
            index = constant_node(single)
            (axis,) = dropped
            new += [index, ir.node("Gather", [data, index.outputs[0]], {"axis": axis})]
            del shape[axis]
        elif cut:
            made = slice_node(data, cut, opset)
            if made is None:
                raise NotApplied("it would need steps, which Slice has from opset 10 on")
            new += made
            for axis in cut:
                shape[axis] = chain._kept(axis)
        forms = [new[-1].op_type] if new else []
        steps = [("Squeeze", dropped)] if dropped and single is None else []
        steps += [("Unsqueeze", added)] if added else []
        for op_type, axes in steps:
            if new:
                value = new[-1].outputs[0]
                self.describe(value, data, tuple(shape), last.outputs[0])
            new += view_node(op_type, value, axes, opset)
            if op_type == "Squeeze":
                shape = [size for axis, size in enumerate(shape) if axis not in dropped]
            forms.append(op_type)
        if not new:
            new = [ir.node("Identity", [data])]
            forms = ["Identity"]
        return new, ", ".join(forms)


def _single(chain: _Chain, cut: dict[int, AxisSlice], dropped: Sequence[int]) -> int | None:
    """The index of the one element that is kept of the one axis that is cut and dropped, if it is so."""
    if len(dropped) != 1 or list(cut) != list(dropped):
        return None
    size = chain.sizes[dropped[0]]
    kept = range(0) if size is None else resolve_axis(*cut[dropped[0]], size)
    return kept[0] if len(kept) == 1 else None


def _before(node: ir.Node) -> ir.Node | None:
    """The link that a link reads, if nothing else reads it."""
    value = node.inputs[0] if node.inputs else None
    producer = None if value is None else value.producer()
    if value is None or producer is None or not is_operator(producer, *_LINKS) or producer.graph is not node.graph:
        return None
    return None if value.is_graph_output() or len(value.uses()) != 1 else producer


def _next(node: ir.Node) -> ir.Node | None:
    """The link that alone reads a link's output as its data."""
    output = node.outputs[0]
    uses = output.uses()
    if output.is_graph_output() or len(uses) != 1:
        return None
    use = next(iter(uses))
    return use.node if use.idx == 0 and is_operator(use.node, *_LINKS) and use.node.graph is node.graph else None
