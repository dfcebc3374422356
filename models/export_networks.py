"""Export networks of torchvision, torchaudio, timm, transformers, diffusers and demucs, by both exporters of torch.

Weights are random, depths and widths small. Those that show something are committed; `benchmarks/real_networks.py`
runs all of them. A network that does not export is one line, and the others go on.

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
"""Packages that are imported once, because otherwise each child process would import them anew."""


if __name__ == "__main__":
    for package in PACKAGES:
        import_module(package)
    sys.exit(run(EXPORTS, "export_networks.py", needs_slices=False))
