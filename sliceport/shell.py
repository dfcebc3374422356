"""Quoting of command lines for the platform's shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

_SPECIAL_ON_WINDOWS = frozenset("&|<>^%!(),;='`$@{}#")
"""Characters that are special to cmd.exe or PowerShell outside quotes."""


def join(words: Sequence[str]) -> str:
    """Quote and join words to one line, for cmd.exe and PowerShell on Windows, for a POSIX shell elsewhere."""
    return " ".join(map(_quote_for_windows if sys.platform == "win32" else _quote_for_posix, words))


def _quote_for_posix(word: str) -> str:
    """Quote a word; unprintable characters become octal escapes in `$'...'`, so that a terminal shows them safely."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = (char if char.isprintable() and char not in "\\'" else _escape_octal(char) for char in word)
    return f"$'{''.join(escaped)}'"


def _escape_octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _quote_for_windows(word: str) -> str:
    """Quote a word if C programs on Windows need it, or if it has characters that are special to a shell there."""
    quoted = subprocess.list2cmdline([word])
    if quoted.startswith('"') or not _SPECIAL_ON_WINDOWS & set(word):
        return quoted
    # Backslashes before the closing quote count double in the rules of C programs.
    backslashes = len(quoted) - len(quoted.rstrip("\\"))
    return '"' + quoted + "\\" * backslashes + '"'


def input_shapes_option(shapes: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the words of `--input-shapes` for these inputs."""
    if not shapes:
        return []
    words = [f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items()]
    if any(word.startswith("-") for word in words):  # a separate word with "-" would be parsed as an option
        return [f"--input-shapes={word}" for word in words]
    return ["--input-shapes", *words]
