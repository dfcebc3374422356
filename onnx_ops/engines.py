"""Engines that run ONNX models, or single ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from onnx_ops.running.directml_provider import OnnxruntimeDML
from sliceport.engines.engine import Value, WholeModel
from sliceport.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

OPTIMIZERS = [
    "AttentionFusion", "Avx2WeightS8ToU8Transformer", "BiasDropoutFusion", "BiasGeluFusion",
    "BiasSkipLayerNormFusion", "BiasSoftmaxFusion", "CastChainElimination", "CastElimination", "ClipQuantRewrite",
    "CommonSubexpressionElimination", "ConstantFolding", "ConstantFoldingDQ", "ConstantSharing",
    "ConvActivationFusion", "ConvAddActivationFusion", "ConvAddFusion", "ConvBNFusion", "ConvMulFusion",
    "DQMatMulNBitsFusion", "DivMulFusion", "DoubleQDQPairsRemover", "DynamicQuantizeMatMulFusion",
    "EliminateDropout", "EliminateIdentity", "EliminateSlice", "EmbedLayerNormFusion", "EnsureUniqueDQForNodeUnit",
    "ExpandElimination", "FastGeluFusion", "FuseFp16InitializerToFp32NodeTransformer",
    "FuseInitializersTransformer", "FuseReluClip", "GatherSliceToSplitFusion", "GatherToSliceFusion",
    "GeluFusionL1", "GeluFusionL2", "GemmActivationFusion", "GemmSumFusion", "GemmTransposeFusion",
    "GqaValueLayoutTransformer", "GroupQueryAttentionFusion", "GroupQueryAttentionPreNormFusion",
    "LabelEncoderFusion", "LayerNormFusionL1", "LayerNormFusionL2", "MatMulActivationFusion", "MatMulAddFusion",
    "MatMulIntegerToFloatFusion", "MatMulNBitsFusion", "MatMulNBitsMlpFusion", "MatMulNBitsQkvFusion",
    "MatMulScaleFusion", "MatmulBNFusion", "MatmulTransposeFusion", "NchwcTransformer", "NhwcTransformer",
    "NoopElimination", "NotWhereFusion", "PadFusion", "PreShapeNodeElimination", "PropagateCastOps",
    "QDQFinalCleanupTransformer", "QDQPropagationTransformer", "QDQS8ToU8Transformer",
    "QDQSelectorActionTransformer", "QuickGeluFusion", "ReluQuantRewrite", "ReshapeFusion",
    "SimplifiedLayerNormFusion", "SkipLayerNormFusion", "SliceConcatToSpaceToDepthFusion", "SwiGluFusion",
    "TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider", "UnsqueezeElimination", "WeightBiasQuantization",
    "WhereDummyDq",
]  # fmt: skip
"""The optimizers of onnxruntime 1.32 that `disabled_optimizers` accepts: rewrite rules and transformers of the CPU."""


class OnnxruntimeCPU:
    """onnxruntime's CPU execution provider."""

    name = "onnxruntime-cpu"
    description = "onnxruntime's CPU provider, with its default optimisation"
    model_formats = ("onnx",)
    options: Mapping[str, str] = {
        "level": "none, basic, extended or all (default)",
        "disable": "optimizers to leave out, joined by +",
        "prepack": "yes (default) or no (default at the level none): whether kernels rearrange constant weights",
        "nodes": "yes or no (default): each node alone; level is then none by default, and prepack yes",
        "custom_ops": "a library of custom operators",
    }
    flags = ("prepack", "nodes")

    def version(self) -> str:
        """Return the version of onnxruntime. See `onnxruntime_cpu.load` for the errors."""
        from onnx_ops.running.onnxruntime_cpu import version

        return version()

    def run_model(self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]) -> dict[str, Value]:
        """Run a model in this process; see `ModelEngine`.

        Raises:
            ModelError: onnxruntime does not load or run the model.
            UsageError: The option `level` does not name a level, or onnxruntime does not load `custom_ops`.
            MemoryError, ImportError: See `session.run`.
        """
        from onnx_ops.running import session

        has_nodes = options.get("nodes") == "yes"
        level = options.get("level", "none" if has_nodes else "all")
        if level not in session.LEVELS:
            raise UsageError(f"{self.name} has the levels {', '.join(session.LEVELS)}, got {level!r}.")
        run = partial(
            session.run,
            level=level,
            disabled=_read_disabled_optimizers(options),
            prepacks=_prepacks(options),
            custom_ops=options.get("custom_ops", ""),
        )
        if not has_nodes:
            return run(model, inputs)
        import onnx

        from onnx_ops.running.onnx_graph import OnnxGraph
        from sliceport.search.case import compute_node_by_node

        graph = OnnxGraph(onnx.ModelProto.FromString(model.data), data_folder=model.data_folder)
        return compute_node_by_node(graph, inputs, run)

    def find_cause(self, options: Mapping[str, str], fails: Callable[[Mapping[str, str]], bool]) -> str:
        """Try prepacking, then bisect the optimizers, and return a clause about the cause; see `NamesCause`.

        The clause is empty if a run without optimisation and prepacking fails, too. `fails` runs the model with the
        options that it gets, and returns whether the run fails.
        """
        if _prepacks(options) and not fails({**options, "prepack": "no"}):
            return (
                "prepacking decides, not graph optimisation: with prepack=no (session.disable_prepacking) the result "
                "is right; kernels such as MatMulNBits with accuracy_level 4 round their inputs to int8 only with it"
            )
        if options.get("level") == "none" or fails({**options, "level": "none", "prepack": "no"}):
            return ""
        disabled = _read_disabled_optimizers(options)

        def fails_without(names: list[str]) -> bool:
            return fails({**options, "disable": "+".join([*disabled, *names])})

        suspects = OPTIMIZERS
        if fails_without(suspects):
            return "graph optimisation is to blame, but none of the optimizers that can be disabled"
        while len(suspects) > 1:  # if one optimizer alone is to blame, it is among the suspects
            half = suspects[: len(suspects) // 2]
            suspects = suspects[len(half) :] if fails_without(half) else half
        if fails_without(suspects):
            return "several optimizers are to blame: disabling one of them is not enough"
        return f"the optimizer {suspects[0]} is to blame: the result is right if disabled_optimizers names it"

    def script(self, options: Mapping[str, str]) -> str:
        """Return Python code that runs the model in the file `path`; see `WritesScript`."""
        from onnx_ops.running.session import LEVELS, NO_PREPACKING

        level = options.get("level", "all")
        entry = "" if _prepacks(options) else "options.add_session_config_entry({!r}, {!r})\n".format(*NO_PREPACKING)
        if "custom_ops" in options:
            entry += f"options.register_custom_ops_library({options['custom_ops']!r})\n"
        return (
            "import onnxruntime as ort\n"
            "options = ort.SessionOptions()\n"
            f"options.graph_optimization_level = ort.GraphOptimizationLevel.{LEVELS[level]}\n"
            f"{entry}"
            "session = ort.InferenceSession(path, options, providers=['CPUExecutionProvider'],\n"
            f"                               disabled_optimizers={_read_disabled_optimizers(options)!r})\n"
            "got = session.run(None, inputs)\n"
        )


class OnnxReference:
    """The reference evaluator of the onnx package."""

    name = "onnx-reference"
    description = "the reference evaluator of the onnx package; slow"
    model_formats = ("onnx",)
    options: Mapping[str, str] = {}

    def version(self) -> str:
        """Return the version of onnx."""
        return version("onnx")

    def run_model(self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]) -> dict[str, Value]:  # noqa: ARG002
        """Run a model in this process; see `ModelEngine`.

        Raises:
            ModelError: See `OnnxModel.load`.
            Exception: The evaluator fails; each operator has its own errors.
        """
        from onnx.reference import ReferenceEvaluator

        proto = model.load()
        results = ReferenceEvaluator(proto).run(list(model.outputs), dict(inputs))
        optionals = {value.name for value in proto.graph.output if value.type.HasField("optional_type")}
        return {
            # The evaluator's Optional returns a list of its value.
            name: _from_reference(result[0] if name in optionals and isinstance(result, list) else result)
            for name, result in zip(model.outputs, results, strict=True)
        }

    def script(self, options: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return Python code that runs the model in the file `path`; see `WritesScript`."""
        return "from onnx.reference import ReferenceEvaluator\ngot = ReferenceEvaluator(path).run(None, inputs)\n"


def _prepacks(options: Mapping[str, str]) -> bool:
    """Return whether kernels prepack weights: by default they do, but not at the level `none`."""
    return options.get("prepack", "no" if options.get("level") == "none" else "yes") == "yes"


def _read_disabled_optimizers(options: Mapping[str, str]) -> list[str]:
    """Return the optimizers that the option `disable` names."""
    return [name for name in options.get("disable", "").split("+") if name]


def _from_reference(result: Any) -> Value:
    """Convert a result of onnx's reference: lists become tuples, tensors arrays, and strings objects; None stays."""
    import numpy as np

    if result is None:
        return None
    if isinstance(result, list):
        return tuple(map(_from_reference, result))
    array = np.asarray(result)
    return array.astype(object) if array.dtype.kind == "U" else array


ONNXRUNTIME_CPU = OnnxruntimeCPU()
ONNXRUNTIME_DML = OnnxruntimeDML()
ONNX_REFERENCE = OnnxReference()
