"""The library of the operators in C++ is found, built and loaded by tools."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset8
from openvino_backends import NATIVE, THERE, WHY_NOT_NATIVE

import ov_ext
from ov_ext import native
from ov_ext.native import LIBRARY, RECORD, build, cached_folder, find_library, hash_file, hash_sources, make_record
from ov_ext.operators import backends
from sliceport.errors import UsageError

VERSION = ov.__version__
FAKE_CMAKE = """#!/bin/sh
if [ "$1" = --version ]; then exit; fi
echo "$1" >> "$(dirname "$0")/log"
if [ "$1" = --build ]; then sleep 0.5; echo built > "$2/%s"; fi
exit %d
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide an empty cache of the user, a package without a library, and a process that has not looked for one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "PACKAGED", tmp_path / "nowhere")
    monkeypatch.delenv(backends.VARIABLE, raising=False)
    backends._choose_backend.cache_clear()
    yield tmp_path
    backends._choose_backend.cache_clear()


def put(folder: Path, record: object, *, library: bool = True) -> Path:
    """Write a record, and a file in place of the library, whose digest the record gets unless it has one."""
    folder.mkdir(parents=True)
    if library:
        (folder / LIBRARY).write_bytes(b"no library")
        if isinstance(record, dict):
            record = {"library": hash_file(folder / LIBRARY)} | record
    (folder / RECORD).write_text(json.dumps(record))
    return folder / LIBRARY


def test_library_is_missing_at_first(cache: Path) -> None:
    found = find_library(VERSION)
    assert (found.path, found.reason) == (None, f"no library is built for openvino {VERSION}")
    assert ov_ext.backend() == ov_ext.Backend("python", f"{found.reason}; run: python -m ov_ext.native build")


def test_library_of_the_package_goes_before_that_of_the_cache(cache: Path) -> None:
    cached = put(cached_folder(VERSION), make_record(VERSION))
    assert find_library(VERSION) == native.Library(cached, f"the library in your cache is built for openvino {VERSION}")
    packaged = put(native.PACKAGED, make_record(VERSION))
    assert find_library(VERSION).path == packaged


def test_library_of_another_release_is_not_loaded(cache: Path) -> None:
    put(native.PACKAGED, make_record("2020.1"))
    reason = f"is built for openvino 2020.1 and not for {VERSION}, which is loaded"
    assert find_library(VERSION) == native.Library(None, f"the library in the installed package {reason}")
    cached = put(cached_folder(VERSION), make_record(VERSION))
    assert find_library(VERSION).path == cached
    assert cached_folder(VERSION) != cached_folder("2020.1")


@pytest.mark.parametrize(
    ("record", "library", "reason"),
    [
        ({"openvino": VERSION, "sources": "others"}, True, "is built from the sources of another version of sliceport"),
        ({"openvino": VERSION, "sources": hash_sources()}, False, "is gone"),
        ({"openvino": VERSION, "sources": hash_sources(), "library": "another"}, True, "is damaged"),
        ({}, True, f"is built for openvino None and not for {VERSION}, which is loaded"),
    ],
)
def test_unfit_library_is_not_used(cache: Path, record: dict[str, str], library: bool, reason: str) -> None:
    put(cached_folder(VERSION), record, library=library)
    assert find_library(VERSION) == native.Library(None, f"the library in your cache {reason}")


@pytest.mark.parametrize("record", ["", "[]", "{", "\udcff"])
def test_damaged_record_is_ignored(cache: Path, record: str) -> None:
    folder = cached_folder(VERSION)
    folder.mkdir(parents=True)
    (folder / RECORD).write_bytes(record.encode(errors="surrogateescape"))
    assert find_library(VERSION).reason == f"no library is built for openvino {VERSION}"


def test_library_that_cannot_be_loaded_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(cached_folder(VERSION), make_record(VERSION))
    monkeypatch.setattr(backends, "missing_tools", lambda: None)  # a missing cmake would be named, too
    found, diagnosis = ov_ext.backend(), backends.diagnose_native()
    assert (found.name, found.path) == ("python", None)
    assert f"those in Python are used, because {found.reason}" == f"{diagnosis.detail}; {diagnosis.advice}"
    assert (diagnosis.status, diagnosis.advice) == (
        "broken",
        "remove the library and run: python -m ov_ext.native build",
    )
    assert diagnosis.detail.startswith(f"those in Python are used, because '{path}' cannot be loaded (")
    node = ov_ext.Slice([opset8.parameter([4], np.float32), [1], [3], [1]])
    assert list(node.output(0).shape) == [2]


def test_doctor_names_the_missing_tools(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = backends.diagnose_native()
    assert (found.name, found.status) == ("operators in C++", "missing")
    assert found.detail == f"those in Python are used, because no library is built for openvino {VERSION}"
    assert found.advice.endswith("run: python -m ov_ext.native build")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(cache / "python"))
    expected = "there is no cmake; run: pip install cmake, then run: python -m ov_ext.native build"
    assert backends.diagnose_native().advice == expected
    for choice, expected in {"python": "ok ", "native": "broken run: ", "C++": "broken unset "}.items():
        monkeypatch.setenv(backends.VARIABLE, choice)
        assert "{0.status} {0.advice}".format(backends.diagnose_native()).startswith(expected)
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(build.BuildError, match="^openvino cannot be imported .*; run: pip install"):
        build.find_openvino()


def test_environment_variable_forces_a_kind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backends.VARIABLE, "python")
    assert ov_ext.backend() == ov_ext.Backend("python", "SLICEPORT_BACKEND=python asks for it")
    monkeypatch.setenv(backends.VARIABLE, "native")
    message = (
        r"^SLICEPORT_BACKEND=native asks for operators in C\+\+, but no library is built for openvino .*; "
        r"run: python -m ov_ext\.native build\.$"
    )
    for ask in (ov_ext.backend, ov_ext.onnx_extensions, lambda: ov_ext.register(ov.Core()), lambda: ov_ext.Slice([])):
        with pytest.raises(UsageError, match=message):
            ask()
    monkeypatch.setenv(backends.VARIABLE, "C++")
    with pytest.raises(UsageError, match=r"^SLICEPORT_BACKEND must be python or native, got 'C\+\+'\.$"):
        ov_ext.read_model(__file__)


def run(*words: str, cache: Path, path: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m ov_ext.native` with a cache of its own, and with `path` as PATH."""
    given = {**os.environ, "XDG_CACHE_HOME": str(cache / "cache"), **environment}
    if path is not None:
        given["PATH"] = path
    command = [sys.executable, "-m", "ov_ext.native", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=given, timeout=300)


has_own_library = (native.PACKAGED / RECORD).is_file()
has_own_tools = any((Path(sys.executable).parent / name).exists() for name in ("cmake", "ninja"))


@pytest.mark.skipif(has_own_library, reason="the installed package has a library")
def test_missing_tools_are_named(tmp_path: Path) -> None:
    if has_own_tools:
        pytest.skip("there are tools beside the interpreter")
    none = run("--path", cache=tmp_path, path="")
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr == (
        f"ov_ext.native: no library is built for openvino {VERSION}; run: python -m ov_ext.native build\n"
    )
    failed = run("build", cache=tmp_path, path="")
    assert (failed.returncode, failed.stdout) == (1, "")
    message = "ov_ext.native: the operators in C++ cannot be built here: there is no cmake; run: pip install cmake"
    assert failed.stderr.splitlines()[-1] == f"{message}."
    if_possible = run("build", "--if-possible", cache=tmp_path, path="")
    assert (if_possible.returncode, if_possible.stdout, if_possible.stderr) == (0, "", f"{message}\n")
    assert not list(tmp_path.rglob(RECORD))


@pytest.mark.parametrize("generator", ["Ninja", None])
def test_compiler_on_windows_is_found_for_a_chosen_generator(
    generator: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"CXX": None, "PROGRAMFILES(X86)": str(tmp_path), "CMAKE_GENERATOR": generator}.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(build, "_find_program", lambda *names: names[0])
    monkeypatch.setattr(sys, "platform", "win32")
    assert build.has_compiler() == (generator is not None)


needs_fake_tools = pytest.mark.skipif(
    sys.platform == "win32" or has_own_library, reason="the tools are shell scripts, and build only what is missing"
)


def fake_tools(folder: Path, code: int = 0) -> str:
    """Write a cmake and a compiler that only pretend, and return a PATH of them."""
    tools = folder / "tools"
    tools.mkdir()
    (tools / "cmake").write_text(FAKE_CMAKE % (LIBRARY, code))
    for name in ("cmake", "c++", "make"):
        (tools / name).touch()
        (tools / name).chmod(0o755)
    return os.pathsep.join([str(tools), "/usr/bin", "/bin"])


@needs_fake_tools
def test_two_builds_at_once_run_cmake_once(tmp_path: Path) -> None:
    path = fake_tools(tmp_path)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": path}
    command = [sys.executable, "-m", "ov_ext.native", "build"]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    outputs = {child.communicate(timeout=300)[0] for child in children}
    assert [child.returncode for child in children] == [0, 0]
    assert (tmp_path / "tools" / "log").read_text().split() == ["-S", "--build"]
    (output,) = outputs
    assert Path(output.strip()).read_text() == "built\n"
    assert run("--path", cache=tmp_path).stdout == output
    library = Path(output.strip())
    recorded = json.loads(library.with_name(RECORD).read_text())
    assert recorded == {**make_record(VERSION), "library": hash_file(library)}


@needs_fake_tools
def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    path = fake_tools(tmp_path, code=3)
    failed = run("build", cache=tmp_path, path=path)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.splitlines()[-1] == "ov_ext.native: cmake failed with exit code 3 ()."
    assert [entry.suffix for entry in (tmp_path / "cache" / "sliceport" / "openvino").iterdir()] == [".lock"]


@needs_fake_tools
@pytest.mark.parametrize("names", [[LIBRARY], []])
def test_library_without_its_record_is_built_again(tmp_path: Path, names: list[str]) -> None:
    path = fake_tools(tmp_path)
    library = Path(run("build", cache=tmp_path, path=path).stdout.strip())
    for name in {RECORD, LIBRARY} - set(names):
        library.with_name(name).unlink()
    for name in names:
        library.with_name(name).write_text("of whatever")
    again = run("build", cache=tmp_path, path=path)
    assert (again.returncode, again.stdout) == (0, f"{library}\n")
    assert library.read_text() == "built\n"
    assert library.with_name(RECORD).is_file()


@needs_fake_tools
def test_folder_of_other_files_is_kept_and_named(tmp_path: Path) -> None:
    path = fake_tools(tmp_path)
    folder = Path(run("build", cache=tmp_path, path=path).stdout.strip()).parent
    (folder / RECORD).unlink()
    (folder / "notes.txt").touch()
    kept = run("build", cache=tmp_path, path=path)
    assert (kept.returncode, kept.stdout) == (1, "")
    complaint = kept.stderr.splitlines()[-1]
    assert complaint.startswith(f"ov_ext.native: output '{folder}' is no")
    assert complaint.endswith(f", so it is not overwritten. Remove '{folder}', and build again.")
    assert sorted(entry.name for entry in folder.iterdir()) == sorted([LIBRARY, "notes.txt"])


@needs_fake_tools
def test_rest_of_a_killed_build_is_removed_once_it_is_old(tmp_path: Path) -> None:
    path = fake_tools(tmp_path)
    cmake = tmp_path / "tools" / "cmake"
    whole = cmake.read_text()
    cmake.write_text('#!/bin/sh\n[ "$1" = --version ] || kill -KILL $PPID\n')
    (tmp_path / "tmp").mkdir()
    killed = run("build", cache=tmp_path, path=path, TMPDIR=str(tmp_path / "tmp"))
    assert killed.returncode == -signal.SIGKILL
    folder = tmp_path / "cache" / "sliceport" / "openvino"
    (old,) = folder.glob(".*")
    assert not list((tmp_path / "tmp").iterdir())
    os.utime(old, (0, 0))
    under_way = folder / ".sliceport-0123456789ab"
    under_way.mkdir()
    cmake.write_text(whole)
    assert run("build", cache=tmp_path, path=path).returncode == 0
    assert list(folder.glob(".*")) == [under_way]


@pytest.mark.skipif(sys.platform == "win32", reason="made with g++ or clang++")
def test_folders_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if build.missing_tools() is not None:
        pytest.skip("there are no tools")
    source = tmp_path / "a b \u00e9 $c" / "native"
    (source / "src").mkdir(parents=True)
    shutil.copy(native.SOURCE / "CMakeLists.txt", source)
    for file in (native.SOURCE / "src").glob("*.cpp"):
        text = f'extern "C" const char* in_{file.stem}() {{ return __FILE__; }}\n'
        (source / "src" / file.name).write_text(text)
    monkeypatch.setattr(build, "SOURCE", source)
    made = tmp_path / "made here"
    made.mkdir()
    build.build_into(made, *build.find_openvino())
    content = (made / LIBRARY).read_bytes()
    assert b"ov_ext/native/src/copy.cpp" in content
    assert str(tmp_path).encode() not in content


@pytest.mark.skipif(sys.platform == "win32", reason="a file instead of the cache's folder is another error there")
def test_build_writes_nothing_if_the_package_has_a_library(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packaged = put(native.PACKAGED, make_record(VERSION))
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert build.build(pytest.fail) == packaged


def test_command_without_words_prints_help(tmp_path: Path) -> None:
    shown = run(cache=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "--path" in shown.stdout


@pytest.mark.skipif(NATIVE not in THERE, reason=WHY_NOT_NATIVE or "SLICEPORT_BACKEND rules it out")
class TestTools:
    def model(self, folder: Path) -> Path:
        source = opset8.parameter([3, -1], np.float32, name="x")
        node = ov_ext.StridedSlice([source, [1, 0], [0, 5], [1, 2]], shrink_axis_mask=[1])
        ov_ext.write_model(ov.Model([node], [source], "m"), folder / "m.xml")
        return folder / "m.xml"

    def path(self) -> str:
        command = [sys.executable, "-m", "ov_ext.native", "--path"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
        assert printed == f"{ov_ext.backend().path}\n"
        return printed.strip()

    def test_benchmark_app_loads_the_library(self, tmp_path: Path) -> None:
        words = ["-m", str(self.model(tmp_path)), "-extensions", self.path(), "-data_shape", "x[3,8]"]
        words += ["-niter", "4", "-nireq", "2", "-d", "CPU"]
        command = [sys.executable, "-c", "from openvino.tools.benchmark.main import main; main()", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:]
        assert "Count:" in done.stdout

    def test_core_that_loads_the_library_needs_no_python_of_ours(self, tmp_path: Path) -> None:
        script = """
import sys
import numpy as np
import openvino as ov
core = ov.Core()
core.add_extension(sys.argv[1])
print(core.compile_model(sys.argv[2], "CPU")([np.arange(24, dtype=np.float32).reshape(3, 8)])[0].tolist())
print("ov_ext" in sys.modules)
"""
        command = [sys.executable, "-c", script, self.path(), str(self.model(tmp_path))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        assert done.stdout.splitlines() == ["[8.0, 10.0, 12.0]", "False"]
