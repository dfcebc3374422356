"""Does rewriting pay? Slicing nodes, the bytes that they move and the time that they take, before and after.

The exports of models/ and of ../shared/zoo where there is one, their input sizes given, by `sliceport rewrite` and, on
the same files, by OnnxSlim, onnxruntime's own offline optimisation (extended) and onnxscript's optimizer. Slicing nodes
are Slice, Split, and Gather by constant indices of which a Slice could do the work. Times are onnxruntime's own profile
of those nodes and of the Squeeze and Unsqueeze that read them, its optimisation off, mean of the faster half of many
runs, as ratios to the model as it was exported; bytes are what those nodes write.

    pip install --group benchmarks
    python benchmarks/rewrite.py [--runs 40] [--directml] [NAME ...]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from onnx_ops.compare.inputs import run_with_inputs
from onnx_ops.io import from_proto
from onnx_ops.nodes import constant
from onnx_ops.passes import rewrite

ROOT = Path(__file__).parents[1]
ZOO = ROOT.parent / "shared" / "zoo"
ZOO_SHAPES = {"gptneox_dyn.onnx": {"x": [1, 16]}, "ts_roformer_op13.onnx": {"x": [1, 16]}, "gpt2.onnx": {"x": [1, 16]}}
VIEWS = ("Squeeze", "Unsqueeze")


def static(path: Path, shapes: dict[str, list[int]]) -> onnx.ModelProto:
    proto = onnx.load(path)
    for value in proto.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.Clear()
            dim.dim_value = size
    return proto


def is_slicing(node: ir.Node) -> bool:
    if node.op_type in ("Slice", "Split"):
        return node.domain in ("", "ai.onnx")
    tensor = constant(node.inputs[1]) if node.op_type == "Gather" and node.inputs[1] is not None else None
    if tensor is None or len(tensor.shape) > 1:
        return False
    steps = set(np.diff(tensor.numpy().reshape(-1)).tolist())
    return len(steps) <= 1 and 0 not in steps


def count(proto: onnx.ModelProto) -> int:
    model = ir.serde.deserialize_model(proto)
    holders: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    return sum(is_slicing(node) for holder in holders for node in holder.all_nodes())


def by_sliceport(proto: onnx.ModelProto) -> onnx.ModelProto:
    model = from_proto(proto)
    rewrite(model)
    return ir.serde.serialize_model(model)


def by_onnxruntime(proto: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = f"{folder}/optimized.onnx"
        options.log_severity_level = 4
        ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
        return onnx.load(f"{folder}/optimized.onnx")


def by_onnxscript(proto: onnx.ModelProto) -> onnx.ModelProto:
    from onnxscript import optimizer

    model = ir.serde.deserialize_model(proto)
    optimizer.optimize(model)
    return ir.serde.serialize_model(model)


def by_onnxslim(proto: onnx.ModelProto) -> onnx.ModelProto:
    import onnxslim

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    slim: onnx.ModelProto = onnxslim.slim(copy)
    return slim


TOOLS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "sliceport": by_sliceport,
    "onnxruntime": by_onnxruntime,
    "onnxscript": by_onnxscript,
}
if importlib.util.find_spec("onnxslim"):
    TOOLS["onnxslim"] = by_onnxslim


def profile(proto: onnx.ModelProto, arrays: dict[str, np.ndarray], runs: int) -> tuple[float, int]:
    """Microseconds that the main graph's slicing nodes and the views of them take; bytes that the former write."""
    model = ir.serde.deserialize_model(proto)
    for i, node in enumerate(model.graph):
        above = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
        is_view = node.op_type in VIEWS and above is not None and is_slicing(above)
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
    faster_half = [
        sorted(each)[: (len(each) + 1) // 2] for each in times.values()
    ]  # whole microseconds: a mean is finer
    return sum(sum(each) / len(each) for each in faster_half), sum(written.values())


def directml(before: onnx.ModelProto, after: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> float | None:
    """The time of a whole session on onnxruntime's DirectML provider, after over before; None if it refuses one."""
    from sliceport.directml import device

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


def models() -> list[tuple[Path, dict[str, list[int]]]]:
    shapes = {entry["file"]: entry["input_shapes"] for entry in json.loads((ROOT / "models/models.json").read_text())}
    own = [path for path in sorted((ROOT / "models").glob("*.onnx")) if not path.name.startswith("rule_")]
    zoo = [(path, ZOO_SHAPES.get(path.name, {})) for path in sorted(ZOO.glob("*.onnx"))]
    return zoo + [(path, shapes.get(path.name) or {}) for path in own]


def ratio(after: float, before: float) -> str:
    return f"{after / before:.2f}" if before else "-"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--directml", action="store_true", help="also on onnxruntime's DirectML provider")
    parser.add_argument("names", nargs="*", help="only models with one of these in their names")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    head = " ".join(f"{tool:>24}" for tool in TOOLS)
    print(f"{'slicing nodes, time and bytes':36} {'exported':>8} {head}")
    nodes: dict[str, int] = defaultdict(int)
    logs: dict[str, list[float]] = defaultdict(list)
    worse = []
    for path, shapes in models():
        if options.names and not any(name in path.name for name in options.names):
            continue
        proto = static(path, shapes)
        names = [output.name for output in proto.graph.output]
        arrays, _ = run_with_inputs(proto, from_proto(proto), shapes, {}, 0, names)
        if any(array.dtype.kind == "V" or array.dtype.name == "bfloat16" for array in arrays.values()):
            print(f"{path.name:36} not compared: NumPy does not hand its inputs to onnxruntime")
            continue
        before, (time_before, bytes_before) = count(proto), profile(proto, arrays, options.runs)
        nodes["exported"] += before
        cells, counts, mine = [], {}, proto
        for tool, run in TOOLS.items():
            try:
                after = run(proto)
                time_after, bytes_after = profile(after, arrays, options.runs)
            except Exception as error:  # a tool that fails on a model is not compared on it
                cells.append(f"{type(error).__name__:>24}")
                continue
            mine = after if tool == "sliceport" else mine
            counts[tool] = count(after)
            nodes[tool] += counts[tool]
            if time_before:
                logs[tool].append(math.log(max(time_after, 0.5) / time_before))
            cells.append(f"{counts[tool]:>8} {ratio(time_after, time_before):>7} {ratio(bytes_after, bytes_before):>7}")
        if counts["sliceport"] > min(counts.values()):
            worse.append(path.name)
        on_directml = directml(proto, mine, arrays) if options.directml and mine is not proto else None
        extra = "" if on_directml is None else f"  DirectML {on_directml:.2f}"
        print(f"{path.name:36} {before:>8} {' '.join(cells)}{extra}", flush=True)
    totals = [
        f"{nodes[tool]:>8} {math.exp(sum(logs[tool]) / len(logs[tool])):>7.2f} {'':>7}" for tool in TOOLS if logs[tool]
    ]
    print(f"{'all; geometric mean of the times':36} {nodes['exported']:>8} {' '.join(totals)}")
    print(f"models where another tool leaves fewer: {', '.join(worse) or 'none'}")


if __name__ == "__main__":
    main()
