"""A way to run the host program on a machine, and what every way has in common: the libraries, the program, the stamp.

Everything lies in one folder of the user's cache. Each step is done once, in a place beside and renamed, so that an
installation that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from sliceport.directml.device.errors import DeviceError
from sliceport.directml.device.libraries import LIBRARIES, install_libraries

Progress = Callable[[str], None]
_OPTIONS = ("-std=c++17", "-O1", "-w", "-fms-extensions", "-DDML_TARGET_VERSION_USE_LATEST", "-D_Maybenull_=")
_HEADERS = ("directx", "onnxruntime", "nlohmann")


def source(name: str) -> Path:
    """A source file of the package."""
    return Path(str(resources.files("sliceport.directml.device").joinpath("host"))) / name


class HostBackend(ABC):
    """How the host program runs on this machine.

    Attributes:
        text: The way in a few words.
        folder: Where its installation lies.
        disk: How much disk that takes in the end.
    """

    text: str
    folder: Path
    disk: str
    sources: tuple[str, ...] = ("host.cpp", "guids.h")

    @property
    def home(self) -> Path:
        """The folder of the host program."""
        return self.folder

    @abstractmethod
    def missing(self) -> str | None:
        """What this machine lacks to install; None when nothing is missing."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command that runs the host program, with everything that it needs, so that all of it ends together."""

    def prepare(self, say: Progress) -> None:  # noqa: B027 - there may be nothing
        """What comes before the libraries and the host program."""

    def complete(self, say: Progress) -> None:  # noqa: B027 - there may be nothing
        """What comes after them."""

    def is_complete(self) -> bool:
        """Whether `complete` is done."""
        return True

    def build(self) -> None:
        """Put the host program from the sources in `home` there."""
        self.compile(self.home, "x86_64-w64-mingw32-g++", ["-I", f"{self.home}/include"])

    def compile(self, home: Path, compiler: str, include: Sequence[str], before: Sequence[str] = ()) -> None:
        """Compile the host program; `home` is its folder as the compiler sees it, `before` what enters its root."""
        words = [*before, compiler, *_OPTIONS, "-D_stdcall=__stdcall", *include, "-static"]
        words += [str(home / "host.cpp"), "-o", str(home / "host.exe.new"), "-luuid", "-ldxguid"]
        run(words, "the compiler")
        os.replace(self.home / "host.exe.new", self.home / "host.exe")

    def link_headers(self) -> None:
        """Give the headers a folder of their own: the C library's beside them are not for Windows."""
        include = self.home / "include"
        include.mkdir(exist_ok=True)
        for name in _HEADERS:
            if not (include / name).is_symlink():
                (include / name).symlink_to(f"/usr/include/{name}")

    def is_installed(self) -> bool:
        """Whether every step of an installation is done, with the host program of this version."""
        stamp = self.home / ".host"
        return (
            stamp.is_file()
            and stamp.read_text() == self._hash()
            and (self.home / "host.exe").is_file()
            and self.is_complete()
        )

    def install(self, say: Progress) -> None:
        """Install, or go on with an installation that was interrupted.

        Raises:
            DeviceError: A step failed.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.prepare(say)
            self.home.mkdir(parents=True, exist_ok=True)
            if not all((self.home / name).exists() for name in LIBRARIES):
                install_libraries(self.home, say)
            stamp = self.home / ".host"
            if not stamp.is_file() or stamp.read_text() != self._hash() or not (self.home / "host.exe").is_file():
                say("building the host program")
                for name in self.sources:
                    shutil.copyfile(source(name), self.home / name)
                self.build()
                stamp.write_text(self._hash())
            self.complete(say)
        except OSError as error:
            raise DeviceError(f"DirectML cannot be installed in {self.folder} ({error}).") from None

    def _hash(self) -> str:
        digest = hashlib.sha256()
        for name in self.sources:
            digest.update(source(name).read_bytes())
        return digest.hexdigest()


def run(words: Sequence[str], what: str, folder: Path | None = None) -> str:
    """Run a program to its end; its standard output.

    Raises:
        DeviceError: It cannot be started or fails.
    """
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, no shell
            words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise DeviceError(f"{what} cannot be started ({error.strerror}).") from None
    if done.returncode:
        last = " ".join((done.stderr or done.stdout).split())[-300:]
        raise DeviceError(f"{what} failed with exit code {done.returncode} ({last}).")
    return done.stdout
