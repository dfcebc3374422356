"""LiteRT, on models that onnx2tf converts."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from conformance.engines import Inputs, Run

TITLE = "LiteRT by onnx2tf"
REQUIREMENTS = [
    "onnx2tf==1.29.24", "ai-edge-litert==2.1.0", "tensorflow-cpu==2.19.1", "onnx==1.19.1", "onnx_graphsurgeon==0.5.8",
    "sng4onnx==2.0.1", "psutil==5.9.5", "tf_keras==2.19.0", "onnxsim==0.4.36", "numpy==1.26.4",
]  # fmt: skip


def open_engine() -> Run:
    """Load the engine, and return the function that runs a model on it."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import onnx2tf
    from ai_edge_litert.interpreter import Interpreter

    def run(model: Path, inputs: Inputs, names: list[str]) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(model, folder)  # onnx2tf writes files beside the model
            onnx2tf.convert(
                input_onnx_file_path=str(copy),
                output_folder_path=folder,
                non_verbose=True,
                output_signaturedefs=True,
                copy_onnx_input_output_names_to_tflite=True,
                keep_shape_absolutely_input_names=list(inputs),  # as written, not with channels last
            )
            file = next(Path(folder).glob("*_float32.tflite"))
            outputs = Interpreter(model_path=str(file)).get_signature_runner()(**inputs)
        if not outputs.keys() >= set(names):
            # onnx2tf names all outputs of a Split after the last one, in their order: y2, y2_1, …, y2_10.
            names = sorted(outputs, key=lambda name: (len(name), name))
        return [outputs[name] for name in names]

    return run
