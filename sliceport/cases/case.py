"""A conformance case as a value: one node with its parameters, its data, and the outputs that its standard requires."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sliceport.cases.graph import ELEMENTS, Array, Graph, Node, TensorType
from sliceport.slicing import Masks, Region, SliceSpec, SplitSpec, StridedSliceSpec
from sliceport.slicing.masks import MASK_ATTRIBUTES

Parameters = Mapping[str, Any]


INPUTS = {
    "Slice": ("starts", "ends", "axes", "steps"),
    "Split": ("split",),
    "StridedSlice": ("begin", "end", "strides"),
}
"""The parameters of each operator that are inputs in its newest version, in order."""
_OPSETS = {("Slice", 1): 9, ("Split", 2): 10}
"""The last operator set that has this version of the operator. For any other version, the model has the operator set
that introduced the version."""


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

    @property
    def opset(self) -> int:
        """The operator set of the model."""
        return _OPSETS.get((self.operator, self.version), self.version)

    def to_graph(self) -> Graph:
        """Return the model of the case."""
        # The parameters that are inputs of the node in this version of the operator. All others are attributes.
        has_lists = self.is_openvino or self.version >= (13 if self.operator == "Split" else 10)
        indices = self.index_inputs if has_lists else {}
        names = list(INPUTS[self.operator])
        if self.is_openvino and self.operator == "Slice":  # its inputs are in another order than those of ONNX's Slice
            names = ["starts", "ends", "steps", "axes"]
        names = [name if name in indices else "" for name in names]
        while names and not names[-1]:
            names.pop()
        attributes = {
            name: value for name, value in self.parameters.items() if value is not None and name not in indices
        }
        if self.operator == "StridedSlice":  # OpenVINO refuses masks of different lengths, so short ones get zeros
            masks = {name: attributes.pop(name, ()) for name in MASK_ATTRIBUTES}
            length = max(map(len, masks.values()))
            attributes |= {name: [*mask, *[0] * (length - len(mask))] for name, mask in masks.items()}
        if self.version < 18:  # older versions of Split divide by the number of outputs that the node has
            attributes.pop("num_outputs", None)
        element = ELEMENTS[self.element]
        data = TensorType(element, [f"d{i}" if i in self.open_axes else size for i, size in enumerate(self.shape)])
        lists = {name: TensorType(ELEMENTS[self.index_type], indices[name].shape) for name in names if name}
        sizes = self._list_output_sizes()
        return Graph(
            self.name,
            {"x": data} | (lists if self.has_inputs else {}),
            {name: TensorType(element, sizes[k]) for k, name in enumerate(self.output_names)},
            [Node(self.operator, ("x", *names), self.output_names, attributes, self.version, "cut")],
            {} if self.has_inputs else {name: indices[name] for name in lists},
            self.sentence,
        )

    def _list_output_sizes(self) -> list[Sequence[int | str]]:
        """Return the sizes that the model declares for each output.

        Sizes are symbols if the parameters are inputs, if an axis is open, if the standard forbids the node, or if
        readers of the standard disagree about it.
        """
        if self.is_refused:
            return [[f"n{i}" for i in range(len(self.shape))]] * len(self.output_names)
        shapes = [output.shape for output in self.outputs()]
        if self.has_inputs or self.open_axes or self.reading:
            return [[f"y{k}_{i}" for i in range(len(shape))] for k, shape in enumerate(shapes)]
        return list(shapes)

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
