"""Comparing the slicing of an OpenVINO model: built-in operators, ours, and what both are lowered to."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov
from openvino import opset1, opset8

from onnx_ops.compare.onnxruntime_cpu import Captured
from onnx_ops.compare.run import OPERATOR_EXECUTORS, Comparison, Report, command_line, compare_node
from onnx_ops.dml.feature_levels import LATEST, FeatureLevel
from onnx_ops.dml.program import LoweredNode
from onnx_ops.errors import UsageError, unknown_name
from onnx_ops.slicing import SliceSpec, SplitSpec
from onnx_ops.slicing.node import SlicingNode
from onnx_ops.slicing.spec import MASKS
from ov_ext.lowering import lower
from ov_ext.passes import strided_slice
from ov_ext.read import element_type
from ov_ext.slice import Slice
from ov_ext.strided_slice import StridedSlice
from ov_ext.values import as_constant

Bytes = npt.NDArray[np.uint8]
REFERENCE, CPU, OURS = "openvino", "openvino-cpu", "ov_ext"
DEFAULT_EXECUTORS = (REFERENCE, CPU, OURS, "dml-emulator")
_MOST_RANDOM = 100


def compare(
    model: str | os.PathLike[str],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    executors: Sequence[str] = DEFAULT_EXECUTORS,
    feature_level: str | FeatureLevel = LATEST,
    seed: int = 0,
) -> Report:
    """Run each slicing node of a model alone, on random data, by several executors and compare bit for bit.

    Args:
        model: The model's file.
        input_shapes: Sizes for inputs by name.
        executors: Who takes part: `openvino`, the built-in operator by Model.evaluate, always, for what is expected;
            `openvino-cpu`, the same on the CPU plugin; `ov_ext`, ours, by Model.evaluate; `dml-emulator`; `directml`.
        feature_level: The DirectML feature level to lower for.
        seed: For the data.

    Raises:
        UsageError: An executor is not known or a shape does not fit.
        ModelError: The model cannot be read.
    """
    known = (REFERENCE, *NODE_EXECUTORS, *OPERATOR_EXECUTORS)
    for name in executors:
        if name not in known:
            raise unknown_name("executor of OpenVINO models", name, known)
    chosen = [name for name in executors if name != REFERENCE]
    if not chosen:
        raise UsageError(f"nothing to compare {REFERENCE!r} with; name another executor: {', '.join(known[1:])}.")
    program = lower(model, input_shapes=input_shapes, feature_level=feature_level)
    comparisons: list[Comparison] = []
    for lowered in program.nodes:
        if lowered.reason is not None:
            comparisons.append(Comparison(lowered, "", "refused", lowered.reason.message))
        elif lowered.verdict == "folded":
            comparisons.append(Comparison(lowered, "", "folded"))
        else:
            comparisons += _compared(lowered, chosen, seed)
    command = command_line(
        os.fspath(model), input_shapes or {}, program.feature_level, seed, (REFERENCE, *chosen), DEFAULT_EXECUTORS
    )
    return Report(tuple(comparisons), program, f"{REFERENCE} {ov.__version__}", command)


def _compared(lowered: LoweredNode, chosen: Sequence[str], seed: int) -> list[Comparison]:
    node = lowered.node
    shape = node.cuts[0].region.input_shape
    data = _random(element_type(node.element), shape, seed)
    outputs = by_evaluate(False, node, data)
    known = {node.input: Captured(data, shape, 0)}
    for cut in node.cuts:
        known[cut.output] = Captured(outputs[cut.output], cut.region.output_shape, 0)
    if isinstance(node.spec, SplitSpec):
        chosen = [name for name in chosen if name != OURS]  # there is no Split of ours
    options: dict[str, Any] = {"reference": REFERENCE, "node_executors": NODE_EXECUTORS}
    return [compare_node(lowered, name, known, {}, True, **options) for name in chosen]


def _random(element: ov.Type, shape: Sequence[int], seed: int) -> Bytes:
    """Packed random elements, small integers, so that the CPU plugin's narrower types hold them too."""
    random = np.random.default_rng(seed)
    tensor = ov.Tensor(element, ov.Shape(list(shape)))
    flat: Any = tensor.data.reshape(-1)
    if element == ov.Type.boolean or element.bitwidth < 8:
        flat.view(np.uint8)[...] = random.integers(0, 2, flat.nbytes)
    else:
        flat[...] = random.integers(0, _MOST_RANDOM, flat.size).astype(flat.dtype)
    return np.array(flat.view(np.uint8))


def _model(ours: bool, node: SlicingNode) -> ov.Model:
    """The node alone, as it is written."""
    source = opset8.parameter(list(node.cuts[0].region.input_shape), element_type(node.element))
    spec = node.spec
    made: ov.Node
    if isinstance(spec, SplitSpec):
        made = opset1.variadic_split(source, _constant([spec.axis], scalar=True), _constant(spec.sizes))
    elif isinstance(spec, SliceSpec):
        lists = [spec.starts, spec.ends, spec.steps or (1,) * len(spec.starts), spec.axes or range(len(spec.starts))]
        inputs = [source, *map(_constant, lists)]
        made = Slice(inputs) if ours else opset8.slice(*inputs)
    else:
        assert spec is not None
        lists = [spec.begin, spec.end, spec.strides or (1,) * len(spec.begin)]
        inputs = [source.output(0), *(_constant(values).output(0) for values in lists)]
        masks = {name: getattr(spec, name) for name in MASKS}
        made = StridedSlice(inputs, **masks) if ours else strided_slice(inputs, masks)
    return ov.Model(made.outputs(), [source], "node")


def _constant(values: Sequence[int], *, scalar: bool = False) -> ov.Node:
    array = np.array(values, np.int64)
    return as_constant(array.reshape(()) if scalar else array)


def by_evaluate(ours: bool, node: SlicingNode, data: Bytes) -> dict[str, Bytes]:
    """The outputs of a node by Model.evaluate."""
    model = _model(ours, node)
    results = [ov.Tensor(element_type(node.element), ov.Shape([0])) for _ in node.cuts]
    model.evaluate(results, [_tensor(node, data)])
    return _named(node, results)


def by_plugin(node: SlicingNode, data: Bytes) -> dict[str, Bytes]:
    """The outputs of a node of built-in operators on the CPU plugin."""
    request = ov.Core().compile_model(_model(False, node), "CPU").create_infer_request()
    request.set_input_tensor(_tensor(node, data))
    request.infer()
    return _named(node, [request.get_output_tensor(i) for i in range(len(node.cuts))])


def _tensor(node: SlicingNode, data: Bytes) -> ov.Tensor:
    tensor = ov.Tensor(element_type(node.element), ov.Shape(list(node.cuts[0].region.input_shape)))
    if data.size:
        tensor.data.reshape(-1).view(np.uint8)[...] = data
    return tensor


def _named(node: SlicingNode, results: Sequence[ov.Tensor]) -> dict[str, Bytes]:
    named = {}
    for cut, tensor in zip(node.cuts, results, strict=True):
        array = np.array(tensor.data).reshape(-1)
        named[cut.output] = array.view(np.uint8) if array.size else np.zeros(0, np.uint8)
    return named


NODE_EXECUTORS: dict[str, Callable[[SlicingNode, Bytes], dict[str, Bytes]]] = {
    CPU: by_plugin,
    OURS: partial(by_evaluate, True),
}
"""Those that run the node itself, beside the reference."""
