"""What the two operators have in common: shapes from bounds, values that pass through, evaluation by bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import openvino as ov

from onnx_ops.errors import InvalidSlice
from onnx_ops.slicing import Region, as_slice
from ov_ext.copy import by_width, copy_packed, plan
from ov_ext.inference import Bounds
from ov_ext.values import as_constant, dimension, dimensions, element_bounds, integers, list_bounds

VERSION = "ov_ext"
"""The operators' version in IR files: it never changes."""
_PACKED = {"u1": (1, False), "u2": (2, True), "u4": (4, True), "i4": (4, True), "nf4": (4, True), "f4e2m1": (4, True)}
_REFUSED = ("u3", "u6")

AxisPlan = list[tuple[ov.Dimension, bool]]


class SlicingOp(ov.Op):
    """Base of `Slice` and `StridedSlice`."""

    class_type_info: ClassVar[ov.DiscreteTypeInfo]
    index_names: ClassVar[tuple[str, ...]]

    def get_type_info(self) -> ov.DiscreteTypeInfo:
        """The operator's name and version."""
        return self.class_type_info

    def label(self) -> str:
        """Operator and node, as errors name them."""
        return f"{self.class_type_info.name} {self.get_friendly_name()!r}"

    def set_inputs(self, inputs: Sequence[Any]) -> None:
        """Connect the operator and infer its shape.

        Args:
            inputs: Nodes of one output, outputs of nodes, or values that become constants.

        Raises:
            InvalidSlice: The inputs break the rules.
        """
        self.set_arguments([self._output(value, i) for i, value in enumerate(inputs)])
        self.constructor_validate_and_infer_types()

    def _output(self, value: Any, i: int) -> ov.Output:
        if isinstance(value, ov.Output):
            return value
        if isinstance(value, ov.Node):
            if value.get_output_size() != 1:
                raise InvalidSlice(
                    f"{self.label()}: input {i} is a node of {value.get_output_size()} outputs; name one."
                )
            return value.output(0)
        try:
            return as_constant(np.asarray(value)).output(0)
        except (RuntimeError, TypeError, ValueError):
            raise InvalidSlice(f"{self.label()}: input {i} is neither a node, an output nor an array.") from None

    # What the subclasses say.

    def output_dimensions(
        self, sizes: list[Bounds], indices: list[list[Bounds] | None]
    ) -> list[tuple[Bounds, int | None]] | None:
        """Bounds of each output size, and the input axis whose size it surely is; None if the rank is not known."""
        raise NotImplementedError

    def check_inputs(self) -> None:
        """Check ranks, lengths and types of the index inputs.

        Raises:
            InvalidSlice: One breaks the rules.
        """
        raise NotImplementedError

    def region(self, shape: tuple[int, ...], indices: tuple[tuple[int, ...], ...]) -> Region:
        """What is selected from data of a shape.

        Raises:
            InvalidSlice: The indices break the rules.
        """
        raise NotImplementedError

    # What OpenVINO calls.

    def validate_and_infer_types(self) -> None:
        """Set the output's type, shape and bounds of values.

        Raises:
            InvalidSlice: The inputs or attributes break the rules.
        """
        try:
            self._infer()
        except InvalidSlice as error:
            raise InvalidSlice(f"{self.label()}: {error}.") from None

    def evaluate(self, outputs: Any, inputs: Any) -> bool:
        """Compute the output.

        Raises:
            InvalidSlice: The indices break the rules.
        """
        data = inputs[0]
        indices = tuple([tuple(integers(inputs[i].data)) for i in range(1, len(inputs))])
        element = data.get_element_type().get_type_name()
        packed = element in _PACKED or element in _REFUSED
        array = None if packed or element == "string" else data.data
        shape = tuple(data.shape) if array is None else array.shape
        try:
            region = self._cached_region(shape, indices)
            if array is not None:
                _evaluate_bytes(region, array, outputs[0])
            elif element == "string":
                _evaluate_strings(region, data, outputs[0])
            else:
                _evaluate_packed(region, data, outputs[0], element)
        except InvalidSlice as error:
            raise InvalidSlice(f"{self.label()}: {error}.") from None
        return True

    def _cached_region(self, shape: tuple[int, ...], indices: tuple[tuple[int, ...], ...]) -> Region:
        key = (shape, indices)
        known = getattr(self, "_last", None)
        if known is not None and known[0] == key:
            return known[1]  # type: ignore[no-any-return]
        region = self.region(shape, indices)
        self._last = (key, region)
        return region

    def _infer(self) -> None:
        element = self.get_input_element_type(0)
        shape = self.get_input_partial_shape(0)
        self.check_inputs()
        sizes = dimensions(shape)
        if sizes is None:
            self.set_output_type(0, element, ov.PartialShape.dynamic())
            return
        sources = [self.input_value(i) for i in range(1, self.get_input_size())]
        indices = [list_bounds(source) for source in sources]
        output = self.output_dimensions(sizes, indices)
        if output is None:
            self.set_output_type(0, element, ov.PartialShape.dynamic())
            return
        self.set_output_type(0, element, _shape(shape, output))
        if len(sizes) == 1 and all(index is not None for index in indices):
            self._pass_values(indices)

    def _pass_values(self, indices: Sequence[list[Bounds] | None]) -> None:
        """Give the output what is known of the elements of the data: their bounds and symbols."""
        exact = [[bound.low for bound in index or () if bound.is_exact] for index in indices]
        if any(len(values) != len(index or ()) for values, index in zip(exact, indices, strict=True)):
            return
        source = self.input_value(0)
        found = element_bounds(source)
        if found is None:
            return
        region = self.region(found[0].shape, tuple(map(tuple, exact)))
        index = tuple(map(as_slice, region.ranges))
        target, element = self.get_output_tensor(0), self.get_output_element_type(0)
        lower, upper = (np.ascontiguousarray(values[index]).reshape(region.output_shape) for values in found)
        if not lower.size:
            return
        target.set_lower_value(_tensor(lower, element))
        target.set_upper_value(_tensor(upper, element))
        symbols = source.get_tensor().get_value_symbol()
        if len(symbols) == found[0].size:
            target.set_value_symbol([symbols[i] for i in region.ranges[0]])


def _tensor(values: Any, element: ov.Type) -> ov.Tensor:
    tensor = ov.Tensor(element, ov.Shape(values.shape))
    tensor.data[...] = values
    return tensor


def _shape(shape: ov.PartialShape, output: Sequence[tuple[Bounds, int | None]]) -> ov.PartialShape:
    """The output's shape; where a size is surely that of an input axis, it keeps that axis's symbol."""
    return ov.PartialShape([dimension(bounds) if axis is None else shape[axis] for bounds, axis in output])


def _evaluate_bytes(region: Region, array: Any, output: ov.Tensor) -> None:
    steps = plan(region)
    target = output.data
    if target.shape != region.output_shape:
        output.shape = region.output_shape
        target = output.data
    if target.size:
        steps.copy(by_width(array), by_width(target))


def _evaluate_strings(region: Region, data: ov.Tensor, output: ov.Tensor) -> None:
    kept = data.str_data.reshape(region.input_shape)[tuple(map(as_slice, region.ranges))]
    output.shape = region.output_shape
    output.str_data = np.ascontiguousarray(kept).reshape(region.output_shape)  # strides would be ignored


def _evaluate_packed(region: Region, data: ov.Tensor, output: ov.Tensor, element: str) -> None:
    if element in _REFUSED:
        raise InvalidSlice(f"elements of type {element} cannot be sliced")
    output.shape = region.output_shape
    if not region.is_empty:
        target = output.data.reshape(-1).view(np.uint8)
        target[...] = copy_packed(region, data.data.reshape(-1).view(np.uint8), *_PACKED[element])
