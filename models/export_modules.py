"""Export small modules to ONNX. Each shows one way in which networks slice.

pip install torch==2.13.0 'transformers>=5.23,<5.24' onnx onnxscript
python models/export_modules.py [--out DIR] [NAME ...]
"""

from __future__ import annotations

import sys

import torch
from control_flow_modules import Branches, BranchInLoop, Gate, Gates, Halves, Recurrence, Steps, While
from export_torch import Export, run
from slicing_modules import (
    Assignment,
    Attention,
    Bfloat16Cache,
    Boxes,
    Cache,
    CausalConvolutions,
    CausalMask,
    ConformerConv,
    CrossStage,
    Encoder,
    Flips,
    Focus,
    GatedMlp,
    GruCell,
    Haar,
    Indices,
    Lstm,
    LstmCell,
    PatchMerging,
    Pixels,
    Rotary,
    RotaryInterleaved,
    StateSpace,
    TemporalShift,
    TokenShift,
    Types,
    UNet,
    Uneven,
    Video,
    Windows,
    WindowShift,
    ZeroPart,
)

R = torch.rand
PIXELS = (R(1, 12, 16, 3) * 255).byte()
FILM = R(1, 4, 6, 6, 2)
INTEGERS = (torch.arange(24).reshape(4, 6), R(2, 3, 7) > 0.5, torch.arange(12).int().reshape(4, 3))
HALF = (R(1, 2, 5, 6).half(), R(5, 6).half(), R(5, 6).half())
SEQ = {"x": {1: "seq"}}
IMAGE = {"x": {2: "height", 3: "width"}}
EXPORTS: dict[str, Export] = {
    "dynamo_attention_dyn": Export(
        Attention, (R(1, 5, 8),), "dynamo", 19, "fused attention: slices of shapes fold, the last position stays", SEQ
    ),
    "dynamo_bfloat16_cache": Export(Bfloat16Cache, (R(1, 5, 8).bfloat16(),), "dynamo", 18, "bfloat16 data"),
    "dynamo_branches": Export(Branches, (R(2, 5),), "dynamo", 18, "slices in both branches of an If, one on a flip"),
    "dynamo_conformer": Export(ConformerConv, (R(1, 10, 8),), "dynamo", 18, "GLU: a Split into Sigmoid and Mul"),
    "dynamo_encoder": Export(Encoder, (R(1, 5, 8),), "dynamo", 18, "qkv by unbind; class token and patches"),
    "dynamo_flips": Export(Flips, (R(2, 4, 6),), "dynamo", 18, "reversed axes"),
    "dynamo_half_rotary": Export(Rotary, HALF, "dynamo", 18, "float16 rotary halves, cut at 6 bytes"),
    "dynamo_indices": Export(Indices, INTEGERS, "dynamo", 19, "int64, bool and int32 inputs, each a copy of bits"),
    "dynamo_pixels_dyn": Export(
        Pixels,
        (PIXELS,),
        "dynamo",
        20,
        "bytes: a crop of open height and width, channels reversed",
        {"x": {1: "height", 2: "width"}},
    ),
    "dynamo_recurrence": Export(Recurrence, (R(5, 2, 4), R(2, 4)), "dynamo", 20, "a Split in the body of a Scan"),
    "dynamo_token_shift_dyn": Export(
        TokenShift, (R(1, 5, 8),), "dynamo", 18, "all but the last token, open length; a Split", SEQ
    ),
    "dynamo_uneven": Export(Uneven, (R(2, 10, 3),), "dynamo", 20, "uneven parts, one unused; a slice of a part"),
    "dynamo_video": Export(
        Video, (FILM,), "dynamo", 19, "five dimensions: rolls of three axes, steps, two axes reversed"
    ),
    "dynamo_while": Export(While, (R(2, 5), torch.tensor(3)), "dynamo", 18, "slices in the body of a Loop"),
    "dynamo_window_shift": Export(WindowShift, (R(1, 8, 8, 3),), "dynamo", 18, "rolls: two slices and a concat each"),
    "dynamo_zero_part": Export(ZeroPart, (R(2, 7, 3),), "dynamo", 18, "a part of size 0 that is an output"),
    "ts_assignment_15": Export(Assignment, (R(2, 5, 3),), "ts", 15, "assignment to a slice: a slice of a range folds"),
    "ts_boxes_10": Export(Boxes, (R(1, 7, 10),), "ts", 10, "uneven parts, one unused; slices of a part"),
    "ts_branch_in_loop_19": Export(
        BranchInLoop, (R(2, 5), torch.tensor(3)), "ts", 19, "slices in an If in a Loop", scripted=True
    ),
    "ts_cache_dyn_13": Export(
        Cache,
        (R(1, 2, 5, 4), R(1, 2, 2, 4)),
        "ts",
        13,
        "the end of a cache of open length; a window that is wider",
        {"x": {2: "past"}},
    ),
    "ts_causal_conv_dyn_9": Export(
        CausalConvolutions, (R(1, 3, 9),), "ts", 9, "negative ends as attributes, open length", {"x": {2: "length"}}
    ),
    "ts_causal_mask_dyn_16": Export(
        CausalMask, (R(1, 7, 8),), "ts", 16, "a mask of constants cut to an open length: folds", SEQ
    ),
    "ts_conformer_13": Export(ConformerConv, (R(1, 10, 8),), "ts", 13, "GLU in opset 13's spelling"),
    "ts_cross_stage_11": Export(CrossStage, (R(1, 4, 6, 6),), "ts", 11, "a Split of channels, its sizes an attribute"),
    "ts_encoder_dyn_15": Export(Encoder, (R(1, 5, 8),), "ts", 15, "qkv by unbind, open length", SEQ),
    "ts_focus_10": Export(Focus, (R(1, 3, 8, 8),), "ts", 10, "steps of 2 on two axes, a Slice each"),
    "ts_focus_dyn_12": Export(Focus, (R(1, 3, 8, 8),), "ts", 12, "the same with open height and width", IMAGE),
    "ts_functions_17": Export(
        Gates,
        (R(2, 8),),
        "ts",
        17,
        "a function called with two shapes, its bounds from Shape",
        functions=frozenset({Gate}),
    ),
    "ts_gated_mlp_11": Export(GatedMlp, (R(1, 5, 8),), "ts", 11, "halves as slices whose bounds come from Shape"),
    "ts_gru_cell_9": Export(GruCell, (R(2, 3, 6), R(2, 6)), "ts", 9, "chunks in opset 9's spelling"),
    "ts_haar_dyn_12": Export(
        Haar, (R(2, 3, 9),), "ts", 12, "even and odd places of an odd, open length", {"x": {2: "length"}}
    ),
    "ts_halves_13": Export(Halves, (R(3, 6), True), "ts", 13, "a slice in each branch of an If", scripted=True),
    "ts_lstm_9": Export(
        Lstm, (R(2, 3, 4), R(4, 2, 4), R(4, 2, 4)), "ts", 9, "initial states of each layer; the last position"
    ),
    "ts_lstm_cell_10": Export(LstmCell, (R(2, 3, 6), R(2, 6), R(2, 6)), "ts", 10, "chunks of 4 at every step"),
    "ts_patch_merging_11": Export(PatchMerging, (R(1, 4, 4, 4),), "ts", 11, "four interleaved slices of two axes"),
    "ts_rotary_13": Export(Rotary, (R(1, 2, 5, 6), R(5, 6), R(5, 6)), "ts", 13, "rotary halves written out"),
    "ts_rotary_interleaved_20": Export(RotaryInterleaved, (R(1, 2, 5, 6),), "ts", 20, "even and odd channels"),
    "ts_state_space_17": Export(StateSpace, (R(1, 6, 4),), "ts", 17, "parts of every step of a scan"),
    "ts_steps_14": Export(Steps, (R(2, 5), torch.tensor(3)), "ts", 14, "slices in the body of a Loop", scripted=True),
    "ts_temporal_shift_dyn_11": Export(
        TemporalShift, (R(1, 4, 6, 3, 3),), "ts", 11, "five dimensions, two axes cut, open frames", {"x": {1: "frames"}}
    ),
    "ts_types_18": Export(Types, (R(4, 6) * 10,), "ts", 18, "bool, int64, float16 and float64 data"),
    "ts_unet_dyn_16": Export(
        UNet, (R(1, 3, 11, 11),), "ts", 16, "a centre crop whose bounds are shape arithmetic", IMAGE
    ),
    "ts_windows_9": Export(Windows, (R(2, 13),), "ts", 9, "overlapping windows: siblings that do not tile"),
}


if __name__ == "__main__":
    sys.exit(run(EXPORTS, "export_modules.py"))
