"""From resolved slicing nodes to DirectML operators: exact for every legal node, or a refusal with its reason.

  1. Nothing selected: empty, no operator (DirectML windows cannot be empty).
  2. The whole input in its order and layout: an alias, no operator. With `views`, also every forward slice that starts
     at a multiple of 16 bytes: a strided tensor over the input's buffer.
  3. Parts that tile an axis (a Split whose outputs are all used, sibling Slices of one value): one SPLIT.
  4. Every other part: one SLICE1, below feature level 2.1 one SLICE; a mere change of layout: ELEMENT_WISE_IDENTITY.

Axes are coalesced first (`Grid`), so an operator has the fewest dimensions; element types that the feature level lacks
are moved as bits (`carriers`). A Split of which only some outputs are used becomes slices of those: a SPLIT writes
every element of its input, the slices only what is used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod

from sliceport.directml.elements import ELEMENT_BITS, Carrier, carriers
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.operators import INT32_MAX, ElementWiseIdentity, Operator, Slice, Slice1, Split, check
from sliceport.directml.program import Alias, Binding, Call, LoweredNode, Program, Verdict
from sliceport.directml.schema import SLICE, SLICE1, OperatorSchema, Support
from sliceport.directml.strided_copy import Grid
from sliceport.directml.tensor import (
    MINIMUM_ALIGNMENT,
    UINT32_MAX,
    BufferTensor,
    axis_order,
    element_offset,
    packed_strides,
)
from sliceport.errors import Refusal, UsageError
from sliceport.slicing import Region, cover, window
from sliceport.slicing.node import Cut, SlicingNode
from sliceport.slicing.tiling import tiling

Strides = tuple[int, ...]

_MOST_ELEMENTS = 2**60
_BITS_OF = {"FLOAT": "UINT32", "FLOAT16": "UINT16", "DOUBLE": "UINT64"}
"""What floats are copied as by ELEMENT_WISE_IDENTITY: as FLOAT16 it makes signalling NaNs quiet."""


@dataclass(frozen=True)
class Options:
    """How to lower.

    Attributes:
        feature_level: The DirectML feature level to lower for.
        input_layout: Memory layout of the tensors that are cut: an axis order (`NHWC`, `0,2,3,1`), which holds for
            tensors of its rank, or explicit strides by value name. None: packed row-major.
        output_layout: The same for what comes out.
        views: Whether forward slices that start at a multiple of 16 bytes become views of the input's buffer.

    Raises:
        UsageError: A layout is not an axis order.
    """

    feature_level: FeatureLevel = LATEST
    input_layout: str | dict[str, Strides] | None = None
    output_layout: str | dict[str, Strides] | None = None
    views: bool = False

    def __post_init__(self) -> None:
        for layout in (self.input_layout, self.output_layout):
            if isinstance(layout, str):
                axis_order(layout)


class _NotLoweredError(Exception):
    """Carries a refusal's code and rule from where it is found to the node that it is about."""

    def __init__(self, code: str, rule: str) -> None:
        super().__init__(rule)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Placed:
    """Where a value lies when it has no buffer of its own: a view of another value's."""

    value: str
    byte_offset: int
    strides: Strides


@dataclass
class _Lowering:
    """The state of one run: numbers given out and views made so far."""

    options: Options
    ids: Iterator[int] = field(default_factory=count)
    placed: dict[tuple[tuple[str, ...], str], _Placed] = field(default_factory=dict)

    def source(self, node: SlicingNode) -> tuple[Binding, Strides | None]:
        """What the node's input is bound to, and its strides (None: packed)."""
        for depth in range(len(node.scope), -1, -1):  # the value may be of a graph around the node's own
            placed = self.placed.get((node.scope[:depth], node.input))
            if placed is not None:
                return Binding(placed.value, placed.byte_offset), placed.strides
        shape = node.cuts[0].region.input_shape
        return Binding(node.input), _layout_strides(self.options.input_layout, node.input, shape)

    def output_strides(self, cut: Cut) -> Strides | None:
        """The strides that the cut's output is wanted in (None: packed)."""
        return _layout_strides(self.options.output_layout, cut.output, cut.region.output_shape)

    def call(self, operator: Operator, source: Binding, outputs: Sequence[str]) -> Call:
        """The operator, checked, with the next number."""
        check(operator, self.options.feature_level)
        return Call(next(self.ids), operator, source, tuple(map(Binding, outputs)))


def lower_nodes(nodes: Sequence[SlicingNode], options: Options | None = None) -> Program:
    """Lower the slicing nodes of a model; refusals are values, nothing is raised for a node.

    Raises:
        UsageError: A layout in `options` cannot be used.
    """
    options = options or Options()
    run = _Lowering(options)
    groups = {} if options.views else _sibling_groups(nodes)
    lowered: dict[int, LoweredNode] = {}
    for i, node in enumerate(nodes):
        if i in groups and i not in lowered:
            lowered |= _lower_siblings(nodes, groups[i], run)
        if i not in lowered:
            lowered[i] = _lower_node(node, run)
    return Program(options.feature_level, tuple(lowered[i] for i in range(len(nodes))))


def _lower_node(node: SlicingNode, run: _Lowering) -> LoweredNode:
    if node.refusal is not None:
        return LoweredNode(node, "refused", node.refusal)
    if node.folded:
        return LoweredNode(node, "folded")
    try:
        calls, aliases = _lower_cuts(node, run)
    except _NotLoweredError as reason:
        return LoweredNode(node, "refused", Refusal(reason.code, f"{node.label}: not lowered: {reason}."))
    verdict: Verdict = "lowered" if calls else "alias" if aliases else "empty"
    return LoweredNode(node, verdict, None, tuple(calls), tuple(aliases))


def _lower_cuts(node: SlicingNode, run: _Lowering) -> tuple[list[Call], list[Alias]]:
    """The operators and aliases of one node; both empty when nothing is selected or nothing is used."""
    cuts = [cut for cut in node.cuts if cut.output and not cut.region.is_empty]
    if not cuts:
        return [], []
    _check_element(node.element)
    source, strides = run.source(node)
    aliases, rest = [], []
    for cut in cuts:
        alias = _alias(cut, node, source, strides, run)
        if alias is None:
            rest.append(cut)
        else:
            aliases.append(alias)
    parts = [cut for cut in rest if cut.used] or rest  # a node that nothing reads at all is computed whole
    if len(parts) == len(rest) > 1 and (split := _split_call(node.element, parts, source, strides, run)) is not None:
        return [split], aliases
    return [_slice_call(node.element, cut, source, strides, run) for cut in parts], aliases


def _sibling_groups(nodes: Sequence[SlicingNode]) -> dict[int, list[int]]:
    """Sibling Slices of one value that tile an axis of it; by position of the node, the positions of its group."""
    siblings: dict[tuple[tuple[str, ...], str], list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        if len(node.cuts) == 1 and node.cuts[0].output and not node.cuts[0].region.is_identity:
            siblings[node.scope, node.input].append(i)
    groups: dict[int, list[int]] = {}
    for members in siblings.values():
        if len(members) > 1:
            for tiling in _tilings(nodes, members):
                groups.update(dict.fromkeys(tiling, tiling))
    return groups


def _lower_siblings(nodes: Sequence[SlicingNode], group: Sequence[int], run: _Lowering) -> dict[int, LoweredNode]:
    """Siblings as one SPLIT; nothing where SPLIT does not take them."""
    first = nodes[group[0]]
    if first.element not in ELEMENT_BITS:
        return {}
    source, strides = run.source(first)
    call = _split_call(first.element, [nodes[i].cuts[0] for i in group], source, strides, run)
    return {} if call is None else {i: LoweredNode(nodes[i], "lowered", None, (call,)) for i in group}


def _tilings(nodes: Sequence[SlicingNode], members: Sequence[int]) -> list[list[int]]:
    """Disjoint groups of the nodes at `members`, each of which tiles an axis of their common input, in its order."""
    by_axis: dict[int, list[int]] = defaultdict(list)
    for i in members:
        region = nodes[i].cuts[0].region
        cut = [axis for axis, size in enumerate(region.input_shape) if region.ranges[axis] != range(size)]
        if len(cut) == 1 and region.ranges[cut[0]].step == 1:
            by_axis[cut[0]].append(i)
    found = []
    for axis, group in by_axis.items():
        runs = {i: nodes[i].cuts[0].region.ranges[axis] for i in group}
        size = nodes[group[0]].cuts[0].region.input_shape[axis]
        while (tiles := tiling(runs, size)) and cover([nodes[i].cuts[0].region for i in tiles]):
            found.append(tiles)
            for i in tiles:
                del runs[i]
    return found


def _check_element(element: str) -> None:
    if element not in ELEMENT_BITS:
        kind = f"elements of type {element}" if element else "elements of unknown type"
        raise _NotLoweredError("unsupported_type", f"DirectML has no data type that carries {kind}")


def _alias(cut: Cut, node: SlicingNode, source: Binding, strides: Strides | None, run: _Lowering) -> Alias | None:
    """The cut as a part of its input's buffer, where no copy is needed or none is wanted."""
    region = cut.region
    wanted = run.output_strides(cut)
    if region.selects_all and _same_layout(region, strides, wanted):
        if strides is None:
            return Alias(cut.output, source.value, source.byte_offset)
    elif not run.options.views or wanted is not None or any(kept.step < 0 for kept in region.ranges):
        return None
    return _view(cut, node, source, strides, run)


def _view(cut: Cut, node: SlicingNode, source: Binding, strides: Strides | None, run: _Lowering) -> Alias | None:
    region = cut.region
    input_strides = packed_strides(region.input_shape) if strides is None else strides
    offset_bits = ELEMENT_BITS[node.element] * element_offset([kept[0] for kept in region.ranges], input_strides)
    byte_offset = source.byte_offset + offset_bits // 8
    if offset_bits % 8 or byte_offset % MINIMUM_ALIGNMENT:
        return None
    steps = iter([kept.step * s for kept, s in zip(region.ranges, input_strides, strict=True) if len(kept) > 1])
    view_strides = tuple(0 if n == 1 else next(steps) for n in region.output_shape)
    support = SLICE1.support(run.options.feature_level) or SLICE.support(run.options.feature_level)
    carrier = next(carriers(node.element, support.data_types)) if support else None
    if support is None or carrier is None or carrier.spread > 1 or carrier.group > 1:
        return None
    tensor = BufferTensor.of(carrier.data_type, region.output_shape, view_strides).padded_to(support.min_rank)
    if tensor.rank > support.max_rank or tensor.rank < 1 or not tensor.is_addressable:
        return None
    tensor.check("view")
    run.placed[node.scope, cut.output] = _Placed(source.value, byte_offset, view_strides)
    return Alias(cut.output, source.value, byte_offset, tensor)


def _same_layout(region: Region, strides: Strides | None, wanted: Strides | None) -> bool:
    if strides is None and wanted is None:
        return True
    given = packed_strides(region.input_shape) if strides is None else strides
    asked = packed_strides(region.output_shape) if wanted is None else wanted
    return [s for s, n in zip(given, region.input_shape, strict=True) if n != 1] == [
        s for s, n in zip(asked, region.output_shape, strict=True) if n != 1
    ]


def _split_call(
    element: str, cuts: Sequence[Cut], source: Binding, strides: Strides | None, run: _Lowering
) -> Call | None:
    """One SPLIT for cuts that tile an axis; None where they do not, or where SPLIT does not take them."""
    tiling = cover([cut.region for cut in cuts])
    if tiling is None:
        return None
    axis, order = tiling
    parts = [cuts[i] for i in order]
    if _is_beyond_any_buffer(parts[0].region):
        return None
    grid = Grid.of([cut.region for cut in parts], strides, [run.output_strides(cut) for cut in parts], axis)
    try:
        operator = _described(grid, element, run.options.feature_level, Split.schema, _split)
    except _NotLoweredError:
        return None  # slices may still do
    return run.call(operator, source, [cut.output for cut in parts])


def _slice_call(element: str, cut: Cut, source: Binding, strides: Strides | None, run: _Lowering) -> Call:
    """One operator for one cut."""
    level = run.options.feature_level
    if _is_beyond_any_buffer(cut.region):
        elements = prod(cut.region.input_shape)
        raise _NotLoweredError("size_limit", f"its input has {elements} elements, more than a tensor can have")
    grid = Grid.of([cut.region], strides, [run.output_strides(cut)])
    if cut.region.selects_all:
        try:
            bits = _BITS_OF.get(element, element)
            identity = _described(grid, bits, level, ElementWiseIdentity.schema, _identity)
            return run.call(identity, source, [cut.output])
        except _NotLoweredError:
            pass  # SLICE takes more data types at the lowest levels
    if SLICE1.support(level):
        return run.call(_described(grid, element, level, SLICE1, _slice1), source, [cut.output])
    if any(kept.step < 0 for kept in grid.kept[0]):
        raise _NotLoweredError(
            "feature_level",
            f"a backward step needs DML_OPERATOR_SLICE1 (feature level 2.1), and this is for feature level {level}",
        )
    return run.call(_described(grid, element, level, SLICE, _slice), source, [cut.output])


def _is_beyond_any_buffer(region: Region) -> bool:
    """Whether the input has so many elements that merged axes would be longer than Python's `len` can say."""
    return prod(region.input_shape) > _MOST_ELEMENTS


def _described(
    grid: Grid,
    element: str,
    level: FeatureLevel,
    schema: OperatorSchema,
    build: Callable[[Grid, BufferTensor, list[BufferTensor], int], Operator],
) -> Operator:
    """The operator for a grid, its elements carried by the best data type that the operator takes."""
    support = schema.support(level)
    if support is None:
        raise _NotLoweredError("feature_level", f"{schema.type} does not exist at feature level {level}")
    for carrier in carriers(element, support.data_types):
        recast = grid.recast(carrier)
        if recast is not None:
            return _built(recast, carrier, level, schema, support, build)
    raise _NotLoweredError(
        "unaligned_type",
        f"{element} elements of {ELEMENT_BITS[element]} bits are cut inside the smallest data type that {schema.type} "
        f"takes at feature level {level}",
    )


def _built(
    grid: Grid,
    carrier: Carrier,
    level: FeatureLevel,
    schema: OperatorSchema,
    support: Support,
    build: Callable[[Grid, BufferTensor, list[BufferTensor], int], Operator],
) -> Operator:
    rank = len(grid.sizes)
    if any(abs(kept.step) > INT32_MAX for kept in grid.kept[0]):
        raise _NotLoweredError("size_limit", f"a step of more than {INT32_MAX} is beyond {schema.type}")
    if rank > support.max_rank:
        raise _NotLoweredError(
            "rank_limit",
            f"{rank} dimensions remain where no more of them coalesce, but {schema.type} takes at most "
            f"{support.max_rank} at feature level {level}",
        )
    input_tensor = BufferTensor.of(carrier.data_type, grid.sizes or (1,), _written(grid, grid.input_strides))
    output_tensors = [
        BufferTensor.of(carrier.data_type, counts or (1,), _written(grid, strides))
        for counts, strides in zip(grid.counts, grid.output_strides, strict=True)
    ]
    for tensor in (input_tensor, *output_tensors):
        if not tensor.is_addressable:
            elements = max(tensor.element_count, tensor.physical_size)
            raise _NotLoweredError(
                "size_limit",
                f"a tensor of {elements} {carrier.data_type.name} elements is more than DirectML's {UINT32_MAX}",
            )
        if tensor.may_overlap and tensor is not input_tensor:
            raise _NotLoweredError("invalid", "the output's strides put two elements at one address")
    padded = max(rank, support.min_rank, 1)
    return build(
        grid,
        input_tensor.padded_to(padded),
        [tensor.padded_to(padded) for tensor in output_tensors],
        padded - rank,
    )


def _written(grid: Grid, strides: Strides) -> Strides | None:
    """The strides as a tensor needs them written: not for packed ones."""
    return None if grid.packed or not strides else strides


def _slice1(grid: Grid, input_tensor: BufferTensor, outputs: list[BufferTensor], padding: int) -> Slice1:
    windows = [window(kept) for kept in grid.kept[0]]
    return Slice1(
        input_tensor,
        outputs[0],
        input_tensor.rank,
        (0,) * padding + tuple(w.offset for w in windows),
        (1,) * padding + tuple(w.size for w in windows),
        (1,) * padding + tuple(w.stride for w in windows),
    )


def _slice(grid: Grid, input_tensor: BufferTensor, outputs: list[BufferTensor], padding: int) -> Slice:
    kept = grid.kept[0]
    return Slice(
        input_tensor,
        outputs[0],
        input_tensor.rank,
        (0,) * padding + tuple(k[0] for k in kept),
        (1,) * padding + tuple(map(len, kept)),
        (1,) * padding + tuple(k.step for k in kept),
    )


def _split(grid: Grid, input_tensor: BufferTensor, outputs: list[BufferTensor], padding: int) -> Split:
    assert grid.split_axis is not None
    return Split(input_tensor, len(outputs), tuple(outputs), grid.split_axis + padding)


def _identity(_grid: Grid, input_tensor: BufferTensor, outputs: list[BufferTensor], _padding: int) -> Operator:
    return ElementWiseIdentity(input_tensor, outputs[0])


def _layout_strides(layout: str | dict[str, Strides] | None, value: str, shape: Sequence[int]) -> Strides | None:
    """The strides of a value of `shape` in a layout; None for packed row-major."""
    if layout is None:
        return None
    if isinstance(layout, str):
        order = axis_order(layout)
        if len(order) != len(shape) or order == tuple(range(len(shape))):
            return None
        return packed_strides(shape, order)
    strides = layout.get(value)
    if strides is not None and (len(strides) != len(shape) or any(s < 0 for s in strides)):
        raise UsageError(f"strides {list(strides)} do not fit value {value!r} of shape {list(shape)}.")
    return strides
