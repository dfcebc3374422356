"""The location of the operators in C++, a library that OpenVINO loads. Standard library only.

The library is built against the headers of one release of openvino, and no other release loads it. A record beside the
library names the release and the sources.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sliceport.sandbox.user_cache import user_cache

SOURCE = Path(__file__).parent
"""The folder of CMakeLists.txt."""
PACKAGED = SOURCE / "lib"
"""The folder of the library that came with the package."""
LIBRARY = "sliceport_openvino.dll" if sys.platform == "win32" else "libsliceport_openvino.so"
RECORD = "built.json"
"""The name of the record beside a library."""
BUILD_COMMAND = "python -m ov_ext.native build"


@dataclass(frozen=True)
class Library:
    """The library for a release of openvino.

    Attributes:
        path: The library, or None if no library for that release can be used.
        reason: The reason for `path` or for its absence, as the middle of a sentence.
    """

    path: Path | None
    reason: str


def find_library(openvino: str) -> Library:
    """Find the library for a release of openvino in the installed package, or else in the user's cache.

    Args:
        openvino: The release, that is, the value of `openvino.__version__`.
    """
    problems = []
    for folder, place in ((PACKAGED, "in the installed package"), (cached_folder(openvino), "in your cache")):
        record = _read_record(folder)
        if record is None:
            continue
        problem = _describe_problem(folder, record, openvino)
        if problem is None:
            return Library(folder / LIBRARY, f"the library {place} is built for openvino {openvino}")
        problems.append(f"the library {place} {problem}")
    return Library(None, " and ".join(problems) or f"no library is built for openvino {openvino}")


def cached_folder(openvino: str) -> Path:
    """Return the cache folder for the library of a release of openvino, the present sources and this platform."""
    release = re.sub(r"[^\w.-]", "_", openvino)
    return user_cache() / "openvino" / f"{release}-{sysconfig.get_platform()}-{hash_sources()[:12]}"


def hash_sources() -> str:
    """Return a SHA-256 digest of the C++ sources and CMakeLists.txt."""
    digest = hashlib.sha256()
    for file in sorted([SOURCE / "CMakeLists.txt", *(SOURCE / "src").rglob("*")]):
        if file.is_file():
            digest.update(file.relative_to(SOURCE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """Return a SHA-256 digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_record(openvino: str) -> dict[str, str]:
    """Return the record of a library that is built from the present sources for a release of openvino."""
    return {"openvino": openvino, "sources": hash_sources()}


def _read_record(folder: Path) -> dict[str, Any] | None:
    """Return the record of the library in a folder, or None if it is missing or damaged."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _describe_problem(folder: Path, record: dict[str, Any], openvino: str) -> str | None:
    """Return why OpenVINO of the version `openvino` cannot use the library in `folder`, or None if it can.

    The reason is the end of a sentence about the library.
    """
    if record.get("openvino") != openvino:
        return f"is built for openvino {record.get('openvino')} and not for {openvino}, which is loaded"
    if record.get("sources") != hash_sources():
        return "is built from the sources of another version of sliceport"
    if not (folder / LIBRARY).is_file():
        return "is gone"
    # A truncated library would end the process. The packaged library is not checked, because packagers may strip it.
    is_whole = folder == PACKAGED or record.get("library") == hash_file(folder / LIBRARY)
    return None if is_whole else "is damaged"
