"""Memory layouts of a model's tensors, and the options of lowering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sliceport.arguments import read_integers, read_mapping
from sliceport.directml.feature_levels import LATEST, FeatureLevel
from sliceport.directml.tensor import axis_order, packed_strides
from sliceport.errors import UsageError
from sliceport.slicing import Region
from sliceport.slicing.node import Resolved, SlicingNode

Strides = tuple[int, ...]
Layout = str | Mapping[str, Sequence[int]] | None
"""A layout as callers give it. `Options.input_layout` describes its forms."""


@dataclass(frozen=True)
class Options:
    """The options of lowering.

    Attributes:
        feature_level: The DirectML feature level to lower for.
        input_layout: Memory layout of the inputs of slicing nodes, except inputs that another lowered node writes. It
            is an axis order (`NHWC`, `0,2,3,1`), which applies to inputs of its rank, or strides in elements by value
            name. All other tensors are packed row-major.
        output_layout: Memory layout of the outputs of slicing nodes, in the same form. An output that another slicing
            node reads has this layout, too.
        views: Whether a forward slice is read in its input's buffer, without a copy, if DirectML can bind it there.

    Raises:
        UsageError: A layout is a str but not an axis order.
    """

    feature_level: FeatureLevel = LATEST
    input_layout: str | dict[str, Strides] | None = None
    output_layout: str | dict[str, Strides] | None = None
    views: bool = False

    @classmethod
    def of(
        cls,
        *,
        feature_level: str | FeatureLevel = LATEST,
        input_layout: Layout = None,
        output_layout: Layout = None,
        views: bool = False,
    ) -> Options:
        """Return the options that the keyword arguments of `sliceport.lower` describe.

        Raises:
            UsageError: The feature level is not known, or a layout is malformed.
        """
        return cls(FeatureLevel.parse(feature_level), _read_layout(input_layout), _read_layout(output_layout), views)

    def __post_init__(self) -> None:
        for layout in (self.input_layout, self.output_layout):
            if isinstance(layout, str):
                axis_order(layout)  # raises UsageError if it is not an axis order


def _read_layout(layout: Layout) -> str | dict[str, Strides] | None:
    """Return a layout in the form that `Options` accepts. A str is returned unchecked, because `Options` checks it."""
    if layout is None or isinstance(layout, str):
        return layout
    strides_by_name = read_mapping(layout, "a layout must be an axis order (NHWC or 0,2,3,1) or", "values to strides")
    return {name: read_integers(strides, f"the strides of value {name!r}") for name, strides in strides_by_name.items()}


def is_requested(layout: str | dict[str, Strides] | None, value: str, rank: int) -> bool:
    """Whether `layout` gives strides for the tensor named `value`, even if these are packed row-major strides."""
    if isinstance(layout, str):
        return len(axis_order(layout)) == rank
    return layout is not None and value in layout


def find_strides(layout: str | dict[str, Strides] | None, value: str, shape: Sequence[int]) -> Strides | None:
    """Return the strides that `layout` requests for the tensor named `value`, or None for a packed row-major tensor.

    Raises:
        UsageError: The strides in `layout` do not fit the shape of the value.

    >>> find_strides("NHWC", "x", (1, 3, 4, 5))
    (60, 1, 15, 3)
    """
    if layout is None or not is_requested(layout, value, len(shape)):
        return None
    strides = packed_strides(shape, axis_order(layout)) if isinstance(layout, str) else layout[value]
    if len(strides) != len(shape) or any(stride < 0 for stride in strides):
        raise UsageError(
            f"strides {list(strides)} do not fit value {value!r} of shape {list(shape)}; give one stride of at least 0 "
            "for each axis."
        )
    return None if _strides_of_longer_axes(shape, strides) == _strides_of_longer_axes(shape, None) else strides


def list_layout_notes(options: Options, nodes: Sequence[SlicingNode]) -> tuple[str, ...]:
    """Return a sentence about each layout without effect: no tensor has its rank, or no slicing node has the values."""
    notes = []  # not errors, because a layout may describe the values of several models
    cuts = [cut for node in nodes if isinstance(node, Resolved) for cut in node.cuts]
    for side, layout, verb in (("input", options.input_layout, "reads"), ("output", options.output_layout, "writes")):
        if isinstance(layout, str):
            if cuts and len(axis_order(layout)) not in {len(getattr(cut.region, f"{side}_shape")) for cut in cuts}:
                notes.append(f"layout {layout} has no effect on the {side}s of slicing nodes: none has as many axes")
        elif layout and nodes:
            values = {value for node in nodes for value in ([node.input] if side == "input" else node.outputs)}
            if others := ", ".join(repr(name) for name in layout if name not in values):
                notes.append(
                    f"strides of {side}s have no effect for {others}: no slicing node {verb} a value of this name"
                )
    return tuple(notes)


def has_same_layout(region: Region, input_strides: Strides | None, output_strides: Strides | None) -> bool:
    """Whether input and output of a region that selects all elements have the same strides on axes longer than 1."""
    source = _strides_of_longer_axes(region.input_shape, input_strides)
    return source == _strides_of_longer_axes(region.output_shape, output_strides)


def _strides_of_longer_axes(shape: Sequence[int], strides: Strides | None) -> list[int]:
    """Return the strides of axes longer than 1; only these matter. If `strides` is None, the tensor is packed."""
    strides = packed_strides(shape) if strides is None else strides
    return [stride for size, stride in zip(shape, strides, strict=True) if size != 1]
