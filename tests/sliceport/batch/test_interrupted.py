"""A run that is interrupted and started again comes to what an uninterrupted one does, and does nothing twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from interrupted_batch import interrupt


@pytest.mark.skipif(sys.platform != "linux", reason="needs pipes, and workers that end with who was killed")
def test_a_run_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    signals = ("SIGINT", "SIGKILL")
    report = interrupt(tmp_path / "models", count=60, seed=2, signals=signals, real=15)
    assert sorted(report.stored) == list(report.stored)
    assert 0 < report.stored[0] <= report.stored[-1] < report.models == 60
    assert report.verdicts == {"clean", "finding"}
    assert (report.recomputed, report.repeated) == ((), ())
    assert report.left == ()
    assert report.differing == ()
