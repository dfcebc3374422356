"""`sliceport check`: exit codes, engines, and its four formats."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from onnx_models import save

import sliceport
from sliceport.checking import Selection
from sliceport.cli.main import main
from sliceport.errors import UsageError
from sliceport.report.check import HINT

DATA = Path(__file__).parents[2] / "data"
CLEAN = "(float[6] x) => (float[a] y, float[b] z) { y, z = Split(x) }"
INVALID = "(float[5] x) => (float[a] y, float[b] z) { y, z = Split(x) }"
FRAGILE = "(float[n] x) => (float[a] y) <int64[1] s = {1}> { y = Split(x, s) }"
DEFECT = "(float[4] x) => (float[2] w) { p, q = Split(x)  g = Sigmoid(q)  w = Mul(p, g) }"
STEPPED = (
    "(float[9] x) => (float[n] y) <int64[1] z = {0}, int64[1] e = {9}, int64[1] t = {2}> { y = Slice(x, z, e, z, t) }"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    graphs = {"clean": CLEAN, "invalid": INVALID, "fragile": FRAGILE, "defect": DEFECT, "stepped": STEPPED}
    for name, graph in graphs.items():
        save(graph, tmp_path / f"{name}.onnx", 13)
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["check", *words])
    captured = capsys.readouterr()
    return code, captured.out.rstrip("\n"), captured.err


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(run(capsys, *words)[1])


def test_a_group_is_a_line_with_the_command_that_helps(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "defect.onnx")
    assert (code, err) == (1, "")
    assert out.split("\n") == [
        "defect: 1 Split: one part gates another: onnxruntime-dml 1.24.4 fuses the two and computes q * Sigmoid(q); "
        "sliceport harden defect.onnx -o OUT",
        "1 node with a known defect of 5 engines",
        HINT,
    ]


def test_verbose_adds_nodes_and_pages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "defect.onnx", "-v")
    lines = out.split("\n")
    assert lines[1] == "    p"
    assert lines[2].startswith("    see https://github.com/sliceport/sliceport/blob/main/docs/defects/one-part-gates-")
    assert lines[2].endswith("microsoft/onnxruntime#32146")


def test_clean_models_exit_with_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = "onnxruntime-cpu, onnxruntime-cpu-optimized and onnxruntime-dml"
    assert run(capsys, "clean.onnx", "--engines", "onnxruntime") == (0, f"no known defect of {names}", "")
    assert run(capsys, "clean.onnx", "--engines", "mnn") == (0, "nothing reported of mnn", "")
    assert run(capsys, "clean.onnx", "-q") == (0, "clean.onnx: no known defect of 5 engines", "")


@pytest.mark.parametrize("kind", ["invalid", "fragile", "defect"])
def test_fail_on_chooses_the_kinds_that_count(folder: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    codes = {name: run(capsys, f"{name}.onnx", "--fail-on", kind)[0] for name in ("invalid", "fragile", "defect")}
    assert codes == {name: int(name == kind) for name in codes}


def test_with_sizes_a_fragile_node_is_right_or_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "fragile.onnx", "-q")[1].startswith("fragile.onnx: 1 fragile, ")
    assert run(capsys, "fragile.onnx", "-q", "--input-shapes", "x:1")[0] == 0
    assert run(capsys, "fragile.onnx", "-q", "--input-shapes", "x:3")[1].startswith("fragile.onnx: 1 invalid, ")


def test_each_model_has_a_section_and_an_unreadable_one_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "clean.onnx", "broken.onnx", "invalid.onnx")
    assert code == 2
    assert err.count("\n") == 1
    assert "'broken.onnx': it is not an ONNX model" in err
    first, second, third = out.split("\n\n")
    assert first == "clean.onnx\nno known defect of 5 engines"
    assert second.startswith("broken.onnx\nnot checked: ")
    assert third.startswith("invalid.onnx\ninvalid: 1 Split: uneven parts without sizes: axis 0 has 5 elements, ")


def test_a_folder_is_told_of_batch(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, ".")
    assert (code, err) == (
        2,
        "sliceport: '.' is a folder, and check takes a file; write sliceport batch check '.' -o RUN.\n",
    )


def test_reports_are_shown_apart_and_only_if_their_engine_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "stepped.onnx", "-q")[:2] == (0, "stepped.onnx: no known defect of 5 engines")
    assert run(capsys, "stepped.onnx", "--engines", "onnxruntime")[0] == 0
    code, out, _ = run(capsys, "stepped.onnx", "--engines", "opencv,onnxruntime-webgl")
    assert code == 1
    assert out.split("\n") == [
        "from reports or single runs, not from tests:",
        "  1 Slice: step other than 1: onnxruntime-webgl 1.13.1 fails; opencv 4.5.0 does not read the model; "
        "sliceport harden stepped.onnx -o OUT --target opencv",
        "1 reported of onnxruntime-webgl and opencv",
    ]
    line = run(capsys, "stepped.onnx", "--engines", "onnxruntime-webgl")[1].split("\n")[1]
    assert line.endswith(" and a Slice of the last axis select the same, if step divides the size of the axis")
    assert "--target webnn|ncnn|opencv|migraphx" in run(capsys, "stepped.onnx", "--engines", "all")[1]


def test_what_is_reported_of_a_fragile_node_is_shown_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = STEPPED.replace("int64[1] t = {2}", "int64[1] u = {2}").replace("x) =>", "x, int64[1] t) =>", 1)
    save(graph, folder / "late.onnx", 13)
    first, *rest = run(capsys, "late.onnx", "--engines", "openvino-gpu")[1].split("\n")
    assert first == "fragile: 1 Slice: step at run time: its steps come from 't'; make the step a constant"
    assert rest[0] == "from reports or single runs, not from tests:"
    assert rest[1].startswith(
        "  1 Slice: step at run time: its steps come from 't': openvino-gpu 2026.4 returns its input"
    )
    assert rest[2:] == ["1 fragile, 1 reported of openvino-gpu"]


def test_what_is_contested_names_who_is_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = STEPPED.replace(
        "{0}, int64[1] e = {9}, int64[1] t = {2}", "{0}, int64[1] e = {9223372036854775807}, int64[1] t = {-1}"
    )
    save(graph, folder / "contested.onnx", 13)
    line, *_ = run(capsys, "contested.onnx", "-v")[1].split("\n")
    assert "onnxruntime-dml, onnx-reference and openvino-onnx are right: by Slice-13, ends of a negative step" in line


def test_versions_leave_out_what_does_not_concern_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["stepped.onnx", "--engines", "onnxruntime-webnn", "--engine-versions"]
    assert run(capsys, *words, "onnxruntime=1.20.1")[0] == 1
    assert run(capsys, *words, "onnxruntime=1.21")[0] == 0
    assert run(capsys, *words, "openvino=1.21")[0] == 1


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
def test_a_wrong_option_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code, out, err = run(capsys, "clean.onnx", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"sliceport: {message}")
    assert err.count("\n") == 1


def test_families_are_the_engines_that_were_tried() -> None:
    selection = Selection(("openvino",))
    names = ("openvino", "openvino-cpu", "openvino-gpu", "onnxruntime-dml")
    assert [name for name in names if selection.has(name)] == ["openvino", "openvino-cpu"]
    with pytest.raises(UsageError):
        sliceport.check("m.onnx", engines=["cuda"])


def test_the_plugin_is_asked_about_what_openvino_reads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openvino")
    code, out, _ = run(capsys, "clean.onnx", "--engines", "openvino-cpu,openvino-onnx")
    assert (code, out) == (0, "no known defect of openvino-onnx and openvino-cpu")


def test_json_has_the_rules_and_the_findings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run_json(capsys, "defect.onnx", "broken.onnx", "--format", "json")
    assert report["schema_version"] == 1
    first, second = report["models"]
    assert first["findings"] == [
        {"kind": "defect", "rule": "one-part-gates-another", "op": "Split", "node": "p", "scope": [], "detail": ""}
    ]
    (rule,) = first["rules"].values()
    assert rule["engines"][0]["engine"] == "onnxruntime-dml"
    assert set(second) == {"model", "error"}


def test_errors_are_json_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "'nothing' is not known" in run_json(capsys, "clean.onnx", "--engines", "nothing", "--format", "json")["error"]
    )


def test_a_report_is_short_in_text_and_a_table_in_notebooks(folder: Path) -> None:
    report = sliceport.check("fragile.onnx")
    assert repr(report) == "<CheckReport: 0 invalid, 1 fragile, 0 defect>"
    assert "<td>split=[1] fixes &#x27;n&#x27; to 1</td>" in report._repr_html_()
    assert report.to_json()["schema_version"] == 1


def test_sarif_fits_its_schema(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads(gzip.decompress((DATA / "sarif_2.1.0.json.gz").read_bytes()))
    jsonschema.Draft202012Validator.check_schema(schema)
    words = ["clean.onnx", "invalid.onnx", "fragile.onnx", "defect.onnx", str(folder / "stepped.onnx"), "broken.onnx"]
    log = run_json(capsys, *words, "--engines", "all", "--format", "sarif")
    jsonschema.validate(log, schema)
    (run_,) = log["runs"]
    rules = run_["tool"]["driver"]["rules"]
    assert [rules[one["ruleIndex"]]["id"] for one in run_["results"]] == [one["ruleId"] for one in run_["results"]]
    assert {one["level"] for one in run_["results"]} == {"error", "warning", "note"}
    helps = [rule["help"]["text"] for rule in rules]
    assert "sliceport harden MODEL -o OUT --target webnn|ncnn|opencv|migraphx" in helps
    uris = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run_["results"]]
    assert uris[0] == "invalid.onnx"
    assert uris[-1].startswith("file:///")
    (invocation,) = run_["invocations"]
    assert not invocation["executionSuccessful"]
    assert len(invocation["toolExecutionNotifications"]) == 1


def test_commands_of_github_are_escaped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "100%,a:b.onnx"
    (folder / "fragile.onnx").rename(folder / name)
    code, out, _ = run(capsys, name, "broken.onnx", "--format", "github")
    assert code == 2
    first, last, error = out.split("\n")
    assert first.startswith(
        "::warning file=100%25%2Ca%3Ab.onnx,title=fragile%3A sizes-that-fix-an-open-axis::1 Split: sizes that fix"
    )
    assert last == "100%25,a:b.onnx: 1 fragile, no known defect of 5 engines"
    assert error.startswith("::error file=broken.onnx,title=not checked::'broken.onnx': ")


def test_batch_checks_many_models(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", "check", "clean.onnx", "defect.onnx", "-o", "run", "--engines", "onnxruntime-dml"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("2 models: 1 clean, 1 with findings")
    assert "one part gates another" in out
