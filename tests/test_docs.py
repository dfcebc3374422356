"""The README and the pages in docs/: their blocks run, they name what there is, and nothing is said twice."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import tomllib
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest
from our_engines import our_engines
from pages import ROOT, VALUE, examples, pages, python_blocks, read, run_example, run_python, synopses
from passes_page import passes_page

from sliceport.cli.main import make_parser

PAGES = [name for name in pages() if name != "README.md"]
PYTHON = [(name, i) for name in pages() for i in range(len(python_blocks(name)))]
EXAMPLES = [(name, i) for name in pages() for i in range(len(examples(name)))]
PROSE = [*pages(), *(name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md") if (ROOT / name).exists())]


def test_every_example_is_collected() -> None:
    counts = (len(PYTHON), len(EXAMPLES))
    assert counts == (17, 15), "a page has a block more or less: if all are found, write the numbers here"
    values = [line for name, i in PYTHON for line in python_blocks(name)[i].splitlines() if VALUE.match(line)]
    assert len(values) == 11


@pytest.mark.parametrize(("name", "number"), PYTHON)
def test_python_blocks_run(clone: Path, name: str, number: int) -> None:
    run_python(python_blocks(name)[number], clone)


@pytest.mark.parametrize(("name", "number"), EXAMPLES)
def test_examples_print_what_the_page_says(clone: Path, name: str, number: int) -> None:
    example = examples(name)[number]
    shown = set(re.findall(r"openvino-cpu (\d+\.\d+\.\d+)", str(example)))
    if not shown <= {metadata.version("openvino")}:
        pytest.skip(f"the page shows what openvino {', '.join(shown)} does")
    run_example(name, example, clone)


LEFT_OUT = {"--help", "--quiet", "--verbose", "--output", "--if-possible"}
GROUPS = {("sliceport", "directml"), ("sliceport", "batch")}


def options(parser: argparse.ArgumentParser) -> set[str]:
    return {o for a in parser._actions for o in a.option_strings if o.startswith("--")}


def subparsers(parser: argparse.ArgumentParser, dest: str) -> dict[str, argparse.ArgumentParser]:
    choices = next(a for a in parser._actions if a.dest == dest).choices
    assert isinstance(choices, dict)
    return choices


def test_synopses_name_every_option_and_no_other() -> None:
    commands = subparsers(make_parser(), "command")
    directml = subparsers(commands["directml"], "action")
    known = {("sliceport", name): command for name, command in commands.items()}
    known |= {("sliceport directml", name): command for name, command in directml.items()}
    known[("sliceport batch", "report")] = subparsers(commands["batch"], "member")["report"]
    known[("sliceport defects", "report")] = subparsers(commands["defects"], "action")["report"]
    seen = set()
    for text in itertools.chain.from_iterable(map(synopses, PAGES)):
        for entry in re.split(r"^(?=sliceport )", text, flags=re.MULTILINE)[1:]:
            found = re.match(r"(sliceport(?: directml| batch| defects(?= report))?) ([a-z]+)(?=\s)", entry)
            if found is None or found.groups() in GROUPS:
                continue
            key = (found[1], found[2])
            named = set(re.findall(r"--[a-z-]+", entry))
            differing = named ^ (options(known[key]) - LEFT_OUT)
            assert not differing, f"mend the synopsis of {' '.join(key)} in docs/, which lacks or invents {differing}"
            seen.add(key)
    assert seen == set(known) - GROUPS


def test_the_synopsis_of_batch_names_what_all_its_commands_add() -> None:
    commands = subparsers(make_parser(), "command")
    members = subparsers(commands["batch"], "member")
    alone, batched = commands, members
    (entry,) = (text for text in synopses("docs/batch.md") if text.startswith("sliceport batch"))
    first, _, _ = entry.partition("sliceport batch report")
    words = re.match(r"sliceport batch (\S+) SOURCE", first)
    assert words is not None
    names = words[1].split("|")
    assert sorted(names) == sorted(set(batched) - {"report"})
    added = set.union(*(options(batched[name]) - options(alone[name]) for name in names))
    shared = {"--format", "--overwrite", "--timeout", "--memory"}
    assert set(re.findall(r"--[a-z-]+", first)) == (added | shared) - LEFT_OUT


def test_the_reference_lists_the_public_names() -> None:
    names = json.loads((ROOT / "tests" / "data" / "public_names.json").read_text(encoding="utf-8"))
    listed = [
        name
        for page in PAGES
        if page.startswith("docs/api")
        for name in re.findall(r"^::: (\S+)$", read(page), re.MULTILINE)
    ]
    public = [f"{package}.{name}" for package, found in names.items() for name in found]
    # The function has the name of its module, which is what a reader of the source would find.
    public[public.index("onnx_ops.passes.rewrite")] += ".run.rewrite"
    missing = set(public) - set(listed)
    unknown = {name for name in listed if not name.startswith("sliceport.formats.")} - set(public)
    assert not missing, f"add to the page of docs/api*.md of the package: {[f'::: {name}' for name in missing]}"
    assert not unknown, f"remove from docs/api*.md, or add to tests/data/public_names.json: {unknown}"
    assert len(listed) == len(set(listed))


def test_passes_and_targets_are_listed() -> None:
    from sliceport.formats import all_targets, formats

    assert read("docs/rewrite.md") == passes_page(), "run: python tests/support/of_pages/passes_page.py"
    executors = set(re.findall(r"^\| `([\w-]+)` \|", read("docs/cli.md"), re.MULTILINE))
    known = {*our_engines(), *(one.reference[0] for one in formats().values())}
    assert executors == known, f"the table of executors in docs/cli.md lacks or invents {executors ^ known}"
    assert not [target for target in all_targets() if target not in read("docs/cli.md")], "add it to docs/cli.md"


def sentences(name: str) -> set[str]:
    """Return the sentences and table rows of a page that have at least eight words, without code blocks."""
    text = re.sub(r"^```.*?^```$", "", read(name), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    parts = re.split(r"(?<=[.:;!?])\s+|\n\s*\n|\n(?=[-|#])|\s*\|\s*", text)
    plain = (" ".join(re.findall(r"[\w'-]+", part.lower())) for part in parts)
    return {part for part in plain if len(part.split()) >= 8}


def test_no_sentence_stands_in_two_places() -> None:
    counts = Counter(itertools.chain.from_iterable(map(sentences, PROSE)))
    assert len(counts) > 200
    assert not [sentence for sentence, count in counts.items() if count > 1], "two pages have the sentence: keep one"


@pytest.mark.skipif(not (ROOT / "sliceport").is_dir(), reason="the source is not here")
def test_files_that_are_named_exist() -> None:
    named = {
        (page, path)
        for page in PROSE
        for path in re.findall(
            r"`((?:sliceport|onnx_ops|ov_ext|tests|models|benchmarks|docs|\.ci)/[\w./-]+)`", read(page)
        )
    }
    assert len(named) > 20
    assert not [entry for entry in sorted(named) if not (ROOT / entry[1]).exists()], "pages name lost files"


@pytest.mark.skipif(not (ROOT / "sliceport").is_dir(), reason="the source is not here")
def test_modules_that_the_architecture_names_exist() -> None:
    packages = [ROOT / name for name in ("sliceport", "onnx_ops", "ov_ext")]
    paths = [path for package in packages for path in (package, *package.rglob("*"))]
    modules = {path.stem for path in paths if path.is_dir() or path.suffix in (".py", ".toml")}
    table = read("ARCHITECTURE.md").partition("## The packages")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z]\w*)`", table))
    assert len(named) > 100
    assert not named - modules - {"range"}, "ARCHITECTURE.md, The packages: no such modules"


@pytest.mark.skipif(not (ROOT / "ARCHITECTURE.md").exists(), reason="only the packages are here")
def test_the_architecture_has_the_layers_of_the_contracts() -> None:
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert "\n".join(layers) in read("ARCHITECTURE.md"), f"Who may import whom in ARCHITECTURE.md lacks {layers}"


def test_nothing_comes_from_elsewhere() -> None:
    assert "http" not in read("docs/style.css")
    assert re.findall(r"(?:href|src)=\"http", read("docs/images/pipeline.svg")) == []
    assert "font: false" in read("mkdocs.yml")
