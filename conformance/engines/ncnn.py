"""ncnn, on models that pnnx converts; all its elements are float32, so that types are not compared."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

REQUIREMENTS = ["ncnn==1.0.20261020", "pnnx==20261020", "torch==2.13.0", "numpy==2.4.6"]
SPILLS = True
PRELOAD = ("ncnn",)
LOOSE = True


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    import ncnn
    import numpy as np

    pnnx = Path(sysconfig.get_path("purelib"), "pnnx", "pnnx")  # the script in `bin` loads PyTorch for each model

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(model, Path(folder, "model.onnx"))
            status = subprocess.call([pnnx, "model.onnx"], cwd=folder, stdout=subprocess.DEVNULL)
            if status:
                raise RuntimeError(f"pnnx ends with exit status {status}")
            network = ncnn.Net()
            if network.load_param(f"{folder}/model.ncnn.param") or network.load_model(f"{folder}/model.ncnn.bin"):
                raise RuntimeError("ncnn does not load the converted model")
            extractor = network.create_extractor()
            for name, array in zip(network.input_names(), inputs.values(), strict=True):
                extractor.input(name, ncnn.Mat(np.ascontiguousarray(array, np.float32)).clone())
            results = [extractor.extract(f"out{number}") for number in range(len(names))]
        if any(status for status, _ in results):
            raise RuntimeError("ncnn does not compute an output")
        return [np.array(result) for _, result in results]

    return run
