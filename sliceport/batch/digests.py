"""Digests of files. Digests of large files are cached, so that weights are not read again in every run."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
import time
from contextlib import suppress

from sliceport.batch.names import encode_name
from sliceport.sandbox.user_cache import user_cache

State = tuple[int, ...] | None
"""Device, inode, size and times of a file; None for a missing file.

A change of a file changes its state, except for the changes that `_SETTLED` describes.
"""

_SMALL = 2**20
"""Size in bytes below which hashing a file is faster than reading the cache."""
_SETTLED = 60.0
"""A digest is cached if the last change of the file was more than this number of seconds ago.

A second change within one tick of the file system's clock leaves the times of the file as they are. A change through a
memory map changes the times only when the system writes the page to the disk, which takes up to 35 s on Linux.
"""

_ENTRY = re.compile(r"[0-9a-f]{64}( \[.*\])?")


def state_of(path: str) -> State:
    """Return the state of a file; None if the file is missing or the system does not return its state."""
    try:
        return _pick_state(os.stat(path))
    except OSError:
        return None


def digest_file(path: str) -> str:
    """Return the SHA-256 of a file's content. For a large file, use a digest that was cached for the file's state.

    The state includes `ctime`, because `touch -d`, `rsync -t` and `os.utime` can set `mtime` back, but not `ctime`.

    Raises:
        OSError: The file cannot be read.
    """
    with open(path, "rb") as file:
        before = os.fstat(file.fileno())
        is_settled = time.time() - before.st_ctime > _SETTLED  # if not, the times may miss a further change
        # A small file is hashed faster than the cache is read. On Windows, the cache would be wrong: `st_ctime` is the
        # time of creation, which a change of the file does not change.
        uses_cache = before.st_size >= _SMALL and is_settled and sys.platform != "win32"
        token = repr(_pick_state(before))
        if uses_cache and (digest := read_cached(token)) is not None:
            return digest
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if uses_cache and _pick_state(os.fstat(file.fileno())) == _pick_state(before):
            write_cached(token, digest)
    return digest


def _pick_state(status: os.stat_result) -> tuple[int, ...]:
    """Return the fields of `status` that a change of the file changes."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_cached(token: str) -> str | None:
    """Return the entry that is cached for a state of a file, or None.

    An entry is a digest. For a model at a URL, a space and the names of its other files follow, as JSON.
    """
    try:
        with open(_cache_path(token), encoding="ascii") as file:
            text = file.read()
    except (OSError, ValueError):
        return None
    return text if _ENTRY.fullmatch(text) else None


def write_cached(token: str, entry: str) -> None:
    """Cache the entry for a state of a file; see `read_cached`. Do nothing if the cache cannot be written."""
    path = _cache_path(token)
    temporary = f"{path}.{secrets.token_hex(4)}"
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(temporary, "w", encoding="ascii") as file:
                file.write(entry)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)


def _cache_path(token: str) -> str:
    name = hashlib.sha256(encode_name(token)).hexdigest()
    return os.path.join(user_cache(), "digests", name[:2], name)
