"""Networks from transformers for images, and for text with images."""

from __future__ import annotations

from typing import Any

import torch
from networks import Network, config, fields, floats, load, network, transformer
from networks_of_text import IDS, TEXT
from torch import nn

VISION = {name: TEXT[name] for name in list(TEXT)[:4]} | {"image_size": 32, "patch_size": 8}
IMAGE, LARGER = floats(1, 3, 32, 32), floats(1, 3, 64, 64)
RESNET = {
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


def detector(kind: str, auto: str, **settings: Any) -> Network:
    """Return a detector of transformers with a small backbone, which returns logits and boxes."""

    def make() -> nn.Module:
        backbone = config("resnet", **RESNET)
        parts = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
        whole = config(kind, **DETECTOR | parts | {"backbone_config": backbone} | settings)
        whole._attn_implementation = "eager"
        return load(f"transformers.{auto}")(whole)

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
    """Return a network of transformers that returns some fields of its output."""
    return transformer(kind, image, auto=auto, call=fields(*names), **settings)


def small_swin() -> Any:
    """Return the configuration of a small Swin as a backbone."""
    return config(
        "swin",
        image_size=64,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )


def mask2former() -> nn.Module:
    """Return a small Mask2Former."""
    whole = load("transformers.Mask2FormerConfig")(
        backbone_config=small_swin(),
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
    return load("transformers.Mask2FormerForUniversalSegmentation")(whole)


def maskformer() -> nn.Module:
    """Return a small MaskFormer."""
    detr = config("detr", **DETECTOR)
    whole = load("transformers.MaskFormerConfig")(
        backbone_config=small_swin(), decoder_config=detr, fpn_feature_size=32, mask_feature_size=32
    )
    return load("transformers.MaskFormerForInstanceSegmentation")(whole)


def depth_anything() -> nn.Module:
    """Return a small Depth Anything."""
    backbone = config(
        "dinov2",
        **{name: VISION[name] for name in list(VISION)[:3]} | {"num_hidden_layers": 4},
        image_size=32,
        patch_size=8,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False,
    )
    whole = load("transformers.DepthAnythingConfig")(
        backbone_config=backbone,
        patch_size=8,
        reassemble_hidden_size=16,
        neck_hidden_sizes=[4, 8, 16, 16],
        fusion_hidden_size=8,
        head_hidden_size=8,
    )
    return load("transformers.DepthAnythingForDepthEstimation")(whole)


def dpt() -> nn.Module:
    """Return a small DPT."""
    whole = load("transformers.DPTConfig")(
        **VISION | {"num_hidden_layers": 4},
        is_hybrid=False,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[4, 8, 16, 16],
        fusion_hidden_size=8,
    )
    return load("transformers.DPTForDepthEstimation")(whole)


def sam() -> nn.Module:
    """Return a small SAM with its mask decoder."""
    vision = {
        **VISION,
        "patch_size": 4,
        "window_size": 4,
        "global_attn_indexes": [1],
        "output_channels": 16,
        "num_pos_feats": 8,
    }
    whole = load("transformers.SamConfig")(
        vision_config=vision | {"mlp_dim": 16},
        prompt_encoder_config={"hidden_size": 16, "image_size": 32, "patch_size": 4, "mask_input_channels": 4},
        mask_decoder_config={"hidden_size": 16, "mlp_dim": 16, "num_attention_heads": 2, "iou_head_hidden_dim": 16},
    )
    return load("transformers.SamModel")(whole)


def clip(kind: str) -> Network:
    """Return a model of text and images."""
    text = {**TEXT, "bos_token_id": 1, "eos_token_id": 2}
    call = lambda module, ids, image: module(input_ids=ids, pixel_values=image).logits_per_image  # noqa: E731
    return transformer(kind, IDS, IMAGE, call=call, text_config=text, vision_config=VISION, projection_dim=16)


IMAGE_NETWORKS: dict[str, Network] = {
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
    "owlvit": clip("owlvit"),
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
}
