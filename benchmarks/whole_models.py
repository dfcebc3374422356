"""Time of whole exports on OpenVINO's CPU plugin with our operators instead of the built-in ones, as ratios.

The models are those of models/ that OpenVINO reads, and those in the given folders. Sizes of open dimensions come from
models/models.json. All variants run in one process. They take turns of several inferences each, and the best of all
turns counts.

    python benchmarks/whole_models.py [FOLDER ...] [--python] [--seconds 1] [--only NAME] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import openvino as ov
from turns import best_of_turns

import ov_ext

MODELS = Path(__file__).parents[1] / "models"
NOT_READ = ("rule_function.onnx", "ts_functions_17.onnx", "rule_strings.onnx")
"""Models that OpenVINO does not read, because of functions, or because of strings, which end its process."""
Shapes = dict[str, list[int]]


def exports(folders: list[Path]) -> Iterator[tuple[Path, Shapes]]:
    """Yield the models in models/ and in folders that OpenVINO reads, with the sizes of open inputs in models.json."""
    shapes = {entry["file"]: entry["input_shapes"] for entry in json.loads((MODELS / "models.json").read_text())}
    for folder in (MODELS, *folders):
        for path in sorted(folder.glob("*.onnx")):
            if path.name not in NOT_READ:
                yield path, shapes.get(path.name, {})


def random_inputs(model: ov.Model, shapes: Shapes) -> list[ov.Tensor]:
    """Return tensors of zeros and ones, which are also valid indices. Sizes that are open and not given are 8."""
    random = np.random.default_rng(0)
    tensors = []
    for value in model.inputs:
        given_shape = shapes.get(value.get_any_name(), [])
        shape = given_shape or [d.get_length() if d.is_static else 8 for d in value.partial_shape]
        tensor = ov.Tensor(value.get_element_type(), ov.Shape(shape))
        tensor.data[...] = random.integers(0, 2, shape)
        tensors.append(tensor)
    return tensors


def inference_of(model: ov.Model, inputs: list[ov.Tensor]) -> Any:
    """Return a function that runs an inference, which shares its inputs and does not copy its outputs."""
    request = ov.Core().compile_model(model, "CPU").create_infer_request()
    for i, tensor in enumerate(inputs):
        request.set_input_tensor(i, tensor)
    return lambda: request.infer(share_outputs=True)


def read_with_ours(path: Path, backend: str) -> tuple[ov.Model, int]:
    """Return a model with our operators of a backend, and the number of these operators.

    The environment variable SLICEPORT_BACKEND stays set.
    """
    os.environ["SLICEPORT_BACKEND"] = backend
    model = ov.Core().read_model(str(path))
    return model, ov_ext.use_custom_ops(model)


def main() -> None:
    """Print the table, and the means by backend and kind of shapes. Models without slices are left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="further .onnx files")
    parser.add_argument("--python", action="store_true", help="also measure the operators in Python")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each model; default 1")
    parser.add_argument("--only", default="", metavar="NAME", help="run only models whose file names contain NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to a file")
    options = parser.parse_args()
    backends = ["native", "python"] if options.python else ["native"]
    rows: list[dict[str, Any]] = []
    print(f"{'model':38}{'shapes':8}{'slices':>7}{'built-in us':>13}" + "".join(f"{name:>9}" for name in backends))
    for path, shapes in exports(options.folders):
        if options.only not in path.name:
            continue
        model = ov.Core().read_model(str(path))
        inputs = random_inputs(model, shapes)
        kind = "dynamic" if model.is_dynamic() else "static"
        runs = {"built-in": inference_of(model, inputs)}
        count = 0
        for backend in backends:  # each replaces the same operators
            ours, count = read_with_ours(path, backend)
            runs[backend] = inference_of(ours, inputs)
        if not count:
            continue
        best = best_of_turns(runs, options.seconds)
        by_backend = {name: best[name] / best["built-in"] for name in backends}
        rows.append({"model": path.name, "shapes": kind, "slices": count, "seconds": best, "ratios": by_backend})
        print(
            f"{path.name:38}{kind:8}{count:7}{best['built-in'] * 1e6:13.1f}"
            + "".join(f"{by_backend[name]:9.2f}" for name in backends),
            flush=True,
        )
    for name in backends:
        for kind in ("dynamic", "static"):
            ratios = [row["ratios"][name] for row in rows if row["shapes"] == kind]
            if ratios:
                mean = geometric_mean(ratios)
                print(f"{name}, {kind}: geometric mean {mean:.3f}, worst {max(ratios):.2f} of {len(ratios)}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
