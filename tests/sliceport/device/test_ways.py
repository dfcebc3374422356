"""The ways into a root folder: each runs DirectML, ends what it started, and is refused with a reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from amounts import long_only
from platforms import POSIX
from processes import assert_gone, children, host_of

from sliceport import device
from sliceport.device import DeviceError, install, status, ways
from sliceport.device.packages import PackageIndex, unpack

pytestmark = POSIX
NAMES = list(ways.WAYS)


@pytest.fixture(autouse=True)
def _fresh_choice() -> Iterator[None]:
    ways.choose.cache_clear()
    yield
    ways.choose.cache_clear()


def allow_only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(ways, "WAYS", {name: ways.WAYS[name]})


@pytest.mark.parametrize("name", [pytest.param(name, marks=long_only) if name == "proot" else name for name in NAMES])
def test_each_way_runs_directml_and_ends_what_it_started(
    directml: device.Device, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    allow_only(monkeypatch, name)
    chosen, refused = ways.choose(install.folder())
    if chosen is None:
        pytest.skip(f"{name} cannot be used here: {refused or 'it is not there'}")
    with device.open() as opened:
        assert install.passes_self_test(opened)
        pids = children(host_of(opened)) if name != "proot" else []
    assert_gone(pids)


def test_killed_proot_leaves_no_process(directml: device.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    allow_only(monkeypatch, "proot")
    words = ways.command(install.folder(), "/bin/sh", "-c", "sleep 60 & echo started; sleep 60")
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        pids = children(process.pid)
        assert len(pids) > 2
        process.kill()
    assert_gone(pids)


def test_forbidden_way_is_named_with_its_reason(
    directml: device.Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = shutil.which("unshare")
    refuse = f'case "$*" in *--user*) echo Operation not permitted >&2; exit 1;; esac; exec {real} "$@"'
    (tmp_path / "unshare").write_text(f"#!/bin/sh\n{refuse}\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    report = status.status()
    assert report["self_test"] == "passed"
    assert report["way"] != "user namespaces"
    reason = "unshare failed with exit code 1 (Operation not permitted)"
    assert report["no user namespaces"] == reason
    assert f"no user namespaces {reason}" in status.status_text(report)


def test_no_way_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"no program can be run in the root folder .* \(user namespaces: .*proot: "):
        ways.command(tmp_path, "true")


def test_unreachable_mirror_is_refused(tmp_path: Path) -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt-get")
    with pytest.raises(DeviceError, match=r"^apt-get update failed with exit code 100 \(.*nothing"):
        PackageIndex(tmp_path, f"file://{tmp_path}/nothing", "sid", ())


def test_only_wanted_files_are_unpacked(tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("there is no dpkg-deb")
    source = tmp_path / "source"
    (source / "DEBIAN").mkdir(parents=True)
    control = "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: m\nDescription: d\n"
    (source / "DEBIAN/control").write_text(control)
    (source / "usr/bin").mkdir(parents=True)
    (source / "usr/bin/wine").write_text("wine")
    (source / "usr/bin/other").write_text("other")
    (source / "usr/bin/link").symlink_to("/usr/bin/wine")
    subprocess.run(["dpkg-deb", "--build", source, tmp_path / "p.deb"], check=True, capture_output=True)
    unpack(tmp_path / "p.deb", tmp_path / "root", lambda name: name in ("usr/bin/wine", "usr/bin/link"))
    assert sorted(path.name for path in (tmp_path / "root/usr/bin").iterdir()) == ["link", "wine"]
    assert (tmp_path / "root/usr/bin/link").readlink() == Path("/usr/bin/wine")
    (tmp_path / "broken.deb").write_text("broken")
    with pytest.raises(DeviceError, match=r"the package broken.deb cannot be unpacked"):
        unpack(tmp_path / "broken.deb", tmp_path / "root", lambda _: True)


def test_failure_of_dpkg_deb_after_a_whole_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("wine")
    with tarfile.open(tmp_path / "p.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(tmp_path / "file", "wine")
    (tmp_path / "dpkg-deb").write_text(f"#!/bin/sh\nhead -c 1024 {tmp_path}/p.tar\nexit 2\n")  # one file, and no end
    (tmp_path / "dpkg-deb").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(DeviceError, match=r"the package p.deb cannot be unpacked \(dpkg-deb failed\)"):
        unpack(tmp_path / "p.deb", tmp_path / "root", lambda _: True)
