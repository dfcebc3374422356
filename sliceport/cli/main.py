"""The command line. stdout is the result, stderr everything else.

Exit codes: 0 all lowered or equal; 1 a finding (something refused, a mismatch); 2 a usage or input error; 130 ended by
Ctrl-C; 143 ended by SIGTERM while files are written, or in a batch.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from sliceport.cli import console, interruption
from sliceport.cli.console import say
from sliceport.cli.options import split_repeated
from sliceport.cli.parser import BAD_INPUT, Parser, Version
from sliceport.errors import ModelError, SliceportError
from sliceport.formats import formats
from sliceport.unforeseen import describe_unforeseen
from sliceport.wording import command_line

CLEAN, FINDING, INTERRUPTED = 0, 1, 128 + signal.SIGINT
COMMANDS = ("lower", "compare", "harden", "rewrite", "batch", "defects", "directml", "doctor", "completion")
"""Each is a module of this package."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code, unless it is interrupted and that of this process."""
    if arguments is not None:
        return _main(list(arguments))
    interruption.remember()
    code = _main(sys.argv[1:])
    interruption.end()
    if code == INTERRUPTED:  # end at once: what was interrupted may have left locks that other threads wait for
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)
    gc.freeze()  # the process ends: it need not look for garbage in what it has loaded
    return code


def _main(words: list[str]) -> int:
    loud = sum(word.count("v") for word in words if re.fullmatch("-v+", word)) + words.count("--verbose") > 1
    with console.streams(loud=loud), command_line():
        try:
            return _run(words)
        except console.PipeClosed:
            return CLEAN
        except SliceportError as error:
            say(str(error))
            return BAD_INPUT
        except KeyboardInterrupt:
            interruption.end()
            say("interrupted")
            return INTERRUPTED


def _run(words: Sequence[str]) -> int:
    with interruption.restored():
        options = make_parser(words).parse_args(split_repeated(words, _endings(words)))
    subject = getattr(options, "model", None)
    try:
        with interruption.restored():
            result = options.run(options)  # an exit code, or whether there is nothing to find
        return result if type(result) is int else FINDING if result is False else CLEAN
    except ModelError as error:
        if subject is None or str(subject) in str(error):
            raise
        raise ModelError(f"'{subject}': {error}") from error
    except (SliceportError, console.PipeClosed):
        raise
    except Exception as error:  # whatever a library raises is about the file that it was given
        if options.verbose > 1:
            import traceback

            traceback.print_exc()
        file = f"'{subject}': " if subject else ""
        say(f"{file}{describe_unforeseen(error, '; -vv shows where')}")
        return BAD_INPUT


def _endings(words: Sequence[str]) -> list[str]:
    """How the names of models end; `doctor` starts where a format is broken, too, as it tells that."""
    if words[:1] == ["doctor"]:
        return []
    return [suffix for one in formats().values() for suffix in one.suffixes if suffix]


def make_parser(words: Sequence[str] = ()) -> Parser:
    """The parser of the whole command line, or of one that starts with these words."""
    parser = Parser(
        prog="sliceport", description="Converts slicing between ONNX, OpenVINO and DirectML exactly, and verifies it."
    )
    parser.add_argument("--version", action=Version, help="print the version")
    parser.set_defaults(run=lambda _: parser.print_help(), verbose=0)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name in [name for name in COMMANDS if name in words[:1]] or COMMANDS:
        import_module(f"sliceport.cli.{name}").add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
