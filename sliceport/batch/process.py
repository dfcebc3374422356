"""Doing the task of one model, in a child process that may end badly.

`process` is what a worker of whatever kind does with a task. The work happens in a child process (`sliceport.sandbox`),
so that a model that crashes, never ends or takes too much memory costs nobody else anything. The result is stored under
the hash of all that it depends on, so that doing a task twice does no harm.
"""

from __future__ import annotations

import errno
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from sliceport.arguments import load_array
from sliceport.batch.file_systems import RemoteError
from sliceport.batch.identity import Identity, fetch, identify, options_of
from sliceport.batch.result import encode_result, make_result, read_result, result_name, show_path, stderr_name, to_row
from sliceport.batch.row import FAILURES
from sliceport.batch.store import open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.commands.command import COMMANDS
from sliceport.commands.outcome import Outcome
from sliceport.errors import SliceportError, UsageError
from sliceport.formats import DeclaresShapes, format_of
from sliceport.sandbox import supervisor
from sliceport.wording import command_line, describe_unforeseen

_OUTPUT = "output"
"""The folder that a command writes into, within that of its task."""
_PREPARATION = 60.0
"""Seconds for the start of a process, besides what a model may take."""
_SHUTDOWN = 5.0
"""Seconds in which this process will have ended, too, if that of a model was told to."""
_MAX_LINES = 20
"""Of what a process that died wrote to stderr: the last ones."""


class RunStopped(Exception):
    """The run was stopped while a model was under way."""


def process(job: Job, task: Task, scratch: Path, is_stopped: threading.Event) -> Done:
    """Do a task, unless its result is there already. What is wrong with the model is its result.

    Args:
        job: The command and options of all tasks.
        task: The model.
        scratch: A local folder for what is written on the way.
        is_stopped: Set before processes under way are ended.

    Raises:
        RunStopped: `is_stopped` is set.
        UsageError: The result cannot be read or stored, or no process be started.
    """
    begun = time.monotonic()
    folder = scratch / secrets.token_hex(8)  # made by what writes there: few models need it
    try:
        done = _process(job, task, folder, is_stopped)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(done, seconds=round(time.monotonic() - begun, 4))


def _process(job: Job, task: Task, folder: Path, is_stopped: threading.Event) -> Done:
    patience = None if job.timeout is None else job.timeout + _PREPARATION
    identity: Identity | None = None
    done: Done | None
    try:
        identity, done = _call(is_stopped, _look_up, job, task, folder, timeout=patience, memory=job.memory)
        if done is None:
            done = _call(is_stopped, _execute, job, task, identity, folder, timeout=job.timeout, memory=job.memory)
    except UnreadableResult:
        raise
    except supervisor.ChildNotStarted as error:  # it is so for all models
        if is_stopped.is_set():
            raise RunStopped from None
        raise UsageError(f"a process for '{task.model}' {error}.") from None
    except Exception as error:
        if isinstance(error, supervisor.ChildDied | MemoryError) and is_stopped.is_set():
            raise RunStopped from None
        if identity is None:
            return _unstored(job, task, "", task.location, folder, _failure(job, error))
        if isinstance(error, supervisor.ChildLost):
            return _unstored(job, task, identity.key, identity.path, folder, _failure(job, error))
        if not isinstance(error, supervisor.ChildDied | MemoryError):
            raise
        failure = _failure(job, error)
        store, stderr = open_store(job.root), failure.pop("stderr", [])
        stored = make_result(job.command, identity.path, folder / _OUTPUT, failure)
        store.write(stderr_name(identity.key), "".join(f"{line}\n" for line in stderr).encode("utf-8", "replace"))
        store.write(result_name(identity.key), encode_result(stored))
        return _summarize(task, identity.key, stored)
    return done


def _call(is_stopped: threading.Event, function: Callable[..., Any], *args: Any, **limits: Any) -> Any:
    """Call a function in a child, and again if SIGTERM ended the child, which says nothing about the model.

    If the whole machine shuts down, this process ends before the second call.
    """
    try:
        return supervisor.call_twice(function, *args, **limits)
    except supervisor.ChildTerminated:
        if is_stopped.wait(_SHUTDOWN):
            raise
        return supervisor.call_twice(function, *args, **limits)


class UnreadableResult(UsageError):
    """Error of the folder of the results, not of a model."""


def _look_up(job: Job, task: Task, folder: Path) -> tuple[Identity, Done | None]:
    """Find a model and its result, and load what the work needs, so that the time for it is the model's own."""
    command = COMMANDS[job.command]
    for module in command.modules:
        import_module(module)
    identity = identify(job, task, folder)
    try:
        stored = read_result(open_store(job.root), identity.key)
    except UsageError as error:
        raise UnreadableResult(str(error)) from None
    if stored is None or not _is_valid(job, stored):
        return identity if identity.path else identify(job, task, folder, downloads=True), None
    return identity, _summarize(task, identity.key, stored, cached=True)


def _is_valid(job: Job, stored: Mapping[str, Any]) -> bool:
    """Whether a result need not be made again: its limits were not lower, and what it wrote is there."""
    if job.retries and stored["verdict"] in FAILURES:
        return False
    for name, limit in stored.get("limits", {}).items():
        allowed = getattr(job, name)
        if limit is not None and (allowed is None or allowed > limit):
            return False
    return "output" not in stored or open_store(job.root).has(stored["output"])


def _execute(job: Job, task: Task, identity: Identity, folder: Path) -> Done:
    """Do the work and store its result, if it is one of the model alone."""
    command = COMMANDS[job.command]
    key, path = identity.key, identity.path
    output = folder / _OUTPUT if job.writes or command.writes == "always" else None
    chosen: dict[str, list[int]] = {}
    is_of_machine = False
    try:
        if output is not None:
            output.mkdir(parents=True)
        options = options_of(job, task)
        given = _fitting_shapes(path, job.options) | dict(task.options.get("input_shapes") or {})
        if job.chooses_shapes:
            from sliceport.open_shapes import choose_shapes

            chosen = {name: list(shape) for name, shape in choose_shapes(path, given).items()}
        if given or chosen or options.get("input_shapes"):
            options["input_shapes"] = chosen | given
        if options.get("inputs"):
            options["inputs"] = {name: load_array(fetch(file, folder)) for name, file in options["inputs"].items()}
        with command_line():
            place = None if output is None else output / command.name_output(path, options)
            made = _verdict_of(command.run(path, place, options), output)
    except supervisor.ChildLost:
        raise
    except Exception as error:  # whatever a library raises is about the file that it was given
        made = _failure(job, error)
        is_of_machine = _is_of_machine(error)
    if chosen:
        made["input_shapes"] = chosen
    if is_of_machine:
        made.pop("output", None)
        return _unstored(job, task, key, path, folder, made)
    if not identity.is_current():
        changed = {"verdict": "error", "message": "it was changed while it was read."}
        return _unstored(job, task, "", path, folder, changed)
    folder_name = f"outputs/{key[:2]}/{key}"
    if "output" in made:
        made["output"] = f"{folder_name}/{made['output']}"
    try:
        result = make_result(job.command, path, folder / _OUTPUT, made)
        data = encode_result(result)
    except (TypeError, ValueError, RecursionError, AttributeError) as error:  # JSON cannot hold what a format gives
        result = make_result(job.command, path, folder / _OUTPUT, _failure(job, error))
        data = encode_result(result)
    store = open_store(job.root)
    if output is not None and "output" in result:
        store.put_folder(folder_name, output)
    store.write(result_name(key), data)
    return _summarize(task, key, result)


_OF_MODEL = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EEXIST, errno.ELOOP)
)
"""Errors of the system that a model's content causes, by the names of its data files.

All others, such as a full disk, a missing permission or a lost connection, say nothing about the model.
"""


def _is_of_machine(error: BaseException | None) -> bool:
    """Return whether an error comes from the machine or the network, so that the next run may be without it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        # Libraries raise an OSError without a number about the content of a file.
        if isinstance(error, OSError) and error.errno is not None and error.errno not in _OF_MODEL:
            return True
        if isinstance(error, ConnectionError | TimeoutError | RemoteError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _fitting_shapes(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shapes given for all models, without those of inputs that this model lacks."""
    given = dict(options.get("input_shapes") or {})
    one = format_of(path)
    if not given or not isinstance(one, DeclaresShapes):
        return given
    declared = one.declared_shapes(path)
    return {name: shape for name, shape in given.items() if name in declared}


def _verdict_of(outcome: Outcome, folder: Path | None) -> dict[str, Any]:
    """Return the parts of a result that an outcome has; its output is named relative to the folder."""
    findings = outcome.list_findings()
    said = [found["message"] for found in findings if found["message"]]
    more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
    made: dict[str, Any] = {
        "verdict": "clean" if outcome.is_clean else "finding",
        "message": outcome.summary() if outcome.is_clean or not said else said[0] + more,
        "findings": findings,
        "result": outcome.to_json(),
    }
    if outcome.output is None or folder is None:
        return made
    return made | {"output": outcome.output.relative_to(folder).as_posix()}


def _failure(job: Job, error: Exception) -> dict[str, Any]:
    """Return the verdict on a model that fails, takes too much of something, or ended its process."""
    limits: dict[str, Any] = {"limits": {"timeout": job.timeout, "memory": job.memory}}
    if isinstance(error, supervisor.ChildDied):
        said = {"stderr": error.stderr.splitlines()[-_MAX_LINES:]} | limits
        if isinstance(error, supervisor.ChildTimedOut):
            return {"verdict": "timeout", "message": f"it {error}."} | said
        if "bad_alloc" not in error.stderr:
            return {"verdict": "crash", "message": f"its process {error}."} | said
        limits = said
    elif isinstance(error, SliceportError):
        return {"verdict": "error", "message": str(error)}
    elif not isinstance(error, MemoryError):
        return {"verdict": "error", "message": describe_unforeseen(error)}
    bound = "" if job.memory is None else f" than the {job.memory} bytes that it may"
    return {"verdict": "memory", "message": f"it allocates more memory{bound or ' than there is'}."} | limits


def _summarize(task: Task, key: str, result: Mapping[str, Any], *, cached: bool = False) -> Done:
    message = show_path(result["message"], task.model)
    return Done(task.model, key, result["verdict"], message, len(result["findings"]), cached)


def _unstored(job: Job, task: Task, key: str, path: str, folder: Path, made: Mapping[str, Any]) -> Done:
    """Record an outcome that is not stored as a result, because the machine caused it."""
    row = to_row(make_result(job.command, path, folder / _OUTPUT, made), task.model, key)
    return Done(task.model, key, row["verdict"], row["message"], len(row["findings"]), row=row)
