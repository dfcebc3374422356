"""OpenVINO models lowered to DirectML: the operators give what the node gives, by the oracle."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import numpy as np
import openvino as ov
import oracle
import pytest
from openvino import opset1, opset8
from openvino_models import MASKS, constant, fixed, make, parameter
from running import as_bytes, run_node

import ov_ext
from sliceport.cli.main import main
from sliceport.directml import device
from sliceport.directml.program import Program
from sliceport.errors import ModelError, UnsupportedSlice, UsageError
from sliceport.shell import join
from sliceport.slicing.node import Resolved

MODELS = Path(__file__).parents[2] / "models"
WITH_FUNCTIONS = ("rule_function.onnx", "ts_functions_17.onnx")


def model_of(node: ov.Node, *sources: ov.Node) -> ov.Model:
    return ov.Model(node.outputs(), list(sources), "m")


def outputs_of(program: Program, data: np.ndarray) -> list[np.ndarray]:
    """What a program of one node gives on the emulator."""
    (lowered,) = program.nodes
    assert lowered.reason is None
    got = run_node(lowered, as_bytes(data))
    return [
        np.asarray(got[cut.output])[: cut.region.size * data.itemsize].view(data.dtype).reshape(cut.region.output_shape)
        for cut in lowered.resolved.cuts
    ]


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_random_strided_slices(seed: int, ours: bool) -> None:
    random = np.random.default_rng(seed)
    done = 0
    for _ in range(80):
        rank = int(random.integers(1, 5))
        shape = random.integers(1, 6, rank).tolist()
        count = int(random.integers(0, rank + 2))
        begin, end = random.integers(-7, 8, (2, count)).tolist()
        strides = random.choice([-2, -1, 1, 2, 3], count).tolist()
        masks = {name: (random.random(count) < 0.25).astype(int).tolist() for name in MASKS}
        data = (1 + np.arange(prod(shape), dtype=np.int32)).reshape(shape)
        try:
            expected = oracle.strided_slice(data, begin, end, strides, **masks)
        except oracle.OracleError:
            continue
        source = parameter(shape, "i32")
        node = make("StridedSlice", [source, *map(constant, (begin, end, strides))], masks, ours=ours)
        (got,) = outputs_of(ov_ext.lower(model_of(node, source)), data)
        assert got.shape == expected.shape
        assert np.array_equal(got, expected)
        done += 1
    assert done > 30


@pytest.mark.parametrize("ours", [False, True])
def test_random_slices(ours: bool) -> None:
    random = np.random.default_rng(0)
    for _ in range(80):
        rank = int(random.integers(1, 5))
        shape = random.integers(1, 6, rank).tolist()
        count = int(random.integers(1, rank + 1))
        start, stop = random.integers(-7, 8, (2, count)).tolist()
        step = random.choice([-2, -1, 1, 2], count).tolist()
        axes = random.permutation(rank)[:count].tolist()
        data = np.arange(prod(shape), dtype=np.float32).reshape(shape)
        source = parameter(shape)
        node = make("Slice", [source, *map(constant, (start, stop, step, axes))], ours=ours)
        (got,) = outputs_of(ov_ext.lower(model_of(node, source)), data)
        assert np.array_equal(got, oracle.onnx_slice(data, start, stop, axes, step))


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
@pytest.mark.parametrize("lengths", [None, [1, 5], [2, -1, 1], [0, 6], [-1, 6]])
def test_splits(axis: int, lengths: list[int] | None) -> None:
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
    got = outputs_of(ov_ext.lower(model), data)
    assert [(g.shape, g.tolist()) for g in got] == [(tuple(o.shape), o.data.tolist()) for o in out]


def test_new_and_dropped_axes_are_no_operator() -> None:
    source = parameter([1, 4, 3])
    masks = {"shrink_axis_mask": [1], "ellipsis_mask": [0, 1], "new_axis_mask": [0, 0, 1]}
    node = make("StridedSlice", [source, *map(constant, ([0, 0, 0], [1, 0, 0], [1, 1, 1]))], masks, ours=False)
    (lowered,) = ov_ext.lower(model_of(node, source)).nodes
    assert (lowered.verdict, lowered.calls) == ("alias", ())
    assert lowered.resolved.cuts[0].region.output_shape == (4, 3, 1)


def test_what_depends_on_shapes_alone_is_folded_or_resolved() -> None:
    source = parameter([2, 6, 4])
    half = opset8.divide(
        make("Slice", [opset8.shape_of(source), *map(constant, ([1], [2], [1]))], ours=False), constant([2])
    )
    node = make("Slice", [source, constant([0]), half, constant([1]), constant([1])], ours=False)
    first, second = ov_ext.lower(model_of(node, source)).nodes
    assert (first.verdict, second.verdict) == ("folded", "lowered")
    assert second.resolved.cuts[0].region.output_shape == (2, 3, 4)


def test_open_shapes_and_run_time_indices_are_refused_until_they_are_known() -> None:
    source, at = parameter([-1, 4]), parameter([1], "i64")
    source.output(0).get_tensor().set_names({"x"})
    node = make("Slice", [source, at, constant([9]), constant([1]), constant([1])], ours=True)
    model = ov.Model([node], [source, at], "m")
    (lowered,) = ov_ext.lower(model).nodes
    assert lowered.reason is not None
    assert lowered.reason.code == "missing_shape"
    (lowered,) = ov_ext.lower(model, input_shapes={"x": (2, 4)}).nodes
    assert lowered.reason is not None
    assert lowered.reason.code == "dynamic_parameter"
    assert "an index comes from Parameter" in lowered.reason.message
    with pytest.raises(UnsupportedSlice):
        ov_ext.lower(model, strict=True)
    assert model.input("x").get_partial_shape() == ov.PartialShape([-1, 4])
    with pytest.raises(UsageError, match=r"the model has no input 'z' to give a shape to; its inputs are 'x', "):
        ov_ext.lower(model, input_shapes={"z": (1,)})
    with pytest.raises(UsageError, match=r"input 'x' is declared \[\?,4\], but its given shape is \[2, 5\]\."):
        ov_ext.lower(model, input_shapes={"x": (2, 5)})


def test_bodies_have_a_scope() -> None:
    condition, x = parameter([], "boolean"), parameter([4])
    bodies = []
    for _ in range(2):
        inner = parameter([4])
        bodies.append(ov.Model([make("Slice", [inner, *map(constant, ([1], [3], [1]))], ours=False)], [inner], "b"))
    node = opset8.if_op(condition)
    node.set_friendly_name("choice")
    node.set_then_body(bodies[0])
    node.set_else_body(bodies[1])
    node.set_input(x.output(0), bodies[0].get_parameters()[0], bodies[1].get_parameters()[0])
    result = node.set_output(bodies[0].get_results()[0], bodies[1].get_results()[0])
    program = ov_ext.lower(ov.Model([result], [condition, x], "m"))
    assert [n.node.scope for n in program.nodes] == [("choice.then_body",), ("choice.else_body",)]
    assert program.summary["lowered"] == 2


@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16", "f8e4m3", "i64", "i8", "u64", "u16", "boolean"])
def test_element_types(element: str) -> None:
    source = parameter([8], element)
    node = make("Slice", [source, *map(constant, ([6], [0], [-2]))], ours=False)
    assert ov_ext.lower(model_of(node, source)).summary["lowered"] == 1


@pytest.mark.parametrize("element", ["string", "u1", "u3"])
def test_types_that_directml_cannot_carry(element: str) -> None:
    source = parameter([8], element)
    node = make("Slice", [source, *map(constant, ([6], [0], [-2]))], ours=False)
    (lowered,) = ov_ext.lower(model_of(node, source)).nodes
    assert lowered.reason is not None
    assert lowered.reason.code == "unsupported_type"


def test_on_the_real_directml(directml: device.Device) -> None:
    data = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    source = parameter([2, 3, 4, 5])
    masks = {"begin_mask": [1], "end_mask": [1], "shrink_axis_mask": [0, 1], "new_axis_mask": [0, 0, 1]}
    indices = ([0, 1, 0, 1], [0, 2, 0, 4], [-1, 1, 1, 2])
    node = ov_ext.StridedSlice([source, *map(constant, indices)], **masks)
    program = ov_ext.lower(model_of(node, source))
    (call,) = program.calls
    (got,) = directml.run(call.operator, as_bytes(data))
    assert np.frombuffer(got, np.float32)[: 2 * 2 * 5].tolist() == data[::-1, 1, 1:4:2].reshape(-1).tolist()


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_exports(path: Path) -> None:
    """Everything whose shape is known is resolved, to the shape that OpenVINO infers."""
    if path.name in WITH_FUNCTIONS:
        with pytest.raises(ModelError, match="No conversion rule found"):
            ov_ext.lower(path)
        return
    shapes = {e["file"]: e["input_shapes"] for e in json.loads((MODELS / "models.json").read_text())}
    model = ov_ext.read_model(path)
    program = ov_ext.lower(model, input_shapes=shapes.get(path.name, {}))
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


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = parameter([-1, 8])
    source.output(0).get_tensor().set_names({"x"})
    node = make(
        "StridedSlice",
        [source, *map(constant, ([0, 1], [0, 9], [1, 2]))],
        {"begin_mask": [1], "end_mask": [1]},
        ours=True,
    )
    node.set_friendly_name("odd")
    ov.save_model(ov.Model([node], [source], "m"), str(tmp_path / "m.xml"))
    assert main(["lower", str(tmp_path / "m.xml")]) == 1
    example = join(["--input-shapes", "x:1,8"])
    assert f"not wholly known; give sizes, as in {example} (an example)." in capsys.readouterr().out
    assert main(["lower", str(tmp_path / "m.xml"), "--input-shapes", "x:3,8", "-v", "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "odd   StridedSlice-1  lowered  #0 SLICE1 FLOAT32 [24] offsets [1] sizes [23] strides [2]" in said
    program = json.loads((tmp_path / "out" / "program.json").read_text())
    assert program["nodes"][0]["domain"] == "ov_ext"
    assert main(["lower", str(tmp_path / "none.xml")]) == 2
    assert "is no file." in capsys.readouterr().err
