"""Number, bytes and time of slicing nodes before and after rewriting.

`sliceport rewrite`, OnnxSlim, onnxruntime's own offline optimisation (basic and extended) and onnxscript's optimizer
rewrite the exports of models/, and of ../shared/zoo if it exists, with known input sizes. Slicing nodes are Slice,
Split, and Gather by constant indices that a Slice could replace. Times are those of these nodes and of the Squeeze and
Unsqueeze nodes that read them, in a profile of onnxruntime without its optimisations. The mean of the faster half of
many runs counts, as a ratio to the exported model. Bytes are those that the nodes write.

    pip install --group benchmarks
    python benchmarks/rewrite.py [--runs 100] [--directml] [NAME ...]
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from peers import PEERS, by_sliceport, count_slicing, is_slicing, read_models

TOOLS = {"sliceport": by_sliceport, **PEERS}
VIEWS = ("Squeeze", "Unsqueeze")


def profile(proto: onnx.ModelProto, arrays: dict[str, np.ndarray], runs: int) -> tuple[float, int]:
    """Return the microseconds of the main graph's slicing nodes and their views, and the bytes that the nodes write.

    A view is a Squeeze or Unsqueeze that reads a slicing node.
    """
    model = ir.serde.deserialize_model(proto)
    for i, node in enumerate(model.graph):
        producer = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
        is_view = node.op_type in VIEWS and producer is not None and is_slicing(producer)
        # The profile has the names of nodes, so the kind of a node becomes its name.
        node.name = f"{'slicing' if is_slicing(node) else 'view' if is_view else 'other'}{i}"
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_profiling = True
        options.profile_file_prefix = f"{folder}/profile"
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        serialized = ir.serde.serialize_model(model).SerializeToString()
        session = ort.InferenceSession(serialized, options, ["CPUExecutionProvider"])
        for _ in range(runs):
            session.run(None, arrays)
        events = json.loads(Path(session.end_profiling()).read_text())
    times: dict[str, list[int]] = defaultdict(list)
    written: dict[str, int] = {}
    for event in events:
        name = event["name"].removesuffix("_kernel_time")
        if event.get("cat") != "Node" or name == event["name"] or name.startswith("other"):
            continue
        times[name].append(event["dur"])
        if name.startswith("slicing"):
            written[name] = int(event["args"]["output_size"])
    # A mean, because the profile has whole microseconds, which are too coarse for the best run of a small node.
    faster_half = [sorted(each)[: (len(each) + 1) // 2] for each in times.values()]
    return sum(sum(each) / len(each) for each in faster_half), sum(written.values())


def directml(before: onnx.ModelProto, after: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> float | None:
    """Return the ratio of the best times of whole sessions on onnxruntime's DirectML provider; None if a run fails."""
    from sliceport import device

    names = [output.name for output in before.graph.output]
    best = [math.inf, math.inf]
    with device.open() as dml:
        for _ in range(5):
            for i, proto in enumerate((before, after)):
                start = time.perf_counter()
                try:
                    dml.run_onnx(proto.SerializeToString(), arrays, names)
                except Exception:
                    return None
                best[i] = min(best[i], time.perf_counter() - start)
    return best[1] / best[0]


def ratio(after: float, before: float) -> str:
    """Format a ratio; `-` if the model before has no slicing nodes."""
    return f"{after / before:.2f}" if before else "-"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--directml", action="store_true", help="also time onnxruntime's DirectML provider")
    parser.add_argument("names", nargs="*", help="only models with one of these in their names")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    head = " ".join(f"{tool:>24}" for tool in TOOLS)
    print(f"{'slicing nodes, time and bytes':36} {'exported':>8} {head}")
    node_totals: dict[str, int] = defaultdict(int)
    ratios: dict[str, list[float]] = defaultdict(list)
    worse = []
    for path, proto, arrays, _ in read_models(options.names):
        count_before, (time_before, bytes_before) = count_slicing(proto), profile(proto, arrays, options.runs)
        node_totals["exported"] += count_before
        cells, counts, rewritten = [], {}, proto
        for tool, run in TOOLS.items():
            try:
                after = run(proto)
                time_after, bytes_after = profile(after, arrays, options.runs)
            except Exception as error:  # a tool that fails on a model is not compared on it
                cells.append(f"{type(error).__name__:>24}")
                continue
            rewritten = after if tool == "sliceport" else rewritten
            counts[tool] = count_slicing(after)
            node_totals[tool] += counts[tool]
            if time_before:
                # A geometric mean needs values above 0. Half a microsecond stands for a time of no nodes.
                ratios[tool].append(max(time_after, 0.5) / time_before)
            cells.append(f"{counts[tool]:>8} {ratio(time_after, time_before):>7} {ratio(bytes_after, bytes_before):>7}")
        if counts["sliceport"] > min(counts.values()):
            worse.append(path.name)
        on_directml = directml(proto, rewritten, arrays) if options.directml and rewritten is not proto else None
        extra = "" if on_directml is None else f"  DirectML {on_directml:.2f}"
        print(f"{path.name:36} {count_before:>8} {' '.join(cells)}{extra}", flush=True)
    totals = [f"{node_totals[tool]:>8} {geometric_mean(ratios[tool]):>7.2f} {'':>7}" for tool in TOOLS if ratios[tool]]
    print(f"{'all; geometric mean of the times':36} {node_totals['exported']:>8} {' '.join(totals)}")
    print(f"models where another tool leaves fewer: {', '.join(worse) or 'none'}")


if __name__ == "__main__":
    main()
