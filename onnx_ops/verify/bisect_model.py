"""Finding the node of a model that the DirectML provider refuses or computes differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt
import onnx
import onnx_ir as ir

from onnx_ops.model.proto_walk import graphs_of
from onnx_ops.runtime import onnxruntime_cpu
from onnx_ops.runtime.onnxruntime_cpu import Captured
from sliceport.directml.device import CallFailed, Device, HostDied
from sliceport.engines.model_run import Finding

Array = npt.NDArray[Any]
Differs = Callable[[Array, Captured], bool]
_MAX_FINDINGS = 20
_SMALL = 1024
CANNOT_COMPILE = "80004005 Call failed"
"""Part of the message about a shader that the adapter cannot compile."""
Failure = type[CallFailed] | type[HostDied]


def find_refusals(
    device: Device, proto: onnx.ModelProto, inputs: Mapping[str, Array], kind: Failure
) -> tuple[Finding, ...]:
    """Find the nodes of the main graph that the provider, with the CPU to fall back on, does not run.

    Each node runs as a model of its own on inputs that the CPU provider computes; equal nodes run once. If all of them
    run alone, the finding is the first node with which the model up to there does not run.

    Args:
        device: The device.
        proto: The model.
        inputs: The inputs that it ran on.
        kind: The kind of the failure; a node that fails in another way is not its cause.
    """
    values = _values(proto, inputs)
    found: list[tuple[onnx.NodeProto, bytes]] = []
    cases: dict[bytes, tuple[onnx.ModelProto, dict[str, Array]]] = {}
    refused: dict[bytes, str] = {}
    with device.without_retries():
        for node in proto.graph.node:
            if len(found) == _MAX_FINDINGS:
                break
            model, arrays = _single_node_model(proto, node, values, inputs)
            if model is None:
                continue
            key = _key(model, node)
            if key not in cases:
                cases[key] = model, arrays
                refused[key] = _run_and_get_error(device, model, arrays, kind)
            if refused[key]:
                found.append((node, key))
        device.close()  # only what fails on a fresh host, too, is refused
        again = {key: _run_and_get_error(device, *cases[key], kind) for key in refused if refused[key]}
    sentences = [
        Finding("refused", node.name, node.op_type, _sentence(node, again[key])) for node, key in found if again[key]
    ]
    return tuple(sentences) or _find_refused_together(device, proto, inputs, kind)


def _find_refused_together(
    device: Device, proto: onnx.ModelProto, inputs: Mapping[str, Array], kind: Failure
) -> tuple[Finding, ...]:
    for output in proto.graph.output:

        def why(node: onnx.NodeProto) -> str:
            sub = _extract_submodel(proto, node)
            return _run_and_get_error(device, sub, _select_inputs(sub, inputs), kind)

        path = _ancestors(proto, output.name)
        if path and why(path[-1]):
            node = _first_bad(path, lambda node: bool(why(node)))
            return (
                Finding(
                    "refused",
                    node.name,
                    node.op_type,
                    f"{node.op_type} {node.name!r} is the first node on the way to output {output.name!r} with which "
                    f"the DirectML provider does not run the model, though it runs the node alone ({why(node)}).",
                ),
            )
    return ()


def _first_bad(path: Sequence[onnx.NodeProto], is_bad: Callable[[onnx.NodeProto], bool]) -> onnx.NodeProto:
    """Return the first bad node by bisection: the last node is bad, and so are all nodes after a bad one."""
    low, high = 0, len(path) - 1
    while low < high:
        middle = (low + high) // 2
        if is_bad(path[middle]):
            high = middle
        else:
            low = middle + 1
    return path[low]


def is_adapters_fault(finding: Finding) -> bool:
    """Return whether the provider refuses a node only because the adapter cannot compile it."""
    return finding.kind == "refused" and CANNOT_COMPILE in finding.message


def _sentence(node: onnx.NodeProto, why: str) -> str:
    if CANNOT_COMPILE in why:
        return f"{node.op_type} {node.name!r} cannot be compiled by this adapter ({why})."
    return f"{node.op_type} {node.name!r} is refused by the DirectML provider ({why})."


def find_differences(
    device: Device, proto: onnx.ModelProto, inputs: Mapping[str, Array], outputs: Sequence[str], differs: Differs
) -> tuple[Finding, ...]:
    """Find for each output the first node on the way to it that the provider computes differently."""
    values = _values(proto, inputs)
    found = []
    for output in outputs:
        node = _first_bad(
            _ancestors(proto, output), lambda node: _differs_at(device, proto, node, inputs, values, differs)
        )
        found.append(_difference(device, proto, node, inputs, values, differs, output))
    return tuple(dict.fromkeys(found))


def _difference(
    device: Device,
    proto: onnx.ModelProto,
    node: onnx.NodeProto,
    inputs: Mapping[str, Array],
    values: Mapping[str, Captured],
    differs: Differs,
    output: str,
) -> Finding:
    name = node.output[0]
    sub = _extract_submodel(proto, node)
    try:
        unfused = device.trace_onnx(sub.SerializeToString(), _select_inputs(sub, inputs), [name])[0][0]
        why = "its values differ without graph fusion, too"
        if not differs(unfused, values[name]):
            why = "its graph fusion is to blame: with fusion off the values are right"
    except (CallFailed, HostDied):
        why = "with graph fusion off it does not run here"
    return Finding(
        "different",
        node.name,
        node.op_type,
        f"{node.op_type} {node.name!r} is the first node on the way to output {output!r} that the DirectML provider "
        f"computes differently from {onnxruntime_cpu.NAME} ({why}).",
    )


def _differs_at(
    device: Device,
    proto: onnx.ModelProto,
    node: onnx.NodeProto,
    inputs: Mapping[str, Array],
    values: Mapping[str, Captured],
    differs: Differs,
) -> bool:
    sub = _extract_submodel(proto, node)
    names = [name for name in node.output if name in values]
    try:
        got = device.run_onnx(sub.SerializeToString(), _select_inputs(sub, inputs), names, fallback=True)
    except (CallFailed, HostDied):
        return False
    return any(differs(array, values[name]) for name, array in zip(names, got, strict=True))


def _values(proto: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Captured]:
    names = [name for node in proto.graph.node for name in node.output if name]
    return onnxruntime_cpu.capture(proto, inputs, names)


def _select_inputs(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {value.name: inputs[value.name] for value in model.graph.input if value.name in inputs}


def _ancestors(proto: onnx.ModelProto, output: str) -> list[onnx.NodeProto]:
    """Return the nodes that a value is computed from, in the order of the graph."""
    wanted = {output}
    path = []
    for node in reversed(proto.graph.node):
        if wanted & set(node.output):
            path.append(node)
            wanted.update(_reads(node))
    return path[::-1]


def _extract_submodel(proto: onnx.ModelProto, node: onnx.NodeProto) -> onnx.ModelProto:
    """Return the model up to a node, with the outputs of the node."""
    sub = onnx.ModelProto()
    sub.CopyFrom(proto)
    path = _ancestors(proto, next(name for name in node.output if name))
    del sub.graph.node[:]
    sub.graph.node.extend(path)
    del sub.graph.output[:]
    sub.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    needed = {name for one in path for name in _reads(one)}
    for kept in (sub.graph.initializer, sub.graph.input):
        unused = [i for i, value in enumerate(kept) if value.name not in needed]
        for i in reversed(unused):
            del kept[i]
    return sub


def _single_node_model(
    proto: onnx.ModelProto, node: onnx.NodeProto, values: Mapping[str, Captured], inputs: Mapping[str, Array]
) -> tuple[onnx.ModelProto | None, dict[str, Array]]:
    """Return a model of one node that keeps its constants and takes everything else as inputs."""
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    constant_nodes = {one.output[0]: one for one in proto.graph.node if one.op_type == "Constant"}
    arrays: dict[str, Array] = {}
    made: list[onnx.NodeProto] = []
    kept: list[onnx.TensorProto] = []
    for name in dict.fromkeys(_reads(node)):
        if name in constants:
            kept.append(constants[name])
        elif name in constant_nodes:
            made.append(constant_nodes[name])
        elif name in inputs:
            arrays[name] = inputs[name]
        elif name in values:
            arrays[name] = values[name].array()
        else:
            return None, {}
    if node.op_type == "Constant" or any(array.dtype == object for array in arrays.values()):
        return None, {}
    graph = onnx.helper.make_graph(
        [*made, node],
        "alone",
        [
            onnx.helper.make_tensor_value_info(name, ir.DataType.from_numpy(array.dtype).value, array.shape)
            for name, array in arrays.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
        kept,
    )
    return onnx.helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version), arrays


def _run_and_get_error(device: Device, model: onnx.ModelProto, arrays: Mapping[str, Array], kind: Failure) -> str:
    """Run a model on the device and return its error if it is of a kind, else an empty text."""
    names = [value.name for value in model.graph.output]
    try:
        device.run_onnx(model.SerializeToString(), arrays, names, fallback=True)
    except (CallFailed, HostDied) as error:
        return str(error).rstrip(".") if isinstance(error, kind) else ""
    return ""


def _key(model: onnx.ModelProto, node: onnx.NodeProto) -> bytes:
    """Return a key that is equal for nodes that differ only by names."""
    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    plain.name = ""
    numbers = {name: str(i) for i, name in enumerate(dict.fromkeys((*node.input, *node.output))) if name}
    plain.input[:] = [numbers.get(name, "") for name in node.input]
    plain.output[:] = [numbers.get(name, "") for name in node.output]
    types = [
        (numbers[value.name], value.type.SerializeToString(deterministic=True))
        for value in model.graph.input
        if value.name in numbers
    ]
    weights = [
        (
            numbers[t.name],
            t.data_type,
            tuple(t.dims),
            onnx.numpy_helper.to_array(t).tobytes() if t.ByteSize() < _SMALL else b"",
        )
        for t in model.graph.initializer
        if t.name in numbers
    ]
    written: bytes = plain.SerializeToString(deterministic=True)
    return written + repr((types, weights)).encode()


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the values that a node reads, its control flow bodies included."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in graphs_of(attribute):
            made = {name for one in graph.node for name in one.output}
            made |= {value.name for value in (*graph.input, *graph.initializer)}
            for one in graph.node:
                yield from (name for name in _reads(one) if name not in made)
            yield from (value.name for value in graph.output if value.name not in made)
