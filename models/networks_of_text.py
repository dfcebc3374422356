"""Networks from transformers for text: encoders, decoders and translators."""

from __future__ import annotations

from typing import Any

import torch
from networks import Network, tokens, transformer, uncached
from torch import nn


def translate(module: nn.Module, ids: torch.Tensor, other: torch.Tensor) -> Any:
    """Call a network of an encoder and a decoder."""
    mask = torch.ones_like(other)
    return module(input_ids=ids, decoder_input_ids=other, decoder_attention_mask=mask, use_cache=False)[0]


TEXT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
GROUPED = TEXT | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
IDS = tokens()


def encoder(kind: str, **settings: Any) -> Network:
    """Return an encoder of text."""
    return transformer(kind, IDS, **TEXT | settings)


def decoder(kind: str, **settings: Any) -> Network:
    """Return a decoder of text with grouped attention."""
    return transformer(kind, IDS, call=uncached, **GROUPED | settings)


def translator(kind: str, **settings: Any) -> Network:
    """Return a network of an encoder and a decoder."""
    sizes = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "vocab_size": 32,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
    }
    return transformer(kind, IDS, tokens(8), call=translate, **sizes | settings)


TEXT_NETWORKS: dict[str, Network] = {
    # encoders of text
    "bert": encoder("bert"),
    "deberta_v2": encoder("deberta-v2", relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8),
    "electra": encoder("electra", embedding_size=16),
    "albert": encoder("albert", embedding_size=8),
    "mpnet": encoder("mpnet"),
    "roformer": encoder("roformer", embedding_size=16),
    "convbert": encoder("convbert", embedding_size=16, conv_kernel_size=3, head_ratio=2, num_attention_heads=4),
    "nystromformer": encoder("nystromformer", num_landmarks=4, segment_means_seq_len=16),
    "squeezebert": encoder("squeezebert", embedding_size=16),
    "mobilebert": encoder("mobilebert", embedding_size=16, intra_bottleneck_size=8, true_hidden_size=8),
    "modernbert": encoder("modernbert", global_attn_every_n_layers=2, local_attention=8),
    "funnel": transformer("funnel", IDS, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=16, vocab_size=32),
    "fnet": encoder("fnet"),
    "ibert": encoder("ibert"),
    "longformer": encoder("longformer", attention_window=[4, 4], max_position_embeddings=70),
    "led": translator(
        "led", attention_window=[4], max_encoder_position_embeddings=64, max_decoder_position_embeddings=64
    ),
    "bigbird": encoder("big_bird", attention_type="block_sparse", block_size=2, num_random_blocks=1),
    "xlnet": transformer("xlnet", IDS, d_model=16, n_layer=2, n_head=2, d_inner=16, vocab_size=32),
    "reformer": transformer(
        "reformer",
        IDS,
        call=lambda module, ids: module(ids, use_cache=False)[0],
        attn_layers=["local", "lsh"],
        attention_head_size=8,
        hidden_size=16,
        num_attention_heads=2,
        feed_forward_size=16,
        axial_pos_shape=[4, 4],
        axial_pos_embds_dim=[8, 8],
        local_attn_chunk_length=4,
        lsh_attn_chunk_length=4,
        num_buckets=2,
        vocab_size=32,
        is_decoder=False,
        hash_seed=0,
    ),
    "layoutlm": encoder("layoutlm"),
    "esm": encoder("esm", position_embedding_type="rotary", mask_token_id=2),
    # decoders of text
    "gpt2": transformer("gpt2", IDS, call=uncached, n_embd=16, n_layer=2, n_head=2, vocab_size=32, n_positions=64),
    "gpt_neo": transformer(
        "gpt_neo",
        IDS,
        call=uncached,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
        vocab_size=32,
        max_position_embeddings=64,
    ),
    "gpt_neox": decoder("gpt_neox"),
    "codegen": transformer("codegen", IDS, call=uncached, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=32),
    "bloom": transformer("bloom", IDS, call=uncached, hidden_size=16, n_layer=2, n_head=2, vocab_size=32),
    "mpt": transformer("mpt", IDS, call=uncached, d_model=16, n_layers=2, n_heads=2, vocab_size=32, max_seq_len=64),
    "opt": transformer(
        "opt", IDS, call=uncached, **TEXT | {"ffn_dim": 16, "word_embed_proj_dim": 16, "num_attention_heads": 2}
    ),
    "llama": decoder("llama"),
    "mistral": decoder("mistral", sliding_window=4),
    "mixtral": decoder("mixtral", num_local_experts=2),
    "qwen2": decoder("qwen2"),
    "qwen3": decoder("qwen3"),
    "qwen3_moe": decoder("qwen3_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8),
    "qwen3_next": decoder(
        "qwen3_next",
        num_experts=4,
        moe_intermediate_size=8,
        shared_expert_intermediate_size=8,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        layer_types=["linear_attention", "full_attention"],
    ),
    "gemma": decoder("gemma"),
    "gemma2": decoder("gemma2", sliding_window=4),
    "gemma3": decoder("gemma3_text", sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
    "phi": decoder("phi", partial_rotary_factor=0.5),
    "phi3": decoder("phi3"),
    "cohere2": decoder("cohere2", sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
    "olmo2": decoder("olmo2"),
    "granite": decoder("granite"),
    "glm4": decoder("glm4", partial_rotary_factor=0.5),
    "stablelm": decoder("stablelm"),
    "starcoder2": decoder("starcoder2"),
    "nemotron": decoder("nemotron"),
    "smollm3": decoder("smollm3"),
    "gpt_oss": decoder("gpt_oss", num_local_experts=2, num_experts_per_tok=1, sliding_window=4),
    "deepseek_v3": decoder(
        "deepseek_v3",
        q_lora_rank=8,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=8,
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        moe_intermediate_size=8,
        first_k_dense_replace=1,
    ),
    "lfm2": decoder("lfm2", layer_types=["conv", "full_attention"]),
    "mamba": transformer(
        "mamba", IDS, call=uncached, hidden_size=8, state_size=4, num_hidden_layers=2, vocab_size=32, time_step_rank=2
    ),
    "mamba2": transformer(
        "mamba2",
        IDS,
        call=uncached,
        hidden_size=8,
        state_size=4,
        num_hidden_layers=1,
        vocab_size=32,
        num_heads=2,
        head_dim=8,
        n_groups=1,
        chunk_size=8,
    ),
    "falcon_mamba": transformer(
        "falcon_mamba", IDS, call=uncached, hidden_size=8, state_size=4, num_hidden_layers=1, vocab_size=32
    ),
    "rwkv": transformer("rwkv", IDS, call=uncached, hidden_size=16, num_hidden_layers=2, vocab_size=32),
    "recurrent_gemma": decoder(
        "recurrent_gemma", lru_width=16, attention_window_size=8, block_types=["recurrent", "attention"]
    ),
    "jamba": decoder(
        "jamba",
        num_experts=2,
        mamba_dt_rank=2,
        mamba_d_state=4,
        use_mamba_kernels=False,
        attn_layer_period=2,
        attn_layer_offset=1,
    ),
    "bamba": decoder(
        "bamba",
        mamba_n_heads=4,
        mamba_d_head=8,
        mamba_n_groups=1,
        mamba_d_state=4,
        mamba_chunk_size=8,
        attn_layer_indices=[1],
    ),
    # translators
    "t5": transformer(
        "t5",
        IDS,
        tokens(8),
        call=translate,
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        vocab_size=32,
    ),
    "longt5": transformer(
        "longt5",
        IDS,
        tokens(8),
        call=translate,
        encoder_attention_type="transient-global",
        local_radius=3,
        global_block_size=4,
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        vocab_size=32,
    ),
    "bart": translator("bart"),
    "pegasus": translator("pegasus"),
    "bigbird_pegasus": translator("bigbird_pegasus", attention_type="block_sparse", block_size=2, num_random_blocks=1),
    "prophetnet": transformer(
        "prophetnet",
        IDS,
        tokens(8),
        call=translate,
        hidden_size=16,
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_encoder_attention_heads=2,
        num_decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        vocab_size=32,
        max_position_embeddings=64,
    ),
}
