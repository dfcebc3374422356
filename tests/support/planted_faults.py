"""An engine that computes wrongly on purpose, and faults planted into nodes of real exports."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx_models import save

from onnx_ops.engines import ONNXRUNTIME_CPU
from onnx_ops.model.proto_walk import all_nodes, model_nodes
from sliceport.engines.engine import Array, Value, WholeModel
from sliceport.errors import ModelError
from sliceport.search.diff import diff
from sliceport.search.report import DiffReport, Part

Fault = Callable[[onnx.ModelProto], None]
SWAPS = {
    "Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul", "Max": "Min", "Min": "Max", "Sigmoid": "Tanh",
    "Tanh": "Sigmoid", "Relu": "Neg", "Sqrt": "Neg", "Exp": "Neg", "Sin": "Cos", "Cos": "Sin", "Erf": "Tanh",
    "ReduceMean": "ReduceMax", "ReduceSum": "ReduceMean", "Softmax": "LogSoftmax", "And": "Or", "Or": "And",
    "Greater": "Less", "Less": "Greater", "Equal": "Less", "Neg": "Identity",
}  # fmt: skip
CHAIN = """(float[3,4] x, float[4] bias) => (y, z) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
    [a] a = Mul (x, w)  [b] b = Add (a, bias)  [c] c = Sigmoid (b)  [d] d = Add (c, x)  [e] y = Tanh (d)
    [f] z = Neg (a)
}"""
Differ = Callable[..., DiffReport]


class Faulty:
    """onnxruntime's CPU provider, unoptimised, on a model that a fault has changed."""

    name = "faulty"
    description = "an engine that computes wrongly"
    model_formats = ("onnx",)
    options: Mapping[str, str] = {"crash": "an operator"}
    is_isolated = True

    def __init__(self, fault: Fault = lambda _: None) -> None:
        self.fault = fault

    def version(self) -> str:
        return "1.0"

    def run_model(self, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]) -> dict[str, Value]:
        proto = onnx.ModelProto.FromString(model.data)
        if any(node.op_type == options.get("crash") for node in all_nodes(proto.graph)):
            os.abort()
        self.fault(proto)
        changed = WholeModel("onnx", proto.SerializeToString(), model.inputs, model.outputs)
        return ONNXRUNTIME_CPU.run_model(changed, inputs, {"level": "none"})


class Crashing(Faulty):
    """An engine for a child process."""

    is_isolated = False


CRASHING = Crashing()


def refuse(op_type: str) -> Fault:
    """Return a fault: the engine refuses an operator."""

    def fault(proto: onnx.ModelProto) -> None:
        for node in all_nodes(proto.graph):
            if node.op_type == op_type:
                raise ModelError(f"{op_type} {node.name!r} is not supported by this engine (0x{id(node):x}).")

    return fault


def swap(name: str, op_type: str) -> Fault:
    """Return a fault: the engine computes another operator for the node with a name."""

    def fault(proto: onnx.ModelProto) -> None:
        for node in all_nodes(proto.graph):
            if node.name == name:
                node.op_type = op_type

    return fault


def not_a_number(name: str) -> Fault:
    """Return a fault: the first output of a node becomes NaN."""

    def fault(proto: onnx.ModelProto) -> None:
        graph = proto.graph
        for i, node in enumerate(graph.node):
            if node.name == name:
                output = node.output[0]
                node.output[0] = f"{output}_before"
                zero, nan = (onnx.helper.make_node("Sub", [node.output[0]] * 2, [f"{output}_zero"]), f"{output}_zero")
                graph.node.insert(i + 1, zero)
                graph.node.insert(i + 2, onnx.helper.make_node("Div", [nan, nan], [output]))
                return

    return fault


def fuse(first: str, second: str, instead: str) -> Fault:
    """Return a fault: a wrong fusion, if nobody else reads the value between two operators, and it is not an output."""

    def fault(proto: onnx.ModelProto) -> None:
        readers: dict[str, list[onnx.NodeProto]] = {}
        for node in proto.graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        kept = {value.name for value in proto.graph.output}
        for node in proto.graph.node:
            if node.op_type == first and node.output[0] not in kept:
                (reader, *more) = readers.get(node.output[0], [node])
                if not more and reader.op_type == second:
                    reader.op_type = instead

    return fault


def both(first: Fault, second: Fault) -> Fault:
    def fault(proto: onnx.ModelProto) -> None:
        first(proto)
        second(proto)

    return fault


def plant(model: onnx.ModelProto, seed: int) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield copies of a model in which one node is changed, with the name of the node, in random order.

    Nodes in bodies and functions are changed, too. Every node of the model must have a name.
    """
    nodes = [node.name for node in model_nodes(model)]
    random.Random(seed).shuffle(nodes)
    for name in nodes:
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        (node, *more) = [one for one in model_nodes(changed) if one.name == name]
        if not more and (_change_slice(changed, node) or _change_attribute(node) or _swap(node)):
            yield name, changed


def _swap(node: onnx.NodeProto) -> bool:
    if node.op_type not in SWAPS or node.domain:
        return False
    node.op_type = SWAPS[node.op_type]
    return True


def _change_slice(model: onnx.ModelProto, node: onnx.NodeProto) -> bool:
    """Move the first end of a Slice by one."""
    ends = [tensor for tensor in model.graph.initializer if node.op_type == "Slice" and tensor.name == node.input[2]]
    if not ends:
        return False
    array = onnx.numpy_helper.to_array(ends[0]).copy()
    array[0] += -1 if array[0] > 0 else 1
    model.graph.initializer.append(onnx.numpy_helper.from_array(array, f"{node.name}_moved"))
    node.input[2] = f"{node.name}_moved"
    return True


def _change_attribute(node: onnx.NodeProto) -> bool:
    for attribute in node.attribute:
        if attribute.name == "axis" and node.op_type in ("Softmax", "Gather", "Concat", "LogSoftmax"):
            attribute.i = 0 if attribute.i else 1
            return True
        if attribute.name in ("alpha", "epsilon", "beta") and attribute.type == onnx.AttributeProto.FLOAT:
            attribute.f = attribute.f * 2 + 1
            return True
        if attribute.name == "perm" and len(attribute.ints) > 1:
            attribute.ints[0], attribute.ints[1] = attribute.ints[1], attribute.ints[0]
            return True
    return False


def named(model: onnx.ModelProto) -> onnx.ModelProto:
    """Give every node a name of its own."""
    for i, node in enumerate(model_nodes(model)):
        node.name = f"n{i}_{node.op_type}"
    return model


def exports(models: Path) -> list[Path]:
    """Return the real exports."""
    return sorted((*models.glob("ts_*.onnx"), *models.glob("dynamo_*.onnx")))


def part_of(report: DiffReport) -> Part:
    assert report.part is not None, report.notes
    return report.part


def names(report: DiffReport) -> list[str]:
    return [node.name for node in part_of(report).case.nodes]


def compare_models(first: str, second: str, folder: Path, **options: Any) -> DiffReport:
    paths = [save(graph, folder / f"{i}.onnx") for i, graph in enumerate((first, second))]
    return diff(*paths, **options)
