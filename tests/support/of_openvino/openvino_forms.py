"""Asking `openvino_forms_child.py`, and going on after the end of its process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import openvino_forms_child
from openvino_processes import ask

Runs = dict[str, dict[str, Any]]


def runs(cases: Sequence[dict[str, Any]], timeout: float = 1800) -> Iterator[Runs]:
    """Yield the results of each case's runs; `{"exit": code}` if a run ended the process.

    The plugin runs all cases in one model, which takes a fraction of the time. If that ends the process, each case runs
    by itself.
    """
    found: list[Runs] = [{} for _ in cases]
    at = 0
    if len(cases) > 1:
        at, code = _go_on(cases, found, 0, timeout, openvino_forms_child.answer_as_one)
        if code:
            found, at = [{} for _ in cases], 0
    while at < len(cases):
        given = [{**cases[at], "done": sorted(found[at])}, *cases[at + 1 :]]
        at, code = _go_on(given, found, at, timeout)
        if at < len(cases) and code == 0:
            raise AssertionError("the child ended before its cases did")
    yield from found


def _go_on(
    given: Sequence[dict[str, Any]],
    found: list[Runs],
    at: int,
    timeout: float,
    answer: Callable[[Any], Iterable[dict[str, Any]]] = openvino_forms_child.answer_all,
) -> tuple[int, int | str]:
    """Run cases until the end of the process; returns the first case that is not done, and the process's code."""
    said = ask(answer, given, timeout)
    begun: str | None = None
    for line in said.answers:
        if "begin" in line:
            begun = line["begin"]
        elif "end" in line:
            at += 1
        else:
            assert begun is not None
            found[at][begun], begun = line, None
    if begun is not None:
        found[at][begun] = {"exit": said.code, "said": said.stderr}
    elif at < len(found) and said.code:  # between two runs: what an earlier one left behind
        found[at]["between runs"] = {"exit": said.code, "said": said.stderr}
    return at, said.code
