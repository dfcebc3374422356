"""`--verify`: before and after on the same engine; what differs or could not be compared leaves no file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from amounts import some
from command_line import Invoke
from onnx import TensorProto
from onnx_models import parse, save
from platforms import ended_by
from running import as_array

import sliceport
from onnx_ops import passes
from onnx_ops.engines import ONNXRUNTIME_CPU
from onnx_ops.model import io
from onnx_ops.passes.rewrite import run
from onnx_ops.passes.rewrite.run import Rewriting
from onnx_ops.running.directml_provider import OnnxruntimeDML
from onnx_ops.running.runnable import find_weights, read_complete_model
from onnx_ops.running.verify import verify_rewriting
from onnx_ops.strided_slice_op import embed_function
from sliceport.cli.main import main
from sliceport.device import NodeRun, StoredTensor
from sliceport.engines.engine import Value, WholeModel
from sliceport.engines.failure import Failure
from sliceport.engines.side import Result, Side
from sliceport.errors import UsageError
from sliceport.hardening import Change
from sliceport.sandbox import supervisor
from sliceport.verdict.verification import Verification

MODELS = Path(__file__).parents[3] / "models"
SHAPES = {entry["file"]: entry["input_shapes"] for entry in json.loads((MODELS / "models.json").read_text())}
SHAPES["rule_symbolic.onnx"] = {"x": [2, 5, 8]}


def sliced(start: int = 1, end: int = 5) -> onnx.ModelProto:
    """Parse a model that slices its input, `x` of 8 elements, along axis 0."""
    return parse(f"(float[8] x) => (y) <int64[1] s = {{{start}}}, int64[1] e = {{{end}}}> {{ y = Slice (x, s, e) }}")


def verify(folder: Path, before: onnx.ModelProto, after: onnx.ModelProto, **options: Any) -> Verification:
    paths = [save(model, folder / name) for model, name in ((before, "before.onnx"), (after, "after.onnx"))]
    return verify_rewriting(*paths, **options)


def break_rewriting(monkeypatch: pytest.MonkeyPatch, change: Callable[[ir.Model], object]) -> None:
    """Let a rewriting of any model be a change that no pass of ours makes, and that is reported."""

    def wrong(model: ir.Model, names: Sequence[str] = ()) -> Rewriting:
        change(model)
        return Rewriting(1, 1, {"fold": (Change("y", "Slice", "Slice", ()),)}, {"fold": ()})

    monkeypatch.setattr(passes, "rewrite", wrong)
    monkeypatch.setattr(run, "may_need_rewriting", lambda _: True)


@pytest.fixture
def reported_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a rewriting report a change although it makes none, so that the model is verified."""
    break_rewriting(monkeypatch, lambda _: None)


def shift_start(model: ir.Model) -> None:
    model.graph.initializers["s"].const_value = ir.tensor(np.array([2]), name="s")


class TestCommand:
    def test_a_rewriting_that_changes_values_is_found_and_leaves_no_file(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, invoke: Invoke
    ) -> None:
        break_rewriting(monkeypatch, shift_start)
        path = save(sliced(), tmp_path / "m.onnx")
        invoke("rewrite", path, "-o", tmp_path / "unverified.onnx")
        assert (tmp_path / "unverified.onnx").exists()
        (tmp_path / "unverified.onnx").unlink()
        said = invoke("rewrite", path, "-o", tmp_path / "o.onnx", "--verify", code=1)
        assert (
            said.err
            == f"sliceport: did not write {tmp_path / 'o.onnx'}, because the rewritten model computes something else\n"
        )
        assert "output 'y' differs on onnxruntime's CPU provider without graph optimisation: its shape is" in said.out
        assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]

    def test_an_existing_file_stays_as_it_was(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        break_rewriting(monkeypatch, shift_start)
        path, out = save(sliced(), tmp_path / "m.onnx"), tmp_path / "o.onnx"
        out.write_bytes(b"old")
        assert main(["rewrite", str(path), "-o", str(out), "--verify", "--overwrite"]) == 1
        assert out.read_bytes() == b"old"
        assert len(list(tmp_path.iterdir())) == 2

    def test_json_lists_the_different_outputs(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, invoke: Invoke
    ) -> None:
        path, out = save(sliced(), tmp_path / "m.onnx"), tmp_path / "o.onnx"
        printed = invoke("rewrite", path, "-o", out, "--verify", "--format", "json")
        assert json.loads(printed.out)["different_outputs"] == []
        break_rewriting(monkeypatch, shift_start)
        report = json.loads(
            invoke("rewrite", path, "-o", out, "--verify", "--format", "json", "--overwrite", code=1).out
        )
        assert report["different_outputs"] == ["y"]
        assert len(report["differences"]) == 2

    @pytest.mark.parametrize(
        ("graph", "reason"),
        [
            (
                "(float[2] x) => (y) { y = Neg (x, x) }",
                "onnxruntime-cpu does not run the original model on 1 set of random values for 'x' (",
            ),
            ("(seq(float) x) => (y) <int64 i = {0}> { y = SequenceAt (x, i) }", "input 'x' is not a tensor"),
        ],
        ids=["invalid", "sequence input"],
    )
    @pytest.mark.usefixtures("reported_change")
    def test_what_cannot_be_verified_leaves_no_file(
        self, tmp_path: Path, invoke: Invoke, graph: str, reason: str
    ) -> None:
        path, out = save(parse(graph), tmp_path / "m.onnx"), tmp_path / "o.onnx"
        said = invoke("rewrite", path, "-o", out, "--verify", code=2).err
        assert "the changed model could not be verified, so it is not kept: " in said
        assert reason in said
        assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]

    def test_output_needs_no_folder_that_an_interruption_would_leave(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("onnx_ops.format.TemporaryDirectory", None)
        assert sliceport.rewrite(save(sliced(), tmp_path / "m.onnx"), tmp_path / "o.onnx", verify=True).is_clean

    @pytest.mark.usefixtures("reported_change")
    def test_a_model_that_computes_other_values_each_time_is_refused(
        self, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original, numbers = Side.try_run, iter(range(100))

        def run(side: Side, model: WholeModel, inputs: Mapping[str, Any], places: Any = None) -> Result:
            values = original(side, model, inputs, places)
            assert not isinstance(values, Failure)
            return {name: as_array(value) + np.float32(next(numbers)) for name, value in values.items()}

        monkeypatch.setattr(Side, "try_run", run)
        path = save(sliced(), tmp_path / "m.onnx")
        printed = invoke("rewrite", path, "-o", tmp_path / "o.onnx", "--verify", code=2)
        assert "the original model computes different values in each run for 'y'" in printed.err

    @pytest.mark.usefixtures("reported_change")
    def test_a_model_that_ends_the_engine_is_refused(self, tmp_path: Path, invoke: Invoke) -> None:
        constants = f"<int64[1] low = {{{-(2**63)}}}, int64[1] minus = {{-1}}>"
        model = parse(f"(int64[1] x) => (y) {constants} {{ high = Div (low, minus)  y = Add (x, high) }}")
        path = save(model, tmp_path / "m.onnx")
        printed = invoke("rewrite", path, "-o", tmp_path / "o.onnx", "--verify", code=2)
        assert f"its process {ended_by('SIGFPE')}" in printed.err
        invoke("compare", save(sliced(), tmp_path / "m.onnx"))


def test_a_divisor_gets_values_that_are_not_zero(tmp_path: Path) -> None:
    model = parse("(int64[200] x, int64[200] d) => (y) { y = Div (x, d) }")
    result = verify(tmp_path, model, model)
    assert result.is_equal
    assert result.runs[0].inputs["d"].min() > 0


def cast(to: int) -> onnx.ModelProto:
    return parse(f"(float[3] x) => (y) {{ y = Cast<to = {to}> (x) }}")


def times(zero: str) -> onnx.ModelProto:
    return parse(f"(float[3] x) => (y) <float c = {{{zero}}}> {{ y = Mul (x, c) }}")


def strings(end: int) -> onnx.ModelProto:
    return parse(f"(string[9] x) => (y) <int64[1] s = {{{end - 2}}}, int64[1] e = {{{end}}}> {{ y = Slice (x, s, e) }}")


def sequence(parts: str, count: int) -> onnx.ModelProto:
    return parse(f"(float[6] x) => (y) <int64[{count}] p = {{{parts}}}> {{ y = SplitToSequence (x, p) }}")


class TestDifferences:
    @pytest.mark.parametrize(
        ("before", "after", "message"),
        [
            (sliced(1, 5), sliced(2, 6), "first at index [0],"),
            (sliced(1, 5), sliced(2, 6), "(4 of 4 elements)."),
            (times("0.0"), times("-0.0"), ""),
            (cast(TensorProto.INT32), cast(TensorProto.INT64), "its type is int64, expected int32."),
            (strings(4), strings(9), "first at index [0]"),
            (sequence("2, 4", 2), sequence("4, 2", 2), "in element 0, its shape is [4], expected [2]."),
            (sequence("2, 4", 2), sequence("2, 2, 2", 3), "it has 3 elements, expected 2."),
        ],
        ids=["place", "count", "bits", "type", "strings", "element of sequence", "length of sequence"],
    )
    def test_a_difference_is_described(
        self, tmp_path: Path, before: onnx.ModelProto, after: onnx.ModelProto, message: str
    ) -> None:
        assert verify(tmp_path, before, before).is_equal
        assert message in verify(tmp_path, before, after).differences[0].message

    def test_other_inputs_and_outputs_are_differences(self, tmp_path: Path) -> None:
        other = sliced()
        other.graph.input.add().CopyFrom(parse("(float[1] z) => (z) {}").graph.input[0])
        assert "the rewritten model has inputs" in verify(tmp_path, sliced(), other).differences[0].message
        other = sliced()
        other.graph.output.append(onnx.ValueInfoProto(name="x"))
        assert "the rewritten model has outputs" in verify(tmp_path, sliced(), other).differences[0].message

    def test_a_rounding_difference_by_graph_optimisation_alone_is_a_note(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = Side.try_run

        def run(side: Side, model: WholeModel, inputs: Mapping[str, Any], places: Any = None) -> Result:
            values = original(side, model, inputs, places)
            if side.options["level"] == "all" and onnx.ModelProto.FromString(model.data).graph.name == "after":
                assert not isinstance(values, Failure)
                return {"y": as_array(values["y"]) + np.float32(factor)}
            return values

        monkeypatch.setattr(Side, "try_run", run)
        before, after = (parse("(float[4] x) => (y) { n = Neg (x)  y = Tanh (n) }") for _ in range(2))
        after.graph.name = "after"
        factor = 1e-6
        assert verify(tmp_path, before, after).is_equal
        factor = 1
        assert [d.output for d in verify(tmp_path, before, after).differences] == ["y"]
        moved = sliced()
        moved.graph.name = "after"
        factor = 1e-6
        assert [d.output for d in verify(tmp_path, sliced(), moved).differences] == ["y"]


class TestDefaults:
    """Initializers that are inputs, too, are inputs from IR version 4 on."""

    def model(self, ir_version: int = 8) -> onnx.ModelProto:
        start = "int64[1] s, " if ir_version < 4 else ""
        defaults = "<int64[1] s = {1}, int64[1] e = {5}, float w = {2.0}>"
        nodes = "{ c = Slice (x, s, e)  y = Mul (c, w) }"
        return parse(f"({start}float[8] x, float w, int64[1] e) => (y) {defaults} {nodes}", ir_version=ir_version)

    def constant(self, name: str) -> onnx.ModelProto:
        """Return the model with a default taken for a constant, and the input left unread."""
        model = self.model()
        node = next(node for node in model.graph.node if name in node.input)
        node.input[list(node.input).index(name)] = "fixed"
        default = next(one for one in model.graph.initializer if one.name == name)
        fixed = model.graph.initializer.add()
        fixed.CopyFrom(default)
        fixed.name = "fixed"
        return model

    def test_models_run_with_their_defaults_and_with_other_values(self, tmp_path: Path) -> None:
        result = verify(tmp_path, self.model(), self.model())
        assert result.is_equal
        assert [sorted(run.inputs) for run in result.runs] == [["x"], ["e", "w", "x"], ["x"], ["x"]]
        assert result.runs[1].inputs["w"] != 2
        assert result.runs[1].inputs["e"] != 5
        assert not result.notes

    @pytest.mark.parametrize("name", ["w", "e"])
    def test_a_default_that_was_taken_for_a_constant_is_found(self, tmp_path: Path, name: str) -> None:
        found = verify(tmp_path, self.model(), self.constant(name)).differences
        assert {d.output for d in found} == {"y"}
        assert "with other values than the defaults of 'e', 'w'" in found[0].message

    def test_given_arrays_replace_the_defaults(self, tmp_path: Path) -> None:
        given = {"w": np.array(7, np.float32), "e": np.array([3])}
        result = verify(tmp_path, self.model(), self.model(), inputs=given)
        assert [dict(run.inputs)["w"] for run in result.runs] == [7] * 3
        assert as_array(result.runs[0].outputs["y"]).shape == (2,)

    def test_before_version_4_defaults_are_constants(self, tmp_path: Path) -> None:
        model = self.model(ir_version=3)
        result = verify(tmp_path, model, model)
        assert [sorted(run.inputs) for run in result.runs] == [["x"]] * 3

    def test_a_default_that_takes_no_other_value_is_noted(self, tmp_path: Path) -> None:
        defaults = "<int64[1] sizes = {5}, float[1] b = {1.0}>"
        nodes = "{ r = Reshape (x, sizes)  y = Add (r, b) }"
        model = parse(f"(float[5] x, int64[1] sizes, float[1] b) => (y) {defaults} {nodes}")
        result = verify(tmp_path, model, model)
        assert sorted(result.runs[1].inputs) == ["b", "x"]
        assert result.notes == (
            "'sizes' kept the default: no other value was tried, or none let the model run in time.",
        )

    @pytest.mark.parametrize(
        "default",
        [
            np.array([127, -128, 3], np.int8),
            np.array([2**64 - 1, 0], np.uint64),
            np.array([-(2**63), 2**63 - 1]),
            np.array(-(2**63)),
            np.array(2**64 - 1, np.uint64),
            np.array([True, False]),
            np.array([1.5, -3e38, 0], np.float32),
            np.array([1, 2], ml_dtypes.bfloat16),
            np.array([1, -8, 7], ml_dtypes.int4),
            np.array(["a", "b"], object),
        ],
        ids=lambda array: str(array.dtype),
    )
    def test_every_element_of_another_value_differs(self, default: npt.NDArray[Any]) -> None:
        from onnx_ops.running.defaults import _other_values

        texts = [text.encode() for text in default.tolist()] if default.dtype == object else None
        tensor = ir.tensor(default) if texts is None else ir.StringTensor(texts, shape=ir.Shape(default.shape))
        first = _other_values(tensor)[0]
        assert (first.dtype, first.shape) == (default.dtype, default.shape)
        assert all(a != b for a, b in zip(first.flat, default.flat, strict=True))


def weights_outside(folder: Path, threshold: int = 0) -> Path:
    """Save a model whose tensors, indices included, are in a file beside it."""
    indices = "<int64[1] s = {1}, int64[1] e = {6}, int64[4] i = {7, 5, 3, 1}>"
    nodes = "{ c = Slice (x, s, e)  d = Slice (c, s, e)  g = Gather (w, i)  y = Add (d, g) }"
    model = parse(f"(float[9] x) => (y) {indices} {nodes}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(1, 8193, dtype=np.float32), "w"))
    onnx.save(
        model,
        folder / "m.onnx",
        save_as_external_data=True,
        location="m.bin",
        size_threshold=threshold,
        convert_attribute=True,
    )
    return folder / "m.onnx"


@pytest.mark.parametrize("threshold", [0, 1024])
@pytest.mark.parametrize("place", ["o.onnx", "new/o.onnx"])
def test_a_model_with_external_data_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, threshold: int
) -> None:
    path, out = weights_outside(tmp_path, threshold), tmp_path / place
    assert main(["rewrite", str(path), "-o", str(out), "--verify"]) == 0
    assert verify_rewriting(path, out).is_equal
    break_rewriting(monkeypatch, lambda model: _double(model, "w"))
    assert main(["rewrite", str(path), "-o", str(tmp_path / "wrong/o.onnx"), "--verify"]) == 1
    assert not any((tmp_path / "wrong").iterdir())


def _double(model: ir.Model, name: str) -> None:
    value = model.graph.initializers[name]
    assert value.const_value is not None
    value.const_value = ir.tensor(value.const_value.numpy() * 2, name=name)


EMBEDDED = """(float[4, 6] x) => (y) <int64[2] b = {1, 2}, int64[2] e = {2, 5}> {
    y = ov_ext.StridedSlice <shrink_axis_mask = [1, 0]> (x, b, e)
}"""
BOUNDS = "<int64[1] s = {1}, int64[1] e = {5}>"
UNUSUAL = {
    "unsorted nodes": f"(float[8] x) => (y) {BOUNDS} {{ y = Neg (c)  c = Slice (x, s, e) }}",
    "outputs that are inputs and constants": (
        f"(float[8] x) => (c, float[8] x, int64[1] s) {BOUNDS} {{ c = Slice (x, s, e) }}"
    ),
    "inputs that nothing reads and empty ones": (
        f"(float[0, 8] x, string[2] unread, float[3, 0] z) => (y) {BOUNDS} {{ y = Slice (x, s, e) }}"
    ),
    "parts of a Split that are left out": '(float[9] x) => (y) { a, "", y = Split <num_outputs = 3> (x) }',
    "our operator": EMBEDDED,
}


@pytest.mark.parametrize(
    "name", [*UNUSUAL, "embedded", "rule_subgraphs", "rule_function", "ts_functions_17", "dynamo_while"]
)
def test_unusual_models_are_verified_and_written(tmp_path: Path, name: str) -> None:
    path = MODELS / f"{name}.onnx"
    if name == "embedded":
        model = ir.from_proto(parse(EMBEDDED, ov_ext=1))
        embed_function(model)
        path = save(ir.to_proto(model), tmp_path / "m.onnx")
    elif name in UNUSUAL:
        path = save(parse(UNUSUAL[name], ov_ext=1), tmp_path / "m.onnx")
    assert main(["rewrite", str(path), "-o", str(tmp_path / "o.onnx"), "--verify"]) == 0
    assert (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize("path", some(sorted(MODELS.glob("*.onnx"))), ids=lambda path: path.stem)
def test_every_model_is_equal_to_itself(tmp_path: Path, path: Path) -> None:
    """Compare every output, with graph optimisation and without."""
    result = verify_rewriting(path, path, input_shapes=SHAPES.get(path.name))
    assert result.is_equal
    assert not [note for note in result.notes if "with input_shapes=" not in note]
    assert result.runs[0].outputs


def test_the_written_file_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the file is verified as it was written, and not the model in memory."""
    original = supervisor.call
    sent = []

    def call(*args: Any, **options: Any) -> Any:
        sent.append(args)
        return original(*args, **options)

    monkeypatch.setattr(supervisor, "call", call)
    break_rewriting(monkeypatch, lambda _: None)
    path = save(sliced(), tmp_path / "m.onnx")
    monkeypatch.setattr(io, "serialize", lambda *_: sliced(2, 6))
    assert main(["rewrite", str(path), "-o", str(tmp_path / "o.onnx"), "--verify"]) == 1
    assert sent
    assert passes.BY_DEFAULT


def test_large_weights_stay_in_their_file(tmp_path: Path) -> None:
    """Onnxruntime reads them from there; 4 GiB would fit into no serialised model."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**30], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", "64"), ("length", str(2**32))):
        weights.external_data.add(key=key, value=value)
    model = sliced()
    model.graph.initializer.append(weights)
    complete = read_complete_model(save(model, tmp_path / "m.onnx"))
    assert complete.proto.ByteSize() < 1024
    assert find_weights(complete.whole()) == {"w": StoredTensor(str(tmp_path / "w.bin"), 64, 2**32, 1, (2**30,))}


GATED = parse("(float[2,4] x) => (y) { a, b = Split<axis = 1, num_outputs = 2> (x)  s = Sigmoid (b)  y = Mul (a, s) }")
OPEN = "(float[n,3] x) => (y) { y = Identity (x) }"


def test_repeats_have_other_seeds_and_sizes(tmp_path: Path) -> None:
    before = save(OPEN, tmp_path / "before.onnx")
    verification = verify_rewriting(before, before)
    arrays = [run.inputs["x"] for run in verification.runs]
    assert [array.shape for array in arrays] == [(2, 3), (2, 3), (2, 3), (3, 3), (1, 3), (0, 3)]
    assert len({array.tobytes() for array in arrays[:3]}) == 3
    assert verification.is_equal


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("{ y = Identity (x) }", "{ y = Slice (x, first, two) }", "(3, 3)}: its shape is [2, 3], expected [3, 3]"),
        (
            "{ y = Shape (x) }",
            "{ sizes = Shape (x)  y = Max (sizes, ones) }",
            "(0, 3)}: first at index [0], computed 1, expected 0",
        ),
        # The model after is blamed, although some kernels leave such floats unwritten, for the model before is steady.
        (
            "{ y = ReduceSum (x, first) }",
            """{ n = Shape <start = 0, end = 1> (x)  empty = Equal (n, first)  sum = ReduceSum (x, first)
                y = Where (empty, one, sum) }""",
            "(0, 3)}: first at index [0, 0], computed 1.0, expected 0.0",
        ),
    ],
    ids=["another size", "no elements", "a float of no elements"],
)
def test_difference_at_some_sizes_is_found(tmp_path: Path, before: str, after: str, message: str) -> None:
    constants = "<int64[1] first = {0}, int64[1] two = {2}, int64[2] ones = {1, 1}, float one = {1}>"
    models = (parse(f"(float[n,3] x) => (y) {constants} {nodes}") for nodes in (before, after))
    (difference, _) = verify(tmp_path, *models).differences
    assert f"with input_shapes={{'x': {message}" in difference.message


@pytest.mark.skipif(sys.platform != "linux", reason="fills memory by mallopt of glibc")
def test_values_that_a_kernel_never_writes_are_named() -> None:
    """Note that onnxruntime leaves a part of a Concat unwritten if an input is empty, and blame no model for it."""
    path = MODELS / "ts_temporal_shift_dyn_11.onnx"
    verification = verify_rewriting(path, path)
    assert verification.is_equal
    assert len([note for note in verification.notes if "computes different values in each run" in note]) == 2


def test_sizes_that_do_not_run_are_left_out(tmp_path: Path) -> None:
    text = "(float[n,3] x, float[4,3] z) => (y) { y = Add (x, z) }"
    before = save(text, tmp_path / "before.onnx")
    verification = verify_rewriting(before, before)
    assert {run.inputs["x"].shape for run in verification.runs} == {(1, 3)}
    verification = verify_rewriting(before, before, input_shapes={"x": (4, 3)})
    assert {run.inputs["x"].shape for run in verification.runs} == {(4, 3)}


def test_verifier_that_is_not_known_is_named(tmp_path: Path) -> None:
    before = save(OPEN, tmp_path / "before.onnx")
    with pytest.raises(UsageError, match="verify 'onnxruntime' is not known, did you mean 'onnxruntime-"):
        sliceport.harden(before, tmp_path / "o.onnx", verify="onnxruntime")


@pytest.mark.parametrize("words", [["--verify"], ["--verify=onnxruntime-cpu"], ["--verify", "onnxruntime-cpu"]])
def test_hardening_is_verified_without_directml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, words: list[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    before = save(GATED, tmp_path / "before.onnx")
    assert "all outputs are bit-equal" in invoke("harden", "-o", tmp_path / "o.onnx", *words, before).out


def test_model_in_memory_is_verified_on_directml(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[bytes] = []

    def run(
        _: object, model: WholeModel, inputs: Mapping[str, Any], options: object
    ) -> tuple[dict[str, Value], list[NodeRun]]:
        runs.append(model.data)
        return ONNXRUNTIME_CPU.run_model(model, inputs, {"level": "none"}), []

    monkeypatch.setattr(OnnxruntimeDML, "run_and_place", run)
    monkeypatch.setattr(OnnxruntimeDML, "version", lambda _: "1.0")
    result = sliceport.harden(GATED, verify="onnxruntime-dml")
    assert result.is_written
    assert len(set(runs)) == 2
    assert "the original model is right on these inputs, too" in result.text()


def test_unchanged_model_is_written_and_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.setattr(Side, "try_run", lambda *_: pytest.fail("a run"))
    path = save("(float[4] x) => (y) { n = RandomUniformLike (x)  y = Add (x, n) }", tmp_path / "m.onnx")
    for words in (["rewrite"], ["harden"], ["harden", "--target", "portable"]):
        printed = invoke(*words, path, "-o", tmp_path / f"{words[-1]}.onnx", "--verify")
        assert "nothing to change, and nothing to compare" in printed.out
        assert (tmp_path / f"{words[-1]}.onnx").exists()


@pytest.mark.parametrize("words", [["rewrite", "-o", "n.onnx"], ["harden", "-o", "n.onnx"], ["harden", "-o", "n.xml"]])
def test_shapes_must_fit_where_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save("(float[n] x) => (y) { y = Relu (x) }", Path("m.onnx"))
    printed = invoke(*words, "m.onnx", "--verify", "--input-shapes", "q:4", code=2)
    assert "the model has no input 'q' to give a shape to; its inputs are 'x'" in printed.err
    assert list(Path().iterdir()) == [Path("m.onnx")]


def test_deciding_node_of_a_wrong_change_is_named(tmp_path: Path) -> None:
    nodes = "[one] a = Slice (x, s, e)  [two] b = Slice (x, t, e)  y = Add (a, b)"
    constants = "int64[1] s = {{1}}, int64[1] t = {{{}}}, int64[1] e = {{5}}"
    before, after = (parse(f"(float[8] x) => (y) <{constants.format(t)}> {{ {nodes} }}") for t in (1, 1))
    after.graph.node[1].input[2] = "f"
    after.graph.initializer.append(onnx.numpy_helper.from_array(np.array([5]), "f"))
    assert verify(tmp_path, before, after).is_equal
    after.graph.initializer[-1].CopyFrom(onnx.numpy_helper.from_array(np.array([-3]), "f"))
    assert verify(tmp_path, before, after).is_equal
    after.graph.node[1].input[1] = "u"
    after.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "u"))
    after.graph.initializer[-2].CopyFrom(onnx.numpy_helper.from_array(np.array([4]), "f"))
    result = verify(tmp_path, before, after)
    assert "(4 of 4 elements)" in result.differences[0].message
    assert result.notes[-1] == "the first node that decides: Slice 'two' of the changed model"


@pytest.mark.parametrize(
    ("graph", "is_untested"),
    [
        ("(float16[2000,4] x) => (y) <{}> { y = Slice (x, s, e) }", None),
        (
            """(float[2000,4] x) => (y) <{}, float16[4] w = {1, 2, 3, 4}, float o = {50}> {
            c = Slice (x, s, e)  f = Cast <to = 1> (w)  m = MatMul (c, f)  y = Add (m, o) }""",
            None,
        ),
        (
            """(float16[2000,4] x) => (y) <{}, float k32 = {0.05}, float o32 = {50}> {
            k = Cast <to = 10> (k32)  o = Cast <to = 10> (o32)
            c = Slice (x, s, e)  m = Mul (c, k)  y = Add (m, o) }""",
            True,
        ),
    ],
    ids=["moved", "a weight of 16 bits", "beside a large offset"],
)
def test_wrong_slice_of_16_bit_floats_is_no_rounding(tmp_path: Path, graph: str, is_untested: bool | None) -> None:
    before, after = (
        parse(graph.replace("{}", f"int64[1] s = {{{start}}}, int64[1] e = {{{start + 1800}}}", 1)) for start in (3, 4)
    )
    ramp = np.repeat(np.linspace(0, 1, 2000).astype(np.float16)[:, None], 4, 1)
    inputs = None if is_untested or before.graph.input[0].type.tensor_type.elem_type == 1 else {"x": ramp}
    result = verify(tmp_path, before, after, inputs=inputs)
    assert (result.is_equal, bool(result.untested)) == (bool(is_untested), bool(is_untested))


def test_other_rounding_of_16_bit_floats_is_a_note(tmp_path: Path) -> None:
    """The Casts that onnxruntime inserts depend on the other readers of a value, such as a Shape that a pass folds."""
    constants = "int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}"
    graph = f"""(float[1,3,18,18] x) => (y, z) <{constants}> {{
        h = Cast<to = 10> (x)  c = Conv (h, w)  v = Relu (c)  y = Cast<to = 1> (v)
        s = Shape (v)  sizes = Slice (s, two, four)  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]> (v)
        ps = Shape (p)  first = Slice (ps, zero, two)  all = Concat<axis = 0> (first, sizes)
        r = Resize<mode = "nearest"> (p, "", "", all)  z = Cast<to = 1> (r)
    }}"""
    model = parse(graph, 15, 8)
    weights = (np.random.default_rng(0).standard_normal((4, 3, 3, 3)) * 0.2).astype(np.float16)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    result = sliceport.rewrite(save(model, tmp_path / "m.onnx"), tmp_path / "o.onnx", verify=True)
    assert result.is_written
    assert result.summary.endswith("floats up to rounding")
    assert "by rounding" in result.text()
    wrong = onnx.load(tmp_path / "o.onnx")
    next(node for node in wrong.graph.node if node.op_type == "Relu").op_type = "Neg"
    assert not verify(tmp_path, model, wrong).is_equal
