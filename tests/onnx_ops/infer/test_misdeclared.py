"""Declared numbers are not believed where the inputs leave the sizes open, as after a change of the inputs' batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from onnx_models import parse
from sessions import compute

import sliceport
from onnx_ops.infer import propagate
from sliceport.diffing.verify import NotVerified
from sliceport.errors import UsageError

CUT = "int64[1] starts = {0}, int64[1] ends = {1}, int64[1] axes = {0}"
WEIGHTS = "float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, int64[2] pairs = {-1,4}"
FIRST = {
    "Relu": "r = Relu(x)",
    "MatMul": "r = MatMul(x, w)",
    "Transpose": "t = Transpose(x)  r = Transpose(t)",
    "Add": "r = Add(x, x)",
    "Reshape": "r = Reshape(x, pairs)",
    "Neg": "q = Neg(x)  r = Reshape(q, pairs)",
    "Slice": "r = Slice(x, starts, wide, last)",
    "function": "r = <domain = f> Double(x)",
}
RULE = "a-declared-size-that-the-inputs-leave-open"


def model(first: str, batch: str, declared: dict[str, str], output: str = "n,4") -> onnx.ModelProto:
    """Return a model that takes the first row of what `first` makes of `x`, with declared shapes of values."""
    types = "".join(f"float[{shape}] {name}, " for name, shape in declared.items())
    proto = parse(
        f"""(float[{batch},4] x) => (float[{output}] y)
        <{types} {WEIGHTS}, {CUT}, int64[1] last = {{1}}, int64[1] wide = {{4}}>
        {{ {FIRST[first].replace("<domain = f> ", "f.")}  y = Slice(r, starts, ends, axes) }}""",
        17,
    )
    if first == "function":
        function = onnx.parser.parse_function(
            '<opset_import: ["": 17], domain: "f"> Double (a) => (b) { b = Add(a, a) }'
        )
        proto.functions.append(function)
        proto.opset_import.append(onnx.helper.make_opsetid("f", 1))
    return proto


def declare(first: str) -> dict[str, str]:
    """Return the shapes that the export with a batch of 1 declared for the values that nodes compute."""
    names = [line.split(" = ")[0] for line in FIRST[first].split("  ")]
    return {name: "4,1" if name == "t" else "1,4" for name in names}


@pytest.mark.parametrize(("first", "batch"), list(product(FIRST, ("batch", "?"))))
def test_no_command_believes_declared_numbers(first: str, batch: str) -> None:
    proto = model(first, batch, declare(first))
    open_model = model(first, batch, {})
    found = [finding for finding in sliceport.check(proto).findings if finding.defect.rule == RULE]
    assert len(found) == 1
    assert found[0].op == ("Add" if first == "function" else proto.graph.node[0].op_type)
    for size in (1, 2, 3):
        lowered = [sliceport.lower(each, input_shapes={"x": (size, 4)}).to_json() for each in (proto, open_model)]
        assert lowered[0] == lowered[1]
    hardened = sliceport.harden(proto).model
    assert not [finding for finding in sliceport.check(hardened).findings if finding.defect.rule == RULE]
    rewritten = sliceport.rewrite(proto).model
    assert any(node.op_type == "Slice" for node in rewritten.graph.node)
    for size in (1, 2, 3):
        feeds = {"x": np.arange(1, 4 * size + 1, dtype=np.float32).reshape(size, 4)}
        expected = compute(open_model, **feeds)
        for result in (hardened, rewritten):
            assert all(map(np.array_equal, compute(result, **feeds), expected))


def test_declared_output_alone_is_found() -> None:
    proto = parse("(float[n,4] x) => (float[1,4] y) { y = Relu(x) }", 17)
    for shapes, rules in ((None, [RULE]), ({"x": (3, 4)}, [RULE]), ({"x": (1, 4)}, [])):
        assert [each.defect.rule for each in sliceport.check(proto, input_shapes=shapes).findings] == rules


@pytest.mark.parametrize(
    ("batch", "declared"),
    [("batch", "batch,4"), ("batch", "other,4"), ("batch", "?,4"), ("1", "1,4"), ("2", "2,4")],
)
def test_other_declared_sizes_cost_no_second_inference(batch: str, declared: str) -> None:
    with patch.object(propagate, "_Propagation", wraps=propagate._Propagation) as walk:
        facts = propagate.propagate(model("Relu", batch, {"r": declared}).SerializeToString())
    assert not any(each.is_misdeclared for each in facts)
    assert walk.call_count == 1


def test_numbers_that_inference_does_not_find_are_believed_unless_another_is_wrong() -> None:
    for declared, sizes in (("n", (3, 5)), ("1", (None, None))):
        proto = parse(
            f"""(float[n,4] x, int64[2] s) => (float[a,b] y) <float[{declared},4] r, float[3,5] z>
            {{ r = Relu(x)  z = Reshape(r, s)  y = Neg(z) }}""",
            17,
        )
        facts = propagate.propagate(proto.SerializeToString())
        assert facts[3].dims == sizes


def test_declared_rank_that_is_wrong_stays() -> None:
    proto = parse(
        "(float[n,4] x) => (float[a,b] y) <float[1,4] q, float[1,1,4] r> { q = Abs(x)  r = Abs(q)  y = Neg(r) }", 17
    )
    hardened = sliceport.harden(proto).model
    declared = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in hardened.graph.value_info]
    assert declared == [[0, 4], [1, 1, 4]]


@pytest.mark.parametrize("declared", [None, "batch,4", "3,4", "1,4", "1,1,4"])
def test_shape_that_the_user_gives_for_an_output_of_a_node_is_believed(declared: str | None) -> None:
    proto = model("Relu", "batch", {} if declared is None else {"r": declared})
    lowered = sliceport.lower(proto, input_shapes={"r": (3, 4)})
    assert [each.verdict for each in lowered.nodes] == ["lowered"]
    findings = sliceport.check(proto, input_shapes={"r": (3, 4)}).findings
    assert [each.defect.rule for each in findings] == [RULE] * (declared in ("1,4", "1,1,4"))


def test_given_shape_of_an_output_wins_over_the_declared_size_before_it() -> None:
    proto = parse(
        f"""(float[n,4] x, int64[2] s) => (float[1,4] y) <float[1,4] q, {CUT}>
        {{ q = Reshape(x, s)  r = Neg(q)  y = Slice(r, starts, ends, axes) }}""",
        17,
    )
    assert [each.verdict for each in sliceport.lower(proto, input_shapes={"r": (3, 4)}).nodes] == ["lowered"]


RUNNING: dict[str, Callable[..., object]] = {
    "compare": sliceport.compare,
    "diff": partial(sliceport.diff, on="onnxruntime-cpu"),
    "rewrite": partial(sliceport.rewrite, verify=True),
    "harden": partial(sliceport.harden, verify=True),
}


@pytest.mark.parametrize("command", ["lower", "check", *RUNNING])
@pytest.mark.parametrize("batch", ["n", "2"])
@pytest.mark.parametrize("declared", ["1,4", "n,4", "3,4"])
def test_given_shape_of_an_output_that_contradicts_the_inputs_is_refused(
    command: str, batch: str, declared: str
) -> None:
    run = RUNNING.get(command) or getattr(sliceport, command)
    proto = model("Relu", batch, {"r": declared})
    message = r"'r' is the output of Relu 'r', whose shape is \[2, 4\] for these inputs, not \[3, 4\] as given: "
    with pytest.raises((UsageError, NotVerified), match=message):
        run(proto, input_shapes={"x": (2, 4), "r": (3, 4)})
    run(proto, input_shapes={"x": (2, 4), "r": (2, 4)})


BODIES = {
    "Loop": """y, z = Loop(m, c, x) <body = b (int64 i, bool k, float[1,4] a) => (bool l, float[?,4] o, float[?,4] s)
        { l = Identity(k)  o = Neg(a)  s = Slice(a, starts, ends, axes) }>""",
    "Scan": """y, z = Scan <num_scan_inputs = 1, scan_input_axes = [1],
        body = b (float[2] a, float[1] v) => (float[2] o, float[?] s)
        { o = Neg(a)  s = Slice(v, starts, ends, axes) }> (u, x)""",
}


@pytest.mark.parametrize("op_type", BODIES)
def test_numbers_of_inputs_of_a_body_are_not_believed(op_type: str) -> None:
    proto = parse(
        f"""(float[n,4] x) => (float y, float z)
        <{CUT}, int64 m = {{2}}, bool c = {{1}}, float[2] u = {{1, 2}}> {{ {BODIES[op_type]} }}""",
        17,
    )
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    assert RULE in [finding.defect.rule for finding in sliceport.check(proto).findings]
    hardened, rewritten = sliceport.harden(proto).model, sliceport.rewrite(proto).model
    assert not sliceport.check(hardened).findings
    for size in (1, 2, 3):
        x = np.arange(1, 4 * size + 1, dtype=np.float32).reshape(size, 4)
        expected = compute(hardened, x=x)
        assert expected[1].shape == ((2, 1, 4) if op_type == "Loop" else (4, 1))
        assert all(map(np.array_equal, compute(rewritten, x=x), expected))


def test_given_sizes_that_contradict_a_declared_number_make_others_unknown() -> None:
    proto = parse(
        f"""(float[n,4] x, int64[2] s) => (float[a,b] y) <float[1,4] r, float[1,4] z, {CUT}>
        {{ r = Relu(x)  z = Reshape(r, s)  y = Slice(z, starts, ends, axes) }}""",
        17,
    )
    for size, verdict in ((1, "alias"), (3, "refused")):
        assert [each.verdict for each in sliceport.lower(proto, input_shapes={"x": (size, 4)}).nodes] == [verdict]


def test_number_of_a_carried_value_is_not_believed() -> None:
    proto = parse(
        f"""(float[n,4] x) => (float[a,4] y) <float[1,4] r, {CUT}, int64 m = {{2}}, bool c = {{1}}>
        {{ r = Loop(m, c, x) <body = b (int64 i, bool k, float[?,4] a) => (bool l, float[?,4] o)
            {{ l = Identity(k)  o = Neg(a) }}>
           y = Slice(r, starts, ends, axes) }}""",
        17,
    )
    assert [finding.defect.rule for finding in sliceport.check(proto).findings] == [RULE]
    assert any(node.op_type == "Slice" for node in sliceport.rewrite(proto).model.graph.node)


@pytest.mark.parametrize(
    ("node", "declared"),
    [("Concat <axis = 0> (x, x)", "2,4"), ("Add(x, z)", "1,4"), ("MaxPool <kernel_shape = [2]> (v)", "1,1,4")],
)
def test_numbers_that_depend_on_several_or_changed_sizes_are_not_believed(node: str, declared: str) -> None:
    proto = parse(
        f"""(float[n,4] x, float[m,4] z, float[1,1,w] v) => (float[] y)
        <float[{declared}] r, {CUT}, int64[1] last = {{-1}}>
        {{ r = {node}  y = Slice(r, starts, ends, last) }}""",
        17,
    )
    assert [finding.defect.rule for finding in sliceport.check(proto).findings] == [RULE]
