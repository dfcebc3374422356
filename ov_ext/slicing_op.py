"""What the two operators have in common: shapes from bounds, values that pass through, evaluation by bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import openvino as ov
from openvino._pyopenvino import TensorVector

from ov_ext.copy import Plan, copy_packed
from ov_ext.inference import Bounds
from ov_ext.values import (
    as_indices,
    as_output,
    dimension,
    dimensions,
    element_bounds,
    index_array,
    integers,
    list_bounds,
)
from sliceport.errors import InvalidSlice
from sliceport.slicing import Region
from sliceport.slicing.axis import INT64_MIN

VERSION = "ov_ext"
"""The operators' version in IR files: it never changes."""
_MAX_KEPT = 256
_NO_ATTRIBUTE = INT64_MIN + 1
"""What stands for an attribute that is not there: OpenVINO leaves what it is asked with, which must not be empty."""


class _Known(NamedTuple):
    """What follows from indices: how to copy, by shape, and the sizes that come out, by partial shape."""

    plans: dict[tuple[int, ...], Plan]
    shapes: dict[str, list[ov.Dimension | int]]


class _Memory:
    """What an operator and its clones worked out, by indices."""

    def __init__(self) -> None:
        self._known: dict[Any, _Known] = {}
        self._last: tuple[list[ov.Output], _Known] | None = None

    def of_constants(self, sources: list[ov.Output]) -> _Known | None:
        """What is known of the constant indices that sources are; None if one is no constant."""
        last = self._last
        if last is not None and last[0] == sources:
            return last[1]
        constants = _constants(sources)
        if constants is None:
            return None
        known = self.of(constants)
        self._last = sources, known
        return known

    def of(self, indices: tuple[Any, ...]) -> _Known:
        known = self._known.get(indices)
        if known is None:
            known = _Known({}, {})
            _keep(self._known, indices, known)
        return known


class SlicingOp(ov.Op):
    """Base of `Slice` and `StridedSlice`."""

    class_type_info: ClassVar[ov.DiscreteTypeInfo]

    # OpenVINO never frees an operator in Python, and clones one for each inference of a dynamic model: a clone that
    # never runs has no attributes that it can do without.
    _connected: tuple[list[ov.Output], dict[Any, Plan]] | None = None

    def __init__(self) -> None:
        super().__init__(self)
        self._memory = _Memory()

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
        self.set_arguments([as_output(value, i, self.label()) for i, value in enumerate(inputs)])
        self.constructor_validate_and_infer_types()

    def _index_sources(self) -> list[ov.Output]:
        return [self.input_value(i) for i in range(1, self.get_input_size())]

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

        Called by OpenVINO, it takes constant indices from the nodes that are connected: to read them from the tensors
        takes longer than to copy a small one.

        Raises:
            InvalidSlice: The indices break the rules.
        """
        data = inputs[0]
        element = self._check_types(data, outputs[0])
        try:
            if element in _NOT_WHOLE_BYTES:
                region = self.region(tuple(data.shape), _list_indices(_index_arrays(inputs)))
                _NOT_WHOLE_BYTES[element](region, data, outputs[0])
                return True
            source = data.data
            plans = self._find_connected_plans() if type(inputs) is TensorVector else None
            if plans is None:
                plans = self._memory.of(_as_key(_index_arrays(inputs))).plans
            plan = plans.get(source.shape)
            if plan is None:
                plan = Plan(self.region(source.shape, _list_indices(_index_arrays(inputs))))
                _keep(plans, source.shape, plan)
        except InvalidSlice as error:
            raise InvalidSlice(f"{self.label()}: {error}.") from None
        target = outputs[0].data
        if target.shape != plan.output_shape:
            outputs[0].shape = plan.output_shape
            target = outputs[0].data
        plan.copy(source, target)
        return True

    def clone_with_new_inputs(self, inputs: Sequence[Any]) -> SlicingOp:
        """The same operator of other inputs."""
        new = self.without_inputs()
        new._memory = self._memory
        new.set_inputs(inputs)
        return new

    def without_inputs(self) -> SlicingOp:
        """The same operator, not connected."""
        return type(self)()

    def forget(self) -> None:
        """Start anew after a change of attributes."""
        self._memory = _Memory()
        self._connected = None

    def connect_fixed(self, visitor: Any, names: Sequence[str]) -> None:
        """Connect constants for indices that are attributes.

        Operators in C++ have such in compiled models, where a constant would cost time at each inference, and so do
        blobs that were exported from there.

        Args:
            visitor: What reads the attributes; when they are written instead, nothing is done.
            names: The names of the index inputs, in order.

        Raises:
            InvalidSlice: They are no lists of integers.
        """
        if self.get_output_size() or not self.get_input_size():
            return
        lists: dict[str, list[int]] = {name: [_NO_ATTRIBUTE] for name in names}
        try:
            visitor.on_attributes(lists)
        except RuntimeError:
            raise InvalidSlice(f"{self.label()}: {', '.join(names)} must be lists of integers.") from None
        fixed = {name: values for name, values in lists.items() if values and values != [_NO_ATTRIBUTE]}
        if not fixed:
            return
        data, *given = self.input_values()
        rest = iter(given)
        indices = [as_indices(fixed[name]).output(0) if name in fixed else next(rest, None) for name in names]
        self.set_arguments([data, *(source for source in indices if source is not None)])

    def _check_types(self, data: ov.Tensor, output: ov.Tensor) -> str:
        """Return the element type of the data, which must be that of the output and of the node."""
        declared, found = self.get_input_element_type(0), (data.get_element_type(), output.get_element_type())
        if found[0] != found[1] or (declared != found[0] and declared.is_static()):
            got = " and ".join(element.get_type_name() for element in found)
            raise InvalidSlice(f"{self.label()}: data and output must hold {declared.get_type_name()}, got {got}.")
        return str(found[0].get_type_name())

    def _find_connected_plans(self) -> dict[Any, Plan] | None:
        """The plans for the constant indices that are connected now; None if one is no constant."""
        sources = self.input_values()[1:]
        if self._connected is None or self._connected[0] != sources:
            known = self._memory.of_constants(sources)
            if known is None:
                return None
            self._connected = sources, known.plans
        return self._connected[1]

    def _infer(self) -> None:
        element = self.get_input_element_type(0)
        shape = self.get_input_partial_shape(0)
        of_constants = self._memory.of_constants(self.input_values()[1:])
        shapes = None if of_constants is None else of_constants.shapes
        known = None if shapes is None else shapes.get(str(shape))
        if known is not None:
            self.set_output_type(0, element, _shape(shape, known))
            return
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
        dims = [dimension(bounds) if axis is None else axis for bounds, axis in output]
        self.set_output_type(0, element, _shape(shape, dims))
        if len(sizes) != 1 and shapes is not None:
            _keep(shapes, str(shape), dims)
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
        index = region.slices
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


def _shape(shape: ov.PartialShape, dims: Sequence[ov.Dimension | int]) -> ov.PartialShape:
    """The output's shape; where a size is surely that of an input axis, it is that dimension with its symbol."""
    return ov.PartialShape([shape[dim] if isinstance(dim, int) else dim for dim in dims])


def _constants(sources: Sequence[ov.Output]) -> tuple[Any, ...] | None:
    """What tells constant indices from others; None if one is no constant."""
    nodes = [source.get_node() for source in sources]
    if not all(isinstance(node, ov.op.Constant) for node in nodes):
        return None
    return _as_key([index_array(node) for node in nodes])


def _index_arrays(inputs: Any) -> list[Any]:
    return [index_array(inputs[i]) for i in range(1, len(inputs))]


def _as_key(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Arrays by their elements."""
    return tuple([(array.dtype.char, array.shape, array.tobytes()) for array in arrays])


def _list_indices(arrays: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple([tuple(integers(array)) for array in arrays])


def _keep(memory: dict[Any, Any], key: Any, value: Any) -> None:
    """Remember the last ones."""
    if len(memory) >= _MAX_KEPT:
        memory.clear()
    memory[key] = value


def _evaluate_strings(region: Region, data: ov.Tensor, output: ov.Tensor) -> None:
    if region.is_empty:
        output.shape = region.output_shape
        return
    kept = data.str_data.reshape(region.input_shape)[region.slices]
    output.shape = region.output_shape
    output.str_data = np.ascontiguousarray(kept).reshape(region.output_shape)  # strides would be ignored


def _evaluate_packed(bits: int, lowest_first: bool, region: Region, data: ov.Tensor, output: ov.Tensor) -> None:
    output.shape = region.output_shape
    if not region.is_empty:
        target = output.data.reshape(-1).view(np.uint8)
        target[...] = copy_packed(region, data.data.reshape(-1).view(np.uint8), bits, lowest_first)


def _refuse(element: str, *_: Any) -> None:
    raise InvalidSlice(f"elements of type {element} cannot be sliced")


_NOT_WHOLE_BYTES: dict[str, Callable[[Region, ov.Tensor, ov.Tensor], None]] = {
    "string": _evaluate_strings,
    "u1": partial(_evaluate_packed, 1, False),
    "u2": partial(_evaluate_packed, 2, True),
    "u4": partial(_evaluate_packed, 4, True),
    "i4": partial(_evaluate_packed, 4, True),
    "nf4": partial(_evaluate_packed, 4, True),
    "f4e2m1": partial(_evaluate_packed, 4, True),
    "u3": partial(_refuse, "u3"),
    "u6": partial(_refuse, "u6"),
}
"""By element type; in a byte the first element is in the lowest bits, but for u1."""
REFUSED_ELEMENTS = frozenset({"u3", "u6"})
"""Element types that cannot be sliced."""
