"""`check` of OpenVINO models; `tests/test_divergences.py` shows that it finds each case of the table."""

from __future__ import annotations

import numpy as np
import openvino as ov
import pytest
from openvino import opset1, opset8
from openvino_models import constant, fixed, if_model, iterate, make, one_slice, parameter

import sliceport
from sliceport.checking import CheckReport

AXIS = opset1.constant(0)
ROW = ([1, 0], [2, 0], [1, 1])
NEW_AND_SHRINK = {"new_axis_mask": [0, 1], "shrink_axis_mask": [1, 0]}


def described(report: CheckReport) -> list[str]:
    return [f"{one.kind} {one.defect.rule} {'/'.join([*one.scope, one.node])}: {one.detail}" for one in report.findings]


def test_a_defect_is_found_and_the_model_stays_as_it_is() -> None:
    model = one_slice("StridedSlice", [2, 3], ROW, NEW_AND_SHRINK, name="row")
    before = [(op.get_friendly_name(), op.get_type_name()) for op in model.get_ordered_ops()]
    assert described(sliceport.check(model)) == ["defect new-axis-and-shrink-with-entries-left-out row: "]
    assert [(op.get_friendly_name(), op.get_type_name()) for op in model.get_ordered_ops()] == before


@pytest.mark.parametrize("lists", [([1], [9], [2], [1]), ([2], [3], [2**61], [0])])
def test_right_nodes_are_clean(lists: tuple[list[int], ...]) -> None:
    report = sliceport.check(one_slice("Slice", [-1, 5], lists))
    assert described(report) == []
    assert report.is_clean


def test_bodies_are_checked_and_located() -> None:
    def branch(x: ov.Node, i: int) -> ov.Node:
        node = make("StridedSlice", [x, *map(constant, ROW)], NEW_AND_SHRINK if i else {}, ours=False)
        node.set_friendly_name(f"row{i}")
        return node

    (finding,) = described(sliceport.check(if_model([2, 3], branch)))
    assert finding == "defect new-axis-and-shrink-with-entries-left-out choice.else_body/row1: "


@pytest.mark.parametrize(("size", "kind"), [(-1, "fragile"), (0, "defect")])
def test_walking_backward_through_an_open_axis_is_fragile(size: int, kind: str) -> None:
    model = one_slice("StridedSlice", [size, 2], ([0], [0], [-1]), {"begin_mask": [1], "end_mask": [1]})
    (finding,) = sliceport.check(model).findings
    assert (finding.kind, finding.defect.rule) == (kind, "backward-through-an-empty-axis")


def test_indices_of_64_bits_at_run_time_are_fragile() -> None:
    indices = [parameter([1], "i64") for _ in range(3)]
    for name, one in zip(("start", "stop", "step"), indices, strict=True):
        one.set_friendly_name(name)
    data = parameter([-1])
    node = make("Slice", [data, *indices, constant([0])], ours=False)
    node.set_friendly_name("cut")
    report = sliceport.check(ov.Model([node], [data, *indices], "m"))
    assert described(report) == [
        "fragile step-at-run-time cut: its step comes from 'step'",
        "fragile 64-bit-indices-at-run-time cut: wrong if 'start' or 'stop' or 'step' needs more than 32 bits",
    ]


@pytest.mark.parametrize(
    ("size", "start", "stride", "is_found"),
    [(3, 1, 1, True), (3, -2, 1, True), (3, 0, 1, False), (3, -3, 1, False), (5, 0, 2, False), (-1, 1, 1, True),
     (-1, 0, 1, False), (3, 1, -1, True), (3, -1, -1, False), (3, 2, -1, False), (5, -1, -2, True), (4, -1, -2, False),
     (-1, -2, -1, True), (-1, -1, -1, False), (None, 1, 1, True), (None, 0, 1, False)],
)  # fmt: skip
def test_start_of_a_sliced_input_is_found(size: int | None, start: int, stride: int, is_found: bool) -> None:
    data = parameter(None if size is None else [size, 2])
    node = iterate(data, start, stride, abs(stride), -1 if stride > 0 else 0, 0)
    node.set_friendly_name("all")
    found = described(sliceport.check(ov.Model([node], [data], "m")))
    assert found == ["defect start-of-a-sliced-input all: input 0 starts at " + str(start)] * is_found


@pytest.mark.parametrize(
    ("size", "read", "is_found"),
    [(3, "state", True), (-1, "state", True), (3, "part", False), (1, "state", False), (1, "", True),
     (0, "state", False), (0, "", True)],
)  # fmt: skip
def test_sliced_inputs_that_are_not_read_are_found(size: int, read: str, is_found: bool) -> None:
    """Size 0 stands for no sliced input, so that there is one iteration."""
    data, state, part, inner = (parameter([each, 2]) for each in (size or 1, 1, 1, 1))
    sources = {"part": part, "state": inner, "": fixed(np.ones((1, 2), np.float32))}
    result = opset1.result(opset1.add(sources[read], sources[read]))
    node = opset1.tensor_iterator()
    node.set_body(ov.Model([result], [part, inner] if size else [inner], "body"))
    if size:
        node.set_sliced_input(part, data.output(0), 0, 1, 1, -1, 0)
    node.set_merged_input(inner, state.output(0), result.output(0))
    model = ov.Model([node.get_iter_value(result.output(0), -1)], [data, state] if size else [state], "m")
    assert [one.defect.id for one in sliceport.check(model).findings] == ["sliced inputs that are not read"] * is_found
    if read == "state":  # Each iteration doubles it.
        rows = 3 if size < 0 else max(size, 1)
        arrays = [np.ones((count, 2), np.float32) for count in ([rows, 1] if size else [1])]
        assert (ov.compile_model(model, "CPU")(arrays)[0][0, 0] == 2**rows) == (not is_found)


@pytest.mark.parametrize(
    ("passed", "is_found"),
    [("merged", True), ("invariant", True), ("merged, last value", True), ("merged, concatenated", False),
     ("merged, alone", False)],
)  # fmt: skip
def test_input_that_a_body_only_passes_on_is_not_read(passed: str, is_found: bool) -> None:
    data, inner = parameter([1, 2]), parameter([1, 2])
    result, one = opset1.result(inner), opset1.result(fixed(np.ones((1, 2), np.float32)))
    node = opset1.tensor_iterator()
    node.set_body(ov.Model([result] if "alone" in passed else [result, one], [inner], "body"))
    if passed == "invariant":
        node.set_invariant_input(inner, data.output(0))
    else:
        node.set_merged_input(inner, data.output(0), result.output(0))
    outputs = [] if "alone" in passed else [node.get_iter_value(one.output(0), -1)]
    if "concatenated" in passed:
        outputs.append(node.get_concatenated_slices(result.output(0), 0, 1, 1, -1, 0))
    elif "," in passed:
        outputs.append(node.get_iter_value(result.output(0), -1))
    model = ov.Model(outputs, [data], "m")
    assert len(sliceport.check(model).findings) == is_found
    if not is_found:  # In the other cases, the plugin ends the process.
        array = np.array([[3, 4]], np.float32)
        assert ov.compile_model(model, "CPU")([array])[len(outputs) - 1].tolist() == array.tolist()


@pytest.mark.parametrize(("op", "source"), [("If", "Constant"), ("Iterator", "Constant"), ("Iterator", "Parameter")])
def test_split_of_a_constant_from_outside_its_body_is_found(op: str, source: str) -> None:
    """The CPU plugin moves a Constant into the bodies that get it unchanged, and folds the Split there."""
    data, inner, condition = parameter([12], "u4"), parameter([12], "u4"), parameter([], "boolean")
    outer = data if source == "Parameter" else ov.op.Constant(ov.Tensor(ov.Type.u4, ov.Shape([12])))
    result = opset1.result(opset1.split(inner, AXIS, 2).output(0))
    body = ov.Model([result], [inner], "body")
    if op == "If":
        node, other = opset8.if_op(condition), body.clone()
        node.set_then_body(body)
        node.set_else_body(other)
        node.set_input(outer.output(0), inner, other.get_parameters()[0])
        output = node.set_output(result, other.get_results()[0])
    else:
        node = opset1.tensor_iterator()
        node.set_body(body)
        node.set_invariant_input(inner, outer.output(0))
        output = node.get_iter_value(result.output(0), -1)
    findings = sliceport.check(ov.Model([output], [data, condition], "m")).findings
    engines = [engine for one in findings for engine in one.defect.engines]
    assert engines.count("openvino-cpu") == engines.count("openvino") * (source == "Constant")


@pytest.mark.parametrize("kind", ["Split", "VariadicSplit"])
@pytest.mark.parametrize(
    ("element", "source", "engines"),
    [("u4", "Parameter", ["openvino"]), ("i4", "Reshape", ["openvino", "openvino-cpu"]),
     ("u4", "Constant", ["openvino", "openvino-cpu"]), ("nf4", "Parameter", ["openvino", "openvino-cpu"]),
     ("i8", "Constant", [])],
)  # fmt: skip
def test_splits_of_less_than_a_byte_are_found(element: str, source: str, engines: list[str], kind: str) -> None:
    data = parameter([12], element)
    known = ov.op.Constant(ov.Tensor(getattr(ov.Type, element), ov.Shape([12])))
    sources = {"Parameter": data, "Constant": known, "Reshape": opset1.reshape(known, constant([12]), False)}
    arguments = (sources[source], AXIS)
    node = opset1.split(*arguments, 2) if kind == "Split" else opset1.variadic_split(*arguments, constant([3, 9]))
    model = ov.Model(node.outputs(), [data], "m")
    assert [engine for one in sliceport.check(model).findings for engine in one.defect.engines] == engines


def test_sizes_that_fix_an_open_axis_are_fragile() -> None:
    data = parameter([-1, 4])
    data.set_friendly_name("x")
    node = opset1.variadic_split(data, AXIS, constant([1, 2]))
    (finding,) = sliceport.check(ov.Model(node.outputs(), [data], "m")).findings
    assert (finding.kind, finding.detail) == ("fragile", "split_lengths=[1, 2] fixes axis 0 of 'x' to 3")
    rest = opset1.variadic_split(data, AXIS, constant([1, -1]))
    assert sliceport.check(ov.Model(rest.outputs(), [data], "m")).is_clean


@pytest.mark.parametrize(("element", "byte", "details"), [("u4", 0x35, ["split_lengths=[5]"]), ("i4", 0x0F, [])])
def test_lengths_of_4_bits_are_unpacked(element: str, byte: int, details: list[str]) -> None:
    """The constant has one length, because OpenVINO reads further ones beyond it. i4 holds -1, the rest."""
    data, packed = parameter([-1, 4]), ov.Tensor(getattr(ov.Type, element), ov.Shape([1]))
    packed.data.view(np.uint8)[:] = byte
    node = opset1.variadic_split(data, AXIS, ov.op.Constant(packed))
    findings = sliceport.check(ov.Model(node.outputs(), [data], "m")).findings
    assert [one.detail.partition(" fixes")[0] for one in findings] == details
