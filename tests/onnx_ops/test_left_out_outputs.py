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
from onnx import helper, numpy_helper
from running import as_arrays

import onnx_ops
from onnx_ops.model.io import from_proto
from onnx_ops.model.prepare import name_left_out_outputs
from onnx_ops.passes import PASSES
from onnx_ops.passes.value_info import infer_value_info
from onnx_ops.passes.walk import every_node
from sliceport.cli import main as cli

LEFT_OUT = [["", "b"], ["a", ""], ["a", "", "c"], ["a", "", ""]]
IDS = ["the first", "the last", "one between", "the last two"]


def float_vector(name: str, size: int | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n" if size is None else size])


def model_of(
    nodes: list[onnx.NodeProto], results: list[onnx.ValueInfoProto], **constants: list[int]
) -> onnx.ModelProto:
    """Return a model of input `x` with 6 elements."""
    initializers = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [float_vector("x", 6)], results, initializers)
    opset = 18 if any(node.op_type == "Split" and len(node.input) > 1 for node in nodes) else 13
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize("outputs", LEFT_OUT, ids=IDS)
def test_what_comes_after_has_the_size_of_the_part_and_not_of_fewer_parts(outputs: list[str]) -> None:
    """Check equal parts without written sizes, whose shapes are inferred through other nodes."""
    part = next(name for name in outputs if name)
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Split", ["r"], outputs, "cut", axis=0),
        helper.make_node("Neg", [part], ["negative"]),
        helper.make_node("Slice", ["negative", "starts", "ends"], ["y"], "crop"),
    ]
    cut, crop = onnx_ops.lower(model_of(nodes, [float_vector("y", None)], starts=[0], ends=[99])).nodes
    size = 6 // len(outputs)
    assert [c.region.output_shape for c in cut.resolved.cuts] == [(size,)] * len(outputs)
    assert crop.resolved.cuts[0].region.input_shape == (size,)
    assert crop.verdict == "alias"


@pytest.mark.parametrize("outputs", LEFT_OUT, ids=IDS)
def test_compare_names_them(tmp_path: Path, outputs: list[str]) -> None:
    """Run in a process of its own, since a crash of onnxruntime would end the test run."""
    sizes = [1] * (len(outputs) - 1) + [7 - len(outputs)]
    node = helper.make_node("Split", ["x", "sizes"], outputs, "cut", axis=0)
    results = [float_vector(name, size) for name, size in zip(outputs, sizes, strict=True) if name]
    onnx.save(model_of([node], results, sizes=sizes), tmp_path / "model.onnx")
    done = run(["-m", "sliceport", "compare", str(tmp_path / "model.onnx")])
    assert (done.returncode, done.stderr) == (0, "")


def with_parts(outputs: list[str], *, in_function: bool) -> onnx.ModelProto:
    """Return a model of the last two elements of the first part of `x`, negated, perhaps by a function."""
    part = next(name for name in outputs if name)
    nodes = [
        helper.make_node("Split", ["x"], outputs, "cut", axis=0),
        helper.make_node("Slice", [part, "starts", "ends"], ["last"], "crop"),
        helper.make_node("Neg", ["last"], ["y"]),
    ]
    if not in_function:
        return model_of(nodes, [float_vector("y", 2)], starts=[-2], ends=[99])
    opset = helper.make_opsetid("", 13)
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], [float_vector("y", 6)], starts=[-2], ends=[99])
    model.graph.node[0].CopyFrom(helper.make_node("F", ["x", "starts", "ends"], ["y"], domain="local"))
    model.graph.output[0].CopyFrom(float_vector("y", 2))
    model.functions.append(helper.make_function("local", "F", ["x", "starts", "ends"], ["y"], nodes, [opset]))
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


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
def test_what_is_written_has_them_all(tmp_path: Path, words: list[str], outputs: list[str], in_function: bool) -> None:
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
    (cut,) = [node for node, _ in every_node(named) if node.op_type == "Split"]
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
    (cut,) = [node for node, _ in every_node(model) if node.op_type == "Split"]
    assert known.sizes[cut.outputs[0]] == (2,)
