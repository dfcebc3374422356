"""Each rule of .ci/check_english.py finds what breaks it, and leaves the sentence that it asks for."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CHECKER: Any = ModuleType("check_english")
CHECKER.__file__ = str(Path(__file__).parents[1] / ".ci" / "check_english.py")
SourceFileLoader(CHECKER.__name__, CHECKER.__file__).exec_module(CHECKER)


def check(folder: Path, source: str, name: str = "module.py") -> list[tuple[int, str]]:
    path = folder / name
    path.write_text(source, encoding="utf-8")
    return list(CHECKER.check_file(path))


def function(docstring: str, decorator: str = "") -> str:
    return f'{decorator}\ndef name() -> None:\n    """{docstring}"""\n'


@pytest.mark.parametrize(
    "docstring",
    ["What the output selects.", "The strides of a tensor.", "Returns the size.", "2 or more sizes.", "StridedSlice."],
)
def test_function_that_begins_without_a_verb_is_found(docstring: str, tmp_path: Path) -> None:
    ((line, rule),) = check(tmp_path, function(docstring))
    assert line == 3
    assert "begin" in rule


@pytest.mark.parametrize("docstring", ["Return the size.", "Whether it fits.", "Process a file.", "Embed the weights."])
def test_function_that_begins_with_a_verb_passes(docstring: str, tmp_path: Path) -> None:
    assert check(tmp_path, function(docstring)) == []


@pytest.mark.parametrize("decorator", ["@property", "@cached_property", "@functools.cached_property"])
def test_property_begins_with_a_noun(decorator: str, tmp_path: Path) -> None:
    assert check(tmp_path, function("The size of the output.", decorator)) == []
    assert len(check(tmp_path, function("What the output selects.", decorator))) == 1


@pytest.mark.parametrize(
    "source", ['class A:\n    """What is read."""\n', 'SIZE = 4\n"""How large it is."""\n', '"""That of a node."""\n']
)
def test_class_attribute_and_module_that_begin_headless_are_found(source: str, tmp_path: Path) -> None:
    ((_, rule),) = check(tmp_path, source)
    assert rule.startswith("a docstring does not begin with")


def test_entry_of_a_docstring_that_begins_headless_is_found(tmp_path: Path) -> None:
    ((line, rule),) = check(tmp_path, function("Read it.\n\n    Args:\n        value: What is given.\n    "))
    assert line == 6
    assert rule.startswith("'value: What'")


@pytest.mark.parametrize(
    ("source", "phrase", "line"),
    [
        ("# the file, of_which it is a part\n", "of_which", 1),
        ('raise ValueError(f"{name} is_none")\n', "is_none", 1),
        ('TEXT = "a file that is_no model"\n', "is_no model", 1),
        ('"""Limits.\n\nIn seconds, 0\nfor_any.\n"""\n', "0 for_any", 3),
    ],
)
def test_banned_phrase_is_found(source: str, phrase: str, line: int, tmp_path: Path) -> None:
    """Each `_` stands for a space, because the rules are checked in this file, too."""
    ((found_line, rule),) = check(tmp_path, source.replace("_", " "))
    assert rule.startswith(f"{phrase.replace('_', ' ')!r}: ")
    assert found_line == line


def test_names_and_plain_phrases_pass(tmp_path: Path) -> None:
    assert check(tmp_path, "is_none = of_which = 1  # it is no longer than 3\n") == []


@pytest.mark.parametrize(
    "name", ["test_bytes", "test_integers_are", "test_what_differs_is_not", "test_they_fire", "test_empty_part"]
)
def test_name_without_a_claim_is_found(name: str, tmp_path: Path) -> None:
    ((line, rule),) = check(tmp_path, f"def {name}() -> None: ...\n", "test_module.py")
    assert line == 1
    assert rule.startswith(name)


@pytest.mark.parametrize("name", ["test_empty_part_is_rewritten", "test_nodes_stay_as_they_are", "test_engines_agree"])
def test_name_with_a_claim_passes(name: str, tmp_path: Path) -> None:
    assert check(tmp_path, f"def {name}() -> None: ...\n", "test_module.py") == []


def test_command_ends_with_1_if_something_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "module.py").write_text('"""What it is."""\n', encoding="utf-8")
    monkeypatch.setattr(CHECKER, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.sliceport.english]\ncheck = ["."]\nskip = []\n', encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["check_english.py"])
    assert CHECKER.main() == 1
    assert capsys.readouterr().out == "module.py:1: a docstring does not begin with 'what'\n"
