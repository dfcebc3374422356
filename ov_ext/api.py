"""The public names of ov_ext, which the package imports from here on first use."""

# ruff: noqa: F401 - `ov_ext/__init__.py` lists these names

from ov_ext.model.files import read_model, write_model
from ov_ext.model.passes import use_builtin_ops, use_custom_ops
from ov_ext.operators.backends import Backend, backend
from ov_ext.operators.frontend import onnx_extensions, register
from ov_ext.operators.nodes import Slice, StridedSlice
