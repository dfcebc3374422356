"""Options of onnxruntime's CPU provider as an engine of `diff`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import Invoke
from onnx_models import parse, save

from onnx_ops.engines import ONNX_REFERENCE, ONNXRUNTIME_CPU
from onnx_ops.running import session
from onnx_ops.running.onnx_graph import OnnxGraph
from onnx_ops.running.verify import verify_rewriting
from sliceport import diff
from sliceport.engines.engine import Value, WholeModel
from sliceport.engines.side import read_side

CASES = {
    "bodies": """(float[n] x, bool c) => (y, i) <int64[1] one = {1}> {
        i = If (c) <then_branch = t () => (p) { p = Mul (x, x) }, else_branch = e () => (q) { q = Neg (x) }>
        y = Add (i, x) }""",
    "sequences": """(float[n] x, bool c) => (y, s) {
        a = Neg (x)  s = SequenceConstruct (a, x)  k = Constant <value_int = 1> ()
        b = SequenceAt (s, k)  y = Add (a, b) }""",
    "shapes": """(float[n] x, bool c) => (y) <int64[1] two = {2}> {
        s = Shape (x)  t = Concat <axis = 0> (two, s)  y = Expand (x, t) }""",
    "inputs and constants": """(float[n] x, bool c) => (x, w, y) <float[2] w = {3.0, 5.0}> { y = Neg (x) }""",
}
LIBRARY = """
/* my.domain::Foo adds 1 to floats. The numbers are positions in OrtApi, which only ever grows at its end. */
#include <stddef.h>
#include <stdint.h>
typedef void *(*Function)();
typedef struct { const Function *(*get_api)(uint32_t); } Base;
static const Function *api;
static void *create() { return &api; }
static const char *name() { return "Foo"; }
static const char *provider() { return NULL; }
static int type() { return 1; }
static size_t count() { return 1; }
static int required() { return 0; }
static void destroy(void *kernel) {}
static void compute(void *kernel, void *context) {
    void *x, *y, *info;
    float *source, *target;
    size_t rank, size, i;
    int64_t shape[8];
    api[90](context, (size_t)0, &x);
    api[65](x, &info);
    api[61](info, &rank);
    api[62](info, shape, rank);
    api[64](info, &size);
    api[91](context, (size_t)0, shape, rank, &y);
    api[51](x, &source);
    api[51](y, &target);
    for (i = 0; i < size; i++) target[i] = source[i] + 1;
}
static struct { uint32_t version; void *functions[11]; } op = {
    10, {create, name, provider, type, count, type, count, compute, destroy, required, required}};
void *RegisterCustomOps(void *options, const Base *base) {
    void *domain;
    api = base->get_api(10);
    api[26]("my.domain", &domain);
    api[27](domain, &op);
    return api[28](options, domain);
}
"""
CUSTOM = """(float[2,8] x) => (y, z)
    <float[2,8] f, int64[1] s = {1}, int64[1] e = {7}, int64[1] m = {4}, int64[1] a = {1}, int64[1] n = {9}> {
    f = my.domain.Foo (x)  g = Slice (f, s, e, a)  z = Slice (g, s, m, a)  y = Slice (f, s, n, a) }"""


def quantized() -> onnx.ModelProto:
    """Return a MatMulNBits that rounds its input to int8 only if its weights are prepacked."""
    random = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {
        "b": random.integers(0, 256, (8, 1, 16)).astype(np.uint8),
        "scales": random.random(8, np.float32),
    }
    attributes: dict[str, Any] = {"K": 32, "N": 8, "bits": 4, "block_size": 32, "accuracy_level": 4}
    node = onnx.helper.make_node("MatMulNBits", ["x", *weights], ["y"], "q", domain="com.microsoft", **attributes)
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [3, size]) for name, size in (("x", 32), ("y", 8)))
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph([node], "g", [x], [y], initializers)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("graph", CASES.values(), ids=CASES)
def test_model_runs_node_by_node(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def run(model: WholeModel, inputs: dict[str, Any], **options: Any) -> dict[str, Value]:
        counts.append(len(OnnxGraph(onnx.ModelProto.FromString(model.data)).nodes))
        return original(model, inputs, **options)

    original = session.run
    monkeypatch.setattr(session, "run", run)
    whole = OnnxGraph(parse(graph)).whole()
    inputs = {"x": np.array([1, -2, 3, 4], np.float32), "c": np.array(True)}
    expected = ONNXRUNTIME_CPU.run_model(whole, inputs, {"level": "none"})
    node_count = counts.pop()
    computed = ONNXRUNTIME_CPU.run_model(whole, inputs, {"nodes": "yes"})
    assert repr(computed) == repr(expected)
    assert len(counts) >= node_count
    assert max(counts) <= (2 if "Sequence" in graph else 1)


@pytest.mark.parametrize(
    "graph",
    [
        "(float[2,3] x) => (string[2,3] y) { y = Cast <to = 8> (x) }",
        "(float[2,3] x) => (optional(float[2,3]) y) { y = Optional (x) }",
        "(float[2,3] x) => (optional(float[2,3]) y) { o = Optional (x)  y = Identity (o) }",
        "(float[2,3] x) => (optional(seq(float[1,3])) y) { s = SplitToSequence (x)  y = Optional (s) }",
    ],
)
def test_reference_computes_strings_and_optionals_like_onnxruntime(graph: str) -> None:
    whole = OnnxGraph(parse(graph)).whole()
    inputs = {"x": np.arange(0.5, 6.5, dtype=np.float32).reshape(2, 3)}
    assert repr(ONNX_REFERENCE.run_model(whole, inputs, {})) == repr(ONNXRUNTIME_CPU.run_model(whole, inputs, {}))


def test_wrong_optimizer_is_seen_against_single_nodes(tmp_path: Path) -> None:
    """EliminateSlice drops a Slice with steps whose axes are omitted, also in a model of this Slice alone."""
    path = save(
        """(float[6] x) => (y) <int64[1] s = {0}, int64[1] e = {9223372036854775807}, int64[1] two = {2}> {
        a = Neg (x)  b = Slice (a, s, e, , two)  y = Neg (b) }""",
        tmp_path / "m.onnx",
    )
    report = diff(path, on="onnxruntime-cpu", against="onnxruntime-cpu:nodes")
    assert not report.is_equal
    assert report.against.startswith("onnxruntime-cpu:nodes ")


def test_prepacking_is_blamed_before_optimizers(tmp_path: Path) -> None:
    onnx.save(quantized(), tmp_path / "m.onnx")
    for on in ("onnxruntime-cpu", "onnxruntime-cpu:level=none,prepack"):
        report = diff(tmp_path / "m.onnx", on=on, against="onnxruntime-cpu:level=none")
        assert report.part is not None
        assert report.part.cause.startswith("prepacking decides, not graph optimisation: with prepack=no ")
    for on in ("onnxruntime-cpu:prepack=no", "onnxruntime-cpu:level=none,prepack=no,nodes"):
        assert diff(tmp_path / "m.onnx", on=on, against="onnxruntime-cpu:level=none").is_equal
    assert diff(tmp_path / "m.onnx", on="onnxruntime-cpu", against="onnxruntime-cpu:nodes").is_equal


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library with the operator `my.domain::Foo`."""
    compiler = shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("gcc for Linux is not here")
    path = tmp_path_factory.mktemp("library") / "foo.so"
    source = path.with_suffix(".c")
    source.write_text(LIBRARY)
    subprocess.run([compiler, "-std=gnu11", "-w", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    return save(parse(CUSTOM, **{"my.domain": 1}), tmp_path / "m.onnx")


def test_custom_operators_run(custom: Path, library: Path) -> None:
    engine = f"onnxruntime-cpu:custom_ops={library}"
    whole = OnnxGraph(onnx.load(custom)).whole()
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    outputs = read_side(engine, "onnx", "--on").run(whole, {"x": x})
    assert np.array_equal(np.asarray(outputs["y"]), x[:, 1:] + 1)
    assert diff(custom, on=engine, against=f"{engine},level=none").is_equal
    assert diff(custom, on=engine, against=f"{engine},nodes").is_equal


@pytest.mark.parametrize(
    "words",
    [("diff", "--on", "onnxruntime-cpu"), ("compare", "--executors", "dml-emulator")],
    ids=lambda words: words[0],
)
def test_comparisons_take_custom_operators(words: tuple[str, ...], custom: Path, library: Path, invoke: Invoke) -> None:
    command, *options = words
    assert "my.domain" in invoke(command, custom, *options, code=2).err
    invoke(command, custom, *options, "--custom-ops", library)


@pytest.mark.parametrize("words", [("rewrite",), ("harden", "--target", "portable")], ids=lambda words: words[0])
def test_verifications_take_custom_operators_or_leave_them_out(
    words: tuple[str, ...], custom: Path, library: Path, invoke: Invoke, tmp_path: Path
) -> None:
    command = (*words, custom, "--verify", "--overwrite", "-o", tmp_path / "o.onnx")
    without = "compared without the nodes of custom operators, on random values in place of their outputs, "
    assert without in invoke(*command).out
    assert without not in invoke(*command, "--custom-ops", library).out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("y = Slice (f, s, n, a)", "y = Slice (f, s, e, a)", "output 'y' differs"),
        ("Foo (x)", "Foo (v)  v = Neg (x)", "output 'f, input 0' differs"),
    ],
)
def test_change_beside_custom_operators_is_compared(old: str, new: str, message: str) -> None:
    before, after = (parse(text, **{"my.domain": 1}) for text in (CUSTOM, CUSTOM.replace(old, new)))
    result = verify_rewriting(before, after)
    assert message in result.to_json()["differences"][0]


def test_library_that_cannot_be_loaded_is_named(custom: Path, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library")
    for name in ("missing.so", "text.so"):
        path = tmp_path / name
        error = invoke("diff", str(custom), "--on", "onnxruntime-cpu", "--custom-ops", str(path), code=2).err
        assert error.startswith(f"sliceport: the library of custom operators '{path}' cannot be loaded: ")
        assert error.count("\n") == 1
