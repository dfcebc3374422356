"""Words of command lines, as the platform's shell reads them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

_FOR_WINDOWS = frozenset("&|<>^%!(),;='`$@{}#")
"""What cmd.exe or PowerShell reads as its own outside quotes."""


def join(words: Sequence[str]) -> str:
    """Words as one line, to be pasted into cmd.exe or PowerShell on Windows and into a POSIX shell elsewhere."""
    return " ".join(map(_for_windows if sys.platform == "win32" else _for_posix, words))


def _for_posix(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    escaped = (c if c.isprintable() and c not in "\\'" else _octal(c) for c in word)
    return f"$'{''.join(escaped)}'"


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _for_windows(word: str) -> str:
    quoted = subprocess.list2cmdline([word])
    if quoted.startswith('"') or not _FOR_WINDOWS & set(word):
        return quoted
    backslashes = len(quoted) - len(quoted.rstrip("\\"))
    return '"' + quoted + "\\" * backslashes + '"'


def input_shapes_option(shapes: Mapping[str, Sequence[int]]) -> list[str]:
    """The words of `--input-shapes` for these inputs."""
    if not shapes:
        return []
    words = [f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items()]
    if any(word.startswith("-") for word in words):  # or they would be read as options
        return [f"--input-shapes={word}" for word in words]
    return ["--input-shapes", *words]
