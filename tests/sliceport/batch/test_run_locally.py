"""A run on this machine, without threads for its models."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from sliceport.batch.process import run_locally
from sliceport.batch.task import Job, Task
from sliceport.errors import UsageError


def test_run_without_a_thread_for_a_model_ends_those_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread, original: Any = threading.Thread.start) -> None:
        if threads:
            raise RuntimeError("can't start new thread")
        threads.append(thread)
        original(thread)

    threads: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", start)
    tasks = (Task(name, str(tmp_path / name)) for name in ("a.onnx", "b.onnx"))
    with pytest.raises(UsageError, match=r"^--jobs 3: only 1 can be under way at once \(can't start new thread\)"):
        list(run_locally(Job("lower", str(tmp_path / "run")), tasks, jobs=3, scratch=tmp_path))
    assert not threads[0].is_alive()
