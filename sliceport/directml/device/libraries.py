"""DirectML.dll and onnxruntime.dll, from an installed onnxruntime-directml (Windows) or from its wheel."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from sliceport.directml.device.errors import DeviceError

PACKAGE = "onnxruntime-directml"
VERSION = "1.24.4"
_SHA256 = "96642a787e5a6f33bf043521c0f06eb1eb663f6b830e5862a2026d03f9c90543"
LIBRARIES = ("DirectML.dll", "onnxruntime.dll", "onnxruntime_providers_shared.dll")
_NOTE = "libraries.txt"


def install_libraries(home: Path, say: Callable[[str], None]) -> None:
    """Put the libraries into a folder.

    Raises:
        DeviceError: The wheel cannot be downloaded.
    """
    installed = _find_installed()
    if installed is None:
        say(f"downloading {PACKAGE}=={VERSION} for its {LIBRARIES[0]} and {LIBRARIES[1]}")
        with tempfile.TemporaryDirectory(prefix=".wheel-", dir=home) as folder:
            _unpack(_download(Path(folder)), home)
    else:
        say(f"taking {LIBRARIES[0]} and {LIBRARIES[1]} of the installed {PACKAGE}")
        for name in LIBRARIES:
            shutil.copyfile(installed / name, home / name)
    version = VERSION if installed is None else importlib.metadata.version(PACKAGE)
    (home / _NOTE).write_text(f"{PACKAGE}=={version}")


def read_package_spec(home: Path) -> str:
    """Return the package and version of the libraries in a folder; without a note, the downloaded version."""
    note = home / _NOTE
    return note.read_text() if note.is_file() else f"{PACKAGE}=={VERSION}"


def _find_installed() -> Path | None:
    """Return the folder with the libraries of an installed package, which exists for Windows only."""
    if sys.platform != "win32":
        return None
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    folders = [Path(str(file.locate())).parent for file in files if file.name == LIBRARIES[0]]
    return next((folder for folder in folders if all((folder / name).is_file() for name in LIBRARIES)), None)


def _download(folder: Path) -> Path:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{_SHA256}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    target = ["--platform", "win_amd64", "--python-version", "3.11", "--dest", str(folder), "-r", str(requirements)]
    done = subprocess.run([*pip, *target], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise DeviceError(f"pip cannot download {PACKAGE} ({' '.join(done.stderr.split())[-300:]}).")
    (wheel,) = folder.glob("*.whl")
    return wheel


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in LIBRARIES:
            (folder / name).write_bytes(archive.read(f"onnxruntime/capi/{name}"))
