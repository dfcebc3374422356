"""Passes over onnx-ir models."""

from onnx_ops.passes.harden_directml import HARDEN_DIRECTML, harden_for_directml
from onnx_ops.passes.reshape_for_directml import ReshapeForDirectMLPass
from onnx_ops.passes.slice_for_directml import SliceForDirectMLPass
from onnx_ops.passes.split_for_directml import SplitForDirectMLPass

__all__ = [
    "HARDEN_DIRECTML",
    "ReshapeForDirectMLPass",
    "SliceForDirectMLPass",
    "SplitForDirectMLPass",
    "harden_for_directml",
]
