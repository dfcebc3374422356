"""`sliceport cases`: right by the oracle, complete by the branches of the core, and the same bytes each time."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import oracle
import pytest
from branches import missing_branches
from command_line import Invoke
from onnx import numpy_helper

from sliceport.cases.case import Case
from sliceport.cases.catalogue import draw_cases, read_catalogue
from sliceport.cases.graph import ELEMENTS
from sliceport.cases.ir_file import to_ir
from sliceport.cli.main import main
from sliceport.errors import InvalidSlice
from sliceport.slicing import axis, masks, region, spec

CASES = read_catalogue()

NOT_OF_A_NODE = {
    "AxisSlice.of": "spells a selection as a slice, for passes",
    "AxisSlice.is_empty_for_every_size": "asked by passes and inference",
    "AxisSlice.is_whole": "asked by passes",
    "AxisSlice.rows": "asked by passes",
    "AxisSlice.then": "composes slices, for passes",
    "AxisSlice.within": "spells a slice anew, for passes",
    "Region.coalesce": "merges axes, for DirectML",
    "Region.is_empty": "asked after a node is read",
    "Region.is_identity": "asked after a node is read",
    "Region.selects_all": "asked after a node is read",
    "Region.size": "asked after a node is read",
    "Region.then": "composes regions, for passes",
    "Region.whole": "is not a node",
    "Region.__post_init__": "checks the arguments of other packages; no node breaks an invariant",
    "SliceSpec.by_axis": "hands the entries to passes",
    "SplitSpec.with_rest": "VariadicSplit-1 of OpenVINO, which the suite does not have",
    "as_range": "the indices of a Gather, for passes",
    "coalesce": "merges axes, for DirectML",
    "compose": "composes slices, for passes",
    "cut_shape": "shapes for passes",
    "find_tiled_axis": "looks for Slices that are a Split",
    "merge": "merges axes, for DirectML",
    "shift": "moves selections, for passes",
    "window": "DirectML's windows",
}
"""Functions that the cases need not reach, with the reason: they work on what a node selects, not on how it is read."""

NOT_IN_A_MODEL = {
    ("SplitSpec.evenly", "if parts < 1:"): "a Split has an output",
    (
        "StridedSliceSpec.check",
        'actual = "no axis is that long" if size is None else f"the axis has {size} elements"',
    ): "the suite states the size of each axis",
    ("StridedSliceSpec.check", "limit = INT64_MAX if size is None else size"): "the same",
    ("resolve_axis", "if size > INT64_MAX:"): "no tensor is that large",
    ("resolve_axis", "if step == 0:"): "the specs check each step before",
}  # fmt: skip
"""Branches that no case can reach, with the reason."""


WRONGLY_INFERRED = {"test_stridedslice_1_ellipsis_mask_4", "test_stridedslice_1_inputs_ellipsis_mask_4"}
"""Cases of a new axis and a dropped one after an ellipsis, whose shape openvino infers wrongly."""


def by_oracle(case: Case, parameters: Any) -> list[np.ndarray]:
    if case.operator == "Slice":
        return [oracle.onnx_slice(case.data, **parameters)]
    if case.operator == "StridedSlice":
        return [oracle.strided_slice(case.data, **parameters)]
    position, sizes, count = (parameters.get(name) for name in ("axis", "split", "num_outputs"))
    if sizes is None:
        dim = case.data.shape[position or 0]
        if case.version < 18 and dim % count:
            raise oracle.OracleError("uneven")
        chunk = (dim + count - 1) // count
        sizes = [chunk] * (count - 1) + [dim - chunk * (count - 1)]
    return oracle.onnx_split(case.data, position or 0, sizes)


def check_agreement(case: Case, parameters: Any) -> None:
    expected = by_oracle(case, parameters)
    got = case.outputs(parameters)
    assert [part.shape for part in got] == [part.shape for part in expected]
    assert [part.tobytes() for part in got] == [part.tobytes() for part in expected]


def by_core(case: Case) -> list[np.ndarray] | None:
    try:
        return case.outputs()
    except InvalidSlice:
        return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases") / "out"
    assert main(["cases", "--export", str(folder), "--random", "30", "--seed", "7"]) == 0
    return folder


@pytest.mark.parametrize("case", [*CASES, *draw_cases(200, 7)], ids=lambda case: case.name)
def test_core_and_oracle_agree_about_each_case(case: Case) -> None:
    if case.is_refused:
        assert by_core(case) is None
        if case.parameters.get("begin_mask") != (2,):  # the oracle does not check bits
            with pytest.raises((oracle.OracleError, IndexError)):
                by_oracle(case, case.parameters)
        return
    check_agreement(case, case.parameters)
    if case.other is not None:
        other = {**case.parameters, **case.other}
        check_agreement(case, other)
        assert [part.tolist() for part in case.outputs(other)] != [part.tolist() for part in case.outputs()]


def test_cases_take_every_branch_of_the_core() -> None:
    missing = missing_branches(lambda: [by_core(case) for case in CASES], [axis, masks, region, spec])
    missing = {(name.partition(".<locals>")[0], line) for name, line in missing}
    assert {(name, line) for name, line in missing if name not in NOT_OF_A_NODE} == set(NOT_IN_A_MODEL)
    assert {name for name, _ in missing} >= set(NOT_OF_A_NODE)  # an exception that a case reaches is out of date


def test_every_form_type_and_rank_has_a_case() -> None:
    forms = {(case.operator, case.version) for case in CASES}
    assert forms == {("Slice", v) for v in (1, 8, 10, 11, 13)} | {("Split", v) for v in (1, 2, 11, 13, 18)} | {
        ("StridedSlice", 1)
    }
    newest = {("Slice", 13), ("Split", 13), ("Split", 18), ("StridedSlice", 1)}
    assert {(c.operator, c.version) for c in CASES if c.has_inputs} == newest | {("Slice", 10), ("Slice", 11)}
    assert {case.element for case in CASES if case.operator == "Slice"} == set(ELEMENTS)
    assert {len(case.shape) for case in CASES if not case.is_refused} == set(range(9))
    assert {case.rule for case in CASES if case.reading} == {
        "backward from below the axis", "backward to the greatest integer", "an empty last part",
        "axes left out and fewer starts than axes",
    }  # fmt: skip


def test_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def read_tensors(folder: Path, kind: str) -> dict[str, np.ndarray]:
    tensors = {}
    for file in sorted(folder.glob(f"{kind}_*.pb"), key=lambda file: int(file.stem.rpartition("_")[2])):
        tensor = onnx.TensorProto.FromString(file.read_bytes())
        tensors[tensor.name] = numpy_helper.to_array(tensor)
    return tensors


def test_onnx_reads_the_files(folder: Path) -> None:
    for case in CASES:
        inputs = read_tensors(folder / case.name / "test_data_set_0", "input")
        outputs = read_tensors(folder / case.name / "test_data_set_0", "output")
        assert inputs["x"].tobytes() == case.data.tobytes()
        # Before 1.19, onnx reads such elements as integers in a field of this name.
        assert inputs["x"].dtype == case.data.dtype or inputs["x"].dtype.names == (case.data.dtype.name,)
        assert list(inputs)[1:] == (list(case.index_inputs) if case.has_inputs else [])
        if case.is_refused:
            assert not outputs
        else:
            assert [array.tobytes() for array in outputs.values()] == [array.tobytes() for array in case.outputs()]
        if not case.is_openvino:
            model = onnx.load(folder / case.name / "model.onnx")
            onnx.checker.check_model(model)
            assert [value.name for value in model.graph.input] == list(inputs)
            assert case.is_refused or [value.name for value in model.graph.output] == list(outputs)


def test_openvino_reads_the_ir_and_infers_the_shapes(folder: Path) -> None:
    openvino = pytest.importorskip("openvino")
    core = openvino.Core()
    for case in [case for case in CASES if case.is_openvino and not case.is_refused]:
        model = core.read_model(folder / case.name / "model.xml")
        names = [value.any_name for value in model.inputs]
        order = [name for name in ("starts", "ends", "steps", "axes", *case.index_inputs) if name in case.index_inputs]
        assert names == ["x", *(dict.fromkeys(order) if case.has_inputs else [])]
        if case.name in WRONGLY_INFERRED:
            continue
        assert model.outputs[0].partial_shape.compatible(openvino.PartialShape(list(case.outputs()[0].shape)))


def test_short_masks_of_a_case_are_padded() -> None:
    parameters = {"begin": (0, 0), "end": (1, 1), "begin_mask": (1,), "end_mask": (0, 1)}
    text, _ = to_ir(Case("c", "r", "s", "StridedSlice", 1, parameters, (2, 2)).to_graph())
    assert 'begin_mask="1,0"' in text
    assert 'new_axis_mask="0,0"' in text


def test_a_second_export_has_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    words = ["--random", "30", "--seed", "7"]
    assert main(["cases", "--export", str(tmp_path / "second"), *words]) == 0
    files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    again = sorted(
        f.relative_to(tmp_path / "second").as_posix() for f in (tmp_path / "second").rglob("*") if f.is_file()
    )
    assert files == again
    assert filecmp.cmpfiles(folder, tmp_path / "second", files, shallow=False) == (files, [], [])


def test_listing_marks_disputed_and_refused_cases(folder: Path) -> None:
    listing = {case["name"]: case for case in json.loads((folder / "cases.json").read_text())["cases"]}
    assert list(listing)[: len(CASES)] == [case.name for case in CASES]
    assert len(listing) == len(CASES) + 30
    for case in CASES:
        entry = listing[case.name]
        assert (entry["expected"] == "refused") == case.is_refused
        assert entry["sentence"].endswith(").")
        assert entry.get("disputed", {}).get("reading", "") == case.reading
        assert (folder / case.name / "other_reading").is_dir() == (case.reading != "" and case.other is not None)


def test_existing_folder_needs_overwrite(folder: Path, invoke: Invoke) -> None:
    assert "exists; give another folder or --overwrite." in invoke("cases", "--export", folder, code=2).err
    printed = invoke("cases", "--export", folder, "--random", "30", "--seed", "7", "--overwrite")
    assert printed.out.startswith(f"{len(CASES) + 30} cases of 40 rules are in ")


def test_negative_count_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    printed = invoke("cases", "--export", tmp_path / "new", "--random", "-1", code=2)
    assert printed.err == "sliceport: --random must not be negative, got -1.\n"
    assert not (tmp_path / "new").exists()


def test_seeds_draw_different_cases() -> None:
    assert list(draw_cases(20, 1)) == list(draw_cases(20, 1))
    assert list(draw_cases(20, 1)) != list(draw_cases(20, 2))
