"""An Einsum that the DirectML provider crashes on or computes wrongly becomes a MatMul, or is named."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from fatal_sizes import find_fatal_sizes
from onnx_models import parse
from sessions import compute, open_session

from onnx_ops.defects.conditions import einsum_defects
from onnx_ops.model.io import from_proto
from onnx_ops.passes.directml.harden import harden_for_directml
from sliceport.device import Device, HostDied

SIZES = dict(zip("abcdefghij", (2, 3, 1, 4, 2, 3, 2, 2, 3, 2), strict=True))


def einsum(equation: str, opening: str = "") -> ir.Model:
    terms = equation.partition("->")[0].split(",")
    declared = [", ".join("n" if label in opening else str(SIZES[label]) for label in term) for term in terms]
    inputs = ", ".join(f"float[{sizes}] x{i}" for i, sizes in enumerate(declared))
    names = ", ".join(f"x{i}" for i in range(len(terms)))
    return from_proto(parse(f'({inputs}) => (float y) {{ y = Einsum<equation = "{equation}">({names}) }}', 18))


def data_for(equation: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    terms = equation.partition("->")[0].split(",")
    return {f"x{i}": rng.standard_normal([SIZES[c] for c in term], np.float32) for i, term in enumerate(terms)}


def equations() -> Iterator[str]:
    """Yield an equation for each number of shared, own and summed labels, in reversed orders too."""
    for batch, own, other, summed, alone in product(range(4), range(3), range(3), range(3), range(2)):
        shared, first, second, gone = "abi"[:batch], "cd"[:own], "ef"[:other], "gh"[:summed]
        if not shared + first + second or batch + own + other > 4:
            continue
        left, right, kept = shared + first + gone + "j" * alone, gone + second + shared, second + shared + first
        if not (left and right):
            continue
        yield f"{left},{right}->{kept}"
        yield f"{left[::-1]},{right}->{kept[::-1]}"


DEFECTIVE = [equation for equation in equations() if einsum_defects(next(iter(einsum(equation).graph)))]


@pytest.mark.parametrize("equation", DEFECTIVE)
def test_rewritten_einsum_computes_the_same(equation: str) -> None:
    model, data = einsum(equation), data_for(equation)
    (before,) = compute(ir.serde.serialize_model(model), **data)
    assert [(change.op, change.replacement) for change in harden_for_directml(model).changes] == [("Einsum", "MatMul")]
    assert "Einsum" not in {node.op_type for node in model.graph}
    (after,) = compute(ir.serde.serialize_model(model), **data)
    assert after.shape == before.shape
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "equation",
    ["ab,bc->ac", "abj,jbc->abc", "ab,ab->", "abc,abc->abc", "ab,cd->abcd", "abc->ba", "aag->a", "ab,bc,cd->ad"],
)
def test_einsum_that_the_provider_computes_stays(equation: str) -> None:
    assert harden_for_directml(einsum(equation)).changes == ()


def declare(equation: str, left: str, right: str) -> ir.Model:
    graph = f'(float[{left}] x0, float[{right}] x1) => (float y) {{ y = Einsum<equation = "{equation}">(x0, x1) }}'
    return from_proto(parse(graph, 18))


def compare_at_each_size(model: ir.Model, equation: str, left: str, right: str) -> None:
    """Compare with NumPy for open sizes up to 3, because onnxruntime's own Einsum divides by a size of 0."""
    names = sorted({*filter(str.isalpha, f"{left},{right}".split(","))})
    session = open_session(ir.serde.serialize_model(model), optimized=False)
    for sizes in product(range(4), repeat=len(names)):
        size_of = dict(zip(names, sizes, strict=True))
        shapes = [[size_of[size] if size in names else int(size) for size in each.split(",")] for each in (left, right)]
        data = [np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape) for shape in shapes]
        try:
            expected = np.einsum(equation, *data)
        except ValueError:  # two sizes of a label differ, and none is 1
            continue
        np.testing.assert_array_equal(session.run(None, {"x0": data[0], "x1": data[1]})[0], expected)


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("abc,dbc->ad", "2,1,4", "5,3,4"),
        ("abc,dbc->ad", "2,b,4", "5,3,4"),
        ("abc,dbc->ad", "2,1,4", "5,n,4"),
        ("abc,dbc->ad", "2,m,4", "5,n,4"),
        ("ab,ba->a", "a,2", "2,m"),
        ("ab,ba->a", "a,b", "m,n"),
        ("bca,bac->b", "1,2,n", "4,n,2"),  # onnxruntime's MatMul of [1, 1, 0] and [4, 0, 1] returns 1 element, not 4
        # A Reshape joins labels to one axis: for n = 1, [3, 1] and [1, 3], which the MatMul would pair.
        ("abcd,bafd->fc", "3,n,2,2", "m,3,2,2"),
        ("abcd,dbfc->bcdf", "2,3,2,n", "2,3,m,2"),
        # onnxruntime's MatMul does not broadcast the 1 of the right tensor to a size of 0 of a row.
        ("bcfde,c->bcf", "2,0,3,2,2", "0"),
        ("bcfde,c->bcf", "2,3,0,2,2", "3"),
        ("bcfde,c->bcf", "0,2,3,2,2", "2"),
    ],
)
def test_einsum_that_broadcasts_a_label_or_is_empty_computes_the_same(equation: str, left: str, right: str) -> None:
    model = declare(equation, left, right)
    (change,) = harden_for_directml(model).changes
    assert change.replacement == "MatMul"
    compare_at_each_size(model, equation, left, right)


def test_einsum_of_equal_symbols_needs_no_expand() -> None:
    model = declare("abg,gab->ab", "a,b,g", "g,a,b")
    harden_for_directml(model)
    assert "Expand" not in {node.op_type for node in model.graph}


def test_symbol_in_a_function_is_another_size_at_each_call() -> None:
    graph = """(float[2,m,4] x0, float[5,n,4] x1) => (float y) {
            a = local.f (x0)  b = local.f (x1)  y = Einsum <equation = "abc,dbc->ad"> (a, b) }
        <domain: "local", opset_import: ["" : 18]> f (x) => (r) <float[k,n,4] r> { r = Identity (x) }"""
    model = from_proto(parse(graph, 18, local=1))
    harden_for_directml(model)
    compare_at_each_size(model, "abc,dbc->ad", "2,m,4", "5,n,4")


def test_einsum_with_an_ellipsis_stays() -> None:
    assert harden_for_directml(declare("...a,a->...", "2,3", "3")).changes == ()


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("aag,ag->a", "2,2,2", "2,2"),  # needs a diagonal
        ("ibh,hnd->ifnd", "5,2,16", "16,4,4"),  # not valid: f is in neither tensor
        ("ibh,hnd->iind", "5,2,16", "16,4,4"),  # not valid: i occurs twice
        ("acdgh,efgha->acdef", "2,1,4,2,2", "n,n,2,2,2"),  # joins open axes
        ("abc,dbc->ad", "2,4294967296,4294967296", "5,4294967296,4294967296"),  # joins sizes beyond 64 bits
        ("bilmkq,bnk->bilmn", "b,2,l,3,4,2", "1,5,4"),  # a Reshape cannot infer the open row if the batch is empty
    ],
)
def test_einsum_that_no_matmul_computes_is_named(equation: str, left: str, right: str) -> None:
    model = declare(equation, left, right)
    (change,) = harden_for_directml(model).changes
    assert change.replacement is None
    assert change.defects
    assert [node.op_type for node in model.graph] == ["Einsum"]
    assert [use.node.op_type for value in model.graph.inputs for use in value.uses()] == ["Einsum", "Einsum"]


def test_einsum_of_a_transpose_that_each_call_sets_is_named() -> None:
    graph = """(float[1,2,3,4,5] x, float[6,5] z) => (y) { y = local.f<p = [1, 0]>(x, z) }
        <domain: "local", opset_import: ["" : 18]> f <p> (x, z) => (y) {
        t = Transpose<perm: ints = @p>(z)  y = Einsum<equation = "abcde,ef->abcdf">(x, t) }"""
    model = from_proto(parse(graph, 18, 9, local=1))
    (change,) = harden_for_directml(model).changes
    assert change.replacement is None
    (function,) = model.functions.values()
    assert [use.node.op_type for value in function.inputs for use in value.uses()] == ["Einsum", "Transpose"]


@pytest.mark.parametrize("equation", ["ag,ga->a", "abg,gab->ab", "adgh,egh->ade", "aghj,ghefa->efa", "abdg,abd->abd"])
def test_rewritten_einsum_runs_for_every_open_size(equation: str) -> None:
    labels, terms = sorted({*equation} - {*",->"}), equation.partition("->")[0].split(",")
    for opening in [labels[:1], labels[-1:], labels[:2], labels[1:]]:
        left, right = (",".join(label if label in opening else str(SIZES[label]) for label in term) for term in terms)
        model = declare(equation, left, right)
        if harden_for_directml(model).changes[0].replacement is None:
            assert len(opening) > 1
        else:
            compare_at_each_size(model, equation, left, right)


@pytest.mark.parametrize(
    ("equation", "opening", "perms"),
    [
        ("abgj,bg->ab", "a", [[0, 1, 2, 3], [0, 1]]),
        ("abcg,bcgde->abcde", "a", [[0, 1, 2, 3], [0, 1, 2, 3, 4]]),
        ("acg,ageh->ace", "aceg", [[1, 0, 2], [1, 2, 0, 3]]),
        ("acgj,gea->eac", "aceg", [[1, 2, 0, 3], [1, 0, 2]]),
    ],
    ids=["left", "right", "after a Transpose", "after a Transpose and a sum"],
)
def test_rewritten_einsum_runs_optimized_at_size_0(
    equation: str, opening: str, perms: list[list[int]], tmp_path: Path
) -> None:
    """onnxruntime would fuse the Transpose of a tensor, merged with one of the model, with the MatMul."""
    nodes, inputs = "", []
    for i, (term, perm) in enumerate(zip(equation.partition("->")[0].split(","), perms, strict=True)):
        labels = [term[perm.index(axis)] for axis in range(len(term))]
        inputs.append(f"float[{', '.join(c if c in opening else str(SIZES[c]) for c in labels)}] z{i}")
        nodes += f"x{i} = Transpose<perm = {perm}>(z{i})  "
    graph = f'({", ".join(inputs)}) => (float y) {{ {nodes}y = Einsum<equation = "{equation}">(x0, x1) }}'
    (change,) = harden_for_directml(model := from_proto(parse(graph, 18))).changes
    assert change.replacement == "MatMul"
    assert not find_fatal_sizes(ir.serde.serialize_model(model), tmp_path)


@pytest.mark.parametrize(
    "equation", ["ag,ag->a", "adgh,egh->ade", "gh,ghe->e", "abg,abgef->abef", "abdg,abd->abd", "abgj,bg->ab"]
)
def test_provider_needs_the_rewrite(directml: Device, equation: str) -> None:
    model, data = einsum(equation, "a"), data_for(equation)
    (expected,) = compute(ir.serde.serialize_model(model), **data)

    def run_provider() -> np.ndarray:
        request = ir.serde.serialize_model(model).SerializeToString(), data, ["y"]
        with directml.without_retries():
            return directml.run_onnx(*request, fallback=True, fusion=False)[0]

    try:
        is_right = np.allclose(run_provider(), expected, atol=1e-4)
    except HostDied:
        is_right = False
    assert not is_right
    harden_for_directml(model)
    np.testing.assert_allclose(run_provider(), expected, atol=1e-4)


def test_provider_computes_an_einsum_that_broadcasts(directml: Device) -> None:
    model = declare("abc,dbc->ad", "2,m,4", "5,n,4")
    data = {"x0": np.arange(8, dtype=np.float32).reshape(2, 1, 4), "x1": np.ones((5, 3, 4), np.float32)}
    harden_for_directml(model)
    request = ir.serde.serialize_model(model).SerializeToString(), data, ["y"]
    (after,) = directml.run_onnx(*request, fallback=True, fusion=False)
    np.testing.assert_array_equal(after, np.einsum("abc,dbc->ad", *data.values()))
