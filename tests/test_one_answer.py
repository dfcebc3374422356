"""`check` and `harden` give one answer from one table, on each case of the table and on its near misses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import onnx
import pytest
from onnx import parser
from openvino_child import build

import ov_ext.defects.checking
import ov_ext.defects.hardening
import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.passes.directml.harden import harden_for_directml
from sliceport.defects.cases import OnnxCase, OpenVINOCase
from sliceport.defects.engines import ONNXRUNTIME_DML
from sliceport.defects.table import DEFECTS
from sliceport.errors import ModelError

Answer = Counter[tuple[str, str]]
"""The number of findings by operator and defect."""
HARDENED = ("rewritten", "named")
ONNX_CASES = {
    f"{defect.rule} {i}": (defect, example.case)
    for defect in DEFECTS
    for i, example in enumerate(defect.examples)
    if isinstance(example.case, OnnxCase) and defect.handling in HARDENED and defect.evidence == "proved"
}
CLEAN_CASES = {
    f"{defect.rule} {i}": (defect, example.case) for defect in DEFECTS for i, example in enumerate(defect.clean)
}
OPENVINO_CASES = {
    f"{defect.rule} {i}": (defect, example.case.to_json())
    for defect in DEFECTS
    for i, example in enumerate(defect.examples)
    if isinstance(example.case, OpenVINOCase) and defect.handling in HARDENED
}


def near_misses(text: str) -> Iterator[str]:
    """Yield a model with each number changed by 1, with open sizes, and on data that are computed from a shape."""
    head, _, graph = text.partition("case ")
    for number in re.finditer(r"(?<![\w.])-?\d+\b", graph):
        for change in (-1, 1):
            changed = f"{int(number[0]) + change}"
            yield f"{head}case {graph[: number.start()]}{changed}{graph[number.end() :]}"
    sizes = re.match(r"\(float\[([\d, ]+)\] x\)", graph)
    if sizes:
        count = len(sizes[1].split(","))
        opened = ", ".join(f"open{i}" for i in range(count))
        yield f"{head}case (float[{opened}] x){graph[sizes.end() :]}"
        yield f"{head}case (float[open, {sizes[1].partition(',')[2] or 4}] x){graph[sizes.end() :]}"
        if count == 1:  # x has as many elements as w has axes
            axes = ", ".join(f"open{i}" for i in range(int(sizes[1])))
            declared, _, nodes = graph[sizes.end() :].partition(" { ")
            yield f"{head}case (float[{axes}] w){declared} {{ t = Shape(w)  x = Cast<to = 1>(t)  {nodes}"


def ask_check(model: onnx.ModelProto, kind: str) -> Answer:
    findings = sliceport.check(model, engines=[ONNXRUNTIME_DML]).findings
    return Counter((one.op, one.defect.id) for one in findings if one.kind == kind and one.defect.handling in HARDENED)


def ask_harden(model: onnx.ModelProto, *, is_fragile: bool) -> Answer:
    changes = harden_for_directml(from_proto(model)).changes
    return Counter(
        (change.op, defect.id)
        for change in changes
        for defect in change.defects
        if change.is_fragile == is_fragile and ONNXRUNTIME_DML in defect.engines
    )


@pytest.mark.parametrize("name", ONNX_CASES)
def test_check_finds_what_harden_rewrites_or_names(name: str) -> None:
    defect, case = ONNX_CASES[name]
    answers: list[Answer] = []
    for text in (case.text, *near_misses(case.text)):
        try:
            model = parser.parse_model(text)
            found = ask_check(model, "defect")
        except (parser.ParseError, ModelError, IndexError):  # the number cannot be a size or is too large
            continue
        assert found == ask_harden(model, is_fragile=False), text
        assert ask_harden(model, is_fragile=True) <= ask_check(model, "fragile"), text
        answers.append(found)
    is_here = [any(found_id == defect.id for _, found_id in answer) for answer in answers]
    assert is_here[0] == (ONNXRUNTIME_DML in defect.engines)
    assert len(answers) > 3


def near_cases(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a case with each index changed by 1, each mask bit changed, open sizes, and indices that are inputs."""
    for i, values in enumerate(case["indices"]):
        for j, value in enumerate(values):
            for change in (-1, 1):
                indices = [list(each) for each in case["indices"]]
                indices[i][j] = value + change
                yield case | {"indices": indices}
    for name, mask in case["masks"].items():
        for j, bit in enumerate(mask):
            yield case | {"masks": case["masks"] | {name: [*mask[:j], 1 - bit, *mask[j + 1 :]]}}
    yield case | {"sizes": [-1] * len(case["sizes"])}
    yield case | {"run_time": [not late for late in case["run_time"]]}
    yield case | {"element": "i32"}


@pytest.mark.parametrize("name", OPENVINO_CASES)
def test_check_finds_what_harden_rewrites_in_openvino(name: str) -> None:
    defect, case = OPENVINO_CASES[name]
    answers: list[Answer] = []
    for each in (case, *near_cases(case)):
        try:
            model, *_ = build(each)
        except (RuntimeError, OverflowError, ValueError):  # OpenVINO or NumPy refuses the changed number
            if each is case:
                raise
            continue
        findings = ov_ext.defects.checking.check(model, {}).nodes
        found = Counter((one.op, one.defect.id) for one in findings if one.defect.handling in HARDENED)
        changes = ov_ext.defects.hardening.harden(model).changes
        assert found == Counter((change.op, one.id) for change in changes for one in change.defects), each
        answers.append(found)
    is_here = [any(found_id == defect.id for _, found_id in answer) for answer in answers]
    assert is_here[0]
    assert len(answers) > 3


@pytest.mark.parametrize("name", CLEAN_CASES)
def test_clean_node_is_not_found_and_stays(name: str) -> None:
    defect, case = CLEAN_CASES[name]
    model: Any = parser.parse_model(case.text) if isinstance(case, OnnxCase) else build(case.to_json())[0]
    found = {one.defect.id for one in sliceport.check(model).findings}
    is_onnx = isinstance(case, OnnxCase)
    changes = (harden_for_directml(from_proto(model)) if is_onnx else ov_ext.defects.hardening.harden(model)).changes
    named = {each.id for change in changes for each in change.defects}
    assert defect.id not in found | named, "the condition is wider than the defect"
