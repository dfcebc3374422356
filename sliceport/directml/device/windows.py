"""DirectML on Windows: the host program runs natively, on the machine's first adapter."""

from __future__ import annotations

import shutil

from sliceport.directml.device.backend import HostBackend
from sliceport.user_cache import user_cache

_COMPILERS = ("x86_64-w64-mingw32-g++", "g++")


class Windows(HostBackend):
    """The backend of Windows; it needs mingw-w64's compiler, with headers of DirectX, onnxruntime and nlohmann-json."""

    text = "natively on Windows"
    disk = "about 50 MB"

    def __init__(self) -> None:
        self.folder = user_cache() / "directml"

    def missing(self) -> str | None:
        """Return what this machine lacks for an installation, or None."""
        if self._compiler() is None:
            return (
                "no g++ of mingw-w64 is on the path; MSYS2 has it, as mingw-w64-x86_64-gcc, with "
                "mingw-w64-x86_64-directx-headers, -onnxruntime and -nlohmann-json"
            )
        return None

    def command(self) -> list[str]:
        """Return the host program. Windows loads the libraries in its folder rather than the system's."""
        return [str(self.folder / "host.exe")]

    def build(self) -> None:
        """Compile with mingw's own headers."""
        compiler = self._compiler()
        assert compiler is not None
        self.compile(self.folder, compiler, [])

    @staticmethod
    def _compiler() -> str | None:
        return next(filter(None, map(shutil.which, _COMPILERS)), None)
