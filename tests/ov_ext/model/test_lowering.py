"""Nodes of OpenVINO models are lowered to DirectML operators that give what the oracle gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from command_line import Invoke
from openvino import opset1, opset8
from openvino_models import constant, fixed, if_model, make, one_slice, parameter
from running import as_bytes, run_node

import ov_ext
import sliceport
from ov_ext.format import FORMAT
from sliceport import device
from sliceport.directml.program import Program
from sliceport.errors import ModelError, UnsupportedSlice, UsageError
from sliceport.slicing.node import Resolved
from sliceport.wording.shell import join

MODELS = Path(__file__).parents[3] / "models"
lower = FORMAT.lower
BACKWARD = ([6], [0], [-2])
WITH_FUNCTIONS = ("rule_function.onnx", "ts_functions_17.onnx")


def model_of(node: ov.Node, *sources: ov.Node) -> ov.Model:
    return ov.Model(node.outputs(), list(sources), "m")


def outputs_of(program: Program, data: np.ndarray) -> list[np.ndarray]:
    """Run a program of one node on the emulator."""
    (lowered,) = program.nodes
    assert lowered.reason is None
    got = run_node(lowered, as_bytes(data))
    return [
        np.asarray(got[cut.output])[: cut.region.size * data.itemsize].view(data.dtype).reshape(cut.region.output_shape)
        for cut in lowered.resolved.cuts
    ]


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
@pytest.mark.parametrize("lengths", [None, [1, 5], [2, -1, 1], [0, 6], [-1, 6]])
def test_splits_are_lowered_right(axis: int, lengths: list[int] | None) -> None:
    shape = [6, 6, 6]
    source = parameter(shape, "u8")
    if lengths is None:
        node = opset1.split(source, fixed(np.array(axis)), 3)
    else:
        node = opset1.variadic_split(source, fixed(np.array(axis)), constant(lengths))
    data = np.arange(216, dtype=np.uint8).reshape(shape)
    out = [ov.Tensor(ov.Type.u8, ov.Shape([0])) for _ in node.outputs()]
    model = model_of(node, source)
    assert model.evaluate(out, [ov.Tensor(data)])
    got = outputs_of(lower(model), data)
    assert [(g.shape, g.tolist()) for g in got] == [(tuple(o.shape), o.data.tolist()) for o in out]


def test_new_and_dropped_axes_need_no_operator() -> None:
    masks = {"shrink_axis_mask": [1], "ellipsis_mask": [0, 1], "new_axis_mask": [0, 0, 1]}
    model = one_slice("StridedSlice", [1, 4, 3], ([0, 0, 0], [1, 0, 0], [1, 1, 1]), masks)
    (lowered,) = lower(model).nodes
    assert (lowered.verdict, lowered.calls) == ("alias", ())
    assert lowered.resolved.cuts[0].region.output_shape == (4, 3, 1)


def test_nodes_that_depend_on_shapes_alone_are_folded_or_resolved() -> None:
    source = parameter([2, 6, 4])
    half = opset8.divide(
        make("Slice", [opset8.shape_of(source), *map(constant, ([1], [2], [1]))], ours=False), constant([2])
    )
    node = make("Slice", [source, constant([0]), half, constant([1]), constant([1])], ours=False)
    first, second = lower(model_of(node, source)).nodes
    assert (first.verdict, second.verdict) == ("folded", "lowered")
    assert second.resolved.cuts[0].region.output_shape == (2, 3, 4)


def test_slice_of_random_numbers_from_a_constant_branch_is_not_folded() -> None:
    def make_random() -> ov.Model:
        numbers = opset8.random_uniform(constant([4]), np.float32(0), np.float32(1), "f32")
        return ov.Model([numbers], [], "branch")

    choice = opset8.if_op(opset8.constant(np.True_))
    choice.set_then_body(make_random())
    choice.set_else_body(make_random())
    output = choice.set_output(choice.get_function(0).get_results()[0], choice.get_function(1).get_results()[0])
    node = make("Slice", [output, *map(constant, ([1], [3], [1]))], ours=False)
    (lowered,) = lower(model_of(node)).nodes
    assert lowered.verdict == "lowered"


def test_open_shapes_and_run_time_indices_are_refused_until_they_are_known() -> None:
    source, at = parameter([-1, 4]), parameter([1], "i64")
    source.output(0).get_tensor().set_names({"x"})
    node = make("Slice", [source, at, constant([9]), constant([1]), constant([1])], ours=True)
    model = ov.Model([node], [source, at], "m")
    (lowered,) = lower(model).nodes
    assert lowered.reason is not None
    assert lowered.reason.code == "missing_shape"
    (lowered,) = lower(model, input_shapes={"x": (2, 4)}).nodes
    assert lowered.reason is not None
    assert lowered.reason.code == "dynamic_parameter"
    assert "an index comes from Parameter" in lowered.reason.message
    with pytest.raises(UnsupportedSlice):
        sliceport.lower(model, strict=True)
    assert model.input("x").get_partial_shape() == ov.PartialShape([-1, 4])
    with pytest.raises(UsageError, match=r"the model has no input 'z' to give a shape to; its inputs are 'x', "):
        lower(model, input_shapes={"z": (1,)})
    with pytest.raises(UsageError, match=r"input 'x' is declared \[\?,4\], but its given shape is \[2, 5\]\."):
        lower(model, input_shapes={"x": (2, 5)})


def test_nodes_of_bodies_have_a_scope() -> None:
    model = if_model([8], lambda inner, _: make("Slice", [inner, *map(constant, ([1], [3], [1]))], ours=False))
    program = lower(model)
    assert [n.node.scope for n in program.nodes] == [("choice.then_body",), ("choice.else_body",)]
    assert program.summary["lowered"] == 2
    (choice,) = (op for op in model.get_ops() if op.get_type_name() == "If")
    view = make("Slice", [model.input(1).get_node(), *map(constant, ([4], [8], [1]))], ours=False)
    view.set_friendly_name(choice.get_function(0).get_parameters()[0].get_friendly_name())
    choice.input(1).replace_source_output(view.output(0))
    assert [node.calls[0].input.byte_offset for node in lower(model, views=True).nodes[1:]] == [0, 0]  # not the view's


def test_bodies_of_nodes_with_one_name_have_different_scopes() -> None:
    models = [
        if_model([8], lambda inner, _: make("Slice", [inner, *map(constant, ([1], [3], [1]))], ours=False))
        for _ in range(2)
    ]
    results, parameters = (
        [each for model in models for each in getattr(model, f"get_{kind}")()] for kind in ("results", "parameters")
    )
    scopes = {node.node.scope for node in lower(ov.Model(results, parameters, "m")).nodes}
    bodies = ("then_body", "else_body", "then_body#2", "else_body#2")
    assert scopes == {(f"choice.{body}",) for body in bodies}


@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16", "f8e4m3", "i64", "i8", "u64", "u16", "boolean"])
def test_element_type_is_lowered(element: str) -> None:
    assert lower(one_slice("Slice", [8], BACKWARD, element=element)).summary["lowered"] == 1


@pytest.mark.parametrize("element", ["string", "u1", "u3"])
def test_element_type_that_directml_lacks_is_refused(element: str) -> None:
    (node,) = lower(one_slice("Slice", [8], BACKWARD, element=element)).nodes
    assert (node.reason and node.reason.code) == "unsupported_type"


def test_directml_computes_what_is_selected(directml: device.Device) -> None:
    data = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    masks = {"begin_mask": [1], "end_mask": [1], "shrink_axis_mask": [0, 1], "new_axis_mask": [0, 0, 1]}
    indices = ([0, 1, 0, 1], [0, 2, 0, 4], [-1, 1, 1, 2])
    (call,) = lower(one_slice("StridedSlice", [2, 3, 4, 5], indices, masks, ours=True)).calls
    (got,) = directml.run(call.operator, as_bytes(data))
    assert np.frombuffer(got, np.float32)[: 2 * 2 * 5].tolist() == data[::-1, 1, 1:4:2].reshape(-1).tolist()


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_nodes_of_exports_resolve_to_the_shape_that_openvino_infers(path: Path) -> None:
    if path.name in WITH_FUNCTIONS:
        with pytest.raises(ModelError, match="No conversion rule found"):
            lower(path)
        return
    shapes = {e["file"]: e["input_shapes"] for e in json.loads((MODELS / "models.json").read_text())}
    model = ov_ext.read_model(path)
    program = lower(model, input_shapes=shapes.get(path.name, {}))
    assert {n.reason.code for n in program.nodes if n.reason} <= {
        "dynamic_parameter", "missing_shape", "unsupported_type", "rank_limit",
    }  # fmt: skip
    if shapes.get(path.name):
        model.reshape({name: ov.PartialShape(list(shape)) for name, shape in shapes[path.name].items()})
    inferred = {op.get_friendly_name(): op.outputs() for op in model.get_ordered_ops()}
    for lowered in program.nodes:
        cuts = lowered.node.cuts if isinstance(lowered.node, Resolved) else ()
        for cut, output in zip(cuts, inferred.get(lowered.node.name, ()), strict=False):
            if not lowered.node.scope and output.get_partial_shape().is_static:
                assert cut.region.output_shape == tuple(output.get_shape())


def test_command_line_lowers_a_file(tmp_path: Path, invoke: Invoke) -> None:
    masks = {"begin_mask": [1], "end_mask": [1]}
    model = one_slice("StridedSlice", [-1, 8], ([0, 1], [0, 9], [1, 2]), masks, ours=True, name="odd")
    model.input(0).get_tensor().set_names({"x"})
    ov.save_model(model, str(tmp_path / "m.xml"))
    example = join(["--input-shapes", "x:1,8"])
    refused = invoke("lower", tmp_path / "m.xml", code=1).out
    assert f"not wholly known; give sizes, as in {example} (an example)." in refused
    said = invoke("lower", tmp_path / "m.xml", "--input-shapes", "x:3,8", "-v", "-o", tmp_path / "out").out
    assert "odd   StridedSlice-1  lowered  #0 SLICE1 FLOAT32 [24] offsets [1] sizes [23] strides [2]" in said
    program = json.loads((tmp_path / "out" / "program.json").read_text())
    assert program["nodes"][0]["domain"] == "ov_ext"
    assert "is not a file." in invoke("lower", tmp_path / "none.xml", code=2).err
