"""Passes over onnx-ir models."""

from onnx_ops.passes.compose_slices import ComposeSlicesPass
from onnx_ops.passes.harden_directml import HARDEN_DIRECTML, harden_for_directml
from onnx_ops.passes.merge_equal_slices import MergeEqualSlicesPass
from onnx_ops.passes.remove_identity_slices import RemoveIdentitySlicesPass
from onnx_ops.passes.reshape_for_directml import ReshapeForDirectMLPass
from onnx_ops.passes.rewrite import PASSES, Rewriting, rewrite
from onnx_ops.passes.slice_for_directml import SliceForDirectMLPass
from onnx_ops.passes.split_for_directml import SplitForDirectMLPass
from onnx_ops.passes.split_to_slice import SplitToSlicePass

__all__ = [
    "HARDEN_DIRECTML",
    "PASSES",
    "ComposeSlicesPass",
    "MergeEqualSlicesPass",
    "RemoveIdentitySlicesPass",
    "ReshapeForDirectMLPass",
    "Rewriting",
    "SliceForDirectMLPass",
    "SplitForDirectMLPass",
    "SplitToSlicePass",
    "harden_for_directml",
    "rewrite",
]
