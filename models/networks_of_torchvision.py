"""Networks of torchvision and timm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from networks import Network, build, floats, load, network
from networks_of_images import IMAGE, LARGER
from torch import nn


def small_resnet(layers: int = 1) -> nn.Module:
    """Return a ResNet with one block in each stage and few channels."""
    from torchvision.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, [layers] * 4)


class Pyramid(nn.Module):
    """A small backbone with a feature pyramid of three maps, with 16 channels each."""

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
    """Return a function that makes a detector of torchvision on a small feature pyramid."""

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


def detect(module: nn.Module, image: torch.Tensor) -> Any:
    """Call a detector on one image."""
    return module([image])[0]


def out(module: nn.Module, image: torch.Tensor) -> Any:
    """Call a segmenter."""
    return module(image)["out"]


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


PICTURE = floats(3, 64, 64)
TORCHVISION: dict[str, Network] = {
    **{
        f"tv_{name}": network(region_detector(name), PICTURE, call=detect)
        for name in ("faster_rcnn", "mask_rcnn", "keypoint_rcnn", "retinanet", "fcos")
    },
    "tv_ssdlite": network(
        build(
            "torchvision.models.detection.ssdlite320_mobilenet_v3_large",
            weights=None,
            weights_backbone=None,
            num_classes=4,
        ),
        floats(3, 320, 320),
        call=detect,
    ),
    "tv_raft": network(
        build("torchvision.models.optical_flow.raft_small", weights=None),
        floats(1, 3, 128, 128),
        floats(1, 3, 128, 128),
        call=lambda module, a, b: module(a, b, num_flow_updates=2)[-1],
    ),
    "tv_swin": network(
        build(
            "torchvision.models.swin_transformer.SwinTransformer",
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
        lambda: load("torchvision.models.swin_transformer.SwinTransformer")(
            [4, 4],
            8,
            [2, 2],
            [1, 2],
            [4, 4],
            num_classes=4,
            block=load("torchvision.models.swin_transformer.SwinTransformerBlockV2"),
            downsample_layer=load("torchvision.models.swin_transformer.PatchMergingV2"),
        ),
        LARGER,
    ),
    "tv_maxvit": network(
        build(
            "torchvision.models.maxvit.MaxVit",
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
        build(
            "torchvision.models.vision_transformer.VisionTransformer",
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
    "tv_mobilenet_v3": network(build("torchvision.models.get_model", "mobilenet_v3_small", weights=None), LARGER),
    "tv_shufflenet": network(build("torchvision.models.get_model", "shufflenet_v2_x0_5", weights=None), LARGER),
    "tv_squeezenet": network(build("torchvision.models.get_model", "squeezenet1_1", weights=None), LARGER),
    "tv_densenet": network(
        build(
            "torchvision.models.densenet.DenseNet",
            growth_rate=4,
            block_config=(2, 2),
            num_init_features=8,
            num_classes=4,
        ),
        LARGER,
    ),
    "tv_googlenet": network(
        build("torchvision.models.get_model", "googlenet", weights=None, aux_logits=False, init_weights=False), LARGER
    ),
    "tv_inception": network(
        build("torchvision.models.get_model", "inception_v3", weights=None, aux_logits=False, init_weights=False),
        floats(1, 3, 96, 96),
    ),
    "tv_regnet": network(build("torchvision.models.get_model", "regnet_y_400mf", weights=None), LARGER),
    "tv_efficientnet": network(build("torchvision.models.get_model", "efficientnet_b0", weights=None), LARGER),
    "tv_convnext": network(
        lambda: load("torchvision.models.convnext.ConvNeXt")(
            [
                load("torchvision.models.convnext.CNBlockConfig")(8, 16, 1),
                load("torchvision.models.convnext.CNBlockConfig")(16, None, 1),
            ]
        ),
        LARGER,
    ),
    "tv_lraspp": network(
        build("torchvision.models.get_model", "lraspp_mobilenet_v3_large", weights=None, weights_backbone=None),
        LARGER,
        call=out,
    ),
    "tv_deeplab": network(
        build("torchvision.models.get_model", "deeplabv3_mobilenet_v3_large", weights=None, weights_backbone=None),
        LARGER,
        call=out,
    ),
    "tv_r2plus1d": network(
        lambda: load("torchvision.models.video.resnet.VideoResNet")(
            load("torchvision.models.video.resnet.BasicBlock"),
            [load("torchvision.models.video.resnet.Conv2Plus1D")] * 4,
            [1, 1, 1, 1],
            load("torchvision.models.video.resnet.R2Plus1dStem"),
        ),
        floats(1, 3, 4, 32, 32),
    ),
    "tv_mvit": network(mvit, floats(1, 3, 4, 32, 32)),
    "tv_video_swin": network(
        build(
            "torchvision.models.video.swin_transformer.SwinTransformer3d",
            [2, 4, 4],
            8,
            [2, 2],
            [1, 2],
            [2, 4, 4],
            num_classes=4,
        ),
        floats(1, 3, 4, 32, 32),
    ),
}


def timm_model(name: str, size: int = 64, **settings: Any) -> Network:
    """Return a network of timm for images of `size` by `size` pixels."""
    return network(build("timm.create_model", name, num_classes=4, **settings), floats(1, 3, size, size))


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
