"""A slicing node of an OpenVINO model that each engine runs alone, unchanged."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov
from openvino import opset1

from ov_ext.defects.conditions import BuiltInNode, find_defects, find_split_defects
from ov_ext.model.passes import build_built_in, build_custom, kind_of
from ov_ext.model.read import SPLITS
from ov_ext.operators.copy import copy_packed
from ov_ext.operators.error_text import last_sentence
from ov_ext.operators.static_values import as_constant, list_bounds
from ov_ext.running.run_model import Compute
from sliceport.defects.defect import Defect
from sliceport.errors import InvalidSlice, ModelError
from sliceport.slicing import Region
from sliceport.slicing.node import Resolved

Bytes = npt.NDArray[np.uint8]
_MAX_BYTES = 2**26
"""The most bytes of random data for a node, so that all copies of a comparison fit into 700 MiB."""
_MAX_RANDOM = 100
"""Limit of the random elements, so that the CPU plugin's narrower types can hold them."""


class OneNode:
    """A slicing node of known shape and indices that runs in a model of its own.

    Args:
        node: The node with its regions.
        node_in_model: The same node in the OpenVINO model.
    """

    def __init__(self, node: Resolved, node_in_model: ov.Node) -> None:
        self._node = node
        self._node_in_model = node_in_model
        self._element = node_in_model.get_input_element_type(0)
        self._shape = node.cuts[0].region.input_shape

    @cached_property
    def defects(self) -> list[Defect]:
        """The defects that the built-in operator triggers; empty for a node that OpenVINO refuses."""
        try:
            node = self._make_model(is_custom=False).get_results()[0].input_value(0).get_node()
            if kind_of(node) in SPLITS:
                data = node.input_value(0).get_node()  # a Parameter
                return list(find_split_defects(node, data_dependent=[data.get_instance_id()]))
            return find_defects(BuiltInNode(node))
        except (InvalidSlice, RuntimeError):  # OpenVINO refuses the node, and each engine reports why.
            return []

    def defects_on(self, engine: str) -> list[Defect]:
        """Return the defects that the node triggers on one engine."""
        return [defect for defect in self.defects if engine in defect.engines]

    def run(self, engine: str, compute: Compute, data: Bytes, *, is_custom: bool = False) -> list[Bytes]:
        """Return the bytes of each output, as an engine computes them by `compute`.

        If `is_custom` is true, the operator of ov_ext takes the place of the built-in one.

        Raises:
            ModelError: The engine fails, or the node would end the process.
            InvalidSlice: `ov_ext` refuses the node.
        """
        unsafe = [defect for defect in self.defects_on(engine) if defect.is_unsafe_on(engine)]
        if unsafe:
            reasons = "; ".join(f"{defect.id}: {defect.reason}" for defect in unsafe)
            raise ModelError(f"the node was not run, because this engine ends the process on such a node ({reasons}).")
        try:
            tensor = ov.Tensor(self._element, ov.Shape(list(self._shape)))
            if data.size:
                tensor.data.reshape(-1).view(np.uint8)[...] = data
            outputs = compute(self._make_model(is_custom=is_custom), [tensor])
            return [np.array(output.data).reshape(-1).view(np.uint8) for output in outputs]
        except RuntimeError as error:
            raise ModelError(last_sentence(error)) from None

    def select(self, data: Bytes) -> list[Bytes]:
        """Return the expected bytes of each output, which the specification selects from `data`."""
        return [_select_bytes(cut.region, data, self._element) for cut in self._node.cuts]

    def random_data(self, seed: int) -> Bytes:
        """Return the bytes of random elements. Unused bits of the last byte are 0.

        Raises:
            ModelError: The data are too large, or have more axes than NumPy allows.
        """
        size = (prod(self._shape) * self._element.bitwidth + 7) // 8
        if size > _MAX_BYTES:
            raise ModelError(f"its data take {size} bytes; nodes of more than {_MAX_BYTES} bytes are not compared.")
        try:
            flat: Any = ov.Tensor(self._element, ov.Shape(list(self._shape))).data.reshape(-1)
        except ValueError as error:
            raise ModelError(f"its data cannot be made ({error}).") from None
        random = np.random.default_rng(seed)
        if self._element.bitwidth < 8:  # Selecting the whole region clears the unused bits.
            data = random.integers(0, 256, flat.nbytes, np.uint8)
            return _select_bytes(Region.whole(self._shape), data, self._element)
        limit = 2 if self._element == ov.Type.boolean else _MAX_RANDOM
        flat[...] = random.integers(0, limit, flat.size, np.uint8).astype(flat.dtype)
        return np.array(flat.view(np.uint8))

    def _make_model(self, *, is_custom: bool) -> ov.Model:
        """Return a model of this node alone. Its only input is the data. For `is_custom`, see `_build_node`."""
        data = ov.op.Parameter(self._element, ov.PartialShape(list(self._shape)))
        indices = [_make_constant(source) for source in self._node_in_model.input_values()[1:]]
        return ov.Model(self._build_node([data.output(0), *indices], is_custom).outputs(), [data], "node")

    def _build_node(self, inputs: list[ov.Output], is_custom: bool) -> ov.Node:
        """Build the node on other inputs. If `is_custom`, a Slice or StridedSlice becomes the operator of ov_ext."""
        node = self._node_in_model
        kind, _ = kind_of(node)
        if kind == "Split":
            return opset1.split(*inputs, node.get_output_size())
        if kind == "VariadicSplit":
            return opset1.variadic_split(*inputs)
        return build_custom(node, inputs) if is_custom else build_built_in(node, inputs)


def _make_constant(source: ov.Output) -> ov.Output:
    """Return an index input as a constant. An input that is computed becomes a constant of 64 bits."""
    if source.get_node().get_type_name() == "Constant":
        return source
    bounds = list_bounds(source)
    assert bounds is not None  # The node is resolved, so each index has a single known value.
    # The constant cannot have the type of the input, because `list_bounds` widens some values of 32 bits to 64.
    return as_constant(np.array([bound.low for bound in bounds], np.int64)).output(0)


def _select_bytes(region: Region, data: Bytes, element: ov.Type) -> Bytes:
    """Return the bytes of the elements that a region selects from the bytes of data."""
    if region.is_empty:
        return np.zeros(0, np.uint8)
    if element.bitwidth < 8:  # Only u1 has the first element of a byte in its highest bits.
        return np.asarray(copy_packed(region, data, element.bitwidth, lowest_first=element != ov.Type.u1), np.uint8)
    elements = data.reshape(*region.input_shape, element.size)
    return np.ascontiguousarray(elements[region.slices]).reshape(-1)
