"""Slices of weights become constants, up to a stated size."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from onnx_models import read_model

from onnx_ops.infer.facts import MAX_BYTES
from onnx_ops.model.io import from_proto
from onnx_ops.model.nodes import LARGE_BYTES, constant
from onnx_ops.passes import rewrite

WEIGHTS = np.arange(40 * 300, dtype=np.float32).reshape(40, 300) + 1


def model_of(nodes: str, weights: np.ndarray, outputs: str, opset: int = 18) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g (float[1] x) => ({outputs}) <int64[1] a = {{0}}, int64[1] b = {{5}}, int64[1] c = {{-3}}, int64[1] s = {{-2}}>
        {{ {nodes} }}""")
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return proto


def constants(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Rewrite a model; the values of its outputs, which must be constants."""
    model = from_proto(proto)
    rewrite(model)
    assert "w" not in model.graph.initializers
    found = {}
    for output in model.graph.outputs:
        tensor = constant(output)
        assert tensor is not None
        assert output.name
        found[output.name] = tensor.numpy()
    return found


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Slice(w, a, b)", WEIGHTS[:5]),
        ("y = Slice(w, c, a, a, s)", WEIGHTS[-3:0:-2]),
        ("y, z = Split<axis = 0, num_outputs = 2>(w)", WEIGHTS[:20]),
        ("y = Gather<axis = -1>(w, c)", WEIGHTS[:, -3:-2]),
        ("i = Constant<value_ints = [3, -1, 3]>() y = Gather(w, i)", WEIGHTS[[3, -1, 3]]),
    ],
)
def test_of_all_operators(nodes: str, expected: np.ndarray) -> None:
    y = constants(model_of(nodes, WEIGHTS, "float[p, q] y"))["y"]
    assert (y.shape, y.tobytes()) == (expected.shape, expected.tobytes())


def test_slices_before_opset_10_are_folded() -> None:
    nodes = "y = Slice<starts = [1], ends = [3], axes = [1]>(w)"
    assert constants(model_of(nodes, WEIGHTS, "float[p, q] y", opset=9))["y"].tolist() == WEIGHTS[:, 1:3].tolist()


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float16, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_of_all_types(dtype: type) -> None:
    weights: np.ndarray = (np.arange(40000) % 7).astype(dtype)
    proto = model_of("y = Slice(w, a, b)", np.zeros(1, np.float32), "float[p] y")
    proto.graph.initializer[-1].CopyFrom(ir.serde.serialize_tensor(ir.Tensor(weights, name="w")))
    element = proto.graph.initializer[-1].data_type
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", element, [5]))
    y = constants(proto)["y"]
    assert (y.dtype, y.tobytes()) == (weights.dtype, weights[:5].tobytes())


@pytest.mark.parametrize(
    ("size", "readers", "folds"),
    [(LARGE_BYTES, 2, True), (LARGE_BYTES + 4, 2, False), (MAX_BYTES, 1, True), (MAX_BYTES + 4, 1, False)],
)
def test_large_constants_are_folded_up_to_limits(size: int, readers: int, folds: bool) -> None:
    """More than 8 KiB only where the model does not grow: nothing else reads the weights."""
    weights = np.arange(MAX_BYTES, dtype=np.float32)
    proto = model_of("y = Slice(w, a, b)" + " z = Neg(w)" * (readers - 1), weights, "float[p] y")
    if readers > 1:
        proto.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [MAX_BYTES]))
    end = next(tensor for tensor in proto.graph.initializer if tensor.name == "b")
    end.CopyFrom(numpy_helper.from_array(np.array([size // 4]), "b"))
    model = from_proto(proto)
    assert bool(rewrite(model).changes["fold"]) == folds
    assert ("w" in model.graph.initializers) == (readers > 1 or not folds)


def test_what_may_be_replaced_or_is_out_of_bounds_stays() -> None:
    replaceable = model_of("y = Slice(w, a, b)", WEIGHTS, "float[p, q] y")
    replaceable.graph.input.append(helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [40, 300]))
    beyond = model_of("i = Constant<value_ints = [40]>() y = Gather(w, i)", WEIGHTS, "float[p, q] y")
    backward = model_of(
        f"i = Constant<value_ints = [{2**63 - 1}]>() y = Slice(w, c, i, a, s)", WEIGHTS, "float[p, q] y"
    )
    for proto in (replaceable, beyond, backward):
        assert not rewrite(from_proto(proto)).changes["fold"]


@pytest.mark.parametrize("is_there", [True, False])
def test_external_data_are_folded_if_they_can_be_read(tmp_path: Path, is_there: bool) -> None:
    proto = model_of("y = Slice(w, a, b)", WEIGHTS, "float[p, q] y")
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=1024)
    if not is_there:
        (tmp_path / "w.bin").unlink()
    model = read_model(tmp_path / "m.onnx")
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert bool(rewrite(model).changes["fold"]) == is_there
    assert tensor.raw is None


def test_external_data_in_use_are_folded_and_stay_open(tmp_path: Path) -> None:
    proto = model_of("y = Slice(w, a, b)", WEIGHTS, "float[p, q] y")
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=1024)
    model = ir.load(tmp_path / "m.onnx")
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    in_use = tensor.numpy()
    assert rewrite(model).changes["fold"]
    assert in_use[0, 0] == tensor.numpy()[0, 0]
