"""The nodes that a provider refuses are found in few runs, however many nodes the model has."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx_models import parse
from sessions import compute

from onnx_ops.model.proto_walk import all_nodes
from onnx_ops.verify.find_nodes import find_differences, find_refusals
from onnx_ops.verify.onnx_graph import OnnxGraph
from sliceport.directml.device import CallFailed, Device


class Faulty:
    """A device whose provider refuses operators, and names the node or not, and that computes Cos for Tan."""

    def __init__(self, *op_types: str, names_node: bool = True) -> None:
        self.op_types, self.names_node, self.runs = op_types, names_node, 0

    def run_onnx(self, model: bytes, inputs: dict[str, Any], *_: object, **__: object) -> list[np.ndarray]:
        self.runs += 1
        proto = onnx.ModelProto.FromString(model)
        for node in all_nodes(proto.graph):
            if node.op_type in self.op_types:
                message = f"{node.op_type} is not supported"
                raise CallFailed("Run", 1, f"while running node. Name:'{node.name}' {message}" * self.names_node)
            node.op_type = {"Tan": "Cos"}.get(node.op_type, node.op_type)
        return compute(proto, **inputs)

    def without_retries(self) -> object:
        return nullcontext()

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("names_node", "most_runs"), [(True, 20), (False, 80)])
def test_all_refused_nodes_are_found_in_few_runs(names_node: bool, most_runs: int) -> None:
    chain = [f"[n{i}] v{i} = LeakyRelu<alpha = 0.{i:03}>(v{i - 1})" for i in range(1, 400)]
    chain[20:20] = ["[sin] s = Sin(v20)"]
    chain[60:60] = ["[erf] e = Erf(v59)", "[later] l = Sin(e)"]
    nodes = "  ".join([*chain, "y = Sum(v399, l)", "[unread] u = Sin(v50)"])
    graph = OnnxGraph(parse(f"(float[4] v0) => (y, s) {{ {nodes} }}"))
    device = Faulty("Sin", "Erf", names_node=names_node)
    inputs = {"v0": np.arange(1, 5, dtype=np.float32)}
    with pytest.raises(CallFailed) as failed:
        device.run_onnx(graph.whole().data, inputs)
    device.runs = 0
    findings = find_refusals(cast("Device", device), graph, inputs, str(failed.value))
    assert sorted(finding.node for finding in findings) == ["erf", "later", "sin", "unread"]
    assert all(f"{finding.op_type} {finding.node!r} is refused" in finding.message for finding in findings)
    assert device.runs < most_runs


def test_node_behind_many_outputs_is_searched_once() -> None:
    chain = [f"[n{i}] v{i} = LeakyRelu<alpha = 0.{i:03}>(v{i - 1})" for i in range(1, 100)]
    chain[50:50] = ["[tan] t = Tan(v50)", *(f"y{i} = Add(t, v{i})" for i in range(9)), "z = Tan(v9)", "y9 = Neg(z)"]
    outputs = [f"y{i}" for i in range(10)]
    graph = OnnxGraph(parse(f"(float[4] v0) => ({', '.join(outputs)}, v99) {{ {'  '.join(chain)} }}"))
    device = Faulty()
    findings = find_differences(cast("Device", device), graph, {"v0": np.ones(4, np.float32)}, outputs)
    assert [finding.node for finding in findings] == ["tan", "z"]
    assert device.runs < 40
