"""Making the operators known to an OpenVINO Core."""

from __future__ import annotations

import openvino as ov

from ov_ext.backends import backend
from ov_ext.frontend import onnx_extensions
from ov_ext.operators import operator_extensions


def register(core: ov.Core) -> None:
    """Let a Core read IR with our operators, import models that hold them, and read ONNX files with them.

    They are those of `backend`; a model that holds the others runs on this Core as well.

    Args:
        core: The Core; registering twice does no harm.

    Raises:
        UsageError: SLICEPORT_BACKEND asks for native operators, and there are none.
    """
    for extension in (*operator_extensions(backend()), *onnx_extensions()):
        core.add_extension(extension)
