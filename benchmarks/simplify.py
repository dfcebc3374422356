"""Does `sliceport rewrite --simplify` pay? All nodes, slicing nodes, latency and exactness, beside other tools.

On the models of `rewrite.py`. For each tool: all nodes and slicing nodes that are left, constants not counted; the time
of an inference on onnxruntime's CPU provider with all its optimisations, best of many in turn, as a ratio to that of
the model as it was exported; and `!` where an output is not what it was, bit for bit, without optimisation.

    pip install --group benchmarks
    python benchmarks/simplify.py [--seconds 2] [--trained] [NAME ...]
"""

from __future__ import annotations

import argparse
import logging
import math
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from peers import PEERS, SIMPLIFY, by_sliceport, count, runnable

from onnx_ops.passes.optimize import count_nodes
from onnx_ops.verify.verify import verify_rewriting

TOOLS = {"sliceport": by_sliceport, **SIMPLIFY, **PEERS}


def open_session(proto: onnx.ModelProto) -> ort.InferenceSession:
    """Open a session of one thread on the CPU provider with all its optimisations."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])


def latencies(protos: dict[str, onnx.ModelProto], arrays: dict[str, np.ndarray], seconds: float) -> dict[str, float]:
    """Return the shortest time of an inference of each model in seconds; the models run in turn."""
    sessions = {name: open_session(proto) for name, proto in protos.items()}
    best = dict.fromkeys(sessions, math.inf)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, session in sessions.items():
            start = time.perf_counter()
            session.run(None, arrays)
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def is_exact(before: onnx.ModelProto, after: onnx.ModelProto, shapes: dict[str, list[int]]) -> bool:
    """Whether a model computes what it did before, see `verify_rewriting`."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("before.onnx", "after.onnx")]
        for path, proto in zip(paths, (before, after), strict=True):
            onnx.save(proto, path)
        return verify_rewriting(*paths, input_shapes=shapes).is_equal


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2, help="for the latencies of each model")
    parser.add_argument("--trained", action="store_true", help="with random biases and scales in place of 0 and 1")
    parser.add_argument("names", nargs="*", help="only models with one of these in their names")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"{'all nodes, slicing nodes, latency':36} {'exported':>12} " + " ".join(f"{tool:>20}" for tool in TOOLS))
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    logs: dict[str, list[float]] = defaultdict(list)
    wrong: dict[str, int] = defaultdict(int)
    for path, proto, arrays, shapes in runnable(options.names, is_trained=options.trained):
        protos, failed = {"exported": proto}, {}
        for tool, run in TOOLS.items():
            try:
                made = run(proto)
                open_session(made)
                protos[tool] = made
            except (
                Exception
            ) as error:  # a tool that fails on a model, or makes one that does not load, is not compared on it
                failed[tool] = type(error).__name__
        times = latencies(protos, arrays, options.seconds)
        cells = []
        for tool in ("exported", *TOOLS):
            if tool in failed:
                cells.append(f"{failed[tool]:>20}")
                continue
            here = (count_nodes(ir.serde.deserialize_model(protos[tool])), count(protos[tool]))
            totals[tool] = [a + b for a, b in zip(totals[tool], here, strict=True)]
            if tool == "exported":
                cells.append(f"{here[0]:>6} {here[1]:>5}")
                continue
            logs[tool].append(math.log(times[tool] / times["exported"]))
            exact = is_exact(proto, protos[tool], shapes)
            wrong[tool] += not exact
            cells.append(f"{here[0]:>6} {here[1]:>5} {times[tool] / times['exported']:>6.2f}{' ' if exact else '!'}")
        print(f"{path.name:36} " + " ".join(cells), flush=True)
    for tool in ("exported", *TOOLS):
        mean = math.exp(sum(logs[tool]) / len(logs[tool])) if logs[tool] else 1
        every, slicing = totals[tool]
        print(f"{tool:20} {every:>6} nodes {slicing:>5} that slice, latency {mean:.3f}, {wrong[tool]} not bit-equal")


if __name__ == "__main__":
    main()
