"""Whole models on two engines: the first node that differs, and the smallest model that shows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import ml_dtypes  # noqa: F401  # it adds its types to the names that NumPy knows
import numpy as np
import onnx
import pytest
from onnx_models import parse, save
from planted_faults import (
    CHAIN,
    Differ,
    Fault,
    Faulty,
    both,
    compare_models,
    fuse,
    names,
    not_a_number,
    part_of,
    refuse,
    swap,
)
from platforms import ended_by

from onnx_ops.engines import ONNXRUNTIME_CPU, ONNXRUNTIME_DML
from onnx_ops.running.onnx_graph import OnnxGraph
from ov_ext.engines import CPU_PLUGIN, EVALUATE, ByEvaluate
from sliceport.engines import side
from sliceport.engines.registry import engines
from sliceport.errors import MissingExtra, ModelError, UsageError
from sliceport.sandbox import supervisor
from sliceport.sandbox.child import this_process
from sliceport.sandbox.progress import listen_to_progress
from sliceport.search.diff import diff
from sliceport.search.save import save as write
from sliceport.verdict.difference import EXACT, Tolerance, compare_values, tolerance_of
from sliceport.wording import command_line_spelling
from sliceport.wording.shell import join


def test_equal_engines_have_no_finding(differ: Differ) -> None:
    report = differ(CHAIN, lambda _: None)
    assert report.is_equal
    assert [output.status for output in report.outputs] == ["equal", "equal"]


def test_wrong_node_is_found_alone(differ: Differ) -> None:
    report = differ(CHAIN, swap("b", "Sub"))
    assert names(report) == ["b"]
    assert sorted(part_of(report).case.inputs) == ["a", "bias"]
    assert not part_of(report).case.is_fusion


def test_model_that_fails_only_as_a_whole_is_one_part(differ: Differ) -> None:
    def fault(proto: onnx.ModelProto) -> None:
        if len(proto.graph.node) == 2:  # no part of the model fails
            for node in proto.graph.node:
                node.op_type = "Abs"

    report = differ("(float[4] x) => (y, z) { [a] y = Sin (x)  [b] z = Cos (x) }", fault)
    assert [output.status for output in report.outputs] == ["different", "different"]
    assert names(report) == ["a", "b"]
    assert part_of(report).explained == ("y", "z")
    assert report.notes == ()


def test_model_of_one_node_that_is_right_without_its_other_output_is_named(differ: Differ) -> None:
    def fault(proto: onnx.ModelProto) -> None:
        if len(proto.graph.output) == 2:
            swap("a", "Identity")(proto)
            del proto.graph.node[0].input[1:], proto.graph.node[0].output[1:], proto.graph.node[0].attribute[:]
            proto.graph.node.add(op_type="Neg", input=["x"], output=["z"])

    report = differ("(float[4] x) => (y, z) <int64[2] s = {2, 2}> { [a] y, z = Split (x, s) }", fault)
    assert names(report) == ["a"]


def test_part_that_runs_only_with_known_sizes_gets_them(differ: Differ) -> None:
    def fault(proto: onnx.ModelProto) -> None:
        swap("b", "Neg")(proto)
        (value, *_) = proto.graph.input
        if value.name != "x" and not all(dim.dim_value for dim in value.type.tensor_type.shape.dim):
            raise ModelError("an input within the model has an open size")

    report = differ("(float[N] x) => (y) { [a] a = Exp (x)  [b] b = Sin (a)  [c] y = Tanh (b) }", fault, open_sizes=4)
    assert names(report) == ["b"]
    assert part_of(report).case.has_fixed_shapes


def test_fault_of_siblings_is_found_with_both(differ: Differ) -> None:
    """The fault does not occur in a model that lacks the other output."""

    def fault(proto: onnx.ModelProto) -> None:
        nodes = {node.name: node for node in proto.graph.node}
        if {"a", "b", "c"} <= nodes.keys() and nodes["c"].input[0] == nodes["a"].output[0]:
            nodes["c"].op_type = "Sin"

    graph = """(float[4] x) => (y, z) {
        [u] u = Tanh (x)  [a] a = Exp (u)  [b] b = Neg (a)  [c] c = Cos (a)  [d] y = Sigmoid (b)  [e] z = Tanh (c)
    }"""
    report = differ(graph, fault)
    assert names(report) == ["a", "b", "c"]
    assert part_of(report).case.culprit.name == "c"
    assert part_of(report).explained == ()


def test_nan_is_named(differ: Differ) -> None:
    report = differ(CHAIN, not_a_number("c"))
    assert names(report) == ["c"]
    assert part_of(report).case.failure.kind == "nan"


def test_wrong_fusion_is_found_with_its_nodes(differ: Differ) -> None:
    report = differ(CHAIN, fuse("Sigmoid", "Add", "Sub"))
    assert names(report) == ["c", "d"]
    assert part_of(report).case.is_fusion


def test_node_that_differs_because_of_a_node_after_it_is_at_fault(differ: Differ) -> None:
    def fault(proto: onnx.ModelProto) -> None:
        if "Neg" in [node.op_type for node in proto.graph.node]:
            swap("a", "Identity")(proto)

    report = differ("(float[3,4] x) => (c) { [a] a = Relu (x)  [b] b = Neg (x)  [c] c = Add (b, a) }", fault)
    assert names(report) == ["a", "b"]
    assert part_of(report).case.culprit.name == "a"


@pytest.mark.parametrize("is_reference", [False, True])
def test_side_that_refuses_more_outputs_shows_no_fusion(differ: Differ, is_reference: bool) -> None:
    def refuse_more(proto: onnx.ModelProto) -> None:
        if {"c", "d"} <= {output.name for output in proto.graph.output}:
            raise ModelError("the value of a fusion is not an output")

    wrong = fuse("Sigmoid", "Add", "Sub")
    report = differ(CHAIN, wrong, refuse_more) if is_reference else differ(CHAIN, both(refuse_more, wrong))
    assert names(report) == ["c", "d"]
    assert not part_of(report).case.is_fusion


@pytest.mark.parametrize(
    "options",
    [{}, {"other": CHAIN, "against": "onnxruntime-cpu"}],
    ids=["first side", "model that its own engine refuses"],
)
def test_refused_node_is_found(differ: Differ, tmp_path: Path, options: dict[str, Any]) -> None:
    if "other" in options:
        options = options | {"other": save(CHAIN, tmp_path / "other.onnx")}
    report = differ(CHAIN, refuse("Sigmoid"), **options)
    assert names(report) == ["c"]
    assert report.failed == "faulty 1.0"


def test_reference_that_does_not_run_is_no_fault_of_the_model(differ: Differ) -> None:
    message = (
        "^nothing can be compared, because faulty 1.0, which computes the expected outputs, does not run the model: "
        "Sigmoid 'c' is not supported by this engine .*; choose another engine with against: "
        "onnxruntime-cpu:level=none, onnx-reference, "
    )
    with pytest.raises(ModelError, match=message):
        differ(CHAIN, refuse("Sigmoid"), on="onnxruntime-cpu", against="faulty")


def test_node_that_is_refused_unless_its_vector_is_an_output_is_found_near(differ: Differ) -> None:
    """DirectML refuses a MatMul of D-FINE like this."""

    def fault(proto: onnx.ModelProto) -> None:
        written = {name for node in proto.graph.node for name in node.output}
        if {"v", "m"} <= written - {output.name for output in proto.graph.output if output.name == "v"}:
            raise ModelError("while running MatMul node. Name:'m' the parameter is incorrect")

    chain = "".join(f"[n{i}] n{i} = Add (n{i - 1}, u)  " for i in range(1, 60))
    tail = "[v] v = Exp (u)  [m] m = MatMul (n59, v)  [y] y = Neg (m)  [z] z = Neg (v)"
    report = differ(f"(float[3,4] n0, float[4] u) => (y, z) {{ {chain} {tail} }}", fault)
    assert names(report) == ["v", "m"]
    assert part_of(report).case.outputs == ("m",)
    assert report.runs < 30


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("23", "neither engine runs the model: on"),
        ("NM", r"run the model with input_shapes=\{'x': \(\d+,\), 'y': \(\d+,\)\} on "),
    ],
    ids=["fixed sizes", "chosen sizes"],
)
def test_model_that_runs_nowhere_is_an_error_that_names_chosen_sizes(differ: Differ, sizes: str, message: str) -> None:
    graph = f"(float[{sizes[0]}] x, float[{sizes[1]}] y) => (z) {{ z = Add (x, y) }}"
    with pytest.raises(ModelError, match=message):
        differ(graph, lambda _: None, open_sizes="primes")


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (
            "onnxruntime-cuda",
            "^on: sliceport cannot run 'onnxruntime-cuda' on models of the format onnx .see sliceport probe.; use ",
        ),
        ("onnxruntime-cp", "^on: engine 'onnxruntime-cp' is not known, did you mean 'onnxruntime-cpu'"),
        ("onnxruntime-cpu:depth=a\nb", r"^on: 'onnxruntime-cpu' has no option 'depth=a\\nb'; its options are: level="),
        (
            "onnxruntime-cpu:nodes=maybe",
            "^on: 'onnxruntime-cpu' needs a valid value for 'nodes=maybe'; its options are: ",
        ),
        ("onnxruntime-cpu:level", "^on: 'onnxruntime-cpu' needs a valid value for 'level='; its options are: "),
    ],
)
def test_engine_that_does_not_run_the_model_has_its_reason(engine: str, message: str, differ: Differ) -> None:
    with pytest.raises(UsageError, match=message):
        differ(CHAIN, lambda _: None, on=engine)


def test_engine_that_is_not_installed_has_its_extra(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    monkeypatch.setattr(metadata.Distribution, "from_name", Mock(side_effect=metadata.PackageNotFoundError("openvino")))
    with pytest.raises(MissingExtra, match=r'by the engine \'openvino-cpu\', .* pip install "sliceport\[openvino\]"'):
        diff(models / "rule_glu.onnx", on="openvino-cpu")


def test_engine_of_another_format_is_refused_with_those_of_this_one(models: Path) -> None:
    with pytest.raises(
        UsageError, match="cannot run 'onnxruntime-cpu' on models of the format openvino .*; use openvino, openvino-cpu"
    ):
        diff(models / "rule_new_axis.xml", on="onnxruntime-cpu")


BODIES = """(float[2] x, bool yes) => (y) <int64 three = {3}, bool go = {1}> {
    [pick] p = If (yes) <then_branch = t () => (a) { [a0] h = Exp (x) [a1] a = Add (h, x) },
                         else_branch = e () => (b) { [b0] b = Neg (x) }>
    half = Constant <value_float = 0.5> ()
    [loop] y, h, ys = Loop (three, go, p, half) <body = l (int64 i, bool c, float[2] s, float g) => (k, t, f, u) {
        [l0] k = Identity (c)  [l1] m = Mul (s, x)  [l2] t = Sin (m)  d = Mul (g, s)  f = Identity (g)
        [l3] u = Identity (t) }>
}"""


@pytest.mark.parametrize(
    ("fault", "name", "scope"),
    [(swap("a1", "Sub"), "a1", "If 'pick', then_branch"), (swap("l2", "Cos"), "l2", "Loop 'loop', iteration 0")],
)
def test_bodies_are_entered(differ: Differ, fault: Fault, name: str, scope: str) -> None:
    report = differ(BODIES, fault, inputs={"yes": np.array(True)})
    assert names(report) == [name]
    assert part_of(report).case.scope == (scope,)


def test_loop_whose_count_and_condition_have_an_axis_is_entered(differ: Differ) -> None:
    """Paddle2ONNX writes a count of shape [1]."""
    graph = BODIES.replace("int64 three", "int64[1] three")
    other = graph.replace("bool go", "bool[1] go").replace("(int64 i, bool c,", "(int64[1] i, bool[1] c,")
    for each in (graph, other):
        report = differ(each, swap("l2", "Cos"), inputs={"yes": np.array(True)})
        assert (names(report), part_of(report).case.scope) == (["l2"], ("Loop 'loop', iteration 0",))


def test_node_of_a_body_that_only_fails_in_its_loop_is_noted(differ: Differ) -> None:
    """An engine may compile a body for sizes that the Loop does not keep."""

    def fault(proto: onnx.ModelProto) -> None:
        if any(node.op_type == "Loop" for node in proto.graph.node):
            raise ModelError("while running Loop node. Name:'loop' while running Sin node. Name:'l2'")

    report = differ(BODIES, fault, inputs={"yes": np.array(True)})
    assert names(report) == ["loop"]
    assert part_of(report).case.note == (
        "the engine's message names Sin 'l2', but the body that contains it runs alone"
    )


def test_failure_alone_and_in_a_body_is_noted_together(differ: Differ) -> None:
    def fault(proto: onnx.ModelProto) -> None:
        names_of_nodes = {node.name for node in proto.graph.node}
        if {"pick", "scale"} <= names_of_nodes:
            raise ModelError("the fused node Name:'pick' is too deep")
        if "pick" in names_of_nodes:
            raise ModelError("while running If node. Name:'pick' while running Exp node. Name:'a0'")

    graph = f"{BODIES.partition('half')[0]} [scale] y = Mul (p, x) }}"
    notes = part_of(differ(graph, fault, inputs={"yes": np.array(True)})).case.note.split("; ")
    assert notes[0].startswith("in the model, it fails together with other nodes (Mul 'scale': ")
    assert notes[1].startswith("the engine's message names Exp 'a0'")


def test_body_that_runs_in_its_node_alone_is_not_blamed_for_a_difference(differ: Differ) -> None:
    def fault(proto: onnx.ModelProto) -> None:
        if "pick" not in {node.name for node in proto.graph.node}:
            refuse("Exp")(proto)
        swap("a1", "Sub")(proto)

    report = differ(f"{BODIES.partition('half')[0]} [scale] y = Mul (p, x) }}", fault, inputs={"yes": np.array(True)})
    assert (names(report), part_of(report).case.scope) == (["pick"], ())


SCAN = """(float[2] start, float[3,2] x) => (last, all) {
    [scan] last, all = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] v) => (t, u) {
        [s0] w = Mul (v, v)  [s1] t = Add (s, w)  [s2] u = Identity (t) }> (start, x)
}"""


def test_scan_is_entered(differ: Differ) -> None:
    assert names(differ(SCAN, swap("s1", "Sub"))) == ["s1"]


def test_functions_are_inlined(differ: Differ, tmp_path: Path) -> None:
    text = """(float[4] x) => (y) { [call] h = own.twice (x)  [last] y = Exp (h) }
        <domain: "own", opset_import: ["" : 18]> twice (a) => (b) { [inner] b = Add (a, a) }"""
    onnx.save(parse(text, own=1), tmp_path / "function.onnx")

    def fault(proto: onnx.ModelProto) -> None:
        for node in proto.graph.node:
            if node.op_type == "Add":
                node.op_type = "Mul"

    report = differ(tmp_path / "function.onnx", fault)
    assert [node.op_type for node in part_of(report).case.nodes] == ["Add"]


def chain_of(count: int) -> str:
    steps = " ".join(f"[n{i}] v{i + 1} = Add (v{i}, one)" for i in range(count))
    return f"(float[2] v0) => (v{count}) <float one = {{1.0}}> {{ {steps} }}"


def stop_after_12_runs(budget: side.Budget, count: int = 12) -> float:
    if budget.runs > count:
        raise side.BudgetSpent("the search was ended after 1 s")
    return 1.0


def test_no_node_of_unrelated_models_is_blamed(tmp_path: Path) -> None:
    first = "(float[4] x) => (float[4] y) { [a] a = Exp (x)  [b] b = Neg (a)  [c] y = Sin (b) }"
    second = "(float[4] x) => (float[4] z) { [d] d = Cos (x)  [e] e = Abs (d)  [f] f = Sqrt (e)  [g] z = Add (f, d) }"
    report = compare_models(first, second, tmp_path)
    assert not report.parts
    assert report.notes[-1] == "the models share no values that diff can match, so that only their outputs are compared"
    assert names(
        compare_models("(float[4] x) => (y) { y = Sin (x) }", "(float[4] x) => (y) { y = Cos (x) }", tmp_path)
    ) == ["y"]


def test_search_of_many_nodes_takes_few_runs(differ: Differ) -> None:
    report = differ(chain_of(1000), swap("n700", "Sub"))
    assert names(report) == ["n700"]
    assert report.runs < 80


def test_open_sizes_are_chosen_and_announced_once(differ: Differ) -> None:
    graph = "(float[n,3] x, float[n,m] y) => (z, w) { [a] z = Add (x, x)  [b] w = Neg (y) }"
    announced: list[str] = []
    with listen_to_progress(announcement=announced.append):
        report = differ(graph, lambda _: None, seeds=2)
    assert announced == ["sizes: x 2,3; y 2,23 (chosen; input_shapes={'x': …} for others)"]
    assert report.to_json()["input_shapes"] == {"x": [2, 3], "y": [2, 23]}
    report = differ(graph, swap("b", "Exp"), open_sizes="primes")
    assert report.outputs[1].shape == (2, 23)
    assert names(report) == ["b"]
    assert differ(graph, swap("b", "Exp"), open_sizes=0).is_equal
    assert differ(graph, swap("b", "Exp"), open_sizes=np.int64(4)).outputs[1].shape == (4, 4)
    for wrong, problem in (("prime", "be 'primes' or an integer"), (2.5, "be 'primes' or an"), (-1, "not be negative")):
        with pytest.raises(UsageError, match=f"^open_sizes must {problem}.*, got '?{wrong}'?\\.$"):
            differ(graph, swap("b", "Exp"), open_sizes=wrong)


def test_rank_of_an_input_that_declares_none_is_found(differ: Differ) -> None:
    report = differ("(float[] x) => (z) { z = Transpose <perm = [1, 0, 2]> (x) }", lambda _: None)
    assert report.outputs[0].shape == (23, 2, 29)


DROPPED = """(float[6] x) => (y) <int64[1] s = {0}, int64[1] e = {9223372036854775807}, int64[1] two = {2}> {
    [i] a = Neg (x)  [slice] b = Slice (a, s, e, , two)  [n] y = Neg (b)
}"""


def test_optimizer_is_named(tmp_path: Path) -> None:
    """EliminateSlice drops a Slice with steps whose axes are omitted (onnxruntime 1.31)."""
    report = diff(save(DROPPED, tmp_path / "model.onnx"), on="onnxruntime-cpu")
    assert "EliminateSlice is to blame" in part_of(report).cause
    assert names(report) == ["i", "slice", "n"]  # it leaves a Slice of an input of the model as it is


def test_defect_of_a_node_that_an_optimizer_removed_is_named(tmp_path: Path) -> None:
    report = compare_models(DROPPED, "(float[6] x) => (y) { [i] a = Neg (x)  [n] y = Neg (a) }", tmp_path)
    assert [defect.id for defect in part_of(report).defects] == ["steps without axes over whole axes"]


def test_defect_that_only_a_part_has_is_not_named() -> None:
    """A part knows the size of the indices, and the model does not."""
    text = """(float[2,4] x) => (y) <int64[1] start = {9}, int64[1] end = {99}, int64[1] axis = {1}> {
        h = NonZero (x)  [s] y = Slice (h, start, end, axis)
    }"""
    graph = OnnxGraph(parse(text))
    part = OnnxGraph(onnx.ModelProto.FromString(graph.cut([1], ["y"], {"h": np.ones((2, 8), np.int64)}, {}).data))
    defects = [
        [defect.id for defect in each.find_defects(each.nodes, shapes, "onnxruntime-dml")]
        for each, shapes in ((part, {"h": (2, 8)}), (graph, {"x": (2, 4)}))
    ]
    assert defects == [["nothing is selected"], []]
    assert part.find_defects([graph.nodes[0]], {"h": (2, 8)}, "onnxruntime-dml") == []


def run_saved(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "run.py"], check=False, cwd=folder, capture_output=True, text=True)


def test_saved_folder_shows_the_failure_without_sliceport(differ: Differ, tmp_path: Path) -> None:
    report = diff(save(DROPPED, tmp_path / "model.onnx"), on="onnxruntime-cpu")
    write(report, tmp_path / "out")
    script = (tmp_path / "out" / "run.py").read_text()
    assert "sliceport" not in script
    assert len(script.splitlines()) <= 18  # the script for DirectML has two more
    done = run_saved(tmp_path / "out")
    assert "differs" in done.stdout, done.stderr
    issue = (tmp_path / "out" / "issue.md").read_text()
    assert issue.startswith("# Neg, Slice: wrong shape on onnxruntime-cpu")
    assert "EliminateSlice" in issue


def test_saved_script_compares_no_sequence(differ: Differ, tmp_path: Path) -> None:
    """A sequence has no file, so the script would not find it."""
    graph = "(float[4,2] x) => (seq(float[2]) y) { [n] h = Neg (x)  [s] y = SplitToSequence <axis = 0> (h) }"
    report = differ(graph, refuse("SplitToSequence"))
    assert names(report) == ["s"]
    write(report, tmp_path / "out")
    script = tmp_path / "out" / "run.py"
    script.write_text(script.read_text().replace("got = ...", "got = []"))
    assert run_saved(tmp_path / "out").returncode == 0


def test_saved_outputs_have_files_of_their_own(tmp_path: Path) -> None:
    graph = """(float[2,2] x, bfloat16[3] b) => (seq(float[2]) s, string[2,2] t, bfloat16[3] c) {
        s = SplitToSequence <axis = 0, keepdims = 0> (x)  t = Cast <to = 8> (x)  c = Identity (b) }"""
    inputs = {"x": np.arange(4, dtype=np.float32).reshape(2, 2), "b": np.array([1, 2.5, 3], "bfloat16")}
    write(diff(save(graph, tmp_path / "model.onnx"), on="onnxruntime-cpu", inputs=inputs), tmp_path / "out")
    outputs = json.loads((tmp_path / "out" / "report.json").read_text())["outputs"]
    named = [output["files"] for output in outputs]
    assert named == [["00_s.0.npy", "00_s.1.npy"], ["01_t.npy"], ["02_c.npy"]]
    arrays = [np.load(tmp_path / "out" / name) for files in named for name in files]
    assert [array.tolist() for array in arrays] == [[0, 1], [2, 3], [["0", "1"], ["2", "3"]], [1, 2.5, 3]]
    assert arrays[-1].dtype == np.float32


def test_saved_files_are_utf_8_in_any_locale(tmp_path: Path) -> None:
    proto = parse(DROPPED)
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "größe"
    onnx.save(proto, tmp_path / "model.onnx")
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    words = ["-m", "sliceport", "diff", "model.onnx", "--on", "onnxruntime-cpu", "--save", "out"]
    subprocess.run([sys.executable, *words], check=False, cwd=tmp_path, env=os.environ | locale)
    assert "'größe'" in (tmp_path / "out" / "run.py").read_text("utf-8")
    assert "`größe`" in (tmp_path / "out" / "issue.md").read_text("utf-8")


def test_crash_of_an_engine_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine registers as that of another package would, so that a child process finds it."""
    info = tmp_path / "crashing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crashing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sliceport.engines]\nfaulty = planted_faults:CRASHING\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    engines.cache_clear()
    supervisor.end_idle()
    try:
        report = diff(save(CHAIN, tmp_path / "model.onnx"), on="faulty:crash=Sigmoid")
    finally:
        engines.cache_clear()
        supervisor.end_idle()
    assert names(report) == ["c"]
    failure = part_of(report).case.failure
    assert (failure.kind, failure.message) == ("crash", f"its process {ended_by('SIGABRT')}")


def test_node_that_no_output_needs_is_found(differ: Differ) -> None:
    report = differ("(float[3] x) => (y) { [a] y = Exp (x)  [b] z = Sin (x) }", refuse("Sin"))
    assert names(report) == ["b"]


def test_values_that_cannot_be_inputs_stay_inside(differ: Differ) -> None:
    graph = """(float[3] x) => (y) { [n] h = Neg (x)  [s] s = SequenceConstruct (x, h)
        [c] z = ConcatFromSequence <axis = 0> (s)  [d] y = Exp (z) }"""
    assert names(differ(graph, swap("d", "Abs"))) == ["d"]
    assert names(differ(graph, swap("c", "SequenceLength"))) == ["s", "c"]


@pytest.mark.parametrize("elements", ["string", "bfloat16", "float16", "int8"])
def test_moved_elements_of_any_type_are_compared(differ: Differ, elements: str) -> None:
    graph = f"({elements}[2,3] x) => (y) {{ [a] h = Identity (x)  [b] y = Flatten <axis = 1> (h) }}"

    def fault(proto: onnx.ModelProto) -> None:
        for node in proto.graph.node:
            del node.attribute[:]
            node.attribute.extend([onnx.helper.make_attribute("axis", 0)] * (node.name == "b"))

    report = differ(graph, fault)
    assert names(report) == ["b"]
    assert report.outputs[0].kind == "shape"


@pytest.mark.parametrize(
    "graph",
    [
        "(float[3] x, float[2] unused) => (y) { [a] y = Exp (x) }",
        "(float[3] x) => (float[3] x, y) { [a] y = Exp (x) }",
        "(float[3] x) => (y, w) <float[3] w = {1.0, 2.0, 3.0}> { [a] y = Mul (x, w) }",
        "(float x) => (y) { [a] y = Exp (x) }",
    ],
)
def test_unusual_inputs_and_outputs_are_compared(differ: Differ, graph: str) -> None:
    assert differ(graph, lambda _: None).is_equal
    assert names(differ(graph, swap("a", "Sub" if "Mul" in graph else "Neg"))) == ["a"]


def test_empty_outputs_are_equal(differ: Differ) -> None:
    assert differ("(float[0,3] x) => (y) { [a] y = Exp (x) }", swap("a", "Neg")).is_equal


ROW = np.arange(6, dtype=np.float32).reshape(2, 3)
TWO = "(float[2,3] x) => (y) { [a] h = Exp (x)  [b] k = Neg (h)  [c] y = Tanh (k) }"


def test_fault_in_the_first_model_is_searched_in_each_model_alone(differ: Differ, tmp_path: Path) -> None:
    other = save(CHAIN.replace("Add (c, x)", "Sum (c, x)"), tmp_path / "other.onnx")
    report = differ(CHAIN, fuse("Sigmoid", "Add", "Sub"), other=other)
    assert report.parts == ()
    assert report.notes[-1] == "compare each model alone: diff(model, on='faulty')"
    with command_line_spelling():
        report = differ(CHAIN, fuse("Sigmoid", "Add", "Sub"), other=other)
    commands = (join(["sliceport", "diff", str(path), "--on", "faulty"]) for path in (tmp_path / "model.onnx", other))
    assert report.notes[-1] == f"compare each model alone: {'; '.join(commands)}"


def test_advice_does_not_print_a_model_in_memory(differ: Differ, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.ModelProto, "__str__", lambda _: pytest.fail("this takes 30 s for 80 MB of weights"))
    report = differ(CHAIN, fuse("Sigmoid", "Add", "Sub"), other=parse(CHAIN.replace("Add (c, x)", "Sum (c, x)")))
    assert report.notes[-1] == "compare each model alone: diff(model, on='faulty')"


def test_equal_models_with_other_names_are_equal(tmp_path: Path) -> None:
    other = "(float[2,3] q) => (z) { [k] u = Exp (q)  [l] v = Neg (u)  [m] z = Tanh (v) }"
    assert compare_models(TWO, other, tmp_path).is_equal


def test_first_node_of_the_second_model_is_named(tmp_path: Path) -> None:
    other = "(float[2,3] q) => (z) { [i] s = Identity (q)  [k] u = Exp (s)  [l] v = Abs (q)  [m] z = Tanh (v) }"
    report = compare_models(TWO, other, tmp_path)
    assert names(report) == ["l", "m"]
    assert report.notes[0] == "matched 3 of 4 values of the second model: 2 by value, 1 different"


def test_numbered_names_match_by_value(tmp_path: Path) -> None:
    first = "(float[3] x) => (y) { [a] v1 = Exp (x)  [b] v2 = Neg (v1)  [c] v3 = Sin (v2)  [d] y = Tanh (v3) }"
    second = "(float[3] x) => (y) { [i] v1 = Sqrt (x) [a] v2 = Exp (x)  [b] v3 = Neg (v2)  [c] v4 = Cos (v3)"
    second += "[d] y = Tanh (v4) }"
    report = compare_models(first, second, tmp_path)
    assert names(report) == ["c"]


def test_node_of_a_renamed_model_is_found_alone(tmp_path: Path) -> None:
    """Values behind the fault have no equal ones, so that nodes are matched by what they read."""
    second = "(float[3,4] x, float[4] bias) => (y, z) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {"
    second += "[n1] p = Mul (x, w)  [n2] q = FAULT (p, bias)  [n3] r = Sigmoid (q)  [n4] s = Add (r, x)"
    second += "[n5] y = Tanh (s)  [n6] z = Neg (p) }"
    report = compare_models(CHAIN, second.replace("FAULT", "Sub"), tmp_path)
    assert names(report) == ["n2"]
    assert part_of(report).counterpart == "Add 'b'"
    assert compare_models(CHAIN, second.replace("FAULT", "Add"), tmp_path).is_equal


def test_body_of_another_format_is_matched_by_names_or_not_entered(tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    right = save(BODIES, tmp_path / "right.onnx")
    model = save_ir(ov.convert_model(right), tmp_path / "model.xml")
    wrong = save(BODIES.replace("Sin (m)", "Cos (m)"), tmp_path / "wrong.onnx")
    engine = "openvino-cpu:precision=f32"
    inputs = {"yes": np.array(True)}
    assert diff(right, model, against=engine, inputs=inputs).is_equal
    report = diff(wrong, model, against=engine, inputs=inputs)
    assert part_of(report).case.main_node.op_type == "Loop"
    assert part_of(report).case.culprit.op_type in ("Loop", "Sin")


@pytest.mark.parametrize("is_ir_first", [True, False])
@pytest.mark.parametrize(
    ("graph", "holder"),
    [
        (
            """(bool c, float[3] x, float[3] w) => (y) { [h] y = If (c) <
            then_branch = t () => (q) { [p] p = Sub (w, x)  [wrong] q = Mul (p, w) },
            else_branch = e () => (r) { [r] r = Abs (x) }> }""",
            "If",
        ),
        (
            """(bool c, float[3] x, float[3] w) => (y) <int64 n = {3}> { [h] y = Loop (n, c, x) <
            body = b (int64 i, bool d, float[3] s) => (k, t)
            { k = Identity (d)  f = Cast <to = 1> (i)  v = Add (s, f)  [wrong] t = Mul (v, w) }> }""",
            "Loop",
        ),
    ],
    ids=["If", "Loop"],
)
def test_body_with_other_names_is_matched_by_value(graph: str, holder: str, is_ir_first: bool, tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    right = save_ir(ov.convert_model(save(graph, tmp_path / "right.onnx")), tmp_path / "right.xml")
    text = right.read_text("utf-8")
    for body in re.findall(r"<(?:then_|else_)?body>.*?</(?:then_|else_)?body>", text, re.DOTALL):
        text = text.replace(body, re.sub(r'\b(names?)="', r'\1="inner_', body))
    right.write_text(text, "utf-8")
    wrong = save(graph.replace("Mul", "Sub"), tmp_path / "wrong.onnx")
    pair = [(right, "openvino-cpu:precision=f32"), (wrong, "onnxruntime-cpu")]
    (first, on), (second, against) = pair if is_ir_first else pair[::-1]
    report = diff(first, second, on=on, against=against, inputs={"c": np.array(True)})
    case = part_of(report).case
    assert case.main_node.op_type == holder
    assert case.culprit.op_type == ("Sub" if is_ir_first else "Multiply")
    assert "inner_" in (part_of(report).counterpart if is_ir_first else case.culprit.name)


def test_issue_names_a_counterpart_without_nodes(tmp_path: Path) -> None:
    first = "(float[2,3] x, float[2,3] b) => (y) { [n] y = Add (x, b) }"
    report = compare_models(first, "(float[2,3] x) => (y) { [w] b = Neg (x)  [n] y = Add (x, b) }", tmp_path)
    write(report, tmp_path / "out")
    assert names(report) == ["w"]
    sentence = "The expected values are those of the original model: an input or a constant."
    assert sentence in (tmp_path / "out" / "issue.md").read_text("utf-8")


def test_body_that_returns_an_input_is_entered(tmp_path: Path) -> None:
    graph = """(bool c, float[3] x) => (y) <int64 n = {2}> { [h] y = Loop (n, c, x) <
    body = b (int64 i, bool d, float[3] s) => (k, t) { k = Identity (d)  [wrong] t = Exp (s) }> }"""
    second = graph.replace("(k, t)", "(bool d, t)").replace("k = Identity (d)", "").replace("Exp", "Sin")
    report = compare_models(graph, second, tmp_path, inputs={"c": np.array(True)})
    assert names(report) == ["wrong"]


def test_body_that_reads_more_values_is_compared(tmp_path: Path) -> None:
    second = BODIES.replace("[l2] t = Sin (m)", "[l2] e = Cos (m)  [l4] t = Add (e, p)")
    report = compare_models(BODIES, second, tmp_path, inputs={"yes": np.array(True)})
    assert part_of(report).case.main_node.name == "loop"


def test_input_that_only_the_second_model_returns_is_refused(tmp_path: Path) -> None:
    graphs = "(float[2] x) => (float[2] y) { y = Identity(x) }", "(float[2] x) => (float[2] x) { y = Neg(x) }"
    with pytest.raises(UsageError, match="the second model returns its input 'x' as an output, but .* is 'y': "):
        compare_models(*graphs, tmp_path)


def test_models_with_other_inputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the models have different inputs: x and x, q"):
        compare_models(TWO, "(float[2,3] x, float[2] q) => (y) { [a] y = Exp (x) }", tmp_path)


def test_onnx_and_its_openvino_model_are_compared(tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    path = save(TWO, tmp_path / "model.onnx")
    ov.save_model(ov.convert_model(path), tmp_path / "model.xml", compress_to_fp16=False)
    assert diff(path, tmp_path / "model.xml").is_equal
    wrong = save(TWO.replace("Neg", "Abs"), tmp_path / "wrong.onnx")
    report = diff(wrong, tmp_path / "model.xml", against="openvino-cpu")
    assert [node.op_type for node in part_of(report).case.nodes] == ["Multiply"]  # OpenVINO writes Neg so


def test_recorded_outputs_are_compared(tmp_path: Path) -> None:
    report = diff(save(DROPPED, tmp_path / "model.onnx"), on="onnxruntime-cpu")
    write(report, tmp_path / "out")
    again = diff(tmp_path / "out" / "model.onnx", on="onnxruntime-cpu", against=str(tmp_path / "out"))
    assert not again.is_equal
    assert names(again) == ["i", "slice", "n"]
    right = diff(tmp_path / "out" / "model.onnx", on="onnxruntime-cpu:level=none", against=str(tmp_path / "out"))
    assert right.is_equal
    with pytest.raises(UsageError, match="recorded in '.*out'; give no input_shapes, "):
        diff(tmp_path / "model.onnx", on="onnxruntime-cpu", against=str(tmp_path / "out"), input_shapes={"x": (2,)})
    other = save("(float[2,3] q) => (z) { [k] z = Neg (q) }", tmp_path / "other.onnx")
    recorded = [(kind, onnx.numpy_helper.from_array(array)) for kind, array in (("input", ROW), ("output", -ROW))]
    for kind, tensor in recorded:
        (tmp_path / f"{kind}_0.pb").write_bytes(tensor.SerializeToString())
    first = save("(float[2,3] x) => (y) { [a] y = Neg (x) }", tmp_path / "first.onnx")
    assert diff(first, other, against=str(tmp_path)).is_equal
    (tmp_path / "output_0.pb").write_bytes(onnx.numpy_helper.from_array(ROW).SerializeToString())
    report = diff(first, other, against=str(tmp_path))
    assert report.notes[0].endswith("does not compute the recorded outputs")
    assert report.runs == 2  # of both models
    with pytest.raises(UsageError, match="give no input_shapes, open_sizes, inputs, seed or seeds"):
        diff(first, other, against=str(tmp_path), seed=3)


def record(folder: Path, *data_sets: tuple[Any, Any]) -> None:
    """Write data sets of an input and an output."""
    for i, arrays in enumerate(data_sets):
        (folder / f"test_data_set_{i}").mkdir()
        for kind, array in zip(("input", "output"), arrays, strict=True):
            tensor = onnx.numpy_helper.from_array(np.asarray(array, np.float32))
            (folder / f"test_data_set_{i}" / f"{kind}_0.pb").write_bytes(tensor.SerializeToString())


@pytest.mark.parametrize(
    ("data_sets", "status"),
    [
        ([([1, -2], [1, 0]), ([-3, -2], [0, 0])], "equal"),
        ([([-3, -2], [0, 0]), ([1, -2], [1, 0])], "equal"),
        ([([2, 2], [2, 2]), ([3, 3], [3, 3])], "equal"),  # either alone shows nothing
        ([([1, -2], [1, 0])] * 2, "equal"),
        ([([-3, -2], [0, 0])], "untested"),
        ([([-3, -2], [0, 0]), ([-4, -2], [0, 0])], "untested"),
        ([([1, -2], [1, 0]), ([-3, -2], [0, 5])], "different"),
    ],
)
def test_recorded_outputs_are_judged_over_all_data_sets(data_sets: Any, status: str, tmp_path: Path) -> None:
    model = save("(float[2] x) => (y) { [r] y = Relu (x) }", tmp_path / "model.onnx")
    record(tmp_path, *data_sets)
    report = diff(model, on="onnxruntime-cpu", against=str(tmp_path))
    assert [output.status for output in report.outputs] == [status]


def test_recorded_output_of_shapes_alone_shows_everything(tmp_path: Path) -> None:
    graph = "(float[n] x) => (y) { s = Shape (x)  y = ConstantOfShape <value = float[1] {3.0}> (s) }"
    record(tmp_path, ([1, 2], [3, 3]))
    report = diff(save(graph, tmp_path / "model.onnx"), on="onnxruntime-cpu", against=str(tmp_path))
    assert [output.status for output in report.outputs] == ["equal"]


@pytest.mark.parametrize("seeds", [0, 1.5, "2"])
def test_seeds_that_are_no_positive_integer_are_refused(seeds: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"seeds must be an integer from 1 up, got {seeds!r}"):
        compare_models(TWO, TWO, tmp_path, seeds=seeds)


def test_elements_of_a_sequence_may_be_rounded() -> None:
    actual, expected = (ROW,), (np.nextafter(ROW, np.float32(9)),)
    assert compare_values("s", actual, expected, tolerance_of(expected)).status == "close"


def test_infinite_numbers_are_text_in_json() -> None:
    compared = compare_values("y", ROW, ROW + 1, Tolerance(absolute=np.inf)).to_json()
    assert compared["tolerance"] == {"absolute": "inf", "relative": 0.0, "ulps": 0.0, "share": None}


def test_equal_infinities_of_complex_numbers_are_not_a_difference() -> None:
    infinite = complex(np.inf, np.inf)
    actual, expected = np.array([infinite, 1 + 1e-6]), np.array([infinite, 1])
    assert compare_values("y", actual, expected, Tolerance(1e-4)).status == "close"
    assert compare_values("y", -actual, expected, Tolerance(1e-4)).kind == "infinity"
    assert compare_values("s", actual, expected, EXACT).status == "different"
    assert compare_values("s", actual, actual, EXACT).status == "equal"


@pytest.mark.parametrize(
    ("element", "actual", "expected", "steps"),
    [("float64", -1, np.nextafter(-1, 0), 1), ("float8_e8m0fnu", 1, 2, 1), ("float4_e2m1fn", -0.5, 0.5, 2)],
)
def test_steps_between_floats_are_counted(element: str, actual: float, expected: float, steps: int) -> None:
    arrays = [np.array([value]).astype(np.dtype(element)) for value in (actual, expected)]
    assert compare_values("y", arrays[0], arrays[1], Tolerance(ulps=steps)).ulps == steps


def test_openvino_model_is_cut(models: Path) -> None:
    pytest.importorskip("openvino")
    report = diff(models / "rule_new_axis.xml", on="openvino-cpu")
    assert names(report) == ["row"]
    assert [defect.id for defect in part_of(report).defects] == ["new axis and shrink with entries left out"]


@pytest.mark.parametrize("engine", [CPU_PLUGIN, EVALUATE], ids=lambda engine: engine.name)
def test_onnx_input_that_openvino_drops_is_left_out(engine: ByEvaluate, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    path = save("(float[2] x, float[3] unused, float[2] z) => (y) { y = Sub (z, x) }", tmp_path / "m.onnx")
    assert diff(path, on=engine.name).is_equal
    arrays = {"x": [1, 2], "unused": [0, 0, 0], "z": [5, 7]}
    state: dict[str, Any] = {"path": path, "inputs": {name: np.array(a, np.float32) for name, a in arrays.items()}}
    exec(engine.script({"precision": "f32"}), state)
    assert state["got"][0].tolist() == [4, 5]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the faulty engine round to a narrower type unless it has an option."""

    def run(*arguments: Any) -> dict[str, Any]:
        outputs = original(*arguments)
        factor = 1 if "precision" in arguments[-1] else 1.01
        return {name: np.asarray(array) * factor for name, array in outputs.items()}

    original = Faulty.run_model
    monkeypatch.setattr(Faulty, "run_model", run)
    monkeypatch.setattr(Faulty, "exact_options", CPU_PLUGIN.exact_options, raising=False)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    "options", [{}, {"other": CHAIN, "against": "onnxruntime-cpu"}, {"other": CHAIN, "on": "onnxruntime-cpu"}]
)
def test_narrower_type_is_named_once(differ: Differ, tmp_path: Path, options: dict[str, Any]) -> None:
    if "other" in options:
        options = {"against": "faulty", **options, "other": save(CHAIN, tmp_path / "other.onnx")}
    report = differ(CHAIN, lambda _: None, **options)
    assert report.is_equal
    assert [output.status for output in report.outputs] == ["rounding", "rounding"]
    assert report.sentences == [
        "a narrower type decides, in which faulty computes by default on this machine: "
        "with faulty:precision=f32, all outputs are equal or close"
    ]


@pytest.mark.usefixtures("narrow")
def test_wrong_node_is_found_beside_a_narrower_type(differ: Differ) -> None:
    report = differ(CHAIN, swap("c", "Tanh"))
    assert [output.status for output in report.outputs] == ["different", "rounding"]
    assert [part.case.culprit.name for part in report.parts] == ["c"]
    assert str(part_of(report).bad) == "faulty:precision=f32"


def test_type_that_the_caller_asks_for_is_kept() -> None:
    given = side.Side(CPU_PLUGIN, {"precision": "bf16"})
    assert given.in_declared_types() == given


@pytest.mark.parametrize("engine", [CPU_PLUGIN, EVALUATE], ids=lambda engine: engine.name)
def test_onnx_input_that_openvino_renames_is_found_beside_one_that_it_drops(engine: ByEvaluate, tmp_path: Path) -> None:
    """OpenVINO gives the input of a Dropout the name of the Dropout's output."""
    pytest.importorskip("openvino")
    path = save("(bool c, float[N,2] x, float[3] u) => (y, z) { y = Dropout (x)  z = Exp (y) }", tmp_path / "m.onnx")
    assert diff(path, on=engine.name).is_equal
    path = save("(float[2] c, float[2] x) => (y, z) { y = Dropout (x)  z = Exp (y) }", tmp_path / "m.onnx")
    report = diff(path, on=engine.name)
    assert report.failures[0].message == "OpenVINO reads 1 inputs, but the model has 2"


def test_optimizer_is_blamed_beside_those_that_the_caller_disabled() -> None:
    causes = {"CastElimination", "PadFusion"}
    cause = ONNXRUNTIME_CPU.find_cause(
        {"disable": "PadFusion"},
        lambda options: options.get("level") != "none" and not causes <= {*options.get("disable", "").split("+")},
    )
    assert "the optimizer CastElimination is to blame" in cause


def test_budget_ends_the_search_with_the_best_case(differ: Differ, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side.Budget, "remaining", stop_after_12_runs)
    report = differ(chain_of(100), swap("n70", "Sub"), budget=1)
    assert 1 < len(part_of(report).case.nodes) < 100
    assert "may not be the smallest" in part_of(report).case.note
    with monkeypatch.context() as patch:
        patch.setattr(side.Budget, "remaining", lambda budget: stop_after_12_runs(budget, 8))
        report = differ(chain_of(100), swap("n70", "Sub"), budget=1)
    expected = "first node that differs: one of the 50 nodes from Add 'n50' to Add 'n99'"
    assert part_of(report).sentences_without_defects[0] == expected
    suspects = part_of(report).to_json()["suspects"]
    assert [suspect["name"] for suspect in suspects] == [f"n{i}" for i in range(50, 100)]
    monkeypatch.setattr(this_process, "deadline", time.monotonic() + 1000)  # as with --timeout
    monkeypatch.setattr(side.Budget, "remaining", lambda budget: budget.seconds and stop_after_12_runs(budget))
    assert "may not be the smallest" in part_of(differ(chain_of(100), swap("n70", "Sub"))).case.note


OUTPUTS = """(float[4] x) => (u, v, w) {
    [a] a = Exp (x)  [b] u = Neg (a)  [c] v = Tanh (a)  [d] d = Sin (x)  [e] w = Abs (d)
}"""


@pytest.mark.parametrize(
    ("second", "explained"),
    [(swap("d", "Cos"), [("u", "v"), ("w",)]), (swap("c", "Cos"), [("u",), ("v",)])],
    ids=["of another output", "behind the first"],
)
def test_second_fault_is_found(differ: Differ, second: Fault, explained: list[tuple[str, ...]]) -> None:
    report = differ(OUTPUTS, both(swap("a", "Sqrt"), second), inputs={"x": np.arange(1, 5, dtype=np.float32)})
    assert [part.case.culprit.name for part in report.parts] == ["a", "d" if ("w",) in explained else "c"]
    assert [part.explained for part in report.parts] == explained


def test_value_that_is_an_output_too_is_no_second_fault(differ: Differ, tmp_path: Path) -> None:
    graph = "(float[4] x) => (u, a) { [a] a = Exp (x)  [b] b = Neg (a)  [c] u = Tanh (b) }"
    for report in (differ(graph, swap("a", "Relu")), compare_models(graph, graph.replace("Exp", "Relu"), tmp_path)):
        assert [(part.case.culprit.name, part.explained) for part in report.parts] == [("a", ("u", "a"))]


def test_second_fault_within_the_tolerance_of_another_output_is_found(differ: Differ) -> None:
    fault = both(swap("b", "Abs"), swap("c", "Softsign"))
    report = differ(OUTPUTS, fault, tolerance={"u": Tolerance(0.5)})
    assert [part.case.culprit.name for part in report.parts] == ["b", "c"]


def test_script_for_directml_fails_without_directml(tmp_path: Path) -> None:
    loading = "import onnx\npath, inputs = 'model.onnx', {'x': __import__('numpy').ones(1, 'f')}\n"
    save("(float[1] x) => (float[1] y) { y = Neg(x) }", tmp_path / "model.onnx")
    (tmp_path / "run.py").write_text(loading + ONNXRUNTIME_DML.script({}))
    assert "this onnxruntime has no DirectML" in run_saved(tmp_path).stderr


def test_each_differing_output_of_two_models_is_searched(tmp_path: Path) -> None:
    second = OUTPUTS.replace("Exp", "Relu").replace("Sin", "Cos")
    report = compare_models(OUTPUTS, second, tmp_path)
    assert [part.case.culprit.name for part in report.parts] == ["a", "d"]
    assert [part.explained for part in report.parts] == [("u", "v"), ("w",)]
    write(report, tmp_path / "out")
    for folder in (tmp_path / "out", tmp_path / "out" / "2"):
        done = run_saved(folder)
        assert "differs" in done.stdout, done.stderr
    write(report, tmp_path / "out", overwrite=True)


def test_tolerance_of_one_output_leaves_others_alone(differ: Differ) -> None:
    fault = swap("a", "Sqrt")
    inputs = {"x": np.arange(1, 5, dtype=np.float32)}
    report = differ(OUTPUTS, fault, inputs=inputs, tolerance={"u": Tolerance(1e3)})
    assert [output.status for output in report.outputs] == ["close", "different", "equal"]
    report = differ(OUTPUTS, fault, inputs=inputs, tolerance={"u": EXACT, "": Tolerance(1e3)})
    assert report.outputs[1].status == "close"
    with pytest.raises(UsageError, match="a tolerance is given for 'q', but the outputs are u, v, w"):
        differ(OUTPUTS, fault, tolerance={"q": EXACT})


def test_difference_that_fades_and_grows_again_is_found(tmp_path: Path) -> None:
    """The value between them is close, so that the fault lies behind a value that matches."""
    graph = """(float[4] x) => (y) <float small = {1e-7}, float large = {1e6}> {
        [a] a = Exp (x)  [b] b = Mul (a, small)  [c] c = Mul (b, large)  [d] y = Tanh (c) }"""
    for fault in ("Relu (x)", "Softplus (x)"):
        report = compare_models(graph, graph.replace("Exp (x)", fault), tmp_path)
        assert names(report) == ["a"]


def test_values_of_two_models_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut from the inputs to each value would hand over the same weights again and again."""
    handed: list[int] = []
    run = side.Side.try_run

    def count(self: side.Side, model: Any, inputs: Any, places: Any = None) -> Any:
        handed.append(sum(len(node.op_type) > 0 for node in onnx.ModelProto.FromString(model.data).graph.node))
        return run(self, model, inputs, places)

    monkeypatch.setattr(side.Side, "try_run", count)
    length = 300
    first = chain_of(length)
    report = compare_models(first, first.replace("v201 = Add", "v201 = Sub"), tmp_path)
    assert names(report) == ["n200"]
    assert 0 < sum(handed) < 10 * length


def save_ir(model: Any, path: Path) -> Path:
    import openvino as ov

    ov.save_model(model, path, compress_to_fp16=False)
    return path


@pytest.mark.parametrize(
    ("graph", "right", "wrong", "scope"),
    [
        (BODIES, "Add (h, x)", "Sub (h, x)", "If 'pick', then_branch"),
        (BODIES, "Sin (m)", "Cos (m)", "Loop 'y', iteration 0"),
        (SCAN, "Add (s, w)", "Sub (s, w)", "TensorIterator 'all', iteration 0"),
        (SCAN, "Mul (v, v)", "Mul (v, s)", "TensorIterator 'all', iteration 1"),
    ],
)
def test_bodies_of_ir_are_entered(graph: str, right: str, wrong: str, scope: str, tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    texts = (graph, graph.replace(right, wrong))
    paths = [
        save_ir(ov.convert_model(save(t, tmp_path / f"{i}.onnx")), tmp_path / f"{i}.xml") for i, t in enumerate(texts)
    ]
    x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    inputs = {"yes": np.array(True)} if graph == BODIES else {"x": x, "start": x[0]}
    report = diff(*paths, on="openvino-cpu:precision=f32", inputs=inputs)
    assert part_of(report).case.scope == (scope,)
    assert part_of(report).case.culprit.op_type in ("Subtract", "Cos", "Multiply")


def test_recorded_outputs_of_ir_are_compared(models: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    write(diff(models / "rule_new_axis.xml", on="openvino-cpu"), tmp_path / "out")
    model = tmp_path / "out" / "model.xml"
    again = diff(model, on="openvino-cpu", against=str(tmp_path / "out"))
    assert names(again) == ["row"]
    assert diff(model, on="openvino", against=str(tmp_path / "out")).is_equal
    (tmp_path / "out" / "output_0.npy").unlink()
    with pytest.raises(UsageError, match=r"output_0\.npy' cannot be read"):
        diff(model, on="openvino", against=str(tmp_path / "out"))


def test_ir_outputs_that_are_one_value_or_a_constant_are_compared(tmp_path: Path) -> None:
    ov = pytest.importorskip("openvino")
    from openvino import opset13 as op

    x = op.parameter([3], np.float32, name="x")
    y = op.exp(x)
    constant = op.constant(np.arange(3, dtype=np.float32))
    model = save_ir(ov.Model([op.result(v) for v in (constant, y, y, x)], [x], "m"), tmp_path / "m.xml")
    report = diff(model, on="openvino-cpu")
    assert report.is_equal
    assert len(report.outputs) == 3


def test_search_goes_on_where_it_ended(differ: Differ, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph = chain_of(100)
    whole = differ(graph, swap("n70", "Sub")).runs
    reports = []
    with monkeypatch.context() as patch:
        patch.setattr(side.Budget, "remaining", stop_after_12_runs)
        reports += [differ(graph, swap("n70", "Sub"), resume=tmp_path / "runs") for _ in range(2)]
    (tmp_path / "runs" / "x.part").write_bytes(b"PK")
    reports += [differ(graph, swap("n70", "Sub"), resume=tmp_path / "runs") for _ in range(2)]
    assert [len(names(report)) for report in reports][2:] == [1, 1]
    assert reports[2].runs < whole - 12
    assert reports[3].runs <= 4  # whether the outputs are the same in each run is always tried
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file' cannot be made"):
        differ(graph, swap("n70", "Sub"), resume=tmp_path / "file")


def test_runs_of_ir_are_kept(models: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    first, second = (diff(models / "rule_new_axis.xml", on="openvino-cpu", resume=tmp_path / "runs") for _ in range(2))
    assert second.runs <= 2 < first.runs
    assert second.outputs == first.outputs


def test_kept_outputs_are_the_same(differ: Differ, tmp_path: Path) -> None:
    graph = """(bfloat16[2] x, string[1] s, int8[0,3] e) => (y, t, f, "a/b.npy") {
        y = Identity (x)  t = Identity (s)  f = Neg (e)  "a/b.npy" = Shape (x) }"""
    for graph_ in (graph, graph.replace(", t", "").replace("t = Identity (s)", "")):
        reports = [differ(graph_, lambda _: None, resume=tmp_path / "runs") for _ in range(2)]
        assert reports[0].outputs == reports[1].outputs
        assert reports[1].is_equal


def test_few_elements_are_compared_on_several_inputs(tmp_path: Path) -> None:
    """On random inputs, the probability is nearly 0 with both weights."""
    graph = """(float[1,64] x) => (float[1,1] y) <float w = {{{}}}, float b = {{6}}, int64[1] axis = {{1}}> {{
        a = Abs (x)  s = ReduceMean (a, axis)  p = Mul (s, w)  q = Sub (b, p)  y = Sigmoid (q) }}"""
    paths = [save(graph.format(weight), tmp_path / f"{weight}.onnx", 18) for weight in (20, 22)]
    report = diff(*paths)
    assert [output.status for output in report.outputs] == ["different"]
    assert diff(paths[0], paths[0]).is_equal


def test_few_elements_of_two_models_are_compared_at_larger_sizes(tmp_path: Path) -> None:
    graph = "(float[n] x) => (float y) {{ s = Slice (x, a, b)  y = ReduceSum <keepdims = 0> (s) }}"
    constants = "<int64[1] a = {{0}}, int64[1] b = {{{}}}>"
    paths = [
        save(graph.format().replace("{ s", constants.format(end) + " { s", 1), tmp_path / f"{end}.onnx", 18)
        for end in (10, 11)
    ]
    report = diff(*paths)
    assert [output.status for output in report.outputs] == ["different"]
    assert report.input_shapes["x"][0] > 10
    assert diff(*paths, input_shapes={"x": (9,)}).is_equal  # sizes that are given stay


def test_other_sizes_are_tried_if_the_engine_refuses_the_chosen_ones(
    differ: Differ, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Faulty.run_model

    def run(self: Faulty, model: Any, inputs: Any, options: Any) -> Any:
        if self.name == "faulty" and inputs["x"].shape[-1] < 60:
            raise ModelError("the kernel is larger than the data.")
        return original(self, model, inputs, options)

    monkeypatch.setattr(Faulty, "run_model", run)
    report = differ("(float[n, m] x) => (y) { y = Neg (x) }", lambda _: None)
    assert report.is_equal
    assert report.input_shapes["x"][-1] >= 60
    assert report.notes[0].startswith(
        "with x [2, 23], faulty does not run the model (the kernel is larger than the data); compared with x ["
    )
    report = differ("(float[n, m] x) => (y) { y = Neg (x) }", lambda _: None, input_shapes={"x": (2, 23)})
    assert report.failed
