"""Export networks of torchvision, torchaudio, timm, transformers, diffusers and demucs, by both exporters of torch.

Weights are random, depths and widths small. Those that show something are committed; `benchmarks/real_networks.py`
runs all of them. A network that does not export is one line, and the others go on.

pip install torch==2.13.0 torchvision==0.28.0 torchaudio==2.11.0 'transformers>=5.23,<5.24' diffusers==0.42.1 \\
    timm==1.0.31 onnx onnxscript && pip install --no-deps demucs==4.0.1
python models/export_networks.py --out DIR [NAME ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from export_torch import Export, run
from torch import nn
from torch.utils import _pytree as pytree

OPSETS = {"ts": 17, "dynamo": 20}


class Tensors(nn.Module):
    """A network as a function of tensors that returns its tensors of floats."""

    def __init__(self, network: nn.Module, call: Callable[..., Any]):
        super().__init__()
        self.network, self.call = network, call

    def forward(self, *inputs):
        leaves = pytree.tree_leaves(self.call(self.network, *inputs))
        return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


Network = tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]


def network(make: Callable[[], nn.Module], *inputs: torch.Tensor, call: Callable[..., Any] | None = None) -> Network:
    """Return a network and its inputs. `call` calls the network, by default as a function of the inputs."""
    return lambda: Tensors(make().eval(), call or (lambda module, *values: module(*values))).eval(), inputs


def floats(*sizes: int) -> torch.Tensor:
    """Return an input of floats."""
    return torch.linspace(-1, 1, torch.Size(sizes).numel()).reshape(sizes)


def tokens(length: int = 16, batch: int = 1) -> torch.Tensor:
    """Return an input of token ids below 32."""
    return (torch.arange(batch * length) % 30 + 2).reshape(batch, length)


# transformers


def transformer(
    kind: str, *inputs: torch.Tensor, call: Callable[..., Any] | None = None, auto: str = "AutoModel", **settings: Any
) -> Network:
    """Return a network of transformers with random weights; its first output counts."""

    def make() -> nn.Module:
        import transformers

        config = transformers.AutoConfig.for_model(kind, **settings)
        config._attn_implementation = "eager"
        if auto.startswith("Auto"):
            return getattr(transformers, auto).from_config(config, attn_implementation="eager")
        return getattr(transformers, auto)(config)

    return network(make, *inputs, call=call or (lambda module, *values: module(*values)[0]))


def uncached(module: nn.Module, ids: torch.Tensor) -> Any:
    """Call a decoder without a cache."""
    return module(ids, attention_mask=torch.ones_like(ids), use_cache=False)[0]


def translate(module: nn.Module, ids: torch.Tensor, other: torch.Tensor) -> Any:
    """Call an encoder with a decoder."""
    mask = torch.ones_like(other)
    return module(input_ids=ids, decoder_input_ids=other, decoder_attention_mask=mask, use_cache=False)[0]


def fields(*names: str, **options: Any) -> Callable[..., Any]:
    """Return a function that calls a network and returns fields of its output."""
    return lambda module, *values: [getattr(module(*values, **options), name) for name in names]


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
VISION = {name: TEXT[name] for name in list(TEXT)[:4]} | {"image_size": 32, "patch_size": 8}
IDS, IMAGE, LARGER, SOUND = tokens(), floats(1, 3, 32, 32), floats(1, 3, 64, 64), floats(1, 800)
SPEECH = TEXT | {
    "conv_dim": (8, 8),
    "conv_stride": (5, 4),
    "conv_kernel": (5, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}


def encoder(kind: str, **settings: Any) -> Network:
    """Return an encoder of text."""
    return transformer(kind, IDS, **TEXT | settings)


def decoder(kind: str, **settings: Any) -> Network:
    """Return a decoder of text with grouped attention."""
    return transformer(kind, IDS, call=uncached, **GROUPED | settings)


def translator(kind: str, **settings: Any) -> Network:
    """Return an encoder with a decoder."""
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


RESNET = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
    "out_features": ["stage2", "stage3", "stage4"],
}
DETECTOR = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "num_queries": 8,
}


def config(kind: str, **settings: Any) -> Any:
    """Return a configuration of transformers, for a part of a network."""
    import transformers

    return transformers.AutoConfig.for_model(kind, **settings)


def detector(kind: str, auto: str, **settings: Any) -> Network:
    """Return a detector of transformers with a small backbone, as it returns logits and boxes."""

    def make() -> nn.Module:
        import transformers

        backbone = config("resnet", **{name: RESNET[name] for name in list(RESNET)[1:]})
        parts = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
        whole = config(kind, **DETECTOR | parts | {"backbone_config": backbone} | settings)
        whole._attn_implementation = "eager"
        return getattr(transformers, auto)(whole)

    return network(make, LARGER, call=fields("logits", "pred_boxes"))


RT_DETR = {
    "encoder_in_channels": [8, 16, 16],
    "encoder_hidden_dim": 16,
    "decoder_in_channels": [16, 16, 16],
    "encoder_attention_heads": 2,
    "decoder_n_points": 2,
    "num_feature_levels": 3,
    "anchor_image_size": [64, 64],
    "num_denoising": 0,
    "disable_custom_kernels": True,
}


def segmenter(kind: str, auto: str, image: torch.Tensor, *names: str, **settings: Any) -> Network:
    """Return a network of transformers by its class, with some fields of its output."""
    return transformer(kind, image, auto=auto, call=fields(*names), **settings)


def mask2former() -> nn.Module:
    """Return a small Mask2Former."""
    import transformers

    swin = config(
        "swin",
        image_size=64,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    whole = transformers.Mask2FormerConfig(
        backbone_config=swin,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=16,
        dim_feedforward=16,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        num_queries=8,
    )
    return transformers.Mask2FormerForUniversalSegmentation(whole)


def maskformer() -> nn.Module:
    """Return a small MaskFormer."""
    import transformers

    swin = config(
        "swin",
        image_size=64,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    detr = config("detr", **DETECTOR)
    whole = transformers.MaskFormerConfig(
        backbone_config=swin, decoder_config=detr, fpn_feature_size=32, mask_feature_size=32
    )
    return transformers.MaskFormerForInstanceSegmentation(whole)


def depth_anything() -> nn.Module:
    """Return a small Depth Anything."""
    import transformers

    backbone = config(
        "dinov2",
        **{name: VISION[name] for name in list(VISION)[:3]} | {"num_hidden_layers": 4},
        image_size=32,
        patch_size=8,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False,
    )
    whole = transformers.DepthAnythingConfig(
        backbone_config=backbone,
        patch_size=8,
        reassemble_hidden_size=16,
        neck_hidden_sizes=[4, 8, 16, 16],
        fusion_hidden_size=8,
        head_hidden_size=8,
    )
    return transformers.DepthAnythingForDepthEstimation(whole)


def dpt() -> nn.Module:
    """Return a small DPT."""
    import transformers

    whole = transformers.DPTConfig(
        **VISION | {"num_hidden_layers": 4},
        is_hybrid=False,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[4, 8, 16, 16],
        fusion_hidden_size=8,
    )
    return transformers.DPTForDepthEstimation(whole)


def sam() -> nn.Module:
    """Return a small SAM, with its decoder of masks."""
    import transformers

    vision = {
        **VISION,
        "patch_size": 4,
        "window_size": 4,
        "global_attn_indexes": [1],
        "output_channels": 16,
        "num_pos_feats": 8,
    }
    whole = transformers.SamConfig(
        vision_config=vision | {"mlp_dim": 16},
        prompt_encoder_config={"hidden_size": 16, "image_size": 32, "patch_size": 4, "mask_input_channels": 4},
        mask_decoder_config={"hidden_size": 16, "mlp_dim": 16, "num_attention_heads": 2, "iou_head_hidden_dim": 16},
    )
    return transformers.SamModel(whole)


def clip(kind: str) -> Network:
    """Return a model of text and images."""
    text = {**TEXT, "bos_token_id": 1, "eos_token_id": 2}
    call = lambda module, ids, image: module(input_ids=ids, pixel_values=image).logits_per_image  # noqa: E731
    return transformer(kind, IDS, IMAGE, call=call, text_config=text, vision_config=VISION, projection_dim=16)


def whisper(module: nn.Module, sound: torch.Tensor, ids: torch.Tensor) -> Any:
    """Call Whisper without a cache."""
    mask = torch.ones_like(ids)
    return module(input_features=sound, decoder_input_ids=ids, decoder_attention_mask=mask, use_cache=False)[0]


def vits(module: nn.Module, ids: torch.Tensor) -> Any:
    """Call VITS from a fixed noise."""
    return module(ids).waveform


def hifigan() -> nn.Module:
    """Return the vocoder of SpeechT5."""
    import transformers

    return transformers.SpeechT5HifiGan(
        transformers.SpeechT5HifiGanConfig(
            model_in_dim=8,
            upsample_initial_channel=16,
            upsample_rates=[4, 4],
            upsample_kernel_sizes=[8, 8],
            resblock_kernel_sizes=[3, 5],
            resblock_dilation_sizes=[[1, 3], [1, 3]],
        )
    )


TRANSFORMERS: dict[str, Network] = {
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
    # images
    "vit": transformer("vit", IMAGE, **VISION),
    "deit": transformer("deit", IMAGE, **VISION),
    "beit": transformer("beit", IMAGE, use_relative_position_bias=True, **VISION),
    "swin": transformer("swin", LARGER, image_size=64, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4),
    "swinv2": transformer("swinv2", LARGER, image_size=64, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4),
    "swin2sr": transformer(
        "swin2sr",
        IMAGE,
        auto="Swin2SRForImageSuperResolution",
        image_size=32,
        embed_dim=8,
        depths=[2],
        num_heads=[2],
        window_size=4,
    ),
    "convnext": transformer("convnext", LARGER, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1]),
    "dinov2": transformer("dinov2", IMAGE, **VISION),
    "dinov3": transformer("dinov3_vit", IMAGE, num_register_tokens=2, **VISION),
    "hiera": transformer("hiera", LARGER, image_size=[64, 64], embed_dim=8, depths=[1, 1, 1], num_heads=[1, 2, 4]),
    "focalnet": transformer(
        "focalnet",
        IMAGE,
        image_size=32,
        embed_dim=8,
        depths=[1, 1],
        hidden_sizes=[8, 16],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
    ),
    "mobilevit": transformer(
        "mobilevit", LARGER, image_size=64, hidden_sizes=[16, 16, 16], neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 16]
    ),
    "mobilevitv2": transformer("mobilevitv2", LARGER, image_size=64, width_multiplier=0.25),
    "levit": transformer(
        "levit",
        LARGER,
        image_size=64,
        hidden_sizes=[16, 32, 48],
        num_attention_heads=[2, 2, 2],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    "pvt_v2": transformer(
        "pvt_v2",
        LARGER,
        image_size=64,
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
    ),
    "cvt": transformer("cvt", LARGER, embed_dim=[8, 16, 32], num_heads=[1, 1, 2], depth=[1, 1, 1]),
    "efficientnet_hf": transformer(
        "efficientnet", LARGER, image_size=64, width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=64
    ),
    "poolformer": transformer("poolformer", LARGER, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1]),
    "segformer": segmenter(
        "segformer",
        "SegformerForSemanticSegmentation",
        LARGER,
        "logits",
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
    ),
    "glpn": segmenter(
        "glpn",
        "GLPNForDepthEstimation",
        LARGER,
        "predicted_depth",
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
    ),
    "dpt": network(dpt, IMAGE, call=fields("predicted_depth")),
    "depth_anything": network(depth_anything, IMAGE, call=fields("predicted_depth")),
    "mask2former": network(mask2former, LARGER, call=fields("class_queries_logits", "masks_queries_logits")),
    "maskformer": network(maskformer, LARGER, call=fields("class_queries_logits", "masks_queries_logits")),
    "sam": network(
        sam,
        IMAGE,
        floats(1, 1, 2, 2).abs() * 30,
        call=lambda module, image, points: module(pixel_values=image, input_points=points).pred_masks,
    ),
    "clip": clip("clip"),
    "siglip": clip("siglip"),
    "owlvit": transformer(
        "owlvit",
        IDS,
        IMAGE,
        call=lambda module, ids, image: module(input_ids=ids, pixel_values=image).logits_per_image,
        text_config={**TEXT, "bos_token_id": 1, "eos_token_id": 2},
        vision_config=VISION,
        projection_dim=16,
    ),
    "yolos": segmenter(
        "yolos",
        "YolosForObjectDetection",
        IMAGE,
        "logits",
        "pred_boxes",
        **VISION | {"image_size": [32, 32], "num_detection_tokens": 4},
    ),
    "vitmatte_dinov2": transformer("dinov2_with_registers", IMAGE, num_register_tokens=2, **VISION),
    "timesformer": transformer("timesformer", floats(1, 2, 3, 32, 32), num_frames=2, **VISION),
    "videomae": transformer("videomae", floats(1, 4, 3, 32, 32), num_frames=4, **VISION),
    "superpoint": segmenter(
        "superpoint",
        "SuperPointForKeypointDetection",
        LARGER,
        "scores",
        "keypoints",
        encoder_hidden_sizes=[8, 8, 8, 8],
        decoder_hidden_size=8,
        descriptor_decoder_dim=8,
        keypoint_decoder_dim=65,
    ),
    "detr": detector("detr", "DetrForObjectDetection"),
    "conditional_detr": detector("conditional_detr", "ConditionalDetrForObjectDetection"),
    "deformable_detr": detector(
        "deformable_detr", "DeformableDetrForObjectDetection", num_feature_levels=3, disable_custom_kernels=True
    ),
    "dab_detr": detector("dab-detr", "DabDetrForObjectDetection", hidden_size=16),
    "rt_detr": detector("rt_detr", "RTDetrForObjectDetection", **RT_DETR),
    "rt_detr_v2": detector("rt_detr_v2", "RTDetrV2ForObjectDetection", **RT_DETR),
    "d_fine": detector(
        "d_fine",
        "DFineForObjectDetection",
        **RT_DETR | {"decoder_n_points": [2, 2, 2], "decoder_layers": 2, "hidden_expansion": 1.0},
    ),
    # sound
    "wav2vec2": transformer("wav2vec2", SOUND, **SPEECH),
    "wav2vec2_conformer": transformer("wav2vec2-conformer", SOUND, conv_depthwise_kernel_size=3, **SPEECH),
    "wavlm": transformer("wavlm", SOUND, **SPEECH | {"num_buckets": 8, "max_bucket_distance": 16}),
    "hubert": transformer("hubert", SOUND, **SPEECH),
    "sew": transformer("sew", SOUND, squeeze_factor=2, **SPEECH),
    "ast": transformer(
        "audio-spectrogram-transformer",
        floats(1, 32, 16),
        num_mel_bins=16,
        max_length=32,
        frequency_stride=4,
        time_stride=4,
        **{**VISION, "patch_size": 8},
    ),
    "whisper": transformer(
        "whisper",
        floats(1, 8, 32),
        tokens(8),
        call=whisper,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        vocab_size=32,
        num_mel_bins=8,
        max_source_positions=16,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    ),
    "speecht5_vocoder": network(hifigan, floats(1, 12, 8)),
    "vits": transformer(
        "vits",
        IDS,
        call=vits,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        ffn_dim=16,
        flow_size=16,
        spectrogram_bins=9,
        vocab_size=32,
        upsample_initial_channel=16,
        upsample_rates=[4, 4],
        upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
        posterior_encoder_num_wavenet_layers=2,
        prior_encoder_num_flows=2,
        prior_encoder_num_wavenet_layers=2,
        wavenet_dilation_rate=1,
        duration_predictor_num_flows=2,
        duration_predictor_filter_channels=16,
        depth_separable_num_layers=2,
        use_stochastic_duration_prediction=False,
        noise_scale=0.0,
        noise_scale_duration=0.0,
    ),
    "encodec": transformer(
        "encodec",
        floats(1, 1, 640),
        call=lambda module, x: module.decoder(module.encoder(x)),
        num_filters=4,
        hidden_size=16,
        upsampling_ratios=[4, 4],
        num_lstm_layers=1,
        codebook_size=16,
        codebook_dim=16,
    ),
    "dac": transformer(
        "dac",
        floats(1, 1, 512),
        call=lambda module, x: module.decoder(module.encoder(x)),
        encoder_hidden_size=8,
        downsampling_ratios=[4, 4],
        upsampling_ratios=[4, 4],
        decoder_hidden_size=32,
        n_codebooks=2,
        codebook_size=16,
        codebook_dim=4,
        hidden_size=32,
    ),
    "moonshine": transformer(
        "moonshine",
        floats(1, 4000),
        tokens(8),
        call=lambda module, sound, ids: module(input_values=sound, decoder_input_ids=ids, use_cache=False)[0],
        hidden_size=16,
        intermediate_size=16,
        encoder_num_hidden_layers=1,
        decoder_num_hidden_layers=1,
        encoder_num_attention_heads=2,
        decoder_num_attention_heads=2,
        vocab_size=32,
        pad_token_id=0,
    ),
    "univnet": transformer(
        "univnet",
        floats(1, 10, 16),
        call=lambda module, x: module(x)[0],
        model_in_channels=16,
        model_hidden_channels=8,
        num_mel_bins=16,
    ),
    "fastspeech2_conformer": transformer(
        "fastspeech2_conformer",
        tokens(8),
        call=lambda module, ids: module(ids, return_dict=True).spectrogram,
        hidden_size=16,
        num_mel_bins=8,
        encoder_num_attention_heads=2,
        decoder_num_attention_heads=2,
        encoder_layers=1,
        decoder_layers=1,
        encoder_linear_units=16,
        decoder_linear_units=16,
        vocab_size=40,
        speech_decoder_postnet_units=16,
        duration_predictor_channels=16,
        energy_predictor_channels=16,
        pitch_predictor_channels=16,
    ),
    "autoformer": transformer(
        "patchtst",
        floats(1, 32, 3),
        context_length=32,
        patch_length=4,
        patch_stride=4,
        d_model=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=16,
        num_input_channels=3,
    ),
    "perceiver": transformer(
        "perceiver",
        floats(1, 8, 16),
        num_latents=4,
        d_latents=16,
        d_model=16,
        num_blocks=1,
        num_self_attends_per_block=1,
        num_self_attention_heads=2,
        num_cross_attention_heads=2,
    ),
}

# torchvision


def small_resnet(layers: int = 1) -> nn.Module:
    """Return a ResNet of one block a stage and few channels."""
    from torchvision.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, [layers] * 4)


class Pyramid(nn.Module):
    """Three maps of features, as a pyramid of features makes them, with 16 channels each."""

    out_channels = 16

    def __init__(self):
        super().__init__()
        from torchvision.ops import FeaturePyramidNetwork

        strides = (8, 2, 2)
        sizes = (3, 8, 16, 16)
        self.steps = nn.ModuleList(
            nn.Sequential(nn.Conv2d(sizes[i], sizes[i + 1], 3, stride, 1), nn.ReLU())
            for i, stride in enumerate(strides)
        )
        self.fpn = FeaturePyramidNetwork(list(sizes[1:]), 16)

    def forward(self, x):
        maps = {}
        for i, step in enumerate(self.steps):
            x = step(x)
            maps[str(i)] = x
        return self.fpn(maps)


def region_detector(name: str) -> Callable[[], nn.Module]:
    """Return what makes a detector of torchvision on a small pyramid."""

    def make() -> nn.Module:
        from torchvision.models import detection
        from torchvision.models.detection.anchor_utils import AnchorGenerator
        from torchvision.ops import MultiScaleRoIAlign

        anchors = AnchorGenerator(((16,), (32,), (64,)), ((0.5, 1.0, 2.0),) * 3)
        square = AnchorGenerator(((16,), (32,), (64,)), ((1.0,),) * 3)
        sizes = {"min_size": 64, "max_size": 64, "num_classes": 4}
        pool = MultiScaleRoIAlign(["0", "1", "2"], 3, 2)
        regions = {
            **sizes,
            "rpn_anchor_generator": anchors,
            "box_roi_pool": pool,
            "box_head": detection.faster_rcnn.TwoMLPHead(16 * 9, 16),
            "box_predictor": detection.faster_rcnn.FastRCNNPredictor(16, 4),
            "rpn_pre_nms_top_n_test": 20,
            "rpn_post_nms_top_n_test": 10,
            "box_detections_per_img": 5,
        }
        del regions["num_classes"]
        if name == "faster_rcnn":
            return detection.FasterRCNN(Pyramid(), **regions)
        if name == "mask_rcnn":
            return detection.MaskRCNN(
                Pyramid(),
                **regions,
                mask_roi_pool=MultiScaleRoIAlign(["0", "1", "2"], 6, 2),
                mask_head=detection.mask_rcnn.MaskRCNNHeads(16, (16,), 1),
                mask_predictor=detection.mask_rcnn.MaskRCNNPredictor(16, 16, 4),
            )
        if name == "keypoint_rcnn":
            return detection.KeypointRCNN(
                Pyramid(),
                **regions,
                keypoint_roi_pool=MultiScaleRoIAlign(["0", "1", "2"], 6, 2),
                keypoint_head=detection.keypoint_rcnn.KeypointRCNNHeads(16, (16,)),
                keypoint_predictor=detection.keypoint_rcnn.KeypointRCNNPredictor(16, 3),
            )
        if name == "retinanet":
            return detection.RetinaNet(Pyramid(), anchor_generator=anchors, topk_candidates=20, **sizes)
        return detection.FCOS(Pyramid(), anchor_generator=square, topk_candidates=20, **sizes)

    return make


def ssdlite() -> nn.Module:
    """Return SSDlite."""
    from torchvision.models import detection

    return detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)


def vision(name: str, **settings: Any) -> Callable[[], nn.Module]:
    """Return what makes a network of torchvision."""

    def make() -> nn.Module:
        import torchvision

        return torchvision.models.get_model(name, weights=None, **settings)

    return make


def torchvision_part(path: str) -> Any:
    """Return a class or function of torchvision.models by its path."""
    module, name = path.rsplit(".", 1)
    return getattr(import_module(f"torchvision.models.{module}"), name)


def torchvision_class(path: str, **settings: Any) -> Callable[[], nn.Module]:
    """Return what makes a network of torchvision by its class."""

    def make() -> nn.Module:
        return torchvision_part(path)(**settings)

    return make


def detect(module: nn.Module, image: torch.Tensor) -> Any:
    """Call a detector on one image."""
    return module([image])[0]


def out(module: nn.Module, image: torch.Tensor) -> Any:
    """Call a segmenter."""
    return module(image)["out"]


def raft() -> nn.Module:
    """Return the small RAFT."""
    from torchvision.models.optical_flow import raft_small

    return raft_small(weights=None)


def mvit() -> nn.Module:
    """Return a small MViT."""
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    blocks = [
        MSBlockConfig(1, 8, 8, [3, 3, 3], [1, 2, 2], [1, 1, 1], [1, 2, 2]),
        MSBlockConfig(2, 8, 16, [3, 3, 3], [1, 2, 2], [1, 2, 2], [1, 1, 1]),
    ]
    return MViT(
        (32, 32),
        4,
        blocks,
        residual_pool=True,
        residual_with_cls_embed=False,
        rel_pos_embed=True,
        proj_after_attn=True,
        num_classes=4,
    )


def video_swin() -> nn.Module:
    """Return a small Swin for video."""
    from torchvision.models.video.swin_transformer import SwinTransformer3d

    return SwinTransformer3d([2, 4, 4], 8, [2, 2], [1, 2], [2, 4, 4], num_classes=4)


PICTURE = floats(3, 64, 64)
TORCHVISION: dict[str, Network] = {
    **{
        f"tv_{name}": network(region_detector(name), PICTURE, call=detect)
        for name in ("faster_rcnn", "mask_rcnn", "keypoint_rcnn", "retinanet", "fcos")
    },
    "tv_ssdlite": network(ssdlite, floats(3, 320, 320), call=detect),
    "tv_raft": network(
        raft,
        floats(1, 3, 128, 128),
        floats(1, 3, 128, 128),
        call=lambda module, a, b: module(a, b, num_flow_updates=2)[-1],
    ),
    "tv_swin": network(
        torchvision_class(
            "swin_transformer.SwinTransformer",
            patch_size=[4, 4],
            embed_dim=8,
            depths=[2, 2],
            num_heads=[1, 2],
            window_size=[4, 4],
            num_classes=4,
        ),
        LARGER,
    ),
    "tv_swin_v2": network(
        lambda: torchvision_part("swin_transformer.SwinTransformer")(
            [4, 4],
            8,
            [2, 2],
            [1, 2],
            [4, 4],
            num_classes=4,
            block=torchvision_part("swin_transformer.SwinTransformerBlockV2"),
            downsample_layer=torchvision_part("swin_transformer.PatchMergingV2"),
        ),
        LARGER,
    ),
    "tv_maxvit": network(
        torchvision_class(
            "maxvit.MaxVit",
            input_size=(64, 64),
            stem_channels=8,
            partition_size=4,
            block_channels=[8, 16],
            block_layers=[1, 1],
            head_dim=8,
            stochastic_depth_prob=0.0,
            num_classes=4,
        ),
        LARGER,
    ),
    "tv_vit": network(
        torchvision_class(
            "vision_transformer.VisionTransformer",
            image_size=32,
            patch_size=8,
            num_layers=2,
            num_heads=2,
            hidden_dim=16,
            mlp_dim=16,
            num_classes=4,
        ),
        IMAGE,
    ),
    "tv_resnet": network(small_resnet, LARGER),
    "tv_mobilenet_v3": network(vision("mobilenet_v3_small"), LARGER),
    "tv_shufflenet": network(vision("shufflenet_v2_x0_5"), LARGER),
    "tv_squeezenet": network(vision("squeezenet1_1"), LARGER),
    "tv_densenet": network(
        torchvision_class("densenet.DenseNet", growth_rate=4, block_config=(2, 2), num_init_features=8, num_classes=4),
        LARGER,
    ),
    "tv_googlenet": network(vision("googlenet", aux_logits=False, init_weights=False), LARGER),
    "tv_inception": network(vision("inception_v3", aux_logits=False, init_weights=False), floats(1, 3, 96, 96)),
    "tv_regnet": network(vision("regnet_y_400mf"), LARGER),
    "tv_efficientnet": network(vision("efficientnet_b0"), LARGER),
    "tv_convnext": network(
        lambda: torchvision_part("convnext.ConvNeXt")(
            [
                torchvision_part("convnext.CNBlockConfig")(8, 16, 1),
                torchvision_part("convnext.CNBlockConfig")(16, None, 1),
            ]
        ),
        LARGER,
    ),
    "tv_lraspp": network(vision("lraspp_mobilenet_v3_large", weights_backbone=None), LARGER, call=out),
    "tv_deeplab": network(vision("deeplabv3_mobilenet_v3_large", weights_backbone=None), LARGER, call=out),
    "tv_r2plus1d": network(
        lambda: torchvision_part("video.resnet.VideoResNet")(
            torchvision_part("video.resnet.BasicBlock"),
            [torchvision_part("video.resnet.Conv2Plus1D")] * 4,
            [1, 1, 1, 1],
            torchvision_part("video.resnet.R2Plus1dStem"),
        ),
        floats(1, 3, 4, 32, 32),
    ),
    "tv_mvit": network(mvit, floats(1, 3, 4, 32, 32)),
    "tv_video_swin": network(video_swin, floats(1, 3, 4, 32, 32)),
}

# torchaudio and demucs


def audio(path: str, *values: Any, **settings: Any) -> Callable[[], nn.Module]:
    """Return what makes a network of torchaudio."""

    def make() -> nn.Module:
        import torchaudio

        return getattr(torchaudio.models, path)(*values, **settings)

    return make


def wav2vec2_audio() -> nn.Module:
    """Return a small wav2vec 2.0 of torchaudio."""
    import torchaudio

    return torchaudio.models.wav2vec2_model(
        extractor_mode="group_norm",
        extractor_conv_layer_config=[(8, 5, 5), (8, 4, 4)],
        extractor_conv_bias=False,
        encoder_embed_dim=16,
        encoder_projection_dropout=0.0,
        encoder_pos_conv_kernel=4,
        encoder_pos_conv_groups=2,
        encoder_num_layers=2,
        encoder_num_heads=2,
        encoder_attention_dropout=0.0,
        encoder_ff_interm_features=16,
        encoder_ff_interm_dropout=0.0,
        encoder_dropout=0.0,
        encoder_layer_norm_first=False,
        encoder_layer_drop=0.0,
        aux_num_out=None,
    )


class Spectrum(nn.Module):
    """Demucs from a sound and its spectrogram to both of its results, the form in which it is exported.

    Programs compute the spectrogram and its inverse themselves.
    """

    def __init__(self, demucs: nn.Module):
        super().__init__()
        self.demucs = demucs

    def forward(self, mix, spectrum):
        masks = []
        self.demucs._spec = lambda x: spectrum
        self.demucs._magnitude = lambda z: z
        self.demucs._mask = lambda z, m: masks.append(m)
        self.demucs._ispec = lambda z, length=None, scale=0: torch.zeros(1)
        waves = self.demucs(mix)
        return masks[0], waves


def htdemucs() -> nn.Module:
    """Return a small Hybrid Transformer Demucs."""
    from demucs.htdemucs import HTDemucs

    settings = {
        "nfft": 2048,
        "depth": 4,
        "t_layers": 2,
        "t_heads": 2,
        "bottom_channels": 16,
        "use_train_segment": False,
    }
    return Spectrum(HTDemucs(["drums", "bass"], channels=8, **settings))


def hdemucs() -> nn.Module:
    """Return a small Hybrid Demucs."""
    from demucs.hdemucs import HDemucs

    return Spectrum(HDemucs(["drums", "bass"], channels=8, nfft=256, depth=4))


TORCHAUDIO: dict[str, Network] = {
    "ta_conv_tasnet": network(
        audio(
            "ConvTasNet", enc_num_feats=16, msk_num_feats=8, msk_num_hidden_feats=16, msk_num_layers=2, msk_num_stacks=2
        ),
        floats(1, 1, 400),
    ),
    "ta_conformer": network(audio("Conformer", 16, 2, 16, 2, 7), floats(1, 12, 16), torch.tensor([12])),
    "ta_emformer": network(
        audio("Emformer", 16, 2, 16, 2, 4, right_context_length=1), floats(1, 9, 16), torch.tensor([8])
    ),
    "ta_wav2vec2": network(wav2vec2_audio, SOUND, call=lambda module, x: module(x)[0]),
    "ta_deepspeech": network(audio("DeepSpeech", 8, n_hidden=16, n_class=8), floats(1, 1, 12, 8)),
    "ta_wavernn": network(
        audio("WaveRNN", [4, 4], 16, 16, 1, 8, 16, 5, 8, 16, 16), floats(1, 1, 64), floats(1, 1, 8, 8)[..., :8]
    ),
    "ta_tacotron2_encoder": network(
        audio("Tacotron2", n_mels=8, symbol_embedding_dim=16, encoder_embedding_dim=16),
        IDS,
        call=lambda m, ids: m.encoder(m.embedding(ids).transpose(1, 2), torch.tensor([16])),
    ),
    "ta_hdemucs": network(audio("HDemucs", ["drums", "bass"], nfft=256, channels=4, depth=3), floats(1, 2, 2048)),
    "ta_rnnt": network(
        lambda: import_module("torchaudio").models.emformer_rnnt_model(
            input_dim=8,
            encoding_dim=16,
            num_symbols=8,
            segment_length=4,
            right_context_length=4,
            time_reduction_input_dim=16,
            time_reduction_stride=4,
            transformer_num_heads=2,
            transformer_ffn_dim=16,
            transformer_num_layers=2,
            transformer_dropout=0.0,
            transformer_activation="gelu",
            transformer_left_context_length=4,
            transformer_max_memory_size=0,
            transformer_weight_init_scale_strategy=None,
            transformer_tanh_on_mem=False,
            symbol_embedding_dim=8,
            num_lstm_layers=1,
            lstm_layer_norm=True,
            lstm_layer_norm_epsilon=1e-5,
            lstm_dropout=0.0,
        ),
        floats(1, 20, 8),
        torch.tensor([20], dtype=torch.int32),
        call=lambda m, x, n: m.transcribe(x, n)[0],
    ),
    "htdemucs": network(htdemucs, floats(1, 2, 4096), floats(1, 4, 1024, 8)),
    "hdemucs": network(hdemucs, floats(1, 2, 2048), floats(1, 4, 128, 32)),
}

# diffusers


def diffuser(name: str, **settings: Any) -> Callable[[], nn.Module]:
    """Return what makes a network of diffusers."""

    def make() -> nn.Module:
        import diffusers

        return getattr(diffusers, name)(**settings)

    return make


UNET = {
    "sample_size": 16,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
}
STEP = torch.tensor([7])


def denoise(module: nn.Module, x: torch.Tensor, step: torch.Tensor, *context: torch.Tensor) -> Any:
    """Call a denoiser of diffusers."""
    return module(x, step, *context, return_dict=False)[0]


def classes(module: nn.Module, x: torch.Tensor, step: torch.Tensor, label: torch.Tensor) -> Any:
    """Call a denoiser with a class."""
    return module(x, step, class_labels=label, return_dict=False)[0]


DIT = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 1}
DIFFUSERS: dict[str, Network] = {
    "df_unet2d": network(
        diffuser(
            "UNet2DModel",
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            attention_head_dim=8,
            in_channels=3,
            out_channels=3,
            **UNET,
        ),
        floats(1, 3, 16, 16),
        STEP,
        call=denoise,
    ),
    "df_unet_condition": network(
        diffuser(
            "UNet2DConditionModel",
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=16,
            attention_head_dim=4,
            **UNET,
        ),
        floats(1, 4, 16, 16),
        STEP,
        floats(1, 8, 16),
        call=denoise,
    ),
    "df_unet1d": network(
        diffuser(
            "UNet1DModel",
            sample_size=64,
            in_channels=2,
            out_channels=2,
            block_out_channels=(8, 16, 16),
            down_block_types=("DownBlock1DNoSkip", "DownBlock1D", "AttnDownBlock1D"),
            up_block_types=("AttnUpBlock1D", "UpBlock1D", "UpBlock1DNoSkip"),
            extra_in_channels=16,
            norm_num_groups=4,
        ),
        floats(1, 2, 64),
        STEP,
        call=denoise,
    ),
    "df_unet3d": network(
        diffuser(
            "UNet3DConditionModel",
            block_out_channels=(8, 16),
            down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
            up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
            cross_attention_dim=16,
            attention_head_dim=4,
            layers_per_block=1,
            norm_num_groups=4,
            sample_size=8,
        ),
        floats(1, 4, 2, 8, 8),
        STEP,
        floats(1, 8, 16),
        call=denoise,
    ),
    "df_vae": network(
        diffuser(
            "AutoencoderKL",
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            block_out_channels=(8, 16),
            norm_num_groups=4,
            latent_channels=4,
            sample_size=16,
        ),
        floats(1, 3, 16, 16),
        call=lambda m, x: m(x, return_dict=False)[0],
    ),
    "df_vae_tiny": network(
        diffuser(
            "AutoencoderTiny",
            encoder_block_out_channels=(8, 8),
            decoder_block_out_channels=(8, 8),
            num_encoder_blocks=(1, 1),
            num_decoder_blocks=(1, 1),
        ),
        floats(1, 3, 16, 16),
        call=lambda m, x: m(x, return_dict=False)[0],
    ),
    "df_vq": network(
        diffuser("VQModel", block_out_channels=(8,), norm_num_groups=4, latent_channels=4, num_vq_embeddings=8),
        floats(1, 3, 16, 16),
        call=lambda m, x: m(x, return_dict=False)[0],
    ),
    "df_oobleck": network(
        diffuser(
            "AutoencoderOobleck",
            encoder_hidden_size=8,
            downsampling_ratios=[2, 4],
            channel_multiples=[1, 2],
            decoder_channels=8,
            decoder_input_channels=4,
            audio_channels=2,
        ),
        floats(1, 2, 128),
        call=lambda m, x: m(x, return_dict=False)[0],
    ),
    "df_vae_wan": network(
        diffuser(
            "AutoencoderKLWan", base_dim=8, z_dim=4, dim_mult=[1, 2], num_res_blocks=1, temperal_downsample=[True]
        ),
        floats(1, 3, 5, 16, 16),
        call=lambda m, x: m(x, return_dict=False)[0],
    ),
    "df_vae_temporal": network(
        diffuser("AutoencoderKLTemporalDecoder", block_out_channels=(32,), layers_per_block=1),
        floats(2, 3, 8, 8),
        call=lambda m, x: m(x, return_dict=False, num_frames=2)[0],
    ),
    "df_dit": network(
        diffuser("DiTTransformer2DModel", in_channels=4, sample_size=8, patch_size=2, norm_num_groups=4, **DIT),
        floats(1, 4, 8, 8),
        STEP,
        torch.tensor([3]),
        call=classes,
    ),
    "df_sd3": network(
        diffuser(
            "SD3Transformer2DModel",
            sample_size=8,
            patch_size=2,
            in_channels=4,
            out_channels=4,
            joint_attention_dim=16,
            caption_projection_dim=16,
            pooled_projection_dim=16,
            pos_embed_max_size=8,
            **DIT,
        ),
        floats(1, 4, 8, 8),
        floats(1, 6, 16),
        floats(1, 16),
        STEP,
        call=lambda m, x, c, p, t: m(x, c, p, t, return_dict=False)[0],
    ),
    "df_flux": network(
        diffuser(
            "FluxTransformer2DModel",
            in_channels=4,
            num_single_layers=1,
            joint_attention_dim=16,
            pooled_projection_dim=16,
            axes_dims_rope=(2, 2, 4),
            guidance_embeds=False,
            **DIT,
        ),
        floats(1, 16, 4),
        floats(1, 6, 16),
        floats(1, 16),
        torch.tensor([0.5]),
        floats(16, 3),
        floats(6, 3),
        call=lambda m, x, c, p, t, i, j: m(x, c, p, t, i, j, return_dict=False)[0],
    ),
    "df_pixart": network(
        diffuser(
            "PixArtTransformer2DModel",
            in_channels=4,
            out_channels=8,
            cross_attention_dim=16,
            caption_channels=16,
            sample_size=8,
            norm_num_groups=4,
            use_additional_conditions=False,
            **DIT,
        ),
        floats(1, 4, 8, 8),
        floats(1, 6, 16),
        STEP,
        call=lambda m, x, c, t: m(x, c, t, return_dict=False)[0],
    ),
    "df_sana": network(
        diffuser(
            "SanaTransformer2DModel",
            in_channels=4,
            out_channels=4,
            num_cross_attention_heads=2,
            cross_attention_head_dim=8,
            cross_attention_dim=16,
            caption_channels=16,
            sample_size=8,
            patch_size=1,
            **DIT,
        ),
        floats(1, 4, 8, 8),
        floats(1, 6, 16),
        STEP,
        call=lambda m, x, c, t: m(x, c, t, return_dict=False)[0],
    ),
    "df_hunyuan": network(
        diffuser(
            "HunyuanDiT2DModel",
            in_channels=4,
            sample_size=8,
            patch_size=2,
            hidden_size=16,
            cross_attention_dim=16,
            cross_attention_dim_t5=16,
            text_len=4,
            text_len_t5=4,
            pooled_projection_dim=16,
            activation_fn="gelu-approximate",
            **DIT | {"num_layers": 2},
        ),
        floats(1, 4, 8, 8),
        STEP,
        floats(1, 4, 16),
        torch.ones(1, 4),
        floats(1, 4, 16),
        torch.ones(1, 4),
        floats(1, 6),
        torch.tensor([0]),
        floats(16, 8),
        floats(16, 8),
        call=lambda m, x, t, c, cm, d, dm, meta, s, a, b: m(x, t, c, cm, d, dm, meta, s, (a, b), return_dict=False)[0],
    ),
    "df_auraflow": network(
        diffuser(
            "AuraFlowTransformer2DModel",
            sample_size=8,
            patch_size=2,
            in_channels=4,
            num_mmdit_layers=1,
            num_single_dit_layers=1,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=16,
            caption_projection_dim=16,
            out_channels=4,
            pos_embed_max_size=64,
        ),
        floats(1, 4, 8, 8),
        floats(1, 6, 16),
        torch.tensor([0.5]),
        call=lambda m, x, c, t: m(x, c, t, return_dict=False)[0],
    ),
    "df_wan": network(
        diffuser(
            "WanTransformer3DModel",
            patch_size=(1, 2, 2),
            num_attention_heads=2,
            attention_head_dim=12,
            in_channels=4,
            out_channels=4,
            text_dim=16,
            freq_dim=8,
            ffn_dim=16,
            num_layers=1,
            rope_max_seq_len=32,
        ),
        floats(1, 4, 2, 8, 8),
        STEP,
        floats(1, 6, 16),
        call=lambda m, x, t, c: m(x, t, c, return_dict=False)[0],
    ),
    "df_cogvideox": network(
        diffuser(
            "CogVideoXTransformer3DModel",
            in_channels=4,
            out_channels=4,
            time_embed_dim=8,
            text_embed_dim=16,
            sample_width=8,
            sample_height=8,
            sample_frames=5,
            max_text_seq_length=6,
            **DIT,
        ),
        floats(1, 2, 4, 8, 8),
        floats(1, 6, 16),
        STEP,
        call=lambda m, x, c, t: m(x, c, t, return_dict=False)[0],
    ),
    "df_ltx": network(
        diffuser(
            "LTXVideoTransformer3DModel",
            in_channels=8,
            out_channels=8,
            cross_attention_dim=16,
            caption_channels=16,
            **DIT,
        ),
        floats(1, 32, 8),
        floats(1, 6, 16),
        STEP,
        torch.ones(1, 6),
        call=lambda m, x, c, t, k: m(x, c, t, k, num_frames=2, height=4, width=4, return_dict=False)[0],
    ),
    "df_controlnet": network(
        diffuser(
            "ControlNetModel",
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            block_out_channels=(8, 16),
            layers_per_block=1,
            norm_num_groups=4,
            cross_attention_dim=16,
            attention_head_dim=4,
            conditioning_embedding_out_channels=(8, 8),
        ),
        floats(1, 4, 16, 16),
        STEP,
        floats(1, 8, 16),
        floats(1, 3, 32, 32),
        call=lambda m, x, t, c, i: m(x, t, c, i, return_dict=False),
    ),
}

# timm


def timm_model(name: str, size: int = 64, **settings: Any) -> Network:
    """Return a network of timm for images of a size."""

    def make() -> nn.Module:
        import timm

        return timm.create_model(name, num_classes=4, **settings)

    return network(make, floats(1, 3, size, size))


TIMM: dict[str, Network] = {
    "timm_xcit": timm_model("xcit_nano_12_p16_224", depth=2, embed_dim=32, num_heads=2, img_size=64),
    "timm_edgenext": timm_model("edgenext_xx_small"),
    "timm_gcvit": timm_model("gcvit_xxtiny", 64, img_size=64),
    "timm_coat": timm_model("coat_tiny", 64, img_size=64),
    "timm_cait": timm_model("cait_xxs24_224", depth=2, img_size=64),
    "timm_crossvit": timm_model("crossvit_tiny_240", 240),
    "timm_convit": timm_model("convit_tiny", depth=2, img_size=64),
    "timm_tnt": timm_model("tnt_s_patch16_224", depth=2, embed_dim=48, img_size=64),
    "timm_twins": timm_model("twins_svt_small", 64, img_size=64, depths=[1, 1, 1, 1]),
    "timm_pit": timm_model("pit_ti_224", 64, img_size=64),
    "timm_nest": timm_model("nest_tiny", 64, img_size=64, depths=(1, 1, 1)),
    "timm_mixer": timm_model("mixer_s32_224", 64, img_size=64, num_blocks=2),
    "timm_gmlp": timm_model("gmlp_ti16_224", 64, img_size=64, num_blocks=2),
    "timm_volo": timm_model(
        "volo_d1_224", 64, img_size=64, layers=(1, 1, 1, 1), embed_dims=(24, 48, 48, 48), num_heads=(2, 2, 2, 2)
    ),
    "timm_efficientvit": timm_model("efficientvit_b0"),
    "timm_efficientvit_m0": timm_model("efficientvit_m0", 224),
    "timm_fastvit": timm_model("fastvit_t8"),
    "timm_mambaout": timm_model("mambaout_femto"),
    "timm_hrnet": timm_model("hrnet_w18_small"),
    "timm_halonet": timm_model("halonet26t", 256),
    "timm_botnet": timm_model("botnet26t_256", 256),
    "timm_lambda": timm_model("lambda_resnet26rpt_256", 256),
    "timm_eva02": timm_model("eva02_tiny_patch14_224", 56, img_size=56, depth=2),
    "timm_davit": timm_model(
        "davit_tiny", 64, depths=(1, 1, 1, 1), embed_dims=(16, 32, 32, 32), num_heads=(2, 2, 2, 2), img_size=64
    ),
    "timm_sequencer": timm_model(
        "sequencer2d_s", 64, layers=(1, 1, 1, 1), embed_dims=(16, 16, 16, 16), hidden_sizes=(8, 8, 8, 8), img_size=64
    ),
    "timm_coatnet": timm_model("coatnet_pico_rw_224", 64, img_size=64),
    "timm_ghostnet": timm_model("ghostnet_050"),
    "timm_tiny_vit": timm_model("tiny_vit_5m_224", 64, img_size=64),
    "timm_mobileone": timm_model("mobileone_s0"),
    "timm_visformer": timm_model("visformer_tiny", 64, img_size=64),
    "timm_levit": timm_model("levit_128s", 224),
    "timm_starnet": timm_model("starnet_s1"),
    "timm_res2net": timm_model("res2net50_26w_4s", 64, layers=(1, 1, 1, 1)),
    "timm_cspdarknet": timm_model("cspdarknet53", 64),
}

NETWORKS = TRANSFORMERS | TORCHVISION | TORCHAUDIO | DIFFUSERS | TIMM
EXPORTS = {
    f"{exporter}_{name}": Export(*NETWORKS[name], exporter, opset, "")
    for name in NETWORKS
    for exporter, opset in OPSETS.items()
}


PACKAGES = (
    *("diffusers.models.transformers", "diffusers.models.unets", "timm", "torchaudio", "torchvision"),
    *("transformers.masking_utils", "transformers.modeling_layers", "transformers.modeling_utils"),
)
"""What each child process would load anew."""


if __name__ == "__main__":
    for package in PACKAGES:
        import_module(package)
    sys.exit(run(EXPORTS, "export_networks.py", needs_slices=False))
