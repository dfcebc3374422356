"""The installation of the real DirectML in the user's cache, in a folder that appears whole or not at all."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

from sliceport.directml.device.backend import HostBackend, Progress
from sliceport.directml.device.client import Device
from sliceport.directml.device.errors import DeviceError
from sliceport.directml.device.windows import Windows
from sliceport.directml.device.wine_root import WineRoot
from sliceport.directml.operators import Slice1
from sliceport.directml.tensor import BufferTensor, DataType
from sliceport.errors import UsageError
from sliceport.sandbox.lock import locked
from sliceport.sandbox.place import fill_folder
from sliceport.user_cache import user_cache

_PREFIX = "directml"
_TIMEOUT = 120.0


def backend() -> HostBackend:
    """Return the backend of this platform."""
    return Windows() if sys.platform == "win32" else WineRoot()


def folder() -> Path:
    """Return the folder of the installation; every recipe has its own."""
    return user_cache() / f"{_PREFIX}-{backend().hash_recipe()}"


def other_folders() -> list[Path]:
    """Return the folders that installations of other versions left."""
    return sorted(set(user_cache().glob(f"{_PREFIX}*/")) - {folder()})


def is_installed() -> bool:
    """Whether DirectML is installed."""
    return folder().is_dir()


def missing() -> str | None:
    """Return what this machine lacks for an installation, as part of a sentence, or None."""
    return backend().missing()


def host_command() -> list[str]:
    """Return the command of the host program.

    Raises:
        DeviceError: DirectML is not installed.
    """
    if not is_installed():
        raise DeviceError("DirectML is not installed for sliceport here; run: sliceport directml install")
    return backend().command(folder())


def install(say: Progress = print) -> Path:
    """Install DirectML unless it is installed, and return its folder.

    If several processes install at once, one does and the others wait.

    Raises:
        DeviceError: Something is missing on this machine, a step failed, or the self-test did.
    """
    target = folder()
    if is_installed():
        return target
    lacking = missing()
    if lacking is not None:
        raise DeviceError(f"DirectML cannot be installed here: {lacking}.")
    try:
        with locked(user_cache() / f"{_PREFIX}.lock"):
            if not is_installed():
                fill_folder(target, lambda beside: _build(beside, say), mark="")
    except (OSError, UsageError) as error:
        raise DeviceError(f"DirectML cannot be installed in {target} ({str(error).rstrip('.')}).") from None
    return target


def _build(beside: Path, say: Progress) -> None:
    chosen = backend()
    chosen.build(beside, say)
    say("testing it")
    with Device(chosen.command(beside), _TIMEOUT) as opened:
        if not passes_self_test(opened):
            raise DeviceError("what was installed computes wrong values in the self-test, so it is removed.")


def uninstall() -> bool:
    """Remove all installations, and return whether there was one."""
    folders = [*other_folders(), *([folder()] if is_installed() else [])]
    for each in folders:
        shutil.rmtree(each)
    return bool(folders)


def passes_self_test(opened: Device) -> bool:
    """Run example 2 of DML_SLICE1's page, and return whether its values are right.

    Raises:
        DeviceError: The host program failed.
    """
    four, two = BufferTensor.of(DataType.FLOAT32, (1, 1, 4, 4)), BufferTensor.of(DataType.FLOAT32, (1, 1, 2, 2))
    operator = Slice1(four, two, 4, (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2))
    (result,) = opened.run(operator, np.arange(1, 17, dtype=np.float32).view(np.uint8))
    return np.array_equal(result.view(np.float32), [14, 16, 6, 8])
