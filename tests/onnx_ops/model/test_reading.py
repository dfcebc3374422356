"""Reading ONNX: the spelling of every version, the sources of parameters, the messages about missing ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from command_line import Invoke
from onnx import TensorProto, helper, numpy_helper, parser
from onnx_models import read_model

import sliceport
from onnx_ops.infer.extract import read_slicing_nodes
from onnx_ops.model.proto_reader import read_view
from onnx_ops.model.read import read_proto
from onnx_ops.model.specs import split_spec_with_open_sizes
from onnx_ops.model.views import Sizes
from sliceport.errors import InvalidSlice, ModelError, UnsupportedSlice, UsageError
from sliceport.slicing.node import extend_scope

MAX = 2**63 - 1


def parsed(text: str, opset: int = 13, extra: str = "") -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}{extra}]>\n{text}')


def shapes(model: onnx.ModelProto, **input_shapes: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    """Return the output shapes of each slicing node of a model."""
    nodes = sliceport.lower(model, input_shapes=input_shapes).nodes
    assert all(n.reason is None for n in nodes), [n.reason for n in nodes]
    return [[cut.region.output_shape for cut in n.resolved.cuts] for n in nodes]


def reason(model: onnx.ModelProto | Path, **input_shapes: tuple[int, ...]) -> tuple[str, str]:
    """Return the code and the message of the one refusal in a model."""
    (refused,) = [n for n in sliceport.lower(model, input_shapes=input_shapes).nodes if n.reason is not None]
    assert refused.reason is not None
    return refused.reason.code, refused.reason.message


def slice_model(
    opset: int = 13,
    dtype: npt.DTypeLike = np.int64,
    shape: Sequence[int | str] | None = (4, 6),
    **parameters: npt.ArrayLike | None,
) -> onnx.ModelProto:
    """Return one Slice with its parameters as initializers; None leaves one out."""
    given = {name: values for name, values in parameters.items() if values is not None}
    names = [name if name in given else "" for name in ("starts", "ends", "axes", "steps")]
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", *names], ["y"], "s")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(values, dtype), name) for name, values in given.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def external(folder: Path) -> Path:
    """Save a Slice whose parameters are in another file."""
    model = slice_model(starts=[1], ends=[3])
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
    return folder / "m.onnx"


class TestSliceVersions:
    def test_the_domain_may_be_written_out(self) -> None:
        model = slice_model(starts=[1], ends=[3])
        model.graph.node[0].domain = "ai.onnx"
        assert shapes(model) == [[(2, 6)]]

    def test_a_slice_of_another_domain_is_not_ours(self) -> None:
        model = slice_model(starts=[1], ends=[3])
        model.graph.node[0].domain = "com.example"
        model.opset_import.add(domain="com.example", version=1)
        assert sliceport.lower(model).nodes == ()


class TestWhereParametersComeFrom:
    @pytest.mark.parametrize(
        ("nodes", "shape", "kept"),
        [
            ("n = Slice (shape, zero, one) half = Div (n, two) y = Slice (x, half, n)", (9, 6), range(4, 9)),
            ("n, m = Split (shape) last = Sub (n, one) y = Slice (x, last, n, zero)", (5, 2), range(4, 5)),
        ],
        ids=["Slice", "Split"],
    )
    def test_shape_arithmetic_folds_once_the_input_shapes_are_given(
        self, nodes: str, shape: tuple[int, ...], kept: range
    ) -> None:
        constants = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}"
        text = f"g (float[a,b] x) => (float[c,d] y) <{constants}> {{ shape = Shape (x) {nodes} }}"
        program = sliceport.lower(parsed(text), input_shapes={"x": shape})
        assert [n.verdict for n in program.nodes] == ["folded", "lowered"]
        assert program.nodes[1].resolved.cuts[0].region.ranges[0] == kept

    def test_folding_follows_the_onnx_text_rather_than_numpy(self) -> None:
        """Check a backward start below the axis: index 0, where NumPy and the reference evaluator select nothing."""
        text = """g (float[4,6] x) => (float[m,6] y)
            <int64[1] far = {-9}, int64[1] further = {-20}, int64[1] zero = {0}, int64[1] minus = {-1}> {
            shape = Shape (x)  four = Slice (shape, far, further, zero, minus)  y = Slice (x, zero, four)
        }"""
        program = sliceport.lower(parsed(text))
        assert program.nodes[1].resolved.cuts[0].region.output_shape == (4, 6)

    def test_small_external_parameters_are_read(self, tmp_path: Path) -> None:
        assert sliceport.lower(external(tmp_path)).summary["lowered"] == 1

    def test_missing_external_parameters_are_a_refusal(self, tmp_path: Path) -> None:
        path = external(tmp_path)
        (tmp_path / "m.data").unlink()
        code, message = reason(path)
        assert code == "missing_parameter"
        assert message.startswith("Slice 's': starts is stored outside the model and cannot be read")

    def test_external_parameters_beyond_the_end_of_their_file_are_missing(self, tmp_path: Path) -> None:
        path = external(tmp_path)
        model = onnx.load(path, load_external_data=False)
        (entry,) = [entry for entry in model.graph.initializer[1].external_data if entry.key == "offset"]
        entry.value = "1000000"
        path.write_bytes(model.SerializeToString())
        code, message = reason(path)
        assert code == "missing_parameter"
        assert message.startswith("Slice 's': ends is stored outside the model and cannot be read (offset")

    def test_missing_external_parameters_are_named_after_folding(self, models: Path, tmp_path: Path) -> None:
        model = onnx.load(models / "dynamo_phi_dyn.onnx")
        onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
        shapes = {"x": (1, 16)}
        assert sliceport.lower(tmp_path / "m.onnx", input_shapes=shapes).summary["refused"] == 0
        (tmp_path / "m.data").unlink()
        reasons = [n.reason for n in sliceport.lower(tmp_path / "m.onnx", input_shapes=shapes).nodes if n.reason]
        assert reasons
        assert {r.code for r in reasons} <= {"missing_parameter", "missing_shape"}
        assert any("is stored outside the model and cannot be read" in r.message for r in reasons)

    def test_weights_are_never_read(self, tmp_path: Path) -> None:
        model = parsed("g (float[4,1048576] x) => (a, b) { h = MatMul (x, w) a, b = Split <axis=1> (h) }")
        weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2**20, 2**10])
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="not_there.bin")
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        assert sliceport.lower(tmp_path / "m.onnx").summary["lowered"] == 1


class TestWhatExportersWrite:
    @pytest.mark.parametrize("opset", [9, 10, 11])
    def test_a_negative_concat_axis_is_read_before_it_was_allowed(self, opset: int) -> None:
        text = """g (float[2,6] x) => (float[2,n] y, float[2,m] z) {
            a = Concat <axis = -1> (x, x)  b = Relu (a)  c = Concat <axis = -1> (b, x)  y, z = Split <axis = 1> (c) }"""
        assert shapes(parsed(text, opset)) == [[(2, 9), (2, 9)]]

    def test_a_constant_whose_declared_shape_is_open_is_folded(self) -> None:
        """Check TorchScript's indices from NonZero of a constant: their number is known once they are folded."""
        text = """g (float[4,6] x) => (float[n] y) {
            mask = Constant <value = bool[4] {1, 0, 1, 1}> ()  found = NonZero (mask)
            rows = Transpose <perm = [1, 0]> (found)  flat = Squeeze (rows)  picked = Gather (x, flat)
            starts = Constant <value_ints = [1]> ()  ends = Constant <value_ints = [3]> ()
            y = Slice (picked, starts, ends) }"""
        (node,) = sliceport.lower(parsed(text)).nodes
        assert node.verdict == "lowered"
        assert node.resolved.cuts[0].region.input_shape == (3, 6)


class TestScopes:
    def test_branches_of_an_if_are_lowered(self, models: Path) -> None:
        program = sliceport.lower(models / "rule_subgraphs.onnx")
        assert [n.node.scope for n in program.nodes] == [("if_y.then_branch",), ("if_y.else_branch",)]
        assert program.summary["lowered"] == 2

    def test_a_loop_body_whose_input_hides_a_view_is_lowered(self) -> None:
        text = """g (float[4,6] x, int64 n) => (float[4,6] y) {
            go = Constant <value = bool {1}> ()
            s = Constant <value_ints = [2]> ()  e = Constant <value_ints = [3]> ()  v = Slice (x, s, e)
            y, parts = Loop (n, go, x) <
                body = b (int64 i, bool c, float[4,6] v) => (bool c_out, float[4,6] v_out, float[4,3] left) {
                    c_out = Identity (c)  left, right = Split <axis = 1> (v)  v_out = Concat <axis = 1> (right, left)
                }> }"""
        view, node = sliceport.lower(parsed(text), views=True).nodes
        assert (view.verdict, node.node.scope) == ("alias", ("y.body",))
        assert (node.aliases[0].value, node.calls[0].input.value) == ("v", "v")

    def test_value_of_a_branch_that_hides_a_view_is_sliced(self) -> None:
        branch = "b () => (float[2,4] o) { v = Abs (x)  o = Slice (v, s, m) }"  # onnxruntime refuses the second `v`
        bounds = "int64[1] s = {0}, int64[1] m = {2}, int64[1] e = {8}"
        text = f"""g (float[8,4] x, bool c) => (float[2,4] y) <{bounds}> {{
            v = Slice (x, m, e)  y = If (c) <then_branch = {branch}, else_branch = {branch}> }}"""
        for model in (parsed(text), ir.serde.deserialize_model(parsed(text))):
            assert [node.aliases[0].value for node in sliceport.lower(model, views=True).nodes] == ["x", "v", "v"]

    @pytest.mark.parametrize("names", [("same", "same"), ("", "y")])
    def test_branches_of_nodes_with_one_name_are_told_apart(self, names: tuple[str, str]) -> None:
        branch = "b () => (float[4,4] {}) {{ t = {} (x)  {} = Slice (t, {}) }}"
        halves = [("Neg", "s, m"), ("Abs", "m, e")]
        branches = [branch.format(f"u{i}", half[0], f"u{i}", half[1]) for i, half in enumerate(halves)]
        ifs = [f"If (c) <then_branch = {each}, else_branch = {each}>" for each in branches]
        bounds = "int64[1] s = {0}, int64[1] m = {4}, int64[1] e = {8}"
        text = f"""g (float[8,4] x, bool c) => (float[4,4] y, float[4,4] z) <{bounds}> {{
            y = {ifs[0]}  z = {ifs[1]} }}"""
        model = parsed(text)
        for node, name in zip(model.graph.node, names, strict=True):
            node.name = name
        program = sliceport.lower(model)
        assert len({node.node.scope for node in program.nodes}) == 4
        assert [len(call.outputs) for call in program.calls] == [1, 1, 1, 1]  # no SPLIT joins halves of two tensors

    def test_many_nodes_of_one_name_are_told_apart_in_few_steps(self) -> None:
        class CountingDict(dict[str, int]):
            count = 0

            def __contains__(self, part: object) -> bool:
                self.count += 1
                return super().__contains__(part)

        used = CountingDict({"n.body#3": 1})
        assert len({extend_scope((), "n", "body", used) for _ in range(100)}) == 100
        assert used.count < 300

    def test_a_function_is_lowered_at_each_call(self, models: Path) -> None:
        program = sliceport.lower(models / "rule_function.onnx")
        assert [n.resolved.cuts[0].region.input_shape for n in program.nodes] == [(4, 6), (2, 8)]
        assert {n.node.origin for n in program.nodes} == {"local:half:#0"}

    def test_a_function_that_calls_itself_is_an_error(self) -> None:
        text = """g (float[4] x) => (float[4] y) { y = local.f (x) }
            <domain: "local", opset_import: ["" : 13, "local" : 1]> f (v) => (w) { w = local.f (v) }"""
        with pytest.raises(ModelError, match="calls itself, directly or through others"):
            sliceport.lower(parsed(text, extra=', "local" : 1'))

    def test_models_given_are_not_changed(self) -> None:
        proto = slice_model(shape=("n", 6), starts=[1], ends=[3])
        before = proto.SerializeToString()
        sliceport.lower(proto, input_shapes={"x": (4, 6)})
        assert proto.SerializeToString() == before
        model = ir.serde.deserialize_model(proto)
        sliceport.lower(model, input_shapes={"x": (4, 6)})
        assert (
            ir.serde.serialize_model(model).graph == ir.serde.serialize_model(ir.serde.deserialize_model(proto)).graph
        )


class TestRefusals:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            (
                {"starts": [0, 1], "ends": [2]},
                "ends and starts must have the same length, got ends=[2] and starts=[0, 1]",
            ),
            (
                {"starts": [0], "ends": [2], "axes": [0, 1]},
                "axes and starts must have the same length, got axes=[0, 1]",
            ),
            ({"starts": [0], "ends": [2], "steps": [1, 1]}, "steps and starts must have the same length, got steps="),
            ({"starts": [0], "ends": [2], "axes": [2]}, "axis 2 is out of range for a tensor of rank 2"),
            ({"starts": [0], "ends": [2], "axes": [-3]}, "axis -3 is out of range for a tensor of rank 2"),
            ({"starts": [0, 0], "ends": [2, 2], "axes": [1, -1]}, "axis 1 is named twice in axes=[1, -1]"),
            ({"starts": [0], "ends": [2], "steps": [0]}, "the step of axis 0 is 0, but it must not be"),
            ({"starts": [0, 0, 0], "ends": [1, 1, 1]}, "3 starts are more than the tensor's rank 2"),
            ({"starts": [[0]], "ends": [2]}, "starts must have one dimension, got shape [1, 1]"),
            ({"starts": [0], "ends": [2], "shape": ()}, "data is a scalar, but slicing needs at least one axis"),
            ({"starts": [0], "ends": [2], "dtype": np.float32}, "starts must be int32 or int64, got FLOAT"),
            ({"starts": None, "ends": [2]}, "starts is missing"),
            ({"starts": [0], "ends": None}, "ends is missing"),
        ],
    )
    def test_slices_that_break_a_rule_are_refused(self, parameters: dict[str, Any], message: str) -> None:
        code, got = reason(slice_model(**parameters))
        assert code == "invalid"
        assert got.startswith(f"Slice 's': {message}")
        assert got.endswith(".")

    @pytest.mark.parametrize(
        ("opset", "node", "message"),
        [
            (13, "a, b = Split <axis = 2> (x)", "axis 2 is out of range for a tensor of rank 2"),
            (13, "a, b, c, d = Split <axis = 1> (x)", "axis 1 has 6 elements, which do not divide into 4 equal parts"),
            (11, "a, b = Split <split = [1, 4]> (x)", "split=[1, 4] sums to 5, but axis 0 has 4 elements"),
            (11, "a, b = Split <split = [6, -2]> (x)", "split sizes must not be negative, got split=[6, -2]"),
            (11, "a, b = Split <split = [1, 1, 2]> (x)", "split=[1, 1, 2] must have a size for each of the 2 outputs"),
            (18, "a, b = Split (x)", "one of split and num_outputs must be given"),
            (18, "a, b = Split <num_outputs = 3> (x)", "num_outputs is 3, but the node has 2 outputs"),
            (18, "a, b, c, d = Split <num_outputs = 4> (z)", "axis 0 has 5 elements, too few for 4 parts of 2"),
            (18, "a, b = Split <num_outputs = 2> (x, s)", "split and num_outputs must not both be given"),
            (11, 'a, b = Split <axis = "1"> (x)', "attribute axis must be an integer"),
            (9, "a = Slice <starts = 1, ends = [2]> (x)", "attribute starts must be a list of integers"),
            (9, "a = Slice <starts = [1]> (x)", "ends is missing"),
            (9, "a = Slice (x, x, x)", "Slice of opset 9 takes 1 input, got 3"),
            (13, "a = Slice <starts = [1], ends = [2]> (x)", "Slice of opset 13 takes 3 to 5 inputs, got 1"),
            (11, "a, b = Split (x, x)", "Split of opset 11 takes 1 input, got 2"),
        ],
    )
    def test_nodes_that_break_a_rule_are_refused(self, opset: int, node: str, message: str) -> None:
        head = "g (float[4,6] x, float[5] z) => (float[N] a) <int64[2] s = {2, 2}>"
        code, got = reason(parsed(f"{head} {{ {node} }}", opset))
        assert code == "invalid"
        assert message in got
        assert got.endswith(".")

    @pytest.mark.parametrize(("sizes", "message"), [((4, None), "axis 2 is out of range"), ((), "data is a scalar")])
    def test_even_split_of_an_axis_that_does_not_exist_is_invalid(self, sizes: Sizes, message: str) -> None:
        model = read_view(parsed("g (float[n,m] x) => (float[k,m] a) { a, b = Split <axis = 2> (x) }", 13))
        with pytest.raises(InvalidSlice, match=message):
            split_spec_with_open_sizes(model.graph.nodes[0], 13, sizes)

    def test_run_time_parameters_name_their_source(self) -> None:
        text = "g (float[4,6] x, int64[1] e) => (float[n,6] y) { s = Constant <value_ints=[1]> () y = Slice (x, s, e) }"
        model = parsed(text)
        model.graph.node[1].name = "crop"
        message = "Slice 'crop': ends comes from input 'e', which is not a constant."
        assert reason(model) == ("dynamic_parameter", message)
        model.graph.node.insert(0, helper.make_node("Abs", ["e"], ["f"]))
        model.graph.node[2].input[2] = "f"
        assert reason(model) == ("dynamic_parameter", message.replace("input 'e'", "node 'f' (Abs)"))

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            (("n", 6), "dimension 0 of its input 'x' is not known ('n'); dimension 0 of input 'x' is open"),
            (None, "the shape of its input 'x' is not known; the shape of input 'x' is open"),
        ],
    )
    def test_missing_sizes_are_named(self, shape: Sequence[int | str] | None, message: str) -> None:
        example = f"give sizes, as in input_shapes={{'x': {(1, 6) if shape else (1, 16)}}} (an example)."
        expected = ("missing_shape", f"Slice 's': {message}: {example}")
        assert reason(slice_model(shape=shape, starts=[1], ends=[3])) == expected

    def test_one_bad_node_leaves_the_others_alone(self) -> None:
        text = "g (float[4,6] x) => (float[2,6] a, float[N] b) { a, c = Split (x)  b = Slice (x, x, x) }"
        assert [n.verdict for n in sliceport.lower(parsed(text)).nodes] == ["lowered", "refused"]

    def test_strict_raises_the_first_refusal(self) -> None:
        with pytest.raises(InvalidSlice, match="the step of axis 0 is 0"):
            sliceport.lower(slice_model(starts=[0], ends=[2], steps=[0]), strict=True)
        with pytest.raises(UnsupportedSlice, match="ends comes from input"):
            text = "g (float[4] x, int64[1] e) => (float[n] y) { s = Constant <value_ints=[1]> () y = Slice (x, s, e) }"
            sliceport.lower(parsed(text), strict=True)


class TestInputShapes:
    def test_a_symbol_has_one_size_everywhere(self) -> None:
        text = "g (float[n,6] x, float[n,2] z) => (float[n,3] a, float[n,3] b) { a, b = Split <axis = 1> (x) }"
        assert shapes(parsed(text), x=(4, 6)) == [[(4, 3), (4, 3)]]

    def test_expressions_of_symbols_are_worked_out(self, zoo: Path) -> None:
        program = sliceport.lower(zoo / "gptneox_dyn.onnx", input_shapes={"x": (1, 16)})
        assert program.summary["refused"] == 0

    def test_another_value_of_the_graph_can_be_given_a_shape(self) -> None:
        text = "g (float[4] x) => (float[m] a, float[m] b) { h = custom.Thing (x) a, b = Split (h) }"
        model = parsed(text, extra=', "custom" : 1')
        assert reason(model)[0] == "missing_shape"
        assert shapes(model, h=(8,)) == [[(4,), (4,)]]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"z": (4, 6)}, "the model has no input 'z' to give a shape to; its inputs are 'x'"),
            ({"x": (4,)}, r"input 'x' has rank 2, but its given shape \[4\] has rank 1"),
            ({"x": (4, 5)}, "input 'x' has 6 elements on axis 1, but its given shape says 5"),
            ({"x": (-1, 6)}, r"the shape of input 'x' must not have negative sizes, got \[-1, 6\]"),
        ],
    )
    def test_shapes_that_do_not_fit_are_refused(self, given: dict[str, tuple[int, ...]], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            sliceport.lower(slice_model(shape=("n", 6), starts=[1], ends=[3]), input_shapes=given)

    def test_one_symbol_cannot_be_two_sizes(self) -> None:
        text = "g (float[n,n] x) => (float[n] y) { s = Constant <value_ints=[1]> () y = Slice (x, s, s) }"
        with pytest.raises(UsageError, match="input 'x' has 4 elements on axis 1, but its given shape says 5"):
            sliceport.lower(parsed(text), input_shapes={"x": (4, 5)})


class TestNames:
    def test_names_are_those_of_the_model_even_where_folding_renames(self) -> None:
        text = """g (float[4,6] x) => (float[4,3] a, float[4,3] b)
            <int64[1] axis = {1}, int64[1] end = {2}, int64[1] two = {2}, int64[1] zero = {0}> {
            same = Identity (x)  shape = Shape (same)  six = Slice (shape, axis, end)  half = Div (six, two)
            a = Slice (same, zero, half, axis)  b = Slice (same, half, six, axis) }"""
        nodes = read_slicing_nodes(read_view(parsed(text)))
        assert [(n.input, n.outputs) for n in nodes] == [("shape", ("six",)), ("same", ("a",)), ("same", ("b",))]

    def test_unnamed_nodes_go_by_their_first_output(self) -> None:
        model = slice_model(starts=[1], ends=[3])
        model.graph.node[0].name = ""
        assert sliceport.lower(model).nodes[0].node.label == "Slice 'y'"


def test_read_model_leaves_external_tensors_closed(tmp_path: Path) -> None:
    model = slice_model(starts=[1], ends=[3])
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="none.bin")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert isinstance(read_model(tmp_path / "m.onnx").graph.initializers["w"].const_value, ir.ExternalTensor)


def test_parts_that_would_be_lost_are_refused(tmp_path: Path, invoke: Invoke) -> None:
    plain = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <int64[1] i = {1}> { y = Neg(x) z = Slice(x, i, i) }""")
    trained = onnx.ModelProto.FromString(plain.SerializeToString())
    trained.training_info.add().algorithm.name = "a"
    sparse = onnx.ModelProto.FromString(plain.SerializeToString())
    values = numpy_helper.from_array(np.array([1.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([1]), "i")
    sparse.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    sparse.graph.node[0].op_type = "Add"
    sparse.graph.node[0].input.append("w")
    in_body = onnx.ModelProto.FromString(plain.SerializeToString())
    branch = parser.parse_graph("b () => (float[2] r) { r = Add(x, w) }")
    branch.sparse_initializer.extend(sparse.graph.sparse_initializer)
    in_body.graph.node.append(helper.make_node("If", ["c"], ["v"], then_branch=branch, else_branch=branch))
    in_body.graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    outer = onnx.ModelProto.FromString(in_body.SerializeToString())
    for attribute in outer.graph.node[-1].attribute:
        attribute.g.CopyFrom(parser.parse_graph("b () => (float[2] x) { }"))
    for model, message in (
        (in_body, "initializer 'w' is sparse, which onnx-ir does not read; make it dense."),
        (trained, "it has training_info, which would be lost; remove it first."),
        (sparse, "initializer 'w' is sparse, which onnx-ir does not read; make it dense."),
        (outer, "a body returns 'x', a value of an outer graph; return an Identity of it instead."),
    ):
        onnx.save(model, tmp_path / "m.onnx")
        for command in ("rewrite", "harden"):
            assert message in invoke(command, tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", code=2).err
    assert not (tmp_path / "o.onnx").exists()


class TestTheOtherNameOfTheStandardDomain:
    """Models may import ONNX's own operators as "ai.onnx", of either version of a Split."""

    TEXT = """<ir_version: 9, opset_import: ["ai.onnx" : 17]>
    g (float[2,8] x) => (float[2,4] y, float[2,3] z, float[2,3] v)
    <int64[3] i = {1, 2, 3}, int64[1] s = {0}, int64[1] e = {3}, int64[1] a = {1}>
    { y, u = Split <axis = 1> (x)  z = Gather <axis = 1> (x, i)  v = Slice (x, s, e, a) }"""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(self.TEXT).SerializeToString())
        return tmp_path / "m.onnx"

    def test_the_model_is_lowered_and_compared(self, path: Path) -> None:
        assert sliceport.lower(path).summary == sliceport.lower(onnx.load(path)).summary
        assert sliceport.lower(ir.load(path)).summary["lowered"] == 2
        assert sliceport.compare(path).is_clean

    @pytest.mark.parametrize("command", ["rewrite", "harden"])
    def test_the_model_is_rewritten(self, path: Path, tmp_path: Path, command: str) -> None:
        options = {"target": "onnxruntime-dml"} if command == "harden" else {"passes": ("split", "gather", "siblings")}
        getattr(sliceport, command)(path, tmp_path / "o.onnx", **options)
        onnx.checker.check_model(tmp_path / "o.onnx", full_check=True)
        if command == "rewrite":
            assert sliceport.rewrite(path, tmp_path / "p.onnx", verify=True, **options).is_clean

    def test_two_versions_are_refused(self, path: Path) -> None:
        model = onnx.load(path)
        model.opset_import.add(domain="", version=13)
        with pytest.raises(ModelError, match="imports versions 13, 17 of ONNX's operators"):
            sliceport.lower(model)


@pytest.mark.parametrize("error", [MemoryError(), ValueError("Error parsing message: Arena alloc failed")])
def test_lack_of_memory_is_not_reported_as_another_file_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(onnx, "load", Mock(side_effect=error))
    with pytest.raises(MemoryError):
        read_proto(tmp_path / "model.onnx")
