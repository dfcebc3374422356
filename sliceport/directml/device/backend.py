"""Base of the ways to run the host program: it installs the libraries and the program, and marks what is done.

Everything lies in one folder of the user's cache. Each step writes under another name and renames its result, so that
an interrupted installation continues at the step where it stopped.
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
    """Return the path of a source file of the package."""
    return Path(str(resources.files("sliceport.directml.device").joinpath("host"))) / name


class HostBackend(ABC):
    """A way to run the host program on this machine.

    Attributes:
        text: A short description.
        folder: The folder of the installation.
        disk: The disk space that the installation takes.
        sources: The source files of the host program.
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
        """Return what this machine lacks for an installation, as part of a sentence, or None."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that runs the host program. Its auxiliary processes must exit with it."""

    def prepare(self, say: Progress) -> None:  # noqa: B027 - optional step
        """Do the steps before the libraries and the host program are installed."""

    def complete(self, say: Progress) -> None:  # noqa: B027 - optional step
        """Do the steps after the libraries and the host program are installed."""

    def is_complete(self) -> bool:
        """Whether `complete` is done."""
        return True

    def build(self) -> None:
        """Compile the sources in `home` to the host program."""
        self.compile(self.home, "x86_64-w64-mingw32-g++", ["-I", f"{self.home}/include"])

    def compile(self, home: Path, compiler: str, include: Sequence[str], before: Sequence[str] = ()) -> None:
        """Compile the host program.

        Args:
            home: The folder of the host program as the compiler sees it.
            compiler: The command of the compiler.
            include: Options with the folders of headers.
            before: Words in front of the command, such as `chroot` and its root.
        """
        words = [*before, compiler, *_OPTIONS, "-D_stdcall=__stdcall", *include, "-static"]
        words += [str(home / "host.cpp"), "-o", str(home / "host.exe.new"), "-luuid", "-ldxguid"]
        run(words, "the compiler")
        os.replace(self.home / "host.exe.new", self.home / "host.exe")

    def link_headers(self) -> None:
        """Symlink only the needed headers into `home/include`.

        Adding /usr/include itself would expose Linux headers of the C library to the Windows compiler.
        """
        include = self.home / "include"
        include.mkdir(exist_ok=True)
        for name in _HEADERS:
            if not (include / name).is_symlink():
                (include / name).symlink_to(f"/usr/include/{name}")

    def is_installed(self) -> bool:
        """Whether every step of an installation is done, with the host program of this version."""
        return self._is_built() and self.is_complete()

    def _is_built(self) -> bool:
        """Whether the host program was built from the sources of this version."""
        stamp = self.home / ".host"
        is_current = stamp.is_file() and stamp.read_text() == self._hash_sources()
        return is_current and (self.home / "host.exe").is_file()

    def install(self, say: Progress) -> None:
        """Install DirectML, or continue an interrupted installation.

        Raises:
            DeviceError: A step failed.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.prepare(say)
            self.home.mkdir(parents=True, exist_ok=True)
            if not all((self.home / name).exists() for name in LIBRARIES):
                install_libraries(self.home, say)
            if not self._is_built():
                say("building the host program")
                for name in self.sources:
                    shutil.copyfile(source(name), self.home / name)
                self.build()
                (self.home / ".host").write_text(self._hash_sources())
            self.complete(say)
        except OSError as error:
            raise DeviceError(f"DirectML cannot be installed in {self.folder} ({error}).") from None

    def _hash_sources(self) -> str:
        digest = hashlib.sha256()
        for name in self.sources:
            digest.update(source(name).read_bytes())
        return digest.hexdigest()


def run(words: Sequence[str], what: str, folder: Path | None = None) -> str:
    """Run a program to its end and return its standard output.

    Args:
        words: The command.
        what: Name of the program in messages.
        folder: Its working directory.

    Raises:
        DeviceError: The program cannot be started or fails.
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
