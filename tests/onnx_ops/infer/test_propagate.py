"""Propagated values are those of onnx's reference; a node that ends or blocks onnx's inference costs only itself."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import deadly
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from platforms import needs_custom_inference

import onnx_ops
import sliceport
from onnx_ops.infer import inference, shape_arithmetic
from onnx_ops.infer.facts import Facts
from onnx_ops.infer.propagate import propagate
from onnx_ops.model.io import from_proto
from onnx_ops.model.ir_model import IrModel
from onnx_ops.model.prepare import inline_functions
from onnx_ops.passes import PASSES, rewrite
from sliceport import progress
from sliceport.errors import ModelError
from sliceport.sandbox import supervisor

OPSET = 18


Dims = Sequence[int | str | None]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Dims | None],
    outputs: Sequence[str],
    initializers: Mapping[str, npt.ArrayLike] | None = None,
    opset: int = OPSET,
    functions: Sequence[onnx.FunctionProto] = (),
    ir_version: int = 10,
    value_info: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (initializers or {}).items()],
        value_info=list(value_info),
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=ir_version)


def data_of(entry: Facts) -> npt.NDArray[Any]:
    assert entry.data is not None
    return entry.data


def found(proto: onnx.ModelProto) -> dict[str, Facts]:
    """Return the facts of the outputs of the main graph's nodes by name."""
    listed = propagate(proto.SerializeToString())[len(proto.graph.input) :]
    names = [name for node in proto.graph.node for name in node.output]
    return dict(zip(names, listed, strict=False))


@pytest.mark.parametrize(("op", "a", "b"), [("Div", 1, 0), ("Mod", 1, 0), ("Add", 2**63 - 1, 1), ("Mul", 2**40, 2**40)])
def test_what_overflows_or_divides_by_zero_is_not_known_to_shape_arithmetic(op: str, a: int, b: int) -> None:
    arrays = [np.array([x], object) for x in (a, b)]
    listed = shape_arithmetic.compute(op, arrays, {}, (1,), OPSET)
    assert listed is not None
    assert listed[0] is None or listed[0] > 2**63 - 1  # then it does not fit the element type


def test_open_sizes_are_carried_among_known_ones() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "i"], ["second"]),
        helper.make_node("Concat", ["second", "minus"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
        helper.make_node("Gather", ["s", "z"], ["first"]),
        helper.make_node("Concat", ["first", "second", "second"], ["grid"], axis=0),
        helper.make_node("ConstantOfShape", ["grid"], ["zeros"]),
        helper.make_node("Concat", ["second", "first", "second"], ["wider"], axis=0),
        helper.make_node("Expand", ["x", "wider"], ["e"]),
    ]
    constants = {"i": np.array([1]), "z": np.array([0]), "minus": np.array([-1])}
    got = found(model(nodes, {"x": ["N", 6]}, ["y"], constants))
    assert data_of(got["second"]).tolist() == [6]
    assert got["first"].data is None
    assert got["y"].dims == (6, None)
    assert got["zeros"].dims == (None, 6, 6)
    assert got["e"].dims == (6, None, 6)


def test_inferred_sizes_count_more_than_declared_ones() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Own", ["y"], ["z"], domain="local")]
    declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [7, 7]) for name in ("y", "z")]
    got = found(model(nodes, {"x": [2, "N"]}, ["z"], value_info=declared))
    assert got["y"].dims == (2, 7)  # what cannot be inferred is believed
    assert got["z"].dims == (7, 7)


def test_declared_sizes_of_slices_do_not_hold_for_all_sizes_of_their_data() -> None:
    nodes = [helper.make_node("Slice", ["x", "s", "e"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    declared = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])]
    bounds = {"s": np.array([0]), "e": np.array([3])}
    got = found(model(nodes, {"x": ["N", 3]}, ["z"], bounds, value_info=declared))
    assert (got["y"].dims, got["z"].dims) == ((None, 3), (None, 3))


def test_replaceable_initializers_are_no_constants() -> None:
    nodes = [helper.make_node("Neg", ["c"], ["n"])]
    for ir_version, expected in ((3, [-1.0, -2.0]), (4, None)):
        proto = model(nodes, {"c": [2]}, ["n"], {"c": np.array([1, 2], np.float32)}, ir_version=ir_version)
        data = found(proto)["n"].data
        assert (None if data is None else data.tolist()) == expected


def test_functions_are_followed_with_the_attributes_of_each_call() -> None:
    body = [helper.make_node("Concat", ["a", "a"], ["b"])]
    reference = onnx.AttributeProto(name="axis", type=onnx.AttributeProto.INT, ref_attr_name="at")
    body[0].attribute.append(reference)
    function = helper.make_function("local", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", OPSET)], ["at"])
    calls = [helper.make_node("Twice", ["x"], [f"y{at}"], domain="local", at=at) for at in (0, 1)]
    got = found(model(calls, {"x": [2, 3]}, ["y0", "y1"], functions=[function]))
    assert (got["y0"].dims, got["y1"].dims) == ((4, 3), (2, 6))


def test_branches_of_an_if_are_followed() -> None:
    def branch(name: str, size: int) -> onnx.GraphProto:
        node = helper.make_node("Expand", ["x", f"to_{size}"], [name])
        return helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=name)])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("t", 4), else_branch=branch("e", 5))
    sizes = {"to_4": np.array([4, 3]), "to_5": np.array([5, 3])}
    proto = model([node], {"x": [1, 3], "c": []}, ["y"], sizes)
    proto.graph.input[1].type.tensor_type.elem_type = TensorProto.BOOL
    assert found(proto)["y"].dims == (None, 3)
    known = model([node], {"x": [1, 3]}, ["y"], sizes | {"c": np.array(True)})
    assert found(known)["y"].dims == (4, 3)


@pytest.mark.parametrize("outputs", [["d", ""], ["d"], ["", "d"], ["", "d", ""]], ids=str)
def test_outputs_that_are_left_out_do_not_keep_the_others_from_being_inferred(outputs: list[str]) -> None:
    """Whoever writes the model: onnx-ir does not write those at the end."""
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], outputs, hidden_size=5), helper.make_node("Neg", ["d"], ["y"])]
    proto = model(nodes, {"x": [2, 3, 4], "w": [1, 20, 4], "r": [1, 20, 5]}, ["y"])
    shape = (2, 1, 3, 5) if outputs[0] else (1, 3, 5)
    assert found(proto)["y"].dims == shape
    assert {value.name: entry.dims for value, entry in inference.infer(IrModel(from_proto(proto))).items()}[
        "y"
    ] == shape


@pytest.mark.parametrize(
    ("bounds", "size"),
    [
        ((0.0, 3.0, 1.0), 3),
        ((0.0, 2.5, 0.5), None),
        ((-1.0, 2.0**25, 2.0**25), None),
        ((0.0, 70000.0, 0.7), None),
    ],
)
def test_a_range_of_floats_has_a_size_where_rounding_changes_nothing(bounds: Sequence[Any], size: int | None) -> None:
    """Take ranges that in 32 bits have one element less than onnxruntime gives them, the third and the fourth."""
    constants = {name: np.array(bound, np.float32) for name, bound in zip("abc", bounds, strict=True)}
    got = found(model([helper.make_node("Range", ["a", "b", "c"], ["r"])], {}, ["r"], constants))
    assert got["r"].dims == (size,)


def test_whole_slices_keep_open_sizes() -> None:
    nodes = [helper.make_node("Slice", ["x", "s", "e", "a"], ["y"])]
    bounds = {"s": np.array([0, 1]), "e": np.array([2**63 - 1, 3]), "a": np.array([0, -1])}
    assert found(model(nodes, {"x": ["N", "M", 4]}, ["y"], bounds))["y"].dims == ("N", "M", 2)
    bounds["s"][0] = 1
    assert found(model(nodes, {"x": ["N", "M", 4]}, ["y"], bounds))["y"].dims == (None, "M", 2)


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([helper.make_node("Split", ["x"], ["a", "b", "c"], num_outputs=2)], {}),
        ([helper.make_node("Slice", ["x", "s", "e", "", "t"], ["y"])], {"s": [0], "e": [4], "t": [2**62]}),
        ([helper.make_node("Gather", ["x", "s"], ["y"])], {"s": [0, 1]}),
        ([helper.make_node("Range", ["s", "e", "t"], ["y"])], {"s": 0, "e": 2**62, "t": 1}),
        ([helper.make_node("ConstantOfShape", ["s"], ["y"])], {"s": [2**40, 2**20]}),
        ([helper.make_node("Tile", ["s", "e"], ["y"])], {"s": [1], "e": [2**40]}),
    ],
    ids=lambda value: value[0].op_type if isinstance(value, list) else "",
)
def test_nodes_that_crash_onnx_give_no_elements(
    nodes: list[onnx.NodeProto], constants: dict[str, int | list[int]]
) -> None:
    arrays = {name: np.array(value, np.int64) for name, value in constants.items()}
    proto = model(nodes, {"x": [2**40]}, [nodes[0].output[0]], arrays)
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
    proto = model([helper.make_node(op, names, ["y"])], {}, ["y"])
    for name, values in zip(names, bits, strict=True):
        data = np.array(values, "<u2").tobytes()
        proto.graph.initializer.add(name=name, data_type=TensorProto.BFLOAT16, dims=[len(values)], raw_data=data)
    got = found(proto)["y"].data
    if got is not None:
        assert got.view("<u2" if got.itemsize == 2 else got.dtype).tolist() == expected


def test_integers_of_bfloat16_that_no_int32_holds_are_not_known() -> None:
    proto = model([helper.make_node("Cast", ["c"], ["y"], to=TensorProto.INT32)], {}, ["y"])
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
    shapes: list[Dims | None], axis: int, expected: tuple[int | str | None, ...] | None, opset: int
) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = dict(zip(names, shapes, strict=True))
    got = found(model([helper.make_node("Concat", names, ["y"], axis=axis)], inputs, ["y"], opset=opset))["y"]
    assert got.dims == expected


def test_tensors_that_double_do_not_take_all_memory() -> None:
    nodes = [helper.make_node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(60)]
    got = found(model(nodes, {}, ["v60"], {"v0": np.array([3, 1])}))
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
    model = from_proto(onnx.parser.parse_model(text))
    inference.infer_shapes(IrModel(model))
    shape = model.graph[0].outputs[0].shape
    assert shape is None or shape == ir.Shape([None])
    rewrite(model, list(PASSES))
    if op != "Gather":
        (lowered,) = onnx_ops.lower(onnx.parser.parse_model(text)).nodes
        assert lowered.reason is not None
        assert lowered.reason.code == "missing_shape"


def functions(bodies: Mapping[str, Sequence[onnx.NodeProto]]) -> list[onnx.FunctionProto]:
    """Build functions from `a` to the output of their last node."""
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]
    return [
        helper.make_function("local", name, ["a"], [nodes[-1].output[0]], list(nodes), opsets)
        for name, nodes in bodies.items()
    ]


def call(name: str, given: str = "a", result: str = "b") -> onnx.NodeProto:
    return helper.make_node(name, [given], [result], domain="local")


def test_functions_that_nothing_calls_are_not_inlined() -> None:
    negation = helper.make_node("Neg", ["a"], ["b"])
    doubling = {f"D{i}": [call(f"D{i + 1}"), call(f"D{i + 1}", "b", "c")] for i in range(60)}
    bodies = {"used": [call("inner")], "inner": [negation], **doubling, "D60": [negation]}
    made = from_proto(model([call("used", "x", "y")], {"x": [2]}, ["y"], functions=functions(bodies)))
    inline_functions(made)
    assert [(node.op_type, node.outputs[0].name) for node in made.graph] == [("Neg", "y")]
    assert not made.functions


def test_deep_chains_of_functions_are_inlined() -> None:
    bodies = {f"F{i}": [call(f"F{i + 1}")] for i in range(300)} | {"F300": [helper.make_node("Neg", ["a"], ["b"])]}
    made = from_proto(model([call("F0", "x", "y")], {"x": [2]}, ["y"], functions=functions(bodies)))
    inline_functions(made)
    assert [node.op_type for node in made.graph] == ["Neg"]


def test_functions_that_call_themselves_are_refused() -> None:
    made = from_proto(model([call("F", "x", "y")], {"x": [2]}, ["y"], functions=functions({"F": [call("G")]})))
    made.functions["local", "F", ""].graph[0].op_type = "F"
    with pytest.raises(ModelError, match="a function of the model cannot be inlined"):
        inline_functions(made)


@needs_custom_inference
def test_own_rules_go_on_where_onnx_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "propagate", deadly.propagate)
    constants = {"s": np.array([1]), "e": np.array([3])}
    nodes = [
        helper.make_node("Slice", ["x", "s", "e"], ["a"]),
        helper.make_node("Die", ["a"], ["b"], domain="deadly"),
        helper.make_node("Relu", ["a"], ["c"]),
    ]
    proto = model(nodes, {"x": [4, 3]}, ["b", "c"], constants)
    proto.opset_import.append(helper.make_opsetid("deadly", 1))
    got = {value.name: entry.dims for value, entry in inference.infer(IrModel(from_proto(proto))).items()}
    assert got == {"x": (4, 3), "a": (2, 3)}


def test_a_process_that_is_lost_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*_: Any, **__: Any) -> None:
        raise supervisor.ChildKilled("was ended by SIGKILL")

    monkeypatch.setattr(supervisor, "call", call)
    said: list[str] = []
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, ["y"])
    with progress.listen_to_progress(announcement=said.append):
        assert [value.name for value in inference.infer(IrModel(from_proto(proto)))] == ["x"]
    assert said == ["shapes are inferred without onnx: the process for that was ended by SIGKILL."]


def test_external_tensors_are_not_left_open(tmp_path: Path) -> None:
    constants = {"s": np.array([1]), "e": np.array([3])}
    proto = model([helper.make_node("Slice", ["x", "s", "e"], ["y"])], {"x": [4]}, ["y"], constants)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    from onnx_ops.model.prepare import detach_large_initializers

    loaded = ir.load(tmp_path / "m.onnx")
    detach_large_initializers(loaded)
    (tmp_path / "m.data").unlink()
    tensors = [value.const_value for value in loaded.graph.initializers.values()]
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
    with pytest.raises(sliceport.SliceportError, match="NumPy has no array of shape|onnxruntime"):
        sliceport.compare(tmp_path / "m.onnx")


def test_a_loop_whose_trip_count_is_unknown_claims_no_sizes() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]> g (float[2] x) => (s, k)
        { n = local.Own(x)
          s = Loop(n, "") <body = b (int64 i, bool c) => (bool d, float[] o) { d = Identity(c) o = Relu(x) }>
          three = Constant<value_int = 3>()
          k = Loop(three, "") <body = b (int64 i, bool c) => (bool d, float[] o) { d = Identity(c) o = Relu(x) }> }"""
    facts = propagate(onnx.parser.parse_model(text).SerializeToString())
    stacked = [each.dims for each in facts if each.dims is None or (len(each.dims) > 1)]
    assert stacked == [None, None, (None, 2)]  # of n, s and k
