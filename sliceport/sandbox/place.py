"""Write files and folders whole or not at all: into a scratch folder beside their place, and renamed."""

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
from pathlib import Path
from typing import Any

from sliceport.errors import UsageError
from sliceport.json_text import to_text
from sliceport.wording import spell

_PREFIX = ".sliceport-"
_NOT_FOR_WINDOWS = re.compile(
    r'.*[<>:"|?*\x01-\x1f].*|.*[ .]|(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9\u00b9\u00b2\u00b3])( *[.:].*)?',
    re.IGNORECASE | re.DOTALL,
)
"""Names that are no files there, or other ones: devices, and streams of files
(https://learn.microsoft.com/windows/win32/fileio/naming-a-file)."""
_PATIENCE = 2.0
"""Seconds in which others on Windows should have closed a file that is to be renamed, or replaced."""


def fill_folder(
    directory: str | os.PathLike[str],
    fill: Callable[[Path], None],
    *,
    mark: str,
    others: Sequence[str] = (),
    overwrite: bool = False,
) -> None:
    """Make a folder and fill it, beside and renamed into place.

    Args:
        directory: The folder.
        fill: Writes the files into the folder that it is given.
        mark: The file by which a folder of an earlier run is known, the only kind that is overwritten.
        others: Patterns of the files that such a folder has besides, as in `dxdispatch/*.json`; one with anything more
            is kept.
        overwrite: Whether to replace such a folder.

    Raises:
        UsageError: The folder exists and must be kept, is not one that this wrote, or cannot be made.
    """
    target = Path(directory)
    _refuse_name(target)
    if os.path.lexists(target):
        if not overwrite:
            option = spell("overwrite=True", "--overwrite")
            raise UsageError(f"output '{target}' exists; give another folder or {option}.")
        if not os.path.isfile(target / mark) or target.is_symlink():
            raise UsageError(f"output '{target}' is no folder of an earlier run, so it is not overwritten.")
        _check_holds_nothing_but(target, (mark, *others))
    with _beside(target) as beside:
        fill(beside)
        _put(Placement(beside, ((beside, target),)))


def remove_leftovers(parent: Path, seconds: float) -> None:
    """Remove what processes that were killed left beside the files and folders of a folder.

    Args:
        parent: The folder; nothing but this module writes such names into it.
        seconds: How long they must have been untouched, so that nobody is at work on them.
    """
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > seconds:
                shutil.rmtree(folder, ignore_errors=True)


def _check_holds_nothing_but(folder: Path, patterns: Sequence[str]) -> None:
    known = [pattern.split("/") for pattern in patterns]
    try:
        for name in _list_others(folder, (), known):
            raise UsageError(f"output '{folder}' holds {name!r}, which is not overwritten; move it elsewhere.")
    except OSError as error:
        raise UsageError(f"output '{folder}' cannot be read ({error.strerror}).") from None


def _list_others(folder: Path, above: tuple[str, ...], known: Sequence[Sequence[str]]) -> Iterator[str]:
    """What a folder holds that no pattern matches, part by part, sorted; so do the folders in it that patterns name."""
    for name in sorted(os.listdir(folder)):
        parts = (*above, name)
        fitting = [each for each in known if len(each) >= len(parts) and all(map(fnmatchcase, parts, each))]
        file = folder / name
        if file.is_dir() and not file.is_symlink() and any(len(each) > len(parts) for each in fitting):
            yield from _list_others(file, parts, known)
        elif file.is_dir() or not any(len(each) == len(parts) for each in fitting):
            yield "/".join(parts)


def write_files(
    files: Sequence[Path],
    write: Callable[[Path], None],
    *,
    overwrite: bool = False,
    accept: Callable[[Path], bool] = lambda _: True,
) -> None:
    """Write files of one folder. A file that is a link is replaced, not followed.

    Args:
        files: The files, the one that needs the others last: it never stands without them.
        write: Writes the files by these names into the folder that it is given.
        overwrite: Whether to replace files that exist.
        accept: Whether to keep what was written into the folder that it is given.

    Raises:
        UsageError: A file exists and is to be kept, is a folder, or cannot be written.
    """
    for file in files:
        _refuse_name(file)
        if os.path.isdir(file):
            raise UsageError(f"output '{file}' is a folder.")
        if os.path.lexists(file) and not overwrite:
            raise UsageError(f"output '{file}' exists; give another name or {spell('overwrite=True', '--overwrite')}.")
    with _beside(files[-1]) as beside:
        write(beside)
        if not accept(beside):
            return
        _put(Placement(beside, tuple((beside / file.name, file) for file in files)))


def check_not_read(files: Iterable[Path], read: Iterable[str], source: str | os.PathLike[str]) -> None:
    """Refuse to write where a model has its data.

    Args:
        files: What is to be written.
        read: The data files of the model.
        source: The model's file.

    Raises:
        UsageError: One of the files is one of these.
    """
    data = [name for name in dict.fromkeys(read) if os.path.exists(name)]
    for file in files:
        if os.path.exists(file) and any(os.path.samefile(file, name) for name in data):
            raise UsageError(f"output '{file}' is where '{os.fspath(source)}' has its weights; give another name.")


def check_output(file: Path) -> None:
    """Find out before something long whether a file can be made.

    Raises:
        UsageError: It cannot: it is a folder, or nothing can be written beside it.
    """
    _refuse_name(file)
    if os.path.isdir(file):
        raise UsageError(f"output '{file}' is a folder.")
    with _beside(file):
        pass


def _refuse_name(target: Path) -> None:
    """Refuse what Windows would not take for the name of a file.

    Raises:
        UsageError: It is such a name.
    """
    if sys.platform == "win32" and _NOT_FOR_WINDOWS.fullmatch(target.name):
        raise UsageError(f"output '{target}' has a name that Windows gives no file; give another one.")


def move(source: Path, target: Path) -> None:
    """Rename a file or folder, a file in place of one that there may be.

    Raises:
        OSError: It cannot be, on Windows for a while, as somebody may have a file open.
    """
    rename = source.rename if source.is_dir() else source.replace
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            rename(target)
            return
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Make a scratch folder beside a file or folder, and remove it afterwards unless its placement is deferred.

    Raises:
        UsageError: The folder cannot be made, or an error of the operating system came within the context.
    """
    folder = _make_beside(target)
    try:
        yield folder
    except OSError as error:
        raise _cannot_write(target, error) from None
    finally:
        if _deferral is None or all(each.scratch != folder for each in _deferral.placements):
            shutil.rmtree(folder, ignore_errors=True)


def _cannot_write(target: Path, error: OSError) -> UsageError:
    return UsageError(f"output '{target}' cannot be written ({error.strerror or error}).")


@dataclass(frozen=True)
class Placement:
    """Files that wait in a scratch folder for their place.

    Attributes:
        scratch: The scratch folder.
        pairs: Each new file or folder and its place, the one that needs the others last.
    """

    scratch: Path
    pairs: tuple[tuple[Path, Path], ...]

    def commit(self) -> None:
        """Put the files into place, all or none, and remove the scratch folder.

        Raises:
            UsageError: A file cannot be put into place.
        """
        try:
            _put_now(self.pairs)
        except OSError as error:
            raise _cannot_write(self.pairs[-1][1], error) from None
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)


def _put(placement: Placement) -> None:
    if _deferral is not None and _deferral.output == placement.pairs[-1][1]:
        _deferral.placements.append(placement)
    else:
        _put_now(placement.pairs)


def _put_now(pairs: Sequence[tuple[Path, Path]]) -> None:
    if len(pairs) == 1 and not pairs[0][0].is_dir():
        move(*pairs[0])  # in one step
    else:  # an old file never stands with new ones
        _rename(pairs)


@dataclass(frozen=True)
class _Deferral:
    """Placements that another process carries out.

    Attributes:
        output: The file or folder whose placement is deferred; other files, such as those of caches, are not.
        token: Part of the names of scratch folders, by which that process finds them if this one dies.
        placements: The placements so far.
    """

    output: Path
    token: str
    placements: list[Placement]


_deferral: _Deferral | None = None


@contextmanager
def deferred(output: Path, token: str) -> Iterator[list[Placement]]:
    """Collect the placements of an output for another process instead of carrying them out.

    Args:
        output: The file or folder, the main one of several.
        token: See `remove_scratch`.
    """
    global _deferral  # noqa: PLW0603 - a child does one thing at a time
    _deferral = _Deferral(output, token, [])
    try:
        yield _deferral.placements
    finally:
        _deferral = None


def new_token() -> str:
    """Return a token for `deferred`."""
    return os.urandom(6).hex()


def remove_scratch(parent: Path, token: str) -> None:
    """Remove the scratch folders that a process with this token made in a folder."""
    for folder in parent.glob(f"{_PREFIX}{token}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _make_beside(target: Path) -> Path:
    """A new folder beside a file or folder.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_name(target)
        return _new_folder(target.parent)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"output '{target}' cannot be made ({reason}).") from None


def _check_name(target: Path) -> None:
    """Find out before anything is computed whether a file system takes a name.

    Raises:
        OSError, ValueError: It does not.
    """
    with suppress(FileNotFoundError):
        target.lstat()


def _new_folder(parent: Path) -> Path:
    """A new folder, as open to others as any that is made (those of `tempfile` are private)."""
    while True:
        folder = parent / f"{_PREFIX}{'' if _deferral is None else _deferral.token}{os.urandom(6).hex()}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder


def _rename(pairs: Sequence[tuple[Path, Path]]) -> None:
    """Rename new files or folders into place, each pair's first to its second, in this order.

    What stood there is set aside before, the last first, put back if anything fails, and deleted once all is done.

    Raises:
        OSError: It cannot be done.
        UsageError: Nor can what stood there be put back; the message says where it is.
    """
    targets = [target for _, target in pairs]
    aside = _new_folder(targets[-1].parent) if any(map(os.path.lexists, targets)) else None
    try:
        if aside is not None:
            for target in reversed(targets):
                with suppress(FileNotFoundError):  # there was none, or somebody else has taken it
                    move(target, aside / target.name)
        for new, target in pairs:
            move(new, target)
    except BaseException:
        _put_back(pairs, aside)
        raise
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)


def _put_back(pairs: Sequence[tuple[Path, Path]], aside: Path | None) -> None:
    """Undo what `_rename` has done so far."""
    try:
        for new, target in pairs:
            if os.path.lexists(target) and not os.path.lexists(new):
                move(target, new)
            if aside is not None and os.path.lexists(aside / target.name):
                move(aside / target.name, target)
    except OSError as error:
        if aside is None or not os.listdir(aside):
            return
        raise UsageError(
            f"output '{pairs[-1][1]}' cannot be written, and what stood there cannot be put back "
            f"({error.strerror or error}): it is in '{aside}'."
        ) from None
    finally:
        if aside is not None:
            with suppress(OSError):
                aside.rmdir()


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write JSON that a person can read."""
    path.write_text(to_text(data, flat=True) + "\n", encoding="ascii")
