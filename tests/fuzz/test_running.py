"""Runs of fuzzers: every failure is found, even one that ends the process, and is made small, saved, and replayed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from platforms import ended_by

from fuzz import TESTS, child
from fuzz.child import check, check_many
from fuzz.failures import Failure, find_failures, minimise
from fuzz.modules import NAMES, Case, generate, load

BREAKING = load("breaking")


def test_each_way_to_fail_is_reported_and_the_next_case_runs() -> None:
    cases = [{"way": way, "number": 20} for way in ("wrong", "dies", "right", "raises", "exits", "prints", "wrong")]
    wrong, dies, right, raises, exits, prints, last = check_many(BREAKING, cases)
    assert wrong == last == "is wrong: 20"
    assert dies == f"its process {ended_by('SIGABRT')}"
    assert exits == "its process ended with exit code 3"
    assert raises is not None
    assert raises.startswith("raises ValueError in check: number 20 (")
    assert right is prints is None


def test_a_hang_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(child, "TIMEOUT", 2.0)
        assert check(BREAKING, {"way": "hangs", "number": 0}) == "hangs: it took longer than 2 s"
    assert check(BREAKING, {"way": "right", "number": 0}) is None


def test_the_smallest_case_of_the_same_kind_is_kept_and_runs_again(tmp_path: Path) -> None:
    smallest = minimise(Failure("breaking", {"way": "wrong", "number": 900}, "is wrong: 900"))
    assert smallest == Failure("breaking", {"way": "wrong", "number": 10}, "is wrong: 10")
    path = smallest.save(tmp_path / "new" / "folder")
    assert Failure.load(path) == smallest
    assert json.loads(path.read_text())["run"] == f"python -m tests.fuzz --replay {path}"
    done = run("--replay", str(path))
    assert (done.returncode, done.stdout) == (1, "is wrong: 10\n")
    saved = Failure("breaking", {"way": "right", "number": 1}, "was wrong: once").save(tmp_path)
    done = run("--replay", str(saved))
    assert (done.returncode, done.stdout) == (0, "right\n")


def test_failures_are_those_of_the_cases_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = range(30)
    cases = [generate(BREAKING, "3", number) for number in numbers]

    def complain(asked: list[Case]) -> list[str | None]:
        return [f"is wrong: {case['number']}" if case["way"] == "wrong" else None for case in asked]

    monkeypatch.setattr(BREAKING, "check_many", complain, raising=False)
    failures = [failure.case for failure in find_failures(BREAKING, "3", numbers)]
    assert failures == [case for case in cases if case["way"] == "wrong"]
    assert 0 < len(failures) < len(cases)


def test_a_long_run_counts_and_saves(tmp_path: Path) -> None:
    done = run("breaking", "--minutes", "0.01", "--seed", "7", "--save", str(tmp_path))
    assert done.returncode in (0, 1)
    assert "cases, " in done.stdout


def test_an_unknown_name_is_refused() -> None:
    done = run("nonsense")
    assert done.returncode == 2
    assert f"there is no fuzzer nonsense, only {', '.join(NAMES)}" in done.stderr


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=TESTS.parent,
        env=os.environ | {"PYTHONPATH": str(TESTS.parent)},
        timeout=300,
    )
