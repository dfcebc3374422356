"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from sliceport.arguments import read_seed
from sliceport.directml.feature_levels import LATEST
from sliceport.errors import UsageError

_SHAPE = re.compile(r".*:[^:/\\.]*|auto(=\d*)?", re.DOTALL)
"""Values of --input-shapes that cannot be a file: `auto`, or a shape with no dot or slash after the last colon."""
_SHORTEST = {"--input-shapes": "--input-s", "--input": "--input", "--verify": "--veri"}
"""Options that take several values or may lack a value, with the shortest abbreviations that argparse accepts."""
VERIFIERS = ("onnxruntime-cpu", "onnxruntime-dml", "openvino-cpu")
"""The engines that can follow --verify."""
_SHAPES_HELP = "shapes of inputs that the model leaves open; auto chooses primes for all open sizes, auto=1 chooses 1"
_MAX_DIGITS = 18
"""The largest number of digits of a size. Such a size is below 2**63."""
_MIN_MEMORY = 2**28
"""Bytes; with less memory a process may fail to load the engines."""
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""Powers of 1024 also for sizes without an i: 4G, 4GB and 4GiB are the same."""


def add_feature_level(command: argparse.ArgumentParser) -> None:
    """Add --feature-level."""
    command.add_argument(
        "--feature-level",
        default=str(LATEST),
        metavar="X.Y",
        help=f"the DirectML feature level to lower for; default {LATEST}",
    )


def add_format(command: argparse.ArgumentParser) -> None:
    """Add --format."""
    command.add_argument("--format", choices=("text", "json"), default="text", help="default text")


def add_verbose(command: argparse.ArgumentParser, text: str = "print more") -> None:
    """Add --verbose."""
    command.add_argument("-v", "--verbose", action="count", default=0, help=f"{text}; twice: a log on stderr")


def add_input_shapes(command: argparse.ArgumentParser) -> None:
    """Add --input-shapes, which `shape_options` reads."""
    command.add_argument("--input-shapes", action="append", default=[], metavar="NAME:1,16", help=_SHAPES_HELP)


def add_inputs(command: argparse.ArgumentParser) -> None:
    """Add --input-shapes, --seed, --input and --custom-ops, which `run_options` reads."""
    add_input_shapes(command)
    command.add_argument("--seed", type=int, default=0, metavar="N", help="the seed of the random inputs; default 0")
    help_ = "arrays to use for these inputs instead of random data"
    command.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help=help_)
    help_ = "a library of custom operators for onnxruntime's CPU provider"
    command.add_argument("--custom-ops", default="", metavar="LIBRARY", help=help_)


def add_limits(command: argparse.ArgumentParser) -> None:
    """Add --timeout and --memory."""
    command.add_argument("--timeout", default="0", metavar="S", help="end the command after S seconds; default: never")
    command.add_argument("--memory", default="0", metavar="SIZE", help="memory limit; 4G is 4 GiB; default: no limit")


def parse_seconds(text: str, option: str = "--timeout") -> float | None:
    """Return the number of seconds in an option; None for 0, which disables the limit.

    Raises:
        UsageError: The text is not a number with at most 9 digits before the point and 3 after it.
    """
    if not re.fullmatch(r"\d{1,9}(\.\d{1,3})?", text):  # waits of `threading` overflow with 10 digits
        form = "a number of seconds of at most 9 digits and 3 decimals"
        raise UsageError(f"{option} must be {form} (0 disables the limit), got {text!r}.")
    return float(text) or None


def parse_size(text: str) -> int | None:
    """Return the number of bytes that --memory gives; None for 0, which disables the limit.

    Raises:
        UsageError: The text is not a size, or the size is below `_MIN_MEMORY` but not 0.
    """
    match = re.fullmatch(r"(\d{1,12})\s*([KMGT]?)(i?B)?", text, re.IGNORECASE)
    if match is None:
        raise UsageError(f"--memory must be a size such as 512M or 4G (0 disables the limit), got {text!r}.")
    size = int(match[1]) * _UNITS[match[2].upper()]
    if 0 < size < _MIN_MEMORY:
        raise UsageError(f"--memory must be at least {_MIN_MEMORY // 2**20}M (0 disables the limit), got {text!r}.")
    return size or None


def run_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return --input-shapes, --seed and --input as arguments of Python functions. `inputs` are file names, not arrays.

    If --custom-ops is given, `custom_ops` is the library, which is for `with_custom_ops`.

    Raises:
        UsageError: A shape, an input or the seed is malformed, or an input occurs twice.
    """
    inputs = parse_pairs(options.input, "input", "NAME=FILE.npy")
    library = {"custom_ops": os.path.abspath(options.custom_ops)} if options.custom_ops else {}
    return shape_options(options) | {"inputs": inputs, "seed": read_seed(options.seed)} | library


def shape_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return --input-shapes as arguments of Python functions: `input_shapes`, and for `auto` also `open_sizes`.

    Raises:
        UsageError: A shape or the size after `auto=` is malformed, or an input has two shapes.
    """
    auto_words = [text for text in options.input_shapes if text == "auto" or text.startswith("auto=")]
    shapes = parse_input_shapes([text for text in options.input_shapes if text not in auto_words])
    if not auto_words:
        return {"input_shapes": shapes}
    word = auto_words[-1]  # of several words, the last one counts
    size = word.removeprefix("auto=")
    if word != "auto" and not (size.isdecimal() and len(size) <= _MAX_DIGITS):
        raise UsageError(f"--input-shapes {word} must be auto, or auto with a size as in auto=1.")
    return {"input_shapes": shapes, "open_sizes": "primes" if word == "auto" else int(size)}


def normalize_words(words: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """Rewrite the words of a command line so that argparse can parse options with several or optional values.

    `--input-shapes` and `--input` are repeated for each value: `--input a=1 b=2` becomes `--input a=1 --input b=2`.
    `--verify` is joined with its value, which may be empty: `--verify=`. A word that cannot be a value of the option
    before it, such as a model with one of the `suffixes`, stays an argument of the command, unless it is the first word
    after `--input-shapes` or `--input`.
    """

    def fits(option: str, word: str) -> bool:
        """Return whether a word can be a value of an option."""
        if word.startswith("-"):
            return False
        if option == "--verify":
            return word in VERIFIERS
        if option == "--input":
            return "=" in word and not word.endswith(tuple(suffixes))
        return _SHAPE.fullmatch(word) is not None

    separated: list[str] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return [*separated, word, *remaining]
        text, equals, _ = word.partition("=")
        # The full name of the option if `text` is this option or an abbreviation of it.
        option = next((name for name in _SHORTEST if name.startswith(text) and text.startswith(_SHORTEST[name])), "")
        if option == "--verify" and not equals:
            value = remaining.pop(0) if remaining and fits(option, remaining[0]) else ""
            separated.append(f"{option}={value}")
            continue
        separated.append(word)
        if option not in ("--input-shapes", "--input"):
            continue
        if not equals and remaining and not remaining[0].startswith("-"):
            separated.append(remaining.pop(0))  # even if it does not fit, so that the error is about this option
        while remaining and fits(option, remaining[0]):
            separated += [option, remaining.pop(0)]
    return separated


def parse_names(text: str | None, option: str) -> list[str] | None:
    """Return the names in the value of an option; None if the option is not given.

    Raises:
        UsageError: The value lists no names.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{option} lists no names; write names separated by commas, or leave the option out.")
    return names


def parse_input_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parse shapes such as `NAME:1,3,224,224` or `NAME:[1,3,224,224]`; `NAME:` alone is the shape of a scalar.

    Raises:
        UsageError: A shape is malformed, a size has too many digits, or an input has two shapes.
    """
    shapes = {}
    for text in texts:
        name, _, dims = text.rpartition(":")
        if dims[:1] == "[" and dims[-1:] == "]":
            dims = dims[1:-1]
        sizes = [dim.strip() for dim in dims.split(",")] if dims else []
        # A number of more than `_MAX_DIGITS` digits may exceed 64 bits.
        if not name or not all(dim.isdecimal() and len(dim) <= _MAX_DIGITS for dim in sizes):
            raise UsageError(
                f"input shape {text!r} must be written NAME:1,3,224,224 with sizes from 0 up, of at most "
                f"{_MAX_DIGITS} digits."
            )
        if name in shapes:
            raise UsageError(f"input {name!r} is given two shapes.")
        shapes[name] = tuple(map(int, sizes))
    return shapes


def parse_pairs(texts: Sequence[str], kind: str, form: str) -> dict[str, str]:
    """Split texts such as `NAME=VALUE` into a dict.

    `kind` is the noun for a text in error messages, and `form` is the expected form of a text.

    Raises:
        UsageError: A text is malformed, or a name occurs twice.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise UsageError(f"{kind} {text!r} must be written {form}.")
        if name in values:
            raise UsageError(f"{kind} {name!r} is given twice.")
        values[name] = value
    return values


def format_descriptions(descriptions: Mapping[str, str]) -> str:
    """Format each name with its description, wrapped to the width of the terminal."""
    indent = max(map(len, descriptions)) + 4  # 2 spaces before the name, and at least 2 after it
    columns = max(shutil.get_terminal_size().columns - 2, 40)  # argparse also leaves 2 columns free
    return "\n".join(
        textwrap.fill(text, columns, initial_indent=f"  {name}".ljust(indent), subsequent_indent=" " * indent)
        for name, text in descriptions.items()
    )
