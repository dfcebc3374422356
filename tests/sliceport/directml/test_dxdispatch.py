"""DxDispatch files: what its parser demands, checked rule by rule on every file that is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import sliceport
from sliceport.directml import dxdispatch, emulator
from sliceport.directml.dxdispatch import NUMPY_TYPES, build_model, example_input
from sliceport.directml.operators import Operator, Slice1, struct_fields, to_json
from sliceport.directml.tensor import BufferTensor, DataType

BY_TYPE = {operator.schema.type: operator for operator in get_args(Operator)}
TYPES = {data_type.name for data_type in NUMPY_TYPES}


def check_resource(resource: dict[str, Any], folder: Path) -> int:
    """Check the parser's rules for a resource, and return its size in bytes."""
    values = resource["initialValues"]
    if "sourcePath" in values:
        array = np.load(folder / values["sourcePath"])
        assert array.dtype.name.upper() in TYPES
        size = array.nbytes
    else:
        assert resource["initialValuesDataType"] in TYPES
        assert set(values) in ({"valueCount", "value"}, {"valueCount", "valueStart", "valueDelta"})
        assert values["valueCount"] >= 1
        size = values["valueCount"] * DataType[resource["initialValuesDataType"]].bits // 8
    assert size > 0
    least: int = max(resource.get("sizeInBytes", 0), -(-size // 4) * 4)
    return least


def check_tensor(tensor: dict[str, Any]) -> None:
    assert tensor["DataType"] in TYPES
    assert len(tensor["Sizes"]) >= 1
    assert len(tensor.get("Strides", tensor["Sizes"])) == len(tensor["Sizes"])
    assert tensor["TotalTensorSizeInBytes"] > 0


def check_file(path: Path) -> None:
    data = json.loads(path.read_text())
    assert set(data) == {"resources", "dispatchables", "commands"}
    sizes = {name: check_resource(resource, path.parent) for name, resource in data["resources"].items()}
    ((name, dispatchable),) = data["dispatchables"].items()
    desc = dispatchable["desc"]
    required = [f.name for f in struct_fields(BY_TYPE[dispatchable["type"]]) if f.kind != "null"]
    assert set(required) <= set(desc)
    tensors = {"InputTensor": [desc["InputTensor"]]}
    for bind_point in ("OutputTensor", "OutputTensors"):
        if bind_point in desc:
            tensors[bind_point] = desc[bind_point] if bind_point.endswith("s") else [desc[bind_point]]
    for listed in tensors.values():
        for tensor in listed:
            check_tensor(tensor)
    rank = len(desc["InputTensor"]["Sizes"])
    if "DimensionCount" in desc:  # the parser does not compare it with the arrays: too short ones are read past
        assert desc["DimensionCount"] == rank
        arrays = [v for k, v in desc.items() if isinstance(v, list) and k != "OutputTensors"]
        assert all(len(array) == rank for array in arrays)
    if "OutputCount" in desc:
        assert desc["OutputCount"] == len(desc["OutputTensors"])
    dispatch, *writes = data["commands"]
    assert (dispatch["type"], dispatch["dispatchable"]) == ("dispatch", name)
    assert set(dispatch["bindings"]) == set(tensors)
    for bind_point, listed in tensors.items():
        sources = dispatch["bindings"][bind_point]
        sources = sources if isinstance(sources, list) else [sources]
        assert len(sources) == len(listed)
        for source, tensor in zip(sources, listed, strict=True):
            assert sizes[source] >= tensor["TotalTensorSizeInBytes"]
    for write in writes:
        assert write["type"] == "writeFile"
        assert write["resource"] in sizes
        assert write["targetPath"].endswith(".npy")


def test_every_file_of_every_model_is_valid(models: Path, tmp_path: Path) -> None:
    written = 0
    for path in sorted(models.glob("rule_*.onnx")):
        program = sliceport.lower(path)
        program.write(tmp_path / path.stem)
        files = sorted((tmp_path / path.stem).glob("dxdispatch/*.json"))
        assert len(files) == len(program.calls)
        for file, call in zip(files, program.calls, strict=True):
            check_file(file)
            (dispatchable,) = json.loads(file.read_text())["dispatchables"].values()
            assert dispatchable == to_json(call.operator)
            written += 1
    assert written > 10


def test_the_written_input_runs(models: Path, tmp_path: Path) -> None:
    sliceport.lower(models / "rule_coalesce.onnx").write(tmp_path / "out")
    data = np.load(tmp_path / "out" / "dxdispatch" / "0001_slice_b.input.npy")
    operator = sliceport.lower(models / "rule_coalesce.onnx").calls[1].operator
    (result,) = emulator.run(operator, data.view(np.uint8))
    expected = np.arange(60, dtype=np.float32).reshape(4, 3, 5)[:, ::-1, ::-1]
    assert np.array_equal(result.view(np.float32), expected.reshape(-1))


@pytest.mark.parametrize("data_type", list(NUMPY_TYPES), ids=lambda d: d.name)
def test_example_inputs_hold_exact_numbers(data_type: DataType) -> None:
    tensor = BufferTensor.of(data_type, (5000,))
    operator = Slice1(tensor, BufferTensor.of(data_type, (2,)), 1, (0,), (2,), (1,))
    data = example_input(operator)
    assert data.shape == (5000,)
    limit = {"INT8": 2**7, "UINT8": 2**8, "FLOAT16": 2**11}.get(data_type.name, 5000)
    assert np.array_equal(data.astype(np.float64), np.arange(5000) % limit)
    assert data.nbytes == 5000 * data_type.bits // 8


def test_strided_outputs_are_written_whole(tmp_path: Path) -> None:
    operator = Slice1(
        BufferTensor.of(DataType.FLOAT32, (2, 4)),
        BufferTensor.of(DataType.FLOAT32, (2, 2), (3, 1)),
        2,
        (0, 1),
        (2, 2),
        (1, 1),
    )
    data = build_model(operator, "op", "op.npy", ["out.npy"])
    assert data["commands"][1]["dimensions"] == [5]
    assert data["resources"]["output_0"]["sizeInBytes"] == 20
    assert data["resources"]["output_0"]["initialValues"] == {"valueCount": 5, "value": 0}


def test_large_inputs_are_not_written(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dxdispatch, "MAX_INPUT_BYTES", 8)
    sliceport.lower(models / "rule_coalesce.onnx").write(tmp_path / "out")
    assert not list((tmp_path / "out").glob("dxdispatch/*.npy"))
    for file in (tmp_path / "out").glob("dxdispatch/*.json"):
        check_file(file)
        values = json.loads(file.read_text())["resources"]["input"]["initialValues"]
        assert values == {"valueCount": 60, "valueStart": 0, "valueDelta": 1}
