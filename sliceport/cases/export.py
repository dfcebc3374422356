"""The folders of cases, in the layout of onnx's backend tests.

A case for OpenVINO has `model.xml` and `model.bin` instead of `model.onnx`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sliceport.cases import ir_file, onnx_file
from sliceport.cases.case import Case
from sliceport.cases.graph import Array
from sliceport.errors import InvalidSlice
from sliceport.sandbox.place import fill_folder
from sliceport.wording.json_text import to_text

_FILES = ("model.onnx", "model.xml", "model.bin", "test_data_set_0/*.pb", "other_reading/*.pb")


def export(cases: Sequence[Case], directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a folder for each case, and `cases.json`, which lists the cases.

    With `overwrite`, a folder that this function wrote earlier is replaced.

    Raises:
        UsageError: The folder cannot be written, or it exists and must not be replaced.
    """

    def fill(folder: Path) -> None:
        for case in cases:
            _write_case(case, folder / case.name)
        listing = {"schema_version": 1, "cases": list(map(_describe_case, cases))}
        (folder / "cases.json").write_text(to_text(listing), "utf-8")

    fill_folder(directory, fill, mark="cases.json", others=[f"test_*/{file}" for file in _FILES], overwrite=overwrite)


def _describe_case(case: Case) -> dict[str, Any]:
    """Return the entry of a case in `cases.json`."""
    entry: dict[str, Any] = {
        "name": case.name, "rule": case.rule, "sentence": case.sentence,
        "format": "openvino" if case.is_openvino else "onnx", "operator": case.operator, "version": case.version,
        "indices": "inputs" if case.has_inputs else "constants", "shape": case.shape, "element": case.element,
        "parameters": case.parameters, "expected": "refused" if case.is_refused else "outputs",
    }  # fmt: skip
    if case.reading:
        expected = "refused" if case.other is None else "other_reading"
        entry["disputed"] = {"reading": case.reading, "expected": expected}
    return entry


def _write_case(case: Case, folder: Path) -> None:
    """Write the model and the inputs. Unless the case is refused, also write the outputs of each reading."""
    data_set = folder / "test_data_set_0"
    data_set.mkdir(parents=True)
    if case.is_openvino:
        text, weights = ir_file.to_ir(case.to_graph())
        (folder / "model.xml").write_text(text, "utf-8")
        (folder / "model.bin").write_bytes(weights)
    else:
        (folder / "model.onnx").write_bytes(onnx_file.to_model(case.to_graph(), case.opset))
    _write_tensors(data_set, "input", {"x": case.data} | (case.index_inputs if case.has_inputs else {}))
    try:
        outputs = case.outputs()
    except InvalidSlice:
        assert case.is_refused, case.name
        return
    assert not case.is_refused, case.name
    _write_tensors(data_set, "output", dict(zip(case.output_names, outputs, strict=True)))
    if case.reading and case.other is not None:
        (folder / "other_reading").mkdir()
        other = case.outputs({**case.parameters, **case.other})
        _write_tensors(folder / "other_reading", "output", dict(zip(case.output_names, other, strict=True)))


def _write_tensors(folder: Path, kind: str, tensors: dict[str, Array]) -> None:
    for number, (name, array) in enumerate(tensors.items()):
        (folder / f"{kind}_{number}.pb").write_bytes(onnx_file.to_tensor(array, name))
