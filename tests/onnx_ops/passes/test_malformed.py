"""Nodes that break their operator's specification: passes leave them, with a reason, and never fail on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from amounts import some
from onnx import helper, numpy_helper
from onnx_models import parse, read_model
from pass_cases.conditions import FIRES
from pass_cases.examples import examples, models

import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.passes import HARDEN_DIRECTML, PASSES, SplitToSlicePass, rewrite, simplify
from onnx_ops.passes.directml.harden import harden_for_directml
from onnx_ops.passes.portable.harden import PORTABLE, harden_portably
from sliceport.defects.profiles import PROFILES
from sliceport.errors import ModelError


def test_ends_of_ranges_are_not_counted_one_by_one() -> None:
    """A Slice of a Concat of axes as long as they get, which takes for ever where indices are walked through."""
    size = 2**40
    bounds = f"<int64[1] s = {{{size + 1}}}, int64[1] e = {{{2 * size}}}>"
    nodes = "{ c = Concat<axis = 0>(x, y) z = Slice(c, s, e) }"
    model = from_proto(parse(f"(float[{size}] x, float[{size}] y) => (z) {bounds} {nodes}"))
    rewrite(model)
    assert [node.op_type for node in model.graph if node.op_type != "Constant"] == ["Slice"]


def test_concat_with_left_out_operand_stays_in_the_portable_form() -> None:
    text = "(float[4] x, float[0] e) => (y, z) <int64[1] s = {1}> { z = Slice(x, s, s) y = Concat<axis = 0>(e, x) }"
    proto = parse(text, 13)
    proto.graph.node[1].input[1] = ""
    model, _ = harden_portably(from_proto(proto), PROFILES["portable"])
    assert "Concat" in [node.op_type for node in model.graph]


def test_slice_stays_after_a_squeeze_whose_axes_do_not_fit_its_shapes() -> None:
    constants = "float[2, 4, 3] a, int64[1] z = {0}, int64[1] o = {1}, int64[1] t = {2}"
    proto = parse(f"(float[2, 4] x) => (y) <{constants}> {{ a = Squeeze(x, z)  y = Slice(a, z, o, t) }}", 13)
    (skipped,) = rewrite(from_proto(proto), ["up"]).skipped["up"]
    assert skipped.reason == "not all sizes of 'a' are known"  # the declared ones are not believed


def test_simplify_leaves_a_pow_without_exponent() -> None:
    proto = parse("(float[4] x) => (float[4] y) <float[1] z = {0}> { a = Pow(x)  b = Relu(a)  y = Add(b, z) }", 13)
    simplified, _ = simplify(from_proto(proto))
    assert "Pow" in [node.op_type for node in simplified.graph]


def test_constants_in_files_that_are_not_there(tmp_path: Path) -> None:
    """A Reshape, a Squeeze, a Gather and a Slice whose parameters cannot be read stay."""
    nodes = "{ r = Reshape<allowzero = 1>(x, a)  q = Squeeze(r, b)  g = Gather(q, c)  y = Slice(g, d, e) }"
    proto = parse(f"(float[8] x) => (y) {nodes}")
    parameters = {"a": [1, -1], "b": [0], "c": [1, 2, 3], "d": [0], "e": [2]}
    proto.graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in parameters.items())
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "m.data").unlink()
    for change in (rewrite, harden_for_directml):
        model = read_model(tmp_path / "m.onnx")
        change(model)
        assert [node.op_type for node in model.graph] == ["Reshape", "Squeeze", "Gather", "Slice"]


Mutation = Callable[[onnx.NodeProto], None]


def give_inputs(inputs: Callable[[list[str]], list[str]]) -> Mutation:
    """Return a mutation that computes the inputs of a node from its inputs."""

    def mutate(node: onnx.NodeProto) -> None:
        node.input[:] = inputs([*node.input])

    return mutate


def gain_an_output(node: onnx.NodeProto) -> None:
    node.output.append(f"{node.output[0]}_more")


def have_attributes_of_another_type(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        value = "text" if attribute.type in (onnx.AttributeProto.INT, onnx.AttributeProto.INTS) else 7
        attribute.CopyFrom(helper.make_attribute(attribute.name, value))


def have_attributes_far_away(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.INT:
            attribute.i = 99
        elif attribute.type == onnx.AttributeProto.INTS:
            attribute.ints[:] = [99, -99, 99]


def refer_to_attributes_of_no_function(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        name, kind = attribute.name, attribute.type
        attribute.Clear()
        attribute.name, attribute.type, attribute.ref_attr_name = name, kind, "p"


MUTATIONS: dict[str, Mutation] = {
    "lose_inputs": give_inputs(lambda _: []),
    "lose_the_last_input": give_inputs(lambda names: names[:-1]),
    "leave_out_the_first_input": give_inputs(lambda names: ["", *names[1:]] if names else []),
    "repeat_the_first_input": give_inputs(lambda names: names + names[:1]),
    "read_data_as_a_parameter": give_inputs(lambda names: names[:1] * 2 + names[2:] if names[1:] else names),
    "gain_an_output": gain_an_output,
    "have_attributes_of_another_type": have_attributes_of_another_type,
    "have_attributes_far_away": have_attributes_far_away,
    "refer_to_attributes_of_no_function": refer_to_attributes_of_no_function,
}
by_mutation = pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)


def mutants(mutate: Mutation) -> Iterator[tuple[str, onnx.ModelProto]]:
    for case in FIRES.values():
        for mutant in mutate_nodes(case.proto, mutate):
            yield case.kind.name, mutant


def mutate_nodes(proto: onnx.ModelProto, mutate: Mutation) -> Iterator[onnx.ModelProto]:
    for i in range(len(proto.graph.node)):
        mutant = onnx.ModelProto()
        mutant.CopyFrom(proto)
        mutate(mutant.graph.node[i])
        if mutant != proto:
            yield mutant


@by_mutation
def test_no_pass_fails_on_a_malformed_node(mutate: Mutation) -> None:
    count = 0
    for name, mutant in some(list(mutants(mutate)), 1):
        try:
            model = from_proto(mutant)
        except ModelError:
            continue
        PASSES[name]()(model)
        ir.serde.serialize_model(model)
        count += 1
    assert count > 5


@pytest.mark.parametrize(
    "mutate",
    [*MUTATIONS.values(), give_inputs(lambda names: [*names[:-1], ""] if names else [])],
    ids=[*MUTATIONS, "leave_out_the_last_input"],
)
def test_hardening_does_not_fail_on_a_malformed_node(mutate: Mutation) -> None:
    for kind in (*HARDEN_DIRECTML, *PORTABLE):
        for given, result in examples(kind):
            for mutant in mutate_nodes(models(given, result)[0], mutate):
                try:
                    copies = [from_proto(mutant) for _ in range(2)]
                except ModelError:
                    continue
                harden_for_directml(copies[0])
                harden_portably(copies[1], PROFILES["portable"], ("steps", "split"), "standard")


@pytest.mark.parametrize(
    "node",
    [
        *(
            helper.make_node(op_type, [], ["z"])
            for op_type in ("ConstantOfShape", "Flatten", "MatMul", "NonZero", "ScatterND")
        ),
        helper.make_node("Einsum", ["x", "x"], ["z"], equation=3),
        helper.make_node("Einsum", ["x", "x"], ["z"], equation=b"\xff"),
        helper.make_node("ConvTranspose", ["x", "x"], ["z"], output_padding=[1.0]),
        helper.make_node("ConvTranspose", ["x", "x"], ["z"], output_padding=[1], pads=[1]),
        helper.make_node("Reshape", ["x", "k"], ["z"], allowzero=1.5),
        helper.make_node("ConstantOfShape", ["k"], ["z"], value=3),
        helper.make_node("Flatten", ["x"], ["z"], axis=1.5),
        helper.make_node("Hardmax", ["x"], ["z"], axis=1.5),
        helper.make_node("MeanVarianceNormalization", ["x"], ["z"], axes="text"),
    ],
    ids=lambda node: f"{node.op_type} {len(node.input)} {len(node.attribute)}",
)
@pytest.mark.parametrize("opset", [10, 18])
def test_no_command_fails_on_another_malformed_node(node: onnx.NodeProto, opset: int) -> None:
    proto = parse("(float[4] x) => (y, z) <int64[1] k = {0}> { y = Slice(x, k, k) }", opset)
    proto.graph.node.append(node)
    findings = sliceport.check(proto, engines=["onnxruntime-dml"]).findings
    defective = {("ConstantOfShape", 1), ("ConvTranspose", 2)}  # by the attributes that are right
    assert {one.node for one in findings} <= {"y", *"z" * ((node.op_type, len(node.attribute)) in defective)}
    assert [node.op_type for node in simplify(from_proto(proto))[0].graph][-1] == node.op_type
    harden_for_directml(from_proto(proto))
    report = harden_portably(from_proto(proto), PROFILES["portable"])[1]
    assert not report.changes or report.changes[0].node == "y"


@pytest.mark.parametrize("op_type", ["Flatten", "Reshape", "ScatterND", "Slice", "SplitToSequence"])
def test_simplify_does_not_fail_on_a_node_without_outputs(op_type: str) -> None:
    proto = parse("(float[4] x) => (float[4] y) { y = Neg(x) }", 18)
    proto.graph.node.insert(0, helper.make_node(op_type, ["x"], []))
    assert simplify(from_proto(proto))[0].graph[-1].op_type == "Neg"


def test_reason_names_the_number_of_inputs() -> None:
    done = SplitToSlicePass()
    done(from_proto(parse("(float[4] x) => (float[2] y) { [parts] a, b = Split(x, x, x)  y = Neg(a) }", 13)))
    assert [(skipped.node, skipped.reason) for skipped in done.skipped] == [
        ("parts", "Split of opset 13 takes 1 to 2 inputs, got 3")
    ]


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [(["x"], "Gather cannot have 1 input and 1 output"), (["", "k"], "its first input is missing")],
)
def test_reason_names_what_is_wrong_with_the_inputs(inputs: list[str], reason: str) -> None:
    proto = parse("(float[4] x) => (float[1] y) <int64[1] k = {0}> { y = Gather(x, k) }", 13)
    proto.graph.node[0].input[:] = inputs
    assert [skipped.reason for skipped in rewrite(from_proto(proto), ["gather"]).skipped["gather"]] == [reason]


@pytest.mark.parametrize(
    ("opset", "body"),
    [
        (13, "p = Constant <value_ints = [1, 3]> () a, b = Split <axis = 7> (x, p) c, d = Split <axis = 7> (x, p)"),
        (9, "a = Slice <starts = [1], ends = [3]> () b = Slice <starts = [0], ends = [1]> (a) c, d = Split (x)"),
    ],
)
def test_nodes_that_others_are_put_together_with(opset: int, body: str) -> None:
    outputs = "float[e,f] a, float[g,h] b, float[i,j] c, float[k,l] d"
    model = from_proto(parse(f"(float[4,6] x) => ({outputs}) {{ {body} }}", opset))
    rewrite(model, list(PASSES))
    assert any(node.op_type in ("Slice", "Split") for node in model.graph)


def test_unknown_element_types_are_left() -> None:
    """The type that is written for them is 0, the one that is not known."""
    constants = "<int64[1] c0 = {0}, int64[1] c2 = {2}, int64[1] c3 = {3}, int64[1] c9 = {9}>"
    nodes = "{ u = own.f(x) y = Slice(u, c0, c2) z = Slice(u, c3, c9) }"
    model = parse(f"(float[9] x) => (float[a] y, float[b] z) {constants} {nodes}", own=1)
    model.graph.value_info.append(helper.make_tensor_value_info("u", onnx.TensorProto.UNDEFINED, [9]))
    made = from_proto(model)
    rewrite(made)
    assert [node.op_type for node in made.graph] == ["f", "Slice", "Slice"]
