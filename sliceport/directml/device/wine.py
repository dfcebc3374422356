"""DirectML in the machine's own Wine, on a Linux that has Wine 10, lavapipe and a compiler; root is not needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from sliceport.directml.device.backend import run
from sliceport.directml.device.errors import DeviceError
from sliceport.directml.device.launch import WineBackend, launch
from sliceport.user_cache import user_cache

MIN_WINE = 10
_PROGRAMS = ("Xvfb", "unshare", "mount", "chroot", "x86_64-w64-mingw32-g++")
_HEADERS = ("directx/DirectML.h", "onnxruntime/onnxruntime_c_api.h", "nlohmann/json.hpp")


class MachineWine(WineBackend):
    """The backend of the machine's own Wine."""

    text = "the machine's own Wine, and lavapipe"
    disk = "about 0.5 GB"

    def __init__(self) -> None:
        self.root, self.folder = Path("/"), user_cache() / "directml-wine"
        self.inner_home = self.folder

    def missing(self) -> str | None:
        """Return what this machine lacks for an installation, or None."""
        version = wine_version()
        if version is None:
            return f"there is no Wine {MIN_WINE} or newer"
        if version < MIN_WINE:
            return f"its Wine is {version}, older than {MIN_WINE}"
        for program in _PROGRAMS:
            if shutil.which(program) is None:
                return f"the program {program} is not installed beside its Wine"
        for header in _HEADERS:
            if not (Path("/usr/include") / header).is_file():
                return f"the header /usr/include/{header} is not installed beside its Wine"
        if not any(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json")):
            return "Mesa's lavapipe, a Vulkan driver, is not installed beside its Wine"
        try:
            run(launch(Path("/"), Path("/"), "true"), "unshare")
        except DeviceError as error:
            return f"namespaces cannot be made: {str(error).rstrip('.')}"
        return None

    def build(self) -> None:
        """Compile with the machine's mingw."""
        self.link_headers()
        super().build()


def wine_version() -> int | None:
    """Return the major version of the machine's Wine, or None if Wine is not installed."""
    program = shutil.which("wine")
    if program is None:
        return None
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.match(r"wine-(\d+)", done.stdout)
    return int(version[1]) if version else None
