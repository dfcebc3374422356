"""Sources of a batch: files, folders, globs, lists and URLs, expanded to the names of models."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from sliceport.batch.names import WILDCARD, encode_name, has_wildcards, is_url, with_slashes
from sliceport.batch.remote_models import find_models
from sliceport.errors import UsageError

_LIST = "@"
_STDIN = "@-"
_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True)
class BadSource:
    """A source without models, or a folder in a source that cannot be read.

    Attributes:
        name: The source as the user wrote it, or the folder.
        reason: The reason, as one sentence.
    """

    name: str
    reason: str


def expand_sources(
    sources: Sequence[str], suffixes: Sequence[str], *, leave_out: Sequence[str] = ()
) -> Iterator[str | BadSource]:
    """Yield the models of sources, and a `BadSource` for each source without models and each unreadable folder.

    Yield each result once, and name a model as the user would. A source is the first of these that it fits:
      * `@list.txt`: a file in UTF-8 with one source a line, relative to the current folder. Empty lines and lines that
        begin with `#` are ignored. `@-` is stdin.
      * A URL of fsspec: a file, a folder, or a glob.
      * A file, whatever its name ends in.
      * A folder: every file in it or its subfolders, if the file's name ends in one of `suffixes`. An empty suffix is
        ignored. A link to a folder is followed, but not if the walk also visits that folder itself.
      * A glob: `*` matches any characters but `/`, `?` matches one such character, `[…]` matches one of the characters
        in the brackets, and `**` matches any folders that are not links. If the pattern ends in a wildcard, a name
        must also end in a suffix. Other patterns, such as `zoo/*.pb`, match names with any suffix.

    Files and folders whose names begin with a dot are hidden. They are found if a source names them, but not in a
    folder. A glob finds them only if one of its parts begins with a dot, such as `.*`; parts before the first wildcard
    do not count. The models of a folder or glob are sorted by name. Two names of one path are one model. A link to a
    model is another model. `leave_out` lists paths and URLs of folders, such as the folder of the results. Such a
    folder is entered only if a source begins in it.

    Raises:
        MissingExtra: A source is a URL, and a package for such URLs is not installed.
    """
    folders = frozenset(os.path.realpath(folder) for folder in leave_out if not is_url(folder))
    search = _Search(tuple(filter(None, suffixes)), folders, tuple(filter(is_url, leave_out)))
    seen: set[bytes] = set()
    for source in sources:
        for result in search.find(source):
            name = result if isinstance(result, str) else f"{result.name}: {result.reason}"
            # Hashes take less memory than the names of millions of models.
            key = hashlib.blake2b(encode_name(_identity(name)), digest_size=16).digest()
            if key not in seen:
                seen.add(key)
                yield result


def parse_shard(text: str) -> tuple[int, int]:
    """Parse `--shard I/N`. Return the number of the shard and the number of shards.

    Raises:
        UsageError: `text` has another form, or I is not from 1 to N.

    >>> parse_shard("1/3")
    (1, 3)
    """
    match = _SHARD.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"shard {text!r} must be written I/N, with I from 1 to N, such as 1/3.")
    return int(match[1]), int(match[2])


def is_in_shard(name: str, number: int, count: int) -> bool:
    """Return whether a model is in shard `number` of `count`.

    A hash of the model's name decides. So models that are added or removed do not change the shards of other models.
    """
    return int.from_bytes(hashlib.sha256(encode_name(name)).digest()[:8]) % count == number - 1


def _identity(model: str) -> str:
    """Return the same text for names of one path such as `a` and `./a`. Follow links only in names with `..`."""
    if is_url(model):
        return model
    folder, name = os.path.split(model)
    if os.sep == "/" and os.pardir in folder.split("/"):  # `link/..` is the parent of the link's target
        return os.path.join(os.path.realpath(folder), name)
    return os.path.normcase(os.path.abspath(model))


@dataclass(frozen=True)
class _Search:
    """A search for models.

    Attributes:
        suffixes: The ends of the names of models.
        folders: Real paths of folders that are not entered.
        urls: URLs of such folders.
        lists: The real paths of the lists that are being read, because a list must not contain itself.
    """

    suffixes: tuple[str, ...]
    folders: frozenset[str]
    urls: tuple[str, ...]
    lists: list[str] = field(default_factory=list)

    def find(self, source: str) -> Iterator[str | BadSource]:
        """Yield the models of a source. Yield a BadSource for each unreadable part, and for a source without models."""
        name = source if is_url(source) else with_slashes(source)
        is_empty = True
        try:
            for result in self._expand(name):
                is_empty = False
                yield result
        except UsageError as error:
            yield BadSource(name, str(error))
            return
        if is_empty:
            yield BadSource(name, f"source {name!r} matches no model.")

    def _expand(self, source: str) -> Iterator[str | BadSource]:
        """Yield the models of a list, URL, or path with `/` between folders. Raise a UsageError for a bad source."""
        if source.startswith(_LIST):
            yield from self._read_list(source)
        elif is_url(source):
            yield from find_models(source, self.suffixes, self.urls)
        elif not source or "\0" in source:
            raise UsageError(f"source {source!r} is not the name of a file.")
        elif os.path.isdir(source):
            yield from self._walk(source)
        elif os.path.lexists(source):
            yield source
        elif has_wildcards(source):
            yield from self._glob(source)
        else:
            reason = "is not there"
            try:
                os.lstat(source)
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:  # such as a folder that may not be searched
                reason = f"cannot be read ({error.strerror or error})"
            raise UsageError(f"source {source!r} {reason}.")

    def _read_list(self, source: str) -> Iterator[str | BadSource]:
        try:
            path = "stdin" if source == _STDIN else os.path.realpath(source[1:])
            data = None
            if path not in self.lists:
                data = sys.stdin.buffer.read() if source == _STDIN else Path(source[1:]).read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"list {source!r} cannot be read ({reason}).") from None
        if data is None:
            raise UsageError(f"list {source!r} contains itself.")
        self.lists.append(path)
        for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):  # without a byte order mark
            text = line.strip().decode("utf-8", "surrogateescape")  # names on Linux may be any bytes
            if text and not text.startswith("#"):
                yield from self.find(text)
        self.lists.pop()

    def _walk(self, root: str) -> Iterator[str | BadSource]:
        """Yield the models in a folder and its subfolders, then a BadSource for each folder that cannot be read.

        Skip hidden names and the folders in `self.folders`. Follow links to folders after the walk, so that a folder
        that is also reached without a link is listed under its own path.
        """
        models: list[str] = []
        bad: list[BadSource] = []
        # A source is entered even if it is a folder to leave out, such as the folder of the results.
        entered = set(self.folders) - {os.path.realpath(root)}
        starts = [root]

        for start in starts:  # the loop adds links to `starts`
            for folder, folders, files in os.walk(start, onerror=lambda error: bad.append(_unreadable_folder(error))):
                real = os.path.realpath(folder)
                if real in entered:
                    folders.clear()  # prunes the walk
                    continue
                entered.add(real)
                folders[:] = sorted(name for name in folders if name[0] != ".")
                # In the source `.`, models are named without `./`, as users write such names.
                prefix = with_slashes(os.path.join(folder, "")).removeprefix("./" if root in (".", "./") else "")
                models += [f"{prefix}{name}" for name in files if name.endswith(self.suffixes) and name[0] != "."]
                starts += [link for name in folders if os.path.islink(link := os.path.join(folder, name))]
        yield from sorted(filter(_is_file_or_unreadable, models))
        yield from bad

    def _glob(self, pattern: str) -> Iterator[str | BadSource]:
        """Yield the files that a pattern matches, then a BadSource for each folder that cannot be read."""
        drive, path = os.path.splitdrive(pattern)
        parts = [part for part in path.split("/") if part not in ("", os.curdir)]
        if any("**" in part and part != "**" for part in parts):
            raise UsageError(f"source {pattern!r} is not a pattern ('**' must be a whole part between slashes).")
        fixed_count = next(i for i, part in enumerate(parts) if WILDCARD.search(part))
        start = drive + ("/" if path.startswith("/") else "") + "".join(f"{part}/" for part in parts[:fixed_count])
        wild = [*parts[fixed_count:], *["*"] * (parts[-1] == "**")]  # `**` at the end matches the files in all folders
        suffixes = self.suffixes if wild[-1][-1] in "*?]" else ("",)  # a pattern such as `*.pb` has its own suffix
        finds_hidden = any(part.startswith(".") for part in wild)
        results = list(self._match(start, wild, finds_hidden))
        names = {result for result in results if isinstance(result, str) and result.endswith(suffixes)}
        yield from sorted(filter(_is_file_or_unreadable, names))
        yield from (result for result in results if isinstance(result, BadSource))

    def _match(self, folder: str, parts: Sequence[str], finds_hidden: bool) -> Iterator[str | BadSource]:
        """Yield the paths that match the parts of a pattern below a folder, and a BadSource for an unreadable folder.

        `folder` is empty or ends with a slash. `**` does not follow links, which may lead in circles. It finds some
        folders more than once.
        """
        part, *rest = parts
        if part == "**":
            yield from self._match(folder, rest, finds_hidden)
        try:
            with os.scandir(folder or os.curdir) as entries:
                names = [os.pardir] if part == os.pardir else [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            yield _unreadable_folder(error)
            return
        for name in names:
            path = folder + name
            if (name.startswith(".") and not finds_hidden) or (part != "**" and not fnmatch(name, part)):
                continue
            if not rest:
                yield path
            elif os.path.isdir(path) and os.path.realpath(path) not in self.folders:
                if part != "**":
                    yield from self._match(f"{path}/", rest, finds_hidden)
                elif not os.path.islink(path):
                    yield from self._match(f"{path}/", parts, finds_hidden)


def _unreadable_folder(error: OSError) -> BadSource:
    """Return the BadSource for the folder whose reading failed with `error`."""
    folder = with_slashes(os.path.join(error.filename, ""))  # with a slash at the end
    return BadSource(folder, f"folder {folder!r} cannot be read ({error.strerror or error}).")


def _is_file_or_unreadable(path: str) -> bool:
    """Return whether a path is a file or cannot be examined. The results of the run report an unreadable file."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return os.path.islink(path)  # true for a broken link, false for a file that was just removed
    except OSError:
        return True
