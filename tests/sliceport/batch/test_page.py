"""A run as an HTML page: what is in it, and, where the machine has a Chromium, what it does."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from batch_rows import compare_runs, make_finding, make_header, make_row, make_rows
from browser import Page, Unusable, find_chromium, open_browser

from sliceport.batch.compare_runs import RunComparison
from sliceport.batch.page import render_page
from sliceport.batch.row import Row, reasons_of
from sliceport.errors import MissingExtra
from sliceport.report.table import printable

pytest.importorskip("jinja2")

EVIL = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "d\u202egnp.exe",
    "a\x1b[31m\x00\n\t\x9b",
    "e\u200b\u2060\ufeff\u2028\u2029\u2066",
    "i\U000e0041\xa0",
    """zoo/"q'uote".onnx""",
    "&amp;{{ 7 * 7 }}{% x %}",
    "\udc80 é 日本語 😀",
    "https://models.example/a b.onnx?x=1#y%20",
]


def evil_rows() -> list[Row]:
    rows = []
    for i, name in enumerate(EVIL):
        finding = make_finding(reason=name, operator=name, engine=name, defect=name, node=name, message=name)
        parts = {"message": name, "stderr": [name], "output": name, "key": "" if i % 2 else "c3" * 32}
        result = {name: [name, 2**63 - 1, -0.5, True, None], "empty": [{}, []], "ends": [1, 2], "deep": [[1], {"a": 1}]}
        rows.append(make_row(name, "finding", finding, result=result, input_shapes={name: [1, 2**53 + 1]}, **parts))
    return rows


class Elements(HTMLParser):
    """The elements of a page with their attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        if self.found:
            self.found[-1][2].append(data)

    def texts(self, tag: str) -> list[str]:
        return ["".join(text) for name, _, text in self.found if name == tag]


def unpack(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))


def embedded(page: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Content of the table, and of its opened rows."""
    index, *chunks = [
        unpack("".join(text)) for tag, attrs, text in Elements(page).found if tag == "script" and attrs.get("type")
    ]
    starts = [sum(map(len, chunks[:i])) for i in range(len(chunks))]
    assert index["starts"] == starts
    return index, [detail for chunk in chunks for detail in chunk]


def compared(rows: list[Row]) -> RunComparison:
    """Build a comparison: all rows are new, but the first, which is fixed, and one is removed."""
    before = [make_row(row["model"]) for row in rows[1:]]
    after = [make_row(rows[0]["model"]), *rows[1:]]
    earlier = [make_row(rows[0]["model"], "finding", make_finding(node=EVIL[0])), make_row(EVIL[1] + "removed")]
    headers = (make_header(versions={EVIL[0]: "1.0"}, options={EVIL[1]: EVIL[2]}), make_header())
    return compare_runs([*earlier, *before], after, headers)


class TestText:
    def test_all_data_are_embedded(self) -> None:
        rows = [*evil_rows(), make_row("last", "crash", result=None)]
        index, details = embedded(render_page(make_header(), rows))
        assert index["rows"][0] == {  # a crash is worse than a finding
            "at": len(EVIL), "model": "last", "message": "It ended as crash.", "count": 0, "nodes": [],
            "groups": [[], ["It ended as crash"], ["crash"], [], [], []],
        }  # fmt: skip
        lines = sorted(index["rows"][1:], key=lambda line: line["at"])
        for at, (row, line, detail) in enumerate(zip(rows[:-1], lines, details, strict=False)):
            name = printable(row["model"])
            assert line == {
                "at": at, "model": name, "message": name, "count": 1, "nodes": [name],
                "groups": [[], [name], ["finding"], [name], [name], [name]],
            }  # fmt: skip
            assert detail["findings"] == [[name] * 6]
            result = json.dumps(row["result"], ensure_ascii=False, indent=1).split("\n")
            assert detail["result"].split("\n") == [printable(part) for part in result]
            shapes = printable(json.dumps(row["input_shapes"], ensure_ascii=False))
            key = [["Key", row["key"]]] if row["key"] else []
            assert detail["facts"] == [*key, ["Input shapes", shapes], ["Output", name]]
            assert detail["stderr"] == name
        assert details[-1] == {"facts": [["Key", "a1" * 32]], "findings": [], "stderr": "", "result": ""}

    def test_many_rows_make_several_chunks(self) -> None:
        index, details = embedded(render_page(make_header(), make_rows(500)))
        assert len(index["starts"]) > 3
        assert [json.loads(detail["result"] or "null") for detail in details] == [
            row["result"] for row in make_rows(500)
        ]

    def test_names_are_neither_markup_nor_hidden(self) -> None:
        rows = evil_rows()
        header = make_header(command=EVIL[0], sources=EVIL, options=dict.fromkeys(EVIL, EVIL[1]), started=EVIL[2],
                             shard=EVIL[3], versions={"sliceport": EVIL[0], EVIL[1]: EVIL[2]})  # fmt: skip
        page = render_page(header, rows, compared(rows))
        hostile, harmless = Elements(page), Elements(render_page(make_header(), []))
        assert len(hostile.texts("script")) == len(harmless.texts("script")) + 1  # the one chunk
        assert not {"img", "iframe", "object", "link"} & {tag for tag, _, _ in hostile.found}
        assert not [name for _, attrs, _ in hostile.found for name in attrs if name.startswith("on")]
        assert all(line.isprintable() for line in page.split("\n"))
        shown = "\n".join("".join(text) for tag, _, text in hostile.found if tag not in ("script", "style"))
        assert all(printable(name) in shown for name in EVIL)
        assert "7 * 7" in shown
        page.encode("utf-8")

    def test_nothing_is_loaded(self) -> None:
        rows = evil_rows()
        page = render_page(make_header(), rows, compared(rows))
        elements = Elements(page)
        assert not [attrs["src"] for _, attrs, _ in elements.found if "src" in attrs]
        assert all((attrs["href"] or "").startswith("#model=") for _, attrs, _ in elements.found if "href" in attrs)
        style, script = elements.texts("style")[0], elements.texts("script")[-1]
        assert not re.search(r"url\(|@import", style)
        assert not re.search(
            r"https?:|fetch\(|XMLHttp|import\(|innerHTML|outerHTML|insertAdjacent|document\.write", script
        )
        (policy,) = [attrs["content"] for _, attrs, _ in elements.found if attrs.get("http-equiv")]
        assert policy is not None
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "unsafe" not in policy

    def test_a_comparison_comes_first(self) -> None:
        rows = evil_rows()
        page = render_page(make_header(), rows, compared(rows))
        index, _ = embedded(page)
        assert [line["groups"][0] for line in index["rows"]] == [["new"]] * (len(rows) - 1) + [["fixed"]]
        assert page.index("Since the earlier run") < page.index('id="filters"')
        assert "10 new, 1 fixed, 0 changed, 0 same, 0 added, 1 removed" in page
        assert "Since the earlier run" not in re.sub("(?s)<script.*?</script>", "", render_page(make_header(), rows))

    def test_the_same_rows_make_the_same_page(self) -> None:
        text = render_page(make_header(), make_rows(40))
        assert text == render_page(make_header(), make_rows(40))
        assert "40 models: 30 clean, 5 with findings, 1 lost," in text

    def test_without_jinja2_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "jinja2", None)
        with pytest.raises(MissingExtra, match=r'jinja2 is needed by --html.*pip install "sliceport\[batch\]"'):
            render_page(make_header(), [])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    try:
        with open_browser(tmp_path_factory.mktemp("browser")) as page:
            yield page
    except Unusable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    rows = evil_rows()
    many = list(make_rows(1000))
    earlier = [row if i != 7 else make_row(row["model"]) for i, row in enumerate(make_rows(1000))]
    pages = {
        "evil": render_page(make_header(), rows, compared(rows)),
        "many": render_page(make_header(), many),
        "since": render_page(make_header(), many, compare_runs(earlier, many)),
        "none": render_page(make_header(), []),
    }
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8", newline="\n")
    return folder


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
class TestBrowser:
    @staticmethod
    def models(page: Page) -> list[str]:
        names: list[str] = page.run("[...document.querySelectorAll('#models .open')].map((one) => one.textContent)")
        return names

    @staticmethod
    def status(page: Page) -> str:
        return str(page.run("document.getElementById('status').textContent"))

    @staticmethod
    def click(page: Page, selector: str, text: str = "") -> None:
        page.run(
            f"[...document.querySelectorAll({json.dumps(selector)})]"
            f".find((one) => one.textContent.includes({json.dumps(text)})).click()"
        )

    @staticmethod
    def search(page: Page, words: str) -> None:
        page.run("document.getElementById('search').select()")
        page.call("Input.insertText", text=words)

    @staticmethod
    def wait_for_detail(page: Page) -> None:
        page.wait("document.querySelector('.detail p')")

    def test_evil_names_are_shown_and_do_nothing(self, browser: Page, files: Path) -> None:
        browser.open(files / "evil.html")
        assert self.models(browser) == [
            printable(row) for row in sorted(EVIL[1:], key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        ] + [printable(EVIL[0])]
        for i in range(len(EVIL)):
            browser.run(f"document.querySelectorAll('#models .open')[{i}].click()")
        browser.wait(f"document.querySelectorAll('.detail p').length === {2 * len(EVIL)}")
        browser.run("for (const one of document.querySelectorAll('.detail details')) one.open = true")
        browser.wait("[...document.querySelectorAll('.detail details pre')].every((one) => one.textContent)")
        shown = browser.run("document.body.innerText")
        assert all(line.isprintable() for line in shown.replace("\t", "").split("\n"))
        assert browser.run("document.querySelectorAll('main img, main script').length") == 0
        for name in EVIL:
            assert shown.count(printable(name)) > 8
        complaints = [one for one in browser.events if one["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")]
        assert complaints == []
        requests = [one["params"]["request"]["url"] for one in browser.events
                    if one["method"] == "Network.requestWillBeSent"]  # fmt: skip
        assert requests == [(files / "evil.html").as_uri()]

    def test_results_are_shown_digit_by_digit(self, browser: Page, files: Path) -> None:
        browser.open(files / "evil.html", "#model=%26amp%3B%7B%7B%207%20*%207%20%7D%7D%7B%25%20x%20%25%7D")
        self.wait_for_detail(browser)
        browser.run("document.querySelector('.detail details').open = true")
        browser.wait("document.querySelector('.detail details pre').textContent")
        result = next(row["result"] for row in evil_rows() if row["model"] == EVIL[8])
        shown = "\n".join(map(printable, json.dumps(result, ensure_ascii=False, indent=1).split("\n")))
        assert browser.run("document.querySelector('.detail details pre').textContent") == shown
        assert "9223372036854775807" in shown
        assert "9007199254740993" in browser.run("document.querySelector('.detail dl').textContent")

    def test_a_link_opens_its_model(self, browser: Page, files: Path) -> None:
        browser.open(files / "many.html", "#model=zoo%2Fvision%2Fmodel_00999.onnx")
        self.wait_for_detail(browser)
        assert self.models(browser)[-1] == "zoo/vision/model_00999.onnx"
        assert browser.run("document.activeElement.textContent") == "zoo/vision/model_00999.onnx"
        browser.run("location.hash = '#model=zoo%2Flanguage%2Fmodel_00001.onnx'")
        browser.wait("document.activeElement.textContent === 'zoo/language/model_00001.onnx'")
        for row in ("nothing", "%E0"):
            browser.open(files / "many.html", f"#model={row}")
            assert browser.run("document.querySelector('.detail')") is None

    def test_a_link_finds_its_model_under_a_filter(self, browser: Page, files: Path) -> None:
        browser.open(files / "many.html")
        self.click(browser, "[aria-label=Verdict] .filter", "crash")
        browser.run("location.hash = '#model=zoo%2Fvision%2Fmodel_00999.onnx'")
        browser.wait("document.activeElement.textContent === 'zoo/vision/model_00999.onnx'")
        assert "zoo/vision/model_00999.onnx" in self.models(browser)

    def test_a_top_cause_filters_the_models(self, browser: Page, files: Path) -> None:
        browser.open(files / "many.html")
        cause = browser.run("document.querySelector('.filter').children[1].textContent")
        self.click(browser, ".filter", cause)
        expected = [row["model"] for row in make_rows(1000) if cause in reasons_of(row)]
        assert self.status(browser) == f"{len(expected)} of 1,000 models"

    def test_every_link_of_the_comparison_leads_to_its_model(self, browser: Page, files: Path) -> None:
        browser.open(files / "evil.html")
        count = browser.run("document.querySelectorAll('.changes a').length")
        assert count == len(EVIL)
        for i in range(count):
            browser.run(f"document.querySelectorAll('.changes a')[{i}].click()")
            name = browser.run(f"document.querySelectorAll('.changes a')[{i}].textContent")
            browser.wait(f"document.activeElement.textContent === {json.dumps(name)}")

    def test_pages_hold_all_models_once_the_worst_first(self, browser: Page, files: Path) -> None:
        browser.open(files / "many.html")
        found = self.models(browser)
        assert len(found) == 100
        assert found[:25] == sorted(row["model"] for row in make_rows(1000) if row["verdict"] == "error")
        while not browser.run("document.getElementById('next').disabled"):
            self.click(browser, "#next")
            found += self.models(browser)
        assert sorted(found) == sorted(row["model"] for row in make_rows(1000))
        assert browser.run("document.getElementById('range').textContent") == "901 to 1,000 of 1,000"

    @pytest.mark.parametrize(
        ("column", "direction", "key"),
        [
            ("Model", "ascending", lambda row: row["model"]),
            ("Findings", "descending", lambda row: -len(row["findings"])),
            ("Message", "ascending", lambda row: row["message"]),
        ],
    )
    def test_columns_are_sorted(self, browser: Page, files: Path, column: str, direction: str, key: Any) -> None:
        rows = {row["model"]: row for row in make_rows(1000)}
        browser.open(files / "many.html")
        for turned in (False, True):
            self.click(browser, "th button", column)
            keys = [key(rows[model]) for model in self.models(browser)]
            assert keys == sorted(map(key, rows.values()), reverse=turned)[:100]
            expected = direction if not turned else "descending" if direction == "ascending" else "ascending"
            sorts = browser.run("[...document.querySelectorAll('th')].map((one) => one.getAttribute('aria-sort'))")
            assert [one for one in sorts if one] == [expected]

    def test_search_finds_models_with_all_words(self, browser: Page, files: Path) -> None:
        browser.open(files / "many.html")
        self.search(browser, "SLICE_4 audio")
        expected = [row["model"] for row in make_rows(1000) if len(row["findings"]) == 5 and "audio" in row["model"]]
        assert self.models(browser) == expected
        assert self.status(browser) == f"{len(expected)} of 1,000 models"
        self.search(browser, "no such model")
        assert (self.models(browser), self.status(browser)) == ([], "0 of 1,000 models")
        self.click(browser, "#clear")
        assert self.status(browser) == "1,000 models"

    def test_bars_are_filters_that_count(self, browser: Page, files: Path) -> None:
        browser.open(files / "many.html")
        self.click(browser, "[aria-label=Verdict] .filter", "finding")
        assert self.status(browser) == "125 of 1,000 models"
        self.click(browser, "[aria-label=Verdict] .filter", "crash")
        assert self.status(browser) == "150 of 1,000 models"
        self.click(browser, ".filter", "ov_ext")
        found = [row for row in make_rows(1000) if any(one["engine"] == "ov_ext" for one in row["findings"])]
        assert self.models(browser) == sorted(row["model"] for row in found)
        counts = browser.run(
            "Object.fromEntries([...document.querySelectorAll('.filter')].map((one) =>"
            " [one.children[1].textContent, one.children[2].textContent]))"
        )
        assert counts["clean"] == "0"
        assert counts["ov_ext"] == str(len(found))
        assert counts["Split"] == str(sum(any(one["operator"] == "Split" for one in row["findings"]) for row in found))
        pressed = browser.run("[...document.querySelectorAll('[aria-pressed=true]')].map((one) => one.textContent)")
        assert len(pressed) == 3
        self.click(browser, "#clear")
        assert self.status(browser) == "1,000 models"

    def test_new_findings_come_first(self, browser: Page, files: Path) -> None:
        browser.open(files / "since.html")
        assert self.models(browser)[0] == "zoo/language/model_00007.onnx"
        self.click(browser, ".filter", "new")
        assert self.models(browser) == ["zoo/language/model_00007.onnx"]

    def test_the_keyboard_opens_and_closes(self, browser: Page, files: Path) -> None:
        browser.open(files / "many.html")
        self.click(browser, "[aria-label=Verdict] .filter", "crash")
        browser.run("document.querySelector('#models .open').focus()")
        browser.press("Enter", 13)
        self.wait_for_detail(browser)
        assert browser.run("document.activeElement.getAttribute('aria-expanded')") == "true"
        assert browser.run("document.getElementById(document.activeElement.getAttribute('aria-controls')) !== null")
        assert "Assertion `size > 0' failed.\nAborted" in browser.run("document.querySelector('.detail').innerText")
        browser.press("Enter", 13)
        assert browser.run("document.querySelector('.detail')") is None
        assert browser.run("document.activeElement.getAttribute('aria-expanded')") == "false"

    @pytest.mark.parametrize("name", ["evil", "many", "since", "none"])
    @pytest.mark.parametrize("width", [400, 1600])
    def test_nothing_is_wider_than_the_window(self, browser: Page, files: Path, name: str, width: int) -> None:
        browser.show(width)
        browser.open(files / f"{name}.html")
        browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
        browser.run("document.querySelector('#models .open')?.click()")
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        beyond = (
            "[...document.querySelectorAll('main *')].filter((one) => one.getBoundingClientRect().right > innerWidth)"
        )
        assert browser.run(f"{beyond}.map((one) => one.outerHTML)") == []

    def test_what_can_be_used_has_a_name(self, browser: Page, files: Path) -> None:
        browser.open(files / "since.html")
        browser.call("Accessibility.enable")
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        roles = ("button", "searchbox", "link", "table", "columnheader", "region", "DisclosureTriangle")
        used = [(one["role"]["value"], one["name"]["value"]) for one in nodes
                if not one["ignored"] and one["role"]["value"] in roles]  # fmt: skip
        assert [role for role, name in used if not name.strip()] == []
        assert ("searchbox", "Search") in used
        assert {role for role, _ in used} >= {"button", "searchbox", "link", "table", "columnheader"}

    def test_a_file_that_was_cut_says_so(self, browser: Page, files: Path, tmp_path: Path) -> None:
        text = (files / "many.html").read_text(encoding="utf-8")
        start = text.index('id="index">') + 2000
        (tmp_path / "cut.html").write_text(text[:start] + text[text.index("</script>", start) :], encoding="utf-8")
        browser.open(tmp_path / "cut.html")
        assert "cannot be read" in browser.run("document.getElementById('trouble').textContent")
