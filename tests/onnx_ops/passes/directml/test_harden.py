"""Hardening for onnxruntime's DirectML provider: wrong or refused before, right after, the same on the CPU provider."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from amounts import some
from command_line import Invoke
from onnx_models import integers, parse
from platforms import require_reshape_of_no_elements, require_shader_model_6
from sessions import compute

import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.passes import HARDEN_DIRECTML, ReshapeForDirectMLPass
from onnx_ops.passes.directml.harden import harden_for_directml
from sliceport import device
from sliceport.cli.main import main
from sliceport.defects.table import find_defect
from sliceport.device import CallFailed

ONE_PART_GATES_ANOTHER = find_defect("one part gates another")

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
PROVIDER = "1.24.4"


def model(
    nodes: str,
    shape: Sequence[int | str],
    outputs: str = "y",
    opset: int = 18,
    element: str = "float",
    **constants: Sequence[int],
) -> onnx.ModelProto:
    """Parse nodes that read `x` and constants."""
    head = f"({element}[{', '.join(map(str, shape))}] x) => ({outputs}) <{integers(**constants)}>"
    return onnx.shape_inference.infer_shapes(parse(f"{head} {{ {nodes} }}", opset), data_prop=True)


def hardened(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, list[tuple[str | None, list[str]]]]:
    """Return the hardened model, which is valid and hardened no further, and its changes."""
    graph = from_proto(proto)
    report = harden_for_directml(graph)
    after = ir.serde.serialize_model(graph)
    onnx.checker.check_model(after, full_check=True)
    for kind in HARDEN_DIRECTML:
        assert not kind()(graph).modified
    assert ir.serde.serialize_model(graph) == after
    assert [o.name for o in after.graph.output] == [o.name for o in proto.graph.output]
    return after, [(change.replacement, [defect.id for defect in change.defects]) for change in report.changes]


def same_on_cpu(before: onnx.ModelProto, after: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    expected, got = compute(before, x=x), compute(after, x=x)
    assert [(a.shape, a.tobytes()) for a in got] == [(a.shape, a.tobytes()) for a in expected]
    return expected


def data(shape: Sequence[int], element: npt.DTypeLike = np.float32) -> np.ndarray:
    values: np.ndarray = np.linspace(-2, 2, int(np.prod(shape)), dtype=element)
    return values.reshape(shape)


def split_node(opset: int, parts: str, axis: int, sizes: list[int] | None) -> tuple[str, dict[str, Any]]:
    """Return a Split as text, and its constants."""
    reads, attributes = "x", f"axis = {axis}"
    if sizes is None and opset >= 18:
        attributes += f", num_outputs = {len(parts.split(', '))}"
    elif sizes is not None and opset < 13:
        attributes += f", split = {sizes}"
    elif sizes is not None:
        reads = "x, sizes"
    text = f"[split] {parts} = Split<{attributes}>({reads})"
    return text, {"sizes": sizes} if sizes is not None and opset >= 13 else {}


def gated(
    shape: Sequence[int | str],
    axis: int,
    opset: int = 18,
    sizes: list[int] | None = None,
    factor: str = "a",
    gate: str = "b",
    element: str = "float",
) -> onnx.ModelProto:
    split, constants = split_node(opset, "a, b, c" if sizes and sizes[2:] else "a, b", axis, sizes)
    nodes = f"{split}  s = Sigmoid({gate})  y = Mul({factor}, s)"
    return model(nodes, shape, opset=opset, element=element, **constants)


class TestGatedSplits:
    @pytest.mark.parametrize("opset", [7, 9, 11, 13, 18])
    @pytest.mark.parametrize("sizes", [None, [2, 2]])
    def test_gated_splits_of_every_opset_become_slices(self, opset: int, sizes: list[int] | None) -> None:
        before = gated([3, 4], -1, opset, sizes)
        after, done = hardened(before)
        assert done == [("Slice", ["one part gates another"])]
        assert [node.op_type for node in after.graph.node if node.op_type in ("Split", "Slice")] == ["Slice"] * 2
        same_on_cpu(before, after, data((3, 4)))

    @pytest.mark.parametrize(("factor", "gate"), list(itertools.product("abc", "abc")))
    def test_every_pair_of_parts(self, factor: str, gate: str) -> None:
        before = gated([6, 2], 0, 13, [2, 2, 2], factor, gate)
        after, done = hardened(before)
        assert done == ([] if factor == gate else [("Slice", ["one part gates another"])])
        same_on_cpu(before, after, data((6, 2)))

    def test_other_uses_and_graph_outputs_stay(self) -> None:
        split, constants = split_node(18, "a, b, c", 1, [1, 1, 2])
        nodes = f"{split}  s = Sigmoid(a)  y = Mul(s, b)  n = Neg(c)"
        before = model(nodes, [2, 4], "y, n, c, a", **constants)
        after, done = hardened(before)
        assert done == [("Slice", ["one part gates another"])]
        kinds = [node.op_type for node in after.graph.node if node.op_type != "Constant"]
        assert sorted(kinds) == ["Mul", "Neg", "Sigmoid", "Slice", "Slice", "Slice"]
        same_on_cpu(before, after, data((2, 4)))

    @pytest.mark.parametrize("function", ["Tanh", "Relu", "Neg"])
    def test_other_functions_are_left(self, function: str) -> None:
        nodes = f"a, b = Split<axis = 0, num_outputs = 2>(x)  s = {function}(b)  y = Mul(a, s)"
        assert hardened(model(nodes, [4, 2]))[1] == []

    def test_sizes_that_are_not_known_are_a_finding(self) -> None:
        before = gated(["n", 2], 0)
        after, done = hardened(before)
        assert done == [(None, ["one part gates another"])]
        assert after == ir.serde.serialize_model(from_proto(before))
        report = harden_for_directml(from_proto(before))
        assert report.is_complete  # the provider is right while the size is open
        assert report.changes[0].outcome == (
            "not fixed, because it splits axis 0 of 'x' evenly, and the size of that axis is not known; "
            "value_info or fixed sizes of the inputs would tell it"
        )

    def test_known_sizes_of_an_open_axis(self) -> None:
        after, done = hardened(gated(["n", 2], 0, 13, [3, 2], "a", "b"))
        assert [form for form, _ in done] == ["Slice"]
        assert [node.op_type for node in after.graph.node].count("Slice") == 2

    def test_splits_in_branches_are_rewritten(self) -> None:
        branches = [
            f"{name}() => (float[2, 2] y{name}) {{ a{name}, b{name} = Split<axis = 0, num_outputs = 2>(x)"
            f"  s{name} = Sigmoid(b{name})  y{name} = Mul(a{name}, s{name}) }}"
            for name in ("p", "q")
        ]
        before = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
            g (float[4, 2] x) => (float[2, 2] y) <bool c = {{1}}>
            {{ y = If(c)<then_branch = {branches[0]}, else_branch = {branches[1]}> }}""")
        graph = from_proto(before)
        assert len(harden_for_directml(graph).changes) == 2
        same_on_cpu(before, ir.serde.serialize_model(graph), data((4, 2)))

    @pytest.mark.parametrize(("shape", "axis"), [((2, 4), 1), ((4, 3), 0), ((1, 6, 5), 1), ((1, 2, 3, 8), -1)])
    @pytest.mark.parametrize("element", ["float", "float16"])
    def test_provider_is_right_after_hardening(
        self, directml: device.Device, shape: tuple[int, ...], axis: int, element: str
    ) -> None:
        """onnxruntime 32146: wrong before, right after."""
        assert directml.facts()["onnxruntime"] == PROVIDER
        kind = np.float32 if element == "float" else np.float16
        before = gated(list(shape), axis, element=element)
        after, _ = hardened(before)
        x = data(shape, kind)
        (expected,) = same_on_cpu(before, after, x)
        (wrong,) = directml.run_onnx(before.SerializeToString(), {"x": x}, ["y"])
        (right,) = directml.run_onnx(after.SerializeToString(), {"x": x}, ["y"])
        tolerance = 1e-5 if kind == np.float32 else 1e-2
        assert not np.allclose(wrong, expected, atol=tolerance), "the provider is right now: remove the pass"
        np.testing.assert_allclose(right, expected, atol=tolerance)


class TestEmptyParts:
    @pytest.mark.parametrize("sizes", [[0, 4], [1, 0, 3], [4, 0], [0, 0, 4]])
    def test_on_both_providers(self, directml: device.Device, sizes: list[int]) -> None:
        parts = [f"p{i}" for i in range(len(sizes))]
        split, constants = split_node(13, ", ".join(parts), 1, sizes)
        before = model(split, [2, 4], ", ".join(parts), 13, **constants)
        after, done = hardened(before)
        assert done == [("Slice", ["a part is empty"])]
        x = data((2, 4))
        expected = same_on_cpu(before, after, x)
        right = directml.run_onnx(after.SerializeToString(), {"x": x}, parts, fallback=True)
        try:
            wrong = directml.run_onnx(before.SerializeToString(), {"x": x}, parts)
        except CallFailed:  # with the empty part behind others even the session cannot be made
            wrong = [np.array([])] * len(parts)
        assert any(not np.array_equal(a, b) for a, b in zip(wrong, expected, strict=True)), "right now: remove the pass"
        assert all(np.array_equal(a, b) for a, b in zip(right, expected, strict=True))

    def test_a_split_that_nothing_reads_is_left(self) -> None:
        split, constants = split_node(13, "a, b", 0, [0, 4])
        before = model(f"{split}  y = Neg(x)", [4], opset=13, **constants)
        after, found = hardened(before)
        assert found == []
        assert [node.op_type for node in after.graph.node] == ["Split", "Neg"]

    def test_empty_parts_can_be_concatenated(self, directml: device.Device) -> None:
        split, constants = split_node(13, "a, b", 0, [0, 4])
        before = model(f"{split}  y = Concat<axis = 0>(b, a)", [4, 2], opset=13, **constants)
        after, _ = hardened(before)
        x = data((4, 2))
        expected = same_on_cpu(before, after, x)
        got = directml.run_onnx(after.SerializeToString(), {"x": x}, ["y"], fallback=True)
        assert np.array_equal(got[0], expected[0])


SLICES = {
    "steps without axes": (([0, 1], [4, 3], None, [2, 1]), "steps without axes"),
    "backwards from below": (([-100], [-200], [0], [-1]), "backwards from below the axis"),
    "backwards from one below": (([-5], [-9], [0], [-1]), "backwards from below the axis"),
    "backwards from the least": (([INT64_MIN], [INT64_MIN], [1], [-2]), "backwards from below the axis"),
    "from the least": (([INT64_MIN], [-1], [0], [1]), "from the least integer to a negative end"),
    "from the least of 32 bits": (([-(2**31)], [-2], [-1], [2]), "from the least integer to a negative end"),
}
LEFT = {
    "axes left out without steps": ([1], [3], None, None),
    "to the greatest": ([1], [INT64_MAX], [0], [1]),
    "backwards to the least": ([-1], [INT64_MIN], [0], [-1]),
    "from below": ([-9], [2], [0], [1]),
    "backwards from the last": ([-4], [-9], [0], [-1]),
    "from the least to an index": ([INT64_MIN], [3], [0], [1]),
}


def sliced(
    starts: list[int],
    ends: list[int],
    axes: list[int] | None,
    steps: list[int] | None,
    shape: Sequence[int | str] = (4, 4),
) -> onnx.ModelProto:
    given = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    reads = ", ".join(name if values is not None else "" for name, values in given.items()).rstrip(", ")
    constants: dict[str, Any] = {name: values for name, values in given.items() if values is not None}
    return model(f"[slice] y = Slice(x, {reads})", shape, opset=13, **constants)


class TestSlices:
    @pytest.mark.parametrize("title", SLICES)
    def test_on_both_providers(self, directml: device.Device, title: str) -> None:
        parameters, defect = SLICES[title]
        before = sliced(*parameters)
        after, done = hardened(before)
        assert done == [("Slice", [defect])]
        x = data((4, 4))
        (expected,) = same_on_cpu(before, after, x)
        with pytest.raises(CallFailed):
            directml.run_onnx(before.SerializeToString(), {"x": x}, ["y"])
        (got,) = directml.run_onnx(after.SerializeToString(), {"x": x}, ["y"])
        assert np.array_equal(got, expected)

    @pytest.mark.parametrize("title", LEFT)
    def test_what_the_provider_takes_is_left(self, directml: device.Device, title: str) -> None:
        before = sliced(*LEFT[title])
        assert hardened(before)[1] == []
        x = data((4, 4))
        (got,) = directml.run_onnx(before.SerializeToString(), {"x": x}, ["y"])
        assert np.array_equal(got, compute(before, x=x)[0])

    def test_a_slice_that_selects_nothing_beside_another(self, directml: device.Device) -> None:
        nodes = "nothing = Slice(x, two, two, axis)  y = Slice(x, two, four, axis)"
        before = model(nodes, [4, 2], "y, nothing", 13, two=[2], four=[4], axis=[0])
        after, done = hardened(before)
        assert done == [("Constant", ["nothing is selected"])]
        x = data((4, 2))
        expected = same_on_cpu(before, after, x)
        wrong = directml.run_onnx(before.SerializeToString(), {"x": x}, ["y", "nothing"])
        right = directml.run_onnx(after.SerializeToString(), {"x": x}, ["y", "nothing"], fallback=True)
        assert not np.array_equal(wrong[0], expected[0]), "the provider is right now: remove the rule"
        assert [a.tobytes() for a in right] == [a.tobytes() for a in expected]

    def test_all_starts_steps_and_ends_of_small_axes(self) -> None:
        far = (INT64_MIN, -(2**31), -7, -4, -1, 0, 2, 5, INT64_MAX)
        fired = 0
        for start, end, step in some(list(itertools.product(far, far, (-2, -1, 1, 3)))):
            if step < 0 and end == INT64_MAX:
                continue  # onnxruntime's CPU provider takes that for the far end
            before = sliced([start], [end], [0], [step], (4, 2))
            after, done = hardened(before)
            fired += bool(done)
            same_on_cpu(before, after, data((4, 2)))
        assert fired > 30

    def test_an_open_axis_is_only_rewritten_where_every_size_allows(self) -> None:
        assert hardened(sliced([-100], [-200], [0], [-1], ("n", 4)))[1] == []
        assert [form for form, _ in hardened(sliced([INT64_MIN], [-200], [0], [-1], ("n", 4)))[1]] == ["Slice"]


class TestMoreThanEightAxes:
    shape = (2,) * 8 + (3,)

    def proto(self, op_type: str, shape: Sequence[int | str]) -> onnx.ModelProto:
        if op_type == "Slice":
            return model("[cut] y = Slice(x, a, b, c)", shape, a=[0], b=[1], c=[0])
        return model("[cut] y, z = Split<axis = 0>(x, a)", shape, "y, z", a=[1, 1])

    @pytest.mark.parametrize("op_type", ["Slice", "Split"])
    def test_nine_axes_are_reported(self, op_type: str) -> None:
        after, done = hardened(self.proto(op_type, self.shape))
        assert done == [(None, ["more than 8 axes"])]
        assert hardened(self.proto(op_type, self.shape[1:]))[1] == []
        same_on_cpu(self.proto(op_type, self.shape), after, data(self.shape))

    @pytest.mark.parametrize("op_type", ["Slice", "Split"])
    def test_the_provider_refuses_them_and_the_way_around(self, directml: device.Device, op_type: str) -> None:
        with pytest.raises(CallFailed, match="Invalid parameter"):
            directml.run_onnx(self.proto(op_type, self.shape).SerializeToString(), {"x": data(self.shape)}, ["y"])
        eight = self.shape[1:]
        (got,) = directml.run_onnx(self.proto(op_type, eight).SerializeToString(), {"x": data(eight)}, ["y"])
        assert got.shape == (1, *self.shape[2:])
        flat = model("y = Reshape(x, s)", self.shape, s=[-1])
        with pytest.raises(CallFailed, match="Invalid parameter"):
            directml.run_onnx(flat.SerializeToString(), {"x": data(self.shape)}, ["y"])


class TestReshapes:
    @pytest.mark.parametrize("concat", [False, True])
    def test_on_both_providers(self, directml: device.Device, concat: bool) -> None:
        before = model("[reshape] y = Reshape<allowzero = 1>(x, s)", [2, 6], s=[3, -1])
        if concat:
            nodes = "s = Concat<axis = 0>(first, rest)  [reshape] y = Reshape<allowzero = 1>(x, s)"
            before = model(nodes, [2, 6], first=[3], rest=[-1])
        after, done = hardened(before)
        assert done == [("Reshape without allowzero", ["allowzero and a -1"])]
        x = data((2, 6))
        (expected,) = same_on_cpu(before, after, x)
        with pytest.raises(CallFailed):
            directml.run_onnx(before.SerializeToString(), {"x": x}, ["y"], fallback=True)
        (got,) = directml.run_onnx(after.SerializeToString(), {"x": x}, ["y"], fallback=True)
        assert np.array_equal(got, expected)

    @pytest.mark.parametrize(
        ("entries", "shape", "count"),
        [
            ("first, second, rest, last", "b, s, 2, 8", 4),
            ("rest, second, two, last", "b, s, 2, 8", 5),
            ("first, second, rest, last", "b, s, m, 8", 14),
            ("rest, second, two, last", "c, s, d, e", 14),
        ],
    )
    def test_empty_batches_run_as_exported(self, entries: str, shape: str, count: int) -> None:
        require_reshape_of_no_elements()
        before = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
            g (float[b, s, 16] x) => (float[{shape}] y)
            <int64[1] rest = {{-1}}, int64[1] last = {{8}}, int64[1] two = {{2}}> {{
                first = Shape <start = 0, end = 1> (x)
                second = Shape <start = 1, end = 2> (x)
                target = Concat <axis = 0> ({entries})
                y = Reshape <allowzero = 1> (x, target) }}""")
        after, done = hardened(before)
        assert done == [("Reshape without -1", ["allowzero and a -1"])]
        kinds = [node.op_type for node in after.graph.node if node.op_type != "Constant"]
        assert len(kinds) == count
        read = {name for node in after.graph.node for name in node.input}
        assert all(node.output[0] in read for node in after.graph.node if node.op_type == "Constant")
        for size in ((0, 5, 16), (2, 0, 16), (2, 2, 16), (1, 2, 16)):
            same_on_cpu(before, after, data(size))

    def test_size_of_an_axis_is_read_without_a_range_before_opset_15(self) -> None:
        require_reshape_of_no_elements()
        before = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 14]>
            g (float[b, s] x) => (float[b, s] y) <int64[1] zero = {0}, int64[1] rest = {-1}>
            { h = Shape(x) i = Gather(h, zero) t = Concat<axis = 0>(i, rest) y = Reshape<allowzero = 1>(x, t) }""")
        after, done = hardened(before)
        assert done == [("Reshape without -1", ["allowzero and a -1"])]
        for size in ((0, 5), (2, 0), (2, 3)):
            same_on_cpu(before, after, data(size))

    @pytest.mark.parametrize(("shape", "allowzero"), [("3, 4", 1), ("3, -1", 0), ("0, -1", 1)])
    def test_other_reshapes_are_left(self, shape: str, allowzero: int) -> None:
        proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
            g (float[2, 6] x) => (float[n, m] y) <int64[2] s = {{{shape}}}>
            {{ y = Reshape<allowzero = {allowzero}>(x, s) }}""")
        assert not ReshapeForDirectMLPass()(from_proto(proto)).modified


@pytest.mark.parametrize("file", some(["dynamo_conformer.onnx", "dynamo_zero_part.onnx", "ts_conformer_13.onnx"], 1))
@pytest.mark.usefixtures("provider_kept")
def test_hardened_exports_compute_right(directml: device.Device, models: Path, tmp_path: Path, file: str) -> None:
    """onnxruntime 32146, in real exports."""
    if "conformer" in file:
        require_shader_model_6(directml)
    before = sliceport.diff(models / file, on="onnxruntime-dml")
    assert not before.is_equal
    if "conformer" in file:
        (part,) = before.parts
        assert (part.case.culprit.op_type, part.case.is_fusion) == ("Mul", True)
    out = tmp_path / file
    assert main(["harden", str(models / file), "-o", str(out)]) == 0
    assert sliceport.diff(out, on="onnxruntime-dml").is_equal


ZOO = {"gpt2": {}, "gptneox_dyn": {"x": (1, 16)}, "swin": {}}


@pytest.mark.parametrize("name", some([*ZOO]))
@pytest.mark.usefixtures("directml", "provider_kept")
def test_refused_exports_run(zoo: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / f"{name}.onnx"
    assert main(["harden", str(zoo / f"{name}.onnx"), "-o", str(out)]) == 0
    before = sliceport.diff(zoo / f"{name}.onnx", on="onnxruntime-dml", input_shapes=ZOO[name])
    assert not before.is_equal
    assert name != "gpt2" or {part.case.culprit.op_type for part in before.parts} == {"Reshape"}
    after = sliceport.diff(out, on="onnxruntime-dml", input_shapes=ZOO[name])
    assert after.is_equal
    assert after.outputs[0].relative < 2e-6
    on_cpu = {node.op_type for node in after.places if node.provider != "DmlExecutionProvider"}
    # The nodes of GPT-NeoX that compute with open sizes run on the CPU.
    assert name == "gptneox_dyn" or on_cpu <= {"Gelu"}


class TestCommand:
    def test_command_writes_the_model_and_the_report(self, tmp_path: Path, invoke: Invoke) -> None:
        onnx.save(gated([2, 4], 1), tmp_path / "glu.onnx")
        out = tmp_path / "new" / "right.onnx"
        said = invoke("harden", tmp_path / "glu.onnx", "--target", "onnxruntime-dml", "-o", out)
        assert said.out.splitlines()[0] == f"1 Split 'split': {ONE_PART_GATES_ANOTHER.reason}: now Slice"
        assert said.out.splitlines()[-1] == "1 node with a defect of onnxruntime-dml 1.24.4: 1 rewritten, 0 not fixed"
        assert [path.name for path in out.parent.iterdir()] == ["right.onnx"]

    @pytest.mark.usefixtures("directml", "provider_kept")
    def test_verify_notes_what_differs_before_the_change_only(self, tmp_path: Path, invoke: Invoke) -> None:
        onnx.save(gated([2, 4], 1), tmp_path / "glu.onnx")
        command = ["harden", str(tmp_path / "glu.onnx"), "-o", str(tmp_path / "o.onnx"), "--verify=onnxruntime-dml"]
        command += ["--format", "json"]
        report = json.loads(invoke(*command).out)
        (note,) = report["notes"]
        assert note.startswith("output 'y' differs on onnxruntime-dml before the change only: first at index [0, 0], ")
        assert report["differences"] == []


def test_bounds_of_32_bits_stay_of_one_type() -> None:
    before = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 13]>
        g (float[4, 4] x) => (float[2, 2] y) <int32[2] starts = {0, 1}, int32[2] ends = {4, 3}, int32[2] steps = {2, 1}>
        { y = Slice(x, starts, ends, , steps) }""")
    after, done = hardened(before)
    assert done == [("Slice", ["steps without axes"])]
    same_on_cpu(before, after, data((4, 4)))


def test_slices_behind_a_contested_slice_are_hardened_with_it() -> None:
    """Its sizes are known once it is written in another way."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 11]>
        g (float[d, 6, 5] x) => (float[a, b, c] z)
        <int64[3] s = {2147483647, -100, -5}, int64[3] e = {-6, 0, -5}, int64[3] t = {-2, -2, -1}>
        { v = Slice(x, s, e, , t) l, m, z = Split<axis = 2>(v) }""")
    after, done = hardened(proto)
    assert [replacement for replacement, _ in done] == ["Slice", "Slice"]
    for size in (0, 6):
        same_on_cpu(proto, after, data((size, 6, 5)))


@pytest.mark.parametrize(
    "node", ["y = Slice(x, one, zero)", "y, z = Split(x, parts)", "p, q = Split(x, parts) y = Concat<axis = 0>(p, q)"]
)
def test_empty_part_of_strings_becomes_a_constant(node: str) -> None:
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 13]> g (string[2] x) => (string[n] y)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[2] parts = {{0, 2}}> {{ {node} }}""")
    model, x = from_proto(proto), np.array(["a", "b"], object)
    replacements = [change.replacement for change in harden_for_directml(model).changes]
    assert replacements == ["Slice" if "Concat" in node else "Constant"]  # constants beside Slices are not named
    (before,), (after,) = compute(proto, x=x), compute(ir.serde.serialize_model(model), x=x)
    assert (after.shape, after.tolist()) == (before.shape, before.tolist())
