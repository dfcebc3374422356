"""A MatMul of more than 4 axes, or by a vector, is computed by one of other shapes, bit for bit, or named."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest
from onnx_models import parse, save
from sessions import compute

import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.passes.directml.harden import harden_for_directml, may_add_in_another_order
from onnx_ops.running.verify import verify_rewriting
from sliceport.device import CallFailed, Device

Shape = tuple[int, ...]


def declared(left: object, right: object, opset: int = 18) -> ir.Model:
    return from_proto(parse(f"(float{left} a, float{right} b) => (float y) {{ y = MatMul(a, b) }}", opset))


def assert_replaced(
    model: ir.Model, left: Shape, right: Shape, replacement: str, dtype: npt.DTypeLike = np.float32
) -> None:
    """Check that a model is hardened once, and computes the same bits for inputs of these shapes."""
    rng = np.random.default_rng(7)
    data: dict[str, npt.NDArray[Any]] = {
        "a": (9 * rng.random(left)).astype(dtype),
        "b": (9 * rng.random(right)).astype(dtype),
    }
    (before,) = compute(ir.serde.serialize_model(model), **data)
    (change,) = harden_for_directml(model).changes
    assert change.replacement == replacement
    (after,) = compute(ir.serde.serialize_model(model), **data)
    assert after.shape == before.shape
    assert after.tobytes() == before.tobytes()
    assert harden_for_directml(model).changes == ()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 2, 3, 4, 5), (1, 2, 3, 5, 2)),
        ((2, 3, 1, 4, 5), (2, 3, 1, 5, 2)),
        ((2, 1, 3, 4, 5), (5, 2)),
        ((4, 5), (1, 1, 3, 5, 2)),
        ((1, 1, 1, 4, 5), (1, 1, 1, 5, 2)),
        ((2, 2, 2, 2, 4, 5), (1, 1, 5, 2)),
    ],
)
def test_leading_axes_are_joined(left: Shape, right: Shape) -> None:
    assert_replaced(declared(list(left), list(right)), left, right, "Reshape + MatMul + Reshape")


@pytest.mark.parametrize(
    ("left", "right", "opset"),
    [
        ("[n,2,3,4,5]", "[n,2,3,5,2]", 18),
        ("[2,2,3,4,5]", "[1,2,3,5,2]", 18),
        ("[2,2,3,4,5]", "[5]", 18),
        ("[2,0,3,4,5]", "[2,0,3,5,2]", 18),
        ("[2,2,3,4,5]", "[5,2]", 1),
    ],
)
def test_others_are_named_and_stay(left: str, right: str, opset: int) -> None:
    model = declared(left, right, opset)
    (change,) = harden_for_directml(model).changes
    assert (change.replacement, [defect.id for defect in change.defects]) == (None, ["matmul of more than 4 axes"])
    assert [node.op_type for node in model.graph] == ["MatMul"]


INTEGER_PRODUCTS = [("MatMulInteger(a, b)", "int32"), ("QLinearMatMul(a, h, k, b, h, k, h, k)", "uint8")]


def declare_integers(node: str, output: str, left: Shape, right: Shape, more: str = "") -> ir.Model:
    inputs = f"(uint8{[*left]} a, uint8{[*right]} b)"
    constants = f"<uint8 k = {{2}}, float h = {{0.5}}{more}>"
    return from_proto(parse(f"{inputs} => ({output} y) {constants} {{ y = {node} }}", 18))


@pytest.mark.parametrize(("node", "output"), INTEGER_PRODUCTS)
@pytest.mark.parametrize(("left", "right"), [((2, 3, 1, 4, 5), (2, 3, 1, 5, 2)), ((2, 4, 5), (5,))])
def test_products_of_integers_are_computed_by_other_shapes(node: str, output: str, left: Shape, right: Shape) -> None:
    model = declare_integers(node, output, left, right)
    ends = ("Reshape", "Reshape") if len(left) > 4 else ("Unsqueeze", "Squeeze")
    assert_replaced(model, left, right, f" + {node.partition('(')[0]} + ".join(ends), np.uint8)


@pytest.mark.parametrize(("node", "output"), INTEGER_PRODUCTS)
@pytest.mark.parametrize("axes", [5, 2])
def test_provider_computes_integers_only_after_hardening(directml: Device, node: str, output: str, axes: int) -> None:
    """Check that the provider refuses a product of 5 axes, and computes wrong values by a vector."""
    left, right = (np.array([[1, 2], [3, 4]], np.uint8), np.array([5, 6], np.uint8))
    data = {"a": left.reshape((1,) * (axes - 2) + (2, 2)), "b": right if axes == 2 else right.reshape(2, 1)}
    model = declare_integers(node, output, data["a"].shape, data["b"].shape)
    expected = compute(ir.serde.serialize_model(model), **data)
    with pytest.raises(CallFailed, match="80070057") if axes == 5 else nullcontext():
        before = directml.run_onnx(ir.serde.serialize_model(model).SerializeToString(), data, ["y"])
        assert not np.array_equal(before, expected)
    harden_for_directml(model)
    assert np.array_equal(directml.run_onnx(ir.serde.serialize_model(model).SerializeToString(), data, ["y"]), expected)


def test_four_axes_stay() -> None:
    assert harden_for_directml(declared([2, 3, 4, 5], [2, 3, 5, 2])).changes == ()


def test_product_with_zero_points_of_several_axes_stays() -> None:
    model = declare_integers("MatMulInteger(a, b, n)", "int32", (2, 1, 3, 4, 5), (5, 2), ", uint8[1,1,1,1,1] n = {2}")
    assert [change.replacement for change in harden_for_directml(model).changes] == [None]


@pytest.mark.parametrize("opset", [9, 12, 13, 21])
@pytest.mark.parametrize("left", [(3,), (4, 3), (2, 4, 3), (2, 2, 4, 3)])
def test_vector_becomes_a_column(left: Shape, opset: int) -> None:
    open_left = [f"n{i}" for i in range(len(left))]
    model = declared(f"[{','.join(open_left)}]", f"[{open_left[-1]}]", opset)
    assert_replaced(model, left, left[-1:], "Unsqueeze + MatMul + Squeeze")


@pytest.mark.parametrize("left", [(0, 3), (4, 0)])
def test_empty_products_are_right(left: Shape) -> None:
    """onnxruntime's CPU provider fails on the first original, and leaves the values of the second unwritten."""
    model = declared("[m,k]", "[k]")
    assert len(harden_for_directml(model).changes) == 1
    data = {"a": np.zeros(left, np.float32), "b": np.zeros(left[-1:], np.float32)}
    (after,) = compute(ir.serde.serialize_model(model), **data)
    assert after.tolist() == [0] * left[0]


def test_vector_by_a_matrix_and_doubles_stay() -> None:
    assert harden_for_directml(declared([3], [3, 4])).changes == ()
    for sizes in ("3", "1,2,5,3,4"):
        doubles = from_proto(parse(f"(double[4,3] a, double[{sizes}] b) => (double y) {{ y = MatMul(a, b) }}", 18))
        assert harden_for_directml(doubles).changes == ()


def test_product_by_a_vector_is_verified_up_to_rounding(tmp_path: Path) -> None:
    graph = "(float[33, 77] x, float[77] v) => (float[33] y) { y = MatMul (x, v) }"
    result = sliceport.harden(save(graph, tmp_path / "m.onnx"), output=tmp_path / "h.onnx", verify=True)
    assert (tmp_path / "h.onnx").exists()
    assert str(result.verification).startswith("all outputs are equal on onnxruntime's CPU provider, floats up to")


@pytest.mark.parametrize(
    ("node", "factor", "output"),
    [("y", 1.01, "y"), ("t", 1.0000001, "t"), ("s", -1.0, "s"), ("p", 1.0000001, "p"), ("n", -1.0, "k")],
)
def test_wrong_output_is_not_taken_for_rounding(node: str, factor: float, output: str, tmp_path: Path) -> None:
    constants = f"<float c = {{{factor}}}, float tiny = {{1e-6}}, float[2] large = {{1e9, -1e9}}>"
    nodes = "a = MatMul (x, v)  b = Transpose (x)  m = Mul (a, tiny)  e = Exp (x)"
    outputs = "y = Identity (a)  t = Identity (b)  s = Identity (m)  p = Identity (e)"
    joined = "n = Identity (m)  k = Concat<axis = 0> (n, large)"
    declared = "(float[3, 4] x, float[4] v) => (float y, float t, float s, float p, float k)"
    graph = f"{declared} {constants} {{ {nodes}  {outputs}  {joined} }}"
    before = save(graph, tmp_path / "m.onnx")
    after = save(re.sub(rf"{node} = Identity \((.)\)", rf"{node} = Mul (\1, c)", graph), tmp_path / "o.onnx")
    result = verify_rewriting(before, after, accepts_rounding=True)
    assert {difference.output for difference in result.differences} == {output}


def test_product_that_fails_at_another_size_is_refused(tmp_path: Path) -> None:
    graph = "(float[n, 4] x, float[4] v) => (float[n] y) <int64[2] s = {2, 4}> { y = MatMul (x, v) }"
    before = save(graph, tmp_path / "m.onnx")
    after = save(graph.replace("y = MatMul (x", "r = Reshape (x, s)  y = MatMul (r"), tmp_path / "o.onnx")
    result = verify_rewriting(before, after, accepts_rounding=True)
    assert "the original model runs, and the changed model does not" in str(result)


@pytest.mark.parametrize("operator", ["MatMul", "MatMulInteger"])
def test_only_floats_may_be_added_in_another_order(operator: str) -> None:
    element = "float" if operator == "MatMul" else "uint8"
    graph = f"({element}[3, 4] a, {element}[4] b) => (y) {{ y = {operator} (a, b) }}"
    assert may_add_in_another_order(harden_for_directml(from_proto(parse(graph)))) == (operator == "MatMul")
