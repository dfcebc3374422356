"""Models of onnx-ir whose nodes are not sorted are lowered as those in files are, and stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import sliceport
from onnx_ops.model.io import clone_sorted, from_proto
from onnx_ops.passes import rewrite

MAIN = """<ir_version: 9, opset_import: ["" : 17]> g (float[2,8] x, bool c) => (float[2,3] a, float[2,3] b) {
    zero = Constant <value_ints = [0]> ()
    three = Constant <value_ints = [3]> ()
    eight = Constant <value_ints = [8]> ()
    one = Constant <value_ints = [1]> ()
    a = Slice (x, zero, three, one)
    rest = Slice (x, three, eight, one)
    cut = Slice (rest, zero, three, one)
    b = If (c) <then_branch = t () => (float[2,3] p) { p = Neg (cut) },
                else_branch = e () => (float[2,3] q) { n = Neg (x) q = Slice (n, zero, three, one) }>
}"""
FUNCTION = """<ir_version: 9, opset_import: ["" : 17, "f" : 1]> g (float[2,8] x) => (float[2,3] a) { a = f.Cut (x) }
<domain: "f", opset_import: ["" : 17]> Cut (x) => (y) {
    zero = Constant <value_ints = [0]> ()
    three = Constant <value_ints = [3]> ()
    one = Constant <value_ints = [1]> ()
    y = Slice (x, zero, three, one)
}"""


def parse(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(text))


def turn(graph: ir.Graph | ir.Function, order: Sequence[int] | None = None) -> None:
    """Put the nodes of a graph into another order; by default the reverse."""
    nodes = list(graph)
    graph.remove(nodes)
    graph.extend(nodes[::-1] if order is None else [nodes[i] for i in order])


def state(model: ir.Model) -> Any:
    """Return the serialized form of a model, and the number of readers of each value."""
    values = [value for node in model.graph.all_nodes() for value in node.outputs]
    return ir.to_proto(model).SerializeToString(deterministic=True), [len(value.uses()) for value in values]


def lowered(program: Any) -> list[Any]:
    return sorted(
        ([node["outputs"], node["operators"], node["verdict"]] for node in program.to_json()["nodes"]), key=repr
    )


def test_model_that_onnx_ir_cannot_clone_is_lowered() -> None:
    text = MAIN.replace("{ p = Neg (cut) }", "{ }").replace("t () => (float[2,3] p)", "t () => (float[2,3] cut)")
    assert lowered(sliceport.lower(parse(text))) == lowered(sliceport.lower(onnx.parser.parse_model(text)))


def test_if_in_front_of_the_node_that_its_branch_reads_is_sorted() -> None:
    proto = onnx.parser.parse_model(MAIN)
    proto.graph.node.insert(0, proto.graph.node.pop())
    graph = from_proto(proto).graph
    outputs = [node.outputs[0].name for node in graph]
    assert outputs.index("cut") < outputs.index("b")
    graph.clone()  # onnx-ir clones sorted graphs only


@pytest.mark.parametrize("seed", range(8))
def test_unsorted_graphs_are_lowered_as_sorted_ones(seed: int) -> None:
    expected = lowered(sliceport.lower(parse(MAIN)))
    assert len(expected) == 4
    model = parse(MAIN)
    turn(model.graph, np.random.default_rng(seed).permutation(len(model.graph)).tolist() if seed else None)
    before = state(model)
    assert lowered(sliceport.lower(model)) == expected
    assert state(model) == before
    assert lowered(sliceport.lower(ir.to_proto(model))) == expected


def test_models_with_unsorted_functions_are_lowered(tmp_path: Any) -> None:
    model = parse(FUNCTION)
    expected = lowered(sliceport.lower(model))
    turn(next(iter(model.functions.values())))
    before = state(model)
    program = sliceport.lower(model)
    assert lowered(program) == expected
    assert state(model) == before
    program.write(tmp_path / "out")
    onnx.checker.check_model(onnx.load(tmp_path / "out" / "model.onnx"))


def test_metadata_is_kept() -> None:
    model = parse(MAIN)
    model.metadata_props["made"] = model.graph.metadata_props["by"] = "hand"
    model.producer_name, model.domain, model.model_version, model.doc_string = "p", "d", 3, "text"
    model.graph.doc_string = "graph"
    turn(model.graph)
    copy = clone_sorted(model)
    assert (copy.producer_name, copy.domain, copy.model_version, copy.doc_string) == ("p", "d", 3, "text")
    assert (copy.metadata_props, copy.graph.metadata_props) == ({"made": "hand"}, {"by": "hand"})
    assert (copy.graph.doc_string, copy.graph.name, copy.ir_version) == ("graph", "g", 9)
    assert copy.opset_imports == model.opset_imports
    assert [value.name for value in copy.graph.outputs] == ["a", "b"]
    written: set[str | None] = {"x", "c"}
    for node in copy.graph:
        assert {value.name for value in node.inputs if value is not None} <= written
        written |= {value.name for value in node.outputs}


def test_tensors_of_a_sorted_model_are_shared() -> None:
    model = parse(MAIN)
    weights = ir.LazyTensor(lambda: pytest.fail("read"), ir.DataType.FLOAT, ir.Shape([2**20]), name="w")
    model.graph.register_initializer(ir.Value(name="w", const_value=weights))
    assert clone_sorted(model).graph.initializers["w"].const_value is weights


def test_a_sorted_model_keeps_its_order() -> None:
    model = parse(MAIN)
    assert [node.op_type for node in clone_sorted(model).graph] == [node.op_type for node in model.graph]


def branch(model: ir.Model, name: str) -> ir.Graph:
    return model.graph[-1].attributes[name].as_graph()


def test_an_unsorted_branch_is_sorted() -> None:
    expected = lowered(sliceport.lower(parse(MAIN)))
    model = parse(MAIN)
    turn(branch(model, "else_branch"))
    assert lowered(sliceport.lower(model)) == expected


def test_cycles_are_refused() -> None:
    model = parse(MAIN)
    cut = next(node for node in model.graph if node.outputs[0].name == "cut")
    rest = next(node for node in model.graph if node.outputs[0].name == "rest")
    rest.replace_input_with(0, cut.outputs[0])
    with pytest.raises(sliceport.ModelError, match="a graph has a cycle: some of its nodes wait for each other"):
        sliceport.lower(model)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_values_that_nothing_defines_are_refused(is_sorted: bool) -> None:
    model = parse(MAIN)
    model.graph[5].name = "first"
    model.graph[5].replace_input_with(0, ir.Value(name="nowhere"))
    if not is_sorted:
        turn(model.graph)
    with pytest.raises(
        sliceport.ModelError, match=r"node 'first' \(Slice\) reads value 'nowhere', which nothing defines"
    ):
        sliceport.lower(model)


def test_passes_say_which_node_is_before_another() -> None:
    model = parse(MAIN)
    turn(model.graph)
    with pytest.raises(sliceport.ModelError, match="the model is not well-formed: its nodes are not sorted; sort them"):
        rewrite(model)
    undefined = parse(MAIN)
    undefined.graph[5].replace_input_with(0, ir.Value(name="nowhere"))
    with pytest.raises(sliceport.ModelError, match="reads value 'nowhere', which nothing defines"):
        rewrite(undefined)
