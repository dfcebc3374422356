"""Nodes that break their specification: `rewrite` and `harden` name them, as `lower` does, and exit with 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from command_line import Invoke

from onnx_ops.model.io import from_proto
from onnx_ops.passes import rewrite, simplify
from onnx_ops.passes.directml.harden import harden_for_directml

SLICE = "a = Slice(x, s, e, axes, steps)"
INVALID = {
    "split=[1, 2] sums to 3, but axis 0 has 8 elements": (13, "8", "s = {1, 2}", "a, b = Split(x, s)"),
    "split sizes must not be negative, got split=[10, -2]": (13, "n", "s = {10, -2}", "a, b = Split(x, s)"),
    "split=[3, 5] must have a size for each of the 3 outputs": (13, "n", "s = {3, 5}", "a, b, c = Split(x, s)"),
    "axis 0 has 8 elements, which do not divide into 3 equal parts": (13, "8", "", "a, b, c = Split(x)"),
    "one of split and num_outputs must be given": (18, "n", "", "a, b = Split(x)"),
    "axis 1 is out of range for a tensor of rank 1": (13, "n", "", "a, b = Split<axis = 1>(x)"),
    "the step of axis 0 is 0, but it must not be": (
        *(13, "n", "s = {0}, int64[1] e = {1}, int64[1] axes = {0}, int64[1] steps = {0}", SLICE),
    ),
    "starts must have one dimension, got 2": (
        *(13, "n", "s = {0}", "u = Shape(x) v = Unsqueeze(u, s) a = Slice(x, v, u)"),
    ),
    "ends must have one dimension, got shape []": (
        *(13, "8", "s = {1}", "e = Constant<value = int64 {3}>() a = Slice(x, s, e)"),
    ),
    "axis 0 is named twice in axes=[0, -1]": (
        9,
        "n",
        "",
        "a = Slice<starts = [0, 0], ends = [1, 1], axes = [0, -1]>(x)",
    ),
}
VALID = (
    (13, "n", "s = {3, 5}", "a, b = Split(x, s)"),
    (13, "n", "", "a, b = Split(x)"),
    (18, "n", "", "a, b = Split<num_outputs = 2>(x)"),
    (13, "n", "", "s = Shape(x) a = Slice(x, s, s)"),
)


def make_model(opset: int, dims: str, constants: str, body: str) -> onnx.ModelProto:
    outputs = [f"float[{letter}] {letter}" for letter in "abc" if f"{letter} =" in body or f" {letter}," in f" {body}"]
    named = f"<int64[{constants.split('}', maxsplit=1)[0].count(',') + 1}] {constants}>" if constants else ""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[{dims}] x) =>'
    return onnx.parser.parse_model(f"{head} ({', '.join(outputs)}) {named} {{ {body} }}")


@pytest.mark.parametrize("reason", INVALID)
def test_reason_is_reported_once(reason: str, tmp_path: Path, invoke: Invoke) -> None:
    proto = make_model(*INVALID[reason])
    reports: list[Any] = [
        rewrite(from_proto(proto)),
        harden_for_directml(from_proto(proto)),
        simplify(from_proto(proto))[1],
    ]
    for report in reports:
        assert [node.reason for node in report.invalid] == [reason]
        assert not report.is_complete
        assert report.text().count(reason) == 1
        assert ", 1 not valid" in report.text()
    onnx.save(proto, tmp_path / "m.onnx")
    for verb in ("rewrite", "harden"):
        (node,) = json.loads(
            invoke(verb, tmp_path / "m.onnx", "-o", tmp_path / f"{verb}.onnx", "--format", "json", code=1).out
        )["invalid"]
        assert node["reason"] == reason


@pytest.mark.parametrize("model", VALID)
def test_valid_nodes_are_not_reported(model: tuple[int, str, str, str]) -> None:
    proto = make_model(*model)
    reports: list[Any] = [rewrite(from_proto(proto)), harden_for_directml(from_proto(proto))]
    for report in reports:
        assert not report.invalid
        assert report.is_complete


def test_nodes_of_functions_are_reported() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 13, "own" : 1]>
        g (float[8] x) => (float[a] y) { y = own.f(x) }
        <domain: "own", opset_import: ["" : 13]>
        f (x) => (y) { s = Constant<value_ints = [1, 2]>() y, z = Split(x, s) }""")
    (node,) = rewrite(from_proto(model)).invalid
    assert node.reason == "split=[1, 2] sums to 3, but axis 0 has 8 elements"
