"""The installation of DirectML: what a machine lacks for one, and that a folder appears whole or not at all."""

from __future__ import annotations

import platform
import sys
import threading
import time
from pathlib import Path

import pytest
from command_line import Invoke
from platforms import POSIX

from sliceport.device import DeviceError, install, libraries, programs, validator, wine_root
from sliceport.device.programs import Progress
from sliceport.device.windows import Windows
from sliceport.device.wine_root import WineRoot

NO_VALIDATOR = "sliceport: DirectML's validator cannot be installed here: it would be downloaded.\n"
TOOLS = ("apt-get", "dpkg-deb", "unshare")


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Simulate a machine without an installation and programs, and return the folder of its programs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(validator, "missing_requirement", lambda: "it would be downloaded")
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


@pytest.fixture
def debian(empty: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a machine that can have DirectML, and return the folder of the user's cache."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(wine_root, "find_mirror", lambda: "http://mirror/debian")
    for name in TOOLS:
        program(empty, name)
    return empty.parent / "cache" / "sliceport"


def program(folder: Path, name: str, script: str = "exit 0") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@POSIX
def test_one_sentence_names_what_a_machine_lacks(
    debian: Path, empty: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    assert install.missing_requirement() is None
    monkeypatch.setattr(wine_root, "find_mirror", lambda: None)
    assert install.missing_requirement() == "no Debian mirror is named in this machine's apt sources"
    for name in reversed(TOOLS):
        (empty / name).unlink()
        lacking = f"the program {name} is not installed; DirectML needs Debian or a distribution based on it"
        assert install.missing_requirement() == lacking
    printed = invoke("directml", "install", code=2)
    assert printed.err == NO_VALIDATOR + f"sliceport: DirectML cannot be installed here: {lacking}.\n"
    assert invoke("directml", "install", "--if-possible").out == ""
    assert invoke("directml", "status", code=1).out == (
        f"DirectML is not installed; it cannot be installed here: {lacking}\n"
        "validator      cannot be installed here: it would be downloaded\n"
    )


def test_other_platforms(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    for name in ("darwin", "linux"):
        monkeypatch.setattr(sys, "platform", name)
        need = "and DirectML needs x86-64 Linux or Windows"
        assert install.missing_requirement() == f"this machine is {name} on arm64, {need}"
    monkeypatch.setattr(sys, "platform", "win32")
    assert isinstance(install.backend(), Windows)
    assert install.missing_requirement() == "this machine is arm64, and the libraries are for x86-64"
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    assert install.missing_requirement() is None


def test_another_recipe_has_another_folder_and_the_old_one_is_named(
    debian: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    old = install.folder()
    old.mkdir(parents=True)
    assert install.is_installed()
    monkeypatch.setattr(wine_root, "_PACKAGES", (*wine_root._PACKAGES, "libfuture1"))
    assert install.folder() != old
    assert not install.is_installed()
    assert install.other_folders() == [old]
    install.folder().mkdir()
    assert f"{old} is of another version" in invoke("directml", "install").out
    assert invoke("directml", "uninstall").out == "DirectML is removed\n"
    assert not list(debian.glob("directml-*"))
    assert invoke("directml", "uninstall").out == "DirectML was not installed\n"


@pytest.mark.parametrize("changed", ["host.cpp", "native_vkd3d.h", "inside.sh", "files.txt"])
def test_the_recipe_covers_the_sources(changed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = WineRoot().recipe
    (tmp_path / changed).write_text("changed")
    original = programs.host_file
    monkeypatch.setattr(wine_root, "host_file", lambda name: tmp_path / name if name == changed else original(name))
    assert WineRoot().recipe != before


@POSIX
def test_unreachable_index_is_one_sentence_and_leaves_nothing(
    debian: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    script = "echo 'E: Failed to fetch http://mirror/debian/dists/sid/InRelease  Could not resolve' >&2; exit 100"
    program(debian.parents[1] / "bin", "apt-get", script)
    lines = invoke("directml", "install", code=2).err.removeprefix(NO_VALIDATOR).splitlines()
    (line,) = [line for line in lines if "looking up packages" not in line]
    assert line.startswith("sliceport: apt-get update failed with exit code 100 (E: Failed to fetch http://mirror")
    assert [path.name for path in debian.iterdir()] == ["directml.lock"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DeviceError("the compiler failed"), OSError("disk full")])
def test_interrupted_installation_leaves_nothing(
    debian: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def build(_: WineRoot, folder: Path, say: Progress) -> None:
        (folder / "half").write_text("made")
        raise error

    monkeypatch.setattr(WineRoot, "build", build)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else DeviceError):
        install.install(lambda _: None)
    assert [path.name for path in debian.iterdir()] == ["directml.lock"]


def test_installation_that_fails_the_self_test_is_removed(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WineRoot, "build", lambda *_: None)
    monkeypatch.setattr(WineRoot, "command", lambda *_: ["true"])
    monkeypatch.setattr(install, "passes_self_test", lambda _: False)
    with pytest.raises(DeviceError, match="computes wrong values in the self-test"):
        install.install(lambda _: None)
    assert not install.is_installed()


def test_two_installations_at_once_make_one(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds = []

    def build(_: WineRoot, folder: Path, say: Progress) -> None:
        builds.append(folder)
        time.sleep(0.2)
        (folder / "file").write_text("made")

    monkeypatch.setattr(WineRoot, "build", build)
    monkeypatch.setattr(WineRoot, "command", lambda *_: ["true"])
    monkeypatch.setattr(install, "passes_self_test", lambda _: True)
    threads = [threading.Thread(target=install.install, args=(lambda _: None,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1
    assert (install.folder() / "file").read_text() == "made"
    assert sorted(path.name for path in debian.iterdir()) == [install.folder().name, "directml.lock"]


def test_the_libraries_are_named_by_their_package(tmp_path: Path) -> None:
    assert libraries.read_package_spec(tmp_path) == "onnxruntime-directml==1.24.4"
    (tmp_path / "libraries.txt").write_text("onnxruntime-directml==1.23.0")
    assert libraries.read_package_spec(tmp_path) == "onnxruntime-directml==1.23.0"


@pytest.mark.parametrize("package", ["onnxruntime-directml", "onnxruntime-windowsml"])
def test_installed_package_gives_its_libraries_on_windows(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, home = tmp_path / "site", tmp_path / "home"
    metadata = site / f"{package.replace('-', '_')}-1.30.0.dist-info/METADATA"
    libraries_folder = site / "onnxruntime/capi"
    for folder in (metadata.parent, libraries_folder, home):
        folder.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.30.0\n")
    for name in libraries.LIBRARIES[:2]:
        (libraries_folder / name).write_text(f"content of {name}")
    monkeypatch.setattr(sys, "platform", "win32")
    before = install.folder()
    monkeypatch.setattr(sys, "path", [str(site)])
    assert install.folder() != before  # an upgrade makes another installation
    lines: list[str] = []
    libraries.install_libraries(home, lines.append)
    assert lines == [f"copying DirectML.dll and onnxruntime.dll from the installed {package}==1.30.0"]
    assert (home / "DirectML.dll").read_text() == "content of DirectML.dll"
    assert libraries.read_package_spec(home) == f"{package}==1.30.0"
