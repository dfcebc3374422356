"""The installation of the real DirectML and of its validator, each in a folder of the user's cache."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from sliceport.device import validator
from sliceport.device.client import Device
from sliceport.device.errors import DeviceError
from sliceport.device.libraries import FOR_LINUX, find_package
from sliceport.device.programs import Progress
from sliceport.device.windows import Windows
from sliceport.device.wine_root import WineRoot
from sliceport.directml.operators import Slice1
from sliceport.directml.tensor import BufferTensor, DataType
from sliceport.errors import UsageError
from sliceport.sandbox.lock import locked
from sliceport.sandbox.place import fill_folder
from sliceport.sandbox.user_cache import user_cache

_PREFIX = "directml"
_4_BY_4, _2_BY_2 = BufferTensor.of(DataType.FLOAT32, (1, 1, 4, 4)), BufferTensor.of(DataType.FLOAT32, (1, 1, 2, 2))
_EXAMPLE = Slice1(_4_BY_4, _2_BY_2, 4, (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2))
"""Example 2 of DML_SLICE1_OPERATOR_DESC's page."""


def backend() -> Windows | WineRoot:
    """Return the backend of this platform."""
    return Windows() if sys.platform == "win32" else WineRoot()


def folder() -> Path:
    """Return the folder of the installation. Each recipe, and each package of the libraries, has its own folder."""
    ingredients = f"{find_package()[0]} {backend().recipe}"
    # 12 digits tell recipes apart and keep the folder's name short.
    return user_cache() / f"{_PREFIX}-{hashlib.sha256(ingredients.encode()).hexdigest()[:12]}"


def other_folders() -> list[Path]:
    """Return the folders of other installations, such as the folders of earlier versions."""
    folders = user_cache().glob(f"{_PREFIX}*/")  # the slash at the end excludes the lock file
    return sorted(set(folders) - {folder(), validator_folder()})


def is_installed() -> bool:
    """Return whether DirectML is installed."""
    return folder().is_dir()


def missing_requirement() -> str | None:
    """Return what this machine lacks for an installation, as part of a sentence; None if it lacks nothing."""
    return backend().missing_requirement()


def host_command() -> list[str]:
    """Return the command of the host program.

    Raises:
        DeviceError: DirectML is not installed, or cannot run on this machine.
    """
    if not is_installed():
        raise DeviceError("DirectML is not installed for sliceport here; run: sliceport directml install")
    return backend().command(folder())


def validator_folder() -> Path:
    """Return the folder of the library that validates operators natively, without Wine."""
    if sys.platform == "win32":
        return folder()
    return user_cache() / f"{_PREFIX}-validator-{FOR_LINUX.sha256[:12]}"


def is_validator_installed() -> bool:
    """Return whether the library that validates operators is installed."""
    return validator_folder().is_dir()


def install_validator(say: Progress = print) -> Path:
    """Install the library that validates operators (on Windows, all of DirectML) if it is missing. Return its folder.

    Raises:
        DeviceError: This machine cannot load the library, a step failed, or the self-test failed.
        ChildLost: The machine ended the process of the self-test.
    """
    if sys.platform == "win32":
        return install(say)
    lacking = validator.missing_requirement()
    return _install("DirectML's validator", validator_folder(), lacking, lambda home: _download_validator(home, say))


def install(say: Progress = print) -> Path:
    """Install DirectML unless it is installed, and return its folder.

    Raises:
        DeviceError: Something is missing on this machine, a step failed, or the self-test failed.
    """
    return _install("DirectML", folder(), missing_requirement(), lambda scratch: _build_host(scratch, say))


def _install(title: str, target: Path, lacking: str | None, build: Callable[[Path], None]) -> Path:
    """Build the folder `target` unless it exists, and return it. The folder appears complete or not at all.

    `lacking` names something that this machine lacks, or is None. `build` fills an empty folder. If several processes
    call this at once, one builds the folder and the others wait. Raise DeviceError if the folder cannot be built.
    """
    if target.is_dir():
        return target
    if lacking is not None:
        raise DeviceError(f"{title} cannot be installed here: {lacking}.")
    try:
        with locked(user_cache() / f"{_PREFIX}.lock"):
            if not target.is_dir():  # another process may have built it in the meantime
                fill_folder(target, build, mark="")  # a mark is only needed to overwrite a folder
    except (OSError, UsageError) as error:
        raise DeviceError(f"{title} cannot be installed in {target} ({str(error).rstrip('.')}).") from None
    return target


def _download_validator(scratch: Path, say: Progress) -> None:
    """Download the library for Linux into a folder, and test it with a valid and an invalid operator."""
    say(f"downloading {FOR_LINUX.spec} for its {FOR_LINUX.libraries[0]}, 25 MB")
    FOR_LINUX.install(scratch)
    say("testing it")
    # The third stride is -2, as in the example, or 0, which is invalid.
    accepted, refused = (replace(_EXAMPLE, input_window_strides=(1, 1, step, 2)) for step in (-2, 0))
    if validator.create_operator(scratch, accepted) != 0 or validator.create_operator(scratch, refused) == 0:
        raise DeviceError("the installed library gives wrong verdicts in the self-test, so it is removed.")


def _build_host(scratch: Path, say: Progress) -> None:
    """Install DirectML with its host program into a folder, and test that it computes right values."""
    host = backend()
    host.build(scratch, say)
    say("testing it")
    with Device(host.command(scratch)) as opened:
        if not passes_self_test(opened):
            raise DeviceError("the installed DirectML computes wrong values in the self-test, so it is removed.")


def uninstall() -> bool:
    """Remove all installations, also of the validator, and return whether any existed.

    Raises:
        OSError: A folder cannot be removed.
    """
    folders = [*other_folders(), *filter(Path.is_dir, {folder(), validator_folder()})]  # the two are equal on Windows
    for installation in folders:
        shutil.rmtree(installation)
    return bool(folders)


def passes_self_test(opened: Device) -> bool:
    """Run `_EXAMPLE`, and return whether its values are right.

    Raises:
        DeviceError: DirectML or the host program failed.
    """
    (result,) = opened.run(_EXAMPLE, np.arange(1, 17, dtype=np.float32).view(np.uint8))
    return np.array_equal(result.view(np.float32), [14, 16, 6, 8])
