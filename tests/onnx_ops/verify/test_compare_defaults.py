"""`compare` on models whose inputs have defaults, and on models that end, block or exhaust the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from platforms import ended_by

from onnx_ops.lowering import lower
from onnx_ops.model.io import from_proto
from onnx_ops.runtime import onnxruntime_cpu
from onnx_ops.runtime.session import Captured
from onnx_ops.verify import compare
from onnx_ops.verify import run as run_module
from onnx_ops.verify.defaults import run_with_other_values
from sliceport.cli.main import main
from sliceport.directml.program import LoweredNode
from sliceport.engines.comparison import Comparison, compare_node
from sliceport.engines.engine import Engine


def info(name: str, element: int = TensorProto.FLOAT, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def saved(folder: Path, *, ir_version: int = 8) -> Path:
    """`x` and `w`, which has a default, each cut."""
    nodes = [
        helper.make_node("Slice", ["x", "s", "e"], ["y"], "first"),
        helper.make_node("Slice", ["w", "s", "e"], ["z"], "second"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", shape=[8]), info("w", shape=[8])],
        [info("y"), info("z")],
        [
            numpy_helper.from_array(np.array([1]), "s"),
            numpy_helper.from_array(np.array([5]), "e"),
            numpy_helper.from_array(np.arange(1, 9, dtype=np.float32), "w"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=ir_version)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def test_it_runs_with_the_default_and_with_another_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(lowered: LoweredNode, engine: Engine, known: dict[str, Captured], *args: Any, **options: Any) -> Comparison:
        seen.append((lowered.node.name, known[lowered.node.input].array().tolist()))
        return compare_node(lowered, engine, known, *args, **options)

    monkeypatch.setattr(run_module, "compare_node", spy)
    report = compare(saved(tmp_path))
    assert report.is_clean
    assert [c.bytes_compared for c in report.comparisons] == [16, 16]
    first, other = (values for name, values in seen if name == "second")
    assert first == [1, 2, 3, 4, 5, 6, 7, 8]
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_a_mismatch_with_the_other_value_alone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that took the default for a constant."""

    def constant(
        lowered: LoweredNode, engine: Engine, known: dict[str, Captured], *args: Any, **options: Any
    ) -> Comparison:
        if lowered.node.input == "w":
            default = Captured.of(np.arange(1, 9, dtype=np.float32))
            known = known | {"w": default}
        return compare_node(lowered, engine, known, {}, **options)

    monkeypatch.setattr(run_module, "compare_node", constant)
    path = saved(tmp_path)
    report = compare(path)
    assert [c.status for c in report.comparisons] == ["equal", "mismatch"]
    assert report.comparisons[1].detail.endswith(" This is with other values than the defaults of 'w'.")
    assert main(["compare", str(path)]) == 1
    assert "This is with other values" in capsys.readouterr().out


def test_before_version_4_an_initializer_is_a_constant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = onnx.load(saved(tmp_path)).graph
    for tensor in graph.initializer:
        if tensor.name != "w":
            graph.input.append(info(tensor.name, tensor.data_type, tensor.dims))
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=3), tmp_path / "old.onnx"
    )
    assert compare(tmp_path / "old.onnx").is_clean
    np.save(tmp_path / "w.npy", np.ones(8, np.float32))
    assert main(["compare", str(tmp_path / "old.onnx"), "--input", f"w={tmp_path / 'w.npy'}"]) == 2
    assert "input 'w' is a constant of the model before IR version 4" in capsys.readouterr().err


def test_an_array_may_be_given_for_it(tmp_path: Path) -> None:
    report = compare(saved(tmp_path), inputs={"w": np.arange(8, 16, dtype=np.float32)})
    assert report.is_clean


def test_a_model_that_ends_the_engine_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        helper.make_node("Div", ["x", "minus"], ["q"]),
        helper.make_node("Slice", ["q", "s", "e"], ["y"]),
    ]
    constants = {"minus": np.array([-1, -1]), "s": np.array([0]), "e": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.INT64, [2])],
        [info("y", TensorProto.INT64)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    assert lower(tmp_path / "m.onnx").summary["lowered"] == 1
    np.save(tmp_path / "x.npy", np.array([-(2**63), 3]))
    assert main(["compare", str(tmp_path / "m.onnx"), "--input", f"x={tmp_path / 'x.npy'}"]) == 2
    assert f"its process {ended_by('SIGFPE')}" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "m.onnx")]) == 0


def test_inputs_that_would_fill_the_memory_are_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "s", "e"], ["y"])],
        "g",
        [info("x", shape=[2**31])],
        [info("y")],
        [numpy_helper.from_array(np.array([v]), name) for name, v in (("s", 0), ("e", 9))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    assert main(["compare", str(tmp_path / "m.onnx")]) == 2
    assert "give an array with --input" in capsys.readouterr().err


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_found_in_the_first_run_stands(tmp_path: Path, seed: int) -> None:
    report = compare(saved(tmp_path), seed=seed)
    assert {c.detail for c in report.comparisons} == {""}


def endless(folder: Path) -> Path:
    """A Slice, and a Loop that never ends."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["v"], ["w"])],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v", shape=[3])],
        [info("d", TensorProto.BOOL, []), info("w", shape=[3])],
    )
    nodes = [
        helper.make_node("Slice", ["x", "s", "e"], ["p"], "cut"),
        helper.make_node("Loop", ["", "g", "p"], ["y"], body=body),
    ]
    values = {"s": np.array([1]), "e": np.array([4]), "g": np.array(True)}
    initializers = [numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = helper.make_graph(nodes, "g", [info("x", shape=[8])], [info("y", shape=[3])], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize(
    "words", [["compare"], ["rewrite", "--verify", "-o", "out.onnx"]], ids=lambda words: str(words[0])
)
def test_a_timeout_ends_a_loop_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = endless(tmp_path)
    assert main([*words, str(path), "--timeout", "3"]) == 2
    assert capsys.readouterr().err == f"sliceport: '{path}': it takes more than 3 s; --timeout 0 sets no limit.\n"
    assert not (tmp_path / "out.onnx").exists()


def test_other_values_that_take_too_long_are_not_taken(tmp_path: Path) -> None:
    """As a condition that makes a Loop endless."""

    def run(inputs: dict[str, Any]) -> str:
        if "w" in inputs:
            raise onnxruntime_cpu.Exhausted("it takes more than 60 s.")
        return "ran"

    x = np.ones(8, np.float32)
    others = run_with_other_values(run, from_proto(onnx.load(saved(tmp_path))), {"x": x})
    assert (others.inputs, others.result, others.replaced) == ({"x": x}, None, ())
    assert others.notes == ("'w' had no other value than the default: the model runs with none that was tried.",)
