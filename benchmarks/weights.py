"""Memory for weights on the real DirectML: `python benchmarks/weights.py`.

The models have MatMuls with external weights of 16 MiB each. Each runs by `sliceport diff --on onnxruntime-dml`. The
benchmark prints the peak memory of all processes together, without mapped files, and the line through these peaks:
memory for each byte of weights, and memory that does not depend on them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

SIZE = 2048
WEIGHT_BYTES = SIZE * SIZE * 4


def write_model(path: Path, count: int) -> None:
    """Write a chain of `count` MatMuls of four rows, and its weights beside it. All have the same random elements."""
    nodes = [helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"v{i + 1}"], name=f"n{i}") for i in range(count)]
    first, last = (helper.make_tensor_value_info(f"v{i}", onnx.TensorProto.FLOAT, [4, SIZE]) for i in (0, count))
    weights = [
        onnx.TensorProto(name=f"w{i}", data_type=onnx.TensorProto.FLOAT, dims=[SIZE, SIZE]) for i in range(count)
    ]
    weight = (np.random.default_rng(0).random((SIZE, SIZE), np.float32) - 0.5) / SIZE**0.5
    with path.with_suffix(".bin").open("wb") as file:
        for tensor in weights:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", f"{path.stem}.bin"), ("offset", file.tell()), ("length", WEIGHT_BYTES)):
                tensor.external_data.add(key=key, value=str(value))
            file.write(weight.tobytes())
    graph = helper.make_graph(nodes, "weights", [first], [last], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def descendants(pid: int) -> list[int]:
    """Return a process and all that it started, and that have not ended."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # the process has ended
        return []
    return [pid, *(each for child in children for each in descendants(child))]


def count_memory(pid: int) -> int:
    """Return the resident bytes of a process and its descendants, without mapped files."""
    total = 0
    for each in descendants(pid):
        try:
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return total * 1024


def measure(command: list[str]) -> tuple[int, float, float]:
    """Run a command. Return the peak memory of its processes in bytes, its wall time and processor time in seconds.

    The memory is read 20 times in a second, so that a shorter peak may be missed.

    Raises:
        SystemExit: The command failed.
    """
    started, before = time.monotonic(), os.times()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, count_memory(process.pid))
        time.sleep(0.05)
    after = os.times()
    if process.returncode not in (0, 1):  # 1 means that a node is refused or an output differs
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return peak, time.monotonic() - started, used


def main() -> None:
    """Print the peaks and the line through them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[4, 24, 100], help="the numbers of MatMuls")
    options = parser.parse_args()
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for count in options.counts:
            path = Path(folder) / f"weights_{count}.onnx"
            write_model(path, count)
            peak, seconds, used = measure(
                [sys.executable, "-m", "sliceport", "diff", str(path), "--on", "onnxruntime-dml"]
            )
            path.with_suffix(".bin").unlink()
            peaks.append(peak)
            size = count * WEIGHT_BYTES / 2**30
            times = f"{seconds:.0f} s, {used:.0f} s of processor time"
            print(f"{size:.2f} GiB of weights: peak {peak / 2**30:.2f} GiB, {times}")
    slope, constant = np.polyfit([count * WEIGHT_BYTES for count in options.counts], peaks, 1)
    print(f"{slope:.2f} times the weights and {constant / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
