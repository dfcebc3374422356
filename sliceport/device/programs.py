"""Programs of this machine that run to their end, and the files of this package that they read."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from sliceport.device.errors import DeviceError

Progress = Callable[[str], None]
"""Function that shows a line about the step that begins."""


def host_file(name: str) -> Path:
    """Return the path of a file in the package's folder `host`."""
    return Path(str(resources.files("sliceport.device").joinpath("host"))) / name


def run(command: Sequence[str], name: str, folder: Path | None = None, timeout: float | None = None) -> str:
    """Run a program to its end and return its standard output.

    Args:
        command: The program and its arguments.
        name: Name of the program in messages.
        folder: Its working directory.
        timeout: Time limit in seconds.

    Raises:
        DeviceError: The program cannot be started, fails, or does not end in time.
    """
    try:
        completed = subprocess.run(  # noqa: S603 - fixed programs, no shell
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"{name} did not end within {timeout:g} s.") from None
    except OSError as error:
        raise DeviceError(f"{name} cannot be started ({error.strerror}).") from None
    if completed.returncode:
        # The end of the output is most likely to name the error, and 300 characters fit a message.
        last_output = " ".join((completed.stderr or completed.stdout).split())[-300:]
        raise DeviceError(f"{name} failed with exit code {completed.returncode} ({last_output}).")
    return completed.stdout
