"""OpenVINO's engines. All run slicing nodes of OpenVINO models. Two of them also run whole OpenVINO and ONNX models.

The model of a `SingleNode` is an `ov_ext.running.one_node.OneNode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ov_ext.running import OUR_ENGINE
from sliceport.engines.engine import SingleNode, Value, WholeModel
from sliceport.errors import MissingExtra

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ov_ext.running.run_model import Compute

    Options = Mapping[str, str]

# `read_model` drops ONNX inputs that no node reads, so the arrays are found by name.
_READ_SCRIPT = (
    "import openvino as ov\nmodel = ov.Core().read_model(path)\n"
    "arrays = [next(inputs[name] for name in port.names if name in inputs) for port in model.inputs]\n"
)


class OurOperators:
    """The operators of ov_ext by Model.evaluate; see `NodeEngine`."""

    name = OUR_ENGINE
    description = "the operators of ov_ext by Model.evaluate"
    formats = ("openvino",)
    is_custom = True

    def compute_by(self, options: Options) -> Compute:  # noqa: ARG002 - Model.evaluate has no options
        """Return the function that computes a model."""
        from ov_ext.running.run_model import evaluate

        return evaluate

    def run_node(self, node: SingleNode, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
        """Return the bytes of each output; see `NodeEngine` and, for the errors, `OneNode.run`."""
        compute = self.compute_by({})
        outputs: list[npt.NDArray[np.uint8]] = node.model.run(self.name, compute, data, is_custom=self.is_custom)
        return outputs


class ByEvaluate(OurOperators):
    """The built-in operators by Model.evaluate, which also runs whole models; see `ModelEngine`."""

    name = "openvino"
    description = "built-in operators by Model.evaluate"
    is_custom = False
    model_formats = ("openvino", "onnx")
    flags = ("nodes",)
    options: Mapping[str, str] = {
        "nodes": "yes or no (default): each node alone, by the CPU plugin in f32 if Model.evaluate fails"
    }

    def version(self) -> str:
        """Return the version of openvino. Raise MissingExtra if it is not installed."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("openvino")
        except PackageNotFoundError:
            raise MissingExtra.of("openvino", "openvino", f"by the engine {self.name!r}") from None

    def run_model(self, model: WholeModel, inputs: Mapping[str, Any], options: Options) -> dict[str, Value]:
        """Run a model in this process; see `ModelEngine` and, for the errors, `ov_ext.running.run_model.run_model`."""
        from ov_ext.running.node_by_node import evaluate_nodes
        from ov_ext.running.run_model import run_model

        if options.get("nodes") == "yes":
            return evaluate_nodes(model, inputs)
        return run_model(model, inputs, self.compute_by(options))

    def script(self, options: Options) -> str:  # noqa: ARG002 - as in `compute_by`
        """Return Python code that runs the model in the file `path`; see `WritesScript`."""
        # `evaluate` gives the empty results their shapes.
        return (
            f"{_READ_SCRIPT}tensors = [ov.Tensor(array) for array in arrays]\n"
            "results = [ov.Tensor(o.get_element_type(), ov.Shape([0])) for o in model.outputs]\n"
            "model.evaluate(results, tensors)\ngot = [tensor.data for tensor in results]\n"
        )


class CPUPlugin(ByEvaluate):
    """The built-in operators on the CPU plugin, on nodes and on whole models."""

    name = "openvino-cpu"
    description = "built-in operators on the CPU plugin"
    options: Mapping[str, str] = {
        "precision": "f32, f16 or bf16: the type to compute in",
        "nodes": "yes or no (default): each node alone, without graph passes",
    }
    exact_options: Mapping[str, str] = {"precision": "f32"}

    def compute_by(self, options: Options) -> Compute:
        """Return the function that compiles and runs a model, or each of its nodes; see `infer` for the options."""
        from ov_ext.running.node_by_node import compute_nodes
        from ov_ext.running.run_model import infer

        compute = partial(infer, options=options)
        return partial(compute_nodes, compute=compute) if options.get("nodes") == "yes" else compute

    def run_model(self, model: WholeModel, inputs: Mapping[str, Any], options: Options) -> dict[str, Value]:
        """Run a model in this process; see `ByEvaluate`."""
        from ov_ext.running.run_model import run_model

        return run_model(model, inputs, self.compute_by(options))

    def script(self, options: Options) -> str:
        """Return Python code that runs the model in the file `path`; see `WritesScript`."""
        hints = {"INFERENCE_PRECISION_HINT": options["precision"]} if "precision" in options else {}
        return f"{_READ_SCRIPT}got = list(ov.compile_model(model, 'CPU', {hints!r})(arrays).values())\n"


OURS = OurOperators()
EVALUATE = ByEvaluate()
CPU_PLUGIN = CPUPlugin()
