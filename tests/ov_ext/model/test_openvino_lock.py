"""Threads that work with models of OpenVINO wait for each other, because OpenVINO sometimes hangs otherwise."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openvino as ov
import pytest

import ov_ext
import sliceport
from ov_ext.defects.hardening import harden
from ov_ext.model.openvino_lock import with_openvino_lock
from ov_ext.running.compare import compare

IR = Path(__file__).parents[3] / "models" / "rule_new_axis.xml"
CALLS: dict[str, Callable[[ov.Model, Path], Any]] = {
    "read_model": lambda _, __: ov_ext.read_model(IR),
    "write_model": lambda model, out: ov_ext.write_model(model, out / "m.xml"),
    "lower a file": lambda _, __: sliceport.lower(IR),
    "lower": lambda model, _: sliceport.lower(model),
    "harden": lambda model, _: harden(model),
    "compare": lambda _, __: compare(IR, executors=["ov_ext"]),
}


@with_openvino_lock
def work(started: threading.Event, may_end: threading.Event) -> None:
    started.set()
    assert may_end.wait(60)


@with_openvino_lock
def do_nothing() -> None:
    pass


@pytest.mark.parametrize("name", CALLS)
def test_call_waits_for_another_thread(tmp_path: Path, name: str) -> None:
    model = ov_ext.read_model(IR)
    started, may_end = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(work, started, may_end)
        assert started.wait(60)
        second = pool.submit(CALLS[name], model, tmp_path)
        with pytest.raises(TimeoutError):
            second.result(0.1)
        may_end.set()
        first.result(60)
        second.result(60)


def test_many_calls_at_once_end(tmp_path: Path) -> None:
    def call(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        CALLS[list(CALLS)[number % len(CALLS)]](ov_ext.read_model(IR), folder)

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(call, number) for number in range(24)]:
            done.result(120)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not forked there")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_forked_process_does_not_wait() -> None:
    started, may_end = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(work, started, may_end)
        assert started.wait(60)
        child = multiprocessing.get_context("fork").Process(target=do_nothing)
        child.start()
        child.join(60)
        assert child.exitcode == 0
        may_end.set()
        first.result(60)
