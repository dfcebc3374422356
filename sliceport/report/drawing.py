"""A small graph as boxes and curves: nodes in layers by depth, inputs, constants and outputs beside them."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceport.diffing.search import Case

MAX_NODES = 30
_MAX_TEXT = 26
_CHARACTER = 7.3
"""Pixels of a monospaced character of 12 pixels, and a little more."""
_ROW, _GAP, _SPACE, _MARGIN = 44, 34, 18, 8
"""Pixels: the height of a layer, from a layer to the next, between boxes, around all."""
_SWEEPS = 4


@dataclass
class Box:
    """A box of a drawing.

    Attributes:
        kind: `node`, `culprit`, `input`, `constant`, `output`, or `bend` for an edge that passes a layer.
        lines: One or two lines of text.
        title: The whole text.
        x: The position of its centre.
        y: The position of its centre.
    """

    kind: str
    lines: tuple[str, ...] = ()
    title: str = ""
    x: float = 0.0
    y: float = 0.0

    @property
    def is_node(self) -> bool:
        """Whether it stands for a node."""
        return self.kind in ("node", "culprit")

    @property
    def width(self) -> float:
        """The width; 0 for a bend."""
        return max((len(line) * _CHARACTER + 20 for line in self.lines), default=0)

    @property
    def height(self) -> float:
        """The height; a bend takes the whole layer."""
        return _ROW if len(self.lines) != 1 else _ROW / 2


@dataclass(frozen=True)
class Drawing:
    """Boxes, and the curves between them as paths of SVG."""

    boxes: tuple[Box, ...]
    paths: tuple[str, ...]
    width: float
    height: float


def draw(case: Case, wrong: Collection[str]) -> Drawing:
    """Draw a case.

    Args:
        case: The case.
        wrong: The names of its outputs that differ.
    """
    boxes, edges = _collect(case, wrong)
    layers = _bend(boxes, edges, _find_layers(boxes, edges))
    _order(layers, edges)
    width = max(_width_of([boxes[key] for key in layer]) for layer in layers)
    for depth, layer in enumerate(layers):
        row = [boxes[key] for key in layer]
        left = _MARGIN + (width - _width_of(row)) / 2
        for box in row:
            box.x, box.y = left + box.width / 2, _MARGIN + depth * (_ROW + _GAP) + _ROW / 2
            left += box.width + _SPACE
    height = 2 * _MARGIN + len(layers) * (_ROW + _GAP) - _GAP
    paths = [_curve(boxes[a], boxes[b]) for a, b in edges]
    paths += [f"M{box.x:.1f} {box.y - _ROW / 2:.1f}v{_ROW}" for box in boxes.values() if box.kind == "bend"]
    shown = tuple(box for box in boxes.values() if box.kind != "bend")
    return Drawing(shown, tuple(paths), width + 2 * _MARGIN, height)


def _collect(case: Case, wrong: Collection[str]) -> tuple[dict[Hashable, Box], list[tuple[Hashable, Hashable]]]:
    """Return the boxes by key, and the edges as pairs of keys. Nodes come after what they read."""
    boxes: dict[Hashable, Box] = {}
    edges: dict[tuple[Hashable, Hashable], None] = {}
    makers: dict[str, Hashable] = {}
    arrays = {**case.inputs, **case.constants}
    for number, node in enumerate(case.nodes):
        for name in (*node.reads, *node.constants):
            if name not in makers:
                array = arrays.get(name)
                kind = "input" if name in case.inputs else "constant"
                about = "" if array is None else f"{array.dtype}{list(array.shape)}"
                boxes[name] = Box(kind, tuple(filter(None, (clip(name), clip(about)))), f"{kind} {name} {about}")
                makers[name] = name
            edges[makers[name], number] = None
        kind = "culprit" if node == case.culprit else "node"
        boxes[number] = Box(kind, (clip(node.op_type), clip(node.name)), str(node))
        makers |= dict.fromkeys(node.writes, number)
    for name in case.outputs:
        kind = "wrong output" if name in wrong else "output"
        boxes["output", name] = Box(kind, (clip(name),), f"output {name}")
        edges[makers[name], ("output", name)] = None
    return boxes, list(edges)


def clip(text: str) -> str:
    """Leave out the middle of a long text."""
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT // 3]}…{text[1 - _MAX_TEXT * 2 // 3 :]}"


def _find_layers(boxes: dict[Hashable, Box], edges: list[tuple[Hashable, Hashable]]) -> dict[Hashable, int]:
    """Return the length of the longest path to each box; inputs and constants stand right above a reader."""
    depths: dict[Hashable, int] = {}
    for key in boxes:
        depths[key] = max((depths[a] + 1 for a, b in edges if b == key), default=0)
    for key, box in boxes.items():
        if box.kind in ("input", "constant"):
            depths[key] = min(depths[b] for a, b in edges if a == key) - 1
    return depths


def _bend(
    boxes: dict[Hashable, Box], edges: list[tuple[Hashable, Hashable]], depths: dict[Hashable, int]
) -> list[list[Hashable]]:
    """Return the boxes by layer. An edge that passes a layer gets a bend there, so that it crosses no box."""
    layers: list[list[Hashable]] = [[] for _ in range(max(depths.values()) + 1)]
    for key, depth in depths.items():
        layers[depth].append(key)
    for a, b in list(edges):
        bends: list[Hashable] = [("bend", a, b, depth) for depth in range(depths[a] + 1, depths[b])]
        for depth, bend in enumerate(bends, depths[a] + 1):
            boxes[bend] = Box("bend")
            layers[depth].append(bend)
        if bends:
            edges.remove((a, b))
            edges += pairwise([a, *bends, b])
    return layers


def _order(layers: list[list[Hashable]], edges: list[tuple[Hashable, Hashable]]) -> None:
    """Order each layer by the mean place of the neighbours, first of those above, then of those below."""
    for sweep in range(_SWEEPS):
        order = layers if sweep % 2 == 0 else layers[::-1]
        for before, layer in pairwise(order):
            places = {key: place / max(len(before) - 1, 1) for place, key in enumerate(before)}
            own = {key: place / max(len(layer) - 1, 1) for place, key in enumerate(layer)}
            near = {
                key: [places[other] for a, b in edges if key in (a, b) and (other := b if a == key else a) in places]
                for key in layer
            }
            layer.sort(key=lambda key: sum(near[key]) / len(near[key]) if near[key] else own[key])


def _width_of(row: list[Box]) -> float:
    return sum(box.width for box in row) + _SPACE * (len(row) - 1)


def _curve(a: Box, b: Box) -> str:
    y, end = a.y + a.height / 2, b.y - b.height / 2
    middle = (y + end) / 2
    return f"M{a.x:.1f} {y:.1f}C{a.x:.1f} {middle:.1f} {b.x:.1f} {middle:.1f} {b.x:.1f} {end:.1f}"
