"""The open sizes of a model at which onnxruntime ends the process if they are 0."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import onnx
from forked import run

IN_A_PROCESS = """
import json, sys, numpy, onnx, onnxruntime
sizes = json.loads(sys.argv[2])
inputs = {}
for value in onnx.load(sys.argv[1]).graph.input:
    kind = value.type.tensor_type
    shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in kind.shape.dim]
    inputs[value.name] = numpy.ones(shape, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
onnxruntime.InferenceSession(sys.argv[1], options).run(None, inputs)
"""


def run_on_ones(model: onnx.ModelProto, sizes: Mapping[str, int], folder: Path) -> int:
    """Run a model in a process with onnxruntime, and return its status, which is 1 for an error of onnxruntime."""
    onnx.save(model, folder / "model.onnx")
    return run(["-c", IN_A_PROCESS, str(folder / "model.onnx"), json.dumps(sizes)]).returncode


def find_fatal_sizes(model: onnx.ModelProto, folder: Path) -> set[str]:
    """Return the names of the open sizes at which a process with onnxruntime ends if one of them is 0."""
    dims = [dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim]
    names = list(dict.fromkeys(filter(None, dims)))
    fatal = set()
    for empty in names:
        sizes = {name: 0 if name == empty else 2 + i for i, name in enumerate(names)}
        if run_on_ones(model, sizes, folder) not in (0, 1):
            fatal.add(empty)
    return fatal
