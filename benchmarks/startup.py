"""Time of `sliceport lower` for small models, relative to the time of `python -c "import onnx"`.

Both run in turn, in processes of their own, with compiled bytecode; the ratios count. Processor time includes the
children of a process. The benchmark prints the best and the median of each.

    python benchmarks/startup.py [--repeat 15]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

MODELS = Path(__file__).parents[1] / "models"
BASELINE = ("-c", "import onnx")
# The first command is the one that the ratios are relative to. A command that ends in -o gets a file to write.
COMMANDS: dict[str, Sequence[str]] = {
    "import onnx": BASELINE,
    "import onnx_ir": ("-c", "import onnx_ir"),
    "help": ("-m", "sliceport", "lower", "--help"),
    "static": ("-m", "sliceport", "lower", str(MODELS / "rule_coalesce.onnx")),
    "static, written": ("-m", "sliceport", "lower", str(MODELS / "rule_coalesce.onnx"), "--overwrite", "-o"),
    "branches": ("-m", "sliceport", "lower", str(MODELS / "rule_subgraphs.onnx")),
    "inferred": ("-m", "sliceport", "lower", str(MODELS / "ts_bert_dyn_14.onnx"), "--input-shapes", "x:1,16"),
    "functions": ("-m", "sliceport", "lower", str(MODELS / "rule_function.onnx")),
}


def run(words: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Run Python with these arguments. Return the wall time and the processor time in seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment, check=True, capture_output=True)
    passed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        commands = {name: [*words, f"{folder}/out"] if words[-1] == "-o" else words for name, words in COMMANDS.items()}
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for turn in range(repeat + 1):
            for name, words in commands.items():
                measured = run(words, environment)
                if turn:  # the first turn compiles bytecode, so it does not count
                    taken[name].append(measured)
    print("command           best s  ratio  median s  ratio  processor s  ratio   (over import onnx)")
    rows = {
        name: (min(wall for wall, _ in runs), statistics.median(wall for wall, _ in runs), min(cpu for _, cpu in runs))
        for name, runs in taken.items()
    }
    base = next(iter(rows.values()))
    for name, row in rows.items():
        cells = [f"{value:8.3f}  {value / base_value:5.2f}" for value, base_value in zip(row, base, strict=True)]
        best, median, processor = cells
        print(f"{name:15s} {best}  {median}     {processor}")


if __name__ == "__main__":
    main()
