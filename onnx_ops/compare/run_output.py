"""Writing what a whole model computed on the DirectML provider."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from onnx_ops.compare.run_model import WholeRun
from sliceport.atomic_write import fill_folder, write_json


def write_run(run: WholeRun, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write `report.json` and each output as `.npy`, named in the report.

    Raises:
        UsageError: The folder exists and must be kept, is not one that this wrote, or cannot be made.
    """

    def fill(folder: Path) -> None:
        report = run.to_json()
        for i, output in enumerate(report["outputs"]):
            safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", output["name"]).strip("_.")[:60]
            output["file"] = f"{i:02d}_{safe}.npy"
            np.save(folder / output["file"], run.arrays[output["name"]])
        write_json(folder / "report.json", report)

    fill_folder(directory, fill, mark="report.json", others=("*.npy",), overwrite=overwrite)
