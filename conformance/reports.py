"""Reports as JSON, as JUnit's XML and as a page. They have no times, so that the same results give the same bytes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from conformance.cases import Case
from conformance.engine import load_engines
from conformance.verdicts import VERDICTS


@dataclass(frozen=True)
class EngineResults:
    """The results of an engine.

    Attributes:
        name: Its name.
        title: Its name in reports.
        version: Its version.
        description: Its description in reports.
        forms: The verdict on each case by its name, for each form of the models: `written` and `portable`.
    """

    name: str
    title: str
    version: str
    description: str = ""
    forms: dict[str, dict[str, Any]] = field(default_factory=dict)

    def count(self, form: str) -> Counter[str]:
        """Return the number of cases by verdict."""
        return Counter(one["verdict"] for one in self.forms.get(form, {}).values())


def write_json(engines: Sequence[EngineResults], file: Path) -> None:
    """Write the counts of verdicts and the verdict on each case, by engine and form."""
    report = {
        "schema_version": 1,
        "engines": [
            {"name": one.name, "version": one.version, "counts": {form: dict(one.count(form)) for form in one.forms}}
            | {"forms": {form: {name: _without_key(verdict) for name, verdict in verdicts.items()}
                         for form, verdicts in one.forms.items()}}
            for one in engines
        ],
    }  # fmt: skip
    file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _without_key(verdict: dict[str, str]) -> dict[str, str]:
    """Return a verdict without the name of its case, and without the key, which only serves to find old results."""
    return {name: verdict[name] for name in ("verdict", "detail")}


def write_junit(engines: Sequence[EngineResults], cases: Sequence[Case], file: Path) -> None:
    """Write a test suite for each engine and form: `wrong` and `other` are failures, `refused` and `dies` errors."""
    rules = {case.name: case.rule for case in cases}
    root = ElementTree.Element("testsuites")
    for engine in engines:
        for form, verdicts in engine.forms.items():
            counts = engine.count(form)
            totals = {"tests": len(verdicts), "failures": counts["wrong"] + counts["other"],
                      "errors": counts["refused"] + counts["dies"]}  # fmt: skip
            attributes = {"name": f"{engine.name} {engine.version} {form}"} | {k: str(n) for k, n in totals.items()}
            suite = ElementTree.SubElement(root, "testsuite", attributes)
            for name, verdict in verdicts.items():
                test = ElementTree.SubElement(suite, "testcase", {"classname": rules[name], "name": name})
                if verdict["verdict"] != "equal":
                    kind = "failure" if verdict["verdict"] in ("wrong", "other") else "error"
                    message = _printable(verdict["detail"])
                    ElementTree.SubElement(test, kind, {"type": verdict["verdict"], "message": message})
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """Replace control characters, which XML cannot contain, and other characters that are not printable."""
    return "".join(character if character.isprintable() else "?" for character in text)


def write_page(engines: Sequence[EngineResults], cases: Sequence[Case], file: Path) -> None:
    """Write the page: a table of all engines, and the failed rules of each engine that ran models as written."""
    lines = [
        "# Conformance", "",
        "This page shows which rules of ONNX's and OpenVINO's slicing each engine gets wrong.",
        f"`python -m conformance run` ran {len(cases)} [cases](cli.md#cases) on {len(engines)} engines.",
        "The form `written` is the model of the case. The form `portable` is this model after",
        "[`harden --target portable`](portable.md).",
        "", "| verdict | meaning |", "|---|---|",
        "| equal | every output is right, bit for bit, or the engine refuses a model that the standard forbids |",
        "| other | the rule is disputed, and the outputs follow the other reading of it |",
        "| wrong | an output is wrong, or the engine computes a model that the standard forbids |",
        "| refused | the engine raises an error |",
        "| dies | the process of the engine ends, or takes too long |", "",
        "| engine | version | form | cases | " + " | ".join(VERDICTS) + " |",
        "|---|---|---|---" + "|---" * len(VERDICTS) + "|",
    ]  # fmt: skip
    for engine in engines:
        for form, verdicts in engine.forms.items():
            counts = engine.count(form)
            cells = [engine.title, engine.version, form, str(len(verdicts)), *(str(counts[v]) for v in VERDICTS)]
            lines.append(f"| {' | '.join(cells)} |")
    names = [engine.name for engine in engines]
    missing = [engine.title for engine in load_engines(["all"]) if engine.name not in names]
    if missing:
        lines += ["", f"Not run: {'; '.join(missing)}."]
    for engine in engines:
        if "written" not in engine.forms:
            continue
        lines += ["", f"## {engine.title} {engine.version}", "", engine.description, ""]
        rows = _failed_rules(engine, cases)
        if rows:
            header = ["rule", "written", "portable", "first failing case", "result of this case"]
            lines += [f"| {' | '.join(header)} |", "|" + "---|" * len(header), *rows]
        equal_count = len({case.rule for case in cases if case.name in engine.forms["written"]}) - len(rows)
        others = "the other rule" if equal_count == 1 else f"the other {equal_count} rules"
        lines += ["", f"All cases of {others} are equal."]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _failed_rules(engine: EngineResults, cases: Sequence[Case]) -> list[str]:
    """Return a row of the page's table for each rule with a verdict other than `equal` on a model as written."""
    written, rows = engine.forms["written"], []
    for rule in dict.fromkeys(case.rule for case in cases):
        names = [case.name for case in cases if case.rule == rule and case.name in written]
        failed = [name for name in names if written[name]["verdict"] != "equal"]
        if failed:
            forms = [_summarize(engine.forms.get(form, {}), names) for form in ("written", "portable")]
            rows.append(f"| {rule} | {' | '.join(forms)} | `{failed[0]}` | {_escape(written[failed[0]]['detail'])} |")
    return rows


def _summarize(verdicts: dict[str, Any], names: Sequence[str]) -> str:
    """Return how many of these cases got each verdict, or "-" if none of them was run."""
    counts = Counter(verdicts[name]["verdict"] for name in names if name in verdicts)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or "-"


def _escape(text: str) -> str:
    """Shorten and escape a detail for a cell of a table. Remove paths, which differ from machine to machine."""
    words = [word if word.count("/") + word.count("\\") < 2 else "…" for word in _printable(text)[:150].split()]
    return "`" + " ".join(words).replace("|", "\\|").replace("`", "'") + "`"
