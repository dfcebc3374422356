"""Count the models that run on onnxruntime's CPU provider with sizes and values that are chosen without an option.

    python benchmarks/inputs_that_run.py [FOLDER ...]

Each FOLDER has .onnx files; the default is models/. A model that onnxruntime does not run is listed with the reason.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.runnable import read_complete_model
from sliceport.engines.inputs import find_inputs_that_run
from sliceport.errors import SliceportError

MODELS = Path(__file__).parents[1] / "models"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", default=[MODELS])
    paths = [path for folder in parser.parse_args().folders for path in sorted(folder.glob("*.onnx"))]
    side, count = onnxruntime_cpu.side(), 0
    for path in paths:
        started = time.perf_counter()
        try:
            found = find_inputs_that_run(read_complete_model(path), side, {}, {}, 0)
        except SliceportError as error:
            result = f"does not run: {error}"
        else:
            count += 1
            shapes = "; ".join(f"{name} {','.join(map(str, shape))}" for name, shape in found.sizes.chosen.items())
            result = f"run {found.tried} succeeds{f' with {shapes}' if shapes else ''}"
        print(f"{path.name:50} {time.perf_counter() - started:5.1f} s  {result}", flush=True)
    print(f"{count} of {len(paths)} models run without an option")


if __name__ == "__main__":
    main()
