"""Our Slice against the built-in one on OpenVINO's CPU plugin, as ratios of time: `python benchmarks/evaluate.py`.

All variants run in one process. They take turns of several inferences each, and the best of all turns counts. Inputs
are shared and outputs are not copied, because copies would hide the time of the operators. A ratio below 1 means that
ours is faster. For comparison, each row also shows onnxruntime's CPU provider, and a plain copy of the output's number
of bytes by the same number of threads.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

import numpy as np
import onnxruntime
import openvino as ov
from onnx import TensorProto, helper, numpy_helper
from openvino import opset8
from turns import best_of_turns

import ov_ext
from ov_ext.operators.copy import Plan
from sliceport.slicing import Region

LARGE, MEDIUM, TINY, PICTURE = (64, 1024, 256), (4, 256, 256), (1, 8, 8), (1, 3, 640, 640)
"""Shapes of 64 MiB, 1 MiB and 256 bytes of float32, and of a picture."""
# Each form has an index of Python slices and the kind of its selection. The size of the last axis differs, so a last
# element "half" in an index stands for its first half.
FORMS: dict[str, tuple[tuple[Any, ...], str]] = {
    "all but the ends": ((slice(None), slice(1, -1)), "contiguous"),
    "half of the last axis": ((slice(None), slice(None), slice(None), "half"), "contiguous"),
    "every other row": ((slice(None), slice(1, None, 2)), "outer"),
    "every other of all": ((slice(None, None, 2), slice(None, None, 2)), "outer"),
    "every other element": ((slice(None), slice(None), slice(None, None, 2)), "inner"),
    "every third element": ((slice(None), slice(1, None), slice(None, None, 3)), "inner"),
    "rows backwards": ((slice(None), slice(None, None, -1)), "backwards rows"),
    "elements backwards": ((slice(None), slice(None), slice(None, None, -1)), "reversed"),
}
FOCUS = (slice(None), slice(None), slice(None, None, 2), slice(None, None, 2))
ELEMENTS = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16, np.uint8: TensorProto.UINT8}
FAR = 2**31 - 1
"""A bound beyond every axis."""
Index = tuple[Any, ...]
Run = Callable[[], object]


def bounds(index: Index, shape: tuple[int, ...]) -> tuple[list[int], ...]:
    """Return the starts, stops, steps and axes of an index; see `FORMS`."""
    slices = list(index[: len(shape)])
    if index[-1] == "half":
        slices[-1] = slice(0, shape[-1] // 2)
    starts, stops, steps = [], [], []
    for cut in slices:
        step = cut.step or 1
        starts.append(cut.start if cut.start is not None else (0 if step > 0 else -1))
        stops.append(cut.stop if cut.stop is not None else (FAR if step > 0 else -FAR))
        steps.append(step)
    return starts, stops, steps, list(range(len(slices)))


def model(make_slice: Callable[..., Any], data: np.ndarray, index: Index, dynamic: bool) -> ov.Model:
    """Return a model of one slice, with open sizes if `dynamic` is true."""
    shape = [-1] * data.ndim if dynamic else list(data.shape)
    source = opset8.parameter(shape, ov.Type(data.dtype))
    constants = [opset8.constant(np.array(values, np.int64)) for values in bounds(index, data.shape)]
    return ov.Model([make_slice([source, *constants])], [source], "m")


def built_in(inputs: Any) -> Any:
    """Return OpenVINO's own operator."""
    return opset8.slice(*inputs)


def ours(backend: str) -> Callable[..., Any]:
    """Return a function that builds our operator, in C++ or in Python."""

    def make(inputs: Any) -> Any:
        os.environ["SLICEPORT_BACKEND"] = backend  # `ov_ext` reads it when it makes an operator
        return ov_ext.Slice(inputs)

    return make


def openvino_run(make_slice: Callable[..., Any], data: np.ndarray, index: Index, dynamic: bool) -> Run:
    """Return a function that runs an inference of OpenVINO."""
    request = ov.Core().compile_model(model(make_slice, data, index, dynamic), "CPU").create_infer_request()
    request.set_input_tensor(ov.Tensor(data, shared_memory=True))
    return lambda: request.infer(share_outputs=True)


def onnxruntime_run(data: np.ndarray, index: Index) -> Run:
    """Return a function that runs an inference of onnxruntime's CPU provider into allocated memory."""
    names = ("starts", "ends", "steps", "axes")
    values = dict(zip(names, bounds(index, data.shape), strict=True))
    element = ELEMENTS[data.dtype.type]
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "starts", "ends", "axes", "steps"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", element, data.shape)],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in values.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", data)
    binding.bind_ortvalue_output(
        "y", onnxruntime.OrtValue.ortvalue_from_numpy(np.empty_like(session.run(None, {"x": data})[0]))
    )
    return lambda: session.run_with_iobinding(binding)


def copy_run(data: np.ndarray, index: Index) -> Run:
    """Return a function that copies the output's number of bytes by the same number of threads."""
    starts, stops, steps, _ = bounds(index, data.shape)
    python_stops = [None if stop == -FAR else stop for stop in stops]
    size = data[tuple(map(slice, starts, python_stops, steps))].nbytes
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    plan = Plan(Region.of((size,), (range(size),)))
    return lambda: plan.copy(source, target)


def queue_run(make_slice: Callable[..., Any], data: np.ndarray, index: Index, dynamic: bool) -> Run:
    """Return a function that runs eight requests in two streams."""
    compiled = ov.Core().compile_model(model(make_slice, data, index, dynamic), "CPU", {"NUM_STREAMS": "2"})
    requests = [compiled.create_infer_request() for _ in range(8)]
    for request in requests:
        request.set_input_tensor(ov.Tensor(data.copy(), shared_memory=True))

    def run() -> None:
        for request in requests:
            request.start_async()
        for request in requests:
            request.wait()

    return run


class Table:
    """Rows that are printed as they are measured, and the ratios of our operator in C++ by size and kind of slice.

    Args:
        kinds: Functions that make a slice, by the name of the kind: `built-in`, `native` and maybe `python`.
        seconds: The time to measure each row.
    """

    def __init__(self, kinds: dict[str, Callable[..., Any]], seconds: float) -> None:
        self.kinds, self.seconds = kinds, seconds
        self.ratios: dict[str, list[float]] = {}
        columns = "".join(f"{name:>10}" for name in kinds if name != "built-in")
        print(f"{'type':8}{'size':9}{'what':25}{'shapes':9}{'built-in us':>12}", end="")
        print(f"{columns}{'ort':>8}{'copy us':>10}{'/copy':>7}")

    def add(self, size: str, title: str, data: np.ndarray, index: Index, dynamic: bool, *keys: str) -> None:
        """Measure a slice, print its row, and add its ratio to the ratios of each key."""
        runs = {name: openvino_run(make_slice, data, index, dynamic) for name, make_slice in self.kinds.items()}
        runs |= {"ort": onnxruntime_run(data, index), "copy": copy_run(data, index)}
        best = best_of_turns(runs, self.seconds)
        ratios = {name: seconds / best["built-in"] for name, seconds in best.items()}
        for key in keys:
            self.ratios.setdefault(key, []).append(ratios["native"])
        shown = "".join(f"{ratios[name]:10.2f}" for name in self.kinds if name != "built-in")
        print(
            f"{data.dtype.name:8}{size:9}{title:25}{'dynamic' if dynamic else 'static':9}{best['built-in'] * 1e6:12.1f}"
            f"{shown}{ratios['ort']:8.2f}{best['copy'] * 1e6:10.1f}{best['native'] / best['copy']:7.2f}",
            flush=True,
        )

    def aim(self, title: str, aim: str, *keys: str, worst: bool = True) -> None:
        """Print the worst ratio of some keys, or their geometric mean, next to the aim, if there are ratios."""
        ratios = [ratio for key in keys for ratio in self.ratios.get(key, [])]
        if ratios:
            text = f"{title}: {max(ratios) if worst else geometric_mean(ratios):.2f}"
            print(f"{text:62} (aim: at most {aim}; median {sorted(ratios)[len(ratios) // 2]:.2f})")


def measure_queues(kinds: dict[str, Callable[..., Any]], seconds: float) -> None:
    """Print ratios for eight requests in two streams, by size and kind of shapes."""
    index = FORMS["all but the ends"][0]
    for size, shape, aim in (("tiny", TINY, 1.2), ("medium", MEDIUM, 1.0), ("large", (16, 1024, 256), 1.0)):
        for dynamic in (False, True):
            data = np.ones(shape, np.float32)
            runs = {name: queue_run(make_slice, data, index, dynamic) for name, make_slice in kinds.items()}
            best = best_of_turns(runs, seconds)
            shown = ", ".join(f"{name} {best[name] / best['built-in']:.2f}" for name in kinds if name != "built-in")
            shapes = "dynamic" if dynamic else "static"
            print(f"8 requests in 2 streams, {size} {shapes}: {shown} (aim: at most {aim})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each line; default 1")
    parser.add_argument("--sizes", nargs="*", default=["large", "medium", "tiny"], help="default: large medium tiny")
    parser.add_argument("--python", action="store_true", help="also measure the operator in Python")
    options = parser.parse_args()
    kinds = {"built-in": built_in, "native": ours("native")} | ({"python": ours("python")} if options.python else {})
    table = Table(kinds, options.seconds)
    for size, shape in (("large", LARGE), ("medium", MEDIUM), ("tiny", TINY)):
        for element in ELEMENTS if size in options.sizes else ():
            scale = 4 // np.dtype(element).itemsize
            sizes = (shape[0] * scale, *shape[1:]) if size != "tiny" else shape
            data = np.random.default_rng(0).integers(0, 100, sizes).astype(element)
            for title, (index, family) in FORMS.items():
                for dynamic in (False, True):
                    if size != "large" or not dynamic:
                        keys = (f"{size} {'dynamic' if dynamic else 'static'}", f"{size} {family}")
                        table.add(size, title, data, index, dynamic, *keys)
    if "medium" in options.sizes:
        picture = np.random.default_rng(0).integers(0, 100, PICTURE).astype(np.float32)
        table.add("medium", "focus", picture, FOCUS, False, "medium static", "medium focus")
    table.aim("64 MiB contiguous, worst", "1.0", "large contiguous")
    table.aim("64 MiB outer step, worst", "1.0", "large outer")
    table.aim("64 MiB rows backwards, worst", "1.0", "large backwards rows")
    table.aim("64 MiB inner step and reverse, worst", "0.15", "large inner", "large reversed")
    table.aim("1 MiB crop and inner half, worst", "1.0", "medium contiguous")
    table.aim("1 MiB rows, worst", "1.0", "medium outer")
    table.aim("1 MiB focus", "1.0", "medium focus")
    table.aim("1 to 64 MiB, mean", "0.5", "large static", "medium static", "medium dynamic", worst=False)
    table.aim("tiny static, mean", "1.10", "tiny static", worst=False)
    table.aim("tiny dynamic, mean", "1.3", "tiny dynamic", worst=False)
    measure_queues(kinds, options.seconds)


if __name__ == "__main__":
    main()
