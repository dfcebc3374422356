"""Which models a batch is about: files, folders, globs, lists and URLs become names of models.

Names stay text. One that is no UTF-8 holds what `os.fsdecode` makes of its bytes, lone surrogates: `json.dumps` writes
them as ASCII and `json.loads` reads them back, `printable` escapes them, and files open by them. Only to encode such a
name as UTF-8 fails, which `encode_name` does not.

On Windows, too, names have `/` between folders: runs there and elsewhere can be compared, and share a folder.
"""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sliceport.errors import UsageError

_LIST = "@"
_STDIN = "@-"
_MAX_DEPTH = 16
"""How many lists may name one another."""
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*::)*[a-z][a-z0-9+.-]+://", re.IGNORECASE)
WILDCARD = re.compile(r"[*?\[]")
"""What makes a pattern of a name."""
_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_VERBATIM = "\\\\?\\"
"""What paths begin with that Windows takes as they are, in which `/` is no separator."""
_CASE = re.IGNORECASE if os.path.normcase("A") == "a" else re.NOFLAG
"""How patterns match names: without regard to case where the file system has none."""


def is_url(name: str) -> bool:
    """Whether a name is a URL as fsspec has them, such as `s3://bucket/a.onnx`, and no path."""
    return _URL.match(name) is not None


def with_slashes(name: str) -> str:
    """A path with `/` between folders, as the names of models have it, where the system has another separator."""
    return name if os.sep == "/" or name.startswith(_VERBATIM) else name.replace(os.sep, "/")


def has_wildcards(name: str) -> bool:
    """Whether a path is a pattern, which the `?` of what paths may begin with on Windows does not make it."""
    return WILDCARD.search(os.path.splitdrive(name)[1]) is not None


def encode_name(name: str) -> bytes:
    """A name as bytes: UTF-8, whatever it holds."""
    return name.encode("utf-8", "surrogatepass")


def expand(sources: Sequence[str], suffixes: Sequence[str], *, leave_out: Sequence[str] = ()) -> Iterator[str]:
    """The models that sources stand for, each once, as the user would write them; found while they are asked for.

    A source is one of these, the first that fits:
      * `@list.txt`: a file with a source on each line, relative to the current folder, in UTF-8; empty lines and those
        that begin with `#` do not count. `@-` is stdin.
      * A URL of fsspec: a file, a folder, or a glob.
      * A file, whatever its name ends in.
      * A folder: all files in it and its folders whose names end in a suffix. Links to folders are followed, unless
        that leads where the walk comes or was anyway.
      * A glob: `*` and `?` stand for anything but `/`, `[…]` for one of several characters, `**` for any folders, but
        for links to some. What the pattern ends in counts as written (`zoo/*.pb`); where it ends in a wildcard, names
        must end in a suffix.

    Hidden files and folders, whose names begin with a dot, are only found by names or patterns that begin so, too. The
    models of a source come sorted by their names. Two names of one path are one model, a link is another.

    Args:
        sources: What the user named.
        suffixes: How the names of models end; empty ones do not count.
        leave_out: Folders, or URLs of folders, that no walk and no glob enters, such as that of the results.

    Raises:
        UsageError: A source matches nothing, or cannot be read.
    """
    folders = frozenset(os.path.realpath(each) for each in leave_out if not is_url(each))
    search = _Search(tuple(filter(None, suffixes)), folders, tuple(filter(is_url, leave_out)))
    if len(sources) == 1 and not sources[0].startswith(_LIST):
        yield from search.find(sources[0])  # which finds each once
        return
    seen: set[bytes] = set()
    for source in sources:
        for model in search.find(source):
            key = hashlib.blake2b(encode_name(_identity(model)), digest_size=16).digest()
            if key not in seen:
                seen.add(key)
                yield model


def parse_shard(text: str) -> tuple[int, int]:
    """What `--shard I/N` says: the shard, from 1 on, and how many there are.

    Raises:
        UsageError: It is not written like that, or there is no such shard.

    >>> parse_shard("1/3")
    (1, 3)
    """
    match = _SHARD.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"shard {text!r} must be written I/N, with I from 1 to N, such as 1/3.")
    return int(match[1]), int(match[2])


def take_shard(models: Iterable[str], i: int, n: int) -> Iterator[str]:
    """The models of shard `i` of `n`: by a hash of their names, so that others that come or go move none.

    Args:
        models: Their names, which must be written alike for all shards.
        i: The shard, from 1 on.
        n: How many there are.
    """
    for model in models:
        digest = hashlib.sha256(encode_name(model)).digest()
        if int.from_bytes(digest[:8]) % n == i - 1:
            yield model


def _identity(model: str) -> str:
    """What two names of one model have in common."""
    if is_url(model):
        return model
    folder, name = os.path.split(model)
    if os.sep == "/" and os.pardir in folder.split("/"):  # past a link, it is not the folder that is written before
        return os.path.join(os.path.realpath(folder), name)
    return os.path.normcase(os.path.abspath(model))


@dataclass(frozen=True)
class _Search:
    """How sources are searched.

    Attributes:
        suffixes: How the names of models end.
        leave_out: Real paths of folders that are not entered.
        urls: URLs of such folders.
        lists: The real paths of the lists that are being read.
    """

    suffixes: tuple[str, ...]
    leave_out: frozenset[str]
    urls: tuple[str, ...]
    lists: list[str] = field(default_factory=list)

    def find(self, source: str) -> Iterator[str]:
        """The models of one source."""
        if source.startswith(_LIST):
            yield from self._read_list(source)
            return
        found = self._choose(source)
        first = next(found, None)
        if first is None:
            raise UsageError(f"source {with_slashes(source)!r} matches no model.")
        yield first
        yield from found

    def _choose(self, source: str) -> Iterator[str]:
        if is_url(source):
            from sliceport.batch.remote_models import find_models

            return find_models(source, self.suffixes, self.urls)
        if not source or "\0" in source:
            raise UsageError(f"source {with_slashes(source)!r} is no name of a file.")
        name = with_slashes(source)
        if os.path.isdir(name):
            return self._walk(name)
        if os.path.lexists(name):
            return iter([name])
        if has_wildcards(name):
            return self._glob(name)
        raise UsageError(f"source {with_slashes(source)!r} is not there.")

    def _read_list(self, source: str) -> Iterator[str]:
        name = "stdin" if source == _STDIN else os.path.realpath(source[1:])
        if name in self.lists or len(self.lists) == _MAX_DEPTH:
            raise UsageError(
                f"list {with_slashes(source)!r} is read from itself, or by more than {_MAX_DEPTH} lists in one another."
            )
        try:
            if source == _STDIN:
                data = sys.stdin.buffer.read()
            else:
                if os.path.isdir(name):  # which Windows says in other words
                    raise IsADirectoryError(errno.EISDIR, "Is a directory")
                with open(source[1:], "rb") as file:
                    data = file.read()
        except (OSError, ValueError) as error:
            raise UsageError(
                f"list {with_slashes(source)!r} cannot be read ({getattr(error, 'strerror', None) or error})."
            ) from None
        self.lists.append(name)
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        del data
        for i, line in enumerate(lines):
            lines[i] = b""
            text = line.strip().decode("utf-8", "surrogateescape")
            if text and not text.startswith("#"):
                yield from self.find(text)
        self.lists.pop()

    def _walk(self, root: str) -> Iterator[str]:
        """The models in a folder and its folders."""
        real_root = os.path.realpath(root)
        entered: set[str] = set()

        def may_enter(real: str, *, is_linked: bool) -> bool:
            if real in self.leave_out or real in entered or (is_linked and _is_reached(real, real_root)):
                return False
            if is_linked:
                entered.add(real)
            return True

        is_current = root.rstrip("/") == os.curdir
        waiting = [_Folder("" if is_current else _inside(root), real_root)]
        while waiting:
            folder = waiting[-1]
            entry = next(folder.entries, None)
            if entry is None:
                waiting.pop()
            elif entry.name.startswith("."):
                continue
            elif not entry.is_folder:
                if entry.name.endswith(self.suffixes):
                    yield folder.path + entry.name
            else:
                path = folder.path + entry.name
                real = os.path.realpath(path) if entry.is_link else os.path.join(folder.real, entry.name)
                is_linked = folder.is_linked or entry.is_link
                if may_enter(real, is_linked=is_linked):
                    waiting.append(_Folder(_inside(path), real, is_linked))

    def _glob(self, pattern: str) -> Iterator[str]:
        """The files that a pattern matches."""
        drive, rest = os.path.splitdrive(pattern)
        parts = [part for part in rest.split("/") if part not in ("", os.curdir)]
        fixed = next(i for i, part in enumerate(parts) if WILDCARD.search(part))
        start = drive + ("/" if rest.startswith("/") else "") + "".join(f"{part}/" for part in parts[:fixed])
        if not os.path.isdir(start or os.curdir):
            return
        steps = tuple(None if part == "**" else _compile(part) for part in parts[fixed:])
        if steps[-1] is None:
            steps += (_compile("*"),)
        suffixes = self.suffixes if parts[-1][-1] in "*?]" else ("",)
        waiting: list[tuple[_Folder, tuple[str, ...]]] = [(_Folder(start), ())]
        while waiting:
            folder, names = waiting[-1]
            entry = next(folder.entries, None)
            if entry is None:
                waiting.pop()
                continue
            path, below = folder.path + entry.name, (*names, entry.name)
            if not entry.is_folder:
                if entry.name.endswith(suffixes) and _fits(steps, below):
                    yield path
            elif _leads_on(steps, below, is_link=entry.is_link) and self._may_enter(path):
                waiting.append((_Folder(_inside(path)), below))

    def _may_enter(self, path: str) -> bool:
        return not self.leave_out or os.path.realpath(path) not in self.leave_out


def _is_reached(real: str, root: str) -> bool:
    """Whether the walk of a folder comes to another, of this real path, without following a link."""
    if real == root:
        return True
    inside = os.path.join(root, "")
    return real.startswith(inside) and not any(name.startswith(".") for name in real[len(inside) :].split(os.sep))


_Step = re.Pattern[str] | None
"""What a pattern says of one name of a path; None for any number of folders."""


def _inside(folder: str) -> str:
    """The name of a folder with a separator behind it."""
    return with_slashes(os.path.join(folder, ""))


def _compile(part: str) -> re.Pattern[str]:
    return re.compile(("" if part.startswith(".") else r"(?!\.)") + fnmatch.translate(part), _CASE)


def _fits(steps: Sequence[_Step], names: Sequence[str]) -> bool:
    """Whether a pattern matches the names of a path."""
    if not steps or not names:
        return not steps and not names
    first, *rest = steps
    if first is not None:
        return first.match(names[0]) is not None and _fits(rest, names[1:])
    return _fits(rest, names) or (not names[0].startswith(".") and _fits(steps, names[1:]))


def _leads_on(steps: Sequence[_Step], names: Sequence[str], *, is_link: bool) -> bool:
    """Whether a pattern may match files below a folder; `**` and what follows it do not go through links."""
    for i, name in enumerate(names):
        if i == len(steps) - 1:
            return False
        step = steps[i]
        if step is None:
            return not is_link and (len(steps) > i + 2 or not any(each.startswith(".") for each in names[i:]))
        if step.match(name) is None:
            return False
    return len(names) < len(steps)


class _Entry(NamedTuple):
    """What a folder holds. A file is a regular one, or a link that leads nowhere."""

    name: str
    is_folder: bool
    is_link: bool


class _Folder:
    """A folder that is being read.

    Attributes:
        path: Its name with `/` behind it; empty for the current one.
        real: Its real path, where that matters.
        is_linked: Whether it was come to through a link.
        entries: What is left of what it holds, in the order that whole names have.
    """

    def __init__(self, path: str, real: str = "", is_linked: bool = False) -> None:
        self.path = path
        self.real = real
        self.is_linked = is_linked
        self.entries = self._read()

    def _read(self) -> Iterator[_Entry]:
        try:
            with os.scandir(self.path or os.curdir) as entries:
                keys = sorted(filter(None, map(_sort_key, entries)), reverse=True)
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"folder {with_slashes(self.path or os.curdir)!r} cannot be read ({reason}).") from None
        while keys:
            key = keys.pop()
            yield _Entry(key.rstrip("/"), key.endswith("/"), key.endswith("//"))


def _sort_key(entry: os.DirEntry[str]) -> str:
    """A name as it stands in longer ones: with `/` behind a folder, twice behind a link to one. Empty for no file."""
    try:
        if entry.is_dir():
            return f"{entry.name}//" if entry.is_symlink() else f"{entry.name}/"
        return entry.name if entry.is_file() or entry.is_symlink() else ""
    except OSError:  # a link to itself
        return entry.name
