"""MNN, which has 32-bit elements only, so that types are not compared."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "MNN"
REQUIREMENTS = ["MNN==3.6.1", "numpy==2.4.6"]
SPILLS = True
PRELOAD = ("_tools", "MNN.expr", "MNN.nn")
LOOSE = True
_STORED = {"float64": "float32", "float16": "float32", "int64": "int32", "bool": "int32"}


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    import _tools  # the converter, without the command's report of usage over the network
    import MNN.expr
    import MNN.nn
    import numpy as np

    kinds = {"float32": MNN.expr.float, "int32": MNN.expr.int, "uint8": MNN.expr.uint8}

    def make_value(array: Any) -> Any:
        if array.dtype == np.int64:  # MNN stores 32 bits, and a cast would turn INT64_MAX into -1.
            array = array.clip(-(2**31), 2**31 - 1)
        array = array.astype(_STORED.get(str(array.dtype), array.dtype))
        if str(array.dtype) not in kinds:
            raise TypeError(f"MNN's Python package writes no elements of type {array.dtype}")
        value = MNN.expr.placeholder(list(array.shape), MNN.expr.NCHW, kinds[str(array.dtype)])
        if array.size:
            value.write(array)
        return value

    def read_value(value: Any) -> Any:
        shape = list(value.shape)
        if 0 in shape:  # MNN cannot read a value without elements
            return np.zeros(shape, np.float32)
        return np.array((MNN.expr.convert(value, MNN.expr.NCHW) if len(shape) > 1 else value).read()).reshape(shape)

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder, "model.mnn"))
            words = ["-f", "ONNX", "--modelFile", str(model), "--MNNModel", file, "--bizCode", "x"]
            _tools.mnnconvert(["mnnconvert", *words])
            network = MNN.nn.load_module_from_file(file, list(inputs), names)
        results = network.forward([make_value(value) for value in inputs.values()])
        results = results if isinstance(results, list | tuple) else [results]
        if len(results) != len(names):
            raise RuntimeError(f"forward returns {len(results)} outputs")
        return [read_value(result) for result in results]

    return run
