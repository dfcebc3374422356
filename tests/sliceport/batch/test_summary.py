"""Outcomes of many models are counted as the rows come."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from batch_rows import make_finding, make_row, make_rows

from sliceport.batch.row import VERDICTS, Row, Verdict, cause_of
from sliceport.batch.summary import Summary

TWO = (make_finding(), make_finding(node="b", engine="ov_ext", defect="a defect"))


def test_models_and_findings_are_counted_by_what_they_name() -> None:
    other = make_row("c.onnx", "finding", make_finding(operator="Slice"))
    counts = Summary.of([make_row("a.onnx"), make_row("b.onnx", "finding", *TWO), other]).to_json()
    assert counts["models"] == 3
    assert counts["verdicts"] == {verdict: {"clean": 1, "finding": 2}.get(verdict, 0) for verdict in VERDICTS}
    assert counts["reasons"] == [{"name": "mismatch", "models": 2, "findings": 3}]
    assert counts["operators"] == [
        {"name": "Split", "models": 1, "findings": 2},
        {"name": "Slice", "models": 1, "findings": 1},
    ]
    assert counts["engines"] == [
        {"name": "openvino-cpu", "models": 2, "findings": 2},
        {"name": "ov_ext", "models": 1, "findings": 1},
    ]
    assert counts["defects"] == [{"name": "a defect", "models": 1, "findings": 1}]


def test_what_was_rewritten_counts_for_a_clean_model() -> None:
    summary = Summary.of([make_row("a.onnx", "clean", make_finding(reason="rewritten"))])
    assert summary.to_json()["reasons"] == [{"name": "rewritten", "models": 1, "findings": 1}]
    assert summary.attention == []
    assert summary.exit_code == 0


def test_the_cause_of_a_failure_is_its_reason() -> None:
    summary = Summary.of([make_row("a.onnx", "crash"), make_row("b.onnx", "clean"), make_row("c.onnx", "crash")])
    assert summary.to_json()["reasons"] == [{"name": "It ended as crash", "models": 2, "findings": 0}]


def test_cause_leaves_out_a_node_with_an_apostrophe() -> None:
    assert cause_of("Slice \"it's\": the shape of input 'x' is open.") == "the shape of input … is open"


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ((), 0),
        (("clean", "clean"), 0),
        (("clean", "finding"), 1),
        *(
            (("clean", "finding", verdict), 2)
            for verdict in ("untested", "error", "crash", "timeout", "memory", "lost")
        ),
    ],
)
def test_exit_codes(verdicts: tuple[Verdict, ...], code: int) -> None:
    summary = Summary.of(make_row(f"{i}.onnx", verdict) for i, verdict in enumerate(verdicts))
    assert summary.exit_code == summary.to_json()["exit_code"] == code


def test_the_worst_stand_first_and_the_rest_is_counted() -> None:
    rows = [make_row(f"{i:02}.onnx", "finding") for i in range(25)]
    rows += [make_row("z.onnx", "timeout"), make_row("y.onnx", "error"), make_row("x.onnx", "clean")]
    summary = Summary.of(rows)
    assert summary.attention[:3] == [
        ("y.onnx", "error", "It ended as error."),
        ("z.onnx", "timeout", "It ended as timeout."),
        ("00.onnx", "finding", "It ended as finding."),
    ]
    assert len(summary.attention) == 20
    assert summary.to_json()["more"] == 7
    assert summary.to_json() == Summary.of(reversed(rows)).to_json()


def test_text_has_all_counts() -> None:
    rows = [make_row("a.onnx"), make_row("b.onnx", "finding", *TWO), make_row("c.onnx", "error", message="No shape.")]
    assert Summary.of(rows).text(None) == (
        "3 models: 1 clean, 1 with findings, 1 with an error\n"
        "\n"
        "reason    models  findings\n"
        "--------  ------  --------\n"
        "mismatch  1       2\n"
        "No shape  1       0\n"
        "\n"
        "operator  models  findings\n"
        "--------  ------  --------\n"
        "Split     1       2\n"
        "\n"
        "engine        models  findings\n"
        "------------  ------  --------\n"
        "openvino-cpu  1       1\n"
        "ov_ext        1       1\n"
        "\n"
        "defect    models  findings\n"
        "--------  ------  --------\n"
        "a defect  1       1\n"
        "\n"
        "models that need attention:\n"
        "  error  c.onnx: No shape.\n"
        "  finding  b.onnx: It ended as finding."
    )


def test_long_tables_and_lists_end_with_how_many_more() -> None:
    findings = [make_finding(operator=f"Operator{i:02}") for i in range(23)]
    text = Summary.of([make_row(f"{i:04}.onnx", "finding", *findings) for i in range(1022)]).text(None)
    operators = text.split("\n\n")[2].split("\n")
    assert operators[1 + 20][:10] == "Operator19"
    assert operators[-1] == "  and 3 more"
    assert text.endswith("0019.onnx: It ended as finding.\n  and 1,002 more")


def test_text_is_as_wide_as_the_terminal() -> None:
    row = make_row("a.onnx", "error", message="Many words about what went wrong. " * 9)
    lines = Summary.of([row]).text(40).split("\n")
    assert max(map(len, lines)) <= 40
    assert lines[-1].startswith("    ")


def test_no_models() -> None:
    assert Summary().text(80) == "0 models: nothing to do"


def test_names_are_escaped() -> None:
    evil = "a\x1b[31m\nb\u202ec"
    finding = make_finding(reason=evil, operator=evil, engine=evil, defect=evil)
    text = Summary.of([make_row(evil, "finding", finding, message=evil)]).text(80)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count(r"a\x1b[31m\nb\u202ec") == 6


def test_rows_are_not_kept() -> None:
    def measure(count: int) -> int:
        tracemalloc.start()
        summary = Summary.of(make_rows(count))
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert summary.models == count
        return size

    small = measure(200)
    assert measure(2000) < small + 50_000


def test_json_can_be_written() -> None:
    rows: list[Row] = list(make_rows(80))
    assert json.loads(json.dumps(Summary.of(rows).to_json()))["models"] == 80
