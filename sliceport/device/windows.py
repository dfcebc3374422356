"""DirectML on Windows: a Python process calls the libraries, on the adapter that SLICEPORT_ADAPTER selects."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from sliceport.device.libraries import install_libraries
from sliceport.device.programs import Progress

ADAPTER = "SLICEPORT_ADAPTER"
"""The environment variable with the number of the adapter, in the order of DXGI; 0 if it is not set."""


class Windows:
    """The backend of Windows, which needs no compiler. `WineRoot` describes its members."""

    text = recipe = "natively on Windows"

    def missing_requirement(self) -> str | None:
        """Return what this machine lacks for an installation, as part of a sentence; None if it lacks nothing."""
        machine = platform.machine()
        return None if machine == "AMD64" else f"this machine is {machine}, and the libraries are for x86-64"

    def program_folder(self, folder: Path) -> Path:
        """Return the folder of the host program, which is the installation itself."""
        return folder

    def command(self, folder: Path) -> list[str]:
        """Return the command of the host program, which is a module of this package."""
        return [sys.executable, "-m", "sliceport.device.windows_host", str(folder)]

    def describe_isolation(self, _: Path) -> dict[str, str]:
        """Return no facts, because there is only one way in which programs run."""
        return {}

    def build(self, folder: Path, say: Progress) -> None:
        """Copy the libraries of the installed onnxruntime, or download them."""
        install_libraries(folder, say)
