"""Quoting of command lines for the platform's shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

_SPECIAL_ON_WINDOWS = frozenset("&|<>^%!(),;='`$@{}#")
"""Characters that are special to cmd.exe or PowerShell outside quotes."""


def join(words: Sequence[str]) -> str:
    """Quote words and join them to one line: on Windows for cmd.exe and PowerShell, elsewhere for a POSIX shell."""
    return " ".join(map(_quote_for_windows if sys.platform == "win32" else _quote_for_posix, words))


def _quote_for_posix(word: str) -> str:
    """Quote a word; unprintable characters become octal escapes in `$'...'`, so that a terminal shows them safely."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = (char if char.isprintable() and char not in "\\'" else _escape_octal(char) for char in word)
    return f"$'{''.join(escaped)}'"


def _escape_octal(character: str) -> str:
    """Return the bytes of a character as octal escapes. A surrogate is a byte of a file name that is not UTF-8."""
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _quote_for_windows(word: str) -> str:
    """Quote a word if C programs on Windows need quotes around it, or if it has characters special to a shell."""
    quoted = subprocess.list2cmdline([word])
    if quoted.startswith('"') or not _SPECIAL_ON_WINDOWS & set(word):
        return quoted
    # C programs read two backslashes before the closing quote as one.
    backslashes = len(quoted) - len(quoted.rstrip("\\"))
    return '"' + quoted + "\\" * backslashes + '"'


def input_shapes_option(shapes: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the words of `--input-shapes` for these inputs."""
    if not shapes:
        return []
    words = [f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items()]
    if any(word.startswith("-") for word in words):  # argparse would take such a word for an option
        return [f"--input-shapes={word}" for word in words]
    return ["--input-shapes", *words]
