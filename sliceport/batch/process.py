"""The task of one model, done in a child process.

Every kind of runner calls `process_model` for each task. A child process of `sliceport.sandbox` does the work, so a
model that crashes, hangs or runs out of memory harms no other model. The result is stored under the hash of everything
that it depends on, so that doing a task twice does no harm.
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
from sliceport.batch.result import encode_result, make_result, read_result, result_name, stderr_name, to_row
from sliceport.batch.row import DEATHS, FAILURES
from sliceport.batch.store import open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.commands.command import load
from sliceport.commands.outcome import Outcome
from sliceport.engines.custom_ops import with_custom_ops
from sliceport.engines.sizes import shapes_for_open_sizes
from sliceport.errors import MissingExtra, SliceportError, UsageError, is_out_of_memory, list_causes
from sliceport.formats import DeclaresShapes, declared_shapes, format_of
from sliceport.sandbox import supervisor
from sliceport.sandbox.child_process import ChildDied, ChildLost, ChildNotStarted, ChildTerminated, ChildTimedOut
from sliceport.wording import command_line_spelling, describe_unforeseen

_OUTPUT = "output"
"""The folder that a command writes into. It lies in the folder of the task."""
_PREPARATION = 60.0
"""Seconds for imports in a child process, added to the time limit for the look-up of a model."""
_SHUTDOWN = 5.0
"""Seconds to wait after SIGTERM ended a child: if the machine shuts down, SIGTERM ends this process, too."""
_MAX_LINES = 20
"""Number of lines that are kept of what a process wrote to stderr before it died."""


class RunStopped(Exception):
    """The run was stopped while a model was under way."""


class UnreadableResult(UsageError):
    """The results of a run cannot be read, which is not an error of a model."""


def process_model(job: Job, task: Task, scratch: Path, stop_event: threading.Event) -> Done:
    """Run the command on one model, unless its result is stored already. A failure of the model becomes its result.

    Temporary files go into the local folder `scratch`. To end the child processes, the caller passes `stop_event` to
    `supervisor.end_calls`.

    Raises:
        RunStopped: A child process ended, or could not be started, after `stop_event` was set.
        UsageError: The result cannot be read or stored, or no child process can be started.
    """
    start = time.monotonic()
    folder = scratch / secrets.token_hex(8)  # made only when something is written there, because few models need it
    try:
        done = _run_task(job, task, folder, stop_event)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return replace(done, seconds=round(time.monotonic() - start, 4))


def _run_task(job: Job, task: Task, folder: Path, stop_event: threading.Event) -> Done:
    """Look up the outcome of a model, and run the command if none is stored. Raise the errors of `process_model`."""
    look_up_timeout = None if job.timeout is None else job.timeout + _PREPARATION  # for importing modules
    identity = Identity("", task.location)  # `_look_up` finds the key
    done: Done | None
    try:
        identity, done = _call(stop_event, _look_up, job, task, folder, timeout=look_up_timeout, memory=job.memory)
        if done is None:
            done = _call(stop_event, _execute, job, task, identity, folder, timeout=job.timeout, memory=job.memory)
        return done
    except UnreadableResult:  # the run cannot go on
        raise
    except ChildNotStarted as error:  # a process for another model could not be started either
        if stop_event.is_set():
            raise RunStopped from None
        raise UsageError(f"a process for '{task.model}' {error}.") from None
    except Exception as error:
        is_death, is_looked_up = isinstance(error, ChildDied | MemoryError), bool(identity.key)
        if is_death and stop_event.is_set():
            raise RunStopped from None
        if is_looked_up and not is_death:
            raise  # `_execute` catches errors of the model, so this one means that the result cannot be stored
        outcome = _describe_failure(job, error)
        if not is_looked_up or isinstance(error, ChildLost):  # cannot be stored without a key, or the machine caused it
            return _report_unstored(job, task, identity, folder, outcome)
        return _store_result(job, task, identity, folder, outcome)


def _call(stop_event: threading.Event, function: Callable[..., Any], *args: Any, **limits: Any) -> Any:
    """Call a function in a child process. Repeat the call if SIGTERM ended the child, because no model causes SIGTERM.

    Wait before the second call: if the machine shuts down, SIGTERM ends this process during the wait. If the run is
    stopped during the wait, raise the error of the first call.
    """
    try:
        return supervisor.call_with_retry(function, *args, stop_event=stop_event, **limits)
    except ChildTerminated:
        if stop_event.wait(_SHUTDOWN):
            raise
        return supervisor.call_with_retry(function, *args, stop_event=stop_event, **limits)


def _look_up(job: Job, task: Task, folder: Path) -> tuple[Identity, Done | None]:
    """Return the identity of a model, and its stored outcome. The outcome is None if it is missing or not reusable.

    If the outcome is None, a model at a URL is downloaded. The modules of the command are imported here, so that the
    timeout of `_execute` does not count their imports.
    """
    command = load(job.command)
    for module in command.modules:
        import_module(module)
    identity = identify(job, task, folder)
    try:
        result = read_result(open_store(job.root), identity.key)
    except (MissingExtra, UsageError) as error:
        raise UnreadableResult(str(error)) from None
    if result is None or not _is_reusable(job, result):
        if not identity.path:  # a model at a URL, which was not downloaded because the digests of its files were cached
            identity = identify(job, task, folder, downloads=True)
        return identity, None
    return identity, Done(task.model, identity.key, result["verdict"], cached=True)


def _is_reusable(job: Job, result: Mapping[str, Any]) -> bool:
    """Return whether this run can use the stored result of a model, so that the model need not run again.

    A run that retries failures does not use failures. A run that allows more time or memory does not use crashes and
    exceeded limits. No run uses a result whose output is missing.
    """
    if job.retries and result["verdict"] in FAILURES:
        return False
    for name, limit in result.get("limits", {}).items():
        allowed = getattr(job, name)
        if limit is not None and (allowed is None or allowed > limit):
            return False
    return "output" not in result or open_store(job.root).has(result["output"])


def _execute(job: Job, task: Task, identity: Identity, folder: Path) -> Done:
    """Run the command on a model. Store the result unless the machine caused an error or the model has changed."""
    command = load(job.command)
    output = folder / _OUTPUT if job.writes or command.writes == "always" else None
    chosen_shapes: dict[str, list[int]] = {}
    is_caused_by_machine = False
    try:
        if output is not None:
            output.mkdir(parents=True)
        options = options_of(job, task)
        # The shapes of the run are for many models, so the shapes of inputs that this model lacks are left out.
        shapes = _shapes_of_inputs(identity.path, job.options) | dict(task.options.get("input_shapes") or {})
        if options.get("inputs"):
            options["inputs"] = {name: load_array(fetch(file, folder)) for name, file in options["inputs"].items()}
        if (open_sizes := options.pop("open_sizes", None)) is not None:
            known_shapes = {name: array.shape for name, array in (options.get("inputs") or {}).items()} | shapes
            chosen = shapes_for_open_sizes(declared_shapes(identity.path), known_shapes, open_sizes)
            chosen_shapes = {name: list(shape) for name, shape in chosen.items()}
        options["input_shapes"] = chosen_shapes | shapes
        with command_line_spelling(), with_custom_ops(options.pop("custom_ops", "")):
            target = None if output is None else output / command.name_output(identity.path, options)
            outcome = _describe_outcome(command.run(identity.path, target, options, False), output)  # no overwriting
    except ChildLost:  # the machine caused the error, and `_run_task` reports it
        raise
    except Exception as error:  # any library may raise any error for the model's file
        outcome = _describe_failure(job, error)
        is_caused_by_machine = _is_caused_by_machine(error)
    if chosen_shapes:
        outcome["input_shapes"] = chosen_shapes
    if is_caused_by_machine:
        return _report_unstored(job, task, identity, folder, outcome)
    if not identity.is_current():
        changed = {"verdict": "error", "message": "it was changed while it was read."}
        # The row has no key, because the key belongs to the content before the change.
        return _report_unstored(job, task, replace(identity, key=""), folder, changed)
    return _store_result(job, task, identity, folder, outcome)


_CAUSED_BY_MODEL = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EEXIST, errno.ELOOP)
)
"""Numbers of system errors that a model can cause by the names of its data files.

All other system errors, such as a full disk, a missing permission or a lost connection, come from the machine.
"""


def _is_caused_by_machine(error: BaseException) -> bool:
    """Return whether an error comes from the machine or the network, so that a repetition may succeed."""
    for cause in list_causes(error):
        # An OSError without a number comes from a library, and is about the content of a file.
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno not in _CAUSED_BY_MODEL:
            return True
        if isinstance(cause, ConnectionError | TimeoutError | RemoteError):
            return True
    return False


def _shapes_of_inputs(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input shapes in the options of the run, but only for inputs that this model has.

    Return all shapes if the model's format cannot list the inputs of a model.
    """
    shapes = dict(options.get("input_shapes") or {})
    model_format = format_of(path)
    if not shapes or not isinstance(model_format, DeclaresShapes):
        return shapes
    declared = model_format.declared_shapes(path)
    return {name: shape for name, shape in shapes.items() if name in declared}


def _describe_outcome(outcome: Outcome, folder: Path | None) -> dict[str, Any]:
    """Convert the outcome of a command to a dictionary for the result file. Name the output relative to `folder`."""
    findings = outcome.list_findings()
    messages = [finding["message"] for finding in findings if finding["message"]]
    more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
    is_clean = outcome.is_clean and not outcome.is_untested
    parts: dict[str, Any] = {
        "verdict": "untested" if outcome.is_untested else "clean" if is_clean else "finding",
        "message": outcome.summary() if is_clean or not messages else messages[0] + more,
        "findings": findings,
        "result": outcome.to_json(),
    }
    if outcome.output is None or folder is None:
        return parts
    return parts | {"output": outcome.output.relative_to(folder).as_posix()}


def _describe_failure(job: Job, error: Exception) -> dict[str, Any]:
    """Build a dictionary for the result file of a model that failed, exceeded a limit or lost its process."""
    details: dict[str, Any] = {"limits": {"timeout": job.timeout, "memory": job.memory}}  # for `_is_reusable`
    if isinstance(error, ChildDied):
        details["stderr"] = error.stderr.splitlines()[-_MAX_LINES:]
    if isinstance(error, ChildTimedOut):
        return {"verdict": "timeout", "message": f"it {error}."} | details
    if is_out_of_memory(error):  # checked before ChildDied, because `error` may be both
        limit = "there is" if job.memory is None else f"its limit of {job.memory} bytes"
        return {"verdict": "memory", "message": f"it allocates more memory than {limit}."} | details
    if isinstance(error, ChildDied):
        return {"verdict": "crash", "message": f"its process {error}."} | details
    message = str(error) if isinstance(error, SliceportError) else describe_unforeseen(error)
    return {"verdict": "error", "message": message}


def _store_result(job: Job, task: Task, identity: Identity, folder: Path, outcome: dict[str, Any]) -> Done:
    """Store an outcome and the files of the command as the result of a model. `outcome` is changed."""
    store, key = open_store(job.root), identity.key
    outputs = f"outputs/{key[:2]}/{key}"  # in 256 folders, because large folders are slow
    stderr = outcome.pop("stderr", [])
    if "output" in outcome:
        outcome["output"] = f"{outputs}/{outcome['output']}"
    try:
        result = make_result(job.command, identity.path, folder / _OUTPUT, outcome)
        data = encode_result(result)
    except (TypeError, ValueError, RecursionError, AttributeError) as error:  # not JSON, or a key that is not text
        result = make_result(job.command, identity.path, folder / _OUTPUT, _describe_failure(job, error))
        data = encode_result(result)
    if "output" in result:
        store.put_folder(outputs, folder / _OUTPUT)
    if stderr:
        store.write(stderr_name(key), "".join(f"{line}\n" for line in stderr).encode("utf-8", "replace"))
    elif result["verdict"] in DEATHS:  # otherwise the row would show the stderr of an earlier run
        store.remove(stderr_name(key))
    store.write(result_name(key), data)  # last, so that the files which a result names always exist
    return Done(task.model, key, result["verdict"])


def _report_unstored(job: Job, task: Task, identity: Identity, folder: Path, outcome: dict[str, Any]) -> Done:
    """Return the Done of a task. Store nothing, because the outcome depends on more than the model and the job."""
    outcome.pop("output", None)
    row = to_row(make_result(job.command, identity.path, folder / _OUTPUT, outcome), task.model, identity.key)
    return Done(task.model, identity.key, row["verdict"], row=row)
