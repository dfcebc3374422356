"""`check` names what the table has, and nothing else; no engine runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import conftest
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser
from onnx_models import parse, save
from sessions import open_session

import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.model.read import read_any
from onnx_ops.passes.directml.harden import harden_for_directml
from onnx_ops.running import onnxruntime_cpu
from onnx_ops.running.runnable import prepare_to_run
from sliceport.checking import CheckReport
from sliceport.defects.cases import OnnxCase
from sliceport.defects.defect import Defect
from sliceport.defects.engines import ALL_TITLES, ONNXRUNTIME_DML
from sliceport.defects.entries import read_entries
from sliceport.defects.table import DEFECTS, find_defect
from sliceport.device import Device
from sliceport.engines.inputs import find_inputs_that_run
from sliceport.errors import ModelError

EINSUM_OF_EMPTY = find_defect("einsum of a transposed empty axis")
EINSUM_OF_NO_MATMUL = find_defect("einsum that no matrix product computes")
ONE_PART_GATES_ANOTHER = find_defect("one part gates another")
FAILS_AT_ZERO = find_defect("a reshape that fails at size 0")
REPORTED = read_entries("reported")

FRAGILE = {
    "dynamo_bigbird": {EINSUM_OF_NO_MATMUL},
    "dynamo_mamba2": {EINSUM_OF_NO_MATMUL},
    "ts_esm_dyn_12": {FAILS_AT_ZERO},
    "ts_wav2vec2_conformer_dyn_16": {ONE_PART_GATES_ANOTHER},
    "ts_xlnet_dyn_12": {EINSUM_OF_EMPTY},
}
"""The fragile findings of each model in `MODELS` that has any."""
BEFORE_ANY_FIX = dict.fromkeys(ALL_TITLES, "0")
"""Versions with all defects of the table."""
MODELS = sorted(conftest.MODELS.glob("*.onnx"))
FLIP = "<int64[1] s = {-1}, int64[1] e = {-9223372036854775808}, int64[1] a = {0}, int64[1] t = {-1}>"
GLU = "p, q = Split<num_outputs = 2>(v)  g = Sigmoid(q)  w = Mul(p, g)"


def described(report: CheckReport) -> list[str]:
    """Return the findings as text: kind, rule, node and detail."""
    return [f"{one.kind} {one.defect.rule} {'/'.join([*one.scope, one.node])}: {one.detail}" for one in report.findings]


@pytest.mark.parametrize(
    ("graph", "opset", "shape", "defect"),
    [
        pytest.param(case.text, case.opset, case.shape, defect, id=f"{defect.rule} {i}")
        for defect in DEFECTS
        for i, example in enumerate(defect.examples)
        if isinstance(case := example.case, OnnxCase)
    ],
)
def test_each_case_of_the_table_is_found(graph: str, opset: int, shape: object, defect: object) -> None:
    report = sliceport.check(parser.parse_model(graph), engines=["all"], engine_versions=BEFORE_ANY_FIX)
    assert defect in [one.defect for one in report.findings]
    assert all(one.kind == one.defect.kind for one in report.findings)


@pytest.mark.parametrize("defect", REPORTED.values(), ids=lambda defect: defect.id)
def test_target_is_not_named_once_it_was_applied(defect: Defect) -> None:
    for example, one in product(defect.examples, defect.divergences):
        if one.target:
            assert isinstance(example.case, OnnxCase)
            hardened = sliceport.harden(parser.parse_model(example.case.text), target=one.target).model
            assert defect not in [left.defect for left in sliceport.check(hardened, engines=[one.engine]).findings]


@pytest.mark.parametrize(("axes", "opset"), [("0, 2", 10), ("0", 1), ("2, 0", 11)])
def test_squeeze_of_sorted_axes_or_of_a_newer_operator_set_is_right(axes: str, opset: int) -> None:
    model = parse(f"(float[1,3,1] x) => (float y) {{ a = Squeeze<axes = [{axes}]>(x)  y = Relu(a) }}", opset)
    assert not sliceport.check(model, engines=["all"]).findings


def test_target_tensorrt_removes_an_empty_result_that_a_concat_reads() -> None:
    graph = "(float[4] x) => (float[n] y) <int64[1] two = {2}> { e = Slice(x, two, two)  y = Concat<axis = 0>(x, e) }"
    model = parse(graph, 13)
    for each, count in ((model, 1), (sliceport.harden(model, target="tensorrt").model, 0)):
        assert [one.defect.id for one in sliceport.check(each, engines=["tensorrt"]).findings] == [
            "empty result"
        ] * count


@pytest.mark.parametrize(
    ("graph", "opset"),
    [
        ("(float[6] x) => (float[a] y, float[b] z) { y, z = Split(x) }", 13),
        ("(float[5] x) => (float[a] y, float[b] z) { y, z = Split<num_outputs = 2>(x) }", 18),
        ("(float[n, 4] x) => (float[n, 2] y, float[n, 2] z) <int64[2] s = {2, 2}> "
         "{ y, z = Split<axis = 1>(x, s) }", 13),
        ("(float[n] x) => (float[n] y) { y = Split(x) }", 13),
        ("(float[4] x) => (int64[1, n] y, int64[1, m] z) <int64[2] s = {2, 2}> "
         "{ t = NonZero(x)  y, z = Split<axis = 1>(t, s) }", 13),
        (f"(float[n] x) => (float[n] y) {FLIP} {{ y = Slice(x, s, e, a, t) }}", 13),
        ("(float[n, 8] x) => (float[m, 8] y) <int64[1] s = {1}, int64[1] z = {0}> "
         "{ d = Shape<end = 1>(x)  y = Slice(x, s, d, z) }", 15),
        ("(float[4] x) => (float[a, b] y) <int64[2] s = {2, -1}> { y = Reshape(x, s) }", 14),
        ("(float[4] x) => (float[a, b] y) <int64[2] s = {2, 2}> { y = Reshape<allowzero = 1>(x, s) }", 14),
        ("(float[n,4] x) => (float[a,b] y) <int64[2] s = {-1, 4}> { y = Reshape(x, s) }", 13),
        ("(float[n,4] x) => (float[a,b] y) { y = Flatten(x) }", 13),
        ("(bool c, float[n,4] x) => (float[a,b] y) <int64[2] s = {0, -1}> { y = If(c) <"
         "then_branch = t () => (float[a,b] p) { p = Reshape(x, s) }, else_branch = e () => (float[a,b] q) "
         "{ q = Identity(x) }> }", 18),
        ("(float[2,2,2,2] x) => (float[2,2,2,2] y) { y = MatMul(x, x) }", 13),
        ("(float[4] x) => (float[2] y) { a, b = Split(x)  s = Tanh(b)  y = Mul(a, s) }", 13),
    ],
)  # fmt: skip
def test_honest_nodes_are_clean(graph: str, opset: int) -> None:
    assert described(sliceport.check(parse(graph, opset))) == []


@pytest.mark.parametrize(
    ("graph", "opset", "finding"),
    [
        ("(float[batch, 3] x) => (float[a, 3] y) <int64[1] s = {1}> { y = Split(x, s) }", 13,
         "sizes-that-fix-an-open-axis y: split=[1] fixes 'batch' to 1"),
        ("(float[?] x) => (float[a] y, float[b] z) <int64[2] s = {1, 2}> { y, z = Split<axis = -1>(x, s) }", 13,
         "sizes-that-fix-an-open-axis y: split=[1, 2] fixes axis 0 of 'x' to 3"),
        ("(float[n] x) => (float[a] y, float[b] z) <int64[2] s = {1, 2}> { y, z = Split(x, s) }", 1,
         "sizes-that-fix-an-open-axis y: split=[1, 2] fixes 'n' to 3"),
        ("(float[n] x) => (float[a] y, float[b] z) { t = Neg(x)  y, z = Split(t) }", 13,
         "uneven-parts-without-sizes y: right only where 'n' is a multiple of 2"),
        ("(float[n] x) => (float[a] y, float[b] z) { y, z = Split<split = [1, 2]>(x) }", 13,
         "uneven-parts-without-sizes y: right only where 'n' is a multiple of 2"),
        ("(float[n] x) => (float[a] y, float[b] z) { y, z = Split<num_outputs = 2>(x) }", 18,
         "num-outputs-that-leaves-the-last-part-empty y: one of the 2 parts is empty for some sizes of 'n', such as 1"),
        (f"(float[n] x) => (float[m] y) {FLIP.replace('{-1}', '{-3}', 1)} {{ y = Slice(x, s, e, a, t) }}", 13,
         "backwards-from-below-the-axis y: engines differ on start -3 with step -1 where 'n' is less than 3"),
        ("(float[4] x, int64[1] t) => (float[n] y) <int64[1] z = {0}, int64[1] f = {4}> "
         "{ y = Slice(x, z, f, z, t) }", 13,
         "step-at-run-time y: its steps come from 't'"),
        ("(float[n,m,4] x) => (float[a,b,c] y) <int64[3] s = {0, 0, -1}> { y = Reshape(x, s) }", 13,
         "a-reshape-that-fails-at-size-0 y: shape=[0, 0, -1] fails where 'n' or 'm' is 0"),
        ("(float[a,b,c] x) => (float[k,m] y) <int64[1] last = {-1}> "
         "{ s = Shape<end = 2>(x)  g = Gather(s, last)  t = Concat<axis = 0>(last, g)  y = Reshape(x, t) }", 15,
         "a-reshape-that-fails-at-size-0 y: shape=[-1, 'b'] fails where 'b' is 0"),
    ],
)  # fmt: skip
def test_what_holds_for_some_sizes_only_is_fragile(graph: str, opset: int, finding: str) -> None:
    assert described(sliceport.check(parse(graph, opset))) == [f"fragile {finding}"]


OPEN_GLUS = {
    "an open batch": ("(float[n, 4] v) => (float[n, 2] w)", "right while 'n' is open, wrong once all sizes are fixed"),
    "an open split axis": ("(float[2, n] v) => (float[2, k] w)", "right while 'n' is open, wrong once all sizes are"),
    "sizes of an operator that is not known": (
        "(float[2, 4] x) => (float[2, 2] w)",
        "wrong once all sizes of 'v' are fixed, which --input-shapes or value_info would tell",
    ),
}


@pytest.mark.parametrize("name", OPEN_GLUS)
def test_gated_split_of_open_sizes_is_fragile(directml: Device, name: str) -> None:
    """The provider fuses nodes only if it knows all their sizes when it loads the model."""
    values, detail = OPEN_GLUS[name]
    split = "p, q = Split<axis = 1, num_outputs = 2>(v)  g = Sigmoid(q)  w = Mul(p, g)"
    if "v)" not in values:
        model = parse(f"{values} {{ v = other.Op(x)  {split} }}", other=1)
    else:
        model = parse(f"{values} {{ {split} }}")
        data = np.arange(8, dtype=np.float32).reshape(2, 4)
        for sizes, is_right in ((None, True), ((2, 4), False)):
            if sizes is not None:  # as free dimension overrides fix them
                for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, sizes, strict=True):
                    dim.dim_value = size
                del model.graph.output[0].type.tensor_type.shape.dim[:]
                model.graph.output[0].type.tensor_type.ClearField("shape")
            (computed,) = directml.run_onnx(model.SerializeToString(), {"v": data}, ["w"])
            assert np.allclose(computed, data[:, :2] / (1 + np.exp(-data[:, 2:])), atol=1e-5) == is_right
            findings = sliceport.check(model, engines=[ONNXRUNTIME_DML]).findings
            gates = [one for one in findings if one.defect == ONE_PART_GATES_ANOTHER]
            assert [one.kind for one in gates] == ["fragile" if is_right else "defect"]
        model = parse(f"{values} {{ {split} }}")
        (fixed, *_) = sliceport.check(model, engines=[ONNXRUNTIME_DML], input_shapes={"v": (2, 4)}).findings
        assert (fixed.kind, fixed.detail) == ("defect", "")
    (finding,) = [one for one in sliceport.check(model).findings if one.defect == ONE_PART_GATES_ANOTHER]
    assert finding.kind == "fragile"
    assert finding.detail.startswith(detail)


def test_carried_value_that_the_body_never_reads_is_rewritten() -> None:
    """Check and harden agree on a value that grows, although no node of the body reads it."""
    model = parse(
        "(float[1] x, int64 count) => (float[n] y) <bool yes = {1}> { y = Loop(count, yes, x) <body = b "
        "(int64 i, bool c, float[1] unread) => (bool d, float[k] grown) <int64[1] two = {2}> "
        "{ d = Identity(c)  z = Cast<to = 1>(i)  grown = Expand(z, two) }> }"
    )
    (finding,) = sliceport.check(model, engines=[ONNXRUNTIME_DML]).findings
    assert finding.defect.id == "a carried value changes its size"
    result = sliceport.harden(model)
    assert [change["replacement"] for change in result.to_json()["changes"]] == ["Loop"]
    assert not sliceport.check(result.model, engines=[ONNXRUNTIME_DML]).findings


def test_each_declared_size_that_is_wrong_is_named() -> None:
    model = parse(
        "(float[n, 4, 2] x) => (float[1, 4] y, float[1, 4] z) <int64[2] s = {1, 1}, int64[1] two = {2}> "
        "{ a, b = Split<axis = -1>(x, s)  y = Squeeze(a, two)  z = Squeeze(b, two) }"
    )
    assert [one.node for one in sliceport.check(model).findings] == ["y", "z"]
    changes = harden_for_directml(from_proto(model)).changes
    assert [change.node for change in changes] == ["y", "z"]


def test_command_for_a_node_without_a_selected_engine_has_no_target() -> None:
    graph = f"(float[n] x) => (float[m] y) {FLIP.replace('{-1}', '{-3}', 1)} {{ y = Slice(x, s, e, a, t) }}"
    (rule,) = sliceport.check(parse(graph, 13), engines=["onnx-reference"]).to_json("m.onnx")["rules"].values()
    assert rule["help"] == "sliceport harden m.onnx -o OUT"
    assert not sliceport.check(parse(graph, 13), engines=["onnxruntime-cuda"]).findings


DIMS = (("n", 4), (2, "n", 2), ("n", 2, "n"))
ENTRIES = (-1, 0, 2, 4, "n")
SIZED = "d = Shape(v)  g = Gather(d, at)  n = Unsqueeze(g, zero)"


def runs(model: onnx.ModelProto, shape: Sequence[int]) -> bool:
    try:
        open_session(model).run(None, {"v": np.zeros(shape, np.float32)})
    except Exception:  # onnxruntime has its own classes of errors
        return False
    return True


@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_reshape_that_fails_at_size_0_alone_is_fragile(dims: tuple[int | str, ...]) -> None:
    """Compare with onnxruntime for every shape with a -1; an entry may be the open size, by Shape and Gather."""
    counts = Counter[bool]()
    for length in (1, 2, 3):
        for entries in product(ENTRIES, repeat=length):
            if entries.count(-1) != 1:
                continue
            parts = ", ".join("n" if entry == "n" else f"c{i}" for i, entry in enumerate(entries))
            constants = "".join(f", int64[1] c{i} = {{{entry}}}" for i, entry in enumerate(entries) if entry != "n")
            listed = ", ".join(map(str, dims))
            model = parse(
                f"(float[{listed}] v) => (w) <int64 at = {{{dims.index('n')}}}, int64[1] zero = {{0}}{constants}> "
                f"{{ {SIZED}  s = Concat<axis = 0>({parts})  w = Reshape(v, s) }}",
                13,
            )
            shapes = [[size if dim == "n" else dim for dim in dims] for size in (0, 1, 2, 4, 8)]
            fails_at_zero, *others = (not runs(model, [int(size) for size in shape]) for shape in shapes)
            is_fragile = bool(described(sliceport.check(model)))
            assert is_fragile <= fails_at_zero
            if not all(others):
                assert is_fragile == fails_at_zero, entries
            counts[is_fragile] += 1
    assert min(counts.values()) > 10


def test_a_parameter_of_rank_2_that_is_computed_is_invalid() -> None:
    graph = (
        "(float[4] x, int64[1] n) => (float[m] y) <int64[1] z = {0}, int64[1] f = {4}> "
        "{ s = Unsqueeze(n, z)  y = Slice(x, s, f) }"
    )
    (finding,) = described(sliceport.check(parse(graph, 13)))
    assert finding == "invalid parameters-that-are-no-lists y: starts must have one dimension, got 2"


def test_an_axis_that_refers_to_an_attribute_of_a_call_is_no_finding() -> None:
    proto = parse("(float[n,4] x) => (float[a,b] y, float[c,d] z) { y, z = Split(x) }", 13)
    attribute = onnx.AttributeProto(name="axis", type=onnx.AttributeProto.INT, ref_attr_name="k")
    proto.graph.node[0].attribute.append(attribute)
    assert not sliceport.check(proto).findings


def test_bodies_are_checked_and_located() -> None:
    graph = (
        f"(bool c, float[4] v) => (float[n] y) {{ [choice] y = If (c) <then_branch = t () => (float[n] w) {{ {GLU} }}, "
        "else_branch = e () => (float[4] u) { u = Identity(v) }> }"
    )
    assert described(sliceport.check(parse(graph))) == ["defect one-part-gates-another choice.then_branch/p: "]


def test_a_node_of_a_function_counts_once_for_all_its_calls() -> None:
    model = parse(
        f"(float[4] x, float[4] z) => (float[n] y, float[m] u) {{ y = local.glu(x)  u = local.glu(z) }} "
        f'<domain: "local", opset_import: ["" : 18]> glu (v) => (w) {{ {GLU} }}',
        local=1,
    )
    assert described(sliceport.check(model)) == ["defect one-part-gates-another glu.p: "]


def test_symbol_in_a_function_is_no_size_of_the_main_graph() -> None:
    graph = """(float[n] x, float[m] z) => (float[n] y, float[m] w) { y = local.f (x)  a = local.f (z)  w = Neg (a) }
        <domain: "local", opset_import: ["" : 18]> f (x) => (r) <float[n] r> { r = Abs (x) }"""
    assert not sliceport.check(parse(graph, 18, local=1), input_shapes={"x": (3,), "z": (5,)}).findings


def test_functions_of_two_domains_with_one_name_are_two_findings() -> None:
    functions = [f'<domain: "{d}", opset_import: ["" : 18]> glu (v) => (w) {{ {GLU} }}' for d in ("a", "b")]
    calls = "(float[4] x, float[4] z) => (float[n] y, float[m] u) { y = a.glu(x)  u = b.glu(z) }"
    model = parse(f"{calls} {' '.join(functions)}", a=1, b=1)
    assert described(sliceport.check(model)) == [
        "defect one-part-gates-another a::glu.p: ",
        "defect one-part-gates-another b::glu.p: ",
    ]


def test_every_kind_of_model_has_the_same_findings_and_stays_as_it_is(tmp_path: Path) -> None:
    path = save(f"(float[4] v) => (float[n] w) {{ {GLU} }}", tmp_path / "m.onnx")
    proto = onnx.load(path)
    before = proto.SerializeToString()
    findings = described(sliceport.check(path))
    assert len(findings) == 1
    assert described(sliceport.check(proto)) == findings
    model = ir.serde.deserialize_model(proto)
    written = ir.serde.serialize_model(model).SerializeToString()
    assert described(sliceport.check(model)) == findings
    assert (proto.SerializeToString(), ir.serde.serialize_model(model).SerializeToString()) == (before, written)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_check_and_harden_name_the_same_nodes(path: Path) -> None:
    report = sliceport.check(path, engines=[ONNXRUNTIME_DML])
    checked = Counter((one.op, one.defect.id) for one in report.findings if one.kind == "defect")
    changes = harden_for_directml(from_proto(onnx.load(path))).changes
    certain = [change for change in changes if not change.is_fragile]
    assert checked == Counter((change.op, defect.id) for change in certain for defect in change.defects)
    fragile = {one.defect for one in sliceport.check(path, engines=["all"]).findings if one.kind != "defect"}
    assert fragile == FRAGILE.get(path.stem, set())


def test_export_that_is_fragile_at_size_0_fails_there() -> None:
    runnable, side = prepare_to_run(read_any(conftest.MODELS / "ts_esm_dyn_12.onnx")), onnxruntime_cpu.side()
    (name,) = runnable.inputs
    find_inputs_that_run(runnable, side, {name: (1, 1)}, {}, 0)
    for shape in ((0, 5), (2, 0)):
        with pytest.raises(ModelError, match="while running Reshape node"):
            find_inputs_that_run(runnable, side, {name: shape}, {}, 0)


GOOD_ANSWERS = {
    "detr534_split_batch_fixed_1": ["sizes-that-fix-an-open-axis"],
    "gap412_two_slices": [],
    "iree24584_9_0_m1": [],
    "onnx8255_num_outputs_more_than_outputs": ["num-outputs-unlike-the-outputs"],
    "onnxslim277_slice_of_slice": [],
    "opencv22355_unordered_axes": [],
    "opencv22794_step_m1": [],
    "ort11107_reverse_int64_max": ["backward-slice-to-the-greatest-integer"],
    "ort14523_split18_num_outputs": [],
    "ort21583_matmul_5d": ["matmul-of-more-than-4-axes"],
    "ort2272_reverse_int32_max": ["backward-slice-to-the-greatest-integer"],
    "ort29461_negative_split_size": ["sizes-that-do-not-fit"],
    "ort32146_glu": ["one-part-gates-another"],
    "ov31205_scalar_end": ["parameters-that-are-no-lists"],
    "ov33990_empty_axes": ["empty-lists-in-an-onnx-model"],
    "ov38240_runtime_step": ["step-at-run-time"],
    "pytorch104314_starts_rank2": ["parameters-that-are-no-lists"],
    "qwentts6_node_view_2": ["allowzero-and-a-1"],
    "tf2onnx1822_244_by_16": ["uneven-parts-without-sizes"],
    "trt4470_starts1_axes2": ["not-valid"],
    "trt763_empty_slice_concat": ["nothing-is-selected"],
    "webnn772_stride": [],
}
"""The rules that explain the models rebuilt from threads, for the engines that can be tried."""
REPORTED_ANSWERS = {
    "iree24584_9_0_m1": ("iree", "negative-step"),
    "opencv22355_unordered_axes": ("opencv", "axes-out-of-order"),
    "opencv22794_step_m1": ("opencv", "negative-step"),
    "ov38240_runtime_step": ("openvino-gpu", "step-at-run-time"),
    "trt763_empty_slice_concat": ("tensorrt", "empty-result"),
    "webnn772_stride": ("onnxruntime-webnn", "step-other-than-1"),
}


@pytest.mark.parametrize("name", GOOD_ANSWERS)
def test_models_rebuilt_from_threads_get_the_right_answer(name: str) -> None:
    path = conftest.SHARED / "vectors" / "real_issues" / f"{name}.onnx"
    if not path.is_file():
        pytest.skip("no models of threads beside the project")
    assert [one.defect.rule for one in sliceport.check(path).findings] == GOOD_ANSWERS[name]
    if name in REPORTED_ANSWERS:
        engine, rule = REPORTED_ANSWERS[name]
        report = sliceport.check(path, engines=[engine], engine_versions=BEFORE_ANY_FIX)
        assert rule in [one.defect.rule for one in report.findings if report.selection.divergences_of(one.defect)]
