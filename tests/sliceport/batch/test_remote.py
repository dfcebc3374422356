"""Models and results at URLs: in memory, in files, in archives, and on a server of S3."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from sliceport.batch import file_systems
from sliceport.batch.identity import identify
from sliceport.batch.remote_models import download
from sliceport.batch.sources import BadSource, expand_sources
from sliceport.batch.store import RemoteStore, Store, open_store
from sliceport.batch.task import Job, Task
from sliceport.errors import MissingExtra, UsageError
from sliceport.formats import format_of
from sliceport.sandbox.scratch import new_name

SUFFIXES = (".onnx", ".xml", "")
FILES = ("a.onnx", "b.xml", "b/c.onnx", "b/w.pb", ".hidden/h.onnx", ".hidden/.i.onnx", "readme")


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Start a bucket on a server of this machine."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        host, port = server.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        bucket = f"bucket{next(_numbers)}"  # what the server has, the next one of this process has, too
        fsspec.filesystem("s3").mkdir(bucket)
        yield f"s3://{bucket}"
        fsspec.filesystem("s3").clear_instance_cache()
    server.stop()


_numbers = count()


@pytest.fixture(params=["memory", "file", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a folder that is not there yet."""
    if request.param == "file":
        yield f"file://{tmp_path.as_posix()}/root"
    elif request.param == "memory":
        yield f"memory://root{next(_numbers)}"
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]
    else:
        yield f"{request.getfixturevalue('s3')}/root{next(_numbers)}"


@pytest.fixture
def no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_systems, "_DELAYS", (0.0, 0.0))


def put(url: str, data: bytes) -> None:
    fs, path = url_to_fs(url)
    if "s3" not in fs.protocol:
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    fs.pipe_file(path, data)


def find(*sources: str) -> list[str]:
    """Return the models of sources, or the reasons why they are bad."""
    return [one.reason if isinstance(one, BadSource) else one for one in expand_sources(sources, SUFFIXES)]


class TestSources:
    @pytest.fixture(autouse=True)
    def _files(self, root: str) -> None:
        for name in FILES:
            put(f"{root}/{name}", name.encode())

    @pytest.mark.parametrize(
        ("source", "found"),
        [
            ("", ["a.onnx", "b.xml", "b/c.onnx"]),
            ("/*.onnx", ["a.onnx"]),
            ("/**/*.onnx", ["a.onnx", "b/c.onnx"]),
            ("/**", ["a.onnx", "b.xml", "b/c.onnx"]),
            ("/b/*.pb", ["b/w.pb"]),
            ("/b/w.pb", ["b/w.pb"]),
            ("/.hidden/*", [".hidden/h.onnx"]),
            ("/.hidden", [".hidden/h.onnx"]),
            ("/.h*/.*", [".hidden/.i.onnx"]),
        ],
    )
    def test_models_are_found(self, root: str, source: str, found: list[str]) -> None:
        assert find(f"{root}{source}") == [f"{root}/{name}" for name in found]

    def test_each_comes_once(self, root: str) -> None:
        assert find(f"{root}/b", f"{root}/b/c.onnx", f"{root}/**/c.onnx") == [f"{root}/b/c.onnx"]

    def test_folders_can_be_left_out(self, root: str) -> None:
        for source in (root, f"{root}/**"):
            found = expand_sources([source], SUFFIXES, leave_out=[f"{root}/b/", "b", "memory://other"])
            assert list(found) == [f"{root}/a.onnx", f"{root}/b.xml"]

    def test_a_source_that_is_not_there_is_bad(self, root: str) -> None:
        assert find(f"{root}/nothing", f"{root}/a.onnx/b.onnx", f"{root}/b", f"{root}/nothing*") == [
            f"source '{root}/nothing' is not there.",
            f"source '{root}/a.onnx/b.onnx' is not there.",
            f"{root}/b/c.onnx",
            f"source '{root}/nothing*' matches no model.",
        ]


def test_a_missing_bucket_is_bad(s3: str) -> None:
    assert find("s3://no-such-bucket/models") == ["source 's3://no-such-bucket/models' is not there."]
    with pytest.raises(UsageError, match=r"^'s3://no-such-bucket/a/b' cannot be written \(.*bucket.*\).$"):
        RemoteStore("s3://no-such-bucket").write("a/b", b"")


@pytest.fixture
def archive(tmp_path: Path) -> str:
    with zipfile.ZipFile(tmp_path / "models.zip", "w") as file:
        for name in FILES:
            file.writestr(name, name)
    return f"file://{tmp_path.as_posix()}/models.zip"


def test_archives_are_read(archive: str, tmp_path: Path) -> None:
    found = [f"zip://{name}::{archive}" for name in ("a.onnx", "b.xml", "b/c.onnx")]
    assert find(f"zip://::{archive}") == find(f"zip://**::{archive}") == found
    copy, states = download(found[2], tmp_path / "out")
    assert Path(copy).read_bytes() == b"b/c.onnx"
    assert states[""] is not None


def test_digests_of_a_model_that_is_also_a_data_file_are_cached(
    archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # a.onnx has the other model and a missing file as data files.
    beside = {"a.onnx": ("b/c.onnx", "missing"), "c.onnx": ()}
    monkeypatch.setattr(type(format_of("m.onnx")), "files_beside", lambda _, path: beside[Path(path).name])
    job, tasks = Job("lower", str(tmp_path)), [Task("m", f"zip://{name}::{archive}") for name in ("a.onnx", "b/c.onnx")]
    for first, second in (tasks, tasks[::-1]):
        keys = {task.location: identify(job, task, tmp_path / "copies").key for task in (first, second)}
        for task in tasks:
            again = identify(job, task, tmp_path / "copies")
            assert (again.key, again.path) == (keys[task.location], ""), task
        shutil.rmtree(tmp_path / "cache")


@pytest.mark.skipif(sys.platform == "win32", reason="links need privileges there")
@pytest.mark.parametrize(
    ("url", "path", "named"),
    [
        ("https://a/b", "https://a/b/m.onnx", "https://a/b/m.onnx"),
        ("simplecache::https://a/b", "https://a/b/m.onnx", "simplecache::https://a/b/m.onnx"),
        ("simplecache::s3://a/b", "a/b/m.onnx", "simplecache::s3://a/b/m.onnx"),
        ("zip://b/*::s3://a.zip", "b/m.onnx", "zip://b/m.onnx::s3://a.zip"),
        ("memory://b", "/b/m.onnx", "memory://b/m.onnx"),
    ],
)
def test_url_of_a_path_keeps_the_caches_of_the_source(url: str, path: str, named: str) -> None:
    assert file_systems.to_url(url, path) == named


def test_links_to_folders_are_not_followed_at_urls(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").touch()
    (tmp_path / "loop").symlink_to(".")
    assert find(f"file://{tmp_path}") == [f"file://{tmp_path}/a.onnx"]


class TestDownload:
    def test_a_model_is_copied_with_its_files(self, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("m.onnx", "m.data", "sub/more.data", "other"):
            put(f"{root}/{name}", name.encode())
        names = ["m.data", "sub/more.data", "missing", "../outside", "/absolute", "sub/../../outside"]
        monkeypatch.setattr(type(format_of("m.onnx")), "files_beside", lambda *_: tuple(names))
        model = Path(download(f"{root}/m.onnx", tmp_path / "local")[0])
        folder = model.parent
        assert (model.name, folder.parent) == ("m.onnx", tmp_path / "local")
        there = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert there == {name: name.encode() for name in ("m.onnx", "m.data", "sub/more.data")}
        assert not any(path.name == "outside" for path in tmp_path.rglob("*"))

    def test_other_weights_give_another_key(self, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """On S3 the digests of the first state come from the cache, and nothing is copied."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        put(f"{root}/m.xml", b"<net/>")
        put(f"{root}/m.bin", b"weights 1")
        job, task = Job("lower", str(tmp_path)), Task("m", f"{root}/m.xml")
        first = identify(job, task, tmp_path / "1")
        assert first.path
        again = identify(job, task, tmp_path / "2")
        assert (again.key, bool(again.path)) == (first.key, not root.startswith("s3"))
        put(f"{root}/m.bin", b"weights 2")
        assert identify(job, task, tmp_path / "3").key != first.key
        put(f"{root}/m.bin", b"weights 1")
        assert identify(job, task, tmp_path / "4").key == first.key
        url_to_fs(root)[0].rm_file(url_to_fs(f"{root}/m.bin")[1])
        assert identify(job, task, tmp_path / "5").key != first.key

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("nothing.onnx", "model '{root}/nothing.onnx' is not there."),
            ("folder/a.onnx/b.onnx", "model '{root}/folder/a.onnx/b.onnx' is not there."),
            ("folder", "'{root}/folder' is not a file."),
            ("folder/..", "model '{root}/folder/..' is not a file."),
        ],
    )
    def test_of_no_file_is_an_error(self, root: str, tmp_path: Path, name: str, message: str) -> None:
        put(f"{root}/folder/a.onnx", b"")
        with pytest.raises(UsageError, match=f"^{re.escape(message.format(root=root))}$"):
            identify(Job("check", ""), Task("", f"{root}/{name}"), tmp_path / "local")


class TestStore:
    """Stores in a folder and at URLs do the same."""

    @pytest.fixture(params=["local", "memory", "file", "s3"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
        if request.param == "local":
            return open_store(str(tmp_path / "run"))
        if request.param == "file":
            return open_store(f"file://{tmp_path.as_posix()}/root/")
        bucket = request.getfixturevalue("s3") if request.param == "s3" else "memory:/"
        return open_store(f"{bucket}/root{next(_numbers)}/")

    def test_what_is_written_is_read_and_nothing_else_is_left(self, store: Store) -> None:
        assert not store.root.endswith("/")
        scratch = store.new_scratch()
        assert store.read("results/ab/c.json") is None
        assert store.names("results/ab") == []
        assert not store.has("results/ab/c.json")
        for data in (b"first", b"second"):
            store.write("results/ab/c.json", data)
            assert store.read("results/ab/c.json") == data
        assert store.has("results/ab/c.json")
        assert store.read("results/ab/c.json/d") is None
        assert store.names("scratch") == []
        store.remove_scratch(scratch)
        assert not scratch.exists()

    def test_names_are_those_of_the_files_in_a_folder(self, store: Store) -> None:
        for name in ("runs/2.jsonl", "runs/10.jsonl", "runs/1.jsonl", "runs/more/3.jsonl", "runs-2/4.jsonl"):
            store.write(name, b"x")
        names = ["runs/1.jsonl", "runs/10.jsonl", "runs/2.jsonl", "runs/more/3.jsonl"]
        assert store.names("runs") == names

    def test_what_others_write_is_seen(self, store: Store) -> None:
        store.write("runs/1", b"x")
        assert store.names("runs") == ["runs/1"]
        put(f"{store.root}/runs/2", b"y")
        assert store.names("runs") == ["runs/1", "runs/2"]
        assert store.has("runs/2")

    def test_folder_is_replaced_whole(self, store: Store) -> None:
        scratch = store.new_scratch()
        for i, data_file in enumerate(("sub/m.data", "m.data")):
            folder = scratch / str(i)
            (folder / "sub").mkdir(parents=True)
            (folder / "m.onnx").write_bytes(b"model")
            (folder / data_file).write_bytes(b"data")
            store.put_folder("outputs/ab", folder)
            assert (store.read("outputs/ab/m.onnx"), store.read(f"outputs/ab/{data_file}")) == (b"model", b"data")
        assert store.names("outputs/ab") == ["outputs/ab/m.data", "outputs/ab/m.onnx"]
        store.remove_scratch(scratch)
        assert not scratch.exists()

    def test_a_file_that_is_put_replaces_another(self, store: Store, tmp_path: Path) -> None:
        for data in (b"first", b"second"):
            (tmp_path / "file").write_bytes(data)
            store.put_file("results.jsonl", tmp_path / "file")
            assert store.read("results.jsonl") == data

    def test_store_pickles_only_its_root_and_scratch(self, store: Store) -> None:
        store.write("a", b"x")
        again = pickle.loads(pickle.dumps(store))
        assert vars(again) == {"root": store.root, "scratch": store.scratch}
        assert again.read("a") == b"x"

    @pytest.mark.parametrize("when", ["begins", "ends"])
    def test_scratch_of_killed_processes_is_removed(self, store: Store, when: str) -> None:
        """A run removes it when it begins and when it ends, but not that of other machines and containers."""
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        machine = new_name().rpartition("-")[0].rpartition("-")[0]
        assert machine.startswith(socket.gethostname())
        ended = f"{machine}-{process.pid}-0123456789abcdef"
        others = [f"{machine}0-{process.pid}-0123456789abcdef.tmp", f"other-{ended}.tmp"]
        scratch = store.new_scratch() if when == "ends" else None
        for name in (f"{ended}.tmp", *others):
            put(f"{store.root}/scratch/{name}", b"half")
        folder = store.scratch / ended
        folder.mkdir(parents=True)
        scratch = scratch or store.new_scratch()
        if when == "ends":
            store.remove_scratch(scratch)
        assert store.names("scratch") == sorted(f"scratch/{name}" for name in others)
        assert (scratch.exists(), folder.exists()) == (when == "begins", False)
        store.remove_scratch(scratch)

    def test_scratch_of_others_is_kept_by_a_server_that_removes_whole_folders(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(LocalFileSystem, "rmdir", lambda _, path: shutil.rmtree(path))
        store = open_store(f"file://{tmp_path.as_posix()}")
        store.write("scratch/other.tmp", b"half")
        store.clean_up()
        assert store.names("scratch") == ["scratch/other.tmp"]

    @pytest.mark.parametrize("url", ["", "file://"])
    def test_folder_cannot_be_read_as_a_file(self, tmp_path: Path, url: str) -> None:
        (tmp_path / "folder").mkdir()
        root = f"{url}{tmp_path.as_posix()}" if url else str(tmp_path)
        reason = "Permission denied" if sys.platform == "win32" else "Is a directory"
        with pytest.raises(UsageError, match=rf"^'{re.escape(root)}/folder' cannot be read \({reason}\)\.$"):
            open_store(root).read("folder")


class TestInterruptions:
    """A write that fails half-way leaves the old file."""

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), PermissionError(13, "Permission denied")])
    def test_of_a_write(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
        store = RemoteStore(f"file://{tmp_path}")
        store.write("a/b", b"old")

        def fail(self: object, path: str, data: bytes) -> None:
            Path(path).write_bytes(data[:1])
            raise error

        monkeypatch.setattr(LocalFileSystem, "pipe_file", fail)
        with pytest.raises((KeyboardInterrupt, UsageError)):
            store.write("a/b", b"new")
        assert os.listdir(tmp_path / "a") == ["b"]
        assert not list((tmp_path / "scratch").iterdir())
        assert (tmp_path / "a" / "b").read_bytes() == b"old"

    def test_servers_that_do_not_replace_by_renaming(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        move = LocalFileSystem.mv

        def refuse(self: Any, path: str, target: str) -> None:
            if os.path.lexists(target):
                raise FileExistsError(17, "File exists")
            move(self, path, target)

        monkeypatch.setattr(LocalFileSystem, "mv", refuse)
        store = RemoteStore(f"file://{tmp_path}")
        for data in (b"old", b"new"):
            store.write("a/b", data)
        assert os.listdir(tmp_path / "a") == ["b"]
        assert store.read("a/b") == b"new"


def failing(times: int, error: Exception, calls: list[str]) -> Callable[[Any, str], bytes]:
    def cat_file(self: Any, path: str) -> bytes:
        calls.append(path)
        if len(calls) <= times:
            raise error
        return b"data"

    return cat_file


class ClientPayloadError(Exception):
    """As aiohttp has one."""


@pytest.mark.usefixtures("no_delays")
class TestRetries:
    @pytest.mark.parametrize(
        "error", [ConnectionResetError(104, "reset"), TimeoutError("late"), OSError(5, "I/O"), ClientPayloadError()]
    )
    def test_what_passes_is_tried_again(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        calls: list[str] = []
        monkeypatch.setattr(MemoryFileSystem, "cat_file", failing(2, error, calls))
        assert RemoteStore("memory://run").read("a") == b"data"
        assert len(calls) == 3

    @pytest.mark.parametrize(
        ("error", "said", "times"),
        [
            (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer", 3),
            (PermissionError("Access Denied."), "Access Denied", 1),
            (OSError(28, "No space left on device"), "No space left on device", 1),
            (ValueError("no\nsuch thing"), "no such thing", 1),
            (KeyError(), "KeyError", 1),
        ],
    )
    def test_what_stays_is_an_error_at_once_or_in_the_end(
        self, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str, times: int
    ) -> None:
        calls: list[str] = []
        monkeypatch.setattr(MemoryFileSystem, "cat_file", failing(times, error, calls))
        with pytest.raises(UsageError, match=rf"^'memory://run/a' cannot be read \({said}\)\.$"):
            RemoteStore("memory://run").read("a")
        assert len(calls) == times


class TestPackages:
    def test_missing_fsspec_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "fsspec.core", None)
        sentence = (
            "fsspec is needed for 's3://bucket', but it is not installed; run: pip install \"sliceport[fsspec]\"."
        )
        with pytest.raises(MissingExtra, match=f"^{re.escape(sentence)}$"):
            RemoteStore("s3://bucket")

    def test_without_what_a_protocol_needs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "gcsfs", None)
        for url in ("gs://bucket/a", "zip://a::gs://bucket/a.zip"):
            reason = f"'{url}' cannot be opened: gcsfs is not installed; run: pip install gcsfs."
            with pytest.raises(MissingExtra, match=f"^{re.escape(reason)}$"):
                find(url)

    def test_an_unknown_protocol_is_bad(self) -> None:
        assert find("nothing://a", "zip://a::nothing.zip") == [
            "'nothing://a' cannot be opened (Protocol not known: nothing).",
            "'zip://a::nothing.zip' cannot be opened (No such file or directory).",
        ]
