"""DirectML's libraries: for Windows from an installed or downloaded onnxruntime, for Linux from torch-directml."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sliceport.device.programs import Progress, run

_WITH_DIRECTML = ("onnxruntime-directml", "onnxruntime-windowsml")
"""The packages of onnxruntime for Windows that hold DirectML.dll."""
LIBRARIES = ("DirectML.dll", "onnxruntime.dll", "onnxruntime_providers_shared.dll")
_NOTE = "libraries.txt"
"""Name of the file, beside the libraries, that names their package and version."""


@dataclass(frozen=True)
class Wheel:
    """A wheel of the package index, which pip downloads and checks by its hash.

    Attributes:
        spec: `package==version`.
        sha256: Hash of the wheel.
        target: Platform tag and version of Python that the wheel is for.
        folder: The folder in the wheel that holds the libraries.
        libraries: Names of the files to take from that folder.
    """

    spec: str
    sha256: str
    target: tuple[str, str]
    folder: str
    libraries: tuple[str, ...]

    def install(self, home: Path) -> None:
        """Download the wheel into a temporary folder, and put its libraries into the folder `home`.

        Raises:
            DeviceError: The wheel cannot be downloaded.
            OSError: A file cannot be written.
        """
        with tempfile.TemporaryDirectory(prefix=".wheel-", dir=home) as temporary:
            requirements = Path(temporary, "requirements.txt")
            requirements.write_text(f"{self.spec} --hash=sha256:{self.sha256}\n")
            options = ["--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(requirements)]
            platform, python = self.target
            target = ["--platform", platform, "--python-version", python, "--dest", temporary]
            command = [sys.executable, "-m", "pip", "download", *options, *target]
            run(command, f"pip download {self.spec.partition('==')[0]}")
            (wheel,) = Path(temporary).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                for name in self.libraries:
                    (home / name).write_bytes(archive.read(f"{self.folder}/{name}"))


FOR_WINDOWS = Wheel(
    "onnxruntime-directml==1.24.4",
    "96642a787e5a6f33bf043521c0f06eb1eb663f6b830e5862a2026d03f9c90543",
    ("win_amd64", "3.11"),
    "onnxruntime/capi",
    LIBRARIES,
)
FOR_LINUX = Wheel(
    "torch-directml==0.2.5.dev240914",
    "30e29872f4d6059dd784897fa2df0cddb80f3874ed4f0860758790286e95a823",
    ("manylinux2010_x86_64", "3.10"),
    "torch_directml",
    ("libdirectml.so", "libd3d12.so", "libdxcore.so"),
)


def install_libraries(home: Path, say: Progress) -> None:
    """Put DirectML and onnxruntime for Windows into a folder, with a note of their package and version.

    Raises:
        DeviceError: The wheel cannot be downloaded.
        OSError: A file cannot be read or written.
    """
    spec, folder = find_package()
    if folder is None:
        say(f"downloading {spec} for its {LIBRARIES[0]} and {LIBRARIES[1]}")
        FOR_WINDOWS.install(home)
    else:
        say(f"copying {LIBRARIES[0]} and {LIBRARIES[1]} from the installed {spec}")
        for name in LIBRARIES:
            if (folder / name).is_file():  # onnxruntime-windowsml lacks the last library
                shutil.copyfile(folder / name, home / name)
    (home / _NOTE).write_text(spec)


def read_package_spec(home: Path) -> str:
    """Return `package==version` of the libraries in `home`, or of the libraries to install if `home` has no note."""
    note = home / _NOTE
    return note.read_text() if note.is_file() else find_package()[0]


def find_package() -> tuple[str, Path | None]:
    """Return `package==version` and the folder of the libraries. The folder is None if they must be downloaded."""
    for package in _WITH_DIRECTML if sys.platform == "win32" else ():  # the packages exist for Windows only
        with suppress(importlib.metadata.PackageNotFoundError):
            distribution = importlib.metadata.distribution(package)
            folder = Path(str(distribution.locate_file(FOR_WINDOWS.folder)))
            if (folder / LIBRARIES[0]).is_file():
                return f"{package}=={distribution.version}", folder
    return FOR_WINDOWS.spec, None
