"""The key of a result: models with different content have different keys, however their files were put there."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_models import parse

from sliceport.batch import digests, identity
from sliceport.batch.digests import digest_file, state_of
from sliceport.batch.identity import identify
from sliceport.batch.task import Job, Task
from sliceport.errors import UsageError

MODELS = Path(__file__).parents[3] / "models"
OLD = (315532800, 315532800)
LINKS = pytest.mark.skipif(sys.platform == "win32", reason="links need privileges there")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a cache that takes files of any size, as soon as the clock of the file system has moved on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "_SMALL", 0)
    monkeypatch.setattr(digests, "_SETTLED", -1.0)
    return tmp_path / "cache" / "sliceport" / "digests"


def key_of(model: Path) -> str:
    job = Job("rewrite", str(model.parent / "run"))
    return identify(job, Task(str(model), str(model)), model.parent).key


def write_onnx(folder: Path, data: str = "m.data") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / data).parent.mkdir(exist_ok=True)
    model = parse("() => (float[512] y) { y = Identity (w) }", 18, 9)
    model.graph.initializer.append(numpy_helper.from_array(np.arange(512, dtype=np.float32), "w"))
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location=data, size_threshold=0)
    return folder / data


def write_ir(folder: Path) -> Path:
    folder.mkdir(parents=True)
    shutil.copy(MODELS / "rule_new_axis.xml", folder / "m.xml")
    (folder / "m.bin").write_bytes(bytes(2048))
    return folder / "m.bin"


def changed(file: Path) -> bytes:
    data = bytearray(file.read_bytes())
    data[7] ^= 1
    return bytes(data)


def wait_for_a_tick(file: Path) -> None:
    """Wait until a file that is changed now gets another time than this one."""
    probe = file.with_name("probe")
    while True:
        probe.write_bytes(b"x")
        if probe.stat().st_ctime_ns > file.stat().st_ctime_ns:
            probe.unlink()
            return
        time.sleep(0.001)


def edit_in_place(file: Path) -> None:
    data = changed(file)
    with open(file, "r+b") as stream:
        stream.write(data)


def replace(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(changed(file))
    os.utime(other, OLD)
    os.replace(other, file)


def rename_over(file: Path) -> None:
    aside = file.with_name("aside")
    file.rename(aside)
    file.write_bytes(changed(aside))


def replace_hard_link(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(changed(file))
    file.unlink()
    os.link(other, file)


def replace_link(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(changed(file))
    file.unlink()
    file.symlink_to(other)


def edit_through_link(file: Path) -> None:
    target = file.with_name("target")
    file.rename(target)
    file.symlink_to(target)
    edit_in_place(target)


@pytest.mark.parametrize(
    "change",
    [
        edit_in_place,
        replace,
        rename_over,
        replace_hard_link,
        pytest.param(replace_link, marks=LINKS),
        pytest.param(edit_through_link, marks=LINKS),
    ],
)
@pytest.mark.parametrize("kind", ["onnx", "onnx in a subfolder", "ir"])
def test_other_weights_of_the_same_size_and_time_give_another_key(
    tmp_path: Path, kind: str, change: Callable[[Path], None]
) -> None:
    folder = tmp_path / "zoo"
    file = write_ir(folder) if kind == "ir" else write_onnx(folder, "sub/m.data" if "sub" in kind else "m.data")
    model = folder / ("m.xml" if kind == "ir" else "m.onnx")
    os.utime(file, OLD)
    first = key_of(model)
    assert key_of(model) == first
    wait_for_a_tick(file)
    change(file)
    os.utime(file, OLD)
    assert key_of(model) != first


def test_a_copy_with_other_times_has_the_same_key(tmp_path: Path) -> None:
    write_onnx(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copyfile)
    os.utime(tmp_path / "b" / "m.data", OLD)
    assert key_of(tmp_path / "a" / "m.onnx") == key_of(tmp_path / "b" / "m.onnx")


def test_missing_weights_give_another_key(tmp_path: Path) -> None:
    file = write_onnx(tmp_path)
    first = key_of(tmp_path / "m.onnx")
    file.unlink()
    assert key_of(tmp_path / "m.onnx") != first


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is cached there")
class TestCache:
    def test_a_digest_is_computed_once(self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / "file"
        file.write_bytes(b"content")
        digest = digest_file(str(file))
        monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("the file is read again"))
        assert digest_file(str(file)) == digest
        assert [entry.read_text() for entry in cache.rglob("*") if entry.is_file()] == [digest]

    @pytest.mark.parametrize("content", ["", "0" * 63, "not a digest", "0" * 65])
    def test_a_damaged_entry_is_computed_again(self, tmp_path: Path, cache: Path, content: str) -> None:
        file = tmp_path / "file"
        file.write_bytes(b"content")
        digest = digest_file(str(file))
        (entry,) = (entry for entry in cache.rglob("*") if entry.is_file())
        entry.write_text(content)
        assert digest_file(str(file)) == digest
        assert entry.read_text() == digest

    def test_a_file_that_was_just_changed_is_not_cached(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(digests, "_SETTLED", 60.0)
        (tmp_path / "file").write_bytes(b"content")
        digest_file(str(tmp_path / "file"))
        assert not cache.exists()

    def test_a_cache_that_cannot_be_written_is_not_needed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_bytes(b"content")
        monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
        assert len(digest_file(str(tmp_path / "file"))) == 64

    def test_state_with_a_name_that_is_not_utf8_is_cached(self) -> None:
        digests.write_cached("zip://a.onnx::file:///\udcff.zip", "0" * 64)
        assert digests.read_cached("zip://a.onnx::file:///\udcff.zip") == "0" * 64


def test_a_missing_file_has_no_state(tmp_path: Path) -> None:
    assert state_of(str(tmp_path / "nothing")) is None


def test_array_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def digest(file: str) -> str:
        if file.endswith(".npy"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return digest_file(file)

    monkeypatch.setattr(identity, "digest_file", digest)
    array = tmp_path / "x.npy"
    np.save(array, np.zeros(1))
    model = write_onnx(tmp_path).with_name("m.onnx")
    job = Job("compare", str(tmp_path / "run"), {"inputs": {"x": str(array)}})
    with pytest.raises(UsageError, match=r"^input file '.*x.npy' cannot be read \(Permission denied\).$"):
        identify(job, Task(str(model), str(model)), tmp_path)
