"""The base of both operators: shapes from bounds, propagation of known values, evaluation by copies of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import openvino as ov

from ov_ext.operators.copy import Plan, copy_packed
from ov_ext.operators.inference import Bounds
from ov_ext.operators.static_values import (
    as_indices,
    as_output,
    bounds_of,
    dimension,
    element_bounds,
    exact_elements,
    is_integral,
    list_bounds,
    list_length,
    read_integers,
    to_index_list,
)
from sliceport.errors import InvalidSlice
from sliceport.slicing import Masks, Region
from sliceport.slicing.axis import INT64_MIN

VERSION = "ov_ext"
"""The operators' version. It must not change, because IR files contain it."""
_PACKED = {"u1": (1, False), "u2": (2, True)} | dict.fromkeys(("u4", "i4", "nf4", "f4e2m1"), (4, True))
"""For each packed type, the bits of an element, and whether the first element of a byte is in its lowest bits."""
REFUSED_ELEMENTS = frozenset({"u3", "u6"})
"""Element types that cannot be sliced."""
_MAX_CACHED = 256
"""Limit for the entries of each cache."""
_NO_ATTRIBUTE = INT64_MIN + 1
"""Sentinel for an absent attribute: OpenVINO needs a default that is not empty."""


class _Results(NamedTuple):
    """Results for one set of indices: plans by the shape of the data, and output sizes by the data's partial shape."""

    plans: dict[tuple[int, ...], Plan]
    shapes: dict[str, list[ov.Dimension | int]]  # `_join_dimensions` reads the lists.


class Cache:
    """The results of an operator and its clones, by indices."""

    def __init__(self) -> None:
        self._results: dict[Any, _Results] = {}
        # The inputs of the last call. Comparing them with new inputs is faster than reading elements to find the key.
        self._last: tuple[list[ov.Output], _Results] | None = None

    def get_for_constants(self, sources: list[ov.Output]) -> _Results | None:
        """Return the results for index inputs, cached or new. Return None unless all `sources` are Constants."""
        last = self._last
        if last is not None and last[0] == sources:
            return last[1]
        nodes = [source.get_node() for source in sources]
        if not all(isinstance(node, ov.op.Constant) for node in nodes):
            return None
        results = self.get([read_integers(node) for node in nodes])
        self._last = sources, results
        return results

    def get(self, indices: Sequence[Any]) -> _Results:
        """Return the cached results for these indices. For new indices, an empty entry is added and returned."""
        key = tuple([(array.dtype.char, array.shape, array.tobytes()) for array in indices])
        results = self._results.get(key)
        if results is None:
            results = _Results({}, {})
            _store_in_cache(self._results, key, results)
        return results


class SlicingOp(ov.Op):
    """Base of `Slice`, which has no masks, and `StridedSlice`. Without `inputs`, OpenVINO sets inputs and masks."""

    class_type_info: ClassVar[ov.DiscreteTypeInfo]
    index_names: ClassVar[tuple[str, ...]]
    """The names of the index inputs, in order."""

    def __init__(self, inputs: Sequence[Any] | None = None, **masks: Sequence[int]) -> None:
        super().__init__(self)  # ov.Op requires the Python object also as an argument.
        self._masks = Masks.of(masks)
        # OpenVINO clones the operator for each inference of a dynamic model, and never frees an operator in Python. A
        # cache for each clone would leak memory, so `clone_with_new_inputs` replaces this one by that of the original.
        self._cache = Cache()
        if inputs is not None:
            self.set_inputs(inputs)

    def get_type_info(self) -> ov.DiscreteTypeInfo:
        """Return the operator's name and version."""
        return self.class_type_info

    def label(self) -> str:
        """Return the beginning of error messages: the names of operator and node, as in `Slice8 'crop'`."""
        return f"{self.class_type_info.name} {self.get_friendly_name()!r}"

    def set_inputs(self, inputs: Sequence[Any]) -> None:
        """Connect the inputs and infer the shape of the output.

        Args:
            inputs: Nodes of one output, outputs of nodes, or values that become constants.

        Raises:
            InvalidSlice: The inputs break the rules of the operator.
        """
        self.set_arguments([as_output(value, i, self.label()) for i, value in enumerate(inputs)])
        self.constructor_validate_and_infer_types()

    # For the subclasses.

    def output_dimensions(
        self, sizes: list[Bounds], indices: list[list[Bounds] | None]
    ) -> list[tuple[Bounds, int | None]] | None:
        """Return the output sizes, or None if the rank of the output is open.

        Each output size is a pair: its bounds, and the axis of the data that always has this size, or None.

        Args:
            sizes: The bounds of each size of the data.
            indices: For each index input, the bounds of its elements, or None if they are not known.

        Raises:
            InvalidSlice: The indices break the rules of the operator.
        """
        raise NotImplementedError

    def check_inputs(self) -> None:
        """Check the number of inputs, the ranks, lengths and types of the index inputs, and the attributes.

        Raises:
            InvalidSlice: An input or an attribute breaks the rules of the operator.
        """
        raise NotImplementedError

    def region(self, shape: tuple[int, ...], indices: tuple[tuple[int, ...], ...]) -> Region:
        """Return the region that `indices`, one tuple for each index input, select from data of `shape`.

        Raises:
            InvalidSlice: The indices break the rules of the operator.
        """
        raise NotImplementedError

    def check_lists(self, max_length: int | None = None) -> None:
        """Check the number of inputs, and that the index inputs are lists of integers of the same length.

        Unknown types and shapes are not checked. `max_length` limits the lengths of the lists, unless it is None or 0.
        Slice passes the rank of the data, and refuses rank 0 with a message of its own.

        Raises:
            InvalidSlice: The number of inputs is wrong, or an index input has a wrong type, rank or length.
        """
        # Only the last index input is optional. The data are one more input.
        count, least = self.get_input_size(), len(self.index_names)
        if count not in (least, least + 1):
            raise InvalidSlice(f"it needs {least} or {least + 1} inputs, got {count}")
        lengths = {}
        for name, source in zip(self.index_names, self.input_values()[1:], strict=False):
            element, rank = source.get_element_type(), source.get_partial_shape().rank
            if element.is_static() and not is_integral(element):
                raise InvalidSlice(f"{name} must hold integers, got {element.get_type_name()}")
            if rank.is_static and rank.get_length() != 1:
                raise InvalidSlice(f"{name} must be a list, got rank {rank.get_length()}")
            length = list_length(source)
            if length is not None:
                if max_length and length > max_length:
                    raise InvalidSlice(f"{name} has {length} entries, more than the rank {max_length} of data")
                lengths[name] = length
        if len(set(lengths.values())) > 1:
            *names, last_name = self.index_names
            raise InvalidSlice(f"{', '.join(names)} and {last_name} must have the same length, got {lengths}")

    def entry_count(self) -> int | None:
        """Return the common length of the index inputs, or None if no length is known."""
        return next((length for length in map(list_length, self.input_values()[1:]) if length is not None), None)

    # Called by OpenVINO.

    def validate_and_infer_types(self) -> None:
        """Set the type and shape of the output. If the bounds of the data's elements are known, slice these, too.

        Raises:
            InvalidSlice: The inputs or attributes break the rules of the operator.
        """
        try:
            self._infer_output()
        except InvalidSlice as error:
            raise InvalidSlice(f"{self.label()}: {error}.") from None

    def evaluate(self, outputs: Any, inputs: Any) -> bool:
        """Compute the output, and return True as OpenVINO expects.

        Raises:
            InvalidSlice: The indices break the rules of the operator, a tensor has another element type than the node,
                or elements of this type cannot be sliced.
        """
        data = inputs[0]
        element = self._check_types(data, outputs[0])
        try:
            if element in _PACKED or element == "string" or element in REFUSED_ELEMENTS:
                region = self.region(tuple(data.shape), _list_indices(_read_index_inputs(inputs)))
                _copy_special_elements(element, region, data, outputs[0])
                return True
            source = data.data
            # OpenVINO passes a TensorVector. Reading its index tensors takes longer than copying a small tensor, so the
            # cache is first searched by the Constants at the inputs. Other callers pass a list of any indices.
            is_from_openvino = not isinstance(inputs, list)
            cached = self._cache.get_for_constants(self.input_values()[1:]) if is_from_openvino else None
            cached = cached or self._cache.get(_read_index_inputs(inputs))
            plan = cached.plans.get(source.shape)
            if plan is None:
                plan = Plan(self.region(source.shape, _list_indices(_read_index_inputs(inputs))))
                _store_in_cache(cached.plans, source.shape, plan)
        except InvalidSlice as error:
            raise InvalidSlice(f"{self.label()}: {error}.") from None
        target = outputs[0].data
        if target.shape != plan.output_shape:
            outputs[0].shape = plan.output_shape
            target = outputs[0].data  # Setting the shape may have moved the data.
        plan.copy(source, target)
        return True

    def clone_with_new_inputs(self, inputs: Sequence[Any]) -> SlicingOp:
        """Return the operator on other inputs, with the same cache. Raise InvalidSlice if the inputs break a rule."""
        new = type(self)()
        new._cache, new._masks = self._cache, self._masks
        if self.get_friendly_name() != self.get_name():  # A node without a name stays without one.
            new.set_friendly_name(self.get_friendly_name())  # for errors
        new.set_inputs(inputs)
        return new

    def visit_attributes(self, visitor: Any) -> bool:
        """Use `visitor` to read indices that are stored as attributes, and connect the indices as constant inputs.

        In compiled models, and in the blobs exported from them, operators in C++ hold constant indices as attributes.

        Raises:
            InvalidSlice: An attribute is not a list of integers.
        """
        if self.get_output_size() or not self.get_input_size():  # The node is built already, or not connected yet.
            return True
        names = self.index_names
        lists: dict[str, list[int]] = {name: [_NO_ATTRIBUTE] for name in names}
        self.visit_lists(visitor, lists, ", ".join(names))
        # The operator in C++ writes an empty list for indices that stay inputs.
        fixed = {name: values for name, values in lists.items() if values and values != [_NO_ATTRIBUTE]}
        if not fixed:
            return True
        data, *connected = self.input_values()
        remaining = iter(connected)
        indices = [as_indices(fixed[name]).output(0) if name in fixed else next(remaining, None) for name in names]
        self.set_arguments([data, *(source for source in indices if source is not None)])
        return True

    def visit_lists(self, visitor: Any, lists: dict[str, list[int]], title: str) -> None:
        """Let `visitor` read or write attributes. Raise InvalidSlice about `title` if one is not a list of integers."""
        try:
            visitor.on_attributes(lists)
        except RuntimeError:
            raise InvalidSlice(f"{self.label()}: {title} must be lists of integers.") from None

    def _check_types(self, data: ov.Tensor, output: ov.Tensor) -> str:
        """Return the name of the element type. Raise InvalidSlice unless it is the same for node, data and output."""
        declared, types = self.get_input_element_type(0), [data.get_element_type(), output.get_element_type()]
        expected = declared if declared.is_static() else types[0]
        if types != [expected, expected]:
            got = " and ".join(element.get_type_name() for element in types)
            raise InvalidSlice(f"{self.label()}: data and output must hold {expected.get_type_name()}, got {got}.")
        return str(expected.get_type_name())

    def _infer_output(self) -> None:
        """Set the output's type and shape; see `validate_and_infer_types`. Raise InvalidSlice if a rule is broken."""
        element = self.get_input_element_type(0)
        shape = self.get_input_partial_shape(0)
        sources = self.input_values()[1:]
        results = self._cache.get_for_constants(sources)
        cached = None if results is None else results.shapes.get(str(shape))
        if cached is not None:
            self.set_output_type(0, element, _join_dimensions(shape, cached))
            return
        self.check_inputs()
        indices = [list_bounds(source) for source in sources]
        is_open = shape.rank.is_dynamic
        output_sizes = None if is_open else self.output_dimensions(list(map(bounds_of, shape)), indices)
        if output_sizes is None:
            self.set_output_type(0, element, ov.PartialShape.dynamic())
            return
        # An int is the number of the input axis whose dimension the output axis takes over; see `_join_dimensions`. The
        # cache has this number and not the dimension, because shapes with the same text may have different symbols.
        dims_or_axes = [dimension(bounds) if axis is None else axis for bounds, axis in output_sizes]
        self.set_output_type(0, element, _join_dimensions(shape, dims_or_axes))
        # If the data are a list, the bounds of the output's elements must be set each time, so the shape is not cached.
        if len(shape) != 1 and results is not None:
            _store_in_cache(results.shapes, str(shape), dims_or_axes)
        if len(shape) == 1 and all(index is not None for index in indices):
            self._propagate_values(indices)

    def _propagate_values(self, indices: Sequence[list[Bounds] | None]) -> None:
        """Set the bounds of the output's elements, and their symbols if all data elements have symbols.

        The data must have rank 1. Nothing is set for an empty output, if the bounds of the data are not known, or if an
        index is not known exactly.
        """
        source, elements = self.input_value(0), tuple(map(exact_elements, indices))
        bounds = element_bounds(source)
        if bounds is None or None in elements:
            return
        region = self.region(bounds[0].shape, elements)  # type: ignore[arg-type]
        index = region.slices
        target = self.get_output_tensor(0)
        lower, upper = (np.ascontiguousarray(values[index]).reshape(region.output_shape) for values in bounds)
        if not lower.size:
            return
        target.set_lower_value(ov.Tensor(lower))
        target.set_upper_value(ov.Tensor(upper))
        symbols = source.get_tensor().get_value_symbol()
        if len(symbols) == bounds[0].size:
            target.set_value_symbol([symbols[i] for i in region.ranges[0]])


def _join_dimensions(shape: ov.PartialShape, dims: Sequence[ov.Dimension | int]) -> ov.PartialShape:
    """Return a shape of `dims`. An int in `dims` is an axis of `shape`, whose dimension is used with its symbol."""
    return ov.PartialShape([shape[dim] if isinstance(dim, int) else dim for dim in dims])


def _read_index_inputs(inputs: Any) -> list[Any]:
    return [read_integers(inputs[i]) for i in range(1, len(inputs))]  # Input 0 is the data.


def _list_indices(arrays: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple([tuple(to_index_list(array)) for array in arrays])


def _store_in_cache(cache: dict[Any, Any], key: Any, value: Any) -> None:
    """Store a value in a cache, which is emptied first if it is full."""
    if len(cache) >= _MAX_CACHED:
        cache.clear()
    cache[key] = value


def _copy_special_elements(element: str, region: Region, data: ov.Tensor, output: ov.Tensor) -> None:
    """Copy the selected strings, or the selected elements smaller than a byte. Raise InvalidSlice for u3 and u6."""
    if element in REFUSED_ELEMENTS:
        raise InvalidSlice(f"elements of type {element} cannot be sliced")
    output.shape = region.output_shape
    if region.is_empty:
        return
    if element == "string":
        selected = data.str_data.reshape(region.input_shape)[region.slices]
        # OpenVINO ignores the strides of an array, so the array must be contiguous.
        output.str_data = np.ascontiguousarray(selected).reshape(region.output_shape)
        return
    bits, lowest_first = _PACKED[element]
    packed = copy_packed(region, data.data.reshape(-1).view(np.uint8), bits, lowest_first)
    output.data.reshape(-1).view(np.uint8)[...] = packed
