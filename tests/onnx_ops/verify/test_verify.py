"""`--verify`: before and after on the same engine; what differs or could not be compared leaves no file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from platforms import ended_by

from onnx_ops import passes
from onnx_ops.passes.rewrite import Rewriting
from onnx_ops.runtime import onnxruntime_cpu
from onnx_ops.runtime.session import Captured, Value
from onnx_ops.strided_slice_op import embed_function
from onnx_ops.verify.run_model import read_complete_model
from onnx_ops.verify.verify import Verification, verify_rewriting
from sliceport.cli.main import main
from sliceport.errors import ModelError
from sliceport.sandbox import supervisor

MODELS = Path(__file__).parents[3] / "models"
SHAPES = {entry["file"]: entry["input_shapes"] for entry in json.loads((MODELS / "models.json").read_text())}
SHAPES["rule_symbolic.onnx"] = {"x": [2, 5, 8]}


def info(name: str, element: int = TensorProto.FLOAT, shape: Sequence[int | str] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def proto(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    *,
    ir_version: int = 8,
    opset: int = 18,
    functions: Sequence[onnx.FunctionProto] = (),
    **constants: npt.ArrayLike,
) -> onnx.ModelProto:
    """A model; `outputs` are names, `constants` initializers."""
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ov_ext", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, functions=functions)


def sliced(start: int = 1, end: int = 5, **changes: Any) -> onnx.ModelProto:
    """A model that slices its input, `x` of 8 elements, along axis 0."""
    nodes = [helper.make_node("Slice", ["x", "s", "e"], ["y"], "cut")]
    return proto(nodes, [info("x", shape=[8])], ["y"], s=[start], e=[end], **changes)


def array_of(value: Value) -> npt.NDArray[Any]:
    assert isinstance(value, Captured)
    return value.array()


def saved(folder: Path, model: onnx.ModelProto, name: str = "m.onnx") -> Path:
    onnx.save(model, folder / name)
    return folder / name


def verify(folder: Path, before: onnx.ModelProto, after: onnx.ModelProto, **options: Any) -> Verification:
    paths = [saved(folder, model, name) for model, name in ((before, "before.onnx"), (after, "after.onnx"))]
    return verify_rewriting(*paths, **options)


def break_rewriting(monkeypatch: pytest.MonkeyPatch, change: Callable[[ir.Model], object]) -> None:
    """Let a rewriting be a change of the model that no pass of ours makes."""

    def wrong(model: ir.Model, names: Sequence[str] = ()) -> Rewriting:
        change(model)
        return Rewriting(1, 1, {}, {})

    monkeypatch.setattr(passes, "rewrite", wrong)


def shift_start(model: ir.Model) -> None:
    model.graph.initializers["s"].const_value = ir.tensor(np.array([2]), name="s")


class TestCommand:
    def test_a_rewriting_that_changes_values_is_found_and_leaves_no_file(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        break_rewriting(monkeypatch, shift_start)
        path = saved(tmp_path, sliced())
        assert main(["rewrite", str(path), "-o", str(tmp_path / "o.onnx"), "--verify"]) == 1
        said = capsys.readouterr()
        assert (
            said.err
            == f"sliceport: did not write {tmp_path / 'o.onnx'}, because the rewritten model computes something else\n"
        )
        assert "output 'y' differs on onnxruntime's CPU provider without graph optimisation: its shape is" in said.out
        assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]

    def test_without_verification_it_would_have_been_written(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        break_rewriting(monkeypatch, shift_start)
        path = saved(tmp_path, sliced())
        assert main(["rewrite", str(path), "-o", str(tmp_path / "o.onnx")]) == 0
        assert (tmp_path / "o.onnx").exists()

    def test_a_file_that_is_there_stays_as_it_was(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        break_rewriting(monkeypatch, shift_start)
        path, out = saved(tmp_path, sliced()), tmp_path / "o.onnx"
        out.write_bytes(b"old")
        assert main(["rewrite", str(path), "-o", str(out), "--verify", "--overwrite"]) == 1
        assert out.read_bytes() == b"old"
        assert len(list(tmp_path.iterdir())) == 2

    def test_json(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, out = saved(tmp_path, sliced()), tmp_path / "o.onnx"
        assert main(["rewrite", str(path), "-o", str(out), "--verify", "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["different_outputs"] == []
        break_rewriting(monkeypatch, shift_start)
        assert main(["rewrite", str(path), "-o", str(out), "--verify", "--format", "json", "--overwrite"]) == 1
        report = json.loads(capsys.readouterr().out)
        assert report["different_outputs"] == ["y"]
        assert len(report["differences"]) == 2

    @pytest.mark.parametrize(
        ("model", "reason"),
        [
            (proto([helper.make_node("Neg", ["x"], ["y"])], [info("x", shape=["n"])], ["y"]), "the shape of input 'x'"),
            (
                proto([helper.make_node("Neg", ["x", "x"], ["y"])], [info("x", shape=[2])], ["y"]),
                "cannot run the model",
            ),
            (
                proto(
                    [helper.make_node("SequenceAt", ["x", "i"], ["y"])],
                    [helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)],
                    ["y"],
                    i=np.array(0),
                ),
                "input 'x' is not a tensor",
            ),
        ],
        ids=["open shape", "invalid", "sequence input"],
    )
    def test_what_cannot_be_verified_leaves_no_file(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: onnx.ModelProto, reason: str
    ) -> None:
        path, out = saved(tmp_path, model), tmp_path / "o.onnx"
        assert main(["rewrite", str(path), "-o", str(out), "--verify"]) == 2
        said = capsys.readouterr().err
        assert f"'{out}' could not be verified, so it is not written: " in said
        assert reason in said
        assert [file.name for file in tmp_path.iterdir()] == ["m.onnx"]

    def test_without_onnxruntime(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
        path, out = saved(tmp_path, sliced()), tmp_path / "o.onnx"
        assert main(["rewrite", str(path), "-o", str(out), "--verify"]) == 2
        assert "could not be verified, so it is not written: onnxruntime is needed" in capsys.readouterr().err
        assert not out.exists()

    def test_a_model_that_is_not_the_same_twice(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original, numbers = onnxruntime_cpu.run, iter(range(100))

        def run(*args: Any, **options: Any) -> dict[str, Value]:
            values = original(*args, **options)
            return {name: Captured.of(array_of(value) + np.float32(next(numbers))) for name, value in values.items()}

        monkeypatch.setattr(onnxruntime_cpu, "run", run)
        path = saved(tmp_path, sliced())
        assert main(["rewrite", str(path), "-o", str(tmp_path / "o.onnx"), "--verify"]) == 2
        assert "the model before computes other values each time for 'y'" in capsys.readouterr().err

    def test_a_model_that_ends_the_engine(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        nodes = [helper.make_node("Div", ["low", "minus"], ["high"]), helper.make_node("Add", ["x", "high"], ["y"])]
        model = proto(nodes, [info("x", TensorProto.INT64, [1])], ["y"], low=[-(2**63)], minus=[-1])
        path = saved(tmp_path, model)
        assert main(["rewrite", str(path), "-o", str(tmp_path / "o.onnx"), "--verify"]) == 2
        assert f"its process {ended_by('SIGFPE')}" in capsys.readouterr().err
        assert main(["compare", str(saved(tmp_path, sliced()))]) == 0


def test_a_divisor_gets_values_that_are_not_zero(tmp_path: Path) -> None:
    inputs = [info("x", TensorProto.INT64, [200]), info("d", TensorProto.INT64, [200])]
    model = proto([helper.make_node("Div", ["x", "d"], ["y"])], inputs, ["y"])
    result = verify(tmp_path, model, model)
    assert result.is_equal
    assert result.runs[0].inputs["d"].min() > 0


class TestDifferences:
    def test_values(self, tmp_path: Path) -> None:
        result = verify(tmp_path, sliced(1, 5), sliced(2, 6))
        assert not result.is_equal
        assert "first at index [0]," in result.differences[0].message
        assert "(4 of 4 elements differ)." in result.differences[0].message

    def test_bits_that_are_equal_as_numbers(self, tmp_path: Path) -> None:
        models = [proto([helper.make_node("Mul", ["x", "c"], ["y"])], [info("x", shape=[3])], ["y"], c=c) for c in Z]
        assert not verify(tmp_path, *models).is_equal

    def test_types(self, tmp_path: Path) -> None:
        casts = [
            proto([helper.make_node("Cast", ["x"], ["y"], to=to)], [info("x", shape=[3])], ["y"])
            for to in (TensorProto.INT32, TensorProto.INT64)
        ]
        assert "its type is INT64 for INT32." in verify(tmp_path, *casts).differences[0].message

    def test_strings(self, tmp_path: Path) -> None:
        def model(end: int) -> onnx.ModelProto:
            nodes = [helper.make_node("Slice", ["x", "s", "e"], ["y"])]
            return proto(nodes, [info("x", TensorProto.STRING, [9])], ["y"], s=[end - 2], e=[end])

        assert verify(tmp_path, model(4), model(4)).is_equal
        assert "first at index [0]" in verify(tmp_path, model(4), model(9)).differences[0].message

    def test_sequences(self, tmp_path: Path) -> None:
        def model(parts: list[int]) -> onnx.ModelProto:
            nodes = [helper.make_node("SplitToSequence", ["x", "parts"], ["y"])]
            return proto(nodes, [info("x", shape=[6])], ["y"], parts=parts)

        assert verify(tmp_path, model([2, 4]), model([2, 4])).is_equal
        found = verify(tmp_path, model([2, 4]), model([4, 2])).differences[0].message
        assert "in element 0 its shape is [4] for [2]." in found
        assert "it has 3 elements for 2." in verify(tmp_path, model([2, 4]), model([2, 2, 2])).differences[0].message

    def test_a_model_after_that_does_not_run(self, tmp_path: Path) -> None:
        wrong = proto([helper.make_node("Reshape", ["x", "s"], ["y"])], [info("x", shape=[8])], ["y"], s=[7])
        result = verify(tmp_path, sliced(), wrong)
        assert "the model runs before, and not after: onnxruntime cannot run the model" in result.differences[0].message

    def test_inputs_and_outputs_that_are_others(self, tmp_path: Path) -> None:
        other = sliced()
        other.graph.input.append(info("z", shape=[1]))
        assert "the rewritten model has inputs" in verify(tmp_path, sliced(), other).differences[0].message
        other = sliced()
        other.graph.output.append(onnx.ValueInfoProto(name="x"))
        assert "the rewritten model has outputs" in verify(tmp_path, sliced(), other).differences[0].message

    def test_a_difference_by_graph_optimisation_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        original = onnxruntime_cpu.run

        def run(
            model: onnx.ModelProto,
            inputs: Mapping[str, npt.NDArray[Any]],
            names: Sequence[str],
            folder: str = "",
            *,
            is_optimized: bool = False,
        ) -> dict[str, Value]:
            values = original(model, inputs, names, folder, is_optimized=is_optimized)
            if is_optimized and model.graph.name == "after":
                values["y"] = onnxruntime_cpu.Captured.of(array_of(values["y"]) + np.float32(factor))
            return values

        monkeypatch.setattr(onnxruntime_cpu, "run", run)
        after = sliced()
        after.graph.name = "after"
        factor = 1e-6
        rounded = verify(tmp_path, sliced(), after)
        assert rounded.is_equal
        assert "output 'y' differs on onnxruntime's CPU provider with graph optimisation by" in rounded.notes[0]
        factor = 1
        assert [d.output for d in verify(tmp_path, sliced(), after).differences] == ["y"]


Z = (np.float32(0), np.float32(-0.0))


class TestDefaults:
    """Initializers that are inputs, too, are inputs from IR version 4 on."""

    def model(self, ir_version: int = 8, **constants: npt.ArrayLike) -> onnx.ModelProto:
        nodes = [
            helper.make_node("Slice", ["x", "s", "e"], ["c"]),
            helper.make_node("Mul", ["c", "w"], ["y"]),
        ]
        inputs = [info("x", shape=[8]), info("w", shape=[]), info("e", TensorProto.INT64, [1])]
        inputs += [info("s", TensorProto.INT64, [1])] if ir_version < 4 else []
        given: dict[str, Any] = {"s": [1], "e": [5], "w": np.float32(2)} | constants
        return proto(nodes, inputs, ["y"], ir_version=ir_version, **given)

    def constant(self, name: str) -> onnx.ModelProto:
        """The same with a default taken for a constant, and the input left unread."""
        model = self.model()
        node = next(node for node in model.graph.node if name in node.input)
        node.input[list(node.input).index(name)] = "fixed"
        default = next(one for one in model.graph.initializer if one.name == name)
        fixed = model.graph.initializer.add()
        fixed.CopyFrom(default)
        fixed.name = "fixed"
        return model

    def test_they_run_with_their_defaults_and_with_other_values(self, tmp_path: Path) -> None:
        result = verify(tmp_path, self.model(), self.model())
        assert result.is_equal
        assert [sorted(run.inputs) for run in result.runs] == [["x"], ["e", "w", "x"]]
        assert result.runs[1].inputs["w"] != 2
        assert result.runs[1].inputs["e"] != 5
        assert not result.notes

    @pytest.mark.parametrize("name", ["w", "e"])
    def test_one_that_was_taken_for_a_constant_is_found(self, tmp_path: Path, name: str) -> None:
        found = verify(tmp_path, self.model(), self.constant(name)).differences
        assert {d.output for d in found} == {"y"}
        assert "with other values than the defaults of 'e', 'w'" in found[0].message

    def test_given_arrays_stand(self, tmp_path: Path) -> None:
        given = {"w": np.array(7, np.float32), "e": np.array([3])}
        result = verify(tmp_path, self.model(), self.model(), inputs=given)
        assert [dict(run.inputs)["w"] for run in result.runs] == [7]
        assert array_of(result.runs[0].outputs["y"]).shape == (2,)

    def test_before_version_4_they_are_constants(self, tmp_path: Path) -> None:
        model = self.model(ir_version=3)
        result = verify(tmp_path, model, model)
        assert [sorted(run.inputs) for run in result.runs] == [["x"]]

    def test_one_that_takes_no_other_value_is_said(self, tmp_path: Path) -> None:
        nodes = [helper.make_node("Reshape", ["x", "sizes"], ["r"]), helper.make_node("Add", ["r", "b"], ["y"])]
        inputs = [info("x", shape=[5]), info("sizes", TensorProto.INT64, [1]), info("b", shape=[1])]
        model = proto(nodes, inputs, ["y"], sizes=[5], b=[np.float32(1)])
        result = verify(tmp_path, model, model)
        assert sorted(result.runs[1].inputs) == ["b", "x"]
        assert result.notes == (
            "'sizes' had no other value than the default: the model runs with none that was tried.",
        )

    @pytest.mark.parametrize(
        "default",
        [
            np.array([127, -128, 3], np.int8),
            np.array([2**64 - 1, 0], np.uint64),
            np.array([-(2**63), 2**63 - 1]),
            np.array([True, False]),
            np.array([1.5, -3e38, 0], np.float32),
            np.array([1, 2], ml_dtypes.bfloat16),
            np.array([1, -8, 7], ml_dtypes.int4),
            np.array(["a", "b"], object),
        ],
        ids=lambda array: str(array.dtype),
    )
    def test_every_element_is_another_one(self, default: npt.NDArray[Any]) -> None:
        from onnx_ops.verify.defaults import _other_values

        texts = [text.encode() for text in default.tolist()] if default.dtype == object else None
        tensor = ir.tensor(default) if texts is None else ir.StringTensor(texts, shape=ir.Shape(default.shape))
        value = ir.Value(name="v", const_value=tensor)
        first = _other_values(value)[0]
        assert (first.dtype, first.shape) == (default.dtype, default.shape)
        assert all(a != b for a, b in zip(first.tolist(), default.tolist(), strict=True))


def weights_outside(folder: Path, threshold: int = 0) -> Path:
    """A model whose tensors, indices included, lie in a file beside it."""
    nodes = [
        helper.make_node("Slice", ["x", "s", "e"], ["c"], "cut"),
        helper.make_node("Slice", ["c", "s", "e"], ["d"], "again"),
        helper.make_node("Gather", ["w", "i"], ["g"]),
        helper.make_node("Add", ["d", "g"], ["y"]),
    ]
    weights = np.arange(1, 8193, dtype=np.float32)
    model = proto(nodes, [info("x", shape=[9])], ["y"], s=[1], e=[6], w=weights, i=[7, 5, 3, 1])
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
def test_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, threshold: int) -> None:
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


def test_external_data_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = weights_outside(tmp_path, 1024)
    (tmp_path / "m.bin").unlink()
    assert main(["rewrite", str(path), "-o", str(tmp_path / "o.onnx"), "--verify"]) == 2
    assert "o.onnx' could not be verified, so it is not written" in capsys.readouterr().err
    assert not (tmp_path / "o.onnx").exists()


class TestUnusualModels:
    def check(self, tmp_path: Path, model: onnx.ModelProto) -> None:
        path, out = saved(tmp_path, model), tmp_path / "o.onnx"
        assert main(["rewrite", str(path), "-o", str(out), "--verify"]) == 0
        assert out.exists()

    def test_unsorted_nodes(self, tmp_path: Path) -> None:
        nodes = [helper.make_node("Neg", ["c"], ["y"]), helper.make_node("Slice", ["x", "s", "e"], ["c"])]
        self.check(tmp_path, proto(nodes, [info("x", shape=[8])], ["y"], s=[1], e=[5]))

    def test_outputs_that_are_inputs_and_constants(self, tmp_path: Path) -> None:
        nodes = [helper.make_node("Slice", ["x", "s", "e"], ["c"])]
        model = proto(nodes, [info("x", shape=[8])], ["c"], s=[1], e=[5])
        model.graph.output.extend([info("x", shape=[8]), info("s", TensorProto.INT64, [1])])
        self.check(tmp_path, model)

    def test_inputs_that_nothing_reads_and_empty_ones(self, tmp_path: Path) -> None:
        nodes = [helper.make_node("Slice", ["x", "s", "e"], ["y"])]
        inputs = [info("x", shape=[0, 8]), info("unread", TensorProto.STRING, [2]), info("z", shape=[3, 0])]
        self.check(tmp_path, proto(nodes, inputs, ["y"], s=[0], e=[5]))

    def test_parts_of_a_split_that_are_left_out(self, tmp_path: Path) -> None:
        nodes = [helper.make_node("Split", ["x"], ["a", "", "y"], num_outputs=3)]
        self.check(tmp_path, proto(nodes, [info("x", shape=[9])], ["y"]))

    @pytest.mark.parametrize("embedded", [False, True])
    def test_our_operator(self, tmp_path: Path, embedded: bool) -> None:
        nodes = [helper.make_node("StridedSlice", ["x", "b", "e"], ["y"], domain="ov_ext", shrink_axis_mask=[1, 0])]
        model = ir.from_proto(proto(nodes, [info("x", shape=[4, 6])], ["y"], b=[1, 2], e=[2, 5]))
        if embedded:
            embed_function(model)
        self.check(tmp_path, ir.to_proto(model))

    def test_subgraphs_and_functions(self, tmp_path: Path) -> None:
        for name in ("rule_subgraphs", "rule_function", "ts_functions_17", "dynamo_while"):
            self.check(tmp_path, onnx.load(MODELS / f"{name}.onnx"))
            (tmp_path / "o.onnx").unlink()


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_exports_that_are_read_and_written(tmp_path: Path, path: Path) -> None:
    """Every model of the project is equal to itself in every output, by graph optimisation or without."""
    result = verify_rewriting(path, path, input_shapes=SHAPES.get(path.name))
    assert result.is_equal
    assert not result.notes
    assert result.runs[0].outputs


def test_every_pass_of_the_command_line_is_called_before_the_file_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is verified is the file, as it was written, and not the model in memory."""
    original = supervisor.call
    sent = []

    def call(*args: Any, **options: Any) -> Any:
        sent.append(args)
        return original(*args, **options)

    monkeypatch.setattr(supervisor, "call", call)
    path = saved(tmp_path, sliced())
    monkeypatch.setattr(ir, "save", lambda _model, file, **_: onnx.save(sliced(2, 6), file))
    assert main(["rewrite", str(path), "-o", str(tmp_path / "o.onnx"), "--verify"]) == 1
    assert sent
    assert passes.BY_DEFAULT


def test_models_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("no model")
    with pytest.raises(ModelError, match=r"m.onnx': it is not an ONNX model"):
        verify_rewriting(tmp_path / "m.onnx", tmp_path / "m.onnx")


def test_weights_of_more_than_2_gib_are_too_large_for_directml(tmp_path: Path) -> None:
    """Said before anything is read; the CPU provider reads them from their file."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**29], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="w.bin")
    model = sliced()
    model.graph.initializer.append(weights)
    path = saved(tmp_path, model)
    with pytest.raises(ModelError, match="with its weights it is larger than 2 GiB"):
        read_complete_model(path)
