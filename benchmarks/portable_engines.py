"""Worker of `benchmarks/portable.py`: it runs models on one engine, in the Python that has that engine.

    python benchmarks/portable_engines.py ENGINE FILE

ENGINE is a file of `conformance/engines`. Each line of FILE is a folder with `model.onnx`, `inputs.npz` and
`names.json`, which lists the outputs. The worker writes their values to `outputs.npz`. It prints the folder when it
begins a model, and then a line of JSON: `refusal` is the error that the engine raised, or an empty text.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # engines print to stdout, which is for the answers
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the engine's environment lacks `conformance`
    run = importlib.import_module(f"conformance.engines.{sys.argv[1]}").open_engine()
    for folder in map(Path, Path(sys.argv[2]).read_text().split()):
        answers.write(f"{folder}\n")
        with np.load(folder / "inputs.npz") as file:
            inputs = dict(file)
        try:
            results = run(folder / "model.onnx", inputs, json.loads((folder / "names.json").read_text()))
            np.savez(folder / "outputs.npz", *map(np.asarray, results))
            answers.write(json.dumps({"refusal": ""}) + "\n")
        except BaseException as error:  # a panic of Rust is not an Exception
            answers.write(json.dumps({"refusal": f"{type(error).__name__}: {error}"[:300]}) + "\n")


if __name__ == "__main__":
    main()
