"""DirectML on Windows: the host program runs natively, on the machine's first adapter."""

from __future__ import annotations

import shutil

from sliceport.directml.device.backend import HostBackend
from sliceport.user_cache import user_cache

_COMPILERS = ("x86_64-w64-mingw32-g++", "g++")


class Windows(HostBackend):
    """Windows itself. The compiler is mingw's, with the headers of DirectX, onnxruntime and nlohmann-json beside it."""

    text = "natively on Windows"
    disk = "about 50 MB"

    def __init__(self) -> None:
        self.folder = user_cache() / "directml"

    def missing(self) -> str | None:
        """What this machine lacks to install."""
        if self._compiler() is None:
            return (
                "no g++ of mingw-w64 is on the path; MSYS2 has it, as mingw-w64-x86_64-gcc, with "
                "mingw-w64-x86_64-directx-headers, -onnxruntime and -nlohmann-json"
            )
        return None

    def command(self) -> list[str]:
        """The host program; Windows takes the libraries beside it before its own."""
        return [str(self.folder / "host.exe")]

    def build(self) -> None:
        """Compile with mingw's own headers."""
        compiler = self._compiler()
        assert compiler is not None
        self.compile(self.folder, compiler, [])

    @staticmethod
    def _compiler() -> str | None:
        return next(filter(None, map(shutil.which, _COMPILERS)), None)
