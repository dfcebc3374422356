"""Check the files that `make dist` built: they contain exactly the tracked files that belong to a wheel or an sdist.

Usage: python .ci/check_dist.py FOLDER, in a clone. FOLDER contains a pure wheel and an sdist. If the machine has a
compiler, FOLDER also contains a wheel with the operators in C++, which has their library in addition.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("sliceport", "onnx_ops", "ov_ext")
LIBRARY_FOLDER = "ov_ext/native/lib"
LIBRARIES = ("libsliceport_openvino.so", "sliceport_openvino.dll")
NOT_SHIPPED = (".gitattributes",)
ADDED_TO_SDIST = {"PKG-INFO", ".gitignore"}


def list_tracked() -> set[str]:
    """Return the files that git tracks, relative to the project's folder."""
    found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in found.stdout.split("\0") if name and name not in NOT_SHIPPED}


def find_one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder}: expected one {pattern}, found {[path.name for path in found]}; empty the folder.")
    return found[0]


def compare(name: str, expected: set[str], got: set[str]) -> None:
    missing, surplus = sorted(expected - got), sorted(got - expected)
    if missing or surplus:
        raise SystemExit(f"{name}: missing {missing}; not tracked by git, or not expected in it: {surplus}.")


def check_sdist(path: Path, tracked: set[str]) -> None:
    with tarfile.open(path) as archive:
        root = path.name.removesuffix(".tar.gz") + "/"
        got = {entry.name.removeprefix(root) for entry in archive if entry.isfile()}
    compare(path.name, tracked | ADDED_TO_SDIST, got | ADDED_TO_SDIST)


def check_wheel(path: Path, tracked: set[str], version: str) -> None:
    info = f"sliceport-{version}.dist-info"
    with zipfile.ZipFile(path) as archive:
        got = {name for name in archive.namelist() if not name.startswith(f"{info}/")}
        if not path.name.endswith("-none-any.whl"):
            got -= check_library(path, archive, version)
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        licence = archive.read(f"{info}/licenses/LICENSE")
    compare(path.name, {name for name in tracked if name.split("/")[0] in PACKAGES}, got)
    for package in PACKAGES:
        assert f"{package}/py.typed" in got, f"{path.name}: {package} has no py.typed"
    assert metadata["Version"] == version, metadata["Version"]
    assert metadata["License-Expression"] == "Apache-2.0", metadata["License-Expression"]
    relative = re.findall(r"\]\((?!https://|#)[^)]*\)", metadata.get_payload())
    assert not relative, f"{path.name}: its description has relative links, which an index cannot follow: {relative}"
    assert licence == (ROOT / "LICENSE").read_bytes()


def check_library(path: Path, archive: zipfile.ZipFile, version: str) -> set[str]:
    """Check the library in a wheel for one platform, which must not contain paths of this machine; return its files."""
    (library,) = (f"{LIBRARY_FOLDER}/{name}" for name in LIBRARIES if f"{LIBRARY_FOLDER}/{name}" in archive.namelist())
    record = json.loads(archive.read(f"{LIBRARY_FOLDER}/built.json"))
    assert sorted(record) == ["library", "openvino", "sources"], f"{path.name}: {record}"
    places = re.findall(rb"(?<![\w.])/(?:tmp|home|root|usr/src|work)/[ -~]*", archive.read(library))
    assert not places, f"{path.name}: {library} names {places[:3]}"
    wheel = archive.read(f"sliceport-{version}.dist-info/WHEEL").decode()
    assert re.search(r"^Tag: py3-none-(?!any)\w+$", wheel, re.MULTILINE), wheel
    assert "Root-Is-Purelib: false" in wheel, wheel
    return {library, f"{LIBRARY_FOLDER}/built.json"}


def check_pythons() -> None:
    """Check that the classifiers name the versions of Python that CI tests."""
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    tested = re.findall(r'"(3\.\d+)"', re.search(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)[1])  # type: ignore[index]
    assert named == tested, f"classifiers name {named}, ci.yml tests {tested}"


def main() -> None:
    folder = Path(sys.argv[1])
    tracked = list_tracked()
    wheel, sdist = find_one(folder, "*-none-any.whl"), find_one(folder, "*.tar.gz")
    wheels = [wheel, *sorted(set(folder.glob("*.whl")) - {wheel})]
    version = wheel.name.split("-")[1]
    source = (ROOT / "sliceport" / "version.py").read_text(encoding="utf-8")
    assert re.search(r'^__version__ = "(.*)"$', source, re.MULTILINE)[1] == version, version  # type: ignore[index]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(version)}\]", changelog, re.MULTILINE), f"CHANGELOG.md: nothing on {version}"
    check_pythons()
    check_sdist(sdist, tracked)
    for path in wheels:
        check_wheel(path, tracked, version)
    print(f"{', '.join(path.name for path in (*wheels, sdist))}: all expected files, and no others")


if __name__ == "__main__":
    main()
