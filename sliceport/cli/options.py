"""Options that several commands have, and how their values are written."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from sliceport.arguments import read_seed
from sliceport.directml.feature_levels import LATEST
from sliceport.errors import UsageError

_SHAPE = re.compile(r".*:[^:/\\.]*", re.DOTALL)
"""What can be an input's shape and no file: no dot and no slash after the last colon."""
_NAMES = re.compile(r"[^./\\]*")
"""What can be a list of names and no file."""
_MAX_DIGITS = 18


def add_model(command: argparse.ArgumentParser) -> None:
    """Add MODEL and what says how the result is printed."""
    command.add_argument("model", metavar="MODEL", help="ONNX, or OpenVINO IR (.xml)")
    add_format(command)
    command.add_argument("-q", "--quiet", action="store_true", help="print only the last line of the text")
    add_verbose(command)


def add_feature_level(command: argparse.ArgumentParser) -> None:
    """Add --feature-level."""
    command.add_argument("--feature-level", default=str(LATEST), metavar="X.Y", help=f"default {LATEST}")


def add_format(command: argparse.ArgumentParser) -> None:
    """Add --format."""
    command.add_argument("--format", choices=("text", "json"), default="text", help="default text")


def add_verbose(command: argparse.ArgumentParser, text: str = "print more") -> None:
    """Add --verbose."""
    command.add_argument("-v", "--verbose", action="count", default=0, help=f"{text}; twice: a log on stderr")


def add_input_shapes(command: argparse.ArgumentParser) -> None:
    """Add --input-shapes."""
    command.add_argument(
        "--input-shapes",
        action="append",
        default=[],
        metavar="NAME:1,16",
        help="sizes of inputs whose shape the model leaves open; several may follow one another",
    )


def add_inputs(command: argparse.ArgumentParser) -> None:
    """Add --seed and --input."""
    command.add_argument("--seed", type=int, default=0, metavar="N", help="for the random inputs; default 0")
    command.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an array to run on instead of random data; several may follow one another",
    )


def run_options(options: argparse.Namespace) -> dict[str, Any]:
    """What `add_input_shapes` and `add_inputs` found, as Python functions take it, but inputs by the names of files.

    Raises:
        UsageError: A value is not written as it must be.
    """
    return {
        "input_shapes": parse_input_shapes(options.input_shapes),
        "inputs": parse_inputs(options.input),
        "seed": read_seed(options.seed),
    }


def split_repeated(words: Sequence[str], endings: Sequence[str]) -> list[str]:
    """The words with one value for each `--input-shapes` and `--input`, and `--simplify=` before what may follow it.

    What cannot be a value is an argument by itself.

    Args:
        words: The words of the command line.
        endings: How the names of models end.
    """

    def fits(option: str, word: str) -> bool:
        if option == "--input-shapes":
            return _SHAPE.fullmatch(word) is not None
        return "=" in word and not word.endswith(tuple(endings))

    separated: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*separated, word, *rest]
        if word == "--simplify":
            has_names = rest and not rest[0].startswith("-") and _NAMES.fullmatch(rest[0])
            separated.append(f"{word}={rest.pop(0) if has_names else ''}")
            continue
        option, equals, _ = word.partition("=")
        separated.append(word)
        if option not in ("--input-shapes", "--input") or (not equals and (not rest or rest[0].startswith("-"))):
            continue
        if not equals:
            separated.append(rest.pop(0))
        while rest and not rest[0].startswith("-") and fits(option, rest[0]):
            separated += [option, rest.pop(0)]
    return separated


def parse_names(text: str | None, option: str) -> list[str] | None:
    """The names that an option lists; None where it is not given.

    Raises:
        UsageError: It lists none.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{option} names nothing; leave it out for what runs by default.")
    return names


def parse_input_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes written as `NAME:1,3,224,224`, brackets optional; `NAME:` alone is a scalar.

    Raises:
        UsageError: One is not written like that, or an input has two.
    """
    shapes = {}
    for text in texts:
        name, colon, dims = text.rpartition(":")
        listed = [dim.strip() for dim in dims.strip("[]").split(",")] if dims.strip("[]") else []
        if not colon or not name or not all(dim.isdecimal() and len(dim) <= _MAX_DIGITS for dim in listed):
            raise UsageError(
                f"input shape {text!r} must be written NAME:1,3,224,224 with sizes that are integers from 0 up."
            )
        if name in shapes:
            raise UsageError(f"input {name!r} is given two shapes.")
        shapes[name] = tuple(map(int, listed))
    return shapes


def parse_inputs(texts: Sequence[str]) -> dict[str, str]:
    """The files written as `NAME=FILE.npy`, by input.

    Raises:
        UsageError: One is not written like that, or an input has two.
    """
    files: dict[str, str] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not name or not file:
            raise UsageError(f"input {text!r} must be written NAME=FILE.npy.")
        if name in files:
            raise UsageError(f"input {name!r} is given two files.")
        files[name] = file
    return files
