"""Two models: a wrong output may equal another value of the first model, and a body may fail when it is loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planted_faults import compare_models, part_of

from sliceport.search.fingerprint import Fingerprint

CHAIN = "(float[4] x) => (y) { [a] a = Sin (x)  [b] b = Neg (a)  [c] y = Relu (b) }"
TWO = "(float[4] x) => (y, z) { [a] y = Sin (x)  [b] z = Cos (x) }"
BRANCH = """(float[4] x, bool yes) => (y, z) { [h] y, z = If (yes) <
    then_branch = t () => (p, q) { [s] s = Sin (x)  [p] p = Neg (s)  [q] q = Exp (s) },
    else_branch = e () => (r, u) { [r] r = Abs (x)  [u] u = Cos (x) }> }"""
BODY, OTHER = "(t) { [e] e = Exp (v)  [bad] f = Neg (e)  [t] t = Add (f, x) }", "(g) { g = Neg (v) }"
IF = "(float[3,4] x, bool yes) => (y) { [v] v = Sin (x)  [h] y = If (yes) <then_branch = a () => "
GRAPHS = {
    "then_branch": f"{IF} {BODY}, else_branch = b () => {OTHER}> }}",
    "else_branch": f"{IF} {OTHER}, else_branch = b () => {BODY}> }}",
    "Loop": """(float[3,4] x, bool yes) => (y) <int64 n = {2}> { [v] v = Sin (x)
        [h] y = Loop (n, , v) < body = b (int64 i, bool d, float[3,4] s) => (k, t) {
            k = Identity (d)  [e] e = Exp (s)  [bad] f = Neg (e)  [t] t = Add (f, x) }> }""",
}


@pytest.mark.parametrize(
    ("first", "changes", "culprits"),
    [
        (CHAIN, {"b = Neg (a)  [c] y = Relu (b)": "y = Neg (a)"}, ["b"]),
        (CHAIN, {"a = Sin": "k = Sin", "b = Neg (a)": "l = Neg (k)", "Relu (b)": "Identity (l)"}, ["c"]),
        (TWO, {"Sin (x)  [b] z = Cos": "Cos (x)  [b] z = Sin"}, ["a", "b"]),
        (TWO, {"(y, z)": "(z, y)"}, []),
        (BRANCH, {"Neg (s)  [q] q = Exp": "Exp (s)  [q] q = Neg"}, ["p"]),
        (BRANCH, {"(p, q)": "(m, w)", "p = Neg (s)  [q] q = Exp": "m = Exp (s)  [q] w = Neg"}, ["p"]),
    ],
    ids=["dropped Relu", "Identity", "swapped", "order of outputs", "outputs of a body", "renamed outputs of a body"],
)
def test_output_that_equals_another_value_is_wrong(
    first: str, changes: dict[str, str], culprits: list[str], tmp_path: Path
) -> None:
    second = first
    for right, wrong in changes.items():
        second = second.replace(right, wrong)
    report = compare_models(first, second, tmp_path, inputs={"yes": np.array(True)} if first is BRANCH else {})
    assert sorted({part.case.culprit.name for part in report.parts}) == culprits
    assert report.is_equal is not bool(culprits)


@pytest.mark.parametrize("body", GRAPHS)
@pytest.mark.parametrize(
    "fault",
    [
        "l = Size (e)  [bad] f = Gather (e, l)",
        "l = Shape (e)  m = Add (l, l)  [bad] f = Reshape (e, m)",
        "[bad] f = MatMul (e, e)",
        "[bad] f = Unknown (e)",
    ],
    ids=["when it runs", "by its shape", "when it is loaded", "unknown"],
)
def test_node_of_a_body_that_fails_is_named(fault: str, body: str, tmp_path: Path) -> None:
    """The last two fail in a branch that is not taken, because the engine loads it."""
    is_taken = "Gather" in fault or "Reshape" in fault  # onnxruntime 1.23 loads this Reshape
    inputs = {"yes": np.array((body == "then_branch") is is_taken)}
    report = compare_models(GRAPHS[body], GRAPHS[body].replace("[bad] f = Neg (e)", fault), tmp_path, inputs=inputs)
    assert (part_of(report).case.culprit.name, part_of(report).case.main_node.name) == ("bad", "h")


def test_infinity_does_not_hide_other_differences() -> None:
    first, second = (np.array([np.inf, *values], np.float32) for values in ((1, 2), (50, 60)))
    assert not Fingerprint.of(first).agrees(Fingerprint.of(second))
    assert Fingerprint.of(first).agrees(Fingerprint.of(first + np.float32(1e-7)))


UNREAD = """(float[4] x) => (y) <int64 i = {1}> {
    [k] k = Sin (x)  [s] s = Shape (k)  [c] c = Concat <axis = 0> (s, s)  [g] g = Gather (c, i)  [n] y = Neg (x)
}"""
SPLIT = """(float[6] x) => (y, z) <int64[3] parts = {3, 2, 1}, int64 i = {2}> {
    [s] a, b, c = Split (x, parts)  [g] y = Gather (a, i)  [n] z = Neg (c)
}"""


@pytest.mark.parametrize(
    ("first", "right", "wrong", "culprit"),
    [
        (SPLIT, "{3, 2, 1}", "{1, 2, 3}", "s"),
        (UNREAD, "(s, s)", "(s)", "c"),
    ],
    ids=["several outputs of a node", "values that no output needs"],
)
def test_value_that_makes_a_later_node_fail_is_named(
    first: str, right: str, wrong: str, culprit: str, tmp_path: Path
) -> None:
    report = compare_models(first, first.replace(right, wrong), tmp_path)
    assert report.failed_model == "second model"
    assert part_of(report).case.culprit.name == culprit
    note = "the second model fails with the value of this part, and runs with the right value"
    assert part_of(report).case.note == note


def test_initializer_that_a_caller_may_replace_stays_one_in_a_part(tmp_path: Path) -> None:
    """onnxruntime infers no shape from it, so the Slice fails when it runs, and not when it is loaded."""
    graph = """(float[4,4] x, int64[2] b) => (y) <int64[2] a = {0, 0}, int64[2] b = {2, 2}, int64[2] c = {0, 1}> {
        [e] e = Exp (x)  [s] y = Slice (e, a, b, c)
    }"""
    report = compare_models(graph, graph.replace("{0, 1}", "{1, 1}"), tmp_path)
    assert part_of(report).case.culprit.name == "s"
    assert part_of(report).case.note == ""
    assert part_of(report).case.failure.message == report.failures[0].message
