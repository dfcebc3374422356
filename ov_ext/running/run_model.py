"""Whole models on OpenVINO: by Model.evaluate, or compiled for the CPU plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy.typing as npt
import openvino as ov

from ov_ext.model.files import read_model_bytes
from ov_ext.model.tensors import numpy_type, to_array, to_tensor
from ov_ext.operators.error_text import last_sentence
from sliceport.engines.engine import Value, WholeModel
from sliceport.errors import ModelError

Compute = Callable[[ov.Model, list[ov.Tensor]], list[ov.Tensor]]
"""A function that returns the outputs of a model for the tensors of its inputs."""


def run_model(whole: WholeModel, inputs: Mapping[str, npt.NDArray[Any]], compute: Compute) -> dict[str, Value]:
    """Run a model and return its outputs by name, except those with elements of a type that `numpy_type` lacks.

    Args:
        whole: The model.
        inputs: An array for each input.
        compute: A function that returns the outputs of a model, such as `evaluate`.

    Raises:
        ModelError: OpenVINO does not read or run the model.
    """
    model = read_model_bytes(whole.data, whole.weights, whole.data_folder)
    try:
        if len(model.outputs) != len(whole.outputs):
            raise ModelError(f"OpenVINO reads {len(model.outputs)} outputs, but the model has {len(whole.outputs)}.")
        names = _match_inputs(model, whole.inputs, inputs)
        tensors = [to_tensor(inputs[n], port.get_element_type()) for n, port in zip(names, model.inputs, strict=True)]
        results = compute(model, tensors)
        outputs = {name: to_array(tensor) for name, tensor in zip(whole.outputs, results, strict=True)}
    except RuntimeError as error:
        raise ModelError(last_sentence(error)) from None
    return {name: array for name, array in outputs.items() if array is not None}


def _match_inputs(model: ov.Model, names: Sequence[str], arrays: Mapping[str, npt.NDArray[Any]]) -> Sequence[str]:
    """Return the name from `names` for each input of `model`. OpenVINO drops ONNX inputs that no node reads.

    An input may lack its name: OpenVINO also gives inputs no names, or that of another value, as of a Dropout's output.
    If there are as many inputs as names, all are then matched by position, else such inputs by order, type and shape.
    """
    matches = [next((name for name in names if name in port.get_names()), "") for port in model.inputs]
    if "" not in matches and len(set(matches)) == len(matches):
        return matches
    if len(matches) == len(names):
        return names
    nameless = [port for port, name in zip(model.inputs, matches, strict=True) if not name]

    def fits(port: ov.Output, name: str) -> bool:
        has_shape = port.get_partial_shape().compatible(ov.PartialShape(arrays[name].shape))
        return has_shape and numpy_type(port.get_element_type()) == arrays[name].dtype

    rest = combinations([name for name in names if name not in matches], len(nameless))
    orders = [order for order in rest if all(map(fits, nameless, order))]
    if len(orders) != 1:
        raise ModelError(f"OpenVINO reads {len(matches)} inputs, but the model has {len(names)}.")
    unmatched = iter(orders[0])
    return [name or next(unmatched) for name in matches]


def infer(model: ov.Model, tensors: list[ov.Tensor], options: Mapping[str, str]) -> list[ov.Tensor]:
    """Return the outputs of a model on the CPU plugin, or raise RuntimeError.

    The option `precision` is the type that the plugin computes in.
    """
    hints = {"INFERENCE_PRECISION_HINT": options["precision"]} if "precision" in options else {}
    request = ov.Core().compile_model(model, "CPU", hints).create_infer_request()
    for index, tensor in enumerate(tensors):
        request.set_input_tensor(index, tensor)
    request.start_async()  # If the plugin has one thread, the synchronous `infer` loses errors.
    request.wait()
    return [request.get_output_tensor(i) for i in range(len(model.outputs))]


def evaluate(model: ov.Model, tensors: list[ov.Tensor]) -> list[ov.Tensor]:
    """Return the outputs that Model.evaluate computes for a model.

    Raises:
        ModelError: Model.evaluate lacks an operator.
        RuntimeError: An operator or OpenVINO refuses the inputs.
    """
    # Model.evaluate sets the shapes of its results.
    results = [ov.Tensor(output.get_element_type(), ov.Shape([0])) for output in model.outputs]
    if not model.evaluate(results, tensors):
        raise ModelError("Model.evaluate cannot compute the model.")
    return results
