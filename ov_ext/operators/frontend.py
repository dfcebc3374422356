"""Registration of our operators with a Core, and extensions that read ONNX Slice and `ov_ext::StridedSlice`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import openvino as ov
from openvino.frontend.onnx import ConversionExtension

from ov_ext.operators.backends import Backend, backend
from ov_ext.operators.nodes import SLICE, STRIDED_SLICE, make_node, operator_extensions
from ov_ext.operators.static_values import as_constant, ones_like
from sliceport.slicing import Masks
from sliceport.slicing.masks import MASK_ATTRIBUTES

DOMAIN = "ov_ext"


def register(core: ov.Core) -> None:
    """Let a Core read IR files and import compiled models that contain operators of ov_ext.

    The Core then also reads ONNX Slice and `ov_ext::StridedSlice` as these operators. `backend` chooses between the
    operators in C++ and in Python. A model that already contains operators of the other kind runs as well.

    Args:
        core: The Core. Registering twice does no harm.

    Raises:
        UsageError: See `backend`.
    """
    for extension in (*operator_extensions(), *onnx_extensions()):
        core.add_extension(extension)


def onnx_extensions() -> list[Any]:
    """Return extensions that read ONNX Slice and `ov_ext::StridedSlice` as the operators that `backend` chooses.

    They are for `openvino.convert_model(…, extension=…)` and `Core.add_extension`.

    Raises:
        UsageError: See `backend`.
    """
    return [ConversionExtension("Slice", "", partial(_convert_slice, backend())), strided_slice_extension()]


def strided_slice_extension() -> Any:
    """Return the extension with which OpenVINO reads `ov_ext::StridedSlice`; see `onnx_extensions`."""
    return ConversionExtension("StridedSlice", DOMAIN, partial(_convert_strided_slice, backend()))


def _convert_slice(using: Backend, node: Any) -> list[ov.Output]:
    """Convert ONNX Slice. Its indices are attributes up to opset 9 and inputs from opset 10 on."""
    inputs: list[Any] = [_get_input(node, i) for i in range(node.get_input_size())]
    if len(inputs) == 1:
        names = ["starts", "ends", "axes"] if node.has_attribute("axes") else ["starts", "ends"]
        inputs += [as_constant(np.array(node.get_attribute(name), np.int64)).output(0) for name in names]
    data, starts, ends, axes, steps = [*inputs, None, None][:5]  # axes and steps are optional
    arguments = [data, starts, ends, ones_like(starts) if steps is None else steps]
    return make_node(SLICE, arguments if axes is None else [*arguments, axes], using=using).outputs()  # type: ignore[no-any-return]


def _convert_strided_slice(using: Backend, node: Any) -> list[ov.Output]:
    """Convert `ov_ext::StridedSlice`."""
    inputs = [_get_input(node, i) for i in range(node.get_input_size())]
    masks = Masks.of({name: node.get_attribute(name) for name in MASK_ATTRIBUTES if node.has_attribute(name)})
    while inputs and inputs[-1] is None:  # A model may leave out the strides by naming them "".
        inputs.pop()
    return make_node(STRIDED_SLICE, inputs, masks, using=using).outputs()  # type: ignore[no-any-return]


def _get_input(node: Any, index: int) -> ov.Output | None:
    """Return an input, or None if the model leaves it out."""
    source = node.get_input(index)
    return None if source.get_node().get_type_name() == "NullNode" else source
