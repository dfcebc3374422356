"""Manifests give options to models, and mistakes in them are named."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from sliceport.batch.manifest import read_manifest
from sliceport.errors import UsageError

TOML = """
[defaults]
input_shapes = {x = [1, 2]}

[[models]]
model = "zoo/*.onnx"
input_shapes = {x = [3, 0], y = []}
input = {z = "x.npy"}

[[models]]
model = "zoo/a.onnx"
input_shapes = {x = [9]}

[[models]]
model = "../out/q?.onnx"
input = {z = "s3://b/z.npy", y = "/y.npy"}

[[models]]
model = "s3://b/*.onnx"
input = {z = "../z.npy"}
"""

LINES = """
{"model": "zoo/*.onnx", "input_shapes": {"x": [3, 0], "y": []}, "input": {"z": "x.npy"}}

{"model": "zoo/a.onnx", "input_shapes": {"x": [9]}}
"""


@pytest.fixture(autouse=True)
def current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lists").mkdir()
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("lists/zoo/a.onnx", {"input_shapes": {"x": (9,), "y": ()}, "inputs": {"z": "lists/x.npy"}}),
        ("./lists/../lists/zoo/a.onnx", {"input_shapes": {"x": (9,), "y": ()}, "inputs": {"z": "lists/x.npy"}}),
        ("lists/zoo/b/c.onnx", {"input_shapes": {"x": (3, 0), "y": ()}, "inputs": {"z": "lists/x.npy"}}),
        ("out/q1.onnx", {"input_shapes": {"x": (1, 2)}, "inputs": {"z": "s3://b/z.npy", "y": "/y.npy"}}),
        ("s3://b/c/d.onnx", {"input_shapes": {"x": (1, 2)}, "inputs": {"z": "lists/../z.npy"}}),
        ("zoo/a.onnx", {"input_shapes": {"x": (1, 2)}}),
    ],
)
def test_the_last_entry_that_matches_holds_for_each_input(model: str, options: object) -> None:
    assert read_manifest(write("lists/m.toml", TOML)).options_of(model) == options


def test_lines_of_json_say_the_same() -> None:
    manifest = read_manifest(write("m.jsonl", LINES))
    assert manifest.options_of("zoo/a.onnx") == {"input_shapes": {"x": (9,), "y": ()}, "inputs": {"z": "x.npy"}}
    assert manifest.options_of("other.onnx") == {}


def test_a_later_pattern_holds_against_an_earlier_name() -> None:
    lines = '{"model": "a.onnx", "input_shapes": {"x": [1], "y": [1]}}\n{"model": "*", "input_shapes": {"x": [2]}}'
    assert read_manifest(write("m.ndjson", lines)).options_of("a.onnx") == {"input_shapes": {"x": (2,), "y": (1,)}}


def test_folders_of_a_manifest_are_no_pattern(tmp_path: Path) -> None:
    Path("[a]").mkdir()
    manifest = read_manifest(write("[a]/m.jsonl", '{"model": "*.onnx", "input_shapes": {"x": [1]}}'))
    assert manifest.options_of("a/b.onnx") == {}
    assert manifest.options_of(f"{tmp_path}/[a]/b.onnx") == {"input_shapes": {"x": (1,)}}
    entry = {"model": f"{tmp_path}/z/*.onnx", "input": {"x": "x.npy"}}
    absolute = read_manifest(write("m.jsonl", json.dumps(entry)))
    assert absolute.options_of("z/a.onnx") == {"inputs": {"x": "x.npy"}}


@pytest.mark.skipif(sys.platform != "win32", reason="names as Windows has them")
def test_either_slash_and_any_case_match() -> None:
    entries = [
        {"model": "zoo\\a.onnx", "input_shapes": {"x": [1]}, "input": {"x": "in\\x.npy"}},
        {"model": "Zoo\\B*\\[A-C].onnx", "input_shapes": {"y": [2]}},
    ]
    manifest = read_manifest(write("m.jsonl", "\n".join(map(json.dumps, entries))))
    assert manifest.options_of("ZOO/A.onnx") == {"input_shapes": {"x": (1,)}, "inputs": {"x": "in/x.npy"}}
    assert manifest.options_of("zoo\\b1\\c.ONNX") == {"input_shapes": {"y": (2,)}}


def test_entries_that_match_nothing_are_told() -> None:
    manifest = read_manifest(write("m.toml", TOML))
    manifest.options_of("zoo/b.onnx")
    manifest.options_of("../out/q1.onnx")
    assert manifest.describe_unused() == (
        "manifest 'm.toml', entry 2 of [[models]]: 'zoo/a.onnx' matches no model.",
        "manifest 'm.toml', entry 4 of [[models]]: 's3://b/*.onnx' matches no model.",
    )


def test_nothing_at_all_is_a_manifest() -> None:
    for name in ("m.toml", "m.jsonl"):
        manifest = read_manifest(write(name, ""))
        assert manifest.options_of("a.onnx") == {}
        assert manifest.describe_unused() == ()


MODEL = "[[models]]\nmodel = 'a'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", " is not TOML: Expected '=' after a key in a key/value pair (at end of document)."),
        ("a = 1", ", the top: key 'a' is not known; known are defaults, models."),
        ("models = 3", ", the top: 'models' must be a list of tables, written [[models]], got 3."),
        ("models = ['a']", ", entry 1 of [[models]]: an entry must be an object with the keys model, input_shapes,"),
        ("defaults = 1", ", [defaults]: an entry must be an object with the keys input_shapes, input, got 1."),
        ("[defaults]\nmodel = 'a'", ", [defaults]: key 'model' is not known; known are input_shapes, input."),
        ("[[models]]", ", entry 1 of [[models]]: 'model' must be the name of a model, got ''."),
        ("[[models]]\nmodel = 3", ", entry 1 of [[models]]: 'model' must be the name of a model, got 3."),
        ("[[models]]\nmodel = ''", ", entry 1 of [[models]]: 'model' must be the name of a model, got ''."),
        (f"{MODEL}shapes = 3", ": key 'shapes' is not known; known are model, input_shapes, input."),
        (f"{MODEL}input_shapes = {{x = [-1]}}", "'x' must be a list of integers in [0, 2**63), such as"),
        (f"{MODEL}input_shapes = {{x = [true]}}", "in [0, 2**63), such as [1, 3], got [True]."),
        (f"{MODEL}input_shapes = {{x = [1.0]}}", "in [0, 2**63), such as [1, 3], got [1.0]."),
        (f"{MODEL}input_shapes = {{x = [9223372036854775808]}}", "3], got [9223372036854775808]."),
        (f"{MODEL}input_shapes = {{x = 'auto'}}", "in [0, 2**63), such as [1, 3], got 'auto'."),
        (f"{MODEL}input_shapes = [1]", ": 'input_shapes' must be an object whose keys are names of inputs, got [1]."),
        (f"{MODEL}input = 'x.npy'", ": 'input' must be an object whose keys are names of inputs, got 'x.npy'."),
        (f"{MODEL}input = {{x = 3}}", ": the file of input 'x' must be a name, such as 'x.npy', got 3."),
        (f"{MODEL}[[models]]\nmodel = './a'", ", entry 2 of [[models]]: model './a' has an entry already, entry 1"),
    ],
)  # fmt: skip
def test_mistakes_in_toml_are_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^manifest 'm.toml'.*{re.escape(message)}"):
        read_manifest(write("m.toml", text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n{", ", line 2: it is not JSON (Expecting property name"),
        ("[" * 100_000, ", line 1: it is not JSON (maximum recursion depth exceeded"),
        ("[]", ", line 1: an entry must be an object with the keys model, input_shapes, input, got []."),
        ("null", ", line 1: an entry must be an object with the keys model, input_shapes, input, got None."),
        ('{"model": "a", "model": "b"}', ", line 1: key 'model' occurs twice."),
        ('{"model": "a", "input": {"x": "b", "x": "c"}}', ", line 1: key 'x' occurs twice."),
        ('{"model": "a"}\n\n{"model": "a"}', ", line 3: model 'a' has an entry already, line 1."),
    ],
)
def test_mistakes_in_lines(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^manifest 'm.jsonl'{re.escape(message)}"):
        read_manifest(write("m.jsonl", text))


def test_files_that_are_no_manifest() -> None:
    with pytest.raises(UsageError, match=r"^manifest 'none.toml' cannot be read \(No such file or directory\).$"):
        read_manifest("none.toml")
    with pytest.raises(UsageError, match=r"^manifest 'm.json' must end in .toml, .jsonl or .ndjson.$"):
        read_manifest(write("m.json", ""))
    Path("b.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"^manifest 'b.toml' cannot be read \('utf-8' codec can't decode"):
        read_manifest("b.toml")
