"""DirectML in the machine's own Wine, on a Linux that has Wine 10, lavapipe and a compiler; root is not needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from sliceport.directml.device.backend import HostBackend, Progress, run
from sliceport.directml.device.errors import DeviceError
from sliceport.directml.device.launch import launch, make_prefix
from sliceport.user_cache import user_cache

MIN_WINE = 10
_PROGRAMS = ("Xvfb", "unshare", "mount", "chroot", "x86_64-w64-mingw32-g++")
_HEADERS = ("directx/DirectML.h", "onnxruntime/onnxruntime_c_api.h", "nlohmann/json.hpp")


class MachineWine(HostBackend):
    """The Wine that is installed."""

    text = "the machine's own Wine, and lavapipe"
    disk = "about 0.5 GB"

    def __init__(self) -> None:
        self.folder = user_cache() / "directml-wine"

    def missing(self) -> str | None:
        """What this machine lacks to install."""
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

    def command(self) -> list[str]:
        """The host program, in namespaces of its own."""
        return launch(Path("/"), self.folder, "wine", "host.exe")

    def build(self) -> None:
        """Compile with the machine's mingw."""
        self.link_headers()
        super().build()

    def complete(self, say: Progress) -> None:
        """Make the Wine prefix."""
        if not self.is_complete():
            say("making a Wine prefix")
            make_prefix(Path("/"), self.folder, self.folder)

    def is_complete(self) -> bool:
        """Whether there is a Wine prefix."""
        return (self.folder / "prefix").is_dir()


def wine_version() -> int | None:
    """The major version of the machine's Wine; None where there is none."""
    program = shutil.which("wine")
    if program is None:
        return None
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.match(r"wine-(\d+)", done.stdout)
    return int(found[1]) if found else None
