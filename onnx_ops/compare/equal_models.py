"""Whether two ONNX models compute the same, bit for bit, on onnxruntime's CPU provider."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnx_ops.compare import onnxruntime_cpu
from onnx_ops.compare.inputs import run_with_inputs
from onnx_ops.model.load import from_proto, read_proto


def differing_outputs(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, npt.NDArray[Any]] | None = None,
    seed: int = 0,
) -> list[str]:
    """The names of the outputs that differ; both models run on the same inputs, optimisation off.

    Args:
        first: A model's file.
        second: Another's, with the same inputs and outputs.
        input_shapes: Sizes for inputs whose shape is open, by name.
        inputs: Arrays for inputs; random ones that fit are made for the others.
        seed: For the random inputs.

    Raises:
        UsageError: An input does not fit.
        ModelError: A model cannot be read, or onnxruntime cannot run it.
    """
    given = dict(inputs or {})
    shapes = {name: array.shape for name, array in given.items()} | dict(input_shapes or {})
    proto = read_proto(first)
    folder = os.path.dirname(os.path.abspath(first))
    names = [output.name for output in proto.graph.output]
    arrays, expected = run_with_inputs(proto, from_proto(proto, folder), shapes, given, seed, names, folder)
    got = onnxruntime_cpu.capture(read_proto(second), arrays, names, os.path.dirname(os.path.abspath(second)))
    return [
        name
        for name in names
        if expected[name].shape != got[name].shape or not np.array_equal(expected[name].data, got[name].data)
    ]
