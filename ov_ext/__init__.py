"""StridedSlice-1 and Slice-8 as custom OpenVINO operators. Importing registers nothing; call `register`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceport.lazy import lazy_names

if TYPE_CHECKING:
    from ov_ext.model.files import read_model, write_model
    from ov_ext.model.passes import use_builtin_ops, use_custom_ops
    from ov_ext.operators.backends import Backend, backend
    from ov_ext.operators.frontend import onnx_extensions, register
    from ov_ext.operators.nodes import Slice, StridedSlice

__all__ = [
    "Backend",
    "Slice",
    "StridedSlice",
    "backend",
    "onnx_extensions",
    "read_model",
    "register",
    "use_builtin_ops",
    "use_custom_ops",
    "write_model",
]

if not TYPE_CHECKING:  # With `__getattr__`, type checkers would accept any name.
    _load, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "ov_ext.api"))

    def __getattr__(name: str) -> Any:
        try:
            return _load(name)
        except ModuleNotFoundError as error:
            if error.name != "openvino":
                raise
            from sliceport.errors import MissingExtra

            raise MissingExtra.of("openvino", "openvino", "by ov_ext") from None
