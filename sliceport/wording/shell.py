"""Quoting of command lines for the platform's shell."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

_SPECIAL_ON_WINDOWS = frozenset("&|<>^%!(),;='`$@{}#")
"""Characters that are special outside quotes. Inside quotes, cmd.exe still replaces %, and PowerShell $ and `."""


def join(words: Sequence[str]) -> str:
    """Quote words and join them to one line: on Windows for cmd.exe and PowerShell, elsewhere for bash, zsh and ksh."""
    return " ".join(map(_quote_for_windows if sys.platform == "win32" else _quote_for_posix, words))


def _quote_for_posix(word: str) -> str:
    """Quote a word. Replace unprintable characters, which may control a terminal, by octal escapes in `$'...'`."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = (char if char.isprintable() and char not in "\\'" else _escape_octal(char) for char in word)
    return f"$'{''.join(escaped)}'"


def _escape_octal(character: str) -> str:
    """Return the bytes of a character as octal escapes. A surrogate stands for a byte that is not UTF-8."""
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def _quote_for_windows(word: str) -> str:
    """Put a word in double quotes if C programs on Windows need them, or if it has characters special to a shell."""
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
