"""DirectML in a Debian root of its own, on a Debian-like Linux as root: Wine, lavapipe and a compiler in the cache."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sliceport.directml.device.backend import HostBackend, Progress, run
from sliceport.directml.device.launch import ALONE, WineBackend
from sliceport.user_cache import user_cache

_HOME = Path("/opt/sliceport")
_PACKAGES = (
    "wine", "wine64", "mesa-vulkan-drivers", "xvfb", "libgl1", "libgl1-mesa-dri", "libegl1",
    "g++-mingw-w64-x86-64-win32", "directx-headers-dev", "libonnxruntime-dev", "nlohmann-json3-dev",
)  # fmt: skip
_NATIVE_PACKAGES = ("wine64-tools", "libwine-dev", "libvkd3d-dev", "gcc", "libc6-dev")


@dataclass(frozen=True)
class Edition:
    """A Debian suite and the packages to install.

    Attributes:
        name: Its folder in the cache.
        suite: The Debian suite.
        packages: The packages that are installed into the root.
        disk: The disk space that it takes.
        native: Whether it has libvkd3d's own device, for shader model 6.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    disk: str
    native: bool = False


SLICING = Edition("directml", "trixie", _PACKAGES, "about 3.5 GB")
"""The edition with every operator of slicing."""
FULL = Edition("directml-full", "sid", _PACKAGES + _NATIVE_PACKAGES, "about 5 GB", native=True)
"""The edition with every operator of DirectML. Debian sid changes daily, so only the self-test shows what works."""


class DebianChroot(WineBackend):
    """A Debian root made by debootstrap from the machine's own mirror."""

    def __init__(self, edition: Edition) -> None:
        self.edition = edition
        self.folder = user_cache() / edition.name
        self.disk = edition.disk
        self.text = f"Wine and lavapipe in a Debian root ({edition.suite})"
        self.root, self.inner_home = self.folder / "root", _HOME
        if edition.native:
            self.text = f"Wine, libvkd3d and lavapipe in a Debian root ({edition.suite})"
            self.sources = (*HostBackend.sources, "native_vkd3d.c", "native_vkd3d.spec")

    @property
    def home(self) -> Path:
        """The folder of the host program, which is inside the root."""
        return self.root / _HOME.relative_to("/")

    def missing(self) -> str | None:
        """Return what this machine lacks for an installation, or None."""
        if sys.platform == "win32" or os.geteuid() != 0:
            return "a Debian root can only be made and entered as root"
        for tool in ("unshare", "chroot", "mount", "apt-get", "dpkg"):
            if shutil.which(tool) is None:
                return f"the program {tool} is not installed"
        if mirror() is None:
            return "no Debian mirror is named in this machine's apt sources"
        return None

    def prepare(self, say: Progress) -> None:
        """Create the root and install its packages."""
        if not self.root.exists():
            say(f"making a Debian root in {self.folder} ({self.disk} in the end)")
            _debootstrap(self.root, self.edition.suite)
        if not (self.home / ".packages").exists():
            say(f"installing {len(self.edition.packages)} packages into it")
            self._install_packages()

    def build(self) -> None:
        """Compile inside the root."""
        enter = ["chroot", str(self.root)]
        if self.edition.native:
            self._build_native(enter)
        self.link_headers()
        self.compile(_HOME, "x86_64-w64-mingw32-g++", ["-I", f"{_HOME}/include"], enter)

    def _install_packages(self) -> None:
        script = (
            'set -e; root=$1; shift; mount --make-rprivate /; mount -t proc proc "$root/proc"; '
            'mount --rbind /dev "$root/dev"; mount --rbind /sys "$root/sys"; export DEBIAN_FRONTEND=noninteractive; '
            'chroot "$root" apt-get -q update; exec chroot "$root" apt-get -q install -y --no-install-recommends "$@"'
        )
        run([*ALONE, "sh", "-c", script, "install", str(self.root), *self.edition.packages], "apt-get install")
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / ".packages").touch()

    def _build_native(self, enter: list[str]) -> None:
        out = f"{_HOME}/native"
        for folder in ("x86_64-unix", "x86_64-windows"):  # where WINEDLLPATH is searched
            (self.home / "native" / folder).mkdir(parents=True, exist_ok=True)
        c, spec, unit = f"{_HOME}/native_vkd3d.c", f"{_HOME}/native_vkd3d.spec", f"{out}/native_vkd3d.o"
        library, stub = f"{out}/x86_64-unix/native_vkd3d.dll.so", f"{out}/x86_64-windows/native_vkd3d.dll"
        for words in (
            ["gcc", "-std=gnu11", "-c", "-fPIC", "-O1", "-I/usr/include/vkd3d", "-DINITGUID", c, "-o", unit],
            ["winegcc", "-m64", "-shared", spec, unit, "-o", library, "-lvkd3d", "-lkernel32"],
            ["winebuild", "--dll", "--fake-module", "-m64", "-E", spec, "-o", stub],
        ):
            run([*enter, *words], words[0])


def mirror() -> str | None:
    """Return the Debian mirror in this machine's apt sources, or None."""
    files = [Path("/etc/apt/sources.list")]
    folder = Path("/etc/apt/sources.list.d")
    if folder.is_dir():
        files += sorted(p for p in folder.iterdir() if p.suffix in (".list", ".sources"))
    for file in files:
        if file.is_file():
            text = file.read_text(errors="replace")
            for uri in re.findall(r"^(?:URIs:\s*|deb\s+(?:\[[^\]]*\]\s*)?)(\S+)", text, re.MULTILINE):
                if re.search(r"/debian/?$", uri):
                    return str(uri)
    return None


def _debootstrap(root: Path, suite: str) -> None:
    uri = mirror()
    assert uri is not None
    with tempfile.TemporaryDirectory(prefix="root-", dir=root.parent) as beside:
        new = Path(beside) / "root"
        words = ["--variant=minbase", "--include=ca-certificates", suite, str(new), uri]
        run([*ALONE, *_debootstrap_program(Path(beside)), *words], "debootstrap")
        for file in Path("/etc/apt/apt.conf.d").glob("*"):  # proxies and the like
            if file.is_file() and not file.name.startswith(("docker", "20packagekit", "50appstream")):
                shutil.copy(file, new / "etc/apt/apt.conf.d" / file.name)
        shutil.copy("/etc/resolv.conf", new / "etc/resolv.conf")
        new.rename(root)


def _debootstrap_program(folder: Path) -> list[str]:
    """Return the command of debootstrap: the machine's own, or that of its package, unpacked but not installed."""
    if shutil.which("debootstrap"):
        return ["debootstrap"]
    tools = folder / "tools"
    tools.mkdir()
    run(["apt-get", "-q", "update"], "apt-get update")
    run(["apt-get", "-q", "download", "debootstrap"], "apt-get download", folder=tools)
    (package,) = tools.glob("debootstrap_*.deb")
    run(["dpkg", "-x", str(package), str(tools)], "dpkg")
    return ["env", f"DEBOOTSTRAP_DIR={tools}/usr/share/debootstrap", "sh", f"{tools}/usr/sbin/debootstrap"]
