"""The run of a command on a model that is not trusted: in a child process, within limits, with its files put in place.

The command line and batches run commands by `execute` alone: a command line is a batch of one model.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sliceport.arguments import load_array
from sliceport.commands.command import load
from sliceport.commands.outcome import Outcome
from sliceport.engines.custom_ops import with_custom_ops
from sliceport.engines.sizes import shapes_for_open_sizes
from sliceport.errors import ModelError, SliceportError, UsageError, list_causes
from sliceport.formats import DeclaresShapes, declared_shapes, format_of
from sliceport.sandbox import signals, supervisor
from sliceport.sandbox.child_process import ChildLost
from sliceport.sandbox.place import Placement, collect_placements, remove_scratch
from sliceport.sandbox.scratch import new_name
from sliceport.wording import command_line_spelling, describe_unforeseen

Shapes = Mapping[str, tuple[int, ...]]

_CAUSED_BY_MODEL = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EEXIST, errno.ELOOP)
)
"""Numbers of system errors that a model can cause by the names of its data files.

All other system errors, such as a full disk, a missing permission or a lost connection, come from the machine.
"""


@dataclass(frozen=True)
class Request:
    """A command to run on a model.

    Attributes:
        command: The name of the command, one of `sliceport.commands.command.NAMES`.
        model: The model's file.
        options: The same as `Options` of `sliceport.commands.outcome`, but `inputs` are names of files. `open_sizes`
            and `custom_ops` are options of every command.
        render: A function of a module that returns what the caller needs of the outcome. It runs in the child.
        output: The file or folder to write; None if the command is not asked to write one.
        overwrite: Whether to replace the output.
        common_shapes: Shapes for those of their inputs that the model has.
        verbose: The number of times that `--verbose` was given.
        advice: The end of the message about an unexpected error.
    """

    command: str
    model: str
    options: Mapping[str, Any]
    render: Callable[[Outcome], Any]
    output: Path | None = None
    overwrite: bool = False
    common_shapes: Shapes = field(default_factory=dict)
    verbose: int = 0
    advice: str = "please report it with this model"


@dataclass(frozen=True)
class Answer:
    """The outcome of a command, as a child sends it.

    Attributes:
        exit_code: The exit code of the command line: 0, 1 for a finding, or 2 if nothing was compared.
        rendered: The result of `Request.render`.
        output: See `Outcome`; so is `files`.
        files: The contents of further text files by name.
        placements: The files that `execute` has to rename into place.
    """

    exit_code: int
    rendered: Any
    output: Path | None
    files: Mapping[str, str]
    placements: tuple[Placement, ...]


class CommandFailed(SliceportError):
    """A command cannot be done for a model, or an option cannot be used.

    Attributes:
        is_caused_by_machine: Whether the machine or the network caused the error, so that a repetition may succeed.
        input_shapes: The shapes that were chosen for inputs with open sizes.
    """

    def __init__(
        self, message: str, *, is_caused_by_machine: bool = False, input_shapes: Shapes = MappingProxyType({})
    ) -> None:
        super().__init__(message)
        self.is_caused_by_machine, self.input_shapes = is_caused_by_machine, dict(input_shapes)


def execute(request: Request, **limits: Any) -> Answer:
    """Run a command on a model in a child process, then rename the files that it wrote to their final paths.

    `limits` are options of `supervisor.call`. If the command crashes, it runs once more.

    Raises:
        CommandFailed: The command cannot be done.
        ChildDied, MemoryError: The child ended, was ended, or lacks memory.
    """
    owner = new_name() if request.output is not None else ""  # a part of the names of the child's scratch folders
    try:
        answer: Answer = supervisor.call_with_retry(run_command, request, owner, **limits)
        with signals.shielded():  # otherwise a signal could leave only some of the files in place
            for placement in answer.placements:
                placement.commit()
    finally:
        if request.output is not None:
            remove_scratch(request.output.parent, owner)
    return answer


def run_command(request: Request, owner: str = "") -> Answer:
    """Run a command on a model in this process.

    With an `owner`, leave the output in scratch folders whose names contain `owner`, and list it in `placements`.

    Raises:
        CommandFailed: The command cannot be done. The cause is the error of the command.
        ChildLost: The machine ended a process that this one waited for, or could not start it.
    """
    if request.verbose > 1:
        logging.basicConfig(level=logging.DEBUG, format="%(message)s")  # a child that was not forked has no log yet
    context: AbstractContextManager[list[Placement]] = nullcontext([])
    if owner and request.output is not None:
        context = collect_placements(request.output, owner)
    options, chosen = dict(request.options), dict[str, tuple[int, ...]]()
    try:
        with command_line_spelling(), with_custom_ops(options.pop("custom_ops", "")), context as placements:
            if request.output is not None and request.overwrite:
                files = (request.model, options.get("other"), options.get("against"))
                _check_kept(request.output, [*filter(None, files), *(options.get("inputs") or {}).values()])
            if options.get("inputs"):
                options["inputs"] = {name: load_array(file) for name, file in options["inputs"].items()}
            chosen = _complete_shapes(request, options)
            outcome = load(request.command).run(request.model, request.output, options, request.overwrite)
            rendered = request.render(replace(outcome, input_shapes=chosen))
    except ChildLost:  # this SliceportError is not about the model
        raise
    except Exception as error:  # a library may raise anything about the file
        if request.verbose > 1 and not isinstance(error, SliceportError):
            import traceback

            traceback.print_exc()
        raise CommandFailed(
            _describe_error(request, error), is_caused_by_machine=_is_caused_by_machine(error), input_shapes=chosen
        ) from error
    exit_code = 2 if outcome.is_untested else int(not outcome.is_clean)
    return Answer(exit_code, rendered, outcome.output, outcome.files, tuple(placements))


def _complete_shapes(request: Request, options: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Add the shapes of `common_shapes`, and for `open_sizes` of arrays and of inputs with open sizes, to `options`.

    Return the shapes that were chosen.
    """
    shapes, chosen = dict(request.common_shapes), dict[str, tuple[int, ...]]()
    if shapes and isinstance(format_of(request.model), DeclaresShapes):
        declared = declared_shapes(request.model)
        shapes = {name: shape for name, shape in shapes.items() if name in declared}
    shapes |= options.get("input_shapes") or {}
    open_sizes = options.pop("open_sizes", None)
    if open_sizes is not None:
        shapes = {name: array.shape for name, array in (options.get("inputs") or {}).items()} | shapes
        chosen = shapes_for_open_sizes(declared_shapes(request.model), shapes, open_sizes)
    options["input_shapes"] = shapes | chosen
    return chosen


def _describe_error(request: Request, error: Exception) -> str:
    """Return the message of an error. If it is about the model, it names the model's file."""
    if not isinstance(error, SliceportError):
        return f"'{request.model}': {describe_unforeseen(error, request.advice)}"
    is_named = not isinstance(error, ModelError) or request.model in str(error)  # other errors name it, or an option
    return str(error) if is_named else f"'{request.model}': {error}"


def _is_caused_by_machine(error: BaseException) -> bool:
    """Return whether an error comes from the machine, so that a repetition may succeed."""
    return any(
        # An OSError without a number comes from a library, and is about the content of a file.
        (isinstance(cause, OSError) and cause.errno is not None and cause.errno not in _CAUSED_BY_MODEL)
        or isinstance(cause, ConnectionError | TimeoutError)
        for cause in list_causes(error)
    )


def _check_kept(output: Path, files: Iterable[str]) -> None:
    """Raise a UsageError if `output` is a folder with one of the files that the command reads, or a link to one."""
    # The name of an engine may stand in place of a file.
    for path in map(Path, filter(os.path.exists, files if os.path.isdir(output) else ())):
        if any(folder.is_relative_to(output.resolve()) for folder in (path.resolve(), path.parent.resolve())):
            raise UsageError(f"output '{output}' holds '{path}', which this command reads; give another name.")
