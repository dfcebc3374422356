"""Nodes and constants that many nodes share are read once, and not once for each reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from onnx_models import integers, parse
from sessions import compute

from onnx_ops.model.io import from_proto
from onnx_ops.passes import PASSES, edits, matchers, rewrite
from onnx_ops.passes.edits import remove_unread
from onnx_ops.passes.rewrite import compose_slices, slice_of_concat, split_of_part

COUNT = 40
LARGE = 2**17 + 1


def make_model(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], size: int, constants: Mapping[str, Any]
) -> onnx.ModelProto:
    """Build a model of nodes that read `x`, a tensor of one axis, and constants."""
    proto = parse(f"(float[{size}] x) => ({', '.join(outputs)}) <{integers(**constants)}> {{}}", 13)
    proto.graph.node.extend(nodes)
    return onnx.shape_inference.infer_shapes(proto)


def counted(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> list[Any]:
    """Record the arguments of all further calls of a function."""
    function: Callable[..., Any] = getattr(place, name)
    calls = []

    def call(*args: Any) -> Any:
        calls.append(args)
        return function(*args)

    monkeypatch.setattr(place, name, call)
    return calls


def run(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Run one pass, check that the model computes the same, and return it."""
    model = from_proto(proto)
    assert PASSES[name]()(model).modified
    after = ir.serde.serialize_model(model)
    x = np.arange(1, 1 + proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value, dtype=np.float32)
    assert [y.tolist() for y in compute(after, x=x)] == [y.tolist() for y in compute(proto, x=x)]
    return after


def test_operands_of_a_concat_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices start in each operand, and every third one ends there, too. Some operands are empty."""
    sizes = [(0, 4, 5)[i % 3] for i in range(COUNT)]
    split = helper.make_node("Split", ["x", "sizes"], [f"p{i}" for i in range(COUNT)])
    concat = helper.make_node("Concat", [f"p{i}" for i in range(COUNT)], ["c"], axis=0)
    ends = np.cumsum(sizes).tolist()
    constants: dict[str, Any] = {"sizes": sizes, "zero": [0], "back": [-2]}
    slices = []
    for i, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        constants |= {f"s{i}": [end - size], f"e{i}": [end - 1 + i % 3], f"l{i}": [end - 1], f"m{i}": [end - 4]}
        slices.append(helper.make_node("Slice", ["c", f"s{i}", f"e{i}"], [f"y{i}"]))
        slices.append(helper.make_node("Slice", ["c", f"l{i}", f"m{i}", "zero", "back"], [f"z{i}"]))
    proto = make_model([split, concat, *slices], [node.output[0] for node in slices], ends[-1], constants)
    calls = counted(monkeypatch, slice_of_concat.SliceOfConcatPass, "_find_operand_ends")
    run(proto, "concat")
    assert len(calls) == 1


def test_parts_of_a_split_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    split = helper.make_node("Split", ["x"], [f"p{i}" for i in range(COUNT)], axis=0)
    slices = [helper.make_node("Slice", [f"p{i}", "one", "three"], [f"y{i}"]) for i in range(COUNT)]
    outputs = [f"y{i}" for i in range(COUNT)] + ["p3"]
    proto = make_model([split, *slices], outputs, 4 * COUNT, {"one": [1], "three": [3]})
    calls = counted(monkeypatch, compose_slices, "read_exact_split")
    monkeypatch.setattr(compose_slices.SliceOfSplitPass, "spares_siblings", False)
    run(proto, "part")
    assert len(calls) == 1


def test_readers_of_parts_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that something reads keeps the Split, wherever it is."""
    split = ir.node("Split", [ir.Value(name="x")], num_outputs=COUNT)
    reader = ir.node("Abs", [split.outputs[-2]])
    graph = ir.Graph([], [], nodes=[split, reader], name="g")
    calls = counted(monkeypatch, edits, "is_used")
    for output in split.outputs:
        remove_unread(output)
    assert len(calls) < 4 * COUNT
    graph.remove(reader, safe=True)
    remove_unread(split.outputs[0])
    assert not list(graph)


def test_indices_of_gathers_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of indices is not a range. Each pass reads it for each Gather."""
    gathers = [helper.make_node("Gather", ["x", "indices"], [f"y{i}"], f"g{i}") for i in range(COUNT)]
    proto = make_model(gathers, [f"y{i}" for i in range(COUNT)], 8, {"indices": [1, 3, 2]})
    calls = counted(monkeypatch, matchers, "_read_indices")
    rewrite(from_proto(proto), ("gather", "siblings"))
    assert len(calls) == 1


def slices_of_a_constant(**constant: Any) -> onnx.ModelProto:
    """Build a model of Slices of a constant `d`."""
    slices = [helper.make_node("Slice", ["d", f"s{i}", f"e{i}"], [f"y{i}"], f"n{i}") for i in range(COUNT)]
    bounds = {f"s{i}": [i] for i in range(COUNT)} | {f"e{i}": [i + 2] for i in range(COUNT)}
    nodes = [helper.make_node("Constant", [], ["d"], **constant)] if constant else []
    return make_model([*nodes, *slices], [f"y{i}" for i in range(COUNT)], 8, bounds)


def test_listed_elements_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of a large constant whose elements are no raw data, so that an array is made of them."""
    proto = slices_of_a_constant()
    proto.graph.initializer.append(helper.make_tensor("d", TensorProto.INT32, [LARGE], range(LARGE)))
    model = from_proto(proto)
    arrays = counted(monkeypatch, ir.serde.TensorProtoTensor, "numpy")
    rewrite(model)
    assert not any(node.op_type == "Slice" for node in model.graph)
    assert sum(tensor.name == "d" for (tensor,) in arrays) == 1


def test_integers_of_a_constant_node_become_one_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnx-ir builds no tensor of them itself."""
    model = from_proto(slices_of_a_constant(value_ints=range(LARGE)))
    assert len(model.graph) == COUNT + 1
    function, made = ir.tensor, []

    def make(value: Any, *args: Any, **kwargs: Any) -> Any:
        made.append(value)
        return function(value, *args, **kwargs)

    monkeypatch.setattr(ir, "tensor", make)
    rewrite(model)
    assert sum(isinstance(value, list) and len(value) == LARGE for value in made) == 1


@pytest.mark.parametrize("is_last", [False, True])
def test_a_chain_of_splits_becomes_one_split(is_last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain, in which each cuts one element off what the one before leaves: not as many Splits as nodes are built."""
    splits, constants, size = [], {}, COUNT + 1
    for i in range(COUNT):
        rest, names = size - 1 - i, (f"y{i}", f"r{i}")
        constants[f"s{i}"] = [rest, 1] if is_last else [1, rest]
        names = names[::-1] if is_last else names
        splits.append(helper.make_node("Split", [f"r{i - 1}" if i else "x", f"s{i}"], names, f"n{i}", axis=0))
    proto = make_model(splits, [*(f"y{i}" for i in range(COUNT)), f"r{COUNT - 1}"], size, constants)
    calls = counted(monkeypatch, split_of_part, "build_split")
    after = run(proto, "nested")
    assert [node.op_type for node in after.graph.node] == ["Constant", "Split"]
    assert len(calls) < COUNT / 2
    assert after.graph.node[1].name == "n0"


def test_split_that_would_be_gated_is_not_merged() -> None:
    """A part of one Split is multiplied by the Sigmoid of a part of another: only one of these is merged."""
    outer = helper.make_node("Split", ["x"], [f"y{i}" for i in range(COUNT)], "outer", axis=0)
    splits = [helper.make_node("Split", [f"y{i}"], [f"a{i}", f"b{i}"], f"n{i}", axis=0) for i in range(COUNT)]
    gate = helper.make_node("Sigmoid", ["b0"], ["g"], "gate")
    gated = helper.make_node("Mul", ["b1", "g"], ["q"], "gated")
    after = run(make_model([outer, *splits, gate, gated], ["q"], 2 * COUNT, {}), "nested")
    assert [node.name for node in after.graph.node if node.op_type == "Split"] == ["outer", "n1"]


@pytest.mark.parametrize("count", [COUNT, 300])
def test_many_overlapping_pairs_become_splits(count: int) -> None:
    """Each pair of Slices tiles the axis: one search finds all of them."""
    constants: dict[str, Any] = {"zero": [0], "end": [count + 1]} | {f"c{i}": [i] for i in range(1, count + 1)}
    slices = [
        helper.make_node("Slice", ["x", *bounds], [f"{side}{i}"], f"{side}{i}")
        for i in range(1, count + 1)
        for side, bounds in (("a", ("zero", f"c{i}")), ("b", (f"c{i}", "end")))
    ]
    model = from_proto(make_model(slices, [node.output[0] for node in slices], count + 1, constants))
    report = rewrite(model)
    assert report.after == count
    assert not any(rewrite(model).changes.values())


def test_a_reason_names_few_sizes() -> None:
    """Many Splits may read one list that has too many sizes for them."""
    split = helper.make_node("Split", ["x", "sizes"], ["y"], "n", axis=0)
    proto = make_model([split], ["y"], 8, {"sizes": [1] * 1000})
    assert "split=[1, ...] of 1000 sizes must have" in rewrite(from_proto(proto)).text(verbose=True)
