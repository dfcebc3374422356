"""DirectML on Windows: the host program runs natively, on the machine's first adapter."""

from __future__ import annotations

import shutil
from pathlib import Path

from sliceport.directml.device.backend import HostBackend, Progress, compile_command
from sliceport.directml.device.libraries import install_libraries
from sliceport.directml.device.programs import run

_COMPILERS = ("x86_64-w64-mingw32-g++", "g++")


class Windows(HostBackend):
    """The backend of Windows; it needs mingw-w64's compiler, with headers of DirectX, onnxruntime and nlohmann-json."""

    text = "natively on Windows"
    disk = "about 50 MB"

    def missing(self) -> str | None:
        """Return what this machine lacks for an installation, or None."""
        if _find_compiler() is None:
            return (
                "no g++ of mingw-w64 is on the path; MSYS2 has it, as mingw-w64-x86_64-gcc, with "
                "mingw-w64-x86_64-directx-headers, -onnxruntime and -nlohmann-json"
            )
        return None

    def home(self, folder: Path) -> Path:
        """Return the folder itself."""
        return folder

    def command(self, folder: Path) -> list[str]:
        """Return the host program. Windows loads the libraries in its folder rather than the system's."""
        return [str(folder / "host.exe")]

    def build(self, folder: Path, say: Progress) -> None:
        """Compile with mingw's own headers."""
        compiler = _find_compiler()
        assert compiler is not None
        install_libraries(folder, say)
        say("building the host program")
        self.copy_sources(folder)
        run(compile_command(compiler, str(folder)), "the compiler")


def _find_compiler() -> str | None:
    return next(filter(None, map(shutil.which, _COMPILERS)), None)
