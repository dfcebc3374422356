"""`sliceport check`: exit codes, engines, and its four formats."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jsonschema
import pytest
from command_line import Invoke, Printed
from onnx_models import parse, save

import sliceport
from sliceport.checking import Selection
from sliceport.defects import engines
from sliceport.defects.table import DEFECTS, version_to_judge
from sliceport.errors import UsageError

DATA = Path(__file__).parents[2] / "data"
CLEAN = "(float[6] x) => (float[a] y, float[b] z) { y, z = Split(x) }"
INVALID = "(float[5] x) => (float[a] y, float[b] z) { y, z = Split(x) }"
FRAGILE = "(float[n] x) => (float[a] y) <int64[1] s = {1}> { y = Split(x, s) }"
DEFECT = "(float[4] x) => (float[2] w) { p, q = Split(x)  g = Sigmoid(q)  w = Mul(p, g) }"
STEPPED = (
    "(float[9] x) => (float[n] y) <int64[1] z = {0}, int64[1] e = {9}, int64[1] t = {2}> { y = Slice(x, z, e, z, t) }"
)


def judged(*names: str) -> str:
    """Return the line about the versions of engines."""
    return f"judged for {', '.join(f'{n} {version_to_judge(n)}' for n in names)}; --engine-versions chooses others"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    graphs = {"clean": CLEAN, "invalid": INVALID, "fragile": FRAGILE, "defect": DEFECT, "stepped": STEPPED}
    for name, graph in graphs.items():
        save(graph, tmp_path / f"{name}.onnx", 13)
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    return tmp_path


@pytest.fixture
def check(invoke: Invoke, folder: Path) -> Invoke:
    """Return a function that runs `sliceport check` in the folder."""

    def run(*words: object, code: int = 0) -> Printed:
        out, err = invoke("check", *words, code=code)
        return Printed(out.rstrip("\n"), err)

    return run


def test_a_group_is_a_line_with_the_command_that_helps(check: Invoke) -> None:
    out, err = check("defect.onnx", code=1)
    assert err == ""
    assert out.split("\n") == [
        "defect: 1 Split: one part gates another: onnxruntime-dml 1.24.4 fuses the two and computes q * Sigmoid(q); "
        "sliceport harden defect.onnx -o OUT",
        "1 node with a known defect (checked for 5 engines)",
        judged("onnxruntime-cpu", "onnxruntime-cpu-optimized", "onnxruntime-dml", "onnx-reference", "openvino-onnx"),
        "sliceport check defect.onnx --engines all,openvino-cpu adds openvino-cpu, for which the model is converted, "
        "and engines that are known from the reports of users alone",
    ]


def test_verbose_adds_nodes_and_pages(check: Invoke) -> None:
    out = check("defect.onnx", "-v", code=1).out
    lines = out.split("\n")
    assert lines[1] == "    p"
    assert lines[2].startswith("    see https://github.com/sliceport/sliceport/blob/main/docs/defects/one-part-gates-")
    assert lines[2].endswith("microsoft/onnxruntime#32146")


def test_clean_models_exit_with_0(check: Invoke) -> None:
    names = ("onnxruntime-cpu", "onnxruntime-cpu-optimized", "onnxruntime-dml")
    summary = f"no known defect (checked for {names[0]}, {names[1]} and {names[2]})"
    assert check("clean.onnx", "--engines", "onnxruntime") == (f"{summary}\n{judged(*names)}", "")
    assert check("clean.onnx", "--engines", "mnn") == (f"nothing reported of mnn\n{judged('mnn')}", "")
    assert check("clean.onnx", "-q") == ("clean.onnx: no known defect (checked for 5 engines)", "")


@pytest.mark.parametrize("kind", ["invalid", "fragile", "defect"])
def test_fail_on_chooses_the_kinds_that_count(check: Invoke, kind: str) -> None:
    for name in ("invalid", "fragile", "defect"):
        check(f"{name}.onnx", "--fail-on", kind, code=int(name == kind))


def test_fragile_node_alone_does_not_fail(check: Invoke) -> None:
    assert check("fragile.onnx").out.startswith("fragile: 1 Split: ")
    check("fragile.onnx", "invalid.onnx", code=1)
    check("fragile.onnx", "--fail-on", "invalid,fragile,defect", code=1)


def test_engine_without_anything_to_check_gets_a_sentence(check: Invoke) -> None:
    sentence = "nothing to check for directml in a model of this format"
    assert check("stepped.onnx", "--engines", "directml").out == sentence
    both = check("clean.onnx", "--engines", "directml,mnn", "-q").out
    assert both == f"clean.onnx: nothing reported of mnn, {sentence}"
    (result,) = json.loads(check("clean.onnx", "--engines", "directml", "--format", "json").out)["models"]
    assert result["unchecked_engines"] == ["directml"]
    assert result["versions"] == {}


@pytest.mark.parametrize("version", ["1.31.1", "1.32.0", None])
def test_entry_is_left_out_if_the_judged_version_has_its_fix(
    monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    """The installed version counts; without one, the newest version of the table."""
    packages = {"onnxruntime-cpu": ("pytest",)} if version else {}
    monkeypatch.setattr("sliceport.defects.table.PACKAGES", packages)
    monkeypatch.setattr("sliceport.defects.table.version", lambda _: version)
    version_to_judge.cache_clear()
    product = parse("(float[n,k] x, float[k] z) => (float[n] y) { y = MatMul(x, z) }")
    report = sliceport.check(product, engines=["onnxruntime-cpu"])
    version_to_judge.cache_clear()
    assert bool(report.findings) == (version == "1.31.1")


def test_versions_of_all_engines_begin_with_a_number_or_are_unknown() -> None:
    for name in engines.ALL_TITLES:
        assert version_to_judge(name)[:1].isdigit() or not any(
            divergence.versions or divergence.until
            for defect in DEFECTS
            for divergence in defect.divergences
            if divergence.engine == name
        )


def test_json_has_the_versions_that_are_judged(check: Invoke) -> None:
    words = ["clean.onnx", "--format", "json", "--engines", "onnxruntime-dml,mnn"]
    (result,) = json.loads(check(*words, "--engine-versions", "mnn=3.0").out)["models"]
    assert result["versions"] == {"onnxruntime-dml": version_to_judge("onnxruntime-dml"), "mnn": "3.0"}


def test_with_sizes_a_fragile_node_is_right_or_wrong(check: Invoke) -> None:
    assert check("fragile.onnx", "-q").out.startswith("fragile.onnx: 1 fragile, ")
    check("fragile.onnx", "-q", "--input-shapes", "x:1")
    assert check("fragile.onnx", "-q", "--input-shapes", "x:3", code=1).out.startswith("fragile.onnx: 1 invalid, ")


def test_each_model_has_a_section_and_an_unreadable_one_a_sentence(check: Invoke) -> None:
    out, err = check("clean.onnx", "broken.onnx", "invalid.onnx", code=2)
    assert err.count("\n") == 1
    assert "'broken.onnx': it is not an ONNX model" in err
    first, second, third = out.split("\n\n")
    assert first == "clean.onnx\nno known defect (checked for 5 engines)"
    assert second.startswith("broken.onnx\nnot checked: ")
    assert third.startswith("invalid.onnx\ninvalid: 1 Split: uneven parts without sizes: axis 0 has 5 elements, ")


def test_a_folder_is_told_of_batch(folder: Path, check: Invoke) -> None:
    err = check(".", code=2).err
    assert err == "sliceport: '.' is a folder, and check takes a file; write sliceport batch check . -o RUN.\n"


def test_reports_are_shown_apart_and_only_if_their_engine_is_named(check: Invoke) -> None:
    assert check("stepped.onnx", "-q").out == "stepped.onnx: no known defect (checked for 5 engines)"
    check("stepped.onnx", "--engines", "onnxruntime")
    out = check("stepped.onnx", "--engines", "migraphx,onnxruntime-webgl", code=1).out
    assert out.split("\n") == [
        "from reports or single runs, not from tests:",
        "  1 Slice: step other than 1: onnxruntime-webgl 1.13.1 fails; migraphx does not read the model; "
        "sliceport harden stepped.onnx -o OUT --target migraphx",
        "1 reported of onnxruntime-webgl and migraphx",
        judged("onnxruntime-webgl"),  # no version of MIGraphX is known
    ]
    line = check("stepped.onnx", "--engines", "onnxruntime-webgl", code=1).out.split("\n")[1]
    assert line.endswith(" and a Slice of the last axis select the same, if step divides the size of the axis")
    assert "--target ncnn|migraphx" in check("stepped.onnx", "--engines", "all", code=1).out


def test_reported_engine_that_is_right_now_is_left_out(check: Invoke) -> None:
    words = ["stepped.onnx", "--engines", "opencv"]
    assert check(*words).out.split("\n")[0] == "nothing reported of opencv"
    out = check(*words, "--engine-versions", "opencv=4.8", code=1).out
    assert "opencv 4.5.0 does not read the model; sliceport harden stepped.onnx -o OUT --target opencv" in out


def test_what_is_reported_of_a_fragile_node_is_shown_apart(folder: Path, check: Invoke) -> None:
    graph = STEPPED.replace("int64[1] t = {2}", "int64[1] u = {2}").replace("x) =>", "x, int64[1] t) =>", 1)
    save(graph, folder / "late.onnx", 13)
    first, *rest = check("late.onnx", "--engines", "openvino-gpu").out.split("\n")
    assert first == "fragile: 1 Slice: step at run time: its steps come from 't'; make the step a constant"
    assert rest[0] == "from reports or single runs, not from tests:"
    assert rest[1].startswith(
        "  1 Slice: step at run time: its steps come from 't': openvino-gpu 2026.4 returns its input"
    )
    assert rest[2:] == ["1 fragile, 1 reported of openvino-gpu", judged("openvino-gpu")]


def test_what_is_contested_names_who_is_right(folder: Path, check: Invoke) -> None:
    graph = STEPPED.replace(
        "{0}, int64[1] e = {9}, int64[1] t = {2}", "{0}, int64[1] e = {9223372036854775807}, int64[1] t = {-1}"
    )
    save(graph, folder / "contested.onnx", 13)
    line, *_ = check("contested.onnx", "-v", code=1).out.split("\n")
    assert "onnxruntime-dml, onnx-reference and openvino-onnx are right: by Slice-13, ends of a negative step" in line


def test_contested_node_names_no_engine_if_none_is_right(folder: Path, check: Invoke) -> None:
    save(
        "(float[4] x) => (float[2] a, float[2] b, float[0] c) { a, b, c = Split<num_outputs = 3>(x) }",
        folder / "e.onnx",
        18,
    )
    assert "are never written; by Split-18, parts have ceil(dim / num_outputs)" in check("e.onnx", code=1).out


def test_versions_leave_out_what_does_not_concern_them(check: Invoke) -> None:
    words = ["stepped.onnx", "--engines", "onnxruntime-webnn", "--engine-versions"]
    check(*words, "onnxruntime=1.20.1", code=1)
    check(*words, "onnxruntime=1.21")
    check(*words, "openvino=1.20.1")  # the newest version that the table has is judged, which is right
    assert "judged for onnxruntime-webnn 1.20.1" in check(*words, "onnxruntime-webnn=1.20.1", code=1).out


def test_fragile_node_is_left_out_if_its_engine_is_right_now() -> None:
    product = parse("(float[n,k] x, float[k] z) => (float[n] y) { y = MatMul(x, z) }")
    halves = parse("(float[n] x) => (float[p] y, float[q] z) { y, z = Split<num_outputs = 2>(x) }")
    counts = [
        len(sliceport.check(model, engines=["onnxruntime-cpu"], engine_versions={"onnxruntime": version}).findings)
        for model in (product, halves)
        for version in ("1.31.1", "1.32.0")
    ]
    assert counts == [2, 0, 1, 0]
    versions = {"onnxruntime": "1.32.0"}  # the DirectML provider is wrong about the Split in all versions
    assert len(sliceport.check(halves, engines=["onnxruntime-dml"], engine_versions=versions).findings) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engines", "onnxruntme"], "engine 'onnxruntme' is not known, did you mean 'onnxruntime'?"),
        (["--engine-versions", "openvino"], "engine version 'openvino' must be written ENGINE=VERSION"),
        (["--engine-versions", "all=2025.2"], "engine 'all' is not known"),
        (
            ["--engine-versions", "openvino=new"],
            "the version of engine 'openvino' must be a text that begins with a number, got 'new'.",
        ),
        (["--fail-on", "wrong"], "kind 'wrong' is not known"),
    ],
)
def test_a_wrong_option_is_one_sentence(check: Invoke, words: list[str], message: str) -> None:
    out, err = check("clean.onnx", *words, code=2)
    assert out == ""
    assert err.startswith(f"sliceport: {message}")
    assert err.count("\n") == 1


def test_families_are_the_engines_that_were_tried() -> None:
    selection = Selection(("openvino",))
    names = ("openvino", "openvino-cpu", "openvino-gpu", "onnxruntime-dml")
    assert [name for name in names if selection.has(name)] == ["openvino", "openvino-cpu"]
    with pytest.raises(UsageError):
        sliceport.check("m.onnx", engines=["cuda"])


def test_the_plugin_is_asked_about_what_openvino_reads(check: Invoke) -> None:
    pytest.importorskip("openvino")
    out = check("clean.onnx", "--engines", "openvino-cpu,openvino-onnx").out
    assert out.split("\n") == [
        "no known defect (checked for openvino-onnx and openvino-cpu)",
        judged("openvino-onnx", "openvino-cpu"),
    ]


def test_advice_for_a_model_whose_name_other_words_contain(folder: Path, check: Invoke) -> None:
    (folder / "defect.onnx").rename(folder / "o")
    log = json.loads(check("o", "--format", "sarif", code=1).out)
    assert [rule["help"]["text"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == [
        "sliceport harden MODEL -o OUT"
    ]


def test_json_has_the_rules_and_the_findings(check: Invoke) -> None:
    report = json.loads(check("defect.onnx", "broken.onnx", "--format", "json", code=2).out)
    assert report["schema_version"] == 1
    first, second = report["models"]
    assert first["findings"] == [
        {"kind": "defect", "rule": "one-part-gates-another", "op": "Split", "node": "p", "scope": [], "detail": ""}
    ]
    (rule,) = first["rules"].values()
    assert rule["engines"][0]["engine"] == "onnxruntime-dml"
    assert rule["help"] == "sliceport harden defect.onnx -o OUT"
    assert set(second) == {"model", "error"}


def test_a_report_is_short_in_text_and_a_table_in_notebooks(folder: Path) -> None:
    report = sliceport.check("fragile.onnx")
    assert repr(report) == "<CheckReport: 0 invalid, 1 fragile, 0 defect>"
    assert "<td>split=[1] fixes &#x27;n&#x27; to 1</td>" in report._repr_html_()
    assert report.to_json()["schema_version"] == 1


def test_sarif_fits_its_schema(folder: Path, check: Invoke) -> None:
    schema = json.loads(gzip.decompress((DATA / "sarif_2.1.0.json.gz").read_bytes()))
    jsonschema.Draft202012Validator.check_schema(schema)
    words = ["clean.onnx", "invalid.onnx", "fragile.onnx", "defect.onnx", str(folder / "stepped.onnx"), "broken.onnx"]
    log = json.loads(check(*words, "--engines", "all", "--format", "sarif", code=2).out)
    jsonschema.validate(log, schema)
    (run_,) = log["runs"]
    rules = run_["tool"]["driver"]["rules"]
    assert [rules[one["ruleIndex"]]["id"] for one in run_["results"]] == [one["ruleId"] for one in run_["results"]]
    assert {one["level"] for one in run_["results"]} == {"error", "warning", "note"}
    helps = [rule["help"]["text"] for rule in rules]
    assert "sliceport harden MODEL -o OUT --target ncnn|migraphx" in helps
    uris = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run_["results"]]
    assert uris[0] == "invalid.onnx"
    assert uris[-1].startswith("file:///")
    (invocation,) = run_["invocations"]
    assert not invocation["executionSuccessful"]
    assert len(invocation["toolExecutionNotifications"]) == 1


def test_commands_of_github_are_escaped(folder: Path, check: Invoke) -> None:
    name = "100%,a:b.onnx"
    (folder / "fragile.onnx").rename(folder / name)
    out = check(name, "broken.onnx", "--format", "github", code=2).out
    first, last, error = out.split("\n")
    assert first.startswith(
        "::warning file=100%25%2Ca%3Ab.onnx,title=fragile%3A sizes-that-fix-an-open-axis::1 Split: sizes that fix"
    )
    assert last == "100%,a:b.onnx: 1 fragile, no known defect (checked for 5 engines)"
    assert error.startswith("::error file=broken.onnx,title=not checked::'broken.onnx': ")


def test_batch_checks_many_models(folder: Path, invoke: Invoke) -> None:
    words = ["clean.onnx", "defect.onnx", "-o", "run", "--engines", "onnxruntime-dml"]
    out = invoke("batch", "check", *words, code=1).out
    assert out.startswith("2 models: 1 clean, 1 with findings")
    assert "one part gates another" in out
