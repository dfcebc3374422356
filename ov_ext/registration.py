"""Making the operators known to an OpenVINO Core."""

from __future__ import annotations

import openvino as ov

from ov_ext.frontend import onnx_extensions
from ov_ext.slice import Slice
from ov_ext.strided_slice import StridedSlice


def register(core: ov.Core) -> None:
    """Let a Core read IR with our operators, import models that hold them, and read ONNX files with them.

    Args:
        core: The Core; registering twice does no harm.
    """
    for extension in (StridedSlice, Slice, *onnx_extensions()):
        core.add_extension(extension)
