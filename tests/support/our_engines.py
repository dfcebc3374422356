"""The engines of this project, without those that other installed packages register."""

from __future__ import annotations

from sliceport.engines.engine import Engine
from sliceport.engines.registry import engines


def our_engines() -> dict[str, Engine]:
    packages = ("sliceport", "onnx_ops", "ov_ext")
    return {name: engine for name, engine in engines().items() if type(engine).__module__.split(".")[0] in packages}
