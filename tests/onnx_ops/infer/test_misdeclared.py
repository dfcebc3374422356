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
from onnx_ops.infer import inference, propagate
from sliceport.errors import UsageError
from sliceport.slicing.node import Resolved
from sliceport.verdict.verification import NotVerified

RULE = "a-declared-size-that-the-inputs-leave-open"
CONSTANTS = """int64 zero = {0}, int64 one = {1}, int64 two = {2}, bool yes = {1}, int64[1] zeros = {0},
    int64[1] ones = {1}, int64[1] twos = {2}, int64[1] flat = {-1}, int64[1] least = {-9}, int64[2] pairs = {-1,2},
    int64[2] fours = {-1,4}, int64[2] twice = {2,1}, int64[4] pads = {1,0,1,0}, int64[2] single = {1,4},
    float[2] factors = {2,1}, float[1,4] row = {1,2,3,4}, float[4,2] w = {1,2,3,4,5,6,7,8}"""
BODY = "body = b (int64 i, bool k, float[?,4] a) => (bool l, float[?,4] o)"
CASES = {
    # The node, the shape of its output `r` with a batch of 1, and the axis whose size depends on the batch.
    "Relu": ("r = Relu(x)", "1,4", 0),
    "MatMul": ("r = MatMul(x, w)", "1,2", 0),
    "Add": ("r = Add(x, x)", "1,4", 0),
    "Reshape of rows": ("q = Neg(x)  r = Reshape(q, fours)", "1,4", 0),
    "Slice of columns": ("r = Slice(x, ones, twos, ones)", "1,1", 0),
    "function": ("r = f.Double(x)", "1,4", 0),
    "Flatten": ("r = Flatten <axis = 0> (x)", "1,4", 1),
    "Reshape": ("r = Reshape(x, flat)", "4", 0),
    "Reshape to pairs": ("r = Reshape(x, pairs)", "2,2", 0),
    "Pad": ("r = Pad(x, pads)", "3,4", 0),
    "Tile": ("r = Tile(x, twice)", "2,4", 0),
    "Concat": ("r = Concat <axis = 0> (x, z)", "2,4", 0),
    "Resize": ("r = Resize(x, , factors)", "2,4", 0),
    "Expand": ("s = Shape(x) r = Expand(row, s)", "1,4", 0),
    "ConstantOfShape": ("s = Shape(x) r = ConstantOfShape(s)", "1,4", 0),
    "Range": ("s = Size(x) v = Range(zero, s, one) r = Cast <to = 1> (v)", "4", 0),
    "Slice": ("t = Tile(x, twice) r = Slice(t, least, flat, zeros)", "1,4", 0),
    "Split": ("t = Tile(x, twice) r, q = Split(t)", "1,4", 0),
    "Transpose": ("f = Flatten <axis = 0> (x) r = Transpose(f)", "4,1", 0),
    "Einsum": ('r = Einsum <equation = "ij->ji"> (x)', "4,1", 1),
    "CumSum": ("f = Reshape(x, flat) r = CumSum(f, zero)", "4", 0),
    "OneHot": ("s = Cast <to = 7> (x) v = OneHot(s, two, pairs) r = Cast <to = 1> (v)", "1,4,2", 0),
    "If": (
        """r = If(c) <then_branch = t () => (float[a,4] p) { p = Neg(x) },
            else_branch = e () => (float[b,4] q) { q = Neg(z) }>""",
        "1,4",
        0,
    ),
    "If with one branch of fixed size": (
        """r = If(c) <then_branch = t () => (float[1,4] p) { p = Neg(row) },
            else_branch = e () => (float[b,4] q) { q = Neg(x) }>""",
        "1,4",
        0,
    ),
    "Loop": (f"r = Loop(two, yes, x) <{BODY} {{ l = Identity(k)  o = Neg(a) }}>", "1,4", 0),
    "scan output of a Loop": (
        f"q, r = Loop(two, yes, x) <{BODY[:-1]}, float[?,4] s) {{ l = Identity(k)  o = Neg(a)  s = Abs(a) }}>",
        "2,1,4",
        1,
    ),
    "Scan": (
        """r = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b (float[?] a) => (float[?] o) { o = Neg(a) }>
            (x)""",
        "4,1",
        1,
    ),
    "Scan over the batch": (
        "r = Scan <num_scan_inputs = 1, body = b (float[4] a) => (float[4] o) { o = Neg(a) }> (x)",
        "1,4",
        0,
    ),
}


def build(case: str, batch: str, *, is_stale: bool) -> onnx.ModelProto:
    """Return a model that takes as much of `r` as there is with a batch of 1; `r` is declared if `is_stale`."""
    node, declared, axis = CASES[case]
    proto = parse(
        f"""(float[{batch},4] x, float[{"m" if batch == "n" else batch},4] z, bool c) => (float y)
        <{f"float[{declared}] r, " * is_stale} int64[1] start = {{0}}, int64[1] end = {{{declared.split(",")[axis]}}},
        int64[1] axis = {{{axis}}}, {CONSTANTS}> {{ {node}  y = Slice(r, start, end, axis) }}""",
        17,
    )
    if case == "function":
        double = '<opset_import: ["": 17], domain: "f"> Double (a) => (b) { b = Add(a, a) }'
        proto.functions.append(onnx.parser.parse_function(double))
        proto.opset_import.append(onnx.helper.make_opsetid("f", 1))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def rules(model: onnx.ModelProto, **shapes: tuple[int, ...]) -> list[str]:
    return [finding.defect.rule for finding in sliceport.check(model, input_shapes=shapes).findings]


@pytest.mark.parametrize(("case", "batch"), list(product(CASES, ("n", "?"))))
def test_size_that_follows_from_open_sizes_is_not_believed(case: str, batch: str) -> None:
    stale, right = (build(case, batch, is_stale=is_stale) for is_stale in (True, False))
    assert RULE in rules(stale)
    assert RULE not in rules(right)
    hardened, rewritten = sliceport.harden(stale).model, sliceport.rewrite(stale).model
    assert RULE not in rules(hardened)
    for size, other in ((1, 1), (2, 3), (3, 2)):
        feeds = {
            "x": np.arange(1, 4 * size + 1, dtype=np.float32).reshape(size, 4),
            "z": np.arange(1, 4 * other + 1, dtype=np.float32).reshape(other, 4),
            "c": np.array(size == 2),
        }
        (expected,) = compute(right, **feeds)
        for model in (hardened, rewritten):
            (computed,) = compute(model, **feeds)
            assert computed.shape == expected.shape
            assert computed.tobytes() == expected.tobytes()
        lowered = sliceport.lower(stale, input_shapes={name: array.shape for name, array in feeds.items()})
        (last,) = (each.node for each in lowered.nodes if each.node.outputs == ("y",))
        assert not isinstance(last, Resolved) or last.cuts[0].region.output_shape == expected.shape


@pytest.mark.parametrize(
    "nodes",
    [
        """s = Shape <end = 1> (x)  c = Equal(s, ones)
        r = If(c) <then_branch = t () => (float[1,4] p) { p = Neg(x) },
                   else_branch = e () => (float[1,4] q) { q = Slice(x, zeros, ones, zeros) }>""",
        f"r = Loop(two, yes, x) <{BODY} {{ l = Identity(k)  o = Slice(a, zeros, ones, zeros) }}>",
        "r = Slice(x, zeros, ones, zeros)",
        # torch's dynamo exporter leaves a symbol in the inputs for a batch that it fixes to 1 elsewhere.
        "s = Shape(x)  t = Expand(row, s)  u = Reshape(t, single)  v = Neg(x)  r = Mul(v, u)",
    ],
)
def test_declared_number_that_is_always_right_is_no_finding(nodes: str) -> None:
    proto = parse(f"(float[n,4] x) => (float[1,4] y) <float[1,4] r, {CONSTANTS}> {{ {nodes}  y = Neg(r) }}", 17)
    assert RULE not in rules(proto)
    assert RULE not in rules(proto, x=(2, 4))


def test_body_of_a_scan_with_a_batch_is_looked_at() -> None:
    proto = parse(
        """(float[b,5] u, float[b,n,k] x) => (float[p,q] w, float[c,d,e] y)
        { w, y = Scan <num_scan_inputs = 1, body = b (float[5] a, float[1] v) => (float[5] o, float[1] s)
            { o = Neg(a)  s = Slice <starts = [0], ends = [1], axes = [0]> (v) }> (, u, x) }""",
        8,
    )
    assert RULE in rules(proto)
    rewritten = sliceport.rewrite(proto).model
    x = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    u = np.ones((2, 5), np.float32)
    assert all(map(np.array_equal, compute(rewritten, u=u, x=x), compute(proto, u=u, x=x)))
    assert compute(rewritten, u=u, x=x)[1].shape == (2, 3, 1)


def test_declared_output_alone_is_found() -> None:
    proto = parse("(float[n,4] x) => (float[1,4] y) { y = Relu(x) }", 17)
    for shapes, rules in ((None, [RULE]), ({"x": (3, 4)}, [RULE]), ({"x": (1, 4)}, [])):
        assert [each.defect.rule for each in sliceport.check(proto, input_shapes=shapes).findings] == rules


def relu(batch: str, declared: str | None) -> onnx.ModelProto:
    """Return a model that takes the first row of a Relu, with a declared shape of the Relu or none."""
    types = "" if declared is None else f"float[{declared}] r, "
    return parse(
        f"""(float[{batch},4] x) => (float[a,4] y) <{types} {CONSTANTS}>
        {{ r = Relu(x)  y = Slice(r, zeros, ones, zeros) }}""",
        17,
    )


@pytest.mark.parametrize(
    ("batch", "declared"),
    [("batch", "batch,4"), ("batch", "other,4"), ("batch", "?,4"), ("1", "1,4"), ("2", "2,4")],
)
def test_other_declared_sizes_cost_no_second_inference(batch: str, declared: str) -> None:
    with patch.object(propagate, "_Propagation", wraps=propagate._Propagation) as walk:
        facts = propagate.propagate(relu(batch, declared).SerializeToString())
    assert not any(each.is_misdeclared for each in facts)
    assert walk.call_count == 1


def test_numbers_of_a_custom_operator_are_believed_unless_they_may_be_those_of_an_example() -> None:
    for batch, declared, custom, sizes in (
        ("n", "n", "n,5", ("n", 5)),
        ("n", "n", "m,5", ("m", None)),
        ("n", "n", "3,5", (None, None)),
        ("n", "1", "n,5", ("n", None)),
        ("?", "?", "?,5", (None, None)),
        ("2", "2", "3,5", (3, 5)),
        ("2", "1", "3,5", (3, 5)),
    ):
        proto = parse(
            f"""(float[{batch},4] x) => (float[a,b] y) <float[{declared},4] r, float[{custom}] z, int64[2,9] w>
            {{ r = Relu(x)  z = c.Custom(r)  y = Neg(z)  w = NonZero(x) }}""",
            17,
            c=1,
        )
        facts = propagate.propagate(proto.SerializeToString())
        assert (facts[2].dims, facts[4].dims) == (sizes, (2, None))


def test_declared_rank_that_is_wrong_stays() -> None:
    proto = parse(
        "(float[n,4] x) => (float[a,b] y) <float[1,4] q, float[1,1,4] r> { q = Abs(x)  r = Abs(q)  y = Neg(r) }", 17
    )
    hardened = sliceport.harden(proto).model
    declared = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in hardened.graph.value_info]
    assert declared == [[0, 4], [1, 1, 4]]


@pytest.mark.parametrize("declared", [None, "batch,4", "3,4", "1,4", "1,1,4"])
def test_shape_that_the_user_gives_for_an_output_of_a_node_is_believed(declared: str | None) -> None:
    proto = relu("batch", declared)
    lowered = sliceport.lower(proto, input_shapes={"r": (3, 4)})
    assert [each.verdict for each in lowered.nodes] == ["lowered"]
    findings = sliceport.check(proto, input_shapes={"r": (3, 4)}).findings
    assert [each.defect.rule for each in findings] == [RULE] * (declared in ("1,4", "1,1,4"))


def test_given_shape_of_an_output_wins_over_the_declared_size_before_it() -> None:
    proto = parse(
        f"""(float[n,4] x, int64[2] s) => (float[1,4] y) <float[1,4] q, {CONSTANTS}>
        {{ q = Reshape(x, s)  r = Neg(q)  y = Slice(r, zeros, ones, zeros) }}""",
        17,
    )
    assert [each.verdict for each in sliceport.lower(proto, input_shapes={"r": (3, 4)}).nodes] == ["lowered"]


def test_given_shape_of_another_rank_sets_no_symbol() -> None:
    proto = parse(
        f"""(float[n,4] x) => (float[a,4] y) <float[n,4] h, {CONSTANTS}>
        {{ h = local.Own(x)  y = Slice(x, zeros, ones, zeros) }}""",
        17,
        local=1,
    )
    for shape, verdict in (((3, 4), "lowered"), ((3, 2, 4), "refused")):
        assert [each.verdict for each in sliceport.lower(proto, input_shapes={"h": shape}).nodes] == [verdict]


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
    proto = relu(batch, declared)
    message = r"'r' is the output of Relu 'r', whose shape is \[2, 4\] for these inputs, not \[3, 4\] as given: "
    with pytest.raises((UsageError, NotVerified), match=message):
        run(proto, input_shapes={"x": (2, 4), "r": (3, 4)})
    run(proto, input_shapes={"x": (2, 4), "r": (2, 4)})


BODIES = {
    "Loop": """y, z = Loop(m, c, x) <body = b (int64 i, bool k, float[1,4] a) => (bool l, float[?,4] o, float[?,4] s)
        { l = Identity(k)  o = Neg(a)  s = Slice(a, zeros, ones, zeros) }>""",
    "Scan": """y, z = Scan <num_scan_inputs = 1, scan_input_axes = [1],
        body = b (float[2] a, float[1] v) => (float[2] o, float[?] s)
        { o = Neg(a)  s = Slice(v, zeros, ones, zeros) }> (u, x)""",
}


@pytest.mark.parametrize("op_type", BODIES)
def test_numbers_of_inputs_of_a_body_are_not_believed(op_type: str) -> None:
    proto = parse(
        f"""(float[n,4] x) => (float y, float z)
        <{CONSTANTS}, int64 m = {{2}}, bool c = {{1}}, float[2] u = {{1, 2}}> {{ {BODIES[op_type]} }}""",
        17,
    )
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    assert RULE in rules(proto)
    hardened, rewritten = sliceport.harden(proto).model, sliceport.rewrite(proto).model
    assert not sliceport.check(hardened).findings
    for size in (1, 2, 3):
        x = np.arange(1, 4 * size + 1, dtype=np.float32).reshape(size, 4)
        expected = compute(hardened, x=x)
        assert expected[1].shape == ((2, 1, 4) if op_type == "Loop" else (4, 1))
        assert all(map(np.array_equal, compute(rewritten, x=x), expected))


@pytest.mark.parametrize(
    ("nodes", "declared", "verdicts"),
    [
        ("p = Relu(x)  r = c.Custom(p)", "1,4", ("alias", "refused")),
        ("r = c.Custom(x)", "1,4", ("refused", "refused")),
        ("r = c.Custom(x)", "n,4", ("alias", "lowered")),
    ],
)
def test_number_of_a_custom_operator_is_judged_by_other_numbers(nodes: str, declared: str, verdicts: object) -> None:
    proto = parse(
        f"""(float[n,4] x) => (float[a,4] y) <float[1,4] p, float[{declared}] r, {CONSTANTS}>
        {{ {nodes}  y = Slice(r, zeros, ones, zeros) }}""",
        17,
        c=1,
    )
    lowered = [sliceport.lower(proto, input_shapes={"x": (size, 4)}).nodes[0].verdict for size in (1, 3)]
    assert tuple(lowered) == verdicts


def test_empty_input_of_a_concat_does_not_make_the_output_empty() -> None:
    proto = parse(
        f"""(float[n,4] x) => (float[a,8] y) <{CONSTANTS}>
        {{ q = Slice(x, ones, ones, zeros)  y = Concat <axis = 1> (x, q) }}""",
        17,
    )
    assert propagate.propagate(proto.SerializeToString())[-1].dims == ("a", 8)
    assert compute(proto, x=np.ones((1, 4), np.float32))[0].shape == (1, 8)


def test_shape_for_the_data_of_a_strided_slice_costs_no_inference() -> None:
    proto = parse(
        "(float[n,4] x) => (float[m,4] y) <int64[1] b = {1}, int64[1] e = {3}> { y = ov_ext.StridedSlice(x, b, e) }",
        17,
        ov_ext=1,
    )
    with patch.object(inference, "infer") as infer:
        (node,) = sliceport.lower(proto, input_shapes={"x": (5, 4)}).nodes
    assert node.verdict == "lowered"
    infer.assert_not_called()
