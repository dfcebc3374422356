"""The work of one command line. A child does the work, and the main process puts the files into place."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sliceport.arguments import load_array
from sliceport.cli import console
from sliceport.cli.console import emit, say
from sliceport.cli.pages import add_pages, check_page_files, write_pages
from sliceport.cli.parser import Commands, Parser
from sliceport.commands.command import Command, load
from sliceport.commands.options import add_format, add_limits, add_verbose, parse_seconds, parse_size
from sliceport.engines.custom_ops import with_custom_ops
from sliceport.errors import ModelError, SliceportError, UsageError, is_out_of_memory
from sliceport.sandbox import signals, supervisor
from sliceport.sandbox.child_process import ChildCrashed, ChildDied, ChildKilled, ChildLost, ChildTimedOut
from sliceport.sandbox.place import Placement, collect_placements, remove_scratch
from sliceport.sandbox.scratch import new_name
from sliceport.wording import command_line_spelling, describe_unforeseen
from sliceport.wording.json_text import to_text
from sliceport.wording.shell import join


@dataclass(frozen=True)
class Work:
    """The task of a child.

    Attributes:
        command: The name of a command, one of `sliceport.commands.command.NAMES`.
        model: The model's file.
        output: The file or folder to write; None if the command is not asked to write one.
        options: The same as `Options` of `sliceport.commands.outcome`, but `inputs` are names of files.
        overwrite: Whether to replace the output.
        form: `json`, `text`, or `summary`, which is one line.
        verbose: The number of times that `--verbose` was given.
        columns: The columns of the terminal; None without a terminal.
    """

    command: str
    model: str
    output: str | None
    options: Mapping[str, Any]
    overwrite: bool
    form: str
    verbose: int
    columns: int | None = None


@dataclass(frozen=True)
class Answer:
    """The result of a child.

    Attributes:
        exit_code: The exit code of the command line: 0, 1 for a finding, or 2 if nothing was compared.
        text: The text to print.
        is_written: Whether the output was written, or is among the placements.
        placements: The files that the main process has to rename into place.
        files: The contents of further text files by name.
    """

    exit_code: int
    text: str
    is_written: bool
    placements: tuple[Placement, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def add_command(commands: Commands, command: Command) -> None:
    """Add the parser of a command on one model. The parsed options hold two functions: `build_work` and `supervise`."""
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
    parser.listing = command.listing
    add_format(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the last line of the text")
    add_verbose(parser, command.verbose)
    add_limits(parser)
    if command.has_pages:
        add_pages(parser)

    def build_work(options: argparse.Namespace) -> Work:
        pages = check_page_files(options) if command.has_pages else {}
        other = {"other": options.other} if command.other else {}
        return Work(
            command=command.name,
            model=options.model,
            output=getattr(options, "output", None),  # only commands that write have --output and --overwrite
            options=other | pages | command.read_options(options),
            overwrite=getattr(options, "overwrite", False),
            form="summary" if options.format == "text" and options.quiet else options.format,
            verbose=options.verbose,
            columns=console.width(),
        )

    parser.set_defaults(supervise=run, build_work=build_work)


def run(options: argparse.Namespace, *, is_supervised: bool) -> int:
    """Run a command on a model, write its files, print the result, and return the exit code.

    `options` come from a parser of `add_command`. See `get_answer` for `is_supervised`.

    Raises:
        SliceportError: The work cannot be done.
    """
    work: Work = options.build_work(options)
    answer = get_answer(work, options, is_supervised=is_supervised)
    if work.output is not None:
        # Nothing is written if there is nothing to write, such as for equal outputs in `diff`. But if a command that
        # writes "always" wrote nothing, it has rejected its result.
        is_rejected = not answer.is_written and load(work.command).writes == "always"
        reason = ", because the rewritten model computes something else" if is_rejected else ""
        say(f"{'wrote' if answer.is_written else 'did not write'} {work.output}{reason}")
    write_pages(answer.files, overwrite=work.overwrite)
    emit(answer.text)
    return answer.exit_code


def get_answer(work: Work, options: argparse.Namespace, *, is_supervised: bool) -> Answer:
    """Do the work and return its result.

    A child process does the work if `is_supervised` is set, or if `options` limit time or memory.

    Raises:
        SliceportError: The work cannot be done.
    """
    if os.path.isdir(work.model):
        batch = join(["sliceport", "batch", work.command, work.model, "-o", "RUN"])
        raise UsageError(f"'{work.model}' is a folder, and {work.command} takes a file; write {batch}.")
    timeout, memory = parse_seconds(options.timeout), parse_size(options.memory)
    try:
        if is_supervised or timeout is not None or memory is not None:
            # `is_supervised` is set for command lines only.
            return _supervise(work, timeout, memory, is_command_line=is_supervised)
        with console.showing_progress():
            return compute_answer(work)
    except Exception as error:
        if not (isinstance(error, ChildDied) or is_out_of_memory(error)):
            raise
        raise ModelError(f"'{work.model}': {_describe_end(error, timeout, memory)}") from None


def _supervise(work: Work, timeout: float | None, memory: int | None, *, is_command_line: bool) -> Answer:
    """Have a child process do the work, then rename the files that it wrote to their final paths."""
    owner = "" if work.output is None else new_name()  # a part of the names of the child's scratch folders
    log = 2 if work.verbose > 1 else None  # stderr
    try:
        # A command line makes few calls, so each call can fork a child of its own. A library call uses the pool.
        with console.showing_progress():
            answer: Answer = supervisor.call_with_retry(
                compute_answer, work, owner, timeout=timeout, memory=memory, forks=is_command_line, log=log
            )
        with signals.shielded():  # otherwise a signal could leave only some of the files in place
            for placement in answer.placements:
                placement.commit()
    finally:
        if work.output is not None:
            remove_scratch(Path(work.output).parent, owner)
    return answer


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


def compute_answer(work: Work, owner: str = "") -> Answer:
    """Run the command on the model and return the result.

    With an `owner`, leave the output in scratch folders whose names contain `owner`, and list it in `placements`.

    Raises:
        UsageError: An option cannot be used.
        ChildLost: The machine ended a process that this one waited for, or could not start it.
        SliceportError: The work cannot be done for any other reason.
    """
    output = None if work.output is None else Path(work.output)
    if work.verbose > 1:
        logging.basicConfig(level=logging.DEBUG, format="%(message)s")  # a child that was not forked has no log yet
    context: AbstractContextManager[list[Placement]] = (
        collect_placements(output, owner) if owner and output is not None else nullcontext([])
    )
    try:
        options = dict(work.options)
        with command_line_spelling(), with_custom_ops(options.pop("custom_ops", "")), context as placements:
            if output is not None and work.overwrite:
                files = (work.model, options.get("other"), options.get("against"))
                _check_kept(output, [*filter(None, files), *(options.get("inputs") or {}).values()])
            if options.get("inputs"):
                options["inputs"] = {name: load_array(file) for name, file in options["inputs"].items()}
            outcome = load(work.command).run(work.model, output, options, work.overwrite)
            if work.form == "json":
                text = to_text(outcome.to_json())
            else:
                text = outcome.summary() if work.form == "summary" else outcome.text(work.verbose > 0, work.columns)
            exit_code = 2 if outcome.is_untested else int(not outcome.is_clean)
            return Answer(exit_code, text, outcome.output is not None, tuple(placements), outcome.files)
    except ChildLost:  # this SliceportError is not about the model
        raise
    # Raise plain classes, so that the main process need not import the module of a subclass.
    except UsageError as error:
        raise UsageError(str(error)) from error
    except SliceportError as error:  # only the message of a ModelError may lack the path of the model
        is_named = not isinstance(error, ModelError) or os.fspath(work.model) in str(error)
        raise SliceportError(str(error) if is_named else f"'{work.model}': {error}") from error
    except Exception as error:  # a library may raise anything about the file
        if work.verbose > 1:
            import traceback

            traceback.print_exc()
        raise SliceportError(
            f"'{work.model}': {describe_unforeseen(error, '-vv shows where; please report it with this model')}"
        ) from error


def _check_kept(output: Path, files: Iterable[str]) -> None:
    """Raise a UsageError if `output` is a folder with one of the files that the command reads, or a link to one."""
    # The name of an engine may stand in place of a file.
    for path in map(Path, filter(os.path.exists, files if os.path.isdir(output) else ())):
        if any(folder.is_relative_to(output.resolve()) for folder in (path.resolve(), path.parent.resolve())):
            raise UsageError(f"output '{output}' holds '{path}', which this command reads; give another name.")
