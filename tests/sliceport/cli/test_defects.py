"""`sliceport defects` lists the table."""

from __future__ import annotations

import json

from command_line import Invoke

from sliceport.defects.defect import gives
from sliceport.defects.engines import ONNXRUNTIME_DML, OPENVINO, TITLES, VERSIONS
from sliceport.defects.table import DEFECTS, defects_of, find_defect
from sliceport.report.defects import defect_issue


def test_every_entry_is_listed_under_each_of_its_engines(invoke: Invoke) -> None:
    sections = invoke("defects").out.rstrip("\n").split("\n\n")
    assert [section.splitlines()[0] for section in sections] == [f"{TITLES[name]} ({name})" for name in TITLES]
    for engine, section in zip(TITLES, sections, strict=True):
        assert [line.partition(":")[0].strip() for line in section.splitlines()[1:]] == [
            defect.id for defect in defects_of(engine)
        ]


def test_one_engine_with_all_that_is_known(invoke: Invoke) -> None:
    said = invoke("defects", "--engine", OPENVINO, "-v").out
    for defect in defects_of(OPENVINO):
        assert f"  {defect.id}: given {defect.trigger}, it " in said
        assert f"    right: {defect.right}\n" in said
        assert f"    {defect.remedy}\n" in said
    assert (
        "    case: i32[2], begin [0], end [0], strides [1], shrink_axis_mask [1], ellipsis_mask [1]: nothing " in said
    )
    assert "gates another" not in said


def test_json_has_the_listed_entries(invoke: Invoke) -> None:
    report = json.loads(invoke("defects", "--format", "json").out)
    assert [entry["id"] for entry in report["defects"]] == [defect.id for defect in DEFECTS]
    entries = json.loads(invoke("defects", "--engine", OPENVINO, "--format", "json").out)["defects"]
    assert all(OPENVINO in [one["engine"] for one in entry["divergences"]] for entry in entries)
    assert 0 < len(entries) < len(DEFECTS)


def test_unknown_engine_is_refused(invoke: Invoke) -> None:
    assert "'openvin' is not known, did you mean 'openvino'?" in invoke("defects", "--engine", "openvin", code=2).err


def test_report_has_the_case_and_what_the_standard_and_the_engine_say(invoke: Invoke) -> None:
    text = invoke("defects", "report", "a-part-is-empty").out
    assert text.startswith("# onnxruntime's DirectML provider skips every node that it fuses with the empty one, ")
    assert ", given a Split with an empty part\n" in text
    assert f"Versions: {', '.join(VERSIONS[ONNXRUNTIME_DML])}.\n" in text
    (example,) = find_defect("a part is empty").examples
    assert f"```\n{example.case.to_json()['onnx']}\n```" in text
    assert (
        "## Expected\nBy Split-13, split [0, 4] of 4 elements gives an empty output and the whole input.\n"
        "1. nothing; elements 0, 1," in text
    )
    assert "\n1. memory that was never written or is outside the input\n" in text
    assert text.endswith("## Earlier reports\nmicrosoft/onnxruntime#25496\n")


def test_every_defect_has_a_report_for_each_of_its_engines() -> None:
    for defect in DEFECTS:
        for engine in defect.engines:
            text = defect_issue(defect, engine)
            assert all(f"`{each.case}`" in text for each in defect.examples_on(engine) or defect.examples)


def test_report_of_another_defect_is_refused(invoke: Invoke) -> None:
    printed = invoke("defects", "report", "a-part-is-emty", code=2)
    assert "'a-part-is-emty' is not known, did you mean 'a-part-is-empty'?" in printed.err
    for words in (
        ["report", "a-part-is-empty", "--engine", OPENVINO],
        ["--engine", OPENVINO, "report", "a part is empty"],
    ):
        assert "is not a defect of openvino, but of onnxruntime-dml." in invoke("defects", *words, code=2).err


def test_outcome_of_elements_names_each_unless_they_are_consecutive() -> None:
    ranges = [range(2, 5), range(0, 6, 2), range(4, 1, -1)]
    assert str(gives(*ranges)) == "elements 2 to 4; elements 0, 2, 4; elements 4, 3, 2"
