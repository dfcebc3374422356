"""`harden --target portable`: whole models, their operator sets, and what the report says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper
from onnx_models import parse
from sessions import compute

import sliceport
from onnx_ops.model.io import from_proto, to_proto
from onnx_ops.model.walk import model_nodes
from onnx_ops.passes import raise_opset as raising
from onnx_ops.passes.raise_opset import raise_opset
from sliceport.defects.profiles import FORMS, PROFILES
from sliceport.errors import ModelError, UsageError
from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildKilled

BACKWARD = (
    "(float[4] x) => (float[n] y) <int64[1] s = {-1}, int64[1] e = {9223372036854775807}, int64[1] a = {0}, "
    "int64[1] t = {-1}> { y = Slice(x, s, e, a, t) }"
)


def harden(proto: onnx.ModelProto, **options: Any) -> tuple[onnx.ModelProto, Any]:
    result = sliceport.harden(proto, **{"target": "portable", "verify": True, **options})
    return result.model, result


def operators(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model_nodes(from_proto(proto)) if node.op_type != "Constant"]


def opset_of(proto: onnx.ModelProto) -> Any:
    return next(entry.version for entry in proto.opset_import if not entry.domain)


def test_nodes_of_one_name_count_one_by_one() -> None:
    """Each Slice is rewritten twice: its bounds become constants, and then the axis that was left out is listed."""
    nodes = "t = Shape(x)  e = Div(t, two)  [same] a = Slice(x, one, e)  [same] b = Slice(x, two, e)  y = Sub(a, b)"
    proto = parse(f"(float[8] x) => (float[n] y) <int64[1] one = {{1}}, int64[1] two = {{2}}> {{ {nodes} }}")
    _, result = harden(proto, verify=False)
    assert [(change.node, change.replacement) for change in result.changes.changes] == [("same", "Slice")] * 2


# Operator sets.


def test_json_has_the_notes_of_the_hardening_and_of_the_verification() -> None:
    _, result = harden(parse("(float[4] x) => (float[2] y) { y = Slice<starts = [2], ends = [9]>(x) }", 9))
    result = replace(result, verification=replace(result.verification, notes=("one input",)))
    assert result.to_json()["notes"] == [*result.changes.notes, "one input"]
    assert len(result.to_json()["notes"]) == 2


def test_old_operator_set_is_raised_and_metadata_stay() -> None:
    graph = (
        "(float[4, 6] x) => (float[2, 3] y) { a = Slice<starts = [0], ends = [2]>(x)  b = Softmax<axis = 1>(a) "
        "y, z = Split<axis = -1, split = [3, 3]>(b) }"
    )
    proto = parse(graph, 9)
    for node in proto.graph.node:
        node.name, node.doc_string = f"of {node.output[0]}", "why"
        node.metadata_props.add(key="origin", value=node.output[0])
    proto.metadata_props.add(key="of", value="model")
    proto.graph.output[0].doc_string = "result"
    written, result = harden(proto)
    assert opset_of(written) == 13
    assert result.changes.notes == ("the operator set was raised from 9 to 13, by onnx's version converter",)
    assert result.is_clean
    kept = {node.name: node for node in written.graph.node if node.op_type != "Constant"}
    assert {name: node.metadata_props[0].value for name, node in kept.items()} == {
        "of a": "a",
        "of b": "b",
        "of y": "y",
    }
    assert {node.doc_string for node in kept.values()} == {"why"}
    assert written.metadata_props[0].value == "model"
    assert written.graph.output[0].doc_string == "result"


def test_bodies_are_raised() -> None:
    branches = (
        "then_branch = t () => (float[n, m] p) { p, q = Split<axis = 1, split = [3, 3]>(x) }, "
        "else_branch = e () => (float[n, m] r) { r = Slice<axes = [-1], starts = [3], ends = [9]>(x) }"
    )
    proto = parse(f"(float[4, 6] x, bool c) => (float[n, m] y) {{ y = If(c) <{branches}> }}", 9)
    written, result = harden(proto)
    assert (opset_of(written), result.is_clean) == (13, True)
    assert operators(written) == ["If", "Slice", "Slice"]


def test_model_with_functions_keeps_its_operator_set() -> None:
    function = '<domain: "d", opset_import: ["" : 11]> f (x) => (y) { y, z = Split<axis = -1>(x) }'
    written, result = harden(parse(f"(float[4] x) => (float[n] y) {{ y = d.f(x) }} {function}", 11, d=1))
    note = "the operator set stays 11: onnx's version converter drops functions, and the model has some"
    assert (opset_of(written), result.changes.notes) == (11, (note,))
    assert operators(written) == ["f", "Slice"]


@pytest.mark.parametrize(
    ("opset", "node", "is_raised"),
    [
        (12, "Hardmax(x)", False),
        (11, "Hardmax<axis = 2>(x)", False),
        (12, "Hardmax<axis = -1>(x)", True),
        (7, 'Upsample<mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]>(x)', False),
        (8, "Upsample<scales = [1.0, 1.0, 1.5, 1.0]>(x)", False),
        (8, "Upsample<scales = [1.0, 1.0, 2.0, 3.0]>(x)", True),
        (9, "Upsample(x, whole)", True),
        (9, 'Upsample<mode = "linear">(x, whole)', False),
        (10, "Resize(x, whole)", True),
        (10, "Resize(x, mixed)", False),
        (10, 'Resize<mode = "linear">(x, whole)', False),
        (11, 'Resize<mode = "linear">(x, roi, mixed)', True),
    ],
)
def test_operator_set_is_raised_only_if_every_node_means_the_same_afterwards(
    opset: int, node: str, is_raised: bool
) -> None:
    constants = "float[4] whole = {1.0, 1.0, 2.0, 3.0}, float[4] mixed = {1.0, 1.0, 0.6, 1.7}, float[0] roi = {}"
    proto = parse(
        f"(float[1, 2, 5, 7] x) => (float[a, b, c, d] y, float[1, 1, 5, 7] z) <{constants}> "
        f"{{ [n] y = {node}  z, left = Split<axis = 1>(x) }}",
        opset,
    )
    written, result = harden(proto, verify=False)
    assert opset_of(written) == (13 if is_raised else opset)
    x = np.random.default_rng(0).standard_normal((1, 2, 5, 7)).astype(np.float32)
    for before, after in zip(compute(proto, x=x), compute(written, x=x), strict=True):
        assert before.tobytes() == after.tobytes()
    if not is_raised:
        op = proto.graph.node[0].op_type
        reason = "means something else in later operator sets, and onnx's version converter does not adapt it"
        assert f"the operator set stays {opset}: {op} 'n' {reason}" in result.changes.notes


@pytest.mark.parametrize("opset", [9, 10, 11])
def test_model_that_reads_the_mask_of_an_old_dropout_keeps_its_operator_set(opset: int) -> None:
    mask = "float" if opset == 9 else "bool"
    graph = f"(float[4] x) => (float[4] y, {mask}[4] mask, float[2] z) {{ y, mask = Dropout(x)  z, left = Split(x) }}"
    written, _ = harden(parse(graph, opset), verify=False)
    assert opset_of(written) == opset
    assert not compute(written, x=np.ones(4, np.float32))[1].any()


@pytest.mark.parametrize("node", ["Clip<max = 1.0>(x)", "Pad<pads = [1, 1]>(x)"])
def test_model_whose_half_floats_would_meet_floats_keeps_its_operator_set(node: str) -> None:
    branches = ", ".join(
        f"{kind}_branch = b () => (float16[n] {kind}) {{ {kind} = {node} }}" for kind in ("then", "else")
    )
    graph = "(bool c, float16[4] x) => (float16[n] y, float16[2] z) { y = NODE  z, left = Split(x) }"
    for new in (node, f"If<{branches}>(c)"):
        written, _ = harden(parse(graph.replace("NODE", new), 10), verify=False)
        assert opset_of(written) == 10
        assert compute(written, c=np.array(True), x=np.ones(4, np.float16))[1].size == 2


@pytest.mark.parametrize(
    ("sizes", "axis", "is_raised"),
    [("n, 3, 4", 0, False), ("n, 3, 4", 1, True), ("2, n, 4", 0, True), ("2, 3, n", 1, False), ("2, n, 4", 2, True),
     ("2, n, 4, 5", 2, False), ("n, 3, 4, 5", 2, True), ("2, 3, 4", 0, True), ("2, 3, n", -2, False)],
)  # fmt: skip
def test_softmax_is_raised_only_if_it_takes_the_same_sizes_afterwards(sizes: str, axis: int, is_raised: bool) -> None:
    """The Reshape of onnx's converter copies a size of 0 from another axis."""
    nodes = f"y = Softmax<axis = {axis}>(x)  z = Slice<starts = [0], ends = [9]>(x)"
    written, _ = harden(
        parse(f"(float[{sizes}] x) => (float[{sizes}] y, float[{sizes}] z) {{ {nodes} }}", 9), verify=False
    )
    assert opset_of(written) == (13 if is_raised else 9)
    empty = np.zeros([int(size) if size.isdecimal() else 0 for size in sizes.split(", ")], np.float32)
    assert compute(written, x=empty)[0].shape == empty.shape


@pytest.mark.parametrize(("rank", "axis", "opset"), [("k", 1, 9), ("k", -1, 13), (3, 2, 13)])
def test_softmax_of_unknown_rank_is_raised_only_at_the_last_axis(rank: int | str, axis: int, opset: int) -> None:
    """Our inference counts the sizes in `s`, and onnx's does not."""
    nodes = f"r = Reshape(x, s)  y = Softmax<axis = {axis}>(r)  z = Slice<starts = [0], ends = [1]>(x)"
    proto = parse(f"(float[2, n, 3] x, int64[{rank}] s) => (float y, float[1, n, 3] z) {{ {nodes} }}", 9)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    written, result = harden(proto, verify=False)
    assert opset_of(written) == opset
    assert opset == 13 or "adds a Reshape to the Softmax of 'y', which may fail at size 0" in result.changes.notes[0]
    assert compute(written, x=np.ones((2, 0, 3), np.float32), s=np.array([2, 0, 3]))[0].shape == (2, 0, 3)


def test_reshape_of_a_body_may_have_the_output_name_of_a_softmax_in_the_other() -> None:
    then_branch = "a () => (float[n, 3] t) { t = Softmax<axis = 1>(r) }"
    else_branch = "b () => (float[n, 3] t) { t = Reshape(r, s) }"
    nodes = f"r = Relu(x)  y = If(c) <then_branch = {then_branch}, else_branch = {else_branch}>"
    proto = parse(f"(float[n, 3] x, bool c, int64[2] s) => (float[n, 3] y) {{ {nodes} }}", 11)
    assert to_proto(raise_opset(from_proto(proto), 13)).opset_import[0].version == 13


def test_metadata_of_tensors_and_values_stay_where_the_operator_set_is_raised() -> None:
    body = "b () => (float[a, c] NAME) { t = Constant<value = float[1, 1] {1}>()  NAME = Add(r, t) }"
    branches = f"then_branch = {body.replace('NAME', 'p')}, else_branch = {body.replace('NAME', 'q')}"
    proto = parse(f"(float[n, 4] x, bool i) => (float[a, c] y) <float[4] w = {{1, 2, 3, 4}}> "
                  f"{{ r = Add(x, w)  y = If(i) <{branches}> }}", 11)  # fmt: skip
    bodies = [attribute.g for attribute in proto.graph.node[1].attribute]
    values = [*proto.graph.input, *proto.graph.output, *(body.output[0] for body in bodies)]
    for value in values:
        value.type.denotation = "TENSOR"
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[-1].denotation = "DATA_FEATURE"
    tensors = [*proto.graph.initializer, *(body.node[0].attribute[0].t for body in bodies)]
    for described in (*values, *tensors):
        described.doc_string = f"about {described.name}"
        described.metadata_props.add(key="of", value=described.name or "t")
    before = str(to_proto(from_proto(proto)))
    after = str(to_proto(raise_opset(from_proto(proto), 13)))
    for line in ('doc_string: "about ', "denotation: ", 'key: "of"'):
        assert after.count(line) == before.count(line) > 3


def test_metadata_of_nodes_without_a_first_output_stay_where_the_operator_set_is_raised() -> None:
    weights = ", ".join(f"float[1, 4, 1] {name} = {{1, 1, 1, 1}}" for name in "wr")
    nodes = "a0, a = LSTM<hidden_size = 1>(x, w, r)  b0, b = LSTM<hidden_size = 1>(x, w, r)"
    proto = parse(f"(float[3, 1, 1] x) => (float[i, j, k] a, float[i, j, k] b) <{weights}> {{ {nodes} }}", 8)
    for node in proto.graph.node:
        node.output[0] = ""
        node.metadata_props.add(key="origin", value=node.output[1])
    kept = to_proto(raise_opset(from_proto(proto), 13)).graph.node
    assert [node.metadata_props[0].value for node in kept if node.op_type == "LSTM"] == ["a", "b"]


def test_reference_to_an_attribute_outside_a_function_leaves_the_operator_set() -> None:
    nodes = "y = Softmax<axis = 1>(x)  z = Slice<starts = [0], ends = [1]>(x)"
    proto = parse(f"(float[2, 3, 4] x) => (float[2, 3, 4] y, float[a, b, c] z) {{ {nodes} }}", 9)
    proto.graph.node[0].attribute[0].ref_attr_name = "axis"
    _, result = harden(proto, verify=False)
    assert result.changes.notes[0].startswith("the operator set stays 9: a node has an invalid attribute (")


def test_model_with_a_scan_over_batches_keeps_its_operator_set() -> None:
    body = "body = b (float[3] a) => (float[3] s) { s = Neg(a) }"
    graph = (
        "(float[1, 2, 3] x) => (float[1, 2, 3] y, float[1, 1, 3] z) "
        f"{{ y = Scan<num_scan_inputs = 1, {body}>(, x)  z, left = Split<axis = 1>(x) }}"
    )
    written, _ = harden(parse(graph, 8), verify=False)
    assert opset_of(written) == 8
    assert compute(written, x=np.ones((1, 2, 3), np.float32))[0].tolist() == [[[-1, -1, -1]] * 2]


def test_conversion_that_fails_leaves_the_operator_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: bytes, version: int) -> bytes:
        raise RuntimeError(f"no adapter of {len(model) > 0} to {version}")

    monkeypatch.setattr(raising, "_convert_apart", fail)
    written, result = harden(parse("(float[4] x) => (float[n] y) { y = Slice<starts = [-2], ends = [9]>(x) }", 9))
    assert result.changes.notes == (
        "the operator set stays 9: onnx's version converter fails (no adapter of True to 13)",
    )
    assert sorted(attribute.name for attribute in written.graph.node[0].attribute) == ["axes", "ends", "starts"]


def test_conversion_that_changes_values_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(model: bytes, version: int) -> bytes:
        converted = onnx.load_model_from_string(model)
        converted.graph.node[0].op_type = "Abs"
        converted.opset_import[0].version = version
        return bytes(converted.SerializeToString())

    monkeypatch.setattr(raising, "_convert_apart", convert)
    proto = parse("(float[4] x) => (float[n] y) { a = Neg(x)  y = Slice<starts = [2], ends = [9]>(a) }", 9)
    _, unverified = harden(parse("(float[4] x) => (float[4] y) { a = Neg(x)  y, z = Split(a) }", 12), verify=False)
    assert "raised from 12" in unverified.changes.notes[0]
    written, result = harden(proto)
    assert result.changes.notes[0].startswith(
        "the operator set stays as it is, because the model with the later operator set failed"
    )
    assert (opset_of(written), written.graph.node[0].op_type, result.is_clean) == (9, "Neg", True)


def test_external_data_stay_in_their_file(tmp_path: Path) -> None:
    proto = parse("(float[400] x) => (float[200] y, float[200] z) { a = Add(x, w)  y, z = Split(a) }", 11)
    proto.graph.initializer.append(numpy_helper.from_array(np.arange(400, dtype=np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "out").mkdir()
    for output in (tmp_path / "n.onnx", tmp_path / "out" / "n.onnx"):
        assert sliceport.harden(tmp_path / "m.onnx", output, target="portable", verify=True).is_clean
        (y, _) = compute(onnx.load(output), x=np.zeros(400, np.float32))
        assert y.tolist() == list(range(200))


def test_raising_a_model_leaves_the_original() -> None:
    model = from_proto(parse("(float[4] x) => (float[n] y) { y, z = Split(x) }", 11))
    before = to_proto(model)
    assert raise_opset(model, 13).opset_imports[""] == 13
    assert to_proto(model) == before
    with pytest.raises(ModelError, match="onnx's version converter fails"):
        raise_opset(model, 999)


def test_converter_whose_process_the_machine_ended_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "call", Mock(side_effect=ChildKilled("was ended by SIGKILL")))
    with pytest.raises(ChildKilled):
        raise_opset(from_proto(parse("(float[4] x) => (float[n] y) { y, z = Split(x) }", 11)), 13)


# Where nodes are.


def test_slices_of_functions_and_bodies_are_written() -> None:
    constants = "s = Constant<value_ints = [1]>()  e = Constant<value_ints = [-1]>()"
    body = f"body = b (int64 i, bool go, float[6] v) => (bool on, float[6] w, float[k] r) {{ {constants} "
    body += "on = Identity(go)  w = Identity(v)  r = Slice(x, s, e) }"
    graph = (
        f"(float[6] x, int64 m, bool c) => (float[a] y, float[b, k] z) {{ y = d.f(x)  u, z = Loop(m, c, x) <{body}> }}"
    )
    function = f'<domain: "d", opset_import: ["" : 18]> f (x) => (y) {{ {constants} y = Slice(x, s, e) }}'
    written, result = harden(parse(f"{graph} {function}", d=1))
    assert result.is_clean
    slices = [node for node in model_nodes(from_proto(written)) if node.op_type == "Slice"]
    assert [len(node.inputs) for node in slices] == [5, 5]


def test_bounds_that_a_caller_may_replace_stay() -> None:
    proto = parse(
        "(float[4] x, int64[1] s) => (float[n] y) <int64[1] s = {1}, int64[1] e = {9}> { y = Slice(x, s, e) }"
    )
    written, result = harden(proto)
    assert list(written.graph.node[0].input) == ["x", "s", "e"]
    assert result.changes.notes == ("1 Slice 'y': starts comes from input 's', which is not a constant: left as it is",)
    assert result.is_clean


def test_new_values_have_names_of_their_own() -> None:
    proto = parse("(float[6] val_0, float[6] y_part) => (float[n] y, float[m] z) "
        "<int64[1] s = {-9}, int64[1] e = {9}, int64[1] a = {0}, int64[1] t = {2}> "
        "{ y = Slice(val_0, s, e, a, t)  z = Slice(y_part, s, e, a, t) }")  # fmt: skip
    written, result = harden(proto, without=["steps"])
    assert result.is_clean
    names = [name for node in written.graph.node for name in node.output] + [
        value.name for value in written.graph.input
    ]
    assert len(set(names)) == len(names)


def test_numbers_are_initializers_that_nodes_share() -> None:
    """onnx2torch 1.5.15 has no Constant of opset 19."""
    graph = (
        "(float[6] x) => (float[n] slicing_0, float[m] z) { s = Constant<value_ints = [-4]>()  "
        "e = Constant<value_ints = [9]>()  slicing_0 = Slice(x, s, e)  y = Neg(slicing_0)  z = Slice(y, s, e) }"
    )
    written, result = harden(parse(graph, 19))
    assert result.is_clean
    assert [node.op_type for node in written.graph.node] == ["Slice", "Neg", "Identity"]
    values = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in written.graph.initializer}
    assert values == {"slicing_1": [2], "slicing_2": [6], "slicing_3": [0], "slicing_4": [1]}
    assert list(written.graph.node[0].input) == ["x", *values]
    old, _ = harden(parse(graph.replace("value_ints = [-4]", "value = int64[1] {-4}"), 12, ir_version=3), verify=False)
    assert not [
        tensor for tensor in old.graph.initializer if tensor.name not in {value.name for value in old.graph.input}
    ]


def test_empty_operands_of_a_concat_go() -> None:
    graph = "(float[2, n] x, float[0, n] e) => (float[a, n] y, float[b, n] z) { y = Concat<axis = 0>(e, x, e, x) "
    written, result = harden(parse(graph + "z = Concat<axis = -2>(e, e)  s, r = Split<num_outputs = 2>(x) }"))
    inputs = [list(node.input) for node in written.graph.node]
    assert inputs == [["x", "x"], ["e"]]
    assert sorted(change.replacement for change in result.changes.changes) == ["Concat", "Identity", "nothing"]


@pytest.mark.parametrize(("start", "end", "is_empty"), [(1, 1, True), (-1, 0, True), (-2, -3, True), (2, -1, False)])
def test_operands_that_are_empty_for_every_size_go(start: int, end: int, *, is_empty: bool) -> None:
    numbers = f"int64[1] s = {{{start}}}, int64[1] e = {{{end}}}, int64[1] a = {{0}}, int64[3] i = {{1, 0, 1}}"
    nodes = "r = Transpose(x)  v = Gather<axis = 1>(r, i)  z = Slice(v, s, e, a)  y = Concat<axis = 0>(z, v, z)"
    proto = parse(f"(float[n, m] x) => (float[a, b] y, float[c, d] z) <{numbers}> {{ {nodes} }}")
    written, _ = harden(proto)
    assert operators(written) == ["Transpose", "Gather", "Slice", "Identity" if is_empty else "Concat"]
    for size in (0, 1, 2, 5):
        x = np.arange(2 * size, dtype=np.float32).reshape(2, size)
        for before, after in zip(compute(proto, x=x), compute(written, x=x), strict=True):
            assert (before.shape, before.tobytes()) == (after.shape, after.tobytes())


def test_computed_bounds_become_constants() -> None:
    graph = "(float[6] x) => (float[n] y) { s = Shape(x)  two = Constant<value_ints = [2]>()  h = Div(s, two) "
    written, result = harden(parse(graph + "y = Slice(x, h, s) }"))
    assert operators(written) == ["Slice"]
    assert [change.replacement for change in result.changes.changes] == ["Slice"]


# Readings, profiles and errors.


def test_backward_slice_to_the_greatest_integer_asks_for_its_reading() -> None:
    written, result = harden(parse(BACKWARD))
    assert operators(written) == ["Slice"]
    assert not result.is_clean
    assert result.changes.notes == (
        "a backward Slice to the greatest integer has two readings: choose by read_as standard or onnxruntime",
    )


@pytest.mark.parametrize(("read_as", "selected"), [("standard", []), ("onnxruntime", [3, 2, 1, 0])])
def test_readings_select_what_they_say(read_as: str, selected: list[int]) -> None:
    written, result = harden(parse(BACKWARD), read_as=read_as)
    assert result.is_clean
    (y,) = compute(written, x=np.arange(4, dtype=np.float32))
    assert y.tolist() == selected


def test_verification_by_the_standard_compares_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = parse(BACKWARD.replace("(float[n] y)", "(float[n] y, float[4] z)").replace("{ y =", "{ z = Neg(x)  y ="))

    def spoil(*arguments: Any, **options: Any) -> Any:
        model, report = unspoiled(*arguments, **options)
        next(node for node in model.graph if node.op_type == "Neg").op_type = "Abs"
        return model, report

    from onnx_ops.passes.portable import harden as harden_portable

    unspoiled = harden_portable.harden_portably
    monkeypatch.setattr(harden_portable, "harden_portably", spoil)
    result = sliceport.harden(proto, target="portable", read_as="standard", verify=True)
    assert not result.is_written
    assert "output 'z'" in result.text()


@pytest.mark.parametrize("target", PROFILES)
def test_every_profile_writes_a_model_that_computes_the_same(target: str) -> None:
    graph = (
        "(float[6, 5] x) => (float[a, b] y, float[6, 2] z, float[6, 3] w) <int64[2] s = {-1, 1}, int64[2] e = {-9, 9}, "
        "int64[2] t = {-2, 2}> { y = Slice(x, s, e, , t)  z, w = Split<axis = -1, num_outputs = 2>(x) }"
    )
    written, result = harden(
        parse(graph.replace("float[6, 2] z, float[6, 3]", "float[6, 3] z, float[6, 2]")), target=target
    )
    without = PROFILES[target].without
    assert set(without) <= set(FORMS)
    assert result.is_clean == ("gather" not in without)
    assert ("Split" in operators(written)) == ("split" not in without)
    assert ("Gather" in operators(written)) == (bool({"steps", "negative-steps"} & set(without)) and result.is_clean)


@pytest.mark.parametrize("target", [target for target in PROFILES if target != "portable"])
def test_page_has_the_evidence_of_every_profile(target: str) -> None:
    page = (Path(__file__).parents[4] / "docs" / "portable.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.split("\n") if line.startswith(f"| `{target}`")]
    profile = PROFILES[target]
    numbers = [issue.partition("#")[2] for issue in profile.issues if profile.evidence == "reported"]
    words = [f"`{form}`" for form in profile.without] + list(profile.without.values()) + numbers
    assert [word for word in words if word not in row] == []
    assert profile.evidence == "reported" or all(version in row for version in profile.versions)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"without": ["stride"]}, "form 'stride' is not known"),
        ({"read_as": "numpy"}, "reading 'numpy' is not known"),
        ({"target": "onnxruntime-dml", "without": ["steps"]}, "without is for the targets portable, mnn"),
        ({"target": "onnxruntime-dml", "read_as": "standard"}, "read_as is for the targets portable, mnn"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sliceport.harden(parse(BACKWARD), **{"target": "portable", **options})


def test_nodes_that_break_the_standard_are_named() -> None:
    proto = parse("(float[4] x) => (float[n] y) <int64[2] p = {1, 2}> { y, z = Split(x, p) }")
    _, result = harden(proto, verify=False)
    assert [node.reason for node in result.changes.invalid] == ["split=[1, 2] sums to 3, but axis 0 has 4 elements"]
    assert not result.is_clean


def test_models_without_slicing_stay_as_they_are() -> None:
    proto = parse("(float[4] x) => (float[4] y) { y = Neg(x) }", 9)
    written, result = harden(proto, verify=False)
    assert written == proto
    assert result.text() == "0 nodes not in the form for portable"


def test_model_of_onnx_ir_is_not_changed() -> None:
    model = from_proto(parse("(float[4] x) => (float[n] y) { y, z = Split(x) }", 11))
    before = to_proto(model)
    result = sliceport.harden(model, target="portable")
    assert isinstance(result.model, ir.Model)
    assert to_proto(model) == before
