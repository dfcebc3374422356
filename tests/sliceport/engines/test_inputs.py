"""Sizes and values that a model runs with are found without being asked for, and more inputs show more of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx_models import parse, save

from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.runnable import Runnable, read_complete_model
from sliceport.engines.inputs import FoundInputs, find_inputs_that_run, more_inputs
from sliceport.engines.sizes import InputShapes
from sliceport.errors import ModelError, UsageError
from sliceport.verdict.verification import Trial, Verifier

STRIDED = """(float[n,3,h,w] x) => (y) <float[4] scales = {1, 1, 7, 7}> {
    small = MaxPool <kernel_shape = [7, 7], strides = [7, 7]> (x)
    large = Resize <mode = "nearest"> (small, , scales)  y = Add (large, x)
}"""
TABLE = f"float[9,4] table = {{{', '.join(map(str, range(36)))}}}"
DECODER = f"""(int64[batch,seq] ids, int64[batch,total] mask, float[batch,past,4] kv) => (y) <
    {TABLE}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] zero = {{0}}, int64[1] four = {{4}}> {{
    words = Gather (table, ids)  all = Concat <axis = 1> (kv, words)
    flags = Cast <to = 1> (mask)  column = Unsqueeze (flags, two)  masked = Mul (all, column)
    sums = ReduceSum <keepdims = 0> (mask, one)  most = ReduceMax <keepdims = 1> (sums)
    shape = Concat <axis = 0> (zero, most, four)  y = Reshape (masked, shape)
}}"""
"""The mask covers the past and the new words. It must be 1, because the last Reshape sums it up."""
RATE = """(float[n,samples] x, int64 sr) => (y) <int64 rate = {16000}, int64[2] shape = {-1, 512}, int64[1] bad = {7}> {
    is_rate = Equal (sr, rate)
    y = If (is_rate) <then_branch = t () => (a) { a = Reshape (x, shape) },
                      else_branch = e () => (b) { b = Reshape (x, bad) }>
}"""
"""A model of 16000 samples in a second, in windows of 512."""


def read(graph: str, folder: Path) -> Runnable:
    return read_complete_model(save(parse(graph, 13), folder / "m.onnx"))


def find(graph: str, folder: Path, shapes: InputShapes | None = None, seed: int = 0) -> FoundInputs:
    return find_inputs_that_run(read(graph, folder), onnxruntime_cpu.side(), shapes or {}, {}, seed)


def test_given_shapes_are_kept_and_only_other_sizes_are_chosen(tmp_path: Path) -> None:
    found = find("(float[n,m] x, float[m] y) => (z) { z = Add (x, y) }", tmp_path, {"y": (7,)})
    assert (found.sizes.chosen, found.sizes.shapes) == ({"x": (2, 7)}, {"x": (2, 7), "y": (7,)})


@pytest.mark.parametrize(
    ("graph", "chosen"),
    [
        ("(float[n,6] x) => (a, b, c) { a, b, c = Split <axis = 0> (x) }", {"x": (3, 6)}),
        ("(float[n,4] x) => (y) <int64[2] s = {1, 4}> { y = Reshape (x, s) }", {"x": (1, 4)}),
        (STRIDED, {"x": (2, 3, 14, 21)}),
        ("(float[n,m] x) => (y) <int64[3] s = {0, 5, 48}> { y = Reshape (x, s) }", {"x": (2, 240)}),
        ("(float[n,k] x, float[n,m] y) => (z) { z = Add (x, y) }", {"x": (2, 23), "y": (2, 23)}),
        ("(float[n,s] x) => (y) { y = AveragePool <kernel_shape = [400], strides = [1]> (z)  z = Unsqueeze (x, one) }"
         .replace("=> (y) {", "=> (y) <int64[1] one = {1}> {"), {"x": (2, 512)}),
        ("(float[a,b] x) => (y) <int64 one = {1}> { s = Shape (x)  y = Expand (one, s) }", {"x": (2, 23)}),
        ("(float[] x) => (y) { y = Transpose <perm = [0, 2, 1]> (x) }", {"x": (2, 23, 29)}),
    ],
    ids=["parts", "batch of 1", "strides", "product", "equal sizes", "sound", "primes", "rank"],
)  # fmt: skip
def test_sizes_are_found_that_the_arithmetic_asks_for(
    graph: str, chosen: Mapping[str, tuple[int, ...]], tmp_path: Path
) -> None:
    assert find(graph, tmp_path).sizes.chosen == chosen


def test_inputs_of_a_decoder_fit_each_other_with_and_without_a_past(tmp_path: Path) -> None:
    model, side = read(DECODER, tmp_path), onnxruntime_cpu.side()
    runs = Verifier(model, model, side).make_runs({}, {}, 0)
    sizes = {tuple(run.inputs[name].shape[1] for name in model.inputs) for run in runs}
    assert {(23, 52, 29), (5, 12, 7), (1, 2, 1), (23, 23, 0)} <= sizes
    for run in runs:
        assert (run.inputs["mask"] == 1).all()
        assert run.inputs["ids"].max() > 1 or run.inputs["ids"].size < 9
        assert len({array.shape[0] for array in run.inputs.values()}) == 1


def test_scalar_takes_the_constant_that_it_is_compared_with_and_others_later(tmp_path: Path) -> None:
    found = find(RATE, tmp_path)
    assert (int(found.arrays["sr"]), found.sizes.chosen) == (16000, {"x": (2, 1024)})
    assert find(RATE, tmp_path, seed=1).arrays["sr"] == 16000
    other = find(RATE.replace("bad)", "shape)"), tmp_path, seed=1)
    assert other.arrays["sr"] != 16000
    assert find(RATE.replace("bad)", "shape)").replace("Equal", "Less"), tmp_path, seed=2).arrays["sr"] == 16000


@pytest.mark.parametrize("step", [1, -1])
def test_random_bounds_of_a_slice_select_something(step: int, tmp_path: Path) -> None:
    constants = f"int64[2] axes = {{0, 1}}, int64[2] by = {{{step}, {step}}}"
    graph = f"(float[a,6] x, int64[2] s, int64[2] e) => (y) <{constants}> {{ y = Slice (x, s, e, axes, by) }}"
    for seed in range(5):
        (output,) = find(graph, tmp_path, seed=seed).outputs.values()
        assert isinstance(output, np.ndarray)
        assert output.size


@pytest.mark.parametrize(
    ("graph", "name", "low", "high"),
    [
        ("(float[a,6] x, int64[50] i) => (y) { y = Gather (x, i) }", "i", 0, 2),
        ("(float[a,6] x, int64[2,6] i) => (y) { y = GatherElements <axis = -1> (x, i) }", "i", 0, 6),
        ("(float[a,6] x, int64[50,2] i) => (y) { y = GatherND (x, i) }", "i", 0, 2),
        ("(float[4,a] x, int64[1] k) => (y, i) { y, i = TopK (x, k) }", "k", 1, 24),
        ("(float[3,3] x, int64[2] k) => (y) { y = Tile (x, k) }", "k", 1, 5),
        ("(float[7] x, int64[3] k) => (a, b, c) { a, b, c = Split (x, k) }", "k", 0, 8),
    ],
)
def test_random_integers_are_within_what_they_index_or_count(
    graph: str, name: str, low: int, high: int, tmp_path: Path
) -> None:
    drawn = [find(graph, tmp_path, seed=seed) for seed in range(8)]
    assert {found.tried for found in drawn} == {1}
    values = np.concatenate([found.arrays[name].ravel() for found in drawn])
    assert low <= values.min() < values.max() < high


def test_model_that_runs_on_no_inputs_is_told_with_what_was_tried(tmp_path: Path) -> None:
    graph = "(float[n,3] x, int64[2] s) => (y) <int64[1] bad = {5}> { z = Reshape (s, bad)  y = Add (x, x) }"
    message = (
        r"^onnxruntime-cpu does not run the model with x \[2, 3\] or with \d+ other choices of sizes and values "
        r"\(.*Reshape node.*\); give input_shapes={'x': \(1, 3\)} or inputs={'s': …}\.$"
    )
    with pytest.raises(ModelError, match=message):
        find(graph, tmp_path)
    with pytest.raises(UsageError, match="the model has no input 'q' to give a shape to"):
        find(graph, tmp_path, {"q": (1,)})


def test_more_inputs_have_other_scales_and_forms(tmp_path: Path) -> None:
    graph = """(float[n,9] x, float low, float high, int64[3] i, float[2] given) => (y) {
        a = Add (x, low)  b = Add (a, high)  c = Cast <to = 1> (i)  d = ReduceSum (c)  e = ReduceSum (given)
        f = Add (b, d)  y = Add (f, e)
    }"""
    model, given = read(graph, tmp_path), np.array([5, 7], np.float32)
    shapes, arrays = {"x": (4, 9), "given": (2,)}, {"given": given}
    first = model.make_inputs(arrays, shapes, 0, 0)
    more = list(more_inputs(model, shapes, arrays, 0))
    assert [inputs.keys() for inputs in more] == [first.keys()] * len(more)
    assert all(inputs["given"] is given for inputs in more)
    assert all(inputs[name].dtype == first[name].dtype for inputs in more for name in first)

    def ranges(name: str) -> list[tuple[float, float]]:
        return [(float(inputs[name].min()), float(inputs[name].max())) for inputs in more]

    largest = [max(map(abs, each)) for each in ranges("x")]
    assert min(largest) < 0.1
    assert max(largest) > 100
    assert any(low >= 0 and 0.9 < high <= 1 for low, high in ranges("x"))
    assert any(low >= 0 and 200 < high <= 255 for low, high in ranges("x"))
    assert any((inputs["x"] == 0).mean() > 0.5 for inputs in more)
    assert max(high for _, high in ranges("i")) > 100
    assert any(0 < inputs["low"] < inputs["high"] for inputs in more)


def test_model_without_inputs_has_no_more_of_them(tmp_path: Path) -> None:
    assert list(more_inputs(read("() => (y) { y = Constant <value_int = 1> () }", tmp_path), {}, {}, 0)) == []


def test_sizes_of_a_verification_are_in_its_json(tmp_path: Path) -> None:
    model, side = read("(float[n,3] x) => (y) { y = Neg (x) }", tmp_path), onnxruntime_cpu.side()
    verifier = Verifier(model, model, side)
    verification = verifier.compare(verifier.make_runs({}, {}, 0), [Trial("on the CPU", side)])
    assert verification.to_json()["input_shapes"] == {"x": [2, 3]}
