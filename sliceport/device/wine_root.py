"""DirectML on Linux: Wine, libvkd3d and lavapipe (Vulkan on the CPU), in a root folder that any user can create.

The packages come from Debian sid, because only libvkd3d in sid supports DXIL, which shader model 6 needs. They are
unpacked without dpkg, so no maintainer script runs, and only the files that DirectML needs are kept. sid changes daily,
so a self-test at the end decides whether an installation works.
"""

from __future__ import annotations

import fnmatch
import platform
import re
import shutil
import sys
from pathlib import Path

from sliceport.device import ways
from sliceport.device.errors import DeviceError
from sliceport.device.libraries import install_libraries
from sliceport.device.packages import PackageIndex, find_mirror, unpack
from sliceport.device.programs import Progress, host_file, run

_RECIPE = 1
"""Version of the recipe. Increase it when installations change in a way that `recipe` does not show."""
_SUITE = "sid"
_PACKAGES = ("mesa-vulkan-drivers", "libvkd3d1", "xvfb", "libfreetype6", "libxext6", "proot")
# DirectML needs no dependencies of these packages.
_PACKAGES_ALONE = ("wine64", "libwine", "wine-common", "libz-mingw-w64", "libfontconfig1", "busybox-static")
_ABSENT = ("libglx-mesa0",)  # Xvfb links to libGL and renders nothing with it
_COMPILER = ("g++-mingw-w64-x86-64-win32",)
_HEADERS = ("directx-headers-dev", "libonnxruntime-dev", "nlohmann-json3-dev")
_LIB = "usr/lib/x86_64-linux-gnu"
_DLLS = f"{_LIB}/wine/x86_64-windows"
_ZLIB = "usr/x86_64-w64-mingw32/lib/zlib1.dll"
_LEFT_OUT_OF_COMPILER = r"usr/share/(?!mingw-w64/).*|.*/(lto1|lto-wrapper|gcov.*|lib(gomp|ssp|atomic|quadmath).*)"
_SOURCES = ("host.cpp", "guids.h", "native_vkd3d.h", "apt.conf", "files.txt", "inside.sh")
"""Files of the package's folder `host` that become part of an installation. `enter.sh` is run from the package."""
# `_Maybenull_` in DirectML.h and `_stdcall` in onnxruntime's header are words of Microsoft's compiler.
_OPTIONS = (
    "-std=c++17", "-O1", "-w", "-fms-extensions", "-static", "-s", "-I/mingw/usr/include",
    "-DDML_TARGET_VERSION_USE_LATEST", "-D_Maybenull_=", "-D_stdcall=__stdcall",
)  # fmt: skip
_LIBRARIES = ("-luuid", "-ldxguid", "-ldxgi")
_COMMANDS = ("sh", "cp", "echo", "mkdir", "sleep", "true")
_HOME = "/opt/sliceport"
_WINEBOOT_TIMEOUT = 180.0
"""Time limit in seconds; wineboot usually takes 6."""
_BUILTIN_MARK = slice(64, 96), b"Wine builtin DLL".ljust(32, b"\0")
"""Position and value of the mark in the DOS stub of Wine's own DLLs. Wine's user32 loads no zlib1.dll without it."""
_RENDERER = '\n[Software\\\\Wine\\\\Direct3D] 1700000000\n"renderer"="vulkan"\n'
"""Registry entry that keeps Wine from loading OpenGL, which is not installed."""


class WineRoot:
    """The backend of Linux: it installs the host program and runs it.

    Attributes:
        text: A short description for `status`.
    """

    text = f"Wine, libvkd3d and lavapipe of Debian {_SUITE}"

    def missing_requirement(self) -> str | None:
        """Return what this machine lacks for an installation, as part of a sentence; None if it lacks nothing."""
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            return f"this machine is {sys.platform} on {platform.machine()}, and DirectML needs x86-64 Linux or Windows"
        for tool in ("apt-get", "dpkg-deb", "unshare"):
            if shutil.which(tool) is None:
                return f"the program {tool} is not installed; DirectML needs Debian or a distribution based on it"
        if find_mirror() is None:
            return "no Debian mirror is named in this machine's apt sources"
        return None

    def program_folder(self, folder: Path) -> Path:
        """Return the folder of the host program, which is inside the root folder."""
        return folder / _HOME.lstrip("/")

    def command(self, folder: Path) -> list[str]:
        """Return the command that runs the host program. When it ends, all processes that it started end.

        Raises:
            DeviceError: This machine cannot run the host program.
        """
        return _command_inside(folder, "wine", "host.exe")

    def describe_isolation(self, folder: Path) -> dict[str, str]:
        """Return the chosen way of `ways.WAYS` (or "none") as `way`, and the error of each failed way as `no NAME`."""
        way, refused = ways.choose(folder)
        return {"way": way or "none"} | {f"no {name}": reason for name, reason in refused.items()}

    @property
    def recipe(self) -> str:
        """A text that changes whenever new installations get other content."""
        packages = (_SUITE, _PACKAGES, _PACKAGES_ALONE, _ABSENT, _COMPILER, _HEADERS, _LEFT_OUT_OF_COMPILER)
        return f"{_RECIPE} {packages} {_OPTIONS} {[host_file(name).read_text() for name in _SOURCES]}"

    def build(self, folder: Path, say: Progress) -> None:
        """Install Wine and DirectML, build the host program, remove the compiler, and make a Wine prefix.

        The folder must be empty. The installation must still work after the folder is moved.

        Raises:
            DeviceError: A step failed.
            OSError: A file cannot be written.
        """
        home, compiler = self.program_folder(folder), folder / "mingw"
        self._download_packages(folder, compiler, say)
        _write_system_files(folder)
        home.mkdir(parents=True)
        install_libraries(home, say)
        say("building the host program")
        for name in _SOURCES:
            shutil.copyfile(host_file(name), home / name)
        run(compile_command(folder, "host"), "the compiler")
        dlls = [f"/{_DLLS}/{path.name}" for path in (folder / _DLLS).iterdir()]
        run([*compiler_command(folder, "strip"), "--strip-all", *dlls], "strip")  # removes debug information
        shutil.rmtree(compiler)
        say("making a Wine prefix")
        _make_prefix(folder, home / "prefix")

    def _download_packages(self, root: Path, compiler: Path, say: Progress) -> None:
        """Download packages, unpack the files that DirectML needs into `root`, and the compiler into `compiler`."""
        mirror = find_mirror()
        assert mirror is not None  # `missing_requirement` names a missing mirror, so that nothing is installed
        say("looking up packages")
        state = root / "apt"
        index = PackageIndex(state, mirror, _SUITE, _ABSENT)
        for_root = index.find(_PACKAGES, _PACKAGES_ALONE)
        for_compiler = index.find(_COMPILER, _HEADERS)
        sizes = for_root | for_compiler
        say(f"downloading {len(sizes)} packages of Debian {_SUITE}, {sum(sizes.values()) / 1e6:.0f} MB")
        files = index.download(sizes)
        say("unpacking what DirectML needs of them (about 320 MB in the end)")
        # files.txt lists the files that were read when DirectML ran or a Wine prefix was created, and their libraries.
        needed = re.compile("|".join(map(fnmatch.translate, host_file("files.txt").read_text().split())))
        for name in for_root:
            unpack(files[name], root, needed.match)
        for name in for_compiler.keys() - for_root:  # a package in both is unpacked into `root` alone
            unpack(files[name], compiler, lambda file: not re.fullmatch(_LEFT_OUT_OF_COMPILER, file))
        shutil.rmtree(state)


def _command_inside(root: Path, *words: str) -> list[str]:
    """Return the command that runs a program in the root folder with a display and a Wine prefix."""
    # Wine aborts if TMPDIR is set or WINEARCH is win32.
    environment = ("/usr/bin/busybox", "env", "-u", "TMPDIR", "-u", "WINEARCH")
    return ways.command(root, *environment, "/bin/sh", f"{_HOME}/inside.sh", *words)


def _write_system_files(root: Path) -> None:
    """Create basic files and folders of Debian, link commands to busybox, and copy zlib1.dll with the mark of Wine."""
    for name in ("proc", "sys", "dev", "tmp", "etc", "run"):
        (root / name).mkdir()
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for name in _COMMANDS:
        (root / "usr/bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    position, mark = _BUILTIN_MARK
    zlib = bytearray((root / _ZLIB).read_bytes())
    zlib[position] = mark
    (root / _DLLS / "zlib1.dll").write_bytes(zlib)


def compiler_command(root: Path, tool: str) -> list[str]:
    """Return the command that runs a tool of the compiler, which is unpacked in `mingw` of the root folder."""
    environment = (f"LD_LIBRARY_PATH=/mingw/{_LIB}", "PATH=/mingw/usr/bin")
    return ways.command(root, "/usr/bin/busybox", "env", *environment, f"/mingw/usr/bin/x86_64-w64-mingw32-{tool}")


def compile_command(root: Path, name: str, *options: str) -> list[str]:
    """Return the command that compiles `name`.cpp to `name`.exe, both in the folder of the host program."""
    files = (f"{_HOME}/{name}.cpp", "-o", f"{_HOME}/{name}.exe")
    return [*compiler_command(root, "g++-win32"), *_OPTIONS, *options, *files, *_LIBRARIES]


def _make_prefix(root: Path, prefix: Path) -> None:
    """Create a Wine prefix, and replace its copies of Wine's files by links to the originals in the root folder."""
    # wineboot reports missing DLLs as failures but goes on, so its exit code is ignored. wineserver writes the registry
    # when it ends, so the script waits for that. It runs with `root` as /, where `prefix` is {_HOME}/prefix.
    script = f"export WINEPREFIX={_HOME}/prefix; wine wineboot -i; wineserver -w"
    run(_command_inside(root, "sh", "-c", script), "wineboot", timeout=_WINEBOOT_TIMEOUT)
    if not (prefix / "system.reg").exists():
        raise DeviceError("wineboot left no Wine prefix.")
    with (prefix / "user.reg").open("a", encoding="utf-8") as registry:
        registry.write(_RENDERER)
    # To save disk space, copies become links. The links are absolute, because the programs see the root folder as /.
    originals = {path.name: path for folder in (_DLLS, "usr/share/wine/nls") for path in (root / folder).iterdir()}
    for path in [path for path in prefix.rglob("*") if path.is_file() and not path.is_symlink()]:
        original = originals.get(path.name)
        if original is not None and original.read_bytes() == path.read_bytes():
            path.unlink()
            path.symlink_to(f"/{original.relative_to(root)}")
