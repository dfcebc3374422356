"""Inputs that tell something about a shipped model, and the comparison of its outputs by the engines alone.

The inputs of a model are sets such as `input=wave:1,512 sr=16000`, separated by `; `: a kind and a shape, or a number,
for each input. Every set is drawn twice. An output is judged relative to its own spread, the range of its values over
all sets. Nothing here imports sliceport.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]
Set = dict[str, Array]
Values = list[list[Array]]
"""The outputs of a model in their order, for each set of inputs."""

CLOSE = 1e-3
"""Largest difference of close outputs, relative to the spread of the output."""

DIGITS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgcde", "abc", "abcdefg", "abcdfg")
"""The lit segments of a seven-segment display for each digit."""
SEGMENTS = {"a": (0, 0, 0, 2), "b": (0, 2, 2, 2), "c": (2, 2, 4, 2), "d": (4, 0, 4, 2), "e": (2, 0, 4, 0)}
SEGMENTS |= {"f": (0, 0, 2, 0), "g": (2, 0, 2, 2)}
"""Top, left, bottom and right of each segment, in halves of the width of a digit."""


def draw_digits(shape: Sequence[int], generator: np.random.Generator) -> Array:
    """Return an image of random dark digits on a light ground, between -1 and 1, with a little noise."""
    height, width = shape[-2:]
    image = np.ones((height, width))
    pen, half = max(2, height // 20), height * 7 // 40
    above = (height - 4 * half) // 2
    for left in range(2 * pen, width - 2 * half - pen, 2 * half + 4 * pen):
        for segment in DIGITS[generator.integers(10)]:
            y0, x0, y1, x1 = (half * place for place in SEGMENTS[segment])
            image[above + y0 : above + y1 + pen, left + x0 : left + x1 + pen] = -1
    return image + generator.normal(0, 0.05, shape)


def draw_wave(shape: Sequence[int], generator: np.random.Generator) -> Array:
    """Return a wave like a voice at 16 kHz: eight harmonics that swell, and a little noise."""
    seconds = np.arange(shape[-1]) / 16000
    pitch = generator.uniform(90, 250, (*shape[:-1], 1))
    phases = generator.uniform(0, 6, (8, *pitch.shape))
    voice = sum(np.sin(2 * np.pi * pitch * k * seconds + phase) / k for k, phase in enumerate(phases, 1))
    swell = 0.12 + 0.08 * np.sin(6 * np.pi * seconds)
    return np.asarray(voice * swell + generator.normal(0, 0.01, shape))


def draw(kind: str, shape: Sequence[int], generator: np.random.Generator) -> Array:
    """Return values of a kind: image, pixels (of 0 to 255), wave, samples (of 16 bits), normal, wide, or integers9."""
    if kind in ("image", "pixels"):
        image = draw_digits(shape, generator)
        return image if kind == "image" else 127.5 * (image + 1)
    if kind in ("wave", "samples"):
        return draw_wave(shape, generator) * (30000 if kind == "samples" else 1)
    if kind.startswith("integers"):
        return generator.integers(0, int(kind.removeprefix("integers")), shape)
    return generator.normal(0, 3 if kind == "wide" else 1, shape)


def draw_sets(model: onnx.ModelProto, text: str) -> list[Set]:
    """Draw the sets of inputs that a text describes, twice each."""
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    sets = []
    for seed, line in enumerate(text.split("; ") * 2):
        generator = np.random.default_rng(seed)
        inputs = {}
        for name, value in (item.split("=") for item in line.split()):
            kind, _, sizes = value.partition(":")
            values = draw(kind, [int(size) for size in sizes.split(",")], generator) if sizes else np.array(float(kind))
            inputs[name] = values.astype(onnx.helper.tensor_dtype_to_np_dtype(types[name]))
        sets.append(inputs)
    return sets


def guess_sets(model: onnx.ModelProto, size: int) -> str:
    """Return a text of inputs for a model that has none: each open size but the first of an input is `size`."""
    constants = {tensor.name for tensor in model.graph.initializer}
    items = []
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dims = [dim.dim_value if dim.dim_value > 0 else size if i else 1 for i, dim in enumerate(tensor.shape.dim)]
        is_float = tensor.elem_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
        kind = f"{'normal' if is_float else 'integers2'}:{','.join(map(str, dims))}" if dims else "1"
        if value.name not in constants:
            items.append(f"{value.name}={kind}")
    return " ".join(items)


def compute(engine: str, path: str, sets: list[Set]) -> Values:
    """Run a model on an engine: `none` or `all`, levels of onnxruntime, or `openvino` or `openvino:f32`."""
    if engine.startswith("openvino"):
        import openvino

        hints = {"INFERENCE_PRECISION_HINT": "f32"} if engine.endswith(":f32") else {}
        compiled = openvino.Core().compile_model(path, "CPU", hints)
        names = [port.names for port in compiled.inputs]

        def run(inputs: Set) -> list[Array]:
            arrays = [next(inputs[name] for name in inputs if name in port) for port in names]
            return [np.array(value) for value in compiled(arrays).values()]
    else:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_DISABLE_ALL if engine == "none" else levels.ORT_ENABLE_ALL
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def run(inputs: Set) -> list[Array]:
            return [np.asarray(value) for value in session.run(None, inputs)]

    return [run(inputs) for inputs in sets]


def compute_apart(engine: str, path: Path, sets: list[Set]) -> Values | str:
    """Run a model as `compute` does, in a process that may end. Return the reason if the model does not run."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(compute, engine, str(path), sets).result(600)
        except BrokenProcessPool:
            return "the process ended"
        except Exception as error:
            return f"{type(error).__name__}: {str(error).strip()[:300]}"


def spreads(values: Values) -> list[float]:
    """Return the range of the finite values of each output over all sets. It is 0 for an output that tells nothing."""
    ranges = []
    for arrays in zip(*values, strict=True):
        flat = np.concatenate([np.asarray(array, np.float64).reshape(-1) for array in arrays])
        flat = flat[np.isfinite(flat)]
        ranges.append(float(np.ptp(flat)) if flat.size else 0.0)
    return ranges


def difference(old: Values, new: Values) -> float:
    """Return the largest difference of two models' outputs relative to their spread: 0 only if they are bit-equal.

    Infinity stands for another shape, or NaN or infinity in another place, or other integers.
    """
    worst = 0.0
    if [len(arrays) for arrays in old] != [len(arrays) for arrays in new]:
        return float("inf")
    for index, spread in enumerate(spreads(old)):
        for a, b in zip((arrays[index] for arrays in old), (arrays[index] for arrays in new), strict=True):
            if a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes():
                continue
            if a.shape != b.shape or a.dtype.kind != "f" or not np.array_equal(np.isfinite(a), np.isfinite(b)):
                return float("inf")
            finite = np.isfinite(a)
            gap = np.abs(a[finite].astype(np.float64) - b[finite].astype(np.float64)).max(initial=0.0)
            worst = max(worst, float(gap) / (spread or 1.0), 1e-30)
    return worst


def describe(relative: float) -> str:
    """Return bit-equal, close or different for a result of `difference`, with the number."""
    if relative == 0:
        return "bit-equal"
    return f"{'close' if relative <= CLOSE else 'different'} ({relative:.1g} of the spread)"


def find_lone_culprit(folder: Path, engine: str) -> tuple[str, bool]:
    """Run the part that `diff -o` saved, and each node of it alone, on onnxruntime and the engine.

    Return a sentence, and whether the part is the smallest that differs: it differs, and none of its nodes does alone.
    """
    model = onnx.load(folder / "model.onnx")
    tensors = sorted((folder / "test_data_set_0").glob("input_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    arrays = [onnx.numpy_helper.to_array(onnx.load_tensor(path)) for path in tensors]
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in constants]
    inputs = dict(zip(names, arrays, strict=True))
    whole = compare_on(folder / "model.onnx", engine, [inputs])
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    if isinstance(whole, float) and whole <= CLOSE / 10:
        return f"the saved part does not differ on {engine}: {describe(whole)}", False
    if len(nodes) == 1 or isinstance(whole, str):
        return f"the part differs: {whole if isinstance(whole, str) else describe(whole)}", True
    everything = onnx.ModelProto()
    everything.CopyFrom(model)
    del everything.graph.output[:]
    produced = [name for node in model.graph.node for name in node.output if name]
    everything.graph.output.extend(onnx.ValueInfoProto(name=name) for name in produced)
    path = folder / "judge.onnx"
    onnx.save(everything, path)
    answer = compute_apart("none", path, [inputs])
    if isinstance(answer, str):
        return f"the part differs: {describe(whole)}, but its nodes could not be judged: {answer}", True
    known = {**inputs, **dict(zip(produced, answer[0], strict=True))}
    known |= {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in nodes:
        feeds = {name: known[name] for name in dict.fromkeys(node.input) if name}
        graph = onnx.helper.make_graph(
            [node],
            "one",
            [_declare(name, feeds[name]) for name in feeds if name not in constants],
            [_declare(name, known[name]) for name in node.output if name],
            [tensor for tensor in model.graph.initializer if tensor.name in feeds],
        )
        one = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        onnx.save(one, path)
        alone = compare_on(path, engine, [{name: feeds[name] for name in feeds if name not in constants}])
        if isinstance(alone, float) and alone > max(whole / 3, CLOSE / 10):
            return f"{node.op_type} '{node.name}' alone differs as the part does: {describe(alone)}", False
    return f"the part differs: {describe(whole)}, and no node of it alone", True


def _declare(name: str, array: Array) -> onnx.ValueInfoProto:
    """Declare a value by its name, element type and shape."""
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def compare_on(path: Path, engine: str, sets: list[Set]) -> float | str:
    """Return the difference between onnxruntime and an engine for a model, or the reason why one does not run it."""
    old, new = (compute_apart(name, path, sets) for name in ("none", engine))
    if isinstance(old, str) or isinstance(new, str):
        return f"onnxruntime: {old}" if isinstance(old, str) else f"{engine}: {new}"
    return difference(old, new)
