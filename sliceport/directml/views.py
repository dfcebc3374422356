"""Outputs that need no operator, because each is the whole buffer of its input or a strided view of that buffer."""

from __future__ import annotations

from dataclasses import dataclass

from sliceport.directml.elements import ELEMENT_BITS, find_carriers
from sliceport.directml.layouts import Options, Strides, find_strides, has_same_layout, is_requested
from sliceport.directml.lowered import Alias, Binding
from sliceport.directml.schema import SLICE, SLICE1
from sliceport.directml.tensor import MINIMUM_ALIGNMENT, BufferTensor, element_offset, packed_strides
from sliceport.slicing import Region
from sliceport.slicing.node import Cut, Resolved


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a value in a buffer, and its strides in elements; None stands for packed row-major strides."""

    binding: Binding
    strides: Strides | None = None


class Buffers:
    """The locations of a model's values. Each value has a buffer of its own name, except a view.

    Methods raise UsageError if a layout of the options does not fit the shape of a value.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._outputs: dict[tuple[tuple[str, ...], str], Location] = {}

    def locate_input(self, node: Resolved) -> Location:
        """Return the location of a node's input, which may be an output of a node in an outer graph."""
        outermost = 0 if node.may_capture else len(node.scope)
        for depth in range(len(node.scope), outermost - 1, -1):
            if (output := self._outputs.get((node.scope[:depth], node.input))) is not None:
                return output
        shape = node.cuts[0].region.input_shape
        return Location(Binding(node.input), find_strides(self._options.input_layout, node.input, shape))

    def store_output(self, cut: Cut, node: Resolved) -> None:
        """Store the location of an output, for later nodes. A view keeps the location that `_make_view` stored."""
        self._outputs.setdefault((node.scope, cut.output), Location(Binding(cut.output), self.output_strides(cut)))

    def output_strides(self, cut: Cut) -> Strides | None:
        """Return the strides requested for an output, or None for packed row-major strides."""
        return find_strides(self._options.output_layout, cut.output, cut.region.output_shape)

    def find_alias(self, cut: Cut, node: Resolved, source: Location) -> Alias | None:
        """Return an alias for an output that can be read in its input's buffer. Return None if it needs a copy.

        Two kinds of outputs can be read there: the whole input in the same layout and, with `Options.views`, a forward
        slice whose output has no requested layout. An output that is not the whole packed buffer becomes a view: a
        strided tensor, which DirectML must be able to bind. Views are stored, so that later nodes read them.
        """
        region = cut.region
        is_whole = region.selects_all and has_same_layout(region, source.strides, self.output_strides(cut))
        if is_whole and source.strides is None:
            return Alias(cut.output, source.binding.value)  # a source without strides is not a view, so its offset is 0
        is_forward = all(selected.step > 0 for selected in region.ranges)
        has_layout = is_requested(self._options.output_layout, cut.output, len(region.output_shape))
        may_be_view = is_whole or (self._options.views and is_forward and not has_layout)
        return self._make_view(cut, node, source) if may_be_view else None

    def _make_view(self, cut: Cut, node: Resolved, source: Location) -> Alias | None:
        """Store a strided view of the input's buffer, and return its alias. Return None if DirectML cannot bind it."""
        region = cut.region
        input_strides = packed_strides(region.input_shape) if source.strides is None else source.strides
        offset = element_offset([selected[0] for selected in region.ranges], input_strides)
        offset_bits = ELEMENT_BITS[node.element] * offset
        byte_offset = source.binding.byte_offset + offset_bits // 8
        if offset_bits % 8 or byte_offset % MINIMUM_ALIGNMENT:
            return None
        strides = _find_view_strides(region, input_strides)
        tensor = self._make_view_tensor(node.element, region.output_shape, strides)
        if tensor is None:
            return None
        binding = Binding(source.binding.value, byte_offset)
        self._outputs[node.scope, cut.output] = Location(binding, strides)
        return Alias(cut.output, binding.value, byte_offset, tensor)

    def _make_view_tensor(self, element: str, shape: tuple[int, ...], strides: Strides) -> BufferTensor | None:
        """Return the tensor of a view. Return None if the slice operator of the feature level does not accept it."""
        level = self._options.feature_level
        support = SLICE1.support(level) or SLICE.support(level)
        assert support is not None  # SLICE exists at every level
        carrier = next(find_carriers(element, support.data_types))  # never fails: unsigned types carry any element
        if carrier.spread > 1 or carrier.group > 1:  # no accepted type is as wide as an element
            return None
        tensor = BufferTensor.of(carrier.data_type, shape, strides).padded_to(support.min_rank)
        if tensor.rank > support.max_rank or not tensor.is_addressable:
            return None
        tensor.check("view")  # `operators.check` covers the tensors of operators only
        return tensor


def _find_view_strides(region: Region, input_strides: Strides) -> Strides:
    """Return the strides of the region's output in the buffer of its input. An axis of size 1 gets 0."""
    # A region adds or drops only axes of size 1, so its ranges and output axes longer than 1 correspond in order.
    axes = zip(region.ranges, input_strides, strict=True)
    strides = iter([selected.step * stride for selected, stride in axes if len(selected) > 1])
    return tuple(0 if size == 1 else next(strides) for size in region.output_shape)
