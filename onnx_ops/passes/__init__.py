"""Passes over onnx-ir models."""

from onnx_ops.passes.directml.harden import HARDEN_DIRECTML
from onnx_ops.passes.directml.reshape import ReshapeForDirectMLPass
from onnx_ops.passes.directml.slicing import SliceForDirectMLPass, SplitForDirectMLPass
from onnx_ops.passes.rewrite.compose_slices import ComposeSlicesPass, SliceOfSplitPass
from onnx_ops.passes.rewrite.expand_strided_slice import ExpandStridedSlicePass
from onnx_ops.passes.rewrite.fold_slices import FoldSlicesPass
from onnx_ops.passes.rewrite.merge_equal_slices import MergeEqualSlicesPass
from onnx_ops.passes.rewrite.move_slices_up import MoveSlicesUpPass
from onnx_ops.passes.rewrite.remove_identity_slices import RemoveIdentitySlicesPass
from onnx_ops.passes.rewrite.replace_by_slice import GatherToSlicePass, ScalarGatherToSlicePass, SplitToSlicePass
from onnx_ops.passes.rewrite.run import ALL, BY_DEFAULT, PASSES, RewriteSlicingPass, Rewriting, rewrite
from onnx_ops.passes.rewrite.shorten_chains import ShortenChainsPass
from onnx_ops.passes.rewrite.siblings_to_split import SiblingsToSplitPass
from onnx_ops.passes.rewrite.slice_of_concat import SliceOfConcatPass
from onnx_ops.passes.rewrite.split_of_part import SplitOfPartPass
from onnx_ops.passes.simplify.simplification import Simplification, simplify

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
