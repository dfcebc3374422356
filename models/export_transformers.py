"""Export models of `transformers` to ONNX, with random weights and tiny widths.

pip install torch==2.13.0 'transformers>=5.23,<5.24' onnx onnxscript
python models/export_transformers.py [--out DIR] [NAME ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from export_torch import Export, run
from networks import first, make_transformer
from torch import nn

Call = Callable[[nn.Module, torch.Tensor], torch.Tensor]


class First(nn.Module):
    """A model as a function from one tensor to the first output of the model."""

    def __init__(self, model: nn.Module, call: Call):
        super().__init__()
        self.m, self.call = model, call

    def forward(self, x):
        return self.call(self.m, x)


def transformer(kind: str, call: Call = first, **settings: Any) -> Callable[[], nn.Module]:
    """Return a function that makes a model with random weights."""
    return lambda: First(make_transformer(kind, **settings).eval(), call)


def uncached(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Call a decoder without a cache."""
    return model(x, use_cache=False)[0]


TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 32}
TINIER = TINY | {"hidden_size": 8, "intermediate_size": 8}
PATCHES = {name: TINIER[name] for name in TINIER if name != "vocab_size"} | {"image_size": 32, "patch_size": 8}
SPEECH = TINIER | {
    "conv_dim": (4, 4),
    "conv_stride": (5, 4),
    "conv_kernel": (5, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "conv_depthwise_kernel_size": 3,
}
TOKENS = (torch.arange(16).reshape(1, 16) % 32,)
PICTURE = (torch.rand(1, 3, 32, 32),)
SOUND = (torch.rand(1, 400),)
SEQ = {"x": {0: "batch", 1: "seq"}}
EXPORTS: dict[str, Export] = {
    "dynamo_bigbird": Export(
        transformer(
            "big_bird",
            **TINIER,
            attention_type="block_sparse",
            block_size=2,
            num_random_blocks=1,
            max_position_embeddings=32,
        ),
        TOKENS,
        "dynamo",
        20,
        "block-sparse attention: overlapping runs of blocks, five dimensions",
    ),
    "dynamo_falcon_dyn": Export(
        transformer("falcon", uncached, **TINIER),
        TOKENS,
        "dynamo",
        18,
        "query, key and value of one projection, one head of keys",
        SEQ,
    ),
    "dynamo_focalnet": Export(
        transformer(
            "focalnet",
            embed_dim=8,
            depths=[1, 1],
            hidden_sizes=[8, 16],
            focal_levels=[2, 2],
            focal_windows=[3, 3],
            image_size=32,
            patch_size=4,
        ),
        PICTURE,
        "dynamo",
        19,
        "a Split into query, context and gates; a slice of one gate each",
    ),
    "dynamo_gptj_dyn": Export(
        transformer("gptj", uncached, n_embd=16, n_layer=1, n_head=2, rotary_dim=4, vocab_size=32, n_positions=32),
        TOKENS,
        "dynamo",
        20,
        "interleaved rotary of part of a head; sine and cosine by Split",
        SEQ,
    ),
    "dynamo_llama": Export(
        transformer("llama", uncached, **TINY, num_key_value_heads=1),
        TOKENS,
        "dynamo",
        20,
        "rotary halves that tile an axis",
    ),
    "dynamo_mamba_dyn": Export(
        transformer(
            "mamba", uncached, hidden_size=8, state_size=4, num_hidden_layers=1, vocab_size=32, time_step_rank=2
        ),
        TOKENS,
        "dynamo",
        19,
        "a state-space model: halves and uneven parts; the padded end of a convolution cut",
        {"x": {0: "batch"}},
    ),
    "dynamo_mamba2": Export(
        transformer(
            "mamba2",
            uncached,
            hidden_size=8,
            state_size=4,
            num_hidden_layers=1,
            vocab_size=32,
            num_heads=2,
            head_dim=8,
            n_groups=1,
            chunk_size=8,
        ),
        TOKENS,
        "dynamo",
        18,
        "a state-space model in chunks: uneven parts, all but the last state",
    ),
    "dynamo_phi3_dyn": Export(
        transformer("phi3", uncached, **TINIER, num_key_value_heads=1, pad_token_id=0),
        TOKENS,
        "dynamo",
        20,
        "query, key and value by slices; gate and value by Split",
        SEQ,
    ),
    "dynamo_phi_dyn": Export(
        transformer("phi", uncached, **TINY, num_key_value_heads=2, partial_rotary_factor=0.5),
        TOKENS,
        "dynamo",
        18,
        "partial rotary: slices of slices",
        SEQ,
    ),
    "dynamo_qwen2_dyn": Export(
        transformer("qwen2", uncached, **TINY, num_key_value_heads=1),
        TOKENS,
        "dynamo",
        19,
        "rotary halves that tile an axis, open dimensions",
        SEQ,
    ),
    "dynamo_sam": Export(
        transformer(
            "sam_vision_model",
            **PATCHES | {"patch_size": 4},
            window_size=4,
            global_attn_indexes=[],
            mlp_dim=8,
            output_channels=4,
        ),
        PICTURE,
        "dynamo",
        18,
        "windowed attention: query, key and value by unbind",
    ),
    "ts_bert_dyn_14": Export(
        transformer("bert", **TINY, max_position_embeddings=32), TOKENS, "ts", 14, "position ids, open length", SEQ
    ),
    "ts_deberta_13": Export(
        transformer(
            "deberta", **TINIER, max_position_embeddings=32, relative_attention=True, pos_att_type=["c2p", "p2c"]
        ),
        TOKENS,
        "ts",
        13,
        "query, key and value by chunk, its bounds from Shape",
    ),
    "ts_dinov3_14": Export(
        transformer("dinov3_vit", **PATCHES, num_register_tokens=2),
        PICTURE,
        "ts",
        14,
        "rotary for patches only: two parts that tile a sequence, then halves; an If before them",
    ),
    "ts_esm_dyn_12": Export(
        transformer(
            "esm",
            **TINIER,
            pad_token_id=1,
            mask_token_id=2,
            position_embedding_type="rotary",
            max_position_embeddings=32,
        ),
        TOKENS,
        "ts",
        12,
        "rotary halves by chunk, open length",
        SEQ,
    ),
    "ts_vit_12": Export(
        transformer("vit", **PATCHES), PICTURE, "ts", 12, "a class token before patches: a slice of a shape folds"
    ),
    "ts_wav2vec2_conformer_dyn_16": Export(
        transformer("wav2vec2-conformer", **SPEECH, position_embeddings_type="relative", max_source_positions=32),
        SOUND,
        "ts",
        16,
        "GLU; relative positions: a table cut to the length folds, the shift stays",
        {"x": {1: "samples"}},
    ),
    "ts_xlnet_dyn_12": Export(
        transformer("xlnet", d_model=8, n_layer=1, n_head=2, d_inner=8, vocab_size=32),
        TOKENS,
        "ts",
        12,
        "a relative shift: the first row cut off",
        SEQ,
    ),
}


if __name__ == "__main__":
    sys.exit(run(EXPORTS, "export_transformers.py"))
