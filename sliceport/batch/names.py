"""Names of models: paths and URLs.

A name is a `str`. If its bytes are not UTF-8, it contains the lone surrogates that `os.fsdecode` makes of the bytes.
`json.dumps` writes them as ASCII, `json.loads` reads them back, `printable` escapes them, and `open` accepts them.
`str.encode` fails for such a name; use `encode_name`.

Names have `/` between folders on Windows as well, so that runs on Windows and on other systems can be compared, and can
share a folder.
"""

from __future__ import annotations

import os
import re

_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*::)*[a-z][a-z0-9+.-]+://", re.IGNORECASE)  # not `C://x`, a path of Windows
WILDCARD = re.compile(r"[*?\[]")
"""Characters that make a name a pattern."""
_VERBATIM = "\\\\?\\"
"""The start of Windows paths that are taken as they are; `/` does not separate folders in them."""


def is_url(name: str) -> bool:
    """Return whether a name is a URL of fsspec, such as `s3://bucket/a.onnx`, and not a path."""
    return _URL.match(name) is not None


def with_slashes(name: str) -> str:
    """Return a path with `/` between folders; a verbatim path of Windows stays as it is."""
    return name if os.sep == "/" or name.startswith(_VERBATIM) else name.replace(os.sep, "/")


def has_wildcards(name: str) -> bool:
    """Return whether a path is a pattern. The `?` at the start of some Windows paths does not count."""
    return WILDCARD.search(os.path.splitdrive(name)[1]) is not None


def encode_name(name: str) -> bytes:
    """Return a name as UTF-8. Lone surrogates are encoded like other characters."""
    return name.encode("utf-8", "surrogatepass")
