"""Base of the ways to install and run the host program."""

from __future__ import annotations

import hashlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from sliceport.directml.device.libraries import PACKAGE, VERSION
from sliceport.directml.device.programs import source

Progress = Callable[[str], None]
_OPTIONS = ("-std=c++17", "-O1", "-w", "-fms-extensions", "-DDML_TARGET_VERSION_USE_LATEST", "-D_Maybenull_=")


class HostBackend(ABC):
    """A way to run the host program on this machine.

    Attributes:
        text: A short description.
        disk: The disk space that an installation takes.
        sources: The files of the package that an installation is made from.
    """

    text: str
    disk: str
    sources: tuple[str, ...] = ("host.cpp", "guids.h", "native_vkd3d.h")

    @abstractmethod
    def missing(self) -> str | None:
        """Return what this machine lacks for an installation, as part of a sentence, or None."""

    @abstractmethod
    def build(self, folder: Path, say: Progress) -> None:
        """Fill an empty folder with an installation, which may be moved afterwards.

        Raises:
            DeviceError: A step failed.
        """

    @abstractmethod
    def home(self, folder: Path) -> Path:
        """Return the folder of the host program in an installation."""

    @abstractmethod
    def command(self, folder: Path) -> list[str]:
        """Return the command that runs the host program. Its auxiliary processes must exit with it.

        Raises:
            DeviceError: This machine cannot run it.
        """

    def describe_way(self, folder: Path) -> dict[str, str]:  # noqa: ARG002 - for backends with several ways
        """Return how programs of an installation are run, for `status`."""
        return {}

    def hash_recipe(self) -> str:
        """Return a hash of all that decides what an installation consists of."""
        digest = hashlib.sha256(f"{PACKAGE}=={VERSION} {_OPTIONS} {self._ingredients()}".encode())
        for name in self.sources:
            digest.update(source(name).read_bytes())
        return digest.hexdigest()[:12]

    def copy_sources(self, home: Path) -> None:
        """Copy the files that an installation is made from."""
        for name in self.sources:
            shutil.copyfile(source(name), home / name)

    def _ingredients(self) -> str:
        """Return the part of the recipe that only this backend has."""
        return self.text


def compile_command(compiler: str, home: str, *options: str) -> list[str]:
    """Return the command that compiles the host program.

    Args:
        compiler: The command of mingw's g++.
        home: The folder of the sources, as the compiler sees it.
        options: More options, such as folders of headers.
    """
    command = [compiler, *_OPTIONS, "-D_stdcall=__stdcall", *options, "-static", "-s"]
    return [*command, f"{home}/host.cpp", "-o", f"{home}/host.exe", "-luuid", "-ldxguid"]
