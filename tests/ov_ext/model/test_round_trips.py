"""Our operators through everything that OpenVINO does with a model: files, caches, clones, bodies, other devices."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset8
from openvino_backends import NATIVE, PYTHON, THERE, is_native, using
from openvino_models import MASKS, constant, if_model, kinds, parameter

import ov_ext
from ov_ext.defects.hardening import harden
from ov_ext.model.passes import NOTE, masks_of
from ov_ext.operators.slice import Slice as InPython

pytestmark = pytest.mark.usefixtures("kind")

DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
EXPECTED = DATA[::-1, 1, None, 1:4:2]
SIBLINGS = Path(__file__).parents[3] / "models" / "rule_siblings.onnx"
SOME_MASKS = {"begin_mask": [1], "end_mask": [1], "new_axis_mask": [0, 0, 1], "shrink_axis_mask": [0, 1]}


def example(sizes: Sequence[int] = (2, 3, 4), *, run_time: bool = False) -> ov.Model:
    """Return a StridedSlice with masks of several lengths, and a Slice after it."""
    source = parameter(list(sizes))
    begin = parameter([3], "i32") if run_time else constant([0, 1, 0])
    first = ov_ext.StridedSlice([source, begin, constant([0, 0, 0]), constant([-1, 1, 1])], **SOME_MASKS)
    first.set_friendly_name("strided")
    second = ov_ext.Slice([first, constant([1]), constant([9]), constant([2]), constant([-1])])
    second.set_friendly_name("sliced")
    second.output(0).get_tensor().set_names({"out"})
    return ov.Model([second], [source, begin] if run_time else [source], "example")


def run(model: ov.Model | ov.CompiledModel, *given: np.ndarray, device: str = "CPU") -> np.ndarray:
    compiled = model if isinstance(model, ov.CompiledModel) else ov.Core().compile_model(model, device)
    computed: np.ndarray = compiled(list(given) or [DATA])[0]
    return computed


def strided(model: ov.Model) -> ov.Node:
    return next(node for node in model.get_ordered_ops() if node.get_friendly_name() == "strided")


def ours(model: ov.Model) -> list[ov.Node]:
    return [node for node in model.get_ordered_ops() if node.get_type_info().version_id == "ov_ext"]


@pytest.fixture(params=[PYTHON, NATIVE])
def writer(request: pytest.FixtureRequest) -> str:
    """Return the kind of operators in what is written; `kind` is that of what is read."""
    if request.param not in THERE:
        pytest.skip(f"there are no operators of the kind {request.param}")
    return str(request.param)


def test_ir_files_are_the_same_after_reading(core: ov.Core, kind: str, writer: str, tmp_path: Path) -> None:
    path, second = tmp_path / "m.xml", tmp_path / "again.xml"
    with using(writer):
        ov.save_model(example(), str(path))
    text = path.read_text()
    assert 'type="StridedSlice1" version="ov_ext"' in text
    assert 'type="Slice8" version="ov_ext"' in text
    again = core.read_model(str(path))
    assert {is_native(node) for node in ours(again)} == {kind == NATIVE}
    assert np.array_equal(run(again), EXPECTED)
    attributes = strided(again).get_attributes()
    assert {name: attributes[name] for name in MASKS} == {name: SOME_MASKS.get(name, [0]) for name in MASKS}
    ov.save_model(again, str(second))
    assert second.read_text().replace("again.bin", "m.bin") == text


def test_file_names_what_a_core_without_our_operators_needs(core: ov.Core, tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    ov_ext.write_model(example(), path)
    with pytest.raises(
        RuntimeError, match="Cannot create StridedSlice1 layer strided id:4 from unsupported opset: ov_ext"
    ):
        ov.Core().read_model(str(path))
    assert re.search(r'<sliceport>\s*<note value="[^"]*ov_ext\.register[^"]*--path', path.read_text())
    assert core.read_model(path).has_rt_info(["sliceport", "note"])


def test_models_name_the_source_of_our_operators_while_they_have_any() -> None:
    model = example()
    assert ov_ext.use_builtin_ops(model) == 2
    assert not model.has_rt_info(["sliceport"])
    assert ov_ext.use_custom_ops(model) == 2
    assert model.get_rt_info(["sliceport", "note"]).value == NOTE
    assert model.clone().has_rt_info(["sliceport", "note"])
    ov_ext.use_builtin_ops(model)
    assert not model.has_rt_info(["sliceport"])
    assert not harden(model).extension
    assert not model.has_rt_info(["sliceport"])


def test_registering_twice_does_no_harm() -> None:
    core = ov.Core()
    ov_ext.register(core)
    ov_ext.register(core)
    assert np.array_equal(core.compile_model(example(), "CPU")([DATA])[0], EXPECTED)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (-1, -1, -1)])
@pytest.mark.parametrize("run_time", [False, True])
def test_exported_models_are_imported(core: ov.Core, writer: str, sizes: tuple[int, ...], run_time: bool) -> None:
    """A blob of the operators in C++ has constant indices as attributes."""
    with using(writer):
        blob = ov.Core().compile_model(example(sizes, run_time=run_time), "CPU").export_model()
    inputs = [DATA, *([np.array([0, 1, 0], np.int32)] if run_time else [])]
    assert np.array_equal(run(core.import_model(blob, "CPU"), *inputs), EXPECTED)


def test_model_cache_serves_both_kinds(kind: str, writer: str, tmp_path: Path) -> None:
    ov.save_model(example(), str(tmp_path / "m.xml"))
    loaded = []
    for name in (writer, kind):
        with using(name):
            fresh = ov.Core()
            ov_ext.register(fresh)
            compiled = fresh.compile_model(tmp_path / "m.xml", "CPU", {"CACHE_DIR": str(tmp_path / "cache")})
        loaded.append(compiled.get_property("LOADED_FROM_CACHE"))
        assert np.array_equal(run(compiled), EXPECTED)
    assert loaded == [False, True]


def test_core_runs_models_of_either_kind(core: ov.Core, writer: str) -> None:
    with using(writer):
        model = example((-1, -1, -1))
    assert np.array_equal(core.compile_model(model, "CPU")([DATA])[0], EXPECTED)


def test_clones_can_be_reshaped() -> None:
    model = example((-1, 3, -1)).clone()
    assert kinds(model).count("Slice8") == 1
    assert model.output(0).get_partial_shape() == ov.PartialShape([ov.Dimension(), 1, ov.Dimension(0, 4)])
    model.reshape([2, 3, 4])
    assert model.output(0).get_shape() == ov.Shape([2, 1, 2])
    assert np.array_equal(run(model), EXPECTED)
    model.reshape([5, 3, 7])
    data = np.arange(105, dtype=np.float32).reshape(5, 3, 7)
    assert np.array_equal(run(model, data), data[::-1, 1, None, 1::2])


def test_bounds_end_at_the_next_operator_of_python(kind: str) -> None:
    """OpenVINO computes bounds behind an operator in Python only if they are exact."""
    source = parameter([[2, 6], 3, 4])
    size = ov_ext.Slice([opset8.shape_of(source), *map(constant, ([0], [1], [1]))])
    node = opset8.broadcast(constant([1]), opset8.add(size, constant([1])))
    bounds = ov.Dimension(3, 7) if kind == NATIVE else ov.Dimension()
    assert node.get_output_partial_shape(0) == ov.PartialShape([bounds])
    model = ov.Model([node], [source], "m")
    ov_ext.use_builtin_ops(model)
    assert model.output(0).get_partial_shape() == ov.PartialShape([ov.Dimension(3, 7)])


@pytest.mark.parametrize("device", ["HETERO:CPU", "AUTO:CPU", "BATCH:CPU"])
def test_other_devices_run_our_operators(device: str) -> None:
    assert np.array_equal(run(example(), device=device), EXPECTED)
    assert np.array_equal(run(example((-1, -1, -1)), device=device), EXPECTED)


def test_nodes_are_of_the_chosen_kind_however_they_are_made(core: ov.Core, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    ov_ext.write_model(example(), path)
    built_in = example()
    ov_ext.use_builtin_ops(built_in)
    swapped = built_in.clone()
    assert ov_ext.use_custom_ops(swapped) == 2
    converted = ov.convert_model(SIBLINGS, extension=ov_ext.onnx_extensions())
    models = [example(), example().clone(), core.read_model(path), ov_ext.read_model(path), swapped, converted]
    models.append(core.read_model(SIBLINGS))
    for model in models:
        assert len(ours(model)) >= 2
        assert {is_native(node) for node in ours(model)} == {kind == NATIVE}


def test_bodies_of_if_are_run_and_swapped(core: ov.Core) -> None:
    model = if_model(
        [2, 3, 4], lambda inner, i: ov_ext.StridedSlice([inner, *map(constant, ([i], [0], [1]))], shrink_axis_mask=[1])
    )
    compiled = core.compile_model(model, "CPU")
    assert np.array_equal(compiled([np.array(True), DATA])[0], DATA[0])
    assert np.array_equal(compiled([np.array(False), DATA])[0], DATA[1])
    assert ov_ext.use_builtin_ops(model) == 2
    assert ov_ext.use_custom_ops(model) == 2
    assert np.array_equal(core.compile_model(model, "CPU")([np.array(False), DATA])[0], DATA[1])


def test_bodies_of_loop_are_run(core: ov.Core) -> None:
    """Each of three iterations drops the first element and the last."""
    x = parameter([-1])
    inner, going = parameter([-1]), opset8.constant(np.array(True))
    sliced = ov_ext.Slice([inner, constant([1]), constant([-1]), constant([1])])
    body = ov.Model([sliced, opset8.result(going)], [inner], "body")
    loop = opset8.loop(opset8.constant(np.int64(3)), opset8.constant(np.array(True)))
    loop.set_function(body)
    loop.set_special_body_ports([-1, 1])
    loop.set_merged_input(inner, x.output(0), body.get_results()[0].input_value(0))
    result = loop.get_iter_value(body.get_results()[0].input_value(0), -1)
    model = ov.Model([result], [x], "m")
    assert core.compile_model(model, "CPU")([np.arange(9, dtype=np.float32)])[0].tolist() == [3, 4, 5]


def test_swapping_keeps_names_and_values() -> None:
    model = example()
    strided(model).get_rt_info()["mark"] = "here"
    strided(model).get_rt_info()["count"] = 7
    assert ov_ext.use_builtin_ops(model) == 2
    assert [kinds(model).count(kind) for kind in ("StridedSlice", "Slice", "StridedSlice1", "Slice8")] == [1, 1, 0, 0]
    assert {name: list(mask) for name, mask in masks_of(strided(model)).attributes.items()} == {
        name: [*SOME_MASKS.get(name, []), 0, 0, 0][:3] for name in MASKS
    }
    assert ov_ext.use_custom_ops(model) == 2
    assert ov_ext.use_custom_ops(model) == 0
    info = strided(model).get_rt_info()
    assert (info["mark"].value, info["count"].value) == ("here", 7)
    assert model.output("out").get_node().input_value(0).get_node().get_friendly_name() == "sliced"
    assert np.array_equal(run(model), EXPECTED)


def test_swapping_a_strided_slice_without_strides() -> None:
    source, begin = parameter([5]), parameter([1], "i32")
    model = ov.Model([ov_ext.StridedSlice([source, begin, constant([9], "i32")])], [source, begin], "m")
    assert ov_ext.use_builtin_ops(model) == 1
    data = np.arange(5, dtype=np.float32)
    assert run(model, data, np.array([3], np.int32)).tolist() == [3, 4]


def test_new_names_do_not_depend_on_the_nodes_that_the_process_built_before() -> None:
    script = """if True:
        import sys
        import openvino as ov
        from openvino import opset8
        from ov_ext.model.passes import name_unnamed_nodes
        for _ in range(int(sys.argv[1])):
            opset8.parameter([2])
        nodes = [opset8.parameter([2])]
        for _ in range(5):
            nodes.append(opset8.relu(nodes[-1]))
        name_unnamed_nodes(model := ov.Model([nodes[-1]], nodes[:1], "m"))
        print([node.get_friendly_name() for node in model.get_ordered_ops()])
    """
    few, many = (
        subprocess.run([sys.executable, "-c", script, count], check=True, capture_output=True, text=True).stdout
        for count in ("0", "100")
    )
    assert few == many


def test_lists_are_accepted_instead_of_nodes() -> None:
    source = parameter([4, 4])
    node = ov_ext.Slice([source.output(0), [1], np.array([3]), [1], (0,)])
    assert node.get_output_shape(0) == ov.Shape([2, 4])
    empty_lists: tuple[Any, ...] = ([], np.array([]), range(0))
    for empty in empty_lists:
        assert ov_ext.Slice([source, *[empty] * 4]).get_output_shape(0) == ov.Shape([4, 4])
    assert ov_ext.Slice([np.zeros((0, 3)), [0], [1], [1]]).get_output_element_type(0) == ov.Type.f64
    assert ov_ext.StridedSlice([source, [1, 1], [2, 3]]).get_output_shape(0) == ov.Shape([1, 2])


def test_plugin_fails_on_our_operators_named_as_its_own(core: ov.Core) -> None:
    """The plugin takes any node of these names for its own, so ours are Slice8 and StridedSlice1."""

    class Slice(InPython):
        class_type_info = ov.DiscreteTypeInfo("Slice", "ov_ext")

    source = parameter([-1])
    node = Slice([source, constant([1]), constant([3]), constant([1]), constant([0])])
    with pytest.raises(RuntimeError, match="not Slice or StridedSlice"):
        core.compile_model(ov.Model([node], [source], "m"), "CPU")([np.arange(5, dtype=np.float32)])
