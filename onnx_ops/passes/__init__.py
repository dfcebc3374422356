"""Passes over onnx-ir models."""

from onnx_ops.passes.compose_slices import ComposeSlicesPass, SliceOfSplitPass
from onnx_ops.passes.expand_strided_slice import ExpandStridedSlicePass
from onnx_ops.passes.fold_slices import FoldSlicesPass
from onnx_ops.passes.harden_directml import HARDEN_DIRECTML
from onnx_ops.passes.merge_equal_slices import MergeEqualSlicesPass
from onnx_ops.passes.move_slices_up import MoveSlicesUpPass
from onnx_ops.passes.remove_identity_slices import RemoveIdentitySlicesPass
from onnx_ops.passes.replace_by_slice import GatherToSlicePass, ScalarGatherToSlicePass, SplitToSlicePass
from onnx_ops.passes.reshape_for_directml import ReshapeForDirectMLPass
from onnx_ops.passes.rewrite import ALL, BY_DEFAULT, PASSES, RewriteSlicingPass, Rewriting, rewrite
from onnx_ops.passes.shorten_chains import ShortenChainsPass
from onnx_ops.passes.siblings_to_split import SiblingsToSplitPass
from onnx_ops.passes.simplification import Simplification, simplify
from onnx_ops.passes.slice_of_concat import SliceOfConcatPass
from onnx_ops.passes.slicing_for_directml import SliceForDirectMLPass, SplitForDirectMLPass
from onnx_ops.passes.split_of_part import SplitOfPartPass

__all__ = [
    "ALL",
    "BY_DEFAULT",
    "HARDEN_DIRECTML",
    "PASSES",
    "ComposeSlicesPass",
    "ExpandStridedSlicePass",
    "FoldSlicesPass",
    "GatherToSlicePass",
    "MergeEqualSlicesPass",
    "MoveSlicesUpPass",
    "RemoveIdentitySlicesPass",
    "ReshapeForDirectMLPass",
    "RewriteSlicingPass",
    "Rewriting",
    "ScalarGatherToSlicePass",
    "ShortenChainsPass",
    "SiblingsToSplitPass",
    "Simplification",
    "SliceForDirectMLPass",
    "SliceOfConcatPass",
    "SliceOfSplitPass",
    "SplitForDirectMLPass",
    "SplitOfPartPass",
    "SplitToSlicePass",
    "rewrite",
    "simplify",
]
