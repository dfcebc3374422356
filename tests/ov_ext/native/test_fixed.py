"""Constant indices become attributes if the CPU plugin folds constants, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import passes
from openvino.utils.node_factory import NodeFactory
from openvino_models import constant, parameter

DATA = np.arange(1, 121, dtype=np.float32).reshape(4, 5, 6)
MASKS = {"begin_mask": [0, 1], "shrink_axis_mask": [0, 0, 1]}
INDICES = {"Slice8": [[1, -1], [3, -9], [1, -2], [0, 2]], "StridedSlice1": [[1, 0, 2], [3, 4, 0], [1, 1, 1]]}
EXPECTED = {"Slice8": DATA[1:3, :, ::-2], "StridedSlice1": DATA[1:3, :4, 2]}


def example(
    factory: NodeFactory, op: str, late: Sequence[int] = (), *, sizes: Any = None, kind: str = "f32"
) -> ov.Model:
    """Return a slice of three axes, with some of its indices as inputs of the model."""
    source = parameter([-1, -1, -1] if sizes is None else sizes, kind)
    nodes = [parameter([len(v)], "i64") if i in late else constant(v) for i, v in enumerate(INDICES[op])]
    masks = MASKS if op == "StridedSlice1" else {}
    node = factory.create(op, [source.output(0), *(n.output(0) for n in nodes)], masks)
    return ov.Model([node], [source, *(nodes[i] for i in late)], "m")


def given(op: str, late: Sequence[int]) -> list[np.ndarray]:
    return [np.array(INDICES[op][i]) for i in late]


def operator_inputs(compiled: ov.CompiledModel) -> list[int]:
    nodes = compiled.get_runtime_model().get_ops()
    return [len(node.inputs()) for node in nodes if node.get_rt_info()["layerType"].value == "Reference"]


@pytest.mark.parametrize("op", EXPECTED)
@pytest.mark.parametrize("late", [(), (0,), (1,), (0, 1), (2,)])
@pytest.mark.parametrize("sizes", [None, [4, 5, 6]])
def test_plugin_has_no_inputs_for_constant_indices(
    factory: NodeFactory, op: str, late: tuple[int, ...], sizes: Any
) -> None:
    model = example(factory, op, late, sizes=sizes)
    compiled = ov.Core().compile_model(model, "CPU")
    assert operator_inputs(compiled) == [1 + len(late)], "the plugin folds otherwise now: performance is lost"
    assert np.array_equal(compiled([DATA, *given(op, late)])[0], EXPECTED[op])
    later = np.concatenate([DATA, DATA + 500])
    if sizes is None:
        again = compiled([later, *given(op, late)])[0]
        assert np.array_equal(again, later[1:3, :, ::-2] if op == "Slice8" else later[1:3, :4, 2])


@pytest.mark.parametrize("op", EXPECTED)
def test_models_that_users_hold_keep_their_inputs(factory: NodeFactory, op: str, tmp_path: Path) -> None:
    model = example(factory, op)
    manager = passes.Manager()
    manager.register_pass(passes.ConstantFolding())
    manager.run_passes(model)
    node = model.get_results()[0].input_value(0).get_node()
    assert node.get_input_size() == (5 if op == "Slice8" else 4)
    ov.save_model(model, str(tmp_path / "m.xml"))
    text = (tmp_path / "m.xml").read_text()
    assert 'start="' not in text
    assert 'begin="' not in text


def test_attributes_that_do_not_fit_are_refused(factory: NodeFactory) -> None:
    source, stop = parameter([4, 4]), constant([3])
    fixed = {"start": [1], "step": [1]}
    node = factory.create("Slice8", [source.output(0), stop.output(0)], fixed)
    assert node.get_output_shape(0) == ov.Shape([2, 4])
    with pytest.raises(RuntimeError, match=r"^Slice8 '.*': it needs 4 or 5 inputs, got 3\.$"):
        factory.create("Slice8", [source.output(0)], fixed)
    attributes = "besides the indices that are attributes"
    with pytest.raises(RuntimeError, match=rf"^Slice8 '.*': {attributes}, it needs 3 inputs, got 2\.$"):
        factory.create("Slice8", [source.output(0), stop.output(0)], {"start": [1], "axes": [0]})
    with pytest.raises(RuntimeError, match=r"^Slice8 '.*': start, stop, step and axes must have the same length, got "):
        factory.create("Slice8", [source.output(0), stop.output(0)], {"start": [1, 1], "step": [1]})
