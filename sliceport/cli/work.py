"""The command lines on one model: their options, and their results on the terminal."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

from sliceport.cli import console
from sliceport.cli.console import emit, say
from sliceport.cli.pages import add_pages, check_page_files, write_pages
from sliceport.cli.parser import Commands, Parser
from sliceport.commands.command import Command, load
from sliceport.commands.execute import Answer, Request, execute, run_command
from sliceport.commands.options import add_format, add_limits, add_verbose, parse_seconds, parse_size
from sliceport.commands.outcome import Outcome
from sliceport.errors import ModelError, UsageError, is_out_of_memory
from sliceport.sandbox.child_process import ChildCrashed, ChildDied, ChildKilled, ChildTimedOut
from sliceport.wording import describe_unforeseen
from sliceport.wording.json_text import to_text
from sliceport.wording.shell import join

ADVICE = "-vv shows where; please report it with this model"
"""The end of the message about an unexpected error."""


def add_command(commands: Commands, command: Command) -> None:
    """Add the parser of a command on one model. The parsed options have `build_request` and `supervise`."""
    parser: Parser = commands.add_parser(command.name, help=command.help)
    placeholder, model_help = command.model
    parser.add_argument("model", metavar=placeholder, help=model_help)
    if command.other:
        parser.add_argument("other", nargs="?", metavar="B", help=command.other)
    if command.writes != "never":
        always = command.writes == "always"
        metavar = "OUT" if always else "DIR"
        parser.add_argument(*command.output_flags, dest="output", required=always, metavar=metavar, help=command.output)
        pages = "existing report files, and " if command.has_pages else ""
        overwritten = "OUT and the files that belong to it" if always else f"{pages}DIR if an earlier run wrote it"
        parser.add_argument("--overwrite", action="store_true", help=f"replace {overwritten}")
    command.add_options(parser)
    parser.listing = command.list_choices
    add_format(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the last line of the text")
    add_verbose(parser, command.verbose)
    add_limits(parser)
    if command.has_pages:
        add_pages(parser)

    def build_request(options: argparse.Namespace) -> Request:
        pages = check_page_files(options) if command.has_pages else {}
        other = {"other": options.other} if command.other else {}
        output = getattr(options, "output", None)  # only commands that write have --output and --overwrite
        form = "summary" if options.format == "text" and options.quiet else options.format
        return Request(
            command=command.name,
            model=options.model,
            options=other | pages | command.read_options(options),
            render=partial(render, form=form, verbose=options.verbose > 0, columns=console.width()),
            output=None if output is None else Path(output),
            overwrite=getattr(options, "overwrite", False),
            verbose=options.verbose,
            advice=ADVICE,
        )

    parser.set_defaults(supervise=run, build_request=build_request)


def render(outcome: Outcome, *, form: str, verbose: bool = False, columns: int | None = None) -> str:
    """Format an outcome as `json`, `text`, or `summary`, which is one line. `columns` is None without a terminal."""
    if form == "json":
        return to_text(outcome.to_json())
    return outcome.summary() if form == "summary" else outcome.text(verbose, columns)


def run(options: argparse.Namespace, *, is_supervised: bool) -> int:
    """Run a command on a model, write its files, print the result, and return the exit code.

    `options` come from a parser of `add_command`. See `get_answer` for `is_supervised`.

    Raises:
        SliceportError: The work cannot be done.
    """
    request: Request = options.build_request(options)
    answer = get_answer(request, options, is_supervised=is_supervised)
    if request.output is not None:
        # Nothing is written if there is nothing to write, such as for equal outputs in `diff`. But if a command that
        # writes "always" wrote nothing, it has rejected its result.
        is_rejected = answer.output is None and load(request.command).writes == "always"
        reason = ", because the rewritten model computes something else" if is_rejected else ""
        say(f"{'did not write' if answer.output is None else 'wrote'} {request.output}{reason}")
    write_pages(answer.files, overwrite=request.overwrite)
    emit(answer.rendered)
    return answer.exit_code


def get_answer(request: Request, options: argparse.Namespace, *, is_supervised: bool) -> Answer:
    """Do the work and return its result.

    A child process does the work if `is_supervised` is set, or if `options` limit time or memory.

    Raises:
        SliceportError: The work cannot be done.
    """
    if os.path.isdir(request.model):
        batch = join(["sliceport", "batch", request.command, request.model, "-o", "RUN"])
        raise UsageError(f"'{request.model}' is a folder, and {request.command} takes a file; write {batch}.")
    timeout, memory = parse_seconds(options.timeout), parse_size(options.memory)
    log = 2 if request.verbose > 1 else None  # stderr
    try:
        with console.showing_progress():
            if not is_supervised and timeout is None and memory is None:
                return run_command(request)
            # A command line makes few calls, so each call can fork a child of its own. A library call uses the pool.
            return execute(request, timeout=timeout, memory=memory, forks=is_supervised, log=log)
    except Exception as error:
        if not (isinstance(error, ChildDied) or is_out_of_memory(error)):
            raise
        raise ModelError(f"'{request.model}': {_describe_end(error, timeout, memory)}") from None


def _describe_end(error: Exception, timeout: float | None, memory: int | None) -> str:
    """Return why the work ended, as text that follows the name of the model's file and a colon."""
    if is_out_of_memory(error):
        if memory is None:
            return describe_unforeseen(MemoryError())
        return f"it takes more than {memory / 2**20:.0f} MiB of memory; --memory 0 disables the limit."
    if isinstance(error, ChildTimedOut) and timeout is not None:
        return f"it takes more than {timeout:g} s; --timeout 0 disables the limit."
    cause = "; the system may have run out of memory" if isinstance(error, ChildKilled) else ""
    if isinstance(error, ChildCrashed) and memory is not None:  # some libraries crash if an allocation fails
        cause = f"; it may need more than {memory / 2**20:.0f} MiB of memory, and --memory 0 disables the limit"
    return f"its process {error}{cause}."
