"""A conformance case as a value: one node with its parameters, its data, and the outputs that its standard requires."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from sliceport.slicing import Masks, Region, SliceSpec, SplitSpec, StridedSliceSpec

Array = npt.NDArray[Any]
Parameters = Mapping[str, Any]


class Element(NamedTuple):
    """An element type: its number in TensorProto.DataType, and its NumPy type."""

    number: int
    dtype: np.dtype[Any]

    @property
    def ir_name(self) -> str:
        """The name of the type in OpenVINO's IR."""
        names = {"bool": "boolean", "bfloat16": "bf16"}
        return names.get(self.dtype.name, f"{self.dtype.kind}{self.dtype.itemsize * 8}")


ELEMENTS = {
    name: Element(number, np.dtype(dtype))
    for number, name, dtype in (
        (1, "float", np.float32), (2, "uint8", np.uint8), (3, "int8", np.int8), (4, "uint16", np.uint16),
        (5, "int16", np.int16), (6, "int32", np.int32), (7, "int64", np.int64), (9, "bool", np.bool_),
        (10, "float16", np.float16), (11, "double", np.float64), (12, "uint32", np.uint32), (13, "uint64", np.uint64),
        (14, "complex64", np.complex64), (15, "complex128", np.complex128), (16, "bfloat16", ml_dtypes.bfloat16),
    )
}  # fmt: skip
"""The element types of data by their ONNX names. OpenVINO has no complex numbers."""
INPUTS = {
    "Slice": ("starts", "ends", "axes", "steps"),
    "Split": ("split",),
    "StridedSlice": ("begin", "end", "strides"),
}
"""The parameters of each operator that are inputs in its newest version, in order."""


@dataclass(frozen=True)
class Case:
    """One node of a version of an operator, with data of one shape.

    Attributes:
        name: The name of the case's folder.
        rule: The id of the rule that the case tests.
        sentence: The rule in words, with the standard.
        operator: `Slice`, `Split` or `StridedSlice`.
        version: The version of the operator; Slice-8 and StridedSlice-1 are OpenVINO's, all others ONNX's.
        parameters: The node's parameters by their names in ONNX's newest version, or in OpenVINO's StridedSlice-1.
        shape: The shape of the data.
        element: The element type of the data, a name in `ELEMENTS`.
        index_type: The element type of the parameters.
        has_inputs: Whether the parameters are inputs of the model rather than constants.
        open_axes: The axes whose sizes the model leaves open.
        is_refused: Whether the standard forbids the node.
        reading: The other interpretation of the standard in words; empty if the standard is not disputed.
        other: Parameters that replace some of the node's own, so that the node has the outputs of the other reading.
            None if the other reading refuses the node, or the standard is not disputed.
    """

    name: str
    rule: str
    sentence: str
    operator: str
    version: int
    parameters: Parameters
    shape: tuple[int, ...]
    element: str = "float"
    index_type: str = "int64"
    has_inputs: bool = False
    open_axes: tuple[int, ...] = ()
    is_refused: bool = False
    reading: str = ""
    other: Parameters | None = None

    @property
    def is_openvino(self) -> bool:
        """Whether the case is a model of OpenVINO."""
        return (self.operator, self.version) in (("Slice", 8), ("StridedSlice", 1))

    @property
    def data(self) -> Array:
        """The data: 1, 2, 3 and so on, cast to the element type; for bool: True, False, False, True and so on."""
        flat: Array = np.arange(1, math.prod(self.shape) + 1)
        flat = flat % 3 == 1 if self.element == "bool" else flat
        return flat.astype(ELEMENTS[self.element].dtype).reshape(self.shape)

    @property
    def index_inputs(self) -> dict[str, Array]:
        """The node's parameters whose names are in `INPUTS`, as arrays in the order of `INPUTS`."""
        dtype = ELEMENTS[self.index_type].dtype
        return {
            name: np.array(self.parameters[name], dtype)
            for name in INPUTS[self.operator]
            if self.parameters.get(name) is not None
        }

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        if self.operator != "Split":
            return ["y"]
        sizes = self.parameters.get("split")
        return [f"y{i}" for i in range(len(sizes) if sizes else self.parameters["num_outputs"])]

    def outputs(self, parameters: Parameters | None = None) -> list[Array]:
        """Return the outputs that the standard requires for `parameters`, by default the case's own parameters.

        Raises:
            InvalidSlice: The standard forbids the node.
        """
        regions = self._resolve(self.parameters if parameters is None else parameters)
        return [self.data[region.slices].reshape(region.output_shape) for region in regions]

    def _resolve(self, parameters: Parameters) -> Sequence[Region]:
        """Return the region of each output; see `outputs`."""
        if self.operator == "Slice":
            return [SliceSpec(**parameters).resolve(self.shape)]
        if self.operator == "StridedSlice":
            bounds = (parameters["begin"], parameters["end"], parameters.get("strides"))
            return [StridedSliceSpec(*bounds, Masks.of(parameters)).resolve(self.shape)]
        axis, sizes = parameters.get("axis", 0), parameters.get("split")
        if sizes is None:
            # Before version 18, all parts must be equal.
            count = parameters["num_outputs"]
            return SplitSpec.evenly(axis, self.shape, count, uneven_last=self.version >= 18).resolve(self.shape)
        return SplitSpec(axis, sizes).resolve(self.shape)
