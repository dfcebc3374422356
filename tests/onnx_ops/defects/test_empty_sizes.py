"""`check` names exactly the sizes of 0 at which onnxruntime computes a product or a Concat wrongly."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import parse
from running import as_arrays
from sessions import open_session

import sliceport
from onnx_ops.defects.empty_sizes import find_product_effects
from sliceport.defects.defect import version_key

NEEDS_1_29 = pytest.mark.skipif(version_key(ort.__version__) < (1, 29), reason="integers are unwritten, too")
BEFORE_FIXES = {"onnxruntime": "1.31.1"}
"""The last version with each defect of an empty product."""
SENTINEL = 7


def run(session: ort.InferenceSession, data: dict[str, np.ndarray], right: np.ndarray) -> str:
    """Return whether a session is "right", "wrong" or "fails". It writes into memory that is filled with a number."""
    try:
        (result,) = as_arrays(session.run(None, data))
    except Exception:  # onnxruntime has its own classes of errors
        return "fails"
    if result.shape == right.shape and right.size:
        output = ort.OrtValue.ortvalue_from_numpy(np.full(right.shape, SENTINEL, right.dtype))
        binding = session.io_binding()
        for name, array in data.items():
            binding.bind_cpu_input(name, array)
        binding.bind_ortvalue_output("y", output)
        session.run_with_iobinding(binding)
        result = output.numpy()
    return "right" if np.array_equal(result, right) else "wrong"


def multiply(left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    try:
        return np.asarray(np.matmul(left, right))
    except ValueError:  # the shapes do not fit
        return None


PERMS = {"": (0, 1, 2), "matrix": (0, 2, 1), "batch": (1, 0, 2), "batch and matrix": (1, 2, 0)}
DTYPES = {"float": np.float32, "double": np.float64, "int64": np.int64}


@NEEDS_1_29
@pytest.mark.parametrize(
    ("element", "ranks", "kinds"),
    [
        *product(DTYPES, product((1, 2, 3), repeat=2), [("", "")]),
        *(("float", (3, 3), kinds) for kinds in product(PERMS, repeat=2) if any(kinds)),
    ],
)
def test_product_of_every_shape_is_named_if_wrong(element: str, ranks: tuple[int, int], kinds: tuple[str, str]) -> None:
    """Each tensor is transposed by the perm of its kind, after it was stored in the opposite way."""
    perms = [PERMS[kind][:rank] for kind, rank in zip(kinds, ranks, strict=True)]
    dims = [",".join(f"{x}{axis}" for axis in range(rank)) for x, rank in zip("ab", ranks, strict=True)]
    nodes = " ".join(f"t{x} = Transpose<perm = {[*perm]}>({x})" for x, perm in zip("ab", perms, strict=True))
    inputs = f"({element}[{dims[0]}] a, {element}[{dims[1]}] b)"
    session = open_session(parse(f"{inputs} => ({element} y) {{ {nodes} y = MatMul(ta, tb) }}", 13))
    fused = [kind.partition(" ")[0] for kind in kinds]
    for shapes in product(*(product((0, 1, 2), repeat=rank) for rank in ranks)):
        arrays = [np.ones(shape, DTYPES[element]) for shape in shapes]
        right = multiply(*arrays)
        stored = [
            np.ascontiguousarray(each.transpose(np.argsort(perm))) for each, perm in zip(arrays, perms, strict=True)
        ]
        ends = any(kind == "batch" and each.shape[0] == 0 for kind, each in zip(fused, stored, strict=True))
        if right is None or ends:
            continue
        effects = find_product_effects(shapes[0], shapes[1], element == "int64", fused)
        named = {
            (defect.id, "fails" if effect == "fails" else "wrong")
            for defect, size, effect in effects
            if size == 0 and defect.divergences[0].may_affect(ort.__version__)
        }
        # The MatMul of an entry that is not about a Transpose may be right after it was fused with one.
        if not any(kinds) or all("transposed" in name for name, _ in named):
            outcome = run(session, dict(zip("ab", stored, strict=True)), right)
            assert {effect for _, effect in named} == {outcome} - {"right"}, shapes


T = "t = Transpose<perm = [0,2,1]>(x)  "
PRODUCTS = {
    "vector": ("float[n,k] x, float[k] z", "y = MatMul(x, z)", {"n": "fails", "k": "leaves elements unwritten"}),
    "one row": ("float[1,k] x, float[k] z", "y = MatMul(x, z)", {}),
    "vectors": ("float[k] x, float[k] z", "y = MatMul(x, z)", {}),
    "vector by a batch": ("float[k] x, float[3,k,n] z", "y = MatMul(x, z)", {"k": "leaves elements unwritten"}),
    "matrices": ("float[n,k] x, float[k,m] z", "y = MatMul(x, z)", {}),
    "a weight": ("float[b,n,k] x, float[k,4] z", "y = MatMul(x, z)", {}),
    "batches": ("float[b,n,k] x, float[b,k,m] z", "y = MatMul(x, z)", {}),
    "matrix by a batch": (
        "float[n,k] x, float[b,k,m] z",
        "y = MatMul(x, z)",
        {"b": "fails", "k": "leaves elements unwritten"},
    ),
    "batch of size 1": (
        "float[1,n,k] x, float[b,k,4] z",
        "y = MatMul(x, z)",
        {"b": "fails", "k": "ignores the batch of the second tensor"},
    ),
    "known sum": ("float[n,4] x, float[b,4,m] z", "y = MatMul(x, z)", {"b": "fails"}),
    "fused": ("float[b,k,n] x, float[b,k,m] z", f"{T}y = MatMul(t, z)", {"k": "leaves elements unwritten"}),
    "fused on the right": ("float[b,s,4] x, float[b,n,4] z", f"{T}y = MatMul(z, t)", {}),
    "empty like the sum": ("float[b,k,k] x, float[b,k,4] z", f"{T}y = MatMul(t, z)", {}),
    "fused and of size 1": (
        "float[b,k,4] x, float[1,k,m] z",
        f"{T}y = MatMul(t, z)",
        {"b": "fails", "k": "leaves elements unwritten"},
    ),
    "integers": ("uint8[n,k] x, uint8[k,m] z", "y = MatMulInteger(x, z)", {"k": "leaves elements unwritten"}),
    "integers by a batch": (
        "uint8[n,k] x, uint8[b,k,m] z",
        "y = MatMulInteger(x, z)",
        {"b": "fails", "k": "leaves elements unwritten"},
    ),
    "fused by a vector": (
        "float[k,n] x, float[k] z",
        "t = Transpose<perm = [1,0]>(x)  y = MatMul(t, z)",
        {"n": "fails", "k": "leaves elements unwritten"},
    ),
    "other perm": ("float[k,n,b] x, float[b,k,m] z", f"{T.replace('0,2,1', '2,1,0')}y = MatMul(t, z)", {}),
    "quantized by a vector": (
        "uint8[n,k] x, uint8[k] z",
        "i = Constant<value_float = 1.0>() o = Constant<value = uint8 {0}>() y = QLinearMatMul(x, i, o, z, i, o, i, o)",
        {"n": "fails", "k": "leaves elements unwritten"},
    ),
    "integers without a result": ("uint8[k,k] x, uint8[k,m] z", "y = MatMulInteger(x, z)", {}),
}
"""Inputs, nodes, and the effect of each open size if it is 0."""


@NEEDS_1_29
@pytest.mark.parametrize("name", PRODUCTS)
def test_open_sizes_with_an_effect_are_named(name: str) -> None:
    inputs, nodes, effects = PRODUCTS[name]
    model = parse(f"({inputs}) => (y) {{ {nodes} }}", 13)
    findings = sliceport.check(
        model, engines=["onnxruntime-cpu", "onnxruntime-cpu-optimized"], engine_versions=BEFORE_FIXES
    ).findings
    assert {one.kind for one in findings} <= {"fragile"}
    details = [f"{effect} where '{size}' is 0" for size, effect in effects.items()]
    assert sorted(one.detail for one in findings) == sorted(details)
    wrong = [one.detail for one in findings if one.defect.divergences[0].may_affect(ort.__version__)]
    shapes = [
        [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input
    ]
    for empty in {size for shape in shapes for size in shape if isinstance(size, str)}:
        sizes = {"k": 4, "n": 2, "m": 5, "b": 3, "s": 6, empty: 0}
        dtype = np.uint8 if "uint8" in inputs else np.float32
        data = {
            value.name: np.ones([sizes.get(str(size), size) for size in shape], dtype)
            for value, shape in zip(model.graph.input, shapes, strict=True)
        }
        (right,) = as_arrays(ReferenceEvaluator(model).run(None, data))
        is_right = run(open_session(model), data, right) == "right"
        assert is_right != any(f"'{empty}' is 0" in detail for detail in wrong), empty


@pytest.mark.parametrize("sizes", ["1,2,k", "2,k"])
def test_a_batch_of_unknown_size_is_not_named(sizes: str) -> None:
    graph = f"(float[{sizes}] x, float[b,k,4] z) => (y) {{ u = Concat<axis = 0>(z, z)  y = MatMul(x, u) }}"
    assert not sliceport.check(parse(graph, 13), engine_versions=BEFORE_FIXES).findings


def test_carried_value_of_a_loop_does_not_decide_whether_the_body_runs() -> None:
    """The count of the Loop is left out, and an input of the model is its condition."""
    nodes = "c_out = Identity(c)  p_out = Identity(p)  q = Concat<axis = -1>(x, z)"
    body = f"b (int64 i, bool c, float[1] p) => (c_out, p_out, q) {{ {nodes} }}"
    loop = f"r = Relu(v)  w, y = Loop<body = {body}>(, go, r)"
    graph = f"(float[n,3] x, float[2,3] z, bool go, float[1] v) => (w, y) {{ {loop} }}"
    (finding,) = sliceport.check(parse(graph, 13), engine_versions=BEFORE_FIXES).findings
    assert (finding.kind, finding.detail) == ("fragile", "right only where 'n' is 2")


def test_concat_of_an_open_batch_with_a_constant_is_fragile() -> None:
    graph = "(float[n,3] x, float[{}] z) => (float y) {{ y = Concat<axis = {}>(x, z) }}"
    fragile = parse(graph.format("2,3", -1), 13)
    (finding,) = sliceport.check(fragile).findings
    assert (finding.kind, finding.detail) == ("fragile", "right only where 'n' is 2")
    session = open_session(fragile)
    data = {"x": np.ones((0, 3), np.float32), "z": np.ones((2, 3), np.float32)}
    assert session.run(None, data)[0].shape == (2, 6)  # type: ignore[union-attr]
    with pytest.raises(Exception, match="concat axis dimensions must match"):
        session.run(None, data | {"x": np.ones((1, 3), np.float32)})
    for sizes, axis in (("2,3", 0), ("n,3", 1), ("m,3", 1), ("0,3", 0), ("n,k", -1)):
        assert not sliceport.check(parse(graph.format(sizes, axis), 13), engine_versions=BEFORE_FIXES).findings
    known = sliceport.check(fragile, input_shapes={"x": (0, 3)}).findings
    assert [(one.kind, one.detail) for one in known] == [("invalid", "axis 0 has sizes 0 and 2")]
    of_unknown_rank = (
        "(float[n,3] x, float[2,3] z, int64[k] s) => (y) { u = Reshape(z, s)  y = Concat<axis = 1>(x, u) }"
    )
    assert not sliceport.check(parse(of_unknown_rank, 13), engine_versions=BEFORE_FIXES).findings
