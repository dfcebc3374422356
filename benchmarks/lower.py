"""Time of `lower` from file to program, relative to the time in which onnxruntime creates a session from the same file.

Both run in turn in one process, without onnxruntime's optimisations; the ratio counts. Peak memory is measured in
processes of their own, also for a model with 2 GiB of external weights in a sparse file.

    python benchmarks/lower.py [--repeat 3]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import sliceport

SIZES = (1000, 8000, 64000)
ONCE = 64000
"""Number of Slices from which on each runs only once, because onnxruntime takes minutes to create a session."""
# The starts, ends, axes and steps of Slices.
PATTERNS = (
    ([1], [15], [1], [1]),  # a crop
    ([0], [2**63 - 1], [0], [1]),  # an identity with a sentinel
    ([-1], [-(2**63)], [1], [-1]),  # a reversal
    ([2], [60], [2], [2]),  # a step
)


def slices(count: int, *, alike: bool = True) -> onnx.ModelProto:
    """Return Slices in pairs: the first slices the input, the second slices the first, and a Relu reads the second.

    Args:
        count: The number of Slices.
        alike: Whether the Slices repeat four patterns, as in a model that repeats its layers, or all differ.
    """
    nodes, initializers, outputs = [], [], []
    for i in range(count):
        names = []
        # Otherwise each pair of start and end occurs once.
        pattern = PATTERNS[i % len(PATTERNS)] if alike else ([i % 61], [64 + i // 61], [2], [1 + i % 2])
        for name, values in zip(("starts", "ends", "axes", "steps"), pattern, strict=True):
            names.append(f"{name}{i}")
            initializers.append(numpy_helper.from_array(np.array(values, np.int64), names[-1]))
        nodes.append(helper.make_node("Slice", [f"y{i - 1}" if i % 2 else "x", *names], [f"y{i}"], f"slice_{i}"))
        if i % 2:
            nodes.append(helper.make_node("Relu", [f"y{i}"], [f"r{i}"]))
            outputs.append(helper.make_tensor_value_info(f"r{i}", TensorProto.FLOAT, None))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16, 64 if alike else 64 + count])
    graph = helper.make_graph(nodes, "slices", [x], outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def write_external_model(folder: Path, size: int) -> Path:
    """Write a model whose one weight of `size` bytes lies in a sparse external file, and return the model's path.

    `size` is a multiple of 4096, because a row of the weight has 1024 floats.
    """
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size // 4096, 1024])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    weight.external_data.add(key="length", value=str(size))
    parts = [f"p{i}" for i in range(4)]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Split", ["h"], parts, "split", axis=1),
        helper.make_node("Split", ["w"], ["a", "b"], "split_weight", axis=0),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (*parts, "a", "b")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, size // 4096])
    graph = helper.make_graph(nodes, "external", [x], outputs, [weight])
    path = folder / "external.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(size)
    return path


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """Call a function. Return its wall time and the processor time of this process in seconds."""
    start, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - processor


def peak_mib(path: Path) -> float:
    """Return the peak resident memory in MiB of a process that lowers a model."""
    code = "import sys, sliceport; p = sliceport.lower(sys.argv[1]); assert not p.summary['refused']"
    code += "; print([line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024  # not ru_maxrss, which a child inherits from its parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat

    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    print(
        "slices  lower s  session s  ratio  processor us a slice  peak MiB   (best of", repeat, "each, taken in turn)"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count, alike in (*((size, True) for size in SIZES), (SIZES[1], False)):
            path = folder / f"slices_{count}.onnx"
            path.write_bytes(slices(count, alike=alike).SerializeToString())
            ours, theirs = [], []
            for _ in range(1 if count >= ONCE else repeat):
                ours.append(measure(lambda: sliceport.lower(path)))  # noqa: B023
                theirs.append(measure(lambda: ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])))  # noqa: B023
            our_time, their_time = min(wall for wall, _ in ours), min(wall for wall, _ in theirs)
            processor = min(used for _, used in ours)
            remark = "" if alike else "   no two alike"
            rest = f"{our_time / their_time:5.2f}  {processor / count * 1e6:19.1f}  {peak_mib(path):8.0f}{remark}"
            print(f"{count:6d}  {our_time:7.3f}  {their_time:9.3f}  {rest}", flush=True)
        path = write_external_model(folder, 2 * 2**30)
        passed, _ = measure(lambda: sliceport.lower(path))
        print(f"2 GiB of external weights: peak {peak_mib(path):.0f} MiB, {passed:.3f} s")
        (folder / "weights.bin").unlink()
        print(f"the same, its data file missing: peak {peak_mib(path):.0f} MiB")


if __name__ == "__main__":
    main()
