"""Propagated values are those of onnx's reference; a node that ends or blocks onnx's inference costs only itself."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import deadly
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx_models import parse
from platforms import needs_custom_inference
from sessions import compute

import sliceport
from onnx_ops.infer import inference, shape_arithmetic
from onnx_ops.infer.facts import Facts
from onnx_ops.infer.propagate import propagate
from onnx_ops.model.io import from_proto, view_of
from onnx_ops.model.proto_reader import inline_functions, read_view
from onnx_ops.model.views import dims_of
from onnx_ops.passes import PASSES, rewrite
from sliceport.errors import ModelError
from sliceport.sandbox import progress, supervisor
from sliceport.sandbox.child_process import ChildDied, ChildKilled

OPSET = 18


Dims = Sequence[int | str | None]


def model(graph: str, opset: int = OPSET, ir_version: int = 10) -> onnx.ModelProto:
    return parse(graph, opset, ir_version, local=1)


def data_of(entry: Facts) -> npt.NDArray[Any]:
    assert entry.data is not None
    return entry.data


def found(proto: onnx.ModelProto) -> dict[str, Facts]:
    """Return the facts of the outputs of the main graph's nodes by name."""
    listed = propagate(proto.SerializeToString())[len(proto.graph.input) :]
    names = [name for node in proto.graph.node for name in node.output]
    return dict(zip(names, listed, strict=False))


@pytest.mark.parametrize(("op", "a", "b"), [("Div", 1, 0), ("Mod", 1, 0), ("Add", 2**63 - 1, 1), ("Mul", 2**40, 2**40)])
def test_shape_arithmetic_drops_overflows_and_divisions_by_zero(op: str, a: int, b: int) -> None:
    arrays = [np.array([x], object) for x in (a, b)]
    listed = shape_arithmetic.compute_elements(op, arrays, {}, (1,), OPSET)
    assert listed is not None
    assert listed[0] is None or listed[0] > 2**63 - 1  # then it does not fit the element type


def test_open_sizes_are_carried_among_known_ones() -> None:
    nodes = """s = Shape (x)  second = Gather (s, i)  wanted = Concat<axis = 0> (second, minus)  y = Reshape (x, wanted)
        first = Gather (s, z)  grid = Concat<axis = 0> (first, second, second)  zeros = ConstantOfShape (grid)
        wider = Concat<axis = 0> (second, first, second)  e = Expand (x, wider)"""
    constants = "int64[1] i = {1}, int64[1] z = {0}, int64[1] minus = {-1}"
    got = found(model(f"(float[N,6] x) => (y) <{constants}> {{ {nodes} }}"))
    assert data_of(got["second"]).tolist() == [6]
    assert got["first"].data is None
    assert got["y"].dims == (6, "N")
    assert got["zeros"].dims == (None, 6, 6)
    assert got["e"].dims == (6, None, 6)


def test_inferred_sizes_count_more_than_declared_ones() -> None:
    proto = model("(float[2,N] x) => (z) <float[7,N] y, float[7,N] z> { y = Relu (x)  z = local.Own (y) }")
    got = found(proto)
    assert got["y"].dims == (2, "N")
    assert got["z"].dims == (7, "N")  # a size that cannot be inferred is taken as declared


def test_declared_sizes_of_slices_do_not_hold_for_all_sizes_of_their_data() -> None:
    values = "<float[2,3] y, int64[1] s = {0}, int64[1] e = {3}>"
    got = found(model(f"(float[N,3] x) => (z) {values} {{ y = Slice (x, s, e)  z = Relu (y) }}"))
    assert (got["y"].dims, got["z"].dims) == ((None, 3), (None, 3))


def test_replaceable_initializers_are_not_constants() -> None:
    for ir_version, expected in ((3, [-1.0, -2.0]), (4, None)):
        text = "(float[2] c) => (n) <float[2] c = {1.0, 2.0}> { n = Neg (c) }"
        proto = model(text, ir_version=ir_version)
        data = found(proto)["n"].data
        assert (None if data is None else data.tolist()) == expected


def test_each_call_of_a_function_uses_its_own_attributes() -> None:
    head = f'<domain: "local", opset_import: ["" : {OPSET}]> Twice <at> (a) => (b)'
    calls = "{ y0 = local.Twice<at = 0> (x)  y1 = local.Twice<at = 1> (x) }"
    got = found(model(f"(float[2,3] x) => (y0, y1) {calls} {head} {{ b = Concat<axis: int = @at> (a, a) }}"))
    assert (got["y0"].dims, got["y1"].dims) == ((4, 3), (2, 6))


def test_outputs_of_an_if_have_the_sizes_that_its_branches_share() -> None:
    branches = """{ y = If (c) <then_branch = a () => (t) { t = Expand (x, four) },
        else_branch = b () => (e) { e = Expand (x, five) }> }"""
    sizes = "int64[2] four = {4, 3}, int64[2] five = {5, 3}"
    assert found(model(f"(float[1,3] x, bool c) => (y) <{sizes}> {branches}"))["y"].dims == (None, 3)
    assert found(model(f"(float[1,3] x) => (y) <{sizes}, bool c = {{1}}> {branches}"))["y"].dims == (4, 3)


def test_function_beside_strided_slice_is_called() -> None:
    head = f'<domain: "ov_ext", opset_import: ["" : {OPSET}]> Twice (a) => (b)'
    proto = parse(
        f"(float[2,3] x) => (y) {{ y = ov_ext.Twice (x) }} {head} {{ b = Concat<axis = 0> (a, a) }}", ov_ext=1
    )
    assert found(proto)["y"].dims == (4, 3)


def test_axes_of_rank_0_are_read() -> None:
    got = found(
        model("(float[N,4] x) => (y) <int64 a = {1}, int64 b = {-1}> { y = ReduceSum (x, a)  z = ReduceSum (x, b) }")
    )
    assert (got["y"].dims, got["z"].dims) == (("N", 1), ("N", None))


@pytest.mark.parametrize("outputs", [["d", ""], ["d"], ["", "d"], ["", "d", ""]], ids=str)
def test_outputs_that_are_left_out_do_not_keep_the_others_from_being_inferred(outputs: list[str]) -> None:
    """Check models of any writer: onnx-ir does not write those at the end."""
    left_out = ", ".join(name or '""' for name in outputs)
    proto = model(f"""(float[2,3,4] x, float[1,20,4] w, float[1,20,5] r) => (y)
        {{ {left_out} = LSTM<hidden_size = 5> (x, w, r)  y = Neg (d) }}""")
    shape = (2, 1, 3, 5) if outputs[0] else (1, 3, 5)
    assert found(proto)["y"].dims == shape
    assert {value.name: entry.dims for value, entry in inference.infer(view_of(from_proto(proto))).items()}[
        "y"
    ] == shape


def test_whole_slices_keep_open_sizes() -> None:
    for start, first in ((0, "N"), (1, None)):
        bounds = f"<int64[2] s = {{{start}, 1}}, int64[2] e = {{{2**63 - 1}, 3}}, int64[2] a = {{0, -1}}>"
        got = found(model(f"(float[N,M,4] x) => (y) {bounds} {{ y = Slice (x, s, e, a) }}"))
        assert got["y"].dims == (first, "M", 2)


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        ("y, b, c = Split<num_outputs = 2> (x)", "int64 s = {0}"),
        ('y = Slice (x, s, e, "", t)', f"int64[1] s = {{0}}, int64[1] e = {{4}}, int64[1] t = {{{2**62}}}"),
        ("y = Gather (x, s)", "int64[2] s = {0, 1}"),
        ("y = Range (s, e, t)", f"int64 s = {{0}}, int64 e = {{{2**62}}}, int64 t = {{1}}"),
        ("y = ConstantOfShape (s)", f"int64[2] s = {{{2**40}, {2**20}}}"),
        ("y = Tile (s, e)", f"int64[1] s = {{1}}, int64[1] e = {{{2**40}}}"),
    ],
)
def test_nodes_that_crash_onnx_give_no_elements(node: str, constants: str) -> None:
    proto = model(f"(float[{2**40}] x) => (y) <{constants}> {{ {node} }}")
    assert all(entry.data is None for entry in found(proto).values())


@pytest.mark.parametrize(
    ("op", "bits", "expected"),
    [("NonZero", [[0x8000, 0x3F80]], [[1]]), ("Max", [[0xC000, 0x4000], [0xBF80, 0x3F80]], [0xBF80, 0x4000])],
    ids=["NonZero", "Max"],
)
def test_bfloat16_is_computed_as_numbers_or_not_at_all(
    op: str, bits: list[list[int]], expected: list[int] | list[list[int]]
) -> None:
    names = [f"c{i}" for i in range(len(bits))]
    proto = model(f"() => (y) {{ y = {op} ({', '.join(names)}) }}")
    for name, values in zip(names, bits, strict=True):
        data = np.array(values, "<u2").tobytes()
        proto.graph.initializer.add(name=name, data_type=TensorProto.BFLOAT16, dims=[len(values)], raw_data=data)
    got = found(proto)["y"].data
    if got is not None:
        assert got.view("<u2" if got.itemsize == 2 else got.dtype).tolist() == expected


def test_integers_of_bfloat16_that_no_int32_holds_are_not_known() -> None:
    proto = model("() => (y) { y = Cast<to = 6> (c) }")
    data = np.array([0x4F33], "<u2").tobytes()
    proto.graph.initializer.add(name="c", data_type=TensorProto.BFLOAT16, dims=[1], raw_data=data)
    assert found(proto)["y"].data is None


@pytest.mark.parametrize("opset", [4, 11, 18])
@pytest.mark.parametrize(
    ("shapes", "axis", "expected"),
    [
        ([[2**33, 5], [2**33, 5]], 0, (2**34, 5)),
        ([[2**31 - 1], [1]], 0, (2**31,)),
        ([[2, 3], [2, 4]], -1, (2, 7)),
        ([["n", 3], [2, 4]], 1, (2, 7)),
        ([["n", 3], ["n", 4]], 1, ("n", 7)),
        ([["n", 3], [2, 3]], 0, (None, 3)),
    ],
)
def test_concat_adds_sizes_of_any_length(
    shapes: list[Dims], axis: int, expected: tuple[int | str | None, ...] | None, opset: int
) -> None:
    inputs = ", ".join(f"float[{','.join(map(str, shape))}] x{i}" for i, shape in enumerate(shapes))
    names = ", ".join(f"x{i}" for i in range(len(shapes)))
    got = found(model(f"({inputs}) => (y) {{ y = Concat<axis = {axis}> ({names}) }}", opset))["y"]
    assert got.dims == expected


def test_tensors_that_double_do_not_take_all_memory() -> None:
    nodes = "  ".join(f"v{i + 1} = Concat<axis = 0> (v{i}, v{i})" for i in range(60))
    got = found(model(f"() => (v60) <int64[2] v0 = {{3, 1}}> {{ {nodes} }}"))
    assert got["v60"].dims == (2**61,)
    assert data_of(got["v9"]).tolist() == [3, 1] * 2**9
    assert got["v40"].data is None


@pytest.mark.parametrize("op", ["Slice", "Split", "Gather"])
def test_sizes_beyond_64_bits_are_not_known(op: str) -> None:
    """Double a size that is the greatest there is: neither inference nor a pass fails."""
    node = {
        "Slice": "y = Slice (c, s, e)",
        "Split": "y, z = Split <axis = 0> (c)",
        "Gather": "y = Gather <axis = 0> (c, s)",
    }[op]
    size = 2**63 - 1
    text = f"""<ir_version: 9, opset_import: ["" : 13]> g (float[{size}] x) => (float[n] y)
        <int64[1] s = {{1}}, int64[1] e = {{{size}}}> {{ c = Concat <axis = 0> (x, x) {node} }}"""
    view = read_view(onnx.parser.parse_model(text))
    inference.infer_shapes(view)
    shape = view.graph.nodes[0].outputs[0].shape
    assert shape is None or dims_of(shape) == (None,)
    rewrite(from_proto(onnx.parser.parse_model(text)), list(PASSES))
    if op != "Gather":
        (lowered,) = sliceport.lower(onnx.parser.parse_model(text)).nodes
        assert (lowered.reason and lowered.reason.code) == "missing_shape"


def with_functions(call: str, bodies: Mapping[str, str]) -> onnx.ModelProto:
    """Build a model that calls a function; `bodies` maps their names to nodes that read `a` and write `c`."""
    head = f'<domain: "local", opset_import: ["" : {OPSET}, "local" : 1]>'
    functions = "\n".join(f"{head} {name} (a) => (c) {{ {body} }}" for name, body in bodies.items())
    return model(f"(float[2] x) => (y) {{ y = local.{call} (x) }} {functions}")


def test_functions_that_nothing_calls_are_not_inlined() -> None:
    doubling = {f"D{i}": f"b = local.D{i + 1} (a) c = local.D{i + 1} (b)" for i in range(60)}
    bodies = {"used": "c = local.inner (a)", "inner": "c = Neg (a)", **doubling, "D60": "c = Neg (a)"}
    made = inline_functions(with_functions("used", bodies))
    assert [(node.op_type, *node.output) for node in made.graph.node] == [("Neg", "y")]
    assert not made.functions


def test_deep_chains_of_functions_are_inlined() -> None:
    bodies = {f"F{i}": f"c = local.F{i + 1} (a)" for i in range(1000)} | {"F1000": "c = Neg (a)"}
    made = inline_functions(with_functions("F0", bodies))
    assert [node.op_type for node in made.graph.node] == ["Neg"]


def test_functions_that_call_themselves_are_refused() -> None:
    made = with_functions("F", {"F": "c = local.G (a)"})
    made.functions[0].node[0].op_type = "F"
    with pytest.raises(ModelError, match="function 'F' calls itself"):
        inline_functions(made)


@needs_custom_inference
def test_own_rules_go_on_where_onnx_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "propagate", deadly.propagate)
    nodes = "{ a = Slice (x, s, e)  b = deadly.Die (a)  c = Relu (a) }"
    proto = parse(f"(float[4,3] x) => (b, c) <int64[1] s = {{1}}, int64[1] e = {{3}}> {nodes}", deadly=1)
    got = {value.name: entry.dims for value, entry in inference.infer(read_view(proto)).items()}
    assert got == {"x": (4, 3), "a": (2, 3)}


def test_a_process_that_ended_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "call", Mock(side_effect=ChildKilled("was ended by SIGKILL")))
    said: list[str] = []
    proto = model("(float[2,3] x) => (y) { y = Relu (x) }")
    with progress.listen_to_progress(announcement=said.append):
        assert [value.name for value in inference.infer(read_view(proto))] == ["x"]
    assert said == ["shapes are inferred without onnx, because the process for onnx's inference was ended by SIGKILL."]


LOOP = "q{} = Loop <body = g (int64 k, bool d, seq(float[]) s) => (bool b, seq(float[]) o{}) {{ b = Identity (d)  {}}}>"
GROWS = "v = SequenceAt (s, i)  w = Concat <axis = 0> (v, v)  o = SequenceInsert (s, w)"
READ = "v = SequenceAt (q, i)  y = Slice (v, z, f)"
SEQUENCES = {
    "declared": f"u = SequenceMap <body = g (float[k] p) => (float[k] o) {{o = Relu (p)}}> (t) q = Identity (u) {READ}",
    "of a branch": "q = If <then_branch = g () => (seq(float[3]) o) { o = Identity (t) }, "
    f"else_branch = h () => (seq(float[]) e) {{ w = Concat <axis = 0> (x, x) e = SequenceConstruct (w) }}> (c) {READ}",
    "of later iterations": LOOP.format(", y", ", float[] j", f"{GROWS}  j = Slice (v, z, f)") + " (two, c, t)",
    "of an iteration that does not run": LOOP.format("", "", "o = SequenceConstruct (p)") + f" (two, c, t)  {READ}",
}


@pytest.mark.parametrize("title", SEQUENCES)
def test_shapes_in_sequences_that_may_be_wrong_are_not_used(title: str) -> None:
    constants = "int64 i = {-1}, int64 two = {2}, int64[1] z = {0}, int64[1] f = {3}, seq(float[3]) q"
    size = "n" if title == "declared" else "3"
    nodes = f"{{ t = SequenceConstruct (x)  {SEQUENCES[title]} }}"
    proto = model(f"(float[{size}] x, float[5] p, bool c) => (float[] y) <{constants}> {nodes}")
    assert sliceport.lower(proto).summary["refused"] == 1


def test_model_nested_too_deep_for_protobuf_is_read_from_memory() -> None:
    proto = model("(float[4] x, bool c) => (float[2] y) <int64[1] s = {1}, int64[1] e = {3}> { y = Slice (x, s, e) }")
    graph = proto.graph
    for _ in range(40):  # protobuf parses 33 graphs in one another
        node = graph.node[0]
        body = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        body.node.add(op_type="Slice", input=node.input, output=["y"])
        body.output.add(name="y")
        node.op_type, node.input[:], graph = "If", ["c"], body
    assert sliceport.check(proto).is_clean
    for function in (sliceport.rewrite, sliceport.harden):
        assert function(proto).model.graph.node[0].op_type == "If"


def test_graphs_that_are_nested_too_deep_have_no_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "call", Mock(side_effect=ChildDied("was ended by SIGSEGV")))
    monkeypatch.setattr(inference, "propagate", Mock(side_effect=RecursionError))
    assert inference.infer(read_view(model("(float[2,3] x) => (y) { y = Relu (x) }"))) == {}


def test_external_tensors_are_not_left_open(tmp_path: Path) -> None:
    proto = model("(float[4] x) => (y) <int64[1] s = {1}, int64[1] e = {3}> { y = Slice (x, s, e) }")
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    view = read_view(onnx.load(tmp_path / "m.onnx", load_external_data=False), str(tmp_path))
    view.detach_weights()
    (tmp_path / "m.data").unlink()
    tensors = [value.const_value for value in view.graph.initializers.values()]
    assert [tensor and tensor.numpy().tolist() for tensor in tensors] == [[1], [3]]


@pytest.mark.parametrize(
    "nodes",
    [
        "u = Abs(x)",
        "u = Transpose<perm = [0, 1]>(x)",
        "v = Cast<to = 9>(x) w = Not(v) u = Cast<to = 7>(w)",
        "s = Shape(x) u = Reshape(x, s)",
        "v = Equal(x, x) u = Where(v, x, x)",
        "c = Constant<value_ints = [0, 4611686018427387904]>() o = Constant<value_int = 1>() u = Expand(o, c)",
    ],
)
def test_empty_tensors_with_sizes_beyond_numpy_are_lowered(tmp_path: Path, nodes: str) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 18]> g (int64[0,{2**62}] x) => (int64[a,b] y)
        <int64[1] i = {{1}}, int64[1] j = {{3}}> {{ {nodes} y = Slice(u, i, j) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    (lowered,) = sliceport.lower(tmp_path / "m.onnx").nodes
    assert lowered.verdict in ("empty", "folded")
    sliceport.rewrite(tmp_path / "m.onnx", tmp_path / "o.onnx")
    with pytest.raises(sliceport.SliceportError, match="NumPy cannot make an array of shape|onnxruntime"):
        sliceport.compare(tmp_path / "m.onnx")


def test_a_loop_whose_trip_count_is_unknown_claims_no_sizes() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]> g (float[2] x) => (s, k)
        { n = local.Own(x)
          s = Loop(n, "") <body = b (int64 i, bool c) => (bool d, float[] o) { d = Identity(c) o = Relu(x) }>
          three = Constant<value_int = 3>()
          k = Loop(three, "") <body = b (int64 i, bool c) => (bool d, float[] o) { d = Identity(c) o = Relu(x) }> }"""
    facts = propagate(onnx.parser.parse_model(text).SerializeToString())
    stacked = [each.dims for each in facts if each.dims is None or (len(each.dims) > 1)]
    assert stacked == [None, None, (3, 2)]  # of n, s and k


ITERATED = """p, q = Loop (trip, {}, x) <body = g (int64 k, bool c, float[3] s) => (bool d, float[3] t, float[3] o)
    {{ t = Neg (s)  o = Relu (x)  {} }}>"""
SIZED = {
    "MaxUnpool": "q = MaxUnpool <kernel_shape = [2,2], strides = [2,2]> (m, i, sizes)",
    "Range": "q = Range (a, b, c)",
    "Loop": ITERATED.format("yes", "d = Identity (c)"),
    "Loop without a condition": ITERATED.format('""', "e = Identity (c)  d = Identity (e)"),
    "Loop with a constant condition": ITERATED.format("yes", "d = Identity (yes)"),
    "Loop that may stop": ITERATED.format("yes", "d = Less (k, trip)"),
}


@pytest.mark.parametrize("opset", [9, 11, 13, 16, 19, 21])
@pytest.mark.parametrize("title", SIZED)
def test_size_of_a_constant_is_that_of_onnxruntime(title: str, opset: int) -> None:
    if title == "Range" and opset < 11:
        pytest.skip("Range is new in operator set 11")
    constants = """int64 trip = {5}, bool yes = {1}, int64[4] sizes = {1,1,7,9}, float a = {0.25}, float b = {2.5},
        float c = {0.25}, float[1,1,1,2] m = {3,4}, int64[1,1,1,2] i = {0,6}"""
    proto = model(f"(float[3] x) => (q) <{constants}> {{ {SIZED[title]} }}", opset)
    (computed,) = compute(proto, x=np.ones(3, np.float32))
    assert found(proto)["q"].dims == ((None, 3) if title == "Loop that may stop" else computed.shape)


@pytest.mark.parametrize("domain", ["", "ai.onnx."])
def test_loop_of_either_standard_domain_passes_inputs_to_its_body(domain: str) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (y, s, u) <int64 n = {{3}}>
        {{ y, s, u = {domain}Loop(n, "", x) <body = b (i, c, p) => (d, q, o, r)
            {{ d = Identity(c)  q = Neg(p)  o = Identity(i)  r = Cast<to = 6>(p) }}> }}"""
    got = found(onnx.parser.parse_model(text))
    elements = [(got[name].element, got[name].dims) for name in ("y", "s", "u")]
    assert elements == [(TensorProto.FLOAT, (2,)), (TensorProto.INT64, (3,)), (TensorProto.INT32, (3, 2))]


def test_counters_of_a_loop_have_the_axis_that_its_body_declares() -> None:
    got = found(
        parse("""(float[8] x) => (y, s, u) <int64[1] n = {3}, bool[1] c = {1}> {
            y, s, u = Loop (n, c, x) <body = b (int64[1] i, bool[1] k, float[8] p) => (bool[1] d, q, o, r) {
                d = Identity (k)  q = Neg (p)  o = Identity (i)  r = Slice (p, i, n) }> }""")
    )
    assert [got[name].dims for name in ("y", "s")] == [(8,), (3, 1)]
    assert got["u"].dims == (3, None)


@pytest.mark.parametrize(
    ("inputs", "dims", "elements"),
    [("b, e, t", (2,), [6, 2]), ("b, e", (3,), [6, 4, 2]), ("b, e, x", None, None), ("b, x, t", None, None)],
)
def test_a_strided_slice_of_constants_is_inferred_with_its_elements(
    inputs: str, dims: tuple[int, ...] | None, elements: list[int] | None
) -> None:
    constants = "<int64[4] c = {8, 6, 4, 2}, int64[1] b = {1}, int64[1] e = {4}, int64[1] t = {2}>"
    text = f"(int64[1] x) => (y) {constants} {{ y = ov_ext.StridedSlice (c, {inputs}) }}"
    got = found(parse(text, OPSET, 10, ov_ext=1))["y"]
    assert (got.dims, None if got.data is None else got.data.tolist()) == (dims, elements)
