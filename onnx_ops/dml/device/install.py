"""Installing the real DirectML where there is no Windows: a Debian root with Wine, lavapipe and the host program.

Everything lies in one folder of the user's cache. Each step is done once, in a place beside and renamed, so that an
installation that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from onnx_ops.dml.device.errors import DeviceError

SUITE = "trixie"
PACKAGES = (
    "wine", "wine64", "mesa-vulkan-drivers", "xvfb", "libgl1", "libgl1-mesa-dri", "libegl1",
    "g++-mingw-w64-x86-64-win32", "directx-headers-dev", "libonnxruntime-dev", "nlohmann-json3-dev",
)  # fmt: skip
WHEEL = "onnxruntime-directml==1.24.4"
WHEEL_SHA256 = "96642a787e5a6f33bf043521c0f06eb1eb663f6b830e5862a2026d03f9c90543"
LIBRARIES = ("DirectML.dll", "onnxruntime.dll", "onnxruntime_providers_shared.dll")
DISK = "about 3.5 GB"
_SOURCES = ("host.cpp", "guids.h")
_HOME = "opt/sliceport"
_ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")  # what is mounted and started ends with it

Say = Callable[[str], None]


def cache_folder() -> Path:
    """Where everything lies."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "sliceport" / "directml"


def root_folder() -> Path:
    """The Debian root."""
    return cache_folder() / "root"


def is_installed() -> bool:
    """Whether every step of an installation is done, with the host program of this version."""
    home = root_folder() / _HOME
    return (home / "prefix").is_dir() and _stamp(home) == _sources_hash()


def missing() -> str | None:
    """What this machine lacks to install; None when nothing is missing."""
    if sys.platform != "linux":
        return f"this platform is {sys.platform}; only Linux is supported so far"
    if os.geteuid() != 0:
        return "a Debian root can only be made and entered as root"
    for tool in ("unshare", "chroot", "mount", "apt-get", "dpkg"):
        if shutil.which(tool) is None:
            return f"the program {tool} is not installed"
    if mirror() is None:
        return "no Debian mirror is named in this machine's apt sources"
    return None


def mirror() -> str | None:
    """The Debian mirror that this machine uses, from its apt sources."""
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


def command(*words: str) -> list[str]:
    """The command that runs a program inside the root, in namespaces that end with it and all it started."""
    launcher = str(resources.files("onnx_ops.dml.device").joinpath("host/launch.sh"))
    return [*_ALONE, "--net", "--ipc", "sh", launcher, str(root_folder()), *words]


def host_command() -> list[str]:
    """The command of the host program.

    Raises:
        DeviceError: It is not installed.
    """
    if not is_installed():
        raise DeviceError("DirectML is not installed for sliceport here; run: sliceport directml install")
    return command("wine", "host.exe")


def install(say: Say = print) -> None:
    """Install, or go on with an installation that was interrupted.

    Raises:
        DeviceError: Something is missing on this machine, or a step failed.
    """
    lacking = missing()
    if lacking is not None:
        raise DeviceError(f"DirectML cannot be installed here: {lacking}.")
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    root = root_folder()
    home = root / _HOME
    if not root.exists():
        say(f"making a Debian root in {cache} ({DISK} in the end)")
        _debootstrap(root)
    if not (home / ".packages").exists():
        say(f"installing {len(PACKAGES)} packages into it")
        _install_packages(root, home)
    if not all((home / name).exists() for name in LIBRARIES):
        say(f"downloading {WHEEL} for its DirectML.dll and onnxruntime.dll")
        _install_libraries(home)
    if _stamp(home) != _sources_hash():
        say("building the host program")
        _build_host(home)
    if not (home / "prefix").exists():
        say("making a Wine prefix")
        _make_prefix(home)


def uninstall() -> bool:
    """Remove everything that was installed; whether there was anything."""
    cache = cache_folder()
    if not cache.exists():
        return False
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        if any(line.split()[1].startswith(str(cache) + "/") for line in mounts):
            raise DeviceError(f"something is mounted inside {cache}; unmount it first.")
    shutil.rmtree(cache)
    return True


def _debootstrap(root: Path) -> None:
    uri = mirror()
    assert uri is not None
    with tempfile.TemporaryDirectory(prefix="root-", dir=root.parent) as beside:
        new = Path(beside) / "root"
        words = ["--variant=minbase", "--include=ca-certificates", SUITE, str(new), uri]
        _run([*_ALONE, *_debootstrap_program(Path(beside)), *words], "debootstrap")
        for file in Path("/etc/apt/apt.conf.d").glob(
            "*"
        ):  # proxies and the like; what is missing in the root is skipped
            if file.is_file() and not file.name.startswith(("docker", "20packagekit", "50appstream")):
                shutil.copy(file, new / "etc/apt/apt.conf.d" / file.name)
        shutil.copy("/etc/resolv.conf", new / "etc/resolv.conf")
        new.rename(root)


def _debootstrap_program(folder: Path) -> list[str]:
    """The command of debootstrap: the machine's own, or its package unpacked into a folder, not installed."""
    if shutil.which("debootstrap"):
        return ["debootstrap"]
    tools = folder / "tools"
    tools.mkdir()
    _run(["apt-get", "-q", "update"], "apt-get update")
    _run(["apt-get", "-q", "download", "debootstrap"], "apt-get download", folder=tools)
    (package,) = tools.glob("debootstrap_*.deb")
    _run(["dpkg", "-x", str(package), str(tools)], "dpkg")
    return ["env", f"DEBOOTSTRAP_DIR={tools}/usr/share/debootstrap", "sh", f"{tools}/usr/sbin/debootstrap"]


def _install_packages(root: Path, home: Path) -> None:
    script = (
        'set -e; root=$1; shift; mount --make-rprivate /; mount -t proc proc "$root/proc"; '
        'mount --rbind /dev "$root/dev"; mount --rbind /sys "$root/sys"; export DEBIAN_FRONTEND=noninteractive; '
        'chroot "$root" apt-get -q update; exec chroot "$root" apt-get -q install -y --no-install-recommends "$@"'
    )
    _run([*_ALONE, "sh", "-c", script, "install", str(root), *PACKAGES], "apt-get install")
    home.mkdir(parents=True, exist_ok=True)
    (home / ".packages").touch()


def _install_libraries(home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=home) as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
        ]
        target = ["--platform", "win_amd64", "--python-version", "3.11", "--dest", folder, "-r", str(requirements)]
        _run([*pip, *target], "pip download")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in LIBRARIES:
                (Path(folder) / name).write_bytes(archive.read(f"onnxruntime/capi/{name}"))
        for name in LIBRARIES:
            (Path(folder) / name).rename(home / name)


def _build_host(home: Path) -> None:
    include = home / "include"  # of its own: the C library's headers beside them are not for mingw
    include.mkdir(exist_ok=True)
    for name in ("directx", "onnxruntime", "nlohmann"):
        if not (include / name).is_symlink():
            (include / name).symlink_to(f"/usr/include/{name}")
    host = resources.files("onnx_ops.dml.device").joinpath("host")
    for name in _SOURCES:
        (home / name).write_bytes(host.joinpath(name).read_bytes())
    compiler = [
        "x86_64-w64-mingw32-g++",
        "-std=c++17",
        "-O1",
        "-w",
        "-fms-extensions",
        "-DDML_TARGET_VERSION_USE_LATEST",
    ]
    options = ["-D_Maybenull_=", "-D_stdcall=__stdcall", f"-I/{_HOME}/include", "-static"]
    files = [f"/{_HOME}/host.cpp", "-o", f"/{_HOME}/host.exe.new", "-luuid", "-ldxguid"]
    _run(["chroot", str(home.parent.parent), *compiler, *options, *files], "the compiler")
    (home / "host.exe.new").rename(home / "host.exe")
    (home / ".host").write_text(_sources_hash())


def _make_prefix(home: Path) -> None:
    shutil.rmtree(home / "prefix.new", ignore_errors=True)
    wait = "wineboot -i && wineserver -w"  # the server writes the registry when it ends
    _run(command("env", f"WINEPREFIX=/{_HOME}/prefix.new", "sh", "-c", wait), "wineboot")
    if not (home / "prefix.new" / "system.reg").exists():
        raise DeviceError("wineboot left no Wine prefix.")
    (home / "prefix.new").rename(home / "prefix")


def _stamp(home: Path) -> str:
    stamp = home / ".host"
    return stamp.read_text() if stamp.is_file() and (home / "host.exe").is_file() else ""


def _sources_hash() -> str:
    digest = hashlib.sha256()
    for name in _SOURCES:
        digest.update(resources.files("onnx_ops.dml.device").joinpath(f"host/{name}").read_bytes())
    return digest.hexdigest()


def _run(words: Sequence[str], what: str, folder: Path | None = None) -> None:
    done = subprocess.run(  # noqa: S603 - fixed programs, no shell
        words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        last = " ".join((done.stderr or done.stdout).split())[-300:]
        raise DeviceError(f"{what} failed with exit code {done.returncode} ({last}).")
