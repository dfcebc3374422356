"""The base of backends, which install and run the host program on a platform."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from sliceport.device.libraries import find_package

Progress = Callable[[str], None]
"""Function that shows a line about the step that begins."""


class HostBackend(ABC):
    """A way to install and run the host program. `text` is its short description for `status`."""

    text: str

    @abstractmethod
    def missing_requirement(self) -> str | None:
        """Return what this machine lacks for an installation, as part of a sentence; None if it lacks nothing."""

    @abstractmethod
    def build(self, folder: Path, say: Progress) -> None:
        """Fill an empty folder with an installation. It must still work after the folder is moved.

        Raises:
            DeviceError: A step failed.
            OSError: A file cannot be written.
        """

    def program_folder(self, folder: Path) -> Path:
        """Return the folder of the host program in an installation, by default the installation itself."""
        return folder

    @abstractmethod
    def command(self, folder: Path) -> list[str]:
        """Return the command that runs the host program. When the command ends, all processes that it started must end.

        `folder` is the folder of the installation.

        Raises:
            DeviceError: This machine cannot run the host program.
        """

    def describe_isolation(self, folder: Path) -> dict[str, str]:  # noqa: ARG002 - for backends with several ways
        """Return facts for `status` about the way in which programs run; empty if there is only one way."""
        return {}

    def hash_recipe(self) -> str:
        """Return a hash of the recipe: the package of the libraries to install and the `_ingredients`."""
        # 12 digits tell recipes apart and keep the folder's name short.
        return hashlib.sha256(f"{find_package()[0]} {self._ingredients()}".encode()).hexdigest()[:12]

    def _ingredients(self) -> str:
        """Return a text to hash. It must change whenever new installations of this backend get other content."""
        return self.text
