"""Malformed models: each class has a sentence of its own, the same from every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from command_line import Invoke
from onnx import AttributeProto, TensorProto, helper, parser
from onnx_models import parse

from onnx_ops.model.check import check_proto
from sliceport.errors import ModelError

TEXT = """<ir_version: 10, opset_import: ["" : 13, "own" : 1]>
g (float[4,6] x) => (float[2,6] a, float[n,6] y) <int64[1] e = {3}> {
    a, b = Split (x)  s = Constant <value = int64[1] {1}> ()  y = Slice (x, s, e)  z = own.f (x)
}
<domain: "own", opset_import: ["" : 13]>
f (p) => (q) { q = Relu (p) }
"""


def good() -> onnx.ModelProto:
    model = parser.parse_model(TEXT)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [2, 3], [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]))
    check_proto(model)
    return model


def not_utf8(model: onnx.ModelProto, word: bytes) -> onnx.ModelProto:
    """Return the model with the first byte of a text changed to one that UTF-8 does not have there."""
    data = model.SerializeToString()
    assert data.count(word) >= 1
    changed: onnx.ModelProto = onnx.ModelProto.FromString(data.replace(word, b"\xf7" + word[1:]))
    return changed


def constant(model: onnx.ModelProto) -> onnx.NodeProto:
    node: onnx.NodeProto = model.graph.node[1]
    return node


def replace_data(model: onnx.ModelProto, **fields: Any) -> None:
    model.graph.initializer[0].CopyFrom(TensorProto(name="e", **fields))


def external(model: onnx.ModelProto, **entries: str) -> None:
    replace_data(model, data_type=TensorProto.INT64, dims=[1], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        model.graph.initializer[0].external_data.add(key=key, value=value)


DAMAGES: dict[str, Callable[[onnx.ModelProto], object]] = {
    "value 'x' has element type -1, which ONNX does not define": lambda m: setattr(
        m.graph.input[0].type.tensor_type, "elem_type", -1
    ),
    "value 'a' has element type 99, which ONNX does not define": lambda m: setattr(
        m.graph.output[0].type.tensor_type, "elem_type", 99
    ),
    "value 'y' has 65 axes, more than the 64 that an array can have": lambda m: m.graph.output[1].type.CopyFrom(
        helper.make_tensor_type_proto(1, [1] * 65)
    ),
    "tensor 'e' has 65 axes, more than the 64 that an array can have": lambda m: replace_data(
        m, data_type=TensorProto.INT64, dims=[1] * 65, raw_data=bytes(8)
    ),
    "value 'b' has element type 77, which ONNX does not define": lambda m: m.graph.value_info.add(
        name="b"
    ).type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(77, None))),
    "tensor 'e' has no element type": lambda m: setattr(m.graph.initializer[0], "data_type", 0),
    "a tensor of node 's' (Constant) has element type -1, which ONNX does not define": lambda m: setattr(
        constant(m).attribute[0].t, "data_type", -1
    ),
    "tensor 'w' of shape [4611686018427387904, 3] is larger than any file": lambda m: m.graph.initializer[
        1
    ].dims.__setitem__(0, 2**62),
    "tensor 'e' holds 3 bytes, but shape [1] of type INT64 needs 8": lambda m: replace_data(
        m, data_type=TensorProto.INT64, dims=[1], raw_data=b"\1\2\3"
    ),
    "tensor 'e' holds 8 bytes, but shape [1] of type INT4 needs 1": lambda m: replace_data(
        m, data_type=TensorProto.INT4, dims=[1], raw_data=bytes(8)
    ),
    "tensor 'e' holds 2 entries, but shape [1] of type INT64 needs 1": lambda m: replace_data(
        m, data_type=TensorProto.INT64, dims=[1], int64_data=[3, 4]
    ),
    "tensor 'e' holds 3 entries, but shape [2] of type COMPLEX64 needs 4": lambda m: replace_data(
        m, data_type=TensorProto.COMPLEX64, dims=[2], float_data=[3, 4, 5]
    ),
    "tensor 'e' holds strings as raw data, which ONNX forbids": lambda m: replace_data(
        m, data_type=TensorProto.STRING, dims=[1], raw_data=b"abc"
    ),
    "tensor 'e' has '-8' as the offset of its external data": lambda m: external(m, location="w.bin", offset="-8"),
    "tensor 'e' has '999": lambda m: external(m, location="w.bin", length="9" * 5000),
    "node 's' (Constant) has attribute 'value' of type INT; its type must be TENSOR": lambda m: (
        constant(m).attribute[0].CopyFrom(helper.make_attribute("value", 7))
    ),
    "node 's' (Constant) has attribute 'value_ints' of type FLOATS; its type must be INTS": lambda m: (
        constant(m).attribute[0].CopyFrom(helper.make_attribute("value_ints", [7.5]))
    ),
    "node 'a' (Split) has attribute 't' of type TENSOR without a value": lambda m: m.graph.node[0].attribute.add(
        name="t", type=AttributeProto.TENSOR
    ),
    "node 'a' (Split) has attribute 'axis' of type 0, which ONNX does not define": lambda m: m.graph.node[
        0
    ].attribute.add(name="axis", i=1),
    "node 'q' (Relu) has attribute 'body', a graph that the call of a function sets: not supported": lambda m: (
        m.functions[0].node[0].attribute.add(name="body", ref_attr_name="b", type=AttributeProto.GRAPH)
    ),
    "node 'a' (Split) has attribute 'axis' twice": lambda m: m.graph.node[0].attribute.extend(
        [helper.make_attribute("axis", 1)] * 2
    ),
    "graph 'g' defines initializer 'e' twice": lambda m: m.graph.sparse_initializer.add(
        values=TensorProto(name="e", data_type=1), indices=TensorProto(data_type=7)
    ),
    "node 'b' (Split) reads value 'r', which nothing defines": lambda m: (
        m.graph.node[0].input.append("r"),
        m.graph.node[0].output.__setitem__(0, ""),
        m.graph.output.pop(0),
    ),
    "the model imports invalid version 2147483648 of domain 'own'": lambda m: setattr(
        m.opset_import[1], "version", 2**31
    ),
    "graph 'g' has an output without a name": lambda m: setattr(m.graph.output[1], "name", ""),
    "graph 'g' has an input without a name": lambda m: m.graph.input.add(),
    "function 'f' has output 'r', which nothing in it defines": lambda m: m.functions[0].output.__setitem__(0, "r"),
    "function 'f' calls itself, directly or through others": lambda m: m.functions[0].node.add(
        op_type="f", domain="own", input=["p"], output=["r"]
    ),
    "function 'f' calls itself, directly or through other": lambda m: (
        m.functions[0].node.add(op_type="h", domain="own", input=["p"], output=["r"]),
        m.functions.add(name="h", domain="own", input=["p"], output=["r"]).node.add(
            op_type="f", domain="own", input=["p"], output=["r"]
        ),
    ),
    "function 'a' calls itself": lambda m: [
        caller.node.add(op_type=n, domain="own")
        for n in "hgedcba"
        for caller in (m.functions[0], m.functions.add(name=n, domain="own"))
    ],
    "function 'f' of domain 'own' is defined twice": lambda m: m.functions.append(m.functions[0]),
    "function 'Slice' has the name of one of ONNX's operators": lambda m: (
        m.functions.add(name="Slice", input=["p"], output=["p"]),
        m.functions[0].node.add(op_type="Slice", domain="ai.onnx", input=["p"], output=["unread"]),
    ),
    "function 'Relu' has the name of one of ONNX's operators": lambda m: (
        m.functions.add(name="Relu", domain="ai.onnx", input=["p"], output=["p"]),
        m.functions[0].node.add(op_type="Relu", input=["p"], output=["unread"]),
    ),
    "the model imports version -1 of ONNX's operators; the first is 1": lambda m: setattr(
        m.opset_import[0], "version", -1
    ),
}
"""Changes of a good model, by what the message begins with."""


def test_a_function_may_have_the_name_of_a_later_operator() -> None:
    """Check a stand-in for Gelu, which older operator sets lack."""
    model = good()
    (standard,) = (entry for entry in model.opset_import if not entry.domain)
    standard.version = 18
    model.functions.add(name="Gelu", input=["p"], output=["p"])
    call = model.functions[0].node.add(op_type="Gelu", input=["p"], output=["unread"])
    check_proto(model)
    standard.version = 20
    call.op_type = "Other"
    check_proto(model)  # nothing calls it
    call.op_type = "Gelu"
    with pytest.raises(ModelError, match="function 'Gelu' has the name of one of ONNX's operators"):
        check_proto(model)


@pytest.mark.parametrize("message", DAMAGES)
def test_each_damage_has_its_message(message: str) -> None:
    model = good()
    DAMAGES[message](model)
    with pytest.raises(ModelError) as error:
        check_proto(onnx.ModelProto.FromString(model.SerializeToString()))
    assert str(error.value).startswith(message)
    assert str(error.value).endswith(".")


def texts(model: onnx.ModelProto) -> None:
    """Put a word of its own wherever a model has text."""
    model.producer_name, model.producer_version, model.domain = "-producer-", "-version-", "-domain-"
    model.doc_string, model.graph.doc_string = "-doc-", "-graph_doc-"
    model.graph.name, model.graph.node[0].name, model.graph.node[0].doc_string = "-graph-", "-node-", "-node_doc-"
    model.graph.node[0].op_type, model.graph.node[0].output[1] = "-op-", "-output-"
    model.graph.node[0].attribute.add(name="-attribute-", type=AttributeProto.INT, doc_string="-attribute_doc-")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "-dim-"
    model.graph.input[0].type.denotation, model.graph.input[0].doc_string = "-denotation-", "-input_doc-"
    model.graph.value_info.add(name="-info-")
    model.graph.initializer[0].doc_string = "-tensor_doc-"
    model.functions[0].doc_string, model.functions[0].value_info.add().name = "-function_doc-", "-function_info-"
    for i, holder in enumerate((model, model.graph, model.graph.node[0], model.graph.input[0], model.functions[0])):
        holder.metadata_props.add(key=f"-key{i}-", value=f"-value{i}-")


def test_text_that_is_not_utf8_is_found_in_every_field() -> None:
    model = good()
    texts(model)
    data = model.SerializeToString()
    words = {part for part in data.split(b"-") if part and b"-" + part + b"-" in data and part.isascii()}
    words = {word for word in words if word.replace(b"_", b"").isalnum()}
    assert len(words) == 29
    check_proto(model)
    for word in words:
        with pytest.raises(ModelError, match=r"has text that is not UTF-8: b'\\xf7"):
            check_proto(not_utf8(model, b"-" + word + b"-"))


def test_models_without_their_weights_are_well_formed() -> None:
    model = good()
    model.graph.initializer[1].ClearField("float_data")
    check_proto(model)


@pytest.mark.parametrize("command", ["lower", "compare", "rewrite", "harden"])
def test_every_command_prints_the_message_and_the_file(tmp_path: Path, invoke: Invoke, command: str) -> None:
    model = good()
    model.graph.initializer[0].data_type = 0
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    output = ["-o", str(tmp_path / "out.onnx")] if command in ("rewrite", "harden") else []
    printed = invoke(command, tmp_path / "m.onnx", *output, code=2)
    assert printed == ("", f"sliceport: '{tmp_path / 'm.onnx'}': tensor 'e' has no element type.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_graphs_in_many_nodes_see_the_many_values_around_them() -> None:
    """Check a model that takes minutes if the names around each graph are joined."""
    count = 10_000
    model = good()
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    branch = onnx.GraphProto(node=[onnx.NodeProto(op_type="Neg", input=["v9999"], output=["n"])])
    branch.output.add(name="n")
    outer = onnx.GraphProto(node=[onnx.NodeProto(op_type="If", input=["c"], output=["o"])])
    outer.node[0].attribute.add(name="then_branch", type=AttributeProto.GRAPH, g=branch)
    outer.output.add(name="v0")
    for k in range(count):
        model.graph.node.add(op_type="Neg", input=["x"], output=[f"v{k}"])
        node = model.graph.node.add(op_type="If", input=["c"], output=[f"i{k}"])
        node.attribute.add(name="then_branch", type=AttributeProto.GRAPH, g=outer)
    assert not check_proto(model).is_sorted  # most branches read v9999 before it is computed
    graph = model.graph.node[-1].attribute[0].g.node[0].attribute[0].g
    graph.node[0].input[0] = "n2"
    with pytest.raises(ModelError, match="reads value 'n2', which nothing defines"):
        check_proto(model)


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_long_chain_of_functions_is_checked_in_linear_time(is_reversed: bool) -> None:
    """Check a model that takes minutes if all functions are searched for the next one."""
    model, count = good(), 20_000
    numbers = range(count)
    for k in reversed(numbers) if is_reversed else numbers:
        function = model.functions.add(name=f"f{k}", domain="own", input=["p"], output=["q"])
        function.opset_import.extend(model.opset_import)
        function.node.add(op_type=f"f{k + 1}", domain="own", input=["p"], output=["q"])
    check_proto(model)
    model.functions.add(name=f"f{count}", domain="own", input=["p"], output=["q"]).node.add(
        op_type="f100", domain="own", input=["p"], output=["q"]
    )
    with pytest.raises(ModelError, match="function 'f100' calls itself, directly or through others"):
        check_proto(model)


@pytest.mark.parametrize(("then", "outer_output"), [("r = Neg(x)", ""), ("", "r"), ("r = Neg(p) p = Neg(x)", "")])
def test_value_of_an_outer_graph_that_a_body_returns_is_found(then: str, outer_output: str) -> None:
    node = f"o = If(c) <then_branch = t () => (r) {{ {then} }}, else_branch = e () => (w) {{ w = Neg(x) }}>"
    for nodes in (f"{node} r = Neg(x)", f"r = Neg(x) {node}"):
        # The outputs `x` and `k` are an input and an initializer.
        model = parse(f"(float[2] x, bool c) => (r, x, k) <float[1] k = {{2}}> {{ {nodes} }}")
        assert check_proto(model).outer_output == outer_output
