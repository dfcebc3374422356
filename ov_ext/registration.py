"""Registration of the operators with an OpenVINO Core."""

from __future__ import annotations

import openvino as ov

from ov_ext.backends import backend
from ov_ext.frontend import onnx_extensions
from ov_ext.operators import operator_extensions


def register(core: ov.Core) -> None:
    """Let a Core read IR files with our operators, import compiled models with them, and read ONNX files with them.

    The operators are those of `backend`. A model that holds operators of the other kind runs on this Core as well.

    Args:
        core: The Core. Registering twice does no harm.

    Raises:
        UsageError: SLICEPORT_BACKEND asks for native operators, which are missing.
    """
    for extension in (*operator_extensions(backend()), *onnx_extensions()):
        core.add_extension(extension)
