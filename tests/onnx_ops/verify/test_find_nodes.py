"""The nodes that a provider refuses are found in few runs, however many nodes the model has."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import cache
from typing import Any, cast
from unittest.mock import MagicMock

import numpy as np
import onnx
import pytest
from onnx_models import parse
from sessions import compute

from onnx_ops.model.proto_walk import all_nodes
from onnx_ops.verify import directml_provider
from onnx_ops.verify.find_nodes import _ADVICE, _open_sides, find_differences, find_refusals
from onnx_ops.verify.onnx_graph import OnnxGraph
from sliceport.device import CallFailed, Device
from sliceport.engines.engine import WholeModel
from sliceport.engines.side import Budget, BudgetSpent
from sliceport.sandbox.child import this_process


class Faulty:
    """A device whose provider refuses operators, and names the node or not, computes Cos for Tan and rounds Selu."""

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
            for attribute in node.attribute if node.op_type == "Selu" else ():
                attribute.f *= 1 + 1e-6
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


def test_decision_by_rounding_is_found_in_few_runs() -> None:
    chain = [f"[n{i}] v{i} = Selu<alpha = 1.0, gamma = 1.0>(v{i - 1})" for i in range(1, 40)]
    nodes = "  ".join([*chain, "p = Concat<axis = 0>(v39, limit)", "[top] y, z = TopK(p, one)"])
    constants = "float[1] limit = {1.00002}, int64[1] one = {1}"
    graph = OnnxGraph(parse(f"(float[1] v0) => (z) <{constants}> {{ {nodes} }}"))
    device = Faulty()
    [finding] = find_differences(cast("Device", device), graph, {"v0": np.ones(1, np.float32)}, ["z"])
    assert finding.node == "top"
    assert "are right within the tolerance, and onnxruntime-cpu computes the same output from them" in finding.message
    assert device.runs < 25


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (5, "one of the 15 nodes from LeakyRelu 'n46' to Tan 'tan' is the first node on the way to output 'y'"),
        (0, "results differ from onnxruntime-cpu in 'y', 'z', and the time is over; a longer --timeout lets "),
    ],
)
def test_ended_search_says_how_far_it_came(runs: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def remaining(budget: Budget) -> None:
        if budget.seconds and budget.runs > runs:
            raise BudgetSpent("the time is over")

    monkeypatch.setattr(Budget, "remaining", remaining)
    assert _open_sides(cast("Device", Faulty()))[0].budget.seconds is None  # no --timeout
    monkeypatch.setattr(this_process, "deadline", time.monotonic() + 600)
    chain = [f"[n{i}] v{i} = LeakyRelu<alpha = 0.{i:03}>(v{i - 1})" for i in range(1, 60)]
    nodes = "  ".join([*chain, "[tan] y = Tan(v59)", "z = Tan(v58)", "[erf] w = Erf(v59)"])
    graph = OnnxGraph(parse(f"(float[4] v0) => (y, z) {{ {nodes} }}"))
    inputs = {"v0": np.ones(4, np.float32)}
    findings = find_differences(cast("Device", Faulty()), graph, inputs, ["y", "z"])
    assert text in findings[0].message
    assert findings[-1].message.endswith(f"; {_ADVICE}.")
    refusals = find_refusals(cast("Device", Faulty("Erf")), graph, inputs, "Name:'n9' Erf is not supported")
    assert refusals[-1].message.endswith("Erf is not supported), and the time is over; " + _ADVICE + ".")


def test_refused_nodes_before_the_end_of_a_search_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def remaining(budget: Budget) -> None:
        if budget.seconds and budget.runs > 12:
            raise BudgetSpent("the time is over")

    monkeypatch.setattr(Budget, "remaining", remaining)
    monkeypatch.setattr(this_process, "deadline", time.monotonic() + 600)
    nodes = "  ".join(f"[n{i}] v{i} = Erf(v0)" for i in range(1, 30))
    graph = OnnxGraph(parse(f"(float[4] v0) => ({', '.join(f'v{i}' for i in range(1, 30))}) {{ {nodes} }}"))
    inputs = {"v0": np.ones(4, np.float32)}
    device = Faulty("Erf")
    with pytest.raises(CallFailed) as failed:
        device.run_onnx(graph.whole().data, inputs)
    *refusals, last = find_refusals(cast("Device", device), graph, inputs, str(failed.value))
    assert len(refusals) > 2
    assert [finding.op_type for finding in refusals] == ["Erf"] * len(refusals)
    assert last.message.endswith(f"{_ADVICE}.")


def test_version_and_models_share_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = MagicMock(**{"return_value.run_onnx.return_value": []})
    monkeypatch.setattr(directml_provider, "open_provider", opened)
    monkeypatch.setattr(directml_provider, "_shared_device", cache(directml_provider._shared_device.__wrapped__))
    directml_provider.OnnxruntimeDML().version()
    directml_provider.OnnxruntimeDML().run_model(WholeModel("onnx", b"", (), ()), {}, {})
    opened.assert_called_once()
