"""IREE: compiled for the CPU by LLVM; its integers have no sign, so that types are not compared."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "IREE"
REQUIREMENTS = ["iree-base-compiler[onnx]==3.13.0", "iree-base-runtime==3.13.0", "onnx==1.23.2", "numpy==2.4.6"]
LOOSE = True


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    import iree.runtime
    import numpy as np
    from iree.compiler import compile_str
    from iree.compiler.tools.import_onnx import __main__ as importer

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "model.mlir")
            importer.main(importer.parse_arguments([str(model), "-o", str(text)]))
            options = {"target_backends": ["llvm-cpu"], "input_type": "onnx"}
            flags = ["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false"]
            program = compile_str(text.read_text(), **options, extra_args=flags)
        module = iree.runtime.load_vm_flatbuffer(program, driver="local-sync")
        functions = [name for name in module.vm_module.function_names if not name.startswith("__")]
        function = next(name for name in functions if not name.endswith("$async"))
        results = module[function](*inputs.values())
        results = results if isinstance(results, tuple | list) else [results]
        return [np.asarray(result.to_host()) for result in results]

    return run
