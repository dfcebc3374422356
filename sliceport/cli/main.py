"""The command line: the result on stdout, everything else on stderr.

Exit codes: 0 no finding; 1 a finding (something refused, a mismatch); 2 a usage or input error, an unforeseen error, or
a model whose process died; 130 ended by Ctrl-C; 143 ended by SIGTERM.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module

from sliceport import __version__
from sliceport.cli import console
from sliceport.cli.console import emit_json, say
from sliceport.cli.parser import BAD_INPUT, Parser
from sliceport.cli.work import add_command
from sliceport.commands.command import NAMES, load
from sliceport.commands.options import normalize_words
from sliceport.errors import SliceportError
from sliceport.formats import formats
from sliceport.wording import command_line_spelling, describe_unforeseen

CLEAN = 0
COMMANDS = (
    "check", "diff", "probe", "harden", "rewrite", "lower", "compare", "batch", "cases", "defects", "directml",
    "doctor", "completion",
)  # fmt: skip
"""The commands in the order of the help. Each is a command on one model, or a module of this package."""


def main(words: Sequence[str]) -> int:
    """Run a command line in this process, unless a limit of time or memory needs a child. Return its exit code.

    `words` are those after the program's name. For the command line of this process, see `sliceport.cli.start`.
    """
    return run_command_line(list(words), is_supervised=False)


def run_command_line(words: list[str], *, is_supervised: bool) -> int:
    """Run a command line and return the exit code. If `is_supervised`, a child always does the work on a model."""
    # Search for -vv before parsing the words, because the parser imports formats, whose logs are wanted as well.
    long_options = [word for word in words if len(word) > 2 and "--verbose".startswith(word)]  # argparse accepts --verb
    count = len(long_options) + sum(word.count("v") for word in words if re.fullmatch("-[qv]+", word))
    loud = count > 1
    with console.prepared_streams(loud=loud), command_line_spelling():
        try:
            return _parse_and_run(words, is_supervised=is_supervised)
        except console.PipeClosed:
            return CLEAN
        except SliceportError as error:
            say(str(error))
        except Exception as error:
            if loud:
                import traceback

                traceback.print_exc()
            say(describe_unforeseen(error, "-vv shows where; please report it"))
        return BAD_INPUT


def _parse_and_run(words: Sequence[str], *, is_supervised: bool) -> int:
    """Parse and run a command line, and return the exit code. If it asks for JSON, also print an error as JSON."""
    # `doctor` must start even if a format cannot be loaded, because it reports such formats.
    installed = [] if words[:1] == ["doctor"] else formats().values()
    suffixes = [suffix for format_ in installed for suffix in format_.suffixes if suffix]  # every word ends with ""
    try:
        options = make_parser(words).parse_args(normalize_words(words, suffixes))
        if hasattr(options, "supervise"):  # a command on a model, which a child process can run
            return int(options.supervise(options, is_supervised=is_supervised))
        with console.showing_progress():
            result = options.run(options)  # True without findings, False with findings, an exit code, or None for 0
        return int(not result) if isinstance(result, bool) else (result or CLEAN)
    except SliceportError as error:
        # argparse returns no options if it rejects a word, so search the words. --format may be abbreviated.
        if re.search(r"(^| )--(json|f(o\w*)?[ =]json)( |$)", " ".join(words)):
            emit_json({"schema_version": 1, "error": str(error)})
        raise


def make_parser(words: Sequence[str] = ()) -> Parser:
    """Build the parser of the command with which `words` begin, or else of all commands."""
    parser = Parser(
        prog="sliceport", description="Converts slicing between ONNX, OpenVINO and DirectML exactly, and verifies it."
    )
    parser.add_argument("--version", action="version", version=f"sliceport {__version__}", help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    chosen = [name for name in COMMANDS if name in words[:1]]  # the modules of one command load faster than all
    for name in chosen or COMMANDS:
        if name in NAMES and name != "check":  # `check` has a parser of its own, for several models
            add_command(commands, load(name))
        else:
            import_module(f"sliceport.cli.{name}").add(commands)
    return parser
