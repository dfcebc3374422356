"""Declared shapes of inputs of an IR file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13
from openvino_models import if_model

import ov_ext
import sliceport
from ov_ext.format import FORMAT
from ov_ext.model.read import name_of
from sliceport.engines.sizes import choose_sizes
from sliceport.errors import ModelError
from sliceport.formats import DeclaresShapes, ManyFiles, declared_shapes

MANY = 2**31 - 1


def parameter(shape: ov.PartialShape, name: str, *names: str) -> ov.Node:
    node = opset13.parameter(shape, np.float32, name=name)
    node.output(0).set_names(set(names))
    return node


@pytest.fixture
def file(tmp_path: Path) -> Path:
    dims = [-1, 3, ov.Dimension(2, 8), ov.Dimension(4, -1), ov.Dimension(0, 5)]
    inputs = [
        parameter(ov.PartialShape(dims), "x", "in,put", "b"),
        parameter(ov.PartialShape.dynamic(), "rank", "rank"),
        parameter(ov.PartialShape([]), "scalar"),
        parameter(ov.PartialShape([0, 2]), "y", "c,d"),
    ]
    model = ov.Model([opset13.relu(node) for node in inputs], inputs, "model")
    ov.save_model(model, tmp_path / "m.xml")
    return tmp_path / "m.xml"


def test_the_format_has_both_methods() -> None:
    assert isinstance(FORMAT, DeclaresShapes)
    assert isinstance(FORMAT, ManyFiles)


def test_sizes_bounds_and_open_ranks_are_read(file: Path) -> None:
    assert FORMAT.declared_shapes(file) == {
        "b": [None, 3, range(2, 9), range(4, MANY + 1), range(6)],
        "rank": None,
        "scalar": [],
        "c,d": [0, 2],
    }


def test_names_and_shapes_are_those_of_openvino(file: Path) -> None:
    model = ov_ext.read_model(file)
    assert [name_of(value) for value in model.inputs] == list(FORMAT.declared_shapes(file))
    chosen = choose_sizes(declared_shapes(file))
    assert chosen == {"b": (2, 3, 3, 23, 5)}
    for value in model.inputs:
        shape = chosen.get(name_of(value))
        assert shape is None or value.get_partial_shape().compatible(ov.PartialShape(list(shape)))
    assert sliceport.lower(file, input_shapes=chosen).summary["total"] == 0


def test_sizes_are_within_bounds_beyond_32_bits(tmp_path: Path) -> None:
    least = 3 * 10**9
    data = parameter(ov.PartialShape([ov.Dimension(least, least + 9)]), "x")
    node = opset13.slice(data, *(opset13.constant(np.array([i])) for i in (0, 2, 1)))
    ov.save_model(ov.Model([node], [data], "model"), tmp_path / "m.xml")
    assert FORMAT.declared_shapes(tmp_path / "m.xml") == {"x": [range(least, least + 1)]}
    assert choose_sizes(declared_shapes(tmp_path / "m.xml")) == {"x": (least,)}
    (lowered,) = sliceport.lower(tmp_path / "m.xml").nodes
    assert lowered.reason is not None
    assert f"input_shapes={{'x': ({least},)}} (an example)" in lowered.reason.message


def test_inputs_of_bodies_are_not_inputs_of_the_model(tmp_path: Path) -> None:
    ov.save_model(if_model([-1], lambda inner, _: opset13.relu(inner)), tmp_path / "m.xml")
    text = (tmp_path / "m.xml").read_text()
    assert text.count('type="Parameter"') == 4
    assert list(FORMAT.declared_shapes(tmp_path / "m.xml").values()) == [[], [None]]


def test_file_that_openvino_does_not_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text("<net><layers>")
    with pytest.raises(ModelError, match="m.xml' cannot be read by OpenVINO"):
        FORMAT.declared_shapes(tmp_path / "m.xml")


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a file"):
        FORMAT.declared_shapes(tmp_path)


@pytest.mark.parametrize(("name", "beside"), [("m.xml", "m.bin"), ("a/m.v2.xml", "m.v2.bin")])
def test_weights_are_listed_beside_the_model(tmp_path: Path, name: str, beside: str) -> None:
    model = tmp_path / name
    model.parent.mkdir(exist_ok=True)
    model.write_text('<?xml version="1.0"?>\n<net name="m" version="11">')
    assert FORMAT.files_beside(model) == (beside,)


@pytest.mark.parametrize("content", [None, "", "<html/>"])
def test_file_that_is_not_a_model_has_no_weights_beside_it(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "m.xml").write_text(content)
    assert FORMAT.files_beside(tmp_path / "m.xml") == FORMAT.files_beside(tmp_path) == ()
