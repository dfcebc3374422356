"""Each entry of the table of defects is proven on its engine, and strictly: one that is no longer true fails."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import onnxruntime
import openvino
import pytest
from defects_page import FOLDER, pages
from fatal_sizes import run_on_ones
from onnx import parser
from openvino_processes import answer, answers
from running import as_arrays, as_bytes, run_node
from sessions import open_session, poisoned_memory

import onnx_ops
import ov_ext
import sliceport
from onnx_ops.model.io import from_proto
from onnx_ops.passes import rewrite
from onnx_ops.passes.directml.harden import harden_for_directml
from sliceport import device
from sliceport.defects import entries, table
from sliceport.defects.cases import OnnxCase, OpenVINOCase
from sliceport.defects.defect import (
    Accepts,
    Bits,
    Case,
    Defect,
    EndsProcess,
    Example,
    Fails,
    Gives,
    Handling,
    Outcome,
    Output,
    Unwritten,
    gives,
)
from sliceport.defects.directml import DirectMLCase
from sliceport.defects.engines import (
    DIRECTML,
    ONNX_REFERENCE,
    ONNXRUNTIME_CPU,
    ONNXRUNTIME_CPU_OPTIMIZED,
    ONNXRUNTIME_DML,
    OPENVINO,
    OPENVINO_CPU,
    OPENVINO_ONNX,
    TITLES,
    VERSIONS,
)
from sliceport.defects.entries import read_entries
from sliceport.defects.profiles import PROFILES
from sliceport.defects.table import DEFECTS, find_defect
from sliceport.device import CallFailed, HostDied
from sliceport.directml import emulator
from sliceport.directml.operators import check
from sliceport.engines.registry import engines
from sliceport.errors import InvalidDescriptor, UsageError
from sliceport.formats import formats

BELOW_THE_AXIS = find_defect("backwards from below the axis")

FIRST = 1001
"""The first element of ONNX data, so that none is what unwritten memory likely holds: 0, a size or an index."""
Device = device.Device


CONTESTED_BY = {"backward start below the axis": BELOW_THE_AXIS}
"""The proved entry about the nodes of a reported one."""


def examples_of(kind: type[Case], *handlings: Handling) -> dict[str, tuple[Defect, Example]]:
    """Return the examples with a kind of case and some handlings, by names for tests."""
    return {
        f"{defect.id} {i}": (defect, example)
        for defect in DEFECTS
        for i, example in enumerate(defect.examples)
        if isinstance(example.case, kind) and (not handlings or defect.handling in handlings)
    }


def seen_by(*names: str) -> list[Any]:
    """List the outcomes of some engines as parameters: entry, example, engine."""
    return _list_seen(names, lambda defect: defect.examples)


def seen_or_clean(*names: str) -> list[Any]:
    """List the outcomes also of clean nodes, about which all engines of their entry are right."""

    def list_examples(defect: Defect) -> list[Example]:
        clean = [replace(one, seen=dict.fromkeys(defect.engines, one.right)) for one in defect.clean]
        return [*defect.examples, *clean]

    return _list_seen(names, list_examples)


def _list_seen(names: Sequence[str], list_examples: Callable[[Defect], Sequence[Example]]) -> list[Any]:
    return [
        pytest.param(defect, example, engine, id=f"{defect.id} {i} {engine}")
        for defect in DEFECTS
        for i, example in enumerate(list_examples(defect))
        for engine in example.seen
        if engine in names
    ]


def check_seen(defect: Defect, example: Example, engine: str, seen: Outcome, version: str) -> None:
    """Check that the outcome of an engine is the one in the table: wrong if it diverges, and right otherwise."""
    expected = example.seen[engine]
    if engine in defect.engines:
        divergence = defect.divergence_on(engine)
        has_ended = not divergence.may_affect(version)
        tried = VERSIONS[engine] if has_ended else divergence.versions
        assert version in tried, f"{engine} was tried in {tried}, not in {version}: try it and say so"
        if has_ended:
            expected = example.right
        elif expected != example.right:
            assert seen != example.right, f"{engine} {version} is right now: set `until` of the entry {defect.id!r}"
    if isinstance(expected, Fails):
        assert isinstance(seen, Fails), seen
        assert expected.message in seen.message
    elif isinstance(expected, Unwritten):
        assert isinstance(seen, Gives), seen
        shapes = shapes_of(example.right) if expected.shape is None else [expected.shape]
        assert shapes_of(seen)[: len(shapes)] == shapes
        assert seen != example.right
    elif isinstance(expected, EndsProcess) and sys.platform == "win32":
        assert isinstance(seen, EndsProcess)  # by a status, not by a signal
    else:
        assert seen == expected


def shapes_of(outcome: Outcome) -> list[tuple[int, ...]]:
    assert isinstance(outcome, Gives)
    return [(len(output.elements),) if output.shape is None else output.shape for output in outcome.outputs]


# ONNX.


def model_of(example: Example) -> onnx.ModelProto:
    assert isinstance(example.case, OnnxCase)
    model = parser.parse_model(example.case.text)
    onnx.checker.check_model(model)
    return model


def data_of(example: Example) -> np.ndarray:
    assert isinstance(example.case, OnnxCase)
    dims = model_of(example).graph.input[0].type.tensor_type.shape.dim
    shape = example.case.shape or [dim.dim_value for dim in dims]
    return FIRST + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def listed(arrays: Iterable[Any]) -> Outcome:
    """Return the outputs by the indices of their elements."""
    return Gives(tuple(Output(tuple((array.reshape(-1) - FIRST).tolist()), array.shape) for array in arrays))


def with_shapes(outcome: Outcome) -> Outcome:
    """Fill in the shapes of all outputs."""
    if not isinstance(outcome, Gives):
        return outcome
    shapes = shapes_of(outcome)
    return Gives(tuple(replace(output, shape=shape) for output, shape in zip(outcome.outputs, shapes, strict=True)))


def in_full(example: Example) -> Example:
    """Fill in the shapes of all outputs of an example, which engines always return."""
    return Example(example.case, with_shapes(example.right), {e: with_shapes(o) for e, o in example.seen.items()})


def tried(run: Callable[[], Iterable[Any]]) -> Outcome:
    try:
        return listed(run())
    except Exception as error:  # the engines' errors share no class
        return Fails(str(error))


def by_onnxruntime(example: Example, *, optimized: bool) -> Outcome:
    data = {"x": data_of(example)}
    with poisoned_memory():
        return tried(lambda: as_arrays(open_session(model_of(example), optimized=optimized).run(None, data)))


def end_of_onnxruntime(example: Example, folder: Path) -> EndsProcess | None:
    """Run an example in another process, and return how it ends this process, or None."""
    model = model_of(example)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    sizes = {dim.dim_param: size for dim, size in zip(dims, data_of(example).shape, strict=True) if dim.dim_param}
    status = run_on_ones(model, sizes, folder)
    assert status != 1, "the process ends with an error"
    return EndsProcess(-status) if status else None


def by_reference(example: Example) -> Outcome:
    return tried(lambda: onnx.reference.ReferenceEvaluator(model_of(example)).run(None, {"x": data_of(example)}))


def by_reader(example: Example) -> Outcome:
    """Compute what OpenVINO reads from an ONNX model, on its CPU plugin."""

    def compute() -> list[Any]:
        model = openvino.Core().read_model(model_of(example).SerializeToString())
        return list(
            openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(data_of(example)).values()
        )

    return tried(compute)


def by_provider(model: onnx.ModelProto, example: Example, dml: Device, *, fallback: bool = False) -> Outcome:
    names = [output.name for output in model.graph.output]
    data = {"x": data_of(example)}
    try:
        return listed(dml.run_onnx(model.SerializeToString(), data, names, fallback=fallback))
    except CallFailed as error:
        return Fails(str(error))
    except HostDied:
        return EndsProcess(11)


class TestOnnx:
    @pytest.mark.parametrize(
        ("defect", "example", "engine"),
        seen_or_clean(ONNXRUNTIME_CPU, ONNXRUNTIME_CPU_OPTIMIZED, ONNX_REFERENCE, OPENVINO_ONNX),
    )
    def test_engine_computes_what_the_table_says(
        self, tmp_path: Path, defect: Defect, example: Example, engine: str
    ) -> None:
        if sys.platform == "win32" and onnxruntime.__version__ not in VERSIONS[engine] and "onnxruntime" in engine:
            pytest.skip("the table is of another version of onnxruntime than that with the DirectML provider")
        if engine == ONNX_REFERENCE:
            version, seen = onnx.__version__, by_reference(example)
        elif engine == OPENVINO_ONNX:
            version, seen = OPENVINO_VERSION, by_reader(example)
        else:
            end = end_of_onnxruntime(example, tmp_path) if defect.is_unsafe_on(engine) else None
            seen = end or by_onnxruntime(example, optimized=engine == ONNXRUNTIME_CPU_OPTIMIZED)
            version = onnxruntime.__version__
        check_seen(defect, in_full(example), engine, seen, version)

    @pytest.mark.parametrize(("defect", "example", "engine"), seen_or_clean(ONNXRUNTIME_DML))
    def test_directml_provider_computes_what_the_table_says(
        self, directml: Device, defect: Defect, example: Example, engine: str
    ) -> None:
        model = model_of(example)
        has_body = any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute)
        seen = by_provider(model, example, directml, fallback=has_body)  # the CPU runs a Loop, but not its body
        check_seen(defect, in_full(example), engine, seen, directml.facts()["onnxruntime"])

    @pytest.mark.parametrize("name", examples_of(OnnxCase))
    def test_ours_is_right(self, name: str) -> None:
        """Slicing nodes are checked by our lowering, other nodes by an engine that is right."""
        _, example = examples_of(OnnxCase)[name]
        data = data_of(example)
        model = model_of(example)
        nodes = sliceport.lower(model, input_shapes={"x": data.shape}).nodes
        if isinstance(example.right, Fails) and nodes:
            assert [node.reason.code for node in nodes if node.reason is not None] == ["invalid"]
            return
        got = {}
        for node in nodes:
            ran = run_node(node, as_bytes(data))
            for cut in filter(lambda cut: cut.output in ran, node.resolved.cuts):
                array = ran[cut.output][: 4 * cut.region.size].view(np.float32).reshape(cut.region.output_shape)
                got[cut.output] = array
        names = [output.name for output in model.graph.output]
        if not set(names) <= set(got):
            assert with_shapes(example.right) in map(with_shapes, example.seen.values())
            return
        assert listed(got[name] for name in names) == with_shapes(example.right)

    @pytest.mark.parametrize("name", examples_of(OnnxCase))
    def test_harden_rewrites_or_names_the_node(self, name: str) -> None:
        """Rewritten nodes are right on the CPU provider, and named nodes stay."""
        defect, example = examples_of(OnnxCase)[name]
        model = model_of(example)
        if not {ONNXRUNTIME_DML, ONNXRUNTIME_CPU_OPTIMIZED}.intersection(defect.engines):
            return
        report = harden_for_directml(graph := from_proto(model))
        done = {found.id: change.replacement for change in report.changes for found in change.defects}
        if defect.handling == "found":
            assert defect.id not in done
            return
        assert (done[defect.id] is not None) == (defect.handling == "rewritten")
        if defect.handling == "rewritten":
            after = ir.serde.serialize_model(graph)
            ran = tried(lambda: as_arrays(open_session(after, optimized=False).run(None, {"x": data_of(example)})))
            assert ran == with_shapes(example.right)

    @pytest.mark.parametrize("name", examples_of(OnnxCase))
    def test_command_in_the_help_removes_the_finding(self, name: str) -> None:
        defect, example = examples_of(OnnxCase)[name]
        for engine in defect.engines:
            rules = sliceport.check(model_of(example), engines=[engine]).to_json()["rules"]
            command, _, target = rules.get(defect.rule, {"help": ""})["help"].partition(" --target ")
            if command.startswith("sliceport harden"):
                hardened = sliceport.harden(model_of(example), target=target or None).model
                rules = sliceport.check(hardened, engines=[engine]).to_json()["rules"]
                assert defect.rule not in rules, (engine, command, target)

    @pytest.mark.parametrize("name", examples_of(OnnxCase, "rewritten"))
    def test_directml_provider_is_right_on_the_hardened_model(self, directml: Device, name: str) -> None:
        _, example = examples_of(OnnxCase)[name]
        graph = from_proto(model_of(example))
        harden_for_directml(graph)
        after = ir.serde.serialize_model(graph)
        assert by_provider(after, example, directml, fallback=True) == with_shapes(example.right)

    @pytest.mark.parametrize("name", examples_of(OnnxCase))
    def test_what_is_contested_is_named_by_rewrite(self, name: str) -> None:
        defect, example = examples_of(OnnxCase)[name]
        report = rewrite(from_proto(model_of(example)))
        owner = CONTESTED_BY.get(defect.id, defect)
        assert [skipped.reason for skipped in report.contested] == [owner.reason] * owner.is_contested


# OpenVINO.

ASKED = {OPENVINO: "reference", OPENVINO_CPU: "cpu"}
OPENVINO_VERSION = openvino.__version__.partition("-")[0]


def ask(example: Example, engine: str, **how: Any) -> dict[str, Any]:
    return {**example.case.to_json(), "engine": ASKED[engine], **how}


def as_outcome(answered: Mapping[str, Any]) -> Outcome:
    if "exit" in answered:
        return EndsProcess(-answered["exit"])
    if "error" in answered:
        return Fails(answered["error"])
    shape = tuple(answered["shape"])
    if answered["values"] == "right":  # of many elements
        return gives(range(1, 1 + shape[0]), shape=shape)
    return gives([] if answered["values"] == "wrong" else answered["values"], shape=shape)


@cache
def answers_to_all(**how: bool) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Run every example on the engines that are wrong, and return the answers by entry, number and engine."""
    asked = {
        (defect.id, i, engine): ask(example, engine, **how)
        for defect in DEFECTS
        for i, example in enumerate(defect.examples)
        for engine in example.seen
        if engine in ASKED and engine in defect.engines and defect.handling == "rewritten"
    }
    return dict(zip(asked, answers(asked.values()), strict=True))


class TestOpenVINO:
    @pytest.mark.parametrize(("defect", "example", "engine"), seen_or_clean(*ASKED))
    def test_engine_computes_what_the_table_says(self, defect: Defect, example: Example, engine: str) -> None:
        if sys.platform == "win32" and defect.id == "strings":
            pytest.skip("short strings of Windows' C++ library survive the copy of their bytes")
        seen = as_outcome(answer(ask(example, engine)))
        check_seen(defect, in_full(example), engine, seen, OPENVINO_VERSION)

    @pytest.mark.parametrize(("defect", "example", "engine"), seen_by(*ASKED))
    def test_hardened_model_and_ours_are_right(self, defect: Defect, example: Example, engine: str) -> None:
        key = (defect.id, defect.examples.index(example), engine)
        if key not in answers_to_all(harden=True):
            assert defect.handling != "rewritten" or engine not in defect.engines
            return
        hardened = answers_to_all(harden=True)[key]
        assert "error" not in hardened, hardened
        assert defect.id in hardened["defects"]
        assert defect.id in hardened["checked"]
        assert defect.id not in hardened["remaining"]
        assert hardened["forms"] != [None]
        for got in (hardened, answers_to_all(ours=True)[key]):
            assert as_outcome(got) == with_shapes(example.right)

    @pytest.mark.parametrize("name", examples_of(OpenVINOCase, "unseen"))
    def test_ours_is_right_about_defects_seen_at_run_time(self, name: str) -> None:
        """By Model.evaluate, where no plugin stands before it."""
        _, example = examples_of(OpenVINOCase)[name]
        ours = as_outcome(answer(ask(example, OPENVINO, ours=True)))
        right = with_shapes(example.right)
        assert isinstance(ours, Fails) if isinstance(right, Fails) else ours == right


# DirectML.


class TestDirectML:
    @pytest.mark.parametrize(("defect", "example", "engine"), seen_by(DIRECTML))
    def test_outcome_is_the_one_in_the_table(
        self, directml: Device, defect: Defect, example: Example, engine: str
    ) -> None:
        case = example.case
        assert isinstance(case, DirectMLCase)
        hresult = directml.create_operator(case.operator)
        seen: Outcome = Accepts() if hresult == 0 else Fails(f"0x{hresult:08x}")
        if case.bits:
            (got,) = directml.run(case.operator, np.array(case.bits, np.uint16).view(np.uint8))
            seen = Bits(tuple(got.view(np.uint16).tolist()))
        check_seen(defect, example, engine, seen, directml.facts()["onnxruntime"])

    @pytest.mark.parametrize("name", examples_of(DirectMLCase))
    def test_ours_is_right(self, name: str) -> None:
        _, example = examples_of(DirectMLCase)[name]
        case = example.case
        assert isinstance(case, DirectMLCase)
        if isinstance(example.right, Fails):
            with pytest.raises(InvalidDescriptor):
                check(case.operator)
            return
        check(case.operator)
        (got,) = emulator.run(case.operator, np.array(case.bits, np.uint16).view(np.uint8))
        assert Bits(tuple(got.view(np.uint16).tolist())) == example.right


# The table.


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.id)
def test_every_divergence_is_shown(defect: Defect) -> None:
    assert defect.divergences
    if defect.evidence == "reported":
        assert not any(example.seen for example in defect.examples)
        assert all(one.issues or one.versions for one in defect.divergences)
        assert {one.target for one in defect.divergences} <= {"", *PROFILES}
        assert not set(defect.engines) & set(TITLES)
        return
    for engine in defect.engines:
        assert any(engine in one.seen and one.seen[engine] != one.right for one in defect.examples), engine
    assert {engine for example in defect.examples for engine in example.seen} <= set(TITLES)
    assert all(divergence.versions for divergence in defect.divergences)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.id)
def test_words_of_a_defect_fit_into_sentences(defect: Defect) -> None:
    words = [defect.trigger, defect.right, defect.workaround, *(one.does for one in defect.divergences)]
    assert all(text and not text.endswith(".") and "|" not in text for text in words)
    assert defect.right.startswith("by ")
    assert defect.reason.count("given") <= 1
    json.dumps(defect.to_json())


def test_ids_are_unique() -> None:
    assert len({defect.id for defect in DEFECTS}) == len({defect.rule for defect in DEFECTS}) == len(DEFECTS) > 30


def test_invalid_nodes_have_no_right_result() -> None:
    for defect in DEFECTS:
        if defect.kind == "invalid":
            assert all(example.right == Fails() for example in defect.examples), defect.id


def test_engines_go_by_the_names_of_executors() -> None:
    known = set(engines()) | {one.reference[0] for one in formats().values()}
    assert set(TITLES) - known == {ONNXRUNTIME_CPU_OPTIMIZED, OPENVINO_ONNX}
    with pytest.raises(UsageError, match=r"engine 'openvino-npu' is not known, did you mean 'openvino-[cg]pu'\?"):
        table.defects_of("openvino-npu")


def front_end_files() -> list[Path]:
    return [path for package in (onnx_ops, ov_ext) for path in Path(package.__path__[0]).rglob("*.py")]


def test_every_entry_with_a_condition_is_looked_up_by_a_front_end() -> None:
    """Conditions look entries up by their ids."""
    ids = {defect.id: defect for defect in DEFECTS}
    used = {
        node.value
        for path in front_end_files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in ids
    }
    missing = {name for name, one in ids.items() if one.handling in ("rewritten", "named", "found")} - used
    assert not missing, f"write conditions that look them up by id, in onnx_ops/defects or ov_ext/defects: {missing}"
    assert {ids[name].handling for name in used} <= {"rewritten", "named", "found", "unseen"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("right = {", "rihgt = {", "openvino.toml, defect 'strings', examples: .* 'right'; the keys are right, seen,"),
        (
            "begin = [",
            "begn = [",
            "openvino.toml, defect 'strings', examples: 'begin' is missing or not known; the keys",
        ),
        ('trigger = "', 'triger = "', "openvino.toml, defect 'strings': .* 'triger'; the keys are id, trigger, right,"),
        ("seen.openvino ", "seen.openvno ", "examples: engine 'openvno' is not known, did you mean 'openvino"),
    ],
)
def test_typo_names_the_entry_and_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    text = Path(entries.__file__).with_name("openvino.toml").read_text(encoding="utf-8")
    head, name, rest = text.partition('id = "strings"')
    assert old in rest.partition("[[defect]]")[0]
    (tmp_path / "openvino.toml").write_text(head + name + rest.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setattr(entries, "__file__", str(tmp_path / "entries.py"))
    with pytest.raises(UsageError, match=message):
        read_entries.__wrapped__("openvino")


def test_every_condition_has_an_entry() -> None:
    """Front ends make no entries of their own."""
    for path in front_end_files():
        calls = [
            node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
        ]
        assert not [call for call in calls if isinstance(call, ast.Name) and call.id in ("Defect", "Divergence")], path


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_the_pages_and_the_shipped_table_are_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == pages()[path], "run: python tests/support/of_pages/defects_page.py"


def test_no_page_is_left_over() -> None:
    assert set(FOLDER.glob("*.md")) <= set(pages())


def test_the_shipped_table_fits_its_schema() -> None:
    folder = Path(table.__file__).parent
    schema = json.loads((folder / "table.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads((folder / "table.json").read_text()), schema)
    date.fromisoformat(table.LAST_PROVED)
