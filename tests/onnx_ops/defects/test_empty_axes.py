"""`check` names exactly the open sizes at which onnxruntime ends the process."""

from __future__ import annotations

import re
from pathlib import Path

import onnxruntime as ort
import pytest
from fatal_sizes import find_fatal_sizes
from onnx_models import parse

import sliceport
from sliceport.defects.table import find_defect

TRANSPOSED_EMPTY_AXIS = find_defect("matmul of a transposed empty axis")

BEFORE_FIXES = {"onnxruntime": "1.31.1"}
"""The last version with the defect of a MatMul."""
EINSUMS = [
    ("ab,bc->ac", "a,b", "b,c", ""),
    ("ab,cb->ac", "a,b", "c,b", "b"),
    ("ab,cb->ac", "a,b", "1,b", ""),
    ("abi,abi->aib", "a,b,i", "a,b,i", ""),
    ("bij,bkj->bik", "b,i,j", "b,k,j", "bj"),
    ("bhqd,bhkd->bhqk", "b,h,q,d", "b,h,k,d", "bhd"),
    ("ibnd,jbnd->bnij", "i,b,n,d", "j,b,n,d", "j"),
    ("bnij,jbnd->ibnd", "b,n,i,j", "j,b,n,d", "dj"),
    ("adgh,egh->ade", "a,d,g,h", "e,g,h", "e"),
    ("cdabe,abcde->e", "1,1,1,1,1", "a,b,c,d,e", ""),
    ("...ij,...kj->...ik", "a,b,i,j", "a,b,k,j", "abj"),
    ("ij...,jk...->ik...", "i,j,b", "j,k,b", "b"),
    ("acd,abcd->b", "a,c,d", "a,b,c,d", "ab"),
    ("aba,b->a", "a,b,a", "b", None),
]
"""Equations with the sizes of two tensors, and the names of the fatal ones; None for a repeated label."""


BLOCKS = [("cd,abcd->ab", "c,d", "a,b,c,d", "cd"), ("ade,abcde->bc", "a,d,e", "a,b,c,d,e", "ade")]
"""The same for Einsums that move several axes together. onnxruntime does so only for elements of up to 32 bits."""


def named(graph: str, opset: int = 17) -> set[str]:
    findings = sliceport.check(parse(graph, opset), engine_versions=BEFORE_FIXES).findings
    return {name for one in findings for name in re.findall(r"'(\w+)'", one.detail.partition("process where")[2])}


IS_OLD = tuple(map(int, ort.__version__.split(".")[:2])) < (1, 25)


@pytest.mark.skipif(IS_OLD, reason="before 1.25, onnxruntime transposes by other code, which fails at more sizes")
@pytest.mark.parametrize(
    ("element", "equation", "left", "right", "fatal"),
    [
        *((element, *einsum) for element in ("float", "int64") for einsum in EINSUMS),
        *(("float16", *einsum) for einsum in BLOCKS),
        *(("double", *einsum[:-1], "") for einsum in BLOCKS),
    ],
)
def test_fatal_sizes_of_an_einsum_are_named(
    element: str, equation: str, left: str, right: str, fatal: str | None, tmp_path: Path
) -> None:
    inputs = f"({element}[{left}] x, {element}[{right}] z)"
    graph = f'{inputs} => ({element} y) {{ y = Einsum<equation = "{equation}">(x, z) }}'
    assert named(graph) == set(fatal or "")
    assert fatal is None or find_fatal_sizes(parse(graph, 17), tmp_path) == set(fatal)


T = "t = Transpose<perm = [1,0,2]>(x)"
T_OF_Z = T.replace("x", "z")
XW, Y = "float[n,3,4] x, float[3,4,7] w", "float[a,b,c] y"
K = "<float k = {2}, float[4] row = {1, 2, 3, 4}>"
BRANCHES = (
    "y = If(c) <then_branch = t () => (float[e,f,g] s) {{ {} }}, else_branch = e () => (float[h,i,j] q) "
    "{{ q = Identity(w) }}>"
)
LOOP = (
    "v, y = Loop(m, yes, w) <body = b (int64 i, bool c, float[3,4,7] p) => (bool d, float[3,4,7] q, float[e,f,g] s) "
    f"{{ d = Identity(c)  q = Identity(p)  {T}  s = MatMul(t, w) }}>"
)
SCAN = f"y = Scan<num_scan_inputs = 1, body = b (float[n,3,4] x) => (float[e,f,g] s) {{ {T}  s = MatMul(t, w) }}>(u)"
SCAN_WITH_A_STATE = (
    "z, y = Scan<num_scan_inputs = 1, body = b (float[n,2] r, float[5] k) => (float[n,2] q, float[e,f,g] s) "
    f"{{ q = Identity(r)  {T}  s = MatMul(t, w) }}>(u, v)"
)
MATMULS = {
    "one Transpose": (XW, Y, f"{{ {T}  y = MatMul(t, w) }}"),
    "on the right": (XW, Y, "{ t = Transpose<perm = [1,2,0]>(x)  u = Transpose<perm = [1,0,2]>(x)  y = MatMul(u, t) }"),
    "Identity": (XW, Y, f"{{ {T}  i = Identity(t)  j = Dropout(i)  y = MatMul(j, w) }}"),
    "Dropout with all inputs": (
        XW,
        Y,
        f"<float r = {{0.5}}, bool no = {{0}}> {{ {T}  i, mask = Dropout(t, r, no)  y = MatMul(i, w) }}",
    ),
    "Cast": ("float16[n,3,4] x, float[3,4,7] w", Y, f"{{ {T}  i = Cast<to = 1>(t)  y = MatMul(i, w) }}"),
    "factor": (XW, f"{Y}, float[3,n,4] i", f"{K} {{ {T}  i = Mul(k, t)  y = MatMul(i, w) }}"),
    "number": (XW, Y, f"{{ {T}  k = Constant<value_float = 2.0>()  i = Mul(k, t)  y = MatMul(i, w) }}"),
    "list of one": (XW, Y, f"{{ {T}  k = Constant<value_floats = [2.0]>()  i = Mul(k, t)  y = MatMul(i, w) }}"),
    "divisor": (XW, Y, f"{K} {{ {T}  i = Div(t, k)  y = MatMul(i, w) }}"),
    "merged": (
        XW,
        Y,
        "{ a = Transpose<perm = [2,1,0]>(x)  i = Identity(a)  t = Transpose<perm = [1,2,0]>(i)  y = MatMul(t, w) }",
    ),
    "branch": (f"bool c, {XW}", Y, f"{{ {BRANCHES.format(f'{T}  s = MatMul(t, w)')} }}"),
    "loop": (XW, "float[a,b,c,d] y", f"<int64 m = {{2}}, bool yes = {{1}}> {{ {LOOP} }}"),
    "scan": ("float[2,n,3,4] u, float[3,4,7] w", "float[a,b,c,d] y", f"{{ {SCAN} }}"),
    "scan with a state": (f"float[n,2] u, float[2,5] v, {XW}", "float[a,b,c,d] y", f"{{ {SCAN_WITH_A_STATE} }}"),
}
"""Inputs, outputs, and the remaining graph in which onnxruntime fuses a Transpose with a MatMul."""
SAFE_MATMULS = {
    "Constant": (XW, Y, "{ t = Constant<value = float[1,7,2] {1,1,1,1,1,1,1,1,1,1,1,1,1,1}>()  y = MatMul(w, t) }"),
    "other type": (XW.replace("float", "int32"), Y.replace("float", "int32"), f"{{ {T}  y = MatMul(t, w) }}"),
    "other rank": ("float[n,3,4] x, float[4,7] w", Y, f"{{ {T}  y = MatMul(t, w) }}"),
    "other perm": ("float[n,3,4] x, float[4,3,7] w", Y, "{ t = Transpose<perm = [2,0,1]>(x)  y = MatMul(t, w) }"),
    "other axis": ("float[3,n,4] x, float[n,4,7] w", Y, f"{{ {T}  y = MatMul(t, w) }}"),
    "output": (XW, f"{Y}, float[3,n,4] t", f"{{ {T}  y = MatMul(t, w) }}"),
    "two Casts": (XW, Y, f"{{ {T}  i = Cast<to = 11>(t)  j = Cast<to = 1>(i)  y = MatMul(j, w) }}"),
    "mask as an output": (XW, f"{Y}, bool[3,n,4] mask", f"{{ {T}  i, mask = Dropout(t)  y = MatMul(i, w) }}"),
    "mask that is read": (
        XW,
        f"{Y}, bool[3,n,4] k",
        f"{{ {T}  i, mask = Dropout(t)  k = Not(mask)  y = MatMul(i, w) }}",
    ),
    "divided": (XW, Y, f"{K} {{ {T}  i = Div(k, t)  y = MatMul(i, w) }}"),
    "factors": (XW, Y, f"{K} {{ {T}  i = Mul(t, row)  y = MatMul(i, w) }}"),
    "merged": (
        "float[n,4,3] x, float[3,4,7] w",
        Y,
        f"{{ z = Transpose<perm = [0,2,1]>(x)  {T_OF_Z}  y = MatMul(t, w) }}",
    ),
    "outside of a branch": (f"bool c, {XW}", Y, f"{{ {T}  {BRANCHES.format('s = MatMul(t, w)')} }}"),
    "branch for another size": (
        XW,
        Y,
        "<int64 no = {0}> { d = Shape(x)  m = Gather(d, no)  c = Greater(m, no)  "
        f"{BRANCHES.format(f'{T}  s = MatMul(t, w)')} }}",
    ),
    "no iteration": (
        XW,
        "float[a,b,c,d] y",
        f"<int64 z = {{0}}, bool yes = {{1}}> {{ d = Shape(x)  m = Gather(d, z)  {LOOP} }}",
    ),
    "scan over the axis": ("float[n,n,3,4] u, float[3,4,7] w", "float[a,b,c,d] y", f"{{ {SCAN} }}"),
}


@pytest.mark.parametrize(
    ("graph", "fatal"),
    [(graph, fatal) for graphs, fatal in ((MATMULS, {"n"}), (SAFE_MATMULS, set())) for graph in graphs.values()],
    ids=[*MATMULS, *(f"safe {name}" for name in SAFE_MATMULS)],
)
def test_fatal_sizes_of_a_matmul_are_named(graph: tuple[str, str, str], fatal: set[str], tmp_path: Path) -> None:
    inputs, outputs, rest = graph
    text = f"({inputs}) => ({outputs}) {rest}"
    assert named(text) == fatal
    is_affected = TRANSPOSED_EMPTY_AXIS.divergences[0].may_affect(ort.__version__)
    assert find_fatal_sizes(parse(text, 17), tmp_path) == (fatal if is_affected else set())


def test_matmul_below_opset_9_is_not_named() -> None:
    assert not named(f"({XW}) => ({Y}) {{ {T}  y = MatMul(t, w) }}", 8)


def test_function_is_named_as_it_is_called() -> None:
    body = f'<domain: "f", opset_import: ["" : 17]> f (x, w) => (y) {{ {T}  y = MatMul(t, w) }}'
    model = parse(f"({XW}) => ({Y}) {{ y = f.f(x, w) }} {body}", 17, f=1)
    findings = sliceport.check(model, engine_versions=BEFORE_FIXES).findings
    assert [(one.node, one.detail) for one in findings] == [("f.y", "ends the process where 'n' is 0")]


def test_declared_size_0_is_a_defect() -> None:
    graph = f"({XW.replace('n', '0')}) => ({Y}) {{ {T}  y = MatMul(t, w) }}"
    (finding,) = sliceport.check(parse(graph, 17), engine_versions=BEFORE_FIXES).findings
    assert (finding.kind, finding.detail) == ("defect", "ends the process because a size is 0")
