"""Base of the ways to install and run the host program."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from sliceport.directml.device.libraries import PACKAGE, VERSION

Progress = Callable[[str], None]


class HostBackend(ABC):
    """A way to run the host program on this machine.

    Attributes:
        text: A short description.
    """

    text: str

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

    def describe_isolation(self, folder: Path) -> dict[str, str]:  # noqa: ARG002 - for backends with several ways
        """Return how programs of an installation are run, for `status`; an empty dict if there is only one way."""
        return {}

    def hash_recipe(self) -> str:
        """Return a hash of the recipe of an installation, that is, of all that determines its content."""
        return hashlib.sha256(f"{PACKAGE}=={VERSION} {self._ingredients()}".encode()).hexdigest()[:12]

    def _ingredients(self) -> str:
        """Return the part of the recipe that only this backend has."""
        return self.text
