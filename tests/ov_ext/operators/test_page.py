"""Every case of the table in docs/strided_slice.md is true."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from openvino_processes import answers
from pages import read

from sliceport.defects.cases import OpenVINOCase
from sliceport.defects.engines import OPENVINO, VERSIONS

PAGE = read("docs/strided_slice.md")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| (StridedSlice|Slice) \|", line)]


def test_page_has_its_cases_and_names_the_version_that_is_tested() -> None:
    assert len(ROWS) == 12
    assert f"on OpenVINO {VERSIONS[OPENVINO][-1]} and" in PAGE


def describe(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return "an error"
    elements = ", ".join(f"{value:g}" for value in answer["values"])
    return f"{answer['shape']}: {elements}".removesuffix(": ")


@pytest.mark.parametrize(("op", "text", "_reality", "case", "theirs", "ours"), ROWS, ids=[row[1][:40] for row in ROWS])
def test_case_is_as_the_page_has_it(op: str, text: str, _reality: str, case: str, theirs: str, ours: str) -> None:
    lists = dict(re.findall(r"(\w+) ?(\[.*?\])", case.replace("INT32_MAX", str(2**31 - 1))))
    indices = {name: json.loads(values) for name, values in lists.items()}
    given = OpenVINOCase.of(op, indices.pop("i32"), **indices).to_json()
    answered = answers({**given, "engine": "reference", **how} for how in ({"as_written": True}, {"ours": True}))
    assert list(map(describe, answered)) == [theirs, ours]
