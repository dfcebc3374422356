"""The choice of the backend on different machines, its installation, and the messages about what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from platforms import POSIX

from sliceport.cli.main import main
from sliceport.directml.device import debian, install, libraries, wine
from sliceport.directml.device.debian import FULL, SLICING, DebianChroot
from sliceport.directml.device.windows import Windows
from sliceport.directml.device.wine import MachineWine


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Simulate a machine without an installation and programs, and return the folder of its programs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


def program(folder: Path, name: str, output: str = "") -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{output}'\n")
    (folder / name).chmod(0o755)


@POSIX
@pytest.mark.parametrize(
    ("version", "found"), [("wine-9.0", 9), ("wine-10.0 (Debian 10.0~repack-6)", 10), ("what", None)]
)
def test_version_of_wine_is_read(empty: Path, version: str, found: int | None) -> None:
    program(empty, "wine", version)
    assert wine.wine_version() == found


@POSIX
def test_what_a_wine_lacks(empty: Path) -> None:
    assert MachineWine().missing() == "there is no Wine 10 or newer"
    program(empty, "wine", "wine-9.0")
    assert MachineWine().missing() == "its Wine is 9, older than 10"
    program(empty, "wine", "wine-11.2")
    assert MachineWine().missing() == "the program Xvfb is not installed beside its Wine"


@POSIX
def test_the_sentence_names_what_each_way_lacks(
    empty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    lacking = "there is no Wine 10 or newer, and a Debian root can only be made and entered as root"
    assert install.missing() == lacking
    assert install.missing(full=True) == "a Debian root can only be made and entered as root"
    assert main(["directml", "install"]) == 2
    assert capsys.readouterr().err == f"sliceport: DirectML cannot be installed here: {lacking}.\n"
    assert main(["directml", "install", "--if-possible"]) == 0
    assert main(["directml", "status"]) == 1
    assert capsys.readouterr().out == f"DirectML is not installed; it cannot be installed here: {lacking}\n"


@POSIX
def test_as_root_without_the_programs(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert DebianChroot(SLICING).missing() == "the program unshare is not installed"
    for name in ("unshare", "chroot", "mount", "apt-get", "dpkg"):
        program(empty, name)
    monkeypatch.setattr(debian, "mirror", lambda: None)
    assert DebianChroot(SLICING).missing() == "no Debian mirror is named in this machine's apt sources"
    monkeypatch.setattr(debian, "mirror", lambda: "http://mirror/debian")
    assert install.missing() is None
    assert isinstance(install.backend(), DebianChroot)


def test_other_platforms(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert install.missing() == "this platform is darwin, and only Linux and Windows can have it"
    monkeypatch.setattr(sys, "platform", "win32")
    assert isinstance(install.backend(), Windows)
    assert isinstance(install.backend(full=True), Windows)
    monkeypatch.setattr("sliceport.directml.device.windows.shutil.which", lambda _: None)  # which asks Windows
    assert str(install.missing()).startswith("no g++ of mingw-w64 is on the path; MSYS2 has it")
    monkeypatch.setattr("sliceport.directml.device.windows.shutil.which", lambda name: f"/bin/{name}")
    assert install.missing() is None


def test_each_edition_has_a_folder_of_its_own(empty: Path) -> None:
    folders = {DebianChroot(SLICING).folder, DebianChroot(FULL).folder, MachineWine().folder}
    assert len(folders) == 3
    assert {folder.parent for folder in folders} == {Path(empty.parent / "cache" / "sliceport")}


def test_the_libraries_are_named_by_their_package(tmp_path: Path) -> None:
    assert libraries.read_package_spec(tmp_path) == "onnxruntime-directml==1.24.4"
    (tmp_path / "libraries.txt").write_text("onnxruntime-directml==1.23.0")
    assert libraries.read_package_spec(tmp_path) == "onnxruntime-directml==1.23.0"
