"""The node that `diff` names is the one at fault, or no node is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import save
from planted_faults import CHAIN, Differ, Fault, both, compare_models, names, part_of, refuse, swap

from sliceport.engines.side import Budget, BudgetSpent
from sliceport.errors import ModelError
from sliceport.report.diff import diff_text
from sliceport.search.search import RANDOM_NOTE
from sliceport.verdict.difference import Tolerance

NOISY = """(float[4] x) => (y) <float small = {1e-5}> {
    [r] r = RandomNormalLike (x)  [q] q = Mul (r, small)  [h] h = Sin (x)  [s] s = Add (h, q)  [b] b = Exp (s)
    [y] y = Add (b, h) }"""


def draw_others(proto: onnx.ModelProto) -> None:
    """Draw other random numbers, a fault that breaks no rule."""
    for node in proto.graph.node:
        if node.op_type.startswith("Random"):
            node.attribute.append(onnx.helper.make_attribute("seed", 3.0))


@pytest.mark.parametrize("is_pair", [False, True])
def test_random_numbers_within_the_tolerance_do_not_hide_the_fault(
    differ: Differ, is_pair: bool, tmp_path: Path
) -> None:
    if is_pair:
        other = NOISY.replace("Like", "Like <seed = 3.0>").replace("Exp (s)", "Neg (s)")
        report = compare_models(NOISY, other, tmp_path)
    else:
        report = differ(NOISY, both(draw_others, swap("b", "Neg")))
    assert names(report) == ["b"]


@pytest.mark.parametrize("is_pair", [False, True])
def test_random_numbers_that_are_the_only_difference_are_noted(differ: Differ, is_pair: bool, tmp_path: Path) -> None:
    graph = NOISY.replace("1e-5", "1.0")
    other = graph.replace("Like", "Like <seed = 3.0>")
    report = compare_models(graph, other, tmp_path) if is_pair else differ(graph, draw_others)
    assert names(report) == ["r"]
    assert part_of(report).case.note == RANDOM_NOTE


def test_random_node_is_reported_when_the_time_ends(differ: Differ, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = NOISY.replace("1e-5", "1.0")
    most_runs = differ(graph, draw_others).runs - 1  # the last run is in the second search

    def remaining(budget: Budget) -> None:
        if budget.runs >= most_runs:
            raise BudgetSpent("the time is over")

    monkeypatch.setattr(Budget, "remaining", remaining)
    report = differ(graph, draw_others)
    assert names(report) == ["r"]
    assert part_of(report).case.note.startswith("the time is over: ")


def vary(amount: float, first: int = 0) -> Fault:
    """Return a fault: the sum that is called `b` changes by an amount in every second run, the first one if it is 1."""
    calls = iter(range(first, 1000))

    def fault(proto: onnx.ModelProto) -> None:
        for i, node in enumerate(proto.graph.node):
            if node.name == "b" and next(calls) % 2:
                shift = onnx.helper.make_node("Constant", [], ["shift"], value_float=amount)
                moved = onnx.helper.make_node("Add", [node.input[0], "shift"], ["moved"])
                node.input[0] = "moved"
                proto.graph.node.insert(i, moved)
                proto.graph.node.insert(i, shift)
                break

    return fault


@pytest.mark.parametrize(
    ("amount", "tolerance", "is_steady"),
    [(0.01, None, False), (0.01, Tolerance(0.3), True), (1e-5, None, True), (1e-5, Tolerance(1e-6), False)],
)
def test_tolerance_of_the_caller_decides_whether_an_engine_is_steady(
    differ: Differ, amount: float, tolerance: Tolerance | None, is_steady: bool
) -> None:
    """The output that differs in both runs is searched in any case."""
    report = differ(CHAIN, both(vary(amount), swap("f", "Exp")), tolerance=tolerance)
    assert names(report) == ["f"]
    assert any("gives different results in two equal runs" in note for note in report.notes) is not is_steady


def test_output_that_differs_in_one_of_two_runs_is_not_searched(differ: Differ) -> None:
    report = differ(CHAIN, vary(-0.5, 1))
    (note,) = report.notes
    assert note.endswith("gives different results in two equal runs, so no node is searched for")
    assert report.parts == ()


def test_refused_node_of_unrelated_models_is_found(differ: Differ, tmp_path: Path) -> None:
    other = "(float[4] x) => (y) { [d] d = Cos (x)  [e] e = Erf (d)  [f] f = Sqrt (e)  [g] y = Add (f, d) }"
    report = differ(LONG, refuse("Erf"), other=save(other, tmp_path / "other.onnx"))
    assert part_of(report).sentences_without_defects[0] == "first node that fails: Erf 'e'"


@pytest.mark.parametrize("is_first", [False, True])
def test_model_that_does_not_run_is_blamed_on_the_node_that_is_refused(
    differ: Differ, is_first: bool, tmp_path: Path
) -> None:
    """The models also differ in a value, which does not explain the failure."""
    refused = CHAIN.replace("Mul", "Div").replace("Tanh", "Erf")
    graphs = [refused, CHAIN] if is_first else [CHAIN, refused]
    report = differ(graphs[0], refuse("Erf"), other=save(graphs[1], tmp_path / "other.onnx"))
    assert names(report) == ["e"]
    assert part_of(report).case.failure.is_of_run
    side = "first" if is_first else "second"
    assert f"faulty 1.0 does not run the {side} model: Erf 'e' is not supported" in diff_text(report)


def test_no_node_is_blamed_for_a_failure_of_the_whole_model(differ: Differ, tmp_path: Path) -> None:
    def refuse_many(proto: onnx.ModelProto) -> None:
        if len(proto.graph.node) > 6:
            raise ModelError("the model has too many nodes")

    other = CHAIN.replace("Mul (x, w)", "Div (x, w)").replace("[e] y = Tanh (d)", "[e] g = Tanh (d)  [g] y = Neg (g)")
    report = differ(CHAIN, refuse_many, other=save(other, tmp_path / "other.onnx"))
    assert len(names(report)) == 7


def test_two_models_that_do_not_run_are_told_apart(differ: Differ, tmp_path: Path) -> None:
    other = save(CHAIN.replace("Tanh", "Erf"), tmp_path / "other.onnx")
    message = (
        "neither model runs: the second one on faulty, Mul 'a' is .*; faulty does not run the first model .*Mul 'a' is"
    )
    with pytest.raises(ModelError, match=message):
        differ(CHAIN, refuse("Mul"), other=other)


def test_node_whose_shape_lets_a_later_node_fail_is_found(tmp_path: Path) -> None:
    graph = "(float[2,3] x) => (y) { [t] t = Transpose (x)  [e] e = Exp (t)  [m] m = MatMul (e, x)  [y] y = Neg (m) }"
    report = compare_models(graph, graph.replace("Transpose (x)", "Sin (x)"), tmp_path)
    assert names(report) == ["t"]
    assert re.match(r"onnxruntime-cpu:level=none [0-9.]+ does not run the second model: ", report.failure_sentence)
    assert part_of(report).case.note.startswith("the second model fails with the value of this part")


@pytest.mark.parametrize("is_named", [False, True])
def test_node_that_fails_alone_in_another_way_is_found_if_it_is_named(differ: Differ, is_named: bool) -> None:
    message = f"the fused node{' Name: c' * is_named} is too deep"

    def fault(proto: onnx.ModelProto) -> None:
        operators = [node.op_type for node in proto.graph.node]
        if operators == ["Sigmoid"]:
            raise ModelError("an input of this type is not supported")
        if {"Sigmoid", "Tanh"} <= set(operators):
            raise ModelError(message)

    report = differ(CHAIN.replace("Add (c, x)", "Neg (c)"), fault)
    if is_named:
        assert names(report) == ["c"]
        return
    assert part_of(report).case.failure.message == message
    assert names(report) == ["c", "e"]
    assert part_of(report).case.note == "Sigmoid 'c' also fails alone: an input of this type is not supported"


LONG = """(float[4] x) => (y) { [a] a = Sin (x)  [v] v = Exp (a)  [b] b = Neg (v)  [c] c = Sin (b)  [d] d = Add (c, a)
    [e] e = Tanh (d)  [y] y = Exp (e)  [w] w = Exp (y) }"""


def hide(*hidden: str) -> Fault:
    """Return a fault: values that cannot be outputs."""

    def fault(proto: onnx.ModelProto) -> None:
        for output in proto.graph.output:
            if output.name in hidden:
                raise ModelError("this value cannot be an output")

    return fault


def test_values_behind_one_that_cannot_be_an_output_are_compared(differ: Differ, tmp_path: Path) -> None:
    other = save(LONG.replace("Neg (v)", "Abs (v)"), tmp_path / "other.onnx")
    report = differ(LONG, hide("v", "w"), other=other)
    assert names(report) == ["v", "b"]
    assert part_of(report).sentences_without_defects[:2] == [
        "first node that differs: one of the 2 nodes from Exp 'v' to Abs 'b'",
        "the smallest model with the difference has 2 nodes: Exp 'v', Abs 'b'",
    ]


def test_dependents_of_a_node_that_fails_are_tried_in_few_runs(differ: Differ, tmp_path: Path) -> None:
    chain = "  ".join(f"[n{i}] v{i + 1} = Add (v{i}, x)" for i in range(200))
    graph = (
        f"(float[2] x) => (y, z) {{ [n] v0 = Exp (x)  {chain}  [q] q = Sin (x)  [y] y = Neg (q)  [z] z = Sin (v200) }}"
    )

    def refuse_cuts(proto: onnx.ModelProto) -> None:
        if len(proto.graph.output) != 2 and any(node.op_type == "Exp" for node in proto.graph.node):
            raise ModelError("Exp runs in the whole model only")

    report = differ(graph, refuse_cuts, other=save(graph.replace("Neg", "Abs"), tmp_path / "other.onnx"))
    assert names(report) == ["y"]
    assert report.runs < 60


TWICE = """(float[2] x, bool yes) => (p, y) {
    [first] p = If (yes) <then_branch = t () => (a) { [a0] h = Exp (x)  [a1] a = Add (h, x) },
                          else_branch = e () => (b) { [b0] b = Neg (x) }>
    [between] q = If (yes) <then_branch = u () => (c) { [c0] c = Sin (p) }, else_branch = v () => (d) { d = Neg (p) }>
    [second] y = If (yes) <
        then_branch = w () => (g) {
            [inner] g = If (yes) <then_branch = k () => (i) { [i0] m = Cos (q)  [i1] i = Add (m, x) },
                                  else_branch = l () => (j) { j = Neg (q) }> },
        else_branch = z () => (n) { n = Neg (q) }>
}"""


@pytest.mark.parametrize("is_pair", [False, True])
def test_two_wrong_bodies_are_both_entered(differ: Differ, is_pair: bool, tmp_path: Path) -> None:
    inputs: dict[str, Any] = {"yes": np.array(True)}
    if is_pair:
        wrong = TWICE.replace("Add (h, x)", "Sub (h, x)").replace("Add (m, x)", "Sub (m, x)")
        report = compare_models(TWICE, wrong, tmp_path, inputs=inputs)
    else:
        report = differ(TWICE, both(swap("a1", "Sub"), swap("i1", "Sub")), inputs=inputs)
    assert [(part.case.culprit.name, part.case.scope) for part in report.parts] == [
        ("a1", ("If 'first', then_branch",)),
        ("i1", ("If 'second', then_branch", "If 'inner', then_branch")),
    ]
