"""Steps far away, at which onnx's shape inference crashes or hangs, do no harm."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from forked import run
from onnx import TensorProto, helper

COMMANDS = """
from sliceport.cli.main import main
print(*[main(words.split()) for words in ("lower m.onnx", "rewrite m.onnx -o o.onnx", "harden m.onnx -o h.onnx")])
"""


@pytest.mark.parametrize("step", [2**63 - 1, -(2**63), 2**62, 2**31 - 1])
@pytest.mark.parametrize("in_function", [False, True])
def test_steps_that_crash_onnx_are_lowered(tmp_path: Path, step: int, in_function: bool) -> None:
    """Slice a Shape, for which onnx has its own inference, in the main graph or in a function."""
    cut = [
        helper.make_node("Constant", [], [name], value_ints=[value])
        for name, value in (("s", 0 if step > 0 else -1), ("e", 4 if step > 0 else -(2**63)), ("a", 0), ("t", step))
    ]
    cut += [
        helper.make_node("Shape", ["x"], ["h"]),
        helper.make_node("Slice", ["h", "s", "e", "a", "t"], ["d"]),
        helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"]),
    ]
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
    function = helper.make_function("local", "cut", ["x"], ["d", "y"], cut, opsets[:1])
    graph = helper.make_graph(
        [helper.make_node("cut", ["x"], ["d", "y"], domain="local")] if in_function else cut,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 3, 1, 2])],
        [
            helper.make_tensor_value_info("d", TensorProto.INT64, None),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        ],
    )
    proto = helper.make_model(graph, opset_imports=opsets, functions=[function] if in_function else [], ir_version=8)
    onnx.save(proto, tmp_path / "m.onnx")
    ran = run(["-c", COMMANDS], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "0 0 0"
