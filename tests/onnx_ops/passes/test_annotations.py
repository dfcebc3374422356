"""Names and annotations of nodes and values that passes replace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx
import onnx_ir as ir
import pytest
from amounts import some
from onnx import helper
from onnx_models import parse
from pass_cases.conditions import FIRES
from pass_cases.examples import examples, models

from onnx_ops.model.io import from_proto
from onnx_ops.passes import HARDEN_DIRECTML, rewrite
from onnx_ops.passes.base import SlicingPass
from onnx_ops.passes.portable.harden import PORTABLE

HARDENING = {kind.__name__: kind for kind in (*HARDEN_DIRECTML, *PORTABLE)}
EXAMPLES = [f"example {i} of {name}" for name, kind in HARDENING.items() for i in range(len(examples(kind)))]
CASES = [*FIRES, *EXAMPLES]


def case_of(name: str) -> tuple[type[SlicingPass], onnx.ModelProto]:
    """Return a pass and a model that it changes, with a name for each node."""
    if name in FIRES:
        kind, proto = FIRES[name].kind, FIRES[name].proto
    else:
        _, number, _, which = name.split()
        kind = HARDENING[which]
        proto, _ = models(*examples(kind)[int(number)])
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for i, node in enumerate(copy.graph.node):
        node.name = f"n{i}"
    return kind, copy


def names_of(model: ir.Model) -> list[str]:
    holders: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    return [node.name for holder in holders for node in holder.all_nodes() if node.name]


def run_pass(kind: type[SlicingPass], proto: onnx.ModelProto) -> ir.Model:
    model = from_proto(proto)
    assert kind()(model).modified
    return model


def constants(names: list[str]) -> Iterator[onnx.NodeProto]:
    """Yield nodes with these names, which no pass changes."""
    for i, name in enumerate(names):
        yield helper.make_node("Constant", [], [f"held{i}"], name, value_float=0.0)


def constants_in_branch(names: list[str]) -> list[onnx.NodeProto]:
    """Return the nodes of `constants` in a branch of an If."""
    proto = parse("""() => (float chosen) <bool condition = {1}> {
        chosen = If (condition) <then_branch = body () => (float out) { out = Constant <value_float = 1.0> () },
            else_branch = other () => (float out) { out = Constant <value_float = 1.0> () }> }""")
    proto.graph.node[0].attribute[0].g.node.extend(constants(names))
    condition = helper.make_node("Constant", [], ["condition"], value=proto.graph.initializer[0])
    return [condition, *proto.graph.node]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("case", some([*CASES]))
def test_new_nodes_get_unique_names(case: str, inside: bool) -> None:
    kind, proto = case_of(case)
    before = names_of(from_proto(proto))
    made = [name for name in names_of(run_pass(kind, proto)) if name not in before]
    made += [f"{name}_0" for name in made]
    proto.graph.node.extend(constants_in_branch(made) if inside else list(constants(made)))
    model = run_pass(kind, proto)
    twice = Counter(names_of(from_proto(proto)))
    assert all(number <= twice.get(name, 1) for name, number in Counter(names_of(model)).items())
    assert set(made) <= set(names_of(model))
    assert not kind()(model).modified


@pytest.mark.parametrize("case", CASES)
def test_nodes_without_names_get_unique_names(case: str) -> None:
    kind, proto = case_of(case)
    for node in proto.graph.node:
        node.name = ""
    names = names_of(run_pass(kind, proto))
    assert not any(name.startswith("_") for name in names)
    own = Counter(names_of(from_proto(proto)))  # of functions
    assert all(number <= own.get(name, 1) for name, number in Counter(names).items())


def test_new_nodes_in_branches_get_different_names() -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[8] x, bool c) => (float[2] y)
        <int64[1] zero={0}, int64[1] one={1}, int64[1] two={2}, int64[1] three={3}, int64[1] five={5}>
        { y = If(c) <
            then_branch = t () => (float[2] o) { u = Slice(x, one, five, zero)  o = Slice(u, one, three, zero) },
            else_branch = e () => (float[2] o) { u = Slice(x, two, five, zero)  o = Slice(u, one, three, zero) }
        > }
    """)
    for attribute in proto.graph.node[0].attribute:
        for node, name in zip(attribute.g.node, ("first", "second"), strict=True):
            node.name = name
    model = from_proto(proto)
    assert len(rewrite(model, ["compose"]).changes["compose"]) == 2
    names = [node.name for node in model.graph.all_nodes() if node.op_type == "Slice"]
    assert names == ["second_0", "second"]


@pytest.mark.parametrize("case", CASES)
def test_annotations_of_nodes_and_values_stay(case: str) -> None:
    kind, proto = case_of(case)
    for node in proto.graph.node:
        node.doc_string = f"doc of {node.name}"
        node.metadata_props.add(key="origin", value=node.name)
    before = from_proto(proto)
    values = [value for node in before.graph for value in node.outputs if value.name]
    for value in values:
        value.doc_string = f"doc of {value.name}"
        value.metadata_props["origin"] = str(value.name)
        value.meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": f"scale of {value.name}"}
    there = {value.name for value in values}
    assert kind()(before).modified
    after = ir.serde.serialize_model(before).graph

    named = {node.name: node for node in after.node if node.name in {node.name for node in proto.graph.node}}
    for name, node in named.items():
        assert node.doc_string == f"doc of {name}"
        assert [(entry.key, entry.value) for entry in node.metadata_props] == [("origin", name)]
    scales = {each.tensor_name: each.quant_parameter_tensor_names[0].value for each in after.quantization_annotation}
    made = {name for node in after.node for name in node.output}
    assert {name: scales.get(name) for name in made & there} == {name: f"scale of {name}" for name in made & there}
    assert len(scales) == len(after.quantization_annotation) == len(made & there)
    infos = {info.name: info for info in (*after.value_info, *after.output)}
    for name in made & there:
        assert infos[name].doc_string == f"doc of {name}"
        assert [(entry.key, entry.value) for entry in infos[name].metadata_props] == [("origin", name)]


@pytest.mark.parametrize(("ends", "operator"), [((3, 9), "Identity"), ((3, 3), "Constant")])
def test_the_only_replacement_of_a_node_keeps_its_annotations(ends: tuple[int, int], operator: str) -> None:
    start, end = (0, ends[1]) if operator == "Identity" else ends
    proto = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[n] y) <int64[1] a={{{start}}}, int64[1] b={{{end}}}> {{ y = Slice(x, a, b) }}
    """)
    proto.graph.node[0].doc_string = "why"
    proto.graph.node[0].metadata_props.add(key="origin", value="here")
    model = from_proto(proto)
    rewrite(model)
    (node,) = model.graph
    assert node.op_type == operator
    assert node.doc_string == "why"
    assert node.metadata_props == {"origin": "here"}
