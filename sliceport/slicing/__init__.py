"""The core: the parameters of slicing operators (`spec`) and the elements that they select (`Region`).

It computes with Python ints and `range`, and imports the standard library only. Sources: the ONNX operator pages of
Slice and Split, OpenVINO's of StridedSlice-1 and Slice-8.
"""

from __future__ import annotations

from sliceport.slicing.axis import (
    INT64_MAX,
    INT64_MIN,
    Window,
    as_range,
    as_slice,
    coalesce,
    compose,
    merge,
    resolve_axis,
    shift,
    window,
)
from sliceport.slicing.masks import Entry, Masks
from sliceport.slicing.region import Region, find_tiled_axis
from sliceport.slicing.spec import AxisSlice, SliceSpec, SplitSpec, StridedSliceSpec

__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "AxisSlice",
    "Entry",
    "Masks",
    "Region",
    "SliceSpec",
    "SplitSpec",
    "StridedSliceSpec",
    "Window",
    "as_range",
    "as_slice",
    "coalesce",
    "compose",
    "find_tiled_axis",
    "merge",
    "resolve_axis",
    "shift",
    "window",
]
