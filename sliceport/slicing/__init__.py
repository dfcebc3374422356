"""The core: the parameters of slicing operators (`spec`) and the elements that they select (`Region`).

It computes with Python ints and `range`, and imports nothing but the standard library and `sliceport.errors`. Sources:
the operator pages of ONNX on Slice and Split, and of OpenVINO on StridedSlice-1, Slice-8, Split-1 and VariadicSplit-1.
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
