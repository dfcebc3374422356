"""Worker of `benchmarks/portable.py`: it runs models on one engine, in the Python that has that engine.

    python benchmarks/portable_engines.py ENGINE FILE

Each line of FILE is a folder with `model.onnx`, `inputs.npz` and `names.json`; its outputs go into `outputs.npz`. The
worker prints the folder when it begins, and a line of JSON when it ends.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Run = Callable[[Path, Arrays], list[Any]]


def open_onnxruntime() -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def run(model: Path, inputs: Arrays) -> list[Any]:
        return list(onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"]).run(None, inputs))

    return run


def open_openvino() -> Run:
    import openvino

    core = openvino.Core()

    def run(model: Path, inputs: Arrays) -> list[Any]:
        compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
        results = compiled(list(inputs.values()))
        return [np.array(results[i]) for i in range(len(compiled.outputs))]

    return run


def open_tract() -> Run:
    import tract

    def run(model: Path, inputs: Arrays) -> list[Any]:
        runnable = tract.onnx().load(str(model)).into_model().into_runnable()
        return [result.to_numpy() for result in runnable.run(list(inputs.values()))]

    return run


def open_tinygrad() -> Run:
    from tinygrad.nn.onnx import OnnxRunner

    return lambda model, inputs: [value.numpy() for value in OnnxRunner(str(model))(inputs).values()]


def open_tvm() -> Run:
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    def run(model: Path, inputs: Arrays) -> list[Any]:
        module = from_onnx(onnx.load(model), keep_params_in_input=False)
        machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
        results = machine["main"](*[tvm.runtime.tensor(np.ascontiguousarray(value)) for value in inputs.values()])
        return [results.numpy()] if hasattr(results, "numpy") else [result.numpy() for result in results]

    return run


def open_onnx2torch() -> Run:
    import onnx2torch
    import torch

    torch.set_num_threads(1)

    def run(model: Path, inputs: Arrays) -> list[Any]:
        module = onnx2torch.convert(str(model)).eval()
        with torch.no_grad():
            results = module(*[torch.from_numpy(np.array(value)) for value in inputs.values()])
        return [result.numpy() for result in (results if isinstance(results, tuple | list) else [results])]

    return run


def open_mnn() -> Run:
    import _tools  # `mnnconvert`, without its report of usage over the network
    import MNN.expr
    import MNN.nn

    kinds = {"float32": MNN.expr.float, "int32": MNN.expr.int, "uint8": MNN.expr.uint8}
    stored = {"float64": "float32", "float16": "float32", "int64": "int32", "bool": "int32"}

    def read(value: Any) -> Any:
        shape = list(value.shape)
        if 0 in shape:  # MNN cannot read a value without elements
            return np.zeros(shape, np.float32)
        return np.array((MNN.expr.convert(value, MNN.expr.NCHW) if len(shape) > 1 else value).read()).reshape(shape)

    def run(model: Path, inputs: Arrays) -> list[Any]:
        converted = model.with_suffix(".mnn")
        words = ["mnnconvert", "-f", "ONNX", "--modelFile", str(model), "--MNNModel", str(converted), "--bizCode", "x"]
        _tools.mnnconvert(words)
        names = json.loads((model.parent / "names.json").read_text())
        network = MNN.nn.load_module_from_file(str(converted), list(inputs), names)
        values = []
        for value in inputs.values():
            array = np.ascontiguousarray(value.astype(stored.get(str(value.dtype), str(value.dtype))))
            values.append(MNN.expr.placeholder(list(array.shape), MNN.expr.NCHW, kinds[str(array.dtype)]))
            if array.size:
                values[-1].write(array)
        results = network.forward(values)
        return [read(result) for result in (results if isinstance(results, list | tuple) else [results])]

    return run


def open_iree() -> Run:
    import iree.runtime
    from iree.compiler import compile_str
    from iree.compiler.tools.import_onnx import __main__ as importer

    def run(model: Path, inputs: Arrays) -> list[Any]:
        text = model.with_suffix(".mlir")
        importer.main(importer.parse_arguments([str(model), "-o", str(text)]))
        options = {"target_backends": ["llvm-cpu"], "input_type": "onnx"}
        program = compile_str(text.read_text(), **options, extra_args=["--iree-llvmcpu-target-cpu=host"])
        module = iree.runtime.load_vm_flatbuffer(program, driver="local-sync")
        names = [name for name in module.vm_module.function_names if not name.startswith("__")]
        results = module[next(name for name in names if not name.endswith("$async"))](*inputs.values())
        return [
            np.asarray(result.to_host()) for result in (results if isinstance(results, tuple | list) else [results])
        ]

    return run


ENGINES: dict[str, Callable[[], Run]] = {
    "onnxruntime": open_onnxruntime,
    "openvino": open_openvino,
    "tract": open_tract,
    "tinygrad": open_tinygrad,
    "tvm": open_tvm,
    "onnx2torch": open_onnx2torch,
    "mnn": open_mnn,
    "iree": open_iree,
}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # engines print on stdout
    run = ENGINES[sys.argv[1]]()
    for folder in map(Path, Path(sys.argv[2]).read_text().split()):
        answers.write(f"{folder}\n")
        with np.load(folder / "inputs.npz") as file:
            inputs = dict(file)
        try:
            results = run(folder / "model.onnx", inputs)
            np.savez(folder / "outputs.npz", *map(np.asarray, results))
            answers.write(json.dumps({"refusal": ""}) + "\n")
        except BaseException as error:  # a panic of Rust is not an Exception
            answers.write(json.dumps({"refusal": f"{type(error).__name__}: {error}"[:300]}) + "\n")


if __name__ == "__main__":
    main()
