"""`ov_ext::StridedSlice` in ONNX: schema, inference, function, reference evaluator, and what they are lowered to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from amounts import amount
from command_line import Invoke
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_models import parse
from platforms import needs_custom_inference
from running import as_arrays
from sessions import open_session
from strategies import shapes, strided_slice_specs

import sliceport
from onnx_ops import strided_slice_op
from onnx_ops.model.io import from_proto
from onnx_ops.passes import ExpandStridedSlicePass, rewrite
from onnx_ops.running.compare import compare
from sliceport.errors import InvalidSlice, UsageError
from sliceport.slicing import Masks, StridedSliceSpec, as_slice
from sliceport.slicing.masks import MASK_ATTRIBUTES


@pytest.fixture
def registered() -> Iterator[None]:
    strided_slice_op.register()
    yield
    strided_slice_op.deregister()


def model(
    spec: StridedSliceSpec,
    shape: Sequence[int | None] | None,
    *,
    run_time: bool = False,
    opset: int = 17,
    index: npt.DTypeLike = np.int64,
    after: Sequence[onnx.NodeProto] = (),
) -> onnx.ModelProto:
    lists = {"begin": spec.begin, "end": spec.end} | ({} if spec.strides is None else {"strides": spec.strides})
    arrays = {name: np.array(values, index) for name, values in lists.items()}
    masks: dict[str, Any] = {name: list(mask) for name, mask in spec.masks.attributes.items() if mask}
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT32, shape)]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(index))
    inputs += [helper.make_tensor_value_info(name, kind, [len(a)]) for name, a in arrays.items()] if run_time else []
    graph = helper.make_graph(
        [helper.make_node("StridedSlice", ["x", *arrays], ["y"], "s", domain="ov_ext", **masks), *after],
        "g",
        inputs,
        [helper.make_tensor_value_info("z" if after else "y", TensorProto.INT32, None)],
        [] if run_time else [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ov_ext", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def data(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


def expected(spec: StridedSliceSpec, x: np.ndarray) -> np.ndarray:
    region = spec.resolve(x.shape)
    return x[tuple(map(as_slice, region.ranges))].reshape(region.output_shape)


def embedded(proto: onnx.ModelProto) -> onnx.ModelProto:
    held = from_proto(proto)
    assert strided_slice_op.embed_function(held)
    assert not strided_slice_op.embed_function(held)
    return ir.serde.serialize_model(held)


def run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    # Before 1.25, the constant folding of onnxruntime is wrong of empty axes.
    session = open_session(proto, optimized=tuple(map(int, ort.__version__.split(".")[:2])) >= (1, 25))
    return as_arrays(session.run(None, feeds))[0]


def inferred(proto: onnx.ModelProto) -> list[int | None] | None:
    found = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    kind = found.graph.output[0].type.tensor_type
    dims = kind.shape.dim if kind.HasField("shape") else None
    return None if dims is None else [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]


@st.composite
def cases(draw: st.DrawFn) -> tuple[StridedSliceSpec, tuple[int, ...]]:
    shape = draw(shapes(max_rank=4, max_size=4, min_rank=0))
    spec = draw(strided_slice_specs(len(shape)))
    if spec.strides is not None:  # onnx's and onnxruntime's own Slice cannot take steps near the greatest integer
        near = tuple(max(-100, min(step, 100)) or 1 for step in spec.strides)
        spec = StridedSliceSpec(spec.begin, spec.end, near, spec.masks)
    return spec, shape


@settings(max_examples=amount(60), suppress_health_check=list(HealthCheck))
@given(cases())
def test_function_reference_and_expansion_agree(case: tuple[StridedSliceSpec, tuple[int, ...]]) -> None:
    spec, shape = case
    x = data(shape)
    feeds = {"x": x, "begin": np.array(spec.begin, np.int64), "end": np.array(spec.end, np.int64)}
    feeds |= {} if spec.strides is None else {"strides": np.array(spec.strides, np.int64)}
    plain, with_function = model(spec, shape), embedded(model(spec, shape, run_time=True))
    evaluator = ReferenceEvaluator(plain, new_ops=[strided_slice_op.reference_op()])
    try:
        wanted = expected(spec, x)
    except InvalidSlice as error:
        with pytest.raises(InvalidSlice, match="axis|ellipsis"):
            evaluator.run(None, {"x": x})
        with pytest.raises(Exception, match="Reshape|Expand|Slice"):
            run(with_function, feeds)
        made = ExpandStridedSlicePass()
        assert not made(from_proto(plain)).modified
        reason = str(error)
        assert reason in made.skipped[0].reason
        return
    for got in (as_arrays(evaluator.run(None, {"x": x}))[0], run(with_function, feeds), run(embedded(plain), {"x": x})):
        assert got.shape == wanted.shape
        assert np.array_equal(got, wanted)
    held = from_proto(plain)
    assert ExpandStridedSlicePass()(held).modified
    expanded = ir.serde.serialize_model(held)
    assert not expanded.functions
    assert {node.op_type for node in expanded.graph.node} <= {"Slice", "Squeeze", "Unsqueeze", "Constant", "Identity"}
    assume(len(shape))
    got = run(expanded, {"x": x})
    assert got.shape == wanted.shape
    assert np.array_equal(got, wanted)


@needs_custom_inference
@settings(max_examples=amount(120), suppress_health_check=list(HealthCheck))
@given(cases(), st.data())
def test_inferred_shapes_are_those_of_the_spec(
    registered: None, case: tuple[StridedSliceSpec, tuple[int, ...]], more: st.DataObject
) -> None:
    spec, shape = case
    try:
        wanted = list(spec.resolve(shape).output_shape)
    except InvalidSlice:
        assume(is_wrong_for_any_size(spec, len(shape)))
        with pytest.raises(onnx.shape_inference.InferenceError, match="StridedSlice: "):
            inferred(model(spec, shape))
        return
    assert inferred(model(spec, shape)) == wanted
    of_rank = inferred(model(spec, shape, run_time=True))
    assert of_rank is not None
    assert len(of_rank) == len(wanted)
    opened = more.draw(st.lists(st.integers(0, len(shape) - 1), unique=True)) if shape else []
    dims = [None if axis in opened else size for axis, size in enumerate(shape)]
    found = inferred(model(spec, dims))
    assert found is not None
    assert len(found) == len(wanted)
    assert all(size is None or size == known for size, known in zip(found, wanted, strict=True))
    assert inferred(model(spec, None)) is None


def is_wrong_for_any_size(spec: StridedSliceSpec, rank: int) -> bool:
    try:
        spec.entries(rank)
    except InvalidSlice:
        return True
    return False


def test_registering_is_a_call_and_may_be_repeated() -> None:
    assert not onnx.defs.has("StridedSlice", "ov_ext")
    strided_slice_op.register()
    strided_slice_op.register()
    schema = onnx.defs.get_schema("StridedSlice", 1, "ov_ext")
    assert [parameter.name for parameter in schema.inputs] == ["data", "begin", "end", "strides"]
    assert set(schema.attributes) == set(MASK_ATTRIBUTES)
    strided_slice_op.deregister()
    strided_slice_op.deregister()
    assert not onnx.defs.has("StridedSlice", "ov_ext")


def test_a_process_that_registered_ends_well() -> None:
    code = "from onnx_ops.strided_slice_op import register; register()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_custom_inference
def test_the_checker_accepts_a_registered_operator(registered: None) -> None:
    spec = StridedSliceSpec((1,), (3,))
    known = onnx.shape_inference.infer_shapes(model(spec, [4, 2]))
    onnx.checker.check_model(known, full_check=True, check_custom_domain=True)
    wrong = known
    wrong.graph.node[0].attribute.append(helper.make_attribute("mask", [1]))
    with pytest.raises(onnx.checker.ValidationError, match="Unrecognized attribute"):
        onnx.checker.check_model(wrong, check_custom_domain=True)


def test_int32_indices_and_left_out_strides_run() -> None:
    spec = StridedSliceSpec((1, -3), (3, 9), None, masks=Masks(shrink_axis=(1,)))
    proto = embedded(model(spec, [4, 5], index=np.int32, run_time=True))
    feeds = {"x": data((4, 5)), "begin": np.array([1, -3], np.int32), "end": np.array([3, 9], np.int32)}
    assert np.array_equal(run(proto, feeds), data((4, 5))[1, -3:])
    strides = [value for value in onnx.shape_inference.infer_shapes(proto).graph.value_info if "strides" in value.name]
    assert [value.type.tensor_type.elem_type for value in strides] == [TensorProto.INT32]


def test_the_function_needs_opset_14() -> None:
    with pytest.raises(UsageError, match="runs from opset 14 on; run `sliceport rewrite` first"):
        strided_slice_op.embed_function(from_proto(model(StridedSliceSpec((1,), (3,)), [4], opset=13)))


def test_function_refuses_two_ellipses() -> None:
    spec = StridedSliceSpec((0, 0), (0, 0), None, Masks((), (), (), (), (1, 1)))
    feeds = {"x": data((2, 3, 4)), "begin": np.zeros(2, np.int64), "end": np.zeros(2, np.int64)}
    with pytest.raises(Exception, match="Reshape|Expand"):
        run(embedded(model(spec, (2, 3, 4), run_time=True)), feeds)


@pytest.mark.parametrize("with_function", [False, True])
def test_models_with_the_operator_are_lowered_and_compared(tmp_path: Path, with_function: bool, invoke: Invoke) -> None:
    """Check that `x[..., None, 1:, 2]` and a Slice of it, whose shape is known only through the operator."""
    spec = StridedSliceSpec((0, 0, 1, 2), (0, 0, 9, 0), None, Masks((), (), (0, 1), (0, 0, 0, 1), (1,)))
    constants = [helper.make_node("Constant", [], [name], value_ints=[n]) for name, n in (("a", 1), ("b", 2))]
    after = [*constants, helper.make_node("Slice", ["y", "a", "b", "b"], ["z"], "after")]
    proto = model(spec, [3, 4, 5], after=after)
    path = tmp_path / "m.onnx"
    onnx.save(embedded(proto) if with_function else proto, path)
    strided, after_it = sliceport.lower(path).nodes
    assert (strided.node.op_type, strided.node.domain, strided.verdict) == ("StridedSlice", "ov_ext", "lowered")
    assert strided.resolved.cuts[0].region.output_shape == (3, 1, 3)
    assert after_it.verdict == "lowered"
    report = compare(path)
    assert report.is_clean
    assert [comparison.status for comparison in report.comparisons] == ["equal"] * 2
    out = tmp_path / "o.onnx"
    assert '"replacement": "Slice, Squeeze, Unsqueeze"' in invoke("rewrite", path, "-o", out, "--format", "json").out
    rewritten = onnx.load(out)
    assert not rewritten.functions
    assert [opset.domain for opset in rewritten.opset_import] == [""]
    assert np.array_equal(run(rewritten, {"x": data((3, 4, 5))}), data((3, 4, 5))[..., None, 1:, 2][..., 1:2])


def test_rewriting_leaves_run_time_indices_to_the_function() -> None:
    held = from_proto(embedded(model(StridedSliceSpec((1,), (3,)), [4], run_time=True)))
    report = rewrite(held)
    assert report.before == report.after == 1
    assert "not a constant" in report.skipped["strided"][0].reason


def test_version_of_an_operator_set_that_is_not_imported_is_1() -> None:
    text = "(float[8] x) => (float[4] y) <int64[1] b = {1}, int64[1] e = {5}> { y = ov_ext.StridedSlice(x, b, e) }"
    assert [lowered.node.opset for lowered in sliceport.lower(parse(text, 17)).nodes] == [1]
