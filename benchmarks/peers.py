"""Rewriters and models that `rewrite.py` and `simplify.py` compare."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from onnx_ops.model.io import from_proto
from onnx_ops.model.nodes import constant
from onnx_ops.passes import rewrite, simplify
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.runnable import Runnable
from sliceport.engines.inputs import find_inputs_that_run

ROOT = Path(__file__).parents[1]
ZOO = ROOT.parent / "shared" / "zoo"  # more models, if this folder exists
ZOO_SHAPES = {"gptneox_dyn.onnx": {"x": [1, 16]}, "ts_roformer_op13.onnx": {"x": [1, 16]}, "gpt2.onnx": {"x": [1, 16]}}
Shapes = dict[str, list[int]]


def read_static(path: Path, shapes: Shapes) -> onnx.ModelProto:
    """Read a model and give its inputs the sizes in `shapes`. Other inputs keep theirs."""
    proto = onnx.load(path)
    for value in proto.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.Clear()
            dim.dim_value = size
    return proto


def train(proto: onnx.ModelProto) -> None:
    """Add noise to the float tensors of only 0 and 1, such as biases and scales that have not been trained."""
    generator = np.random.default_rng(0)
    constants = [node.attribute[0].t for node in proto.graph.node if node.op_type == "Constant"]
    for tensor in (*proto.graph.initializer, *constants):
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        array = onnx.numpy_helper.to_array(tensor)
        if array.size > 1 and set(array.reshape(-1).tolist()) <= {0.0, 1.0}:
            noise = 0.1 * generator.standard_normal(array.shape).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array + noise, tensor.name))


def is_slicing(node: ir.Node) -> bool:
    """Return whether a node is a Slice, a Split, or a Gather by constant indices that a Slice could replace."""
    if node.op_type in ("Slice", "Split"):
        return node.domain in ("", "ai.onnx")
    tensor = constant(node.inputs[1]) if node.op_type == "Gather" and node.inputs[1] is not None else None
    if tensor is None or len(tensor.shape) > 1:
        return False
    # A Slice can select these indices if they are evenly spaced.
    steps = set(np.diff(tensor.numpy().reshape(-1)).tolist())
    return len(steps) <= 1 and 0 not in steps


def count_slicing(proto: onnx.ModelProto) -> int:
    """Return the number of slicing nodes in a model, its subgraphs and its functions; see `is_slicing`."""
    model = ir.serde.deserialize_model(proto)
    holders: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    return sum(is_slicing(node) for holder in holders for node in holder.all_nodes())


def by_sliceport(proto: onnx.ModelProto) -> onnx.ModelProto:
    model = from_proto(proto)
    rewrite(model)
    return ir.serde.serialize_model(model)


def by_simplify(proto: onnx.ModelProto) -> onnx.ModelProto:
    return ir.serde.serialize_model(simplify(from_proto(proto))[0])


def by_onnxruntime(proto: onnx.ModelProto, level: str = "EXTENDED") -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
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


PEERS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "onnxruntime extended": by_onnxruntime,
    "onnxruntime basic": partial(by_onnxruntime, level="BASIC"),
    "onnxscript": by_onnxscript,
}
if importlib.util.find_spec("onnxslim"):
    PEERS["onnxslim"] = by_onnxslim


def list_models() -> list[tuple[Path, Shapes]]:
    """Return the files of ZOO and the exports in models/, each with the sizes of its open inputs."""
    shapes = {entry["file"]: entry["input_shapes"] for entry in json.loads((ROOT / "models/models.json").read_text())}
    own = [path for path in sorted((ROOT / "models").glob("*.onnx")) if not path.name.startswith("rule_")]
    zoo = [(path, ZOO_SHAPES.get(path.name, {})) for path in sorted(ZOO.glob("*.onnx"))]
    return zoo + [(path, shapes.get(path.name) or {}) for path in own]


def read_models(
    names: Sequence[str], *, is_trained: bool = False, is_open: bool = False
) -> Iterator[tuple[Path, onnx.ModelProto, dict[str, np.ndarray], Shapes]]:
    """Yield the file, the model, the inputs and the shapes of the open inputs for each model.

    Models with inputs of types that NumPy lacks are left out, and a line is printed about each.

    Args:
        names: Parts of names of files that select models; empty for all models.
        is_trained: Whether biases and scales get random values, as after training; see `train`.
        is_open: Whether open sizes of inputs stay open.

    Raises:
        ModelError: onnxruntime does not run a model.
    """
    for path, shapes in list_models():
        if names and not any(name in path.name for name in names):
            continue
        proto = onnx.load(path) if is_open else read_static(path, shapes)
        if is_trained:
            train(proto)
        network = Runnable(proto, from_proto(proto))
        arrays = find_inputs_that_run(network, onnxruntime_cpu.side(), shapes, {}, 0).arrays
        if any(array.dtype.kind == "V" or array.dtype.name == "bfloat16" for array in arrays.values()):
            print(f"{path.name:36} not compared: onnxruntime does not accept its inputs as NumPy arrays")
            continue
        yield path, proto, arrays, shapes
