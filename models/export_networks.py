"""Export networks of torchvision, torchaudio, timm, transformers, diffusers and demucs with both exporters of torch.

Weights are random, depths and widths small. Only exports that show something new are committed, but
`benchmarks/real_networks.py` runs all. For a network that cannot be exported, a line with the reason is printed.

pip install torch==2.13.0 torchvision==0.28.0 torchaudio==2.11.0 'transformers>=5.23,<5.24' diffusers==0.42.1 \\
    timm==1.0.31 onnx onnxscript && pip install --no-deps demucs==4.0.1
python models/export_networks.py --out DIR [NAME ...]
"""

from __future__ import annotations

import sys
from importlib import import_module

from export_torch import Export, run
from networks_of_diffusers import DIFFUSERS
from networks_of_images import IMAGE_NETWORKS
from networks_of_sound import SOUND_NETWORKS
from networks_of_text import TEXT_NETWORKS
from networks_of_torchvision import TIMM, TORCHVISION

OPSETS = {"ts": 17, "dynamo": 20}
NETWORKS = TEXT_NETWORKS | IMAGE_NETWORKS | TORCHVISION | SOUND_NETWORKS | DIFFUSERS | TIMM
EXPORTS = {
    f"{exporter}_{name}": Export(*NETWORKS[name], exporter, opset, "")
    for name in NETWORKS
    for exporter, opset in OPSETS.items()
}


PACKAGES = (
    *("diffusers.models.transformers", "diffusers.models.unets", "timm", "torchaudio", "torchvision"),
    *("transformers.masking_utils", "transformers.modeling_layers", "transformers.modeling_utils"),
)
"""Packages to import before child processes are forked, because otherwise each child would import them."""


if __name__ == "__main__":
    for package in PACKAGES:
        import_module(package)
    sys.exit(run(EXPORTS, "export_networks.py", needs_slices=False))
