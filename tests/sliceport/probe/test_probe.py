"""Probes find what devices compute wrongly: 40 devices that lie, and what their users do wrong.

`LYING_DEVICES=40 pytest tests/sliceport/probe/test_probe.py` runs all of them; by default a sample runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from amounts import amount, some
from command_line import Invoke
from lying_runtime import KINDS
from onnx_models import parse
from planted_faults import part_of

from sliceport.errors import ModelError, UsageError
from sliceport.probe import folder as probe_folder
from sliceport.probe.folder import probe
from sliceport.probe.results import Reading, _compare_measures, read_results
from sliceport.verdict.difference import EXACT, Tolerance

COUNT = int(os.environ.get("LYING_DEVICES", amount(8)))
SIZES = (3, 7, 16, 17, 40, 90, 150, 257, 300, 500)
ROWS = 5


def outputs(proto: onnx.ModelProto) -> list[str]:
    return [name for node in proto.graph.node for name in node.output]


def random_model(count: int, seed: int, element: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
    """Return a model of so many nodes with one output, in which an error of one node stays visible."""
    chance, drawn = random.Random(seed), np.random.default_rng(seed)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    weights = {
        "bias": drawn.standard_normal((1, 8)),
        "turn": np.linalg.qr(drawn.standard_normal((8, 8)))[0],
        "scale": drawn.uniform(0.9, 1.1, (1, 8)),
        "half": np.array(0.5),
    }
    values, nodes, i = ["x"], [], 0
    while i < count:
        a = values[-1]
        options = [
            ("Sub", [a, "bias"]),
            ("Add", [a, "bias"]),
            ("MatMul", [a, "turn"]),
            ("Identity", [a]),
            ("Mul", [a, "scale"]),
        ]
        if i + 2 <= count and len(values) > 4:
            options.append(("skip", [a, chance.choice(values[-5:-1])]))
        kind, reads = chance.choice(options)
        for op, names in [("Add", reads), ("Mul", [f"v{i}", "half"])] if kind == "skip" else [(kind, reads)]:
            nodes.append(f"[{op.lower()}_{i}] v{i} = {op} ({', '.join(names)})")
            i += 1
        values.append(f"v{i - 1}")
    name = onnx.TensorProto.DataType.Name(element).lower()
    proto = parse(f"({name}[rows, 8] x) => ({name}[a, b] {values[-1]}) {{ {'  '.join(nodes)} }}", 18, 9)
    tensors = [onnx.numpy_helper.from_array(array.astype(dtype), name) for name, array in weights.items()]
    proto.graph.initializer.extend(tensors)
    return proto


def load_program(folder: Path) -> Any:
    """Return the probe.py of a folder as a module."""
    program: Any = ModuleType("probe_on_device")
    program.__file__ = str(folder / "probe.py")
    SourceFileLoader(program.__name__, program.__file__).exec_module(program)
    return program


def run_here(folder: Path, runtime: str = "lying_runtime") -> Path:
    """Run a probe in this process, and return its results."""
    program = load_program(folder)
    options = argparse.Namespace(runtime=runtime, provider="P", device="CPU", option=[])
    state, cuts, _ = program.read_probe()
    device = {"runtime": runtime, "version": "1", "place": "P", "platform": "here"}
    results = {"state": state, "device": device, "cuts": {n: program.run_cut(cut, options) for n, cut in cuts.items()}}
    file = folder / "results.json"
    file.write_text(json.dumps(results))
    return file


def search(model: Path, folder: Path, **options: Any) -> tuple[Reading, int]:
    """Run all rounds, and return the last reading and the number of rounds."""
    probe(model, folder / "1", **options)
    for count in range(1, 20):
        reading = read_results(model, run_here(folder / str(count)))
        if reading.next_round is None:
            return reading, count
        reading.next_round.write(folder / str(count + 1))
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("number", range(COUNT))
def test_lying_device_is_found(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, count = KINDS[number % 4], SIZES[number * 7 % len(SIZES)]
    element = onnx.TensorProto.FLOAT16 if kind == "float16" else onnx.TensorProto.FLOAT
    proto = random_model(count, number, element)
    readers = {name: [node for node in proto.graph.node if name in node.input] for name in ("x", *outputs(proto))}
    pairs = [
        (node.name, before.name)
        for before in proto.graph.node
        for node in readers[before.output[0]]
        if len(readers[before.output[0]]) == 1
    ]
    liar, before = random.Random(number).choice(pairs)
    words = {"fused": before, "size": str(ROWS)}.get(kind, "")
    model = tmp_path / "model.onnx"
    onnx.save(proto, model)
    monkeypatch.setenv("LIE", f"{kind} {liar} {words}")
    reading, rounds = search(model, tmp_path, input_shapes={"x": (ROWS, 8)})
    part = part_of(reading.report)
    assert part.case.culprit.name == liar
    assert part.case.is_fusion == (kind == "fused")
    assert len(part.case.nodes) == 1 or (kind == "fused" and before in [node.name for node in part.case.nodes])
    assert rounds <= (count - 1).bit_length() + 2
    assert rounds <= (4 if kind == "fused" else 3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model of 64 nodes in a file."""
    file = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(random_model(64, 1), file)
    return file


@pytest.fixture(scope="module")
def right_results(model: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the results of the model on a device that does not lie."""
    folder = tmp_path_factory.mktemp("right") / "1"
    probe(model, folder, **SHAPES)
    return run_here(folder).read_text()


def node_of(model: Path, number: int) -> onnx.NodeProto:
    node: onnx.NodeProto = onnx.load(model).graph.node[number]
    return node


SHAPES: dict[str, Any] = {"input_shapes": {"x": (ROWS, 8)}}


def run_apart(folder: Path, *words: str, runtime: str = "lying_runtime", **variables: str) -> Any:
    """Run probe.py as its user does."""
    tests = str(Path(__file__).parents[2] / "support" / "of_processes")
    environment = {**os.environ, "PYTHONPATH": tests, **variables}
    command = [sys.executable, str(folder / "probe.py"), "--runtime", runtime, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_command_line_finds_the_node(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(model, "model.onnx")
    name = node_of(model, 12).name
    printed = invoke("probe", "model.onnx", "-o", "1", "--input-shapes", f"x:{ROWS},8")
    assert "round 1: 16 models for a range of 64 nodes" in printed.out
    assert "exists" in invoke("probe", "model.onnx", "-o", "1", "--input-shapes", f"x:{ROWS},8", code=2).err
    for number in (1, 2):
        done = run_apart(tmp_path / str(number), LIE=f"always {name}")
        assert done.returncode == 0, done.stderr
        said = invoke("diff", "model.onnx", "--against", f"{number}/results.json", "-o", number + 1, code=1).out
        assert ("the first node that differs is one of" in said) == (number == 1)
    assert f"first node that differs: {onnx.load(model).graph.node[12].op_type} '{name}'" in said
    assert (tmp_path / "3" / "issue.md").exists()
    assert (tmp_path / "3" / "model.onnx").exists()


def test_crash_in_one_cut_is_a_result(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(random_model(5, 1), model)
    name = node_of(model, 3).name
    probe(model, tmp_path / "1", **SHAPES)
    assert run_apart(tmp_path / "1", LIE=f"crash {name}").returncode == 0
    part = part_of(read_results(model, tmp_path / "1" / "results.json").report)
    assert (part.case.culprit.name, part.case.failure.kind) == (name, "crash")


def test_text_after_a_result_is_ignored_and_half_a_result_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load_program(Path(probe_folder.__file__).parent / "on_device")
    for printed, expected in ((b'{"outputs": []}\nunloaded\n', []), (b'{"outp', None)):
        done = SimpleNamespace(stdout=b"sliceport-result " + printed, returncode=-9)
        monkeypatch.setattr(program.subprocess, "run", lambda *_, done=done, **__: done)
        result = program.run_apart({"model": "m"}, argparse.Namespace(timeout=1))
        assert (result.get("outputs"), result.get("kind")) == (expected, None if expected == [] else "crash")


def test_array_that_does_not_fit_into_memory_is_no_error_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load_program(Path(probe_folder.__file__).parent / "on_device")
    monkeypatch.setattr(program, "run", lambda *_: np.empty(2**50, np.uint8))
    result = program.run_cut({"model": "m", "in": [], "out": []}, argparse.Namespace(runtime="onnxruntime"))
    assert result["kind"] == "memory"


@pytest.mark.parametrize(("tolerance", "kind"), [(EXACT, "values"), (Tolerance(1.0), "nan")])
def test_nan_has_no_measured_difference(tolerance: Tolerance, kind: str) -> None:
    got, expected = (list(np.array([value], np.float32).tobytes()) for value in (np.nan, 1))
    about = {"element": "float32", "shape": [1], "unequal": 1, "absolute": 1e308, "largest": 1.0, "at": 0}
    output = _compare_measures("y", {**about, "got": got, "expected": expected}, tolerance)
    assert (output.kind, output.absolute, output.relative) == (kind, 0, 0)


def test_nan_is_named(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(node.name for node in onnx.load(model).graph.node if node.op_type == "MatMul")
    monkeypatch.setenv("LIE", f"nan {name}")
    reading, _ = search(model, tmp_path, **SHAPES)
    part = part_of(reading.report)
    assert (part.case.culprit.name, part.case.failure.kind) == (name, "nan")
    assert "computed nan, expected" in part.case.failure.message


@pytest.mark.parametrize("kept", [0, 1, 2, 8])
@pytest.mark.parametrize("number", [10, 40])
def test_probe_that_is_stopped_early_goes_on(
    number: int, kept: int, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = node_of(model, number).name
    monkeypatch.setenv("LIE", f"always {name}")
    probe(model, tmp_path / "1", **SHAPES)
    for count in range(1, 20):
        results = run_here(tmp_path / str(count))
        if count % 2 == 0:
            damage(results, lambda data: data.update(cuts=dict([*data["cuts"].items()][:kept])))
        reading = read_results(model, results)
        if reading.next_round is None:
            break
        reading.next_round.write(tmp_path / str(count + 1))
    assert part_of(reading.report).case.culprit.name == name


def test_failure_that_needs_early_nodes_is_found_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto, model = random_model(300, 3), tmp_path / "model.onnx"
    onnx.save(proto, model)
    name, early = proto.graph.node[190].name, proto.graph.node[5].name
    monkeypatch.setenv("LIE", f"fused {name} {early}")
    probe(model, tmp_path / "1", **SHAPES)
    for count in range(1, 20):
        results = run_here(tmp_path / str(count))
        if count == 2:  # these prefixes begin behind the early node, so they are right
            damage(results, lambda data: data.update(cuts=dict([*data["cuts"].items()][:8])))
        reading = read_results(model, results)
        if reading.next_round is None:
            break
        reading.next_round.write(tmp_path / str(count + 1))
    assert part_of(reading.report).case.culprit.name == name


def save(graph: str, place: Path, opset: int = 21, functions: str = "") -> Path:
    """Write a model in ONNX's text format, and return its file."""
    imports = f'<ir_version: 10, opset_import: ["" : {opset}, "f" : 1]>'
    onnx.save(onnx.parser.parse_model(f"{imports} g {graph} {functions}"), place / "model.onnx")
    return place / "model.onnx"


@pytest.mark.parametrize("element", some(onnx.TensorProto.DataType.values()[1:]))
def test_node_is_found_behind_values_of_every_type(
    element: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = f"[b] e = Cast <to = {element}> (x)  [c] i = Identity (e)  [d] f = Cast <to = 1> (i)  [y] y = Neg (f)"
    is_small = element > onnx.TensorProto.FLOAT8E5M2FNUZ
    model = save(f"(float[4] x) => (y) <float[4] f> {{ {nodes} }}", tmp_path, 25 if is_small else 21)
    monkeypatch.setenv("LIE", "always d")
    try:
        part = search(model, tmp_path)[0].report.part
    except ModelError:  # onnxruntime does not run complex numbers, and not all of the small types
        assert is_small or element in (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128)
        return
    assert part is not None
    is_avoided = element == onnx.TensorProto.STRING or element >= onnx.TensorProto.BFLOAT16
    assert [node.name for node in part.case.nodes] == (["b", "c", "d"] if is_avoided else ["d"])
    note = "a probe cannot hold values that Cast 'd' reads or writes, so it did not run alone"
    assert part.case.note == (note if is_avoided else "")
    assert {array.dtype.kind for array in map(np.load, tmp_path.glob("*/*.npy"))} <= set("fiub")


def test_avoided_values_are_named(tmp_path: Path) -> None:
    nodes = "e = Cast <to = 16> (x)  i = Identity (e)  y = Cast <to = 1> (i)"
    written = probe(save(f"(float[4] x) => (y, i) {{ {nodes} }}", tmp_path), tmp_path / "1")
    assert written.text.endswith("; the probe lacks 2 values, such as 'e', and has no cut there")
    assert written.to_json()["avoided"] == ["e", "i"]
    sizes = {"values": 20, "weights": 1536, "models": 2**20}
    assert "values 20 bytes, weights 1.5 KiB, models 1.0 MiB" in replace(written, byte_counts=sizes).text
    for graph in ("(float[4] x) => (y) { y = Cast <to = 16> (x) }", "(bfloat16[4] x) => (y) { y = Cast <to = 1> (x) }"):
        with pytest.raises(UsageError, match="a probe cannot hold the element type of an input, or no output can be "):
            probe(save(graph, tmp_path), tmp_path / "2")


def test_node_of_control_flow_is_named_with_its_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "g () => (z) { w = Exp (e)  z = Neg (w) }"
    nodes = f"e = Abs (x)  [if] i = If (c) <then_branch = {body}, else_branch = {body}>  y = Neg (i)"
    model = save(f"(float[4] x, bool c) => (y) {{ {nodes} }}", tmp_path)
    monkeypatch.setenv("LIE", "always if")
    part = part_of(search(model, tmp_path)[0].report)
    assert part.case.culprit.name == "if"
    assert part.case.note == "a probe does not enter bodies: any node in a body of If 'if' may be the one at fault"


def test_node_in_a_function_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function = '<domain: "f", opset_import: ["" : 21]> two (a) => (c) { b = Exp (a)  c = Neg (b) }'
    model = save("(float[4] x) => (y) { h = Abs (x)  y = f.two (h) }", tmp_path, functions=function)
    probe(model, tmp_path / "0")
    names = [node.name for node in onnx.load(tmp_path / "0" / "02.onnx").graph.node if node.op_type == "Exp"]
    monkeypatch.setenv("LIE", f"always {names[0]}")
    part = part_of(search(model, tmp_path)[0].report)
    assert [node.op_type for node in part.case.nodes] == ["Exp"]


def test_size_that_does_not_lie_is_equal(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIE", f"size {node_of(model, 7).name} {ROWS + 1}")
    reading, rounds = search(model, tmp_path, **SHAPES)
    assert reading.report.is_equal
    assert rounds == 1


def test_provider_that_does_not_start_is_an_error(model: Path, tmp_path: Path) -> None:
    probe(model, tmp_path / "1", **SHAPES)
    done = run_apart(tmp_path / "1", "--provider", "AbsentProvider")
    assert done.stderr == "probe.py: ImportError: AbsentProvider did not start.\n"
    done = run_apart(tmp_path / "1", runtime="absent_runtime")
    assert "No module named 'absent_runtime'" in done.stderr
    assert not (tmp_path / "1" / "results.json").exists()


def test_changed_file_is_an_error(model: Path, tmp_path: Path) -> None:
    probe(model, tmp_path / "1", **SHAPES)
    (tmp_path / "1" / "0.npy").unlink()
    assert run_apart(tmp_path / "1").stderr == "probe.py: 0.npy is missing or was changed; copy the folder again.\n"


def test_results_of_another_model_or_output_are_refused(model: Path, right_results: str, tmp_path: Path) -> None:
    results, other = tmp_path / "results.json", tmp_path / "other.onnx"
    results.write_text(right_results)
    onnx.save(random_model(64, 2), other)
    with pytest.raises(UsageError, match="are of another model"):
        read_results(other, results)
    with pytest.raises(UsageError, match="a tolerance is given for 'q', but the outputs are"):
        read_results(model, results, tolerance={"q": Tolerance()})


def damage(file: Path, change: Callable[[Any], object]) -> Path:
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    return file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["state"].update(version=0), "of a probe of another version"),
        (lambda data: data["state"].update(cuts=3), "the results are damaged"),
        (lambda data: data["state"].update(high=10**6), "the results are damaged"),
        (lambda data: data["state"].update(low="?"), "the results are damaged"),
        (lambda data: data["state"].update(seed=-1), "the results are damaged"),
        (lambda data: data["state"].update(failure=[]), "the results are damaged"),
        (lambda data: data["state"].update(reference=None), "engine 'None' is not known"),
        (lambda data: data["state"]["cuts"]["00.onnx"].update(size=None), "the results are damaged"),
        (lambda data: data["state"]["cuts"]["00.onnx"].update(kind=[]), "the results are damaged"),
        (lambda data: data["state"].update(inputs="?"), "of other inputs"),
        (lambda data: data["state"]["cuts"]["00.onnx"].update(outputs=[[99, 0]]), "the results are damaged"),
        (lambda data: data["state"]["cuts"]["00.onnx"].update(outputs=[-1]), "their state cannot be read"),
        (lambda data: data["state"].update(shapes={"x": [np.inf]}), "their state cannot be read"),
        (lambda data: data["state"].update(shapes={"x": [-5, 8]}), "their state cannot be read"),
        (lambda data: data["cuts"]["00.onnx"].update(outputs=[{}]), "the results are damaged"),
        (lambda data: data["cuts"]["00.onnx"].update(outputs=[]), "the results are damaged"),
        (lambda data: data["cuts"].update(x={}), "mixes the results of two probes"),
        (lambda data: data.pop("state"), "does not hold the results of a probe"),
        (lambda data: data["device"].clear(), "the results are damaged"),
        (lambda data: data["cuts"].pop("15.onnx"), "1 of 16 models have no result"),
    ],
)
def test_damaged_results_are_refused(
    model: Path, right_results: str, tmp_path: Path, change: Any, message: str
) -> None:
    file = tmp_path / "results.json"
    file.write_text(right_results)
    damage(file, change)
    with pytest.raises(UsageError, match=message):
        read_results(model, file)


def test_partial_results_narrow_the_range(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = node_of(model, 12).name
    monkeypatch.setenv("LIE", f"always {name}")
    probe(model, tmp_path / "1", **SHAPES)
    file = damage(run_here(tmp_path / "1"), lambda data: [data["cuts"].pop(f"{i:02}.onnx") for i in range(5, 12)])
    reading = read_results(model, file)
    assert "7 models of this probe did not run" in reading.report.sentences
    assert reading.next_round is not None
    assert reading.next_round.state.low <= 12 < reading.next_round.state.high
    reading.next_round.write(tmp_path / "2")
    assert part_of(read_results(model, run_here(tmp_path / "2")).report).case.culprit.name == name


@pytest.mark.parametrize("is_nested", [False, True])
def test_interrupted_or_nested_file_is_refused(
    is_nested: bool, model: Path, right_results: str, tmp_path: Path
) -> None:
    file = tmp_path / "results.json"
    file.write_text("[" * 100_000 if is_nested else right_results[:-9])
    with pytest.raises(UsageError, match="is not complete JSON; run probe.py again"):
        read_results(model, file)


@pytest.mark.parametrize(
    "word",
    [
        *("--on=onnxruntime-cpu", "--budget=3", "--resume=kept", "--seed=1", "--seeds=2"),
        *("--input-shapes=auto", "--input-shapes=auto=0"),
    ],
)
def test_options_without_effect_are_refused(model: Path, tmp_path: Path, word: str, invoke: Invoke) -> None:
    printed = invoke("diff", model, "--against", tmp_path / "results.json", word, code=2)
    assert f"so leave out {word.partition('=')[0]}." in printed.err


@pytest.mark.parametrize("mode", ["names", "weights"])
def test_anonymous_probe_holds_no_names(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    proto = onnx.load(model)
    probe(model, tmp_path / "1", anonymise=mode, **SHAPES)
    weight = next(tensor for tensor in proto.graph.initializer if tensor.name == "turn")
    contents = [file.read_bytes() for file in (tmp_path / "1").iterdir() if file.suffix not in (".py", ".mjs", ".cpp")]
    values = [b'"x"', f'"{proto.graph.output[0].name}"'.encode()]
    names = [b"turn", b"bias", b"rows", *values, *(node.name.encode() for node in proto.graph.node)]
    assert not any(name in content for name in names for content in contents)
    assert any(weight.raw_data in content for content in contents) == (mode == "names")
    written = onnx.load(tmp_path / "1" / "15.onnx")
    assert [node.op_type for node in written.graph.node] == [node.op_type for node in proto.graph.node]
    monkeypatch.setenv("LIE", f"always {written.graph.node[12].name}")
    reading = read_results(model, run_here(tmp_path / "1"))
    assert reading.next_round is not None
    reading.next_round.write(tmp_path / "2")
    results = run_here(tmp_path / "2")
    assert not any(name in file.read_bytes() for name in names for file in (tmp_path / "2" / "probe.txt", results))
    report = read_results(model, results).report
    assert part_of(report).case.culprit.name == proto.graph.node[12].name
    assert report.failures[0].output == proto.graph.output[0].name
    for output in ("output 9", ["y"]):
        data = json.loads(results.read_text())
        data["state"]["failure"]["output"] = output
        results.write_text(json.dumps(data))
        with pytest.raises(UsageError, match="the results are damaged: their state cannot be read"):
            read_results(model, results)


@pytest.mark.parametrize("field", ["input", "value_info", "output"])
def test_anonymous_probe_holds_no_denotations(tmp_path: Path, field: str) -> None:
    proto = parse("(float[4] x) => (float[4] y) <float[4] h> { [a] h = Neg (x) [b] y = Exp (h) }")
    declared = getattr(proto.graph, field)[0].type
    declared.denotation = declared.tensor_type.shape.dim[0].denotation = "SECRET"
    onnx.save(proto, tmp_path / "model.onnx")
    probe(tmp_path / "model.onnx", tmp_path / "1", anonymise="names")
    assert not any(b"SECRET" in file.read_bytes() for file in (tmp_path / "1").iterdir())


def test_weights_that_no_cut_needs_are_not_in_the_next_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = "  ".join(f"[matmul_{i}] v{i + 1} = MatMul (v{i}, w{i})" for i in range(40))
    proto = parse(f"(float[2,64] v0) => (float[2,64] v40) {{ {nodes} }}")
    drawn = np.random.default_rng(0)
    for i in range(40):
        weight = np.linalg.qr(drawn.standard_normal((64, 64)))[0].astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, f"w{i}"))
    model = tmp_path / "chain.onnx"
    onnx.save(proto, model)
    monkeypatch.setenv("LIE", "always matmul_38")
    first = probe(model, tmp_path / "1")
    whole = 40 * 64 * 64 * 4
    assert whole <= first.byte_counts["weights"] <= 1.1 * whole
    reading = read_results(model, run_here(tmp_path / "1"))
    assert reading.next_round is not None
    second = reading.next_round.write(tmp_path / "2")
    assert second.byte_counts["weights"] <= whole / 2
    assert sum(second.byte_counts.values()) < sum(first.byte_counts.values())
    assert sum(file.stat().st_size for file in (tmp_path / "2").glob("*.bin")) == second.byte_counts["weights"]


def test_openvino_is_a_device(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    model = tmp_path / "model.onnx"
    onnx.save(random_model(5, 3), model)
    probe(model, tmp_path / "1", **SHAPES)
    done = run_apart(tmp_path / "1", "--option", "INFERENCE_PRECISION_HINT=f32", runtime="openvino")
    assert done.returncode == 0, done.stderr
    reading = read_results(model, tmp_path / "1" / "results.json")
    assert reading.report.is_equal, reading.report.sentences
    assert reading.report.on.startswith("openvino CPU 2026")


@pytest.mark.parametrize("device", ["ABSENT", "HETERO:CPU,ABSENT"])
def test_absent_device_of_openvino_is_an_error(device: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    onnx.save(random_model(5, 3), tmp_path / "model.onnx")
    probe(tmp_path / "model.onnx", tmp_path / "1", **SHAPES)
    done = run_apart(tmp_path / "1", "--device", device, runtime="openvino")
    assert done.stderr == "probe.py: ImportError: OpenVINO has no device ABSENT.\n"
    assert not (tmp_path / "1" / "results.json").exists()


def test_openvino_model_is_probed(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    model = Path(__file__).parents[3] / "models" / "rule_new_axis.xml"
    probe(model, tmp_path / "1")
    assert run_apart(tmp_path / "1", runtime="openvino").returncode == 0
    report = read_results(model, tmp_path / "1" / "results.json").report
    assert report.outputs
    with pytest.raises(UsageError, match="models of the format openvino cannot be anonymised"):
        probe(model, tmp_path / "2", anonymise="names")
