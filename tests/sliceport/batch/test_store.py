"""The folder of a run's results under concurrent writes and errors; `test_remote.py` tests what all stores do."""

from __future__ import annotations

import errno
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from platforms import POSIX

from sliceport.batch.store import Folder, open_store
from sliceport.errors import UsageError


@pytest.mark.parametrize("count", [2, 6])
def test_the_same_folder_put_by_many_at_once_is_there(tmp_path: Path, count: int) -> None:
    store = Folder(str(tmp_path))
    scratch = store.new_scratch()

    def put(i: int) -> None:
        for j in range(50):
            folder = scratch / f"{i}-{j}"
            folder.mkdir()
            (folder / "model.onnx").write_text("the same")
            store.put_folder("outputs/ab/c", folder)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(put, range(count)))
    assert store.read("outputs/ab/c/model.onnx") == b"the same"


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere what is open can be renamed and replaced")
def test_what_somebody_has_open_is_replaced_later(tmp_path: Path) -> None:
    store = Folder(str(tmp_path))
    store.write("results/ab/c.json", b"old")
    scratch = store.new_scratch()
    for text in ("old", "new"):
        (scratch / "out").mkdir(exist_ok=True)
        (scratch / "out" / "model.onnx").write_text(text)
        if text == "old":
            store.put_folder("outputs/ab/c", scratch / "out")
    with (
        open(tmp_path / "results/ab/c.json", "rb") as result,
        open(tmp_path / "outputs/ab/c/model.onnx", "rb") as model,
    ):
        timers = [threading.Timer(0.3, result.close), threading.Timer(0.6, model.close)]
        for timer in timers:
            timer.start()
        store.write("results/ab/c.json", b"new")
        store.put_folder("outputs/ab/c", scratch / "out")
        for timer in timers:
            timer.join()
    assert store.read("results/ab/c.json") == store.read("outputs/ab/c/model.onnx") == b"new"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the system says that something is not there, as it does below /proc."""

    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(UsageError, match=r"scratch' cannot be written \(No such file or directory\)"):
        Folder(str(tmp_path)).new_scratch()


def test_folder_that_another_process_removes_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir
    attempts = iter([FileExistsError(errno.EEXIST, "exists"), FileNotFoundError(errno.ENOENT, "removed")])

    def make_late(*args: Any) -> None:
        if error := next(attempts, None):
            raise error
        make(*args)

    monkeypatch.setattr(os, "mkdir", make_late)
    Folder(str(tmp_path)).write("a", b"1")
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.parametrize("root", ["", "a\0b"])
def test_a_folder_without_a_name_is_none(root: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a folder"):
        open_store(root)


@POSIX
def test_append_that_fails_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    """Otherwise the next line, which may fit again, would continue it."""
    import resource

    store = Folder(str(tmp_path))
    store.append("journal", b"first\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        with pytest.raises(UsageError, match=r"journal' cannot be written \(File too large\)\.$"):
            store.append("journal", b"second\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.append("journal", b"third\n")
    assert store.read("journal") == b"first\nthird\n"


@POSIX
def test_file_that_cannot_be_examined_is_an_error_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^'.*' cannot be read \(.+\).$"):
        Folder(str(tmp_path)).has("x" * 1000)
