"""Two runs over the same models: what is new, fixed, changed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from batch_rows import compare_runs, make_finding, make_header, make_row, make_rows

from sliceport.batch.compare_runs import Change, RunComparison, describe_finding
from sliceport.batch.row import Row
from sliceport.errors import UsageError

A, B, U = make_finding(node="a"), make_finding(node="b"), make_finding(node="", reason="untested")
CLEAN = make_row()
UPGRADED = (
    make_header(versions={"onnxruntime": "1.30.0", "onnx": "1.23.0", "gone": "1.0"}),
    make_header(versions={"onnxruntime": "1.31.1", "onnx": "1.23.0", "openvino": "2026.4.1"}),
)


def finding(*findings: Any, **parts: Any) -> Row:
    return make_row("zoo/a.onnx", "finding", *findings, **parts)


def outcome(before: Row, after: Row) -> tuple[list[str], list[str], tuple[str, ...] | None]:
    """Return for one model the nodes or reasons of what is new and of what is fixed, and what differs otherwise."""
    compared = compare_runs([before], [after])
    new, fixed = ([one["node"] or one["reason"] for change in changes for one in change.findings]
                  for changes in (compared.new, compared.fixed))  # fmt: skip
    differs = compared.changed[0].differs if compared.changed else None
    assert compared.same == (not new and not fixed and differs is None)
    assert compared.is_clean == (not new)
    return new, fixed, differs


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (CLEAN, CLEAN, ([], [], None)),
        (finding(A), finding(A), ([], [], None)),
        (finding(A, B), finding(B, A), ([], [], None)),
        (CLEAN, finding(A), (["a"], [], None)),
        (finding(A), CLEAN, ([], ["a"], None)),
        (finding(A), finding(B), (["b"], ["a"], None)),
        (finding(A), finding(A, A), (["a"], [], None)),
        (finding(A, A), finding(A), ([], ["a"], None)),
        (CLEAN, finding(), (["finding"], [], None)),
        (finding(A), make_row("zoo/a.onnx", "untested", U), (["untested"], [], None)),
        (make_row("zoo/a.onnx", "untested", U), finding(A), (["a"], ["untested"], None)),
        (CLEAN, make_row(verdict="crash"), (["crash"], [], None)),
        (make_row(verdict="crash"), CLEAN, ([], ["crash"], None)),
        (make_row(verdict="error"), make_row(verdict="crash"), (["crash"], [], None)),
        (finding(A), make_row(verdict="timeout"), (["timeout"], [], None)),
        (make_row(verdict="timeout"), finding(A), (["a"], ["timeout"], None)),
        (make_row(verdict="error"), make_row(verdict="error", message="Another."), ([], [], ("message",))),
        (CLEAN, make_row(result={"summary": {"total": 4}}), ([], [], ("result",))),
        (CLEAN, make_row(result=None), ([], [], ("result",))),
        (CLEAN, make_row(input_shapes={"x": [1]}), ([], [], ("input_shapes",))),
        (CLEAN, make_row(stderr=["at 0x7f001234"], key="b2" * 32), ([], [], None)),
        (finding(A), finding({**A, "message": "Another."}), ([], [], ("findings",))),
        (CLEAN, make_row("zoo/a.onnx", "clean", {**A, "reason": "rewritten"}), ([], [], ("findings",))),
        (finding(A), finding(A, {**B, "reason": "rewritten"}), ([], [], ("findings",))),
        (finding(A, B), finding(B, {**A, "reason": "rewritten"}), ([], ["a"], None)),
    ],
)
def test_one_model_is_compared(
    before: Row, after: Row, expected: tuple[list[str], list[str], tuple[str, ...] | None]
) -> None:
    assert outcome(before, after) == expected


@pytest.mark.parametrize("part", ["reason", "operator", "engine", "defect", "node"])
def test_finding_with_another_part_than_the_message_is_new(part: str) -> None:
    compared = compare_runs([finding(A)], [finding({**A, part: "other"})])
    assert len(compared.new) == len(compared.fixed) == 1


def test_models_of_one_run_are_added_or_removed() -> None:
    compared = compare_runs(map(make_row, "abc"), [make_row("c"), make_row("d", "finding", A)])
    assert (compared.added, compared.removed, compared.same) == (["d"], ["a", "b"], 1)
    assert compared.is_clean


def test_changes_stay_sorted_by_model() -> None:
    names = [f"{i}.onnx" for i in range(9)]
    compared = compare_runs(map(make_row, names), [make_row(name, "crash") for name in names])
    assert [change.model for change in compared.new] == names
    assert (compared.new[0].before, compared.new[0].after) == ("clean", "crash")
    assert compared.new[0].findings[0]["message"] == compared.new[0].message == "It ended as crash."


def test_versions_and_options_that_differ_are_said() -> None:
    headers = (UPGRADED[0], make_header(versions=UPGRADED[1]["versions"], options={"seed": 1, "feature_level": "6.4"}))
    compared = compare_runs([CLEAN], [CLEAN], headers)
    assert compared.versions == [
        Change("gone", "1.0", None),
        Change("onnxruntime", "1.30.0", "1.31.1"),
        Change("openvino", None, "2026.4.1"),
    ]
    assert compared.options == [Change("seed", 0, 1)]


def test_the_version_of_an_engine_in_a_result_is_no_difference() -> None:
    before, after = (list(make_rows(40, version=version)) for version in ("1.30.0", "1.31.1"))
    assert compare_runs(before, after, UPGRADED).same == 40


@pytest.mark.parametrize("field", ["against", "command", "on", "reference", "version", "versions", "seed"])
def test_field_that_states_the_run_is_left_out_at_any_depth(field: str) -> None:
    headers = (make_header(options={}), make_header(options={"seed": 5}))
    for wrap in (lambda data: data, lambda data: {"parts": [data]}, lambda data: [{"a": {"b": data}}]):
        rows = [make_row(result=wrap(data)) for data in ({"total": 3}, {field: "1.30.0", "total": 3})]
        assert compare_runs(rows[:1], rows[1:], headers).same == 1
        other = make_row(result=wrap({field: "1.30.0", "total": 4}))
        assert compare_runs(rows[:1], [other], headers).changed[0].differs == ("result",)


def test_option_that_both_runs_have_is_compared() -> None:
    assert outcome(make_row(result={"seed": 1}), make_row(result={"seed": 2})) == ([], [], ("result",))


def test_message_that_repeats_the_result_is_no_difference() -> None:
    before, after = (make_row(message=f"3 comparisons with onnxruntime-cpu {version}") for version in ("1.30", "1.31"))
    assert outcome(before, after) == ([], [], None)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"node": "n", "message": "4 of n10 differ."}, "mismatch Split 'n' on openvino-cpu: 4 of n10 differ."),
        ({"engine": "ort", "message": "'node_1' at a port."}, "mismatch on ort: 'node_1' at a port."),
        ({"engine": "ov", "message": "'node_1' on ov-cpu."}, "mismatch on ov: 'node_1' on ov-cpu."),
        ({"engine": "ov", "message": "'node_1' by ov."}, "mismatch: 'node_1' by ov."),
        ({"node": "it's", "message": 'Split "it\'s" on openvino-cpu.'}, 'mismatch: Split "it\'s" on openvino-cpu.'),
    ],
)
def test_finding_leaves_out_only_names_of_its_message(parts: dict[str, str], line: str) -> None:
    assert describe_finding(make_finding(**parts)) == line


def test_runs_of_different_commands_are_refused() -> None:
    with pytest.raises(UsageError, match="the runs are of different commands, lower and compare"):
        compare_runs([CLEAN], [CLEAN], (make_header(command="lower"), make_header()))


def test_runs_with_nothing_in_common_are_refused() -> None:
    message = (
        "no model in common: 'a' is only in the earlier run, and 'b' only in the later one; give runs over the same"
    )
    with pytest.raises(UsageError, match=message):
        compare_runs([make_row("a")], [make_row("b")])


def test_empty_runs_are_the_same() -> None:
    assert compare_runs([], []) == RunComparison()


def example() -> RunComparison:
    rows_a = [make_row("a"), make_row("b", "finding", A), make_row("c"), make_row("d"), make_row("gone")]
    rows_b = [
        make_row("a", "finding", A, {**B, "message": "", "defect": "a defect"}),
        make_row("b"),
        make_row("c", result=None),
        make_row("d"),
        make_row("more"),
    ]
    return compare_runs(rows_a, rows_b, (UPGRADED[0], make_header(versions=UPGRADED[0]["versions"] | {"onnx": "1.24"})))


def test_text_has_all_parts() -> None:
    assert example().text(None) == (
        "package  before  after\n"
        "-------  ------  -----\n"
        "onnx     1.23.0  1.24\n"
        "\n"
        "4 models in both runs: 1 new, 1 fixed, 1 changed, 1 same; 1 added, 1 removed\n"
        "\n"
        "new:\n"
        "  a: clean to finding\n"
        "    mismatch Split 'a' on openvino-cpu: Split 'node_1': 3 of 12 bytes differ.\n"
        "    mismatch Split 'b' on openvino-cpu (a defect)\n"
        "\n"
        "fixed:\n"
        "  b: finding to clean\n"
        "    mismatch Split 'a' on openvino-cpu\n"
        "\n"
        "changed:\n"
        "  c: clean; other result\n"
        "\n"
        "added:\n"
        "  more\n"
        "\n"
        "removed:\n"
        "  gone"
    )


def test_text_of_equal_runs_says_that_the_versions_are_equal() -> None:
    text = compare_runs([CLEAN], [CLEAN], (make_header(), make_header())).text(80)
    assert text.startswith("Both runs have the same versions of all packages.\n\n1 model in both runs: 0 new,")


def test_text_is_cut_and_escaped() -> None:
    evil = "\x1b[31m\n\u202e"
    findings = [make_finding(node=f"{evil}{i}", message=evil) for i in range(22)]
    rows = [make_row(f"{i}{evil}", "finding", *findings) for i in range(23)]
    text = compare_runs([make_row(row["model"]) for row in rows], rows).text(60)
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(re.findall(r"^  \d+\\x1b", text, re.MULTILINE)) == 20
    assert text.endswith("    and 2 more\n  and 3 more")


def test_json_has_all_parts() -> None:
    data = json.loads(json.dumps(example().to_json()))
    assert data["versions"] == [{"package": "onnx", "before": "1.23.0", "after": "1.24"}]
    assert data["summary"] == {"new": 1, "fixed": 1, "changed": 1, "added": 1, "removed": 1, "same": 1}
    assert [change["model"] for change in data["new"]] == ["a"]
    assert [one["node"] for one in data["new"][0]["findings"]] == ["a", "b"]
    assert data["changed"][0]["differs"] == ["result"]
    assert (data["added"], data["removed"]) == (["more"], ["gone"])
