"""A small graph as boxes and curves: nodes in layers by depth; inputs, constants and outputs beside them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceport.search.case import Case

_MAX_TEXT = 26
"""The largest number of characters on a line of a box."""
_CHARACTER = 7.3
"""The width of a monospaced character of 12 pixels, in pixels and rounded up."""
_ROW, _GAP, _SPACE, _PADDING, _MARGIN = 44, 34, 18, 20, 8
"""Pixels: the height of a layer, the gap between layers, the space between boxes, a box's padding, and the margin."""


@dataclass(eq=False)
class Box:
    """A box of a drawing. Positions and sizes are in pixels.

    Attributes:
        kind: `node`, `culprit`, `input`, `constant`, `output`, `wrong output`, or `bend`: the point where an edge
            passes through a layer.
        lines: One or two lines of text, none for a bend.
        title: The whole text, for a tooltip.
        sources: The boxes whose edges lead to this box.
        depth: Its layer, counted from the top. For a node, this is the length of the longest path to it.
        x: The position of its centre, relative to the middle of the drawing.
    """

    kind: str
    lines: tuple[str, ...] = ()
    title: str = ""
    sources: list[Box] = field(default_factory=list)
    depth: int = 0
    x: float = 0.0

    @property
    def y(self) -> float:
        """The position of the box's centre, from the upper edge of the drawing."""
        return _MARGIN + self.depth * (_ROW + _GAP) + _ROW / 2

    @property
    def width(self) -> float:
        """The box's width; 0 for a bend."""
        return max((len(line) * _CHARACTER + _PADDING for line in self.lines), default=0)

    @property
    def height(self) -> float:
        """The box's height: a whole layer, or half a layer for a box with one line."""
        return _ROW if len(self.lines) != 1 else _ROW / 2

    @property
    def path(self) -> str:
        """The edges from `sources` to the box, as an SVG path. A bend also gets a vertical line through the layer."""
        top = self.y - self.height / 2
        curves = f"M{self.x:.1f} {top}v{_ROW}" if self.kind == "bend" else ""
        for source in self.sources:
            bottom = source.y + source.height / 2
            middle = (bottom + top) / 2  # the height of the control points, so that both ends are vertical
            curves += f"M{source.x:.1f} {bottom}C{source.x:.1f} {middle} {self.x:.1f} {middle} {self.x:.1f} {top}"
        return curves


def lay_out(case: Case, wrong: Collection[str]) -> tuple[list[Box], float, float]:
    """Return the boxes of a case, and the width and height of the drawing. `wrong` names the outputs that differ."""
    boxes = _make_boxes(case, wrong)
    for box in boxes:  # inputs and constants are directly above their highest reader, whose depth is 1 or more
        if box.kind in ("input", "constant"):
            box.depth = min(reader.depth for reader in boxes if box in reader.sources) - 1
    boxes += _bend_edges(boxes)
    depth = max(box.depth for box in boxes)
    for layer in range(depth + 1):
        row = [box for box in boxes if box.depth == layer]
        # Sort boxes by the mean position of their sources, so that few edges cross. Boxes without sources are last.
        row.sort(key=lambda box: sum(source.x for source in box.sources) / len(box.sources) if box.sources else inf)
        left = -(sum(box.width for box in row) + _SPACE * (len(row) - 1)) / 2
        for box in row:
            box.x = left + box.width / 2
            left += box.width + _SPACE
    width = 2 * max(abs(box.x) + box.width / 2 for box in boxes) + 2 * _MARGIN
    return boxes, width, 2 * _MARGIN + depth * (_ROW + _GAP) + _ROW


def _bend_edges(boxes: list[Box]) -> list[Box]:
    """Put a bend into each edge at every layer between its ends. Update `sources` to match, and return the bends."""
    bends = []
    for box in boxes:
        for i, source in enumerate(box.sources):
            above = source
            for layer in range(source.depth + 1, box.depth):
                above = Box("bend", depth=layer, sources=[above])
                bends.append(above)
            box.sources[i] = above
    return bends


def _make_boxes(case: Case, wrong: Collection[str]) -> list[Box]:
    """Return a box for each node, input, constant and output of a case. Inputs and constants get their depths later."""
    boxes_by_value: dict[str, Box] = {}
    boxes: list[Box] = []
    arrays = {**case.inputs, **case.constants}
    for node in case.nodes:
        names = dict.fromkeys((*node.reads, *node.constants))
        for name in [name for name in names if name not in boxes_by_value]:
            array = arrays.get(name)  # None for a constant that is stored in the model
            type_and_shape = "" if array is None else f"{array.dtype}{list(array.shape)}"
            kind = "input" if name in case.inputs else "constant"
            lines = tuple(map(_clip, filter(None, (name, type_and_shape))))
            boxes_by_value[name] = Box(kind, lines, f"{kind} {name} {type_and_shape}")
            boxes.append(boxes_by_value[name])
        sources = list(dict.fromkeys(boxes_by_value[name] for name in names))
        kind = "culprit" if node is case.culprit else "node"
        depth = max((source.depth + 1 for source in sources), default=0)
        boxes.append(Box(kind, (_clip(node.op_type), _clip(node.name)), str(node), sources, depth))
        boxes_by_value |= dict.fromkeys(node.writes, boxes[-1])
    for name in case.outputs:
        kind, source = "wrong output" if name in wrong else "output", boxes_by_value[name]
        boxes.append(Box(kind, (_clip(name),), f"output {name}", [source], source.depth + 1))
    return boxes


def _clip(text: str) -> str:
    """Replace the middle of a long text by `…`; keep twice as much of the end as of the beginning."""
    head = _MAX_TEXT // 3
    tail = _MAX_TEXT - head - 1  # 1 for the `…`
    return text if len(text) <= _MAX_TEXT else f"{text[:head]}…{text[-tail:]}"
