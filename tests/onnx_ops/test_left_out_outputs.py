"""Outputs that a Split leaves out: parts that count although they have no name.

onnx-ir drops trailing outputs without a name when it writes a model, which changes how many equal parts there are; and
onnxruntime's CPU provider dies of a Split that leaves one out, so what it is given must name them all.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from forked import run
from onnx_models import parse, save
from running import as_arrays

import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.model.prepare import name_left_out_outputs
from onnx_ops.model.walk import nodes_with_opsets
from onnx_ops.passes import PASSES
from onnx_ops.passes.value_info import infer_value_info
from sliceport.cli import main as cli

LEFT_OUT = [["", "b"], ["a", ""], ["a", "", "c"], ["a", "", ""]]
IDS = ["the first", "the last", "one between", "the last two"]


def parts_of(outputs: list[str]) -> str:
    return ", ".join(name or '""' for name in outputs)


@pytest.mark.parametrize("outputs", LEFT_OUT, ids=IDS)
def test_a_node_after_a_left_out_part_has_the_size_of_a_part(outputs: list[str]) -> None:
    """Check equal parts without written sizes, whose shapes are inferred through other nodes."""
    part = next(name for name in outputs if name)
    nodes = f"""r = Relu (x)  {parts_of(outputs)} = Split<axis = 0> (r)  negative = Neg ({part})
        y = Slice (negative, starts, ends)"""
    model = parse(f"(float[6] x) => (float[n] y) <int64[1] starts = {{0}}, int64[1] ends = {{99}}> {{ {nodes} }}", 13)
    onnx.checker.check_model(model, full_check=True)
    cut, crop = sliceport.lower(model).nodes
    size = 6 // len(outputs)
    assert [c.region.output_shape for c in cut.resolved.cuts] == [(size,)] * len(outputs)
    assert crop.resolved.cuts[0].region.input_shape == (size,)
    assert crop.verdict == "alias"


@pytest.mark.parametrize("outputs", LEFT_OUT, ids=IDS)
def test_compare_names_left_out_outputs(tmp_path: Path, outputs: list[str]) -> None:
    """Run in a process of its own, since a crash of onnxruntime would end the test run."""
    sizes = [1] * (len(outputs) - 1) + [7 - len(outputs)]
    results = ", ".join(f"float[{size}] {name}" for name, size in zip(outputs, sizes, strict=True) if name)
    listed = f"<int64[{len(sizes)}] sizes = {{{', '.join(map(str, sizes))}}}>"
    save(f"(float[6] x) => ({results}) {listed} {{ {parts_of(outputs)} = Split (x, sizes) }}", tmp_path / "model.onnx")
    done = run(["-m", "sliceport", "compare", str(tmp_path / "model.onnx")])
    assert (done.returncode, done.stderr) == (0, "")


def with_parts(outputs: list[str], *, in_function: bool) -> onnx.ModelProto:
    """Return a model of the last two elements of the first part of `x`, negated, perhaps by a function."""
    part = next(name for name in outputs if name)
    nodes = f"{parts_of(outputs)} = Split<axis = 0> (x)  last = Slice ({part}, starts, ends)  y = Neg (last)"
    head = "(float[6] x) => (float[2] y) <int64[1] starts = {-2}, int64[1] ends = {99}>"
    if not in_function:
        return parse(f"{head} {{ {nodes} }}", 13)
    function = f'<domain: "local", opset_import: ["" : 13]> F (x, starts, ends) => (y) {{ {nodes} }}'
    return parse(f"{head} {{ y = local.F (x, starts, ends) }} {function}", 13, local=1)


def computed(model: onnx.ModelProto) -> list[float]:
    """Return onnxruntime's result for the elements 1 to 6, with all outputs named."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            node.output[:] = [name or f"unread_{i}" for i, name in enumerate(node.output)]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = as_arrays(session.run(None, {"x": np.arange(1, 7, dtype=np.float32)}))
    first: list[float] = results[0].tolist()
    return first


@pytest.mark.parametrize("in_function", [False, True], ids=["graph", "function"])
@pytest.mark.parametrize("outputs", [["", "b"], ["a", ""], ["a", "", ""]], ids=["the first", "the last", "two"])
@pytest.mark.parametrize("words", [["rewrite", "--passes", "merge"], ["rewrite"], ["harden"]], ids=" ".join)
def test_written_models_have_all_outputs(
    tmp_path: Path, words: list[str], outputs: list[str], in_function: bool
) -> None:
    """Check that a file whose Split has fewer outputs has other parts, and other values."""
    model = with_parts(outputs, in_function=in_function)
    onnx.save(model, tmp_path / "model.onnx")
    command, *options = words
    arguments = [command, str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out.onnx"), *options]
    assert cli.main([*arguments, "--target", "onnxruntime-dml"] if command == "harden" else arguments) == 0
    assert computed(onnx.load(tmp_path / "out.onnx")) == computed(model)


@pytest.mark.parametrize("where", ["input", "initializer of body", "input of body"])
def test_names_are_free_in_functions_too(where: str) -> None:
    """Check names of a function's inputs and of the graphs in its nodes, read or not."""
    model = with_parts(["a", ""], in_function=True)
    (function,) = model.functions
    if where == "input":
        function.input.append("left_out_0")
        (call,) = (node for node in model.graph.node if node.op_type == function.name)
        call.input.append("x")
    else:
        body = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["a"], ["same"])], "body", [], [])
        body.output.add(name="same")
        if where == "initializer of body":
            body.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.float32), "left_out_0"))
        else:
            body.input.add(name="left_out_0")
        function.node.add(op_type="Own", domain="own", output=["own"]).attribute.append(
            onnx.helper.make_attribute("body", body)
        )
        function.opset_import.append(onnx.helper.make_opsetid("own", 1))
    named = from_proto(model)
    name_left_out_outputs(named)
    (cut,) = [node for node, _ in nodes_with_opsets(named) if node.op_type == "Split"]
    assert [output.name for output in cut.outputs] == ["a", "left_out_1"]


@pytest.mark.parametrize("in_function", [False, True], ids=["graph", "function"])
@pytest.mark.parametrize("name", PASSES)
def test_no_pass_takes_a_part_for_a_larger_one(name: str, in_function: bool) -> None:
    model = from_proto(with_parts(["a", "", ""], in_function=in_function))
    PASSES[name]()(model)
    name_left_out_outputs(model)
    assert computed(ir.to_proto(model)) == [-1, -2]


@pytest.mark.parametrize("in_function", [False, True], ids=["graph", "function"])
def test_sizes_are_those_of_the_parts(in_function: bool) -> None:
    model = from_proto(with_parts(["a", "", ""], in_function=in_function))
    known = infer_value_info(model)
    (cut,) = [node for node, _ in nodes_with_opsets(model) if node.op_type == "Split"]
    assert known.sizes[cut.outputs[0]] == (2,)
