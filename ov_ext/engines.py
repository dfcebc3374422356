"""OpenVINO's engines. All run slicing nodes of OpenVINO models. Two of them also run whole OpenVINO and ONNX models.

The model of a `SingleNode` is an `ov_ext.running.one_node.OneNode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ov_ext.running import OUR_ENGINE
from sliceport.engines.engine import SingleNode, Value, WholeModel
from sliceport.errors import MissingExtra

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class OpenVINOEngine:
    """A way in which OpenVINO computes a slicing node; see `NodeEngine`."""

    name: str
    description: str
    formats: tuple[str, ...] = ("openvino",)

    def run_node(self, node: SingleNode, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
        """Return the bytes of each output; see `NodeEngine`.

        Raises:
            ModelError: OpenVINO fails, or a known defect would end the process.
            InvalidSlice, UsageError: See `OneNode.run`.
        """
        outputs: list[npt.NDArray[np.uint8]] = node.model.run(self.name, data)
        return outputs


@dataclass(frozen=True)
class WholeModels(OpenVINOEngine):
    """An engine that also runs whole models; see `ModelEngine` for its attributes."""

    options: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ("nodes",)
    exact_options: Mapping[str, str] = field(default_factory=dict)
    model_formats: tuple[str, ...] = ("openvino", "onnx")

    def version(self) -> str:
        """Return the version of openvino. Raise MissingExtra if it is not installed."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("openvino")
        except PackageNotFoundError:
            raise MissingExtra.of("openvino", "openvino", f"by the engine {self.name!r}") from None

    def run_model(self, model: WholeModel, inputs: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Value]:
        """Run a model in this process; see `ModelEngine`.

        Raises:
            ModelError, UsageError, MemoryError: See `ov_ext.running.run_model.run_model`.
        """
        from ov_ext.running.node_by_node import compute_nodes, evaluate_nodes
        from ov_ext.running.run_model import evaluate, infer, run_model

        is_compiled, has_nodes = self.name == "openvino-cpu", options.get("nodes") == "yes"
        if has_nodes and not is_compiled:
            return evaluate_nodes(model, inputs)
        compute = partial(infer, options=options) if is_compiled else evaluate
        return run_model(model, inputs, partial(compute_nodes, compute=compute) if has_nodes else compute)

    def script(self, options: Mapping[str, str]) -> str:
        """Return Python code that runs the model in the file `path`; see `WritesScript`."""
        # `read_model` drops ONNX inputs that no node reads, so the arrays are found by name.
        head = "import openvino as ov\nmodel = ov.Core().read_model(path)\n"
        head += "arrays = [next(inputs[name] for name in port.names if name in inputs) for port in model.inputs]\n"
        if self.name == "openvino-cpu":
            hints = {"INFERENCE_PRECISION_HINT": options["precision"]} if "precision" in options else {}
            return f"{head}got = list(ov.compile_model(model, 'CPU', {hints!r})(arrays).values())\n"
        # `evaluate` gives the empty results their shapes.
        return (
            f"{head}tensors = [ov.Tensor(array) for array in arrays]\n"
            "results = [ov.Tensor(o.get_element_type(), ov.Shape([0])) for o in model.outputs]\n"
            "model.evaluate(results, tensors)\ngot = [tensor.data for tensor in results]\n"
        )


EVALUATE = WholeModels(
    "openvino",
    "built-in operators by Model.evaluate",
    options={"nodes": "yes or no (default): each node alone, by the CPU plugin in f32 if Model.evaluate fails"},
)
CPU_PLUGIN = WholeModels(
    "openvino-cpu",
    "built-in operators on the CPU plugin",
    options={
        "precision": "f32, f16 or bf16: the type to compute in",
        "nodes": "yes or no (default): each node alone, without graph passes",
    },
    exact_options={"precision": "f32"},
)
OURS = OpenVINOEngine(OUR_ENGINE, "the operators of ov_ext by Model.evaluate")
