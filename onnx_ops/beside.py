"""Writing files and folders whole or not at all: beside, and renamed into place."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnx_ops.errors import UsageError


def fill_folder(
    directory: str | os.PathLike[str], fill: Callable[[Path], None], *, mark: str, overwrite: bool = False
) -> None:
    """Make a folder and fill it, beside and renamed into place.

    Args:
        directory: The folder.
        fill: Writes the files into the folder that it is given.
        mark: The file by which a folder of an earlier run is known, the only kind that is overwritten.
        overwrite: Whether to replace such a folder.

    Raises:
        UsageError: The folder exists and must be kept, is not one that this wrote, or cannot be made.
    """
    target = Path(directory)
    if target.exists() or target.is_symlink():
        if not overwrite:
            raise UsageError(f"output {str(target)!r} exists; give another folder or --overwrite.")
        if not (target / mark).is_file() or target.is_symlink():
            raise UsageError(f"output {str(target)!r} is no folder of an earlier run, so it is not overwritten.")
    with _beside(target) as beside:
        fill(beside)
        beside.chmod(0o777 & ~_umask())
        _replace(beside, target)


def write_files(files: Sequence[Path], write: Callable[[Path], None], *, overwrite: bool = False) -> None:
    """Write files of one folder.

    Args:
        files: The files, the one that needs the others last: it never stands without them.
        write: Writes the files by these names into the folder that it is given.
        overwrite: Whether to replace files that exist.

    Raises:
        UsageError: A file exists and is to be kept, is a folder, or cannot be written.
    """
    for file in files:
        if file.is_dir():
            raise UsageError(f"output {str(file)!r} is a folder.")
        if (file.exists() or file.is_symlink()) and not overwrite:
            raise UsageError(f"output {str(file)!r} exists; give another name or --overwrite.")
    with _beside(files[-1]) as beside:
        write(beside)
        for file in files:
            (beside / file.name).replace(file)


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """A new folder beside a file or folder; gone afterwards.

    Raises:
        UsageError: It cannot be made, or an error of the operating system came while it lasted.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise UsageError(f"output {str(target)!r} cannot be made ({error.strerror}).") from None
    try:
        yield beside
    except OSError as error:
        raise UsageError(f"output {str(target)!r} cannot be written ({error.strerror or error}).") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _replace(beside: Path, target: Path) -> None:
    """Rename the new folder into place; the old one is only deleted once the new one stands."""
    old = None
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent)) / "old"
        target.rename(old)
    try:
        beside.rename(target)
    except OSError:
        if old is not None:
            old.rename(target)
        raise
    finally:
        if old is not None:
            shutil.rmtree(old.parent, ignore_errors=True)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write JSON that a person can read; arrays of numbers stay on one line."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    flat = re.sub(r"\[\s+(-?\d+(?:,\s+-?\d+)*)\s+\]", lambda m: "[" + re.sub(r",\s+", ", ", m[1]) + "]", text)
    path.write_text(flat + "\n", encoding="utf-8")
