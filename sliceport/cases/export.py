"""The folders of cases, in the layout of onnx's backend tests.

A case for OpenVINO has `model.xml` and `model.bin` instead of `model.onnx`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sliceport.cases import ir_file, onnx_file
from sliceport.cases.case import Case
from sliceport.cases.graph import Array, Graph
from sliceport.cases.random_graphs import RandomGraph
from sliceport.errors import InvalidSlice
from sliceport.sandbox.place import fill_folder
from sliceport.wording.json_text import to_text

_FILES = ("model.onnx", "model.xml", "model.bin", "test_data_set_0/*.pb", "other_reading/*.pb")


def export(cases: Sequence[Case | RandomGraph], directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a folder for each case or graph, and `cases.json`, which lists them.

    With `overwrite`, a folder that this function wrote earlier is replaced.

    Raises:
        UsageError: The folder cannot be written, or it exists and must not be replaced.
    """

    def fill(folder: Path) -> None:
        entries = []
        for case in cases:
            if isinstance(case, Case):
                _write_case(case, folder / case.name)
                entries.append(_describe_case(case))
            else:
                graph, outputs = case.graph, case.outputs
                _write_files(folder / graph.name, graph, case.opset, case.inputs, outputs)
                entries.append(_describe_graph(case))
        listing = {"schema_version": 1, "cases": entries}
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


def _describe_graph(case: RandomGraph) -> dict[str, Any]:
    """Return the entry of a graph in `cases.json`."""
    return {
        "name": case.graph.name, "rule": "graph", "sentence": case.graph.text,
        "format": "openvino" if case.opset is None else "onnx", "opset": case.opset,
        "operators": [node.operator for node in case.graph.nodes], "expected": "outputs", "tolerance": case.tolerance,
    }  # fmt: skip


def _write_case(case: Case, folder: Path) -> None:
    """Write a case, without outputs if it is refused, and the outputs of the other reading."""
    inputs, outputs = {"x": case.data} | (case.index_inputs if case.has_inputs else {}), {}
    with suppress(InvalidSlice):
        outputs = dict(zip(case.output_names, case.outputs(), strict=True))
    assert case.is_refused != bool(outputs), case.name
    _write_files(folder, case.to_graph(), None if case.is_openvino else case.opset, inputs, outputs)
    if case.reading and case.other is not None:
        (folder / "other_reading").mkdir()
        other = case.outputs({**case.parameters, **case.other})
        _write_tensors(folder / "other_reading", "output", dict(zip(case.output_names, other, strict=True)))


def _write_files(
    folder: Path, graph: Graph, opset: int | None, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> None:
    """Write the model, in IR if `opset` is None, with its inputs and outputs."""
    data_set = folder / "test_data_set_0"
    data_set.mkdir(parents=True)
    if opset is None:
        text, weights = ir_file.to_ir(graph)
        (folder / "model.xml").write_text(text, "utf-8")
        (folder / "model.bin").write_bytes(weights)
    else:
        (folder / "model.onnx").write_bytes(onnx_file.to_model(graph, opset))
    _write_tensors(data_set, "input", inputs)
    _write_tensors(data_set, "output", outputs)


def _write_tensors(folder: Path, kind: str, tensors: Mapping[str, Array]) -> None:
    for number, (name, array) in enumerate(tensors.items()):
        (folder / f"{kind}_{number}.pb").write_bytes(onnx_file.to_tensor(array, name))
