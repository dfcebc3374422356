"""The work of one command line: described by the main process, done by a child, finished by the main process."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sliceport.cli import console
from sliceport.cli.console import emit, say
from sliceport.cli.limits import parse_seconds, parse_size
from sliceport.commands.command import COMMANDS
from sliceport.errors import ModelError, SliceportError, UsageError
from sliceport.sandbox import supervisor
from sliceport.sandbox.place import Placement, deferred, new_token, remove_scratch
from sliceport.unforeseen import describe_unforeseen
from sliceport.wording import command_line


@dataclass(frozen=True)
class Work:
    """What a child is to do.

    Attributes:
        command: The name of a command of `COMMANDS`.
        model: The model's file.
        output: The file or folder to write; None for none.
        options: Arguments of the Python function that does the same, `inputs` as names of files.
        overwrite: Whether to replace the output.
        form: `json`, `text`, or `summary`, the last line of the text.
        verbose: How often `--verbose` was given.
        columns: The columns of the terminal, if there is one.
    """

    command: str
    model: str
    output: str | None
    options: Mapping[str, Any]
    overwrite: bool
    form: str
    verbose: int
    columns: int | None


@dataclass(frozen=True)
class Answer:
    """What a child did.

    Attributes:
        is_clean: Whether there is no finding.
        text: What to print.
        is_written: Whether the output was written, or waits for its place.
        placements: What waits for its place.
    """

    is_clean: bool
    text: str
    is_written: bool
    placements: tuple[Placement, ...] = ()


def set_work(
    parser: argparse.ArgumentParser, command: str, read_options: Callable[[argparse.Namespace], dict[str, Any]]
) -> None:
    """Let a parser describe the work of a command.

    Args:
        parser: The parser.
        command: The name of a command of `COMMANDS`.
        read_options: Returns the options of the Python function; raises UsageError.
    """

    def describe(options: argparse.Namespace) -> Work:
        is_summary = options.format == "text" and getattr(options, "quiet", False)
        return Work(
            command,
            options.model,
            getattr(options, "output", None),
            read_options(options),
            getattr(options, "overwrite", False),
            "summary" if is_summary else options.format,
            options.verbose,
            console.width(),
        )

    parser.set_defaults(work=describe)


def run(options: argparse.Namespace, *, is_supervised: bool) -> bool:
    """Do the work that options describe, and print its result; return whether there is no finding.

    Args:
        options: The options of a parser of `set_work`.
        is_supervised: Whether a child does the work even if no limit needs one.

    Raises:
        SliceportError: The work cannot be done.
    """
    work: Work = options.work(options)
    timeout, memory = parse_seconds(options.timeout), parse_size(options.memory)
    try:
        if is_supervised or timeout is not None or memory is not None:
            answer = _supervise(work, timeout, memory, is_supervised=is_supervised)
        else:
            with console.showing_progress():
                answer = do(work)
    except MemoryError as error:
        bound = f"it takes more than {(memory or 0) / 2**20:.0f} MiB of memory; --memory 0 sets no limit."
        raise ModelError(f"'{work.model}': {bound if memory else describe_unforeseen(error)}") from None
    if work.output is not None:
        reason = "" if answer.is_written else ", because the rewritten model computes something else"
        say(f"{'wrote' if answer.is_written else 'did not write'} {work.output}{reason}")
    emit(answer.text)
    return answer.is_clean


def _supervise(work: Work, timeout: float | None, memory: int | None, *, is_supervised: bool) -> Answer:
    """Have a child do the work, and put its files into place."""
    token = new_token()
    log = 2 if work.verbose > 1 else None
    try:
        with console.showing_progress():
            answer: Answer = supervisor.call_twice(
                do, work, token, timeout=timeout, memory=memory, forks=is_supervised, log=log
            )
        with supervisor.shielded():
            for placement in answer.placements:
                placement.commit()
    except supervisor.ChildTimedOut:
        reason = f"it takes more than {timeout:g} s; --timeout 0 sets no limit."
        raise ModelError(f"'{work.model}': {reason}") from None
    except supervisor.ChildKilled as error:
        raise ModelError(f"'{work.model}': its process {error}, as a system does that lacks memory.") from None
    except supervisor.ChildDied as error:
        raise ModelError(f"'{work.model}': its process {error}.") from None
    finally:
        if work.output is not None:
            remove_scratch(Path(work.output).parent, token)
    return answer


def do(work: Work, token: str = "") -> Answer:
    """Do the work: in a child, which leaves what it writes in scratch folders, or in this process.

    Args:
        work: The work.
        token: Part of the names of the scratch folders; empty if this process puts the files into place.

    Raises:
        MemoryError: There is not enough memory.
        UsageError, SliceportError: The work cannot be done; the message says why.
    """
    output = None if work.output is None else Path(work.output)
    if work.verbose > 1:
        logging.basicConfig(level=logging.DEBUG, format="%(message)s")  # for a child that is not forked
    context: AbstractContextManager[list[Placement]] = nullcontext([])
    if token and output is not None:
        context = deferred(output, token)
    try:
        with command_line(), context as placements:
            outcome = COMMANDS[work.command].run(
                work.model, output, _load_inputs(work.options), overwrite=work.overwrite
            )
            if work.form == "json":
                from sliceport.json_text import to_text

                text = to_text(outcome.to_json())
            else:
                text = outcome.summary() if work.form == "summary" else outcome.text(work.verbose > 0, work.columns)
            return Answer(outcome.is_clean, text, outcome.output is not None, tuple(placements))
    except UsageError as error:
        raise UsageError(str(error)) from error
    except SliceportError as error:
        is_named = not isinstance(error, ModelError) or os.fspath(work.model) in str(error)
        # A plain error: the main process need not import the module of its class.
        raise SliceportError(str(error) if is_named else f"'{work.model}': {error}") from error
    except Exception as error:  # whatever a library raises is about the file that it was given
        if work.verbose > 1:
            import traceback

            traceback.print_exc()
        if isinstance(error, MemoryError):
            raise
        raise SliceportError(f"'{work.model}': {describe_unforeseen(error, '; -vv shows where')}") from error


def _load_inputs(options: Mapping[str, Any]) -> dict[str, Any]:
    """Replace names of files by their arrays.

    Raises:
        UsageError: A file cannot be read.
    """
    if not options.get("inputs"):
        return dict(options)
    from sliceport.array_file import load_array

    return {**options, "inputs": {name: load_array(file) for name, file in options["inputs"].items()}}
