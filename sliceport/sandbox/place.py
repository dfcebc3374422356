"""Write files and folders whole or not at all: written into a scratch folder next to the output, then renamed."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from sliceport.errors import UsageError
from sliceport.sandbox.scratch import new_name, remove_abandoned
from sliceport.wording import spell
from sliceport.wording.json_text import to_text

_PREFIX = ".sliceport-"
_NOT_FOR_WINDOWS = re.compile(
    r'.*[<>:"|?*\x01-\x1f].*|.*[ .]|(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9\u00b9\u00b2\u00b3])( *[.:].*)?',
    re.IGNORECASE | re.DOTALL,
)
"""Names that Windows refuses, or that stand for devices, streams and other files there
(https://learn.microsoft.com/windows/win32/fileio/naming-a-file)."""
_RETRY_TIME = 2.0
"""Seconds to retry on Windows, where an open file can be neither renamed nor replaced."""


def fill_folder(
    directory: str | os.PathLike[str],
    fill: Callable[[Path], None],
    *,
    mark: str,
    others: Sequence[str] = (),
    overwrite: bool = False,
    is_mark: Callable[[Path], bool] = os.path.isfile,
) -> None:
    """Write a folder as a whole: fill a scratch folder, then rename it. `collect_placements` can defer the renaming.

    Args:
        directory: The output folder.
        fill: Writes the files into a given folder.
        mark: The name of a file that every folder of an earlier run contains. A folder without it is never replaced.
        others: Patterns of further files of a run, such as `dxdispatch/*.json`. A folder with any other file is not
            replaced.
        overwrite: Whether to replace a folder of an earlier run.
        is_mark: Returns whether an earlier run wrote a file with the name `mark`; by default, every file counts.

    Raises:
        UsageError: The folder exists and must be kept, cannot be made or written, or on Windows has a forbidden name.
    """
    target = Path(directory)
    _check_windows_name(target)
    if os.path.lexists(target):
        if not overwrite:
            raise _existing_target_error(target, "folder")
        if not is_mark(target / mark) or target.is_symlink():
            raise UsageError(f"output '{target}' is not a folder of an earlier run, so it is not overwritten.")
        try:
            unexpected = _find_unexpected(target, (mark, *others))
        except OSError as error:
            raise UsageError(f"output '{target}' cannot be read ({error.strerror}).") from None
        if unexpected is not None:
            raise UsageError(f"output '{target}' holds {unexpected!r}, which is not overwritten; move it elsewhere.")
    with _scratch_beside(target) as scratch:
        fill(scratch)
        _rename_or_defer(Placement(scratch, ((scratch, target),), overwrite))


def _find_unexpected(folder: Path, patterns: Sequence[str]) -> str | None:
    """Return the relative path of an entry that matches no pattern or links to a folder; None if all entries fit."""

    def raise_error(error: OSError) -> None:  # by default, `os.walk` skips folders that it cannot read
        raise error

    folder_patterns = [pattern.rpartition("/")[0] for pattern in patterns]  # the folders of expected files
    for base, subfolders, files in os.walk(folder, onerror=raise_error):  # symlinks are not followed
        for name in sorted((*subfolders, *files)):
            entry = Path(base, name)
            path = entry.relative_to(folder).as_posix()
            expected = folder_patterns if entry.is_dir() else patterns
            if entry.is_dir() and entry.is_symlink():  # no run makes links to folders
                return path
            # Slashes are counted, because `*` of `fnmatch` also matches slashes.
            if not any(path.count("/") == pattern.count("/") and fnmatchcase(path, pattern) for pattern in expected):
                return path
    return None


def write_files(
    files: Sequence[Path],
    write: Callable[[Path], None],
    *,
    overwrite: bool = False,
    accept: Callable[[Path], bool] = lambda _: True,
) -> None:
    """Write files of one folder, all or none, like `fill_folder`. A file that is a symlink is replaced, not followed.

    Args:
        files: The files. The file that refers to the others is last, so that it never exists without them.
        write: Writes files of the same names into a given folder.
        overwrite: Whether to replace files that exist.
        accept: Returns whether to keep the files that were written into a given folder.

    Raises:
        UsageError: A file exists and is to be kept, is a folder, cannot be written, or on Windows has a forbidden name.
    """
    for file in files:
        _check_target(file, overwrite)
    with _scratch_beside(files[-1]) as scratch:
        write(scratch)
        if accept(scratch):
            _rename_or_defer(Placement(scratch, tuple((scratch / file.name, file) for file in files), overwrite))


def refuse_data_files(files: Iterable[Path], data_files: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to write files over data files of a model, even through a link.

    Raises:
        UsageError: A file to be written is a data file.
    """
    existing = [name for name in dict.fromkeys(data_files) if os.path.exists(name)]
    for file in files:
        if os.path.exists(file) and any(os.path.samefile(file, name) for name in existing):
            raise UsageError(f"output '{file}' is a file with weights of the model; give another name.")


def check_output(file: Path, *, overwrite: bool) -> None:
    """Check, before a long computation, that `write_files` can write a file. Make its folder if necessary.

    Raises:
        UsageError: `write_files` would refuse the file.
    """
    _check_target(file, overwrite)
    with _scratch_beside(file):  # fails if the folder is not writable
        pass


def _check_target(file: Path, overwrite: bool) -> None:
    """Raise a UsageError if `file` is a folder, exists and must be kept, or on Windows has a forbidden name."""
    _check_windows_name(file)
    if os.path.isdir(file):
        raise UsageError(f"output '{file}' is a folder.")
    if os.path.lexists(file) and not overwrite:
        raise _existing_target_error(file, "name")


def _check_windows_name(target: Path) -> None:
    """Raise a UsageError on Windows for a name that Windows does not allow."""
    if sys.platform == "win32" and _NOT_FOR_WINDOWS.fullmatch(target.name):
        raise UsageError(f"output '{target}' has a name that Windows does not allow for files; give another name.")


def _existing_target_error(target: Path, noun: str) -> UsageError:
    """Return the error for a file or folder that must not be replaced. Its message suggests another `noun`."""
    option = spell("overwrite=True", "--overwrite")
    return UsageError(f"output '{target}' exists; give another {noun} or {option}.")


def move(source: Path, target: Path, *, overwrite: bool = True) -> None:
    """Rename a file or folder. With `overwrite`, a file replaces an existing file; folders ignore `overwrite`.

    On a file system without hard links, a file replaces an existing file even without `overwrite`. On Windows, retry
    for 2 s if another process has the file open.

    Raises:
        OSError: The system refuses, or an existing file must not be replaced.
    """
    rename: Callable[[Path], object] = source.rename
    if not source.is_dir():
        rename = source.replace if overwrite else partial(_rename_without_replacing, source)
    deadline = time.monotonic() + _RETRY_TIME
    while True:
        try:
            rename(target)
            return
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _rename_without_replacing(source: Path, target: Path) -> None:
    """Rename a file by a hard link, because a rename would replace a file that another process made."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):  # no hard link can be made; the target may then be replaced
        source.replace(target)
    else:
        source.unlink()


@contextmanager
def _scratch_beside(target: Path) -> Iterator[Path]:
    """Yield a new folder beside `target`. Remove it afterwards, unless `_rename_or_defer` deferred the renaming.

    Raises:
        UsageError: The file system refuses the folder or the target's name, or the `with` block raises an OSError.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            target.lstat()  # raises another error if the file system refuses the name
        with suppress(OSError):  # the folder may be writable, but not readable
            remove_abandoned(target.parent, _PREFIX)
        owner = new_name() if _deferral is None else _deferral.owner
        folder = target.parent / f"{_PREFIX}{owner}{os.urandom(6).hex()}"
        folder.mkdir()  # with the usual permissions; `tempfile` makes private folders
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"output '{target}' cannot be made ({reason}).") from None
    try:
        yield folder
    except OSError as error:
        raise _to_usage_error(target, error) from None
    finally:
        if _deferral is None or all(placement.scratch != folder for placement in _deferral.placements):
            shutil.rmtree(folder, ignore_errors=True)


def _to_usage_error(target: Path, error: OSError) -> UsageError:
    """Return the error for an output that cannot be written."""
    return UsageError(f"output '{target}' cannot be written ({error.strerror or error}).")


@dataclass(frozen=True)
class Placement:
    """Files in a scratch folder, with the paths to rename them to.

    Attributes:
        scratch: The scratch folder.
        pairs: Each new file or folder and its final path; the file that refers to the others is last.
        overwrite: Whether to replace existing files.
    """

    scratch: Path
    pairs: tuple[tuple[Path, Path], ...]
    overwrite: bool

    def commit(self) -> None:
        """Rename the files to their final paths, all or none, and remove the scratch folder.

        Raises:
            UsageError: A file cannot be put into place, or exists and is to be kept.
        """
        try:
            _rename(self.pairs, self.overwrite)
        except OSError as error:
            raise _to_usage_error(self.pairs[-1][1], error) from None  # the path that the user gave is last
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)


def _rename_or_defer(placement: Placement) -> None:
    """Rename new files to their final paths, or only list `placement` if `collect_placements` collects this output."""
    if _deferral is not None and _deferral.output == placement.pairs[-1][1]:  # the path that the user gave is last
        _deferral.placements.append(placement)
    else:
        placement.commit()


@dataclass(frozen=True)
class _Deferral:
    """Placements of `output` that another process carries out. Other files, such as caches, are not deferred."""

    output: Path
    owner: str
    placements: list[Placement]


_deferral: _Deferral | None = None


@contextmanager
def collect_placements(output: Path, owner: str) -> Iterator[list[Placement]]:
    """Yield a list that collects the new files of an output. Another process renames them to their final paths.

    Args:
        output: The path of the file or folder that the user asked for.
        owner: A name that `new_name` returned to the other process. The names of scratch folders contain it, so that
            `remove_scratch` finds them if this process dies.
    """
    global _deferral  # noqa: PLW0603 - a child does one thing at a time
    _deferral = _Deferral(output, owner, [])
    try:
        yield _deferral.placements
    finally:
        _deferral = None


def remove_scratch(parent: Path, owner: str) -> None:
    """Remove the scratch folders in `parent` that were made for `owner`, a name that `new_name` returned."""
    with suppress(OSError):  # the command may have failed before it made the folder
        for entry in os.scandir(parent):
            if entry.name.startswith(f"{_PREFIX}{owner}"):
                shutil.rmtree(entry.path, ignore_errors=True)


def _rename(pairs: Sequence[tuple[Path, Path]], overwrite: bool) -> None:
    """Rename new files or folders to their final paths, in the order of `pairs`, all or none.

    A single file replaces the old one in one step. Otherwise all old files are first moved into another folder, so that
    no old file exists together with a new one. Old files are moved in reverse order, because the last file refers to
    the others and must never exist without them. Old files are deleted at the end, or put back if anything fails.

    Raises:
        OSError: The system refuses.
        UsageError: A file exists and is to be kept, or old files cannot be put back; the message names their folder.
    """
    targets = [target for _, target in pairs]
    existing = [target for target in targets if os.path.lexists(target)]
    if existing and not overwrite:  # another process has made a target in the meantime
        raise _existing_target_error(existing[0], "name")
    if len(pairs) == 1 and not pairs[0][0].is_dir():
        move(*pairs[0], overwrite=overwrite)  # replaces the old file in one step
        return
    aside: Path | None = None
    if existing:
        # `remove_abandoned` keeps a folder of this name. If this process is killed, the user can take the files back.
        aside = targets[-1].parent / f"{_PREFIX}old-{os.urandom(6).hex()}"
        aside.mkdir()
    try:
        if aside is not None:
            for target in reversed(targets):
                with suppress(FileNotFoundError):  # `target` did not exist, or another process has removed it
                    move(target, aside / target.name)
        for new, target in pairs:
            move(new, target, overwrite=overwrite)
    except BaseException:
        _put_back(pairs, aside)
        raise
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)


def _put_back(pairs: Sequence[tuple[Path, Path]], aside: Path | None) -> None:
    """Undo an interrupted `_rename`. Raise a UsageError if old files in the folder `aside` cannot be put back."""
    try:
        for new, target in pairs:
            if os.path.lexists(target) and not os.path.lexists(new):  # otherwise `target` is still the old file
                move(target, new)
            if aside is not None and os.path.lexists(aside / target.name):
                move(aside / target.name, target)
    except OSError as error:
        if aside is None or not os.listdir(aside):
            return  # no old file is lost, and the caller raises the first error
        raise UsageError(
            f"output '{pairs[-1][1]}' cannot be written, and the earlier files cannot be put back "
            f"({error.strerror or error}): they are in '{aside}'."
        ) from None
    finally:
        if aside is not None:
            with suppress(OSError):
                aside.rmdir()


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write JSON with each array of integers on one line."""
    path.write_text(to_text(data, flat=True) + "\n", encoding="ascii")
