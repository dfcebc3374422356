"""Nodes, latency and exactness after `sliceport rewrite --simplify` and after other tools.

The models are those of `rewrite.py`. For each tool, the table has the number of nodes without constants, the number of
slicing nodes, and the latency: the shortest time of an inference on onnxruntime's CPU provider with all its
optimisations, as a ratio to the exported model. All models run in turn. A `!` marks a model that does not compute the
same bits as the exported one for one of ten inputs, without optimisations. With `--open`, open sizes of inputs stay
open, and some of the ten inputs have the sizes 0 and 1. The last lines name the models for which onnxscript or OnnxSlim
leaves fewer nodes and the same bits.

    pip install --group benchmarks
    python benchmarks/simplify.py [--seconds 2] [--trained] [--open] [NAME ...]
"""

from __future__ import annotations

import argparse
import logging
import math
import time
from collections import defaultdict
from collections.abc import Mapping
from statistics import geometric_mean
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from peers import PEERS, Shapes, by_simplify, by_sliceport, count_slicing, read_models

from onnx_ops.model.io import from_proto
from onnx_ops.passes.simplify.optimize import count_nodes
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.runnable import Runnable
from sliceport.errors import UsageError

INPUTS = 10
MAX_RANK = 64  # more axes than any input has
OURS = {"sliceport": by_sliceport, "--simplify": by_simplify}
STANDARD = ("onnxscript", "onnxslim")  # the last lines compare these tools with `OURS`
TOOLS = {**OURS, **PEERS}


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


def choose_shapes(proto: onnx.ModelProto, shapes: Shapes) -> list[Shapes]:
    """Return `shapes`, and shapes with 1 on all open axes, with 0 on an open axis 0, and with 0 on all open axes."""

    def with_size(size: int, axis_count: int) -> Shapes:
        """Return `shapes` with `size` on the open ones of the first `axis_count` axes of each input."""
        chosen = dict(shapes)
        for value in proto.graph.input:
            dims = value.type.tensor_type.shape.dim
            given = shapes.get(value.name, [dim.dim_value for dim in dims])
            chosen[value.name] = [
                dim.dim_value if dim.HasField("dim_value") else size if axis < axis_count else given[axis]
                for axis, dim in enumerate(dims)
            ]
        return chosen

    return [shapes, with_size(1, MAX_RANK), with_size(0, 1), with_size(0, MAX_RANK)]


def is_exact(before: onnx.ModelProto, after: onnx.ModelProto, shapes: Shapes) -> bool:
    """Return whether a model computes the same bits as the model before on `INPUTS` inputs, without optimisations.

    Inputs are skipped if the model before refuses their sizes, fails on them, or computes other bits in a second run.
    """
    network, side = Runnable(before, from_proto(before)), onnxruntime_cpu.side()
    whole_before, whole_after = (onnxruntime_cpu.build_whole_model(proto, network.outputs) for proto in (before, after))
    choices = choose_shapes(before, shapes)
    for seed in range(INPUTS):
        try:
            arrays = network.make_inputs({}, choices[seed % len(choices)], seed)
        except UsageError:  # the sizes do not fit the model
            continue
        expected = bits(side.try_run(whole_before, arrays))
        is_stable = expected is not None and expected == bits(side.try_run(whole_before, arrays))
        if is_stable and expected != bits(side.try_run(whole_after, arrays)):
            return False
    return True


def bits(values: Any) -> Any:
    """Return the type, shape and bytes of each array in the result of a run; None for a run that failed.

    The outputs are in a dict, and the elements of a sequence in a tuple.
    """
    if isinstance(values, Mapping):
        return {name: bits(value) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(map(bits, values))
    return (values.dtype.name, values.shape, values.tobytes()) if isinstance(values, np.ndarray) else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2, help="time to measure the latencies of each model")
    parser.add_argument("--trained", action="store_true", help="replace biases and scales of 0 and 1 by random ones")
    parser.add_argument("--open", action="store_true", help="keep open sizes of inputs open")
    parser.add_argument("names", nargs="*", help="only models with one of these in their names")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"{'all nodes, slicing nodes, latency':36} {'exported':>12} " + " ".join(f"{tool:>20}" for tool in TOOLS))
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    ratios: dict[str, list[float]] = defaultdict(list)
    wrong: dict[str, int] = defaultdict(int)
    fewer: list[str] = []
    for path, proto, arrays, shapes in read_models(options.names, is_trained=options.trained, is_open=options.open):
        exact_counts: dict[str, int] = {}
        protos, failed = {"exported": proto}, {}
        for tool, run in TOOLS.items():
            try:
                simplified = run(proto)
                open_session(simplified)  # raises an error if the model does not load
                protos[tool] = simplified
            except Exception as error:  # A tool that fails, or makes a model that does not load, is not compared.
                failed[tool] = type(error).__name__
        times = latencies(protos, arrays, options.seconds)
        cells = []
        for tool in ("exported", *TOOLS):
            if tool in failed:
                cells.append(f"{failed[tool]:>20}")
                continue
            all_nodes = count_nodes(ir.serde.deserialize_model(protos[tool]))
            slicing_nodes = count_slicing(protos[tool])
            totals[tool][0] += all_nodes
            totals[tool][1] += slicing_nodes
            if tool == "exported":
                exported_nodes = all_nodes
                cells.append(f"{all_nodes:>6} {slicing_nodes:>5}")
                continue
            ratios[tool].append(times[tool] / times["exported"])
            exact = is_exact(proto, protos[tool], shapes)
            wrong[tool] += not exact
            if exact:
                exact_counts[tool] = all_nodes
            mark = " " if exact else "!"
            cells.append(f"{all_nodes:>6} {slicing_nodes:>5} {times[tool] / times['exported']:>6.2f}{mark}")
        print(f"{path.name:36} " + " ".join(cells), flush=True)
        fewest = min((nodes for tool, nodes in exact_counts.items() if tool in OURS), default=exported_nodes)
        others = {tool: nodes for tool, nodes in exact_counts.items() if tool in STANDARD and nodes < fewest}
        fewer += [f"{path.name}: {tool} leaves {nodes} nodes, sliceport {fewest}" for tool, nodes in others.items()]
    for tool in ("exported", *TOOLS):
        mean = geometric_mean(ratios[tool]) if ratios[tool] else 1
        all_nodes, slicing_nodes = totals[tool]
        counted = f"{all_nodes:>6} nodes {slicing_nodes:>5} that slice"
        print(f"{tool:20} {counted}, latency {mean:.3f}, {wrong[tool]} not bit-equal")
    print("\n".join(fewer))


if __name__ == "__main__":
    main()
