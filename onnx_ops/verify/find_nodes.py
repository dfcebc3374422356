"""The nodes of a model that the DirectML provider refuses or computes differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from onnx_ops.model.proto_walk import all_nodes
from onnx_ops.runtime import onnxruntime_cpu
from onnx_ops.verify.directml_provider import OnnxruntimeDML
from onnx_ops.verify.onnx_graph import OnnxGraph
from sliceport.diffing.difference import Failure
from sliceport.diffing.graph import GraphNode
from sliceport.diffing.search import Search
from sliceport.diffing.side import Side
from sliceport.directml.device import CallFailed, Device, HostDied
from sliceport.engines.engine import WholeModel
from sliceport.engines.model_run import Finding

Array = npt.NDArray[Any]
Kind = type[CallFailed] | type[HostDied]
_MAX_FINDINGS = 20
_MAX_COMPARED_BYTES = 1024
"""Constants of more bytes are weights, by whose content nodes do not differ."""
CANNOT_COMPILE = "80004005 Call failed"
"""Part of the message about a shader that the adapter cannot compile."""


def find_refusals(
    device: Device, graph: OnnxGraph, inputs: Mapping[str, Array], kind: Kind, message: str
) -> tuple[Finding, ...]:
    """Find the nodes of the main graph that the provider, with the CPU to fall back on, does not run.

    At most `_MAX_FINDINGS` are found. Each node runs as a model of its own on inputs that the CPU provider computes; of
    equal nodes, one runs. If all run alone, the finding is the first node up to which the model does not run, if any.

    Args:
        device: The device.
        graph: The model.
        inputs: The inputs that it ran on.
        kind: The kind of the failure; a node that fails in another way is not its cause.
        message: The message of the failure.
    """
    bad, good = Side(OnnxruntimeDML(device), {}), onnxruntime_cpu.side()
    refused = _find_refused_alone(graph, device, good, inputs, kind)
    if refused:
        return tuple(Finding("refused", node.name, node.op_type, _describe_refusal(node, why)) for node, why in refused)
    case = Search(graph, bad, good, inputs, Failure("error", "", message)).run()
    if case is None:
        return ()
    node = case.culprit
    why = f"though it runs the node alone ({case.failure.message})"
    text = f"{node} is the first node with which the DirectML provider does not run the model, {why}."
    return (Finding("refused", node.name, node.op_type, text),)


def _find_refused_alone(
    graph: OnnxGraph, device: Device, good: Side, inputs: Mapping[str, Array], kind: Kind
) -> list[tuple[GraphNode, str]]:
    """Return the first nodes that the provider does not run alone, each with the reason."""
    value_names = [name for node in graph.nodes for name in node.writes]
    values = {**inputs, **good.run(graph.cut(range(len(graph.nodes)), value_names, inputs, {}), inputs)}
    cases: dict[bytes, tuple[WholeModel, dict[str, Array]]] = {}
    reasons: dict[bytes, str] = {}
    refused: list[tuple[GraphNode, bytes]] = []
    for i, node in enumerate(graph.nodes):
        arrays = {name: value for name in node.reads if isinstance(value := values.get(name), np.ndarray)}
        if len(arrays) < len(node.reads) or any(array.dtype == object for array in arrays.values()):
            continue
        model = graph.cut([i], node.writes, arrays, {}, has_fixed_shapes=True)
        key = _comparison_key(model)
        if key not in cases:
            cases[key] = model, arrays
            reasons[key] = _find_refusal_reason(device, model, arrays, kind)
        if reasons[key]:
            refused.append((node, key))
        if len(refused) == _MAX_FINDINGS:
            break
    device.close()  # only what fails on a fresh host, too, is refused
    repeated_reasons = {key: _find_refusal_reason(device, *cases[key], kind) for _, key in refused}
    return [(node, repeated_reasons[key]) for node, key in refused if repeated_reasons[key]]


def find_differences(
    device: Device, graph: OnnxGraph, inputs: Mapping[str, Array], outputs: Sequence[str]
) -> tuple[Finding, ...]:
    """Find for each output the first node on the way to it that the provider computes differently, if there is one."""
    bad, good = Side(OnnxruntimeDML(device), {}), onnxruntime_cpu.side()
    findings = []
    for output in outputs:
        case = Search(graph, bad, good, inputs, Failure("values", output, "it differs")).run()
        if case is None:
            text = f"output {output!r} differs from {onnxruntime_cpu.NAME}, and no part of the model does alone."
            findings.append(Finding("different", "", "", text))
            continue
        blame = " (its graph fusion is to blame: with the values that it fuses as outputs, they are right)"
        text = (
            f"{case.culprit} is the first node on the way to output {output!r} that the DirectML provider computes "
            f"differently from {onnxruntime_cpu.NAME}{blame if case.is_fusion else ''}."
        )
        findings.append(Finding("different", case.culprit.name, case.culprit.op_type, text))
    return tuple(dict.fromkeys(findings))


def is_adapters_fault(finding: Finding) -> bool:
    """Return whether the provider refuses a node only because the adapter cannot compile it."""
    return finding.kind == "refused" and CANNOT_COMPILE in finding.message


def _describe_refusal(node: GraphNode, why: str) -> str:
    if CANNOT_COMPILE in why:
        return f"{node} cannot be compiled by this adapter ({why})."
    return f"{node} is refused by the DirectML provider ({why})."


def _find_refusal_reason(device: Device, model: WholeModel, arrays: Mapping[str, Array], kind: Kind) -> str:
    """Run a model and return its error message if the error is of this kind, else an empty text."""
    try:
        OnnxruntimeDML(device).run_model(model, arrays, {})
    except (CallFailed, HostDied) as error:
        return str(error).rstrip(".") if isinstance(error, kind) else ""
    return ""


def _comparison_key(model: WholeModel) -> bytes:
    """Return a key that models share if only names and large initializers differ in their main graphs."""
    proto = onnx.ModelProto.FromString(model.data)
    graph, names = proto.graph, dict[str, str]()

    def rename(name: str) -> str:
        return names.setdefault(name, str(len(names))) if name else ""

    for node in all_nodes(graph):
        node.name = ""
        node.input[:], node.output[:] = map(rename, node.input), map(rename, node.output)
    for value in (*graph.initializer, *graph.input, *graph.output):
        value.name = rename(value.name)
    for tensor in graph.initializer:
        if tensor.ByteSize() > _MAX_COMPARED_BYTES:
            tensor.raw_data = b""
        del tensor.external_data[:]
    return bytes(proto.SerializeToString(deterministic=True))
