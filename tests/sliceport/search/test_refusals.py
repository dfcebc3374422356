"""All nodes that an engine refuses are found in few runs, however many nodes the model has."""

from __future__ import annotations

from functools import cache
from unittest.mock import MagicMock

import onnx
import pytest
from planted_faults import Differ, Fault, both, refuse

from onnx_ops.running import directml_provider
from onnx_ops.running.onnx_graph import OnnxGraph
from sliceport.engines.engine import WholeModel
from sliceport.engines.side import Budget, BudgetSpent
from sliceport.errors import ModelError

CHAIN = [f"[n{i}] v{i} = LeakyRelu<alpha = 0.{i:03}>(v{i - 1})" for i in range(1, 400)]
CHAIN[20:20] = ["[sin] s = Sin(v20)"]
CHAIN[60:60] = ["[erf] e = Erf(v59)", "[later] l = Sin(e)"]
REFUSED = "  ".join([*CHAIN, "y = Sum(v399, l)", "[unread] u = Sin(v50)"])


def refuse_silently(*op_types: str) -> Fault:
    """Return a fault: the engine refuses operators, and names no node."""

    def fault(proto: onnx.ModelProto) -> None:
        for op_type in op_types:
            if any(node.op_type == op_type for node in proto.graph.node):
                raise ModelError("the model is not supported.")

    return fault


@pytest.mark.parametrize(
    ("fault", "most_runs"), [(both(refuse("Sin"), refuse("Erf")), 50), (refuse_silently("Sin", "Erf"), 130)]
)
def test_all_refused_nodes_are_found_in_few_runs(differ: Differ, fault: Fault, most_runs: int) -> None:
    report = differ(f"(float[4] v0) => (y, s) {{ {REFUSED} }}", fault)
    assert sorted(part.case.culprit.name for part in report.parts) == ["erf", "later", "sin", "unread"]
    assert {part.case.failure.kind for part in report.parts} == {"error"}
    assert report.runs < most_runs


def test_refusal_that_does_not_occur_again_is_not_reported(differ: Differ) -> None:
    seen: list[bytes] = []

    def refuse_once(proto: onnx.ModelProto) -> None:
        if [node.op_type for node in proto.graph.node] == ["Erf"] and proto.graph.node[0].name == "second":
            seen.append(b"")
            if len(seen) == 1:
                raise ModelError("Erf is not supported.")
        elif any(node.name == "first" for node in proto.graph.node):
            raise ModelError("Erf is not supported.")

    report = differ("(float[4] x) => (y, z) { [first] y = Erf (x)  [second] z = Erf (x) }", refuse_once)
    assert [part.case.culprit.name for part in report.parts] == ["first"]
    assert len(seen) > 1


def test_refused_nodes_before_the_end_of_a_search_are_reported(differ: Differ, monkeypatch: pytest.MonkeyPatch) -> None:
    def remaining(budget: Budget) -> None:
        if budget.runs > 15:
            raise BudgetSpent("the time is over")

    monkeypatch.setattr(Budget, "remaining", remaining)
    nodes = "  ".join(f"[n{i}] v{i} = Erf(v0)" for i in range(1, 30))
    outputs = ", ".join(f"v{i}" for i in range(1, 30))
    report = differ(f"(float[4] v0) => ({outputs}) {{ {nodes} }}", refuse("Erf"))
    assert len(report.parts) > 2
    assert {part.case.culprit.op_type for part in report.parts} == {"Erf"}
    assert report.notes[-1].startswith("the time is over")


def test_known_defect_that_a_refusal_hides_is_noted(differ: Differ) -> None:
    defect = MagicMock(id="a defect", reason="it is wrong", is_contested=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            OnnxGraph,
            "find_defects",
            lambda _, nodes, *__: [defect] if "Neg" in [node.op_type for node in nodes] else [],
        )
        report = differ("(float[4] x) => (y) { n = Neg (x)  [erf] y = Erf (n) }", refuse("Erf"))
    assert report.notes == ("the model also has a known defect of faulty: a defect (it is wrong)",)


def test_version_and_models_share_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = MagicMock(**{"return_value.trace_onnx.return_value": ([], []), "return_value.transient": []})
    monkeypatch.setattr(directml_provider, "open_provider", opened)
    monkeypatch.setattr(directml_provider, "_shared_device", cache(directml_provider._shared_device.__wrapped__))
    directml_provider.OnnxruntimeDML().version()
    directml_provider.OnnxruntimeDML().run_model(WholeModel("onnx", b"", (), ()), {}, {})
    opened.assert_called_once()
