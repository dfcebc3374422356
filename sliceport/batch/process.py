"""Tasks on this machine: each of several threads runs one model after another, each in a child process.

Every kind of runner calls `process_model` for each task. A child process of `sliceport.sandbox` does the work, so a
model that crashes, hangs or runs out of memory harms no other model. The result is stored under the hash of everything
that it depends on, so that doing a task twice does no harm.
"""

from __future__ import annotations

import queue
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from sliceport.batch.identity import Identity, identify, options_of
from sliceport.batch.result import (
    encode_result,
    make_failure_row,
    make_result,
    outputs_name,
    read_result,
    result_name,
    stderr_name,
    to_row,
)
from sliceport.batch.row import DEATHS, FAILURES, Verdict
from sliceport.batch.store import open_store
from sliceport.batch.task import Done, Job, Task
from sliceport.commands.command import load
from sliceport.commands.execute import CommandFailed, Request, execute
from sliceport.commands.outcome import Outcome
from sliceport.errors import MissingExtra, SliceportError, UsageError, is_out_of_memory
from sliceport.sandbox import signals, supervisor
from sliceport.sandbox.child_process import ChildDied, ChildLost, ChildNotStarted, ChildTerminated, ChildTimedOut
from sliceport.wording import describe_unforeseen

T = TypeVar("T")
_OUTPUT = "output"
"""The folder that a command writes into, in the folder of the task. A model at a URL is copied beside it."""
_PREPARATION = 60.0
"""Seconds for imports in a child process, added to the time limit for the look-up of a model."""
_SHUTDOWN = 5.0
"""Seconds to wait after SIGTERM ended a child: if the machine shuts down, SIGTERM ends this process, too."""
_MAX_LINES = 20
"""Number of lines that are kept of what a process wrote to stderr before it died."""


Runner = Callable[[Job, Iterable[Task]], Generator[Done]]
"""A function that does all tasks of a job in any order, and yields each outcome once.

It reads only a few tasks ahead of the tasks that are done. If the generator is closed early, the processes of models
under way are ended, and these models get no result. A SliceportError that it raises is about the run itself.
"""


class RunStopped(Exception):
    """The run was stopped while a model was under way."""


class UnreadableResult(UsageError):
    """The results of a run cannot be read, which is not an error of a model."""


def run_locally(job: Job, tasks: Iterable[Task], *, jobs: int, scratch: Path) -> Generator[Done]:
    """Do tasks on this machine, `jobs` at a time, with temporary files in the local folder `scratch`; see `Runner`."""
    results: queue.Queue[Done | BaseException | None] = queue.Queue()
    remaining, lock, stop_event = iter(tasks), threading.Lock(), threading.Event()

    def work() -> None:
        """Do one task after another. Put None last, so that the loop below can count the threads that are done."""
        try:
            while not stop_event.is_set():
                with lock:
                    task = next(remaining, None)
                if task is None:
                    break
                results.put(process_model(job, task, scratch, stop_event))
        except BaseException as error:
            results.put(error)
        finally:
            results.put(None)

    threads: list[threading.Thread] = []
    try:
        for _ in range(jobs):
            thread = threading.Thread(target=work, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more threads for this process
                message = f"--jobs {jobs}: only {len(threads)} can be under way at once ({error}); give fewer."
                raise UsageError(message) from None
            threads.append(thread)
        working = jobs
        while working:
            result = signals.get_interruptibly(results)
            if result is None:
                working -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                yield result
    finally:
        supervisor.end_calls(stop_event)
        for thread in threads:
            thread.join()


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
    identity = Identity("", task.location)  # `_look_up` finds the key
    limits: dict[str, Any] = {"memory": job.memory, "stop_event": stop_event}
    look_up_timeout = None if job.timeout is None else job.timeout + _PREPARATION  # for importing modules
    look_up = partial(supervisor.call_with_retry, _look_up, job, task, folder, timeout=look_up_timeout, **limits)
    output = folder / _OUTPUT
    try:
        identity, verdict = _repeat_if_terminated(look_up, stop_event)
        if verdict is not None:
            return Done(task.model, identity.key, verdict, cached=True)
        request = _make_request(job, task, identity, output)
        answer = _repeat_if_terminated(partial(execute, request, timeout=job.timeout, **limits), stop_event)
    except UnreadableResult:  # the run cannot go on
        raise
    except ChildNotStarted as error:  # a process for another model could not be started either
        if stop_event.is_set():
            raise RunStopped from None
        raise UsageError(f"a process for '{task.model}' {error}.") from None
    except Exception as error:
        if isinstance(error, ChildDied | MemoryError) and stop_event.is_set():
            raise RunStopped from None
        result = make_result(job.command, identity.path, output, _describe_failure(job, error))
        stderr = error.stderr.splitlines()[-_MAX_LINES:] if isinstance(error, ChildDied) else []
        is_caused_by_machine = isinstance(error, CommandFailed) and error.is_caused_by_machine
        if not identity.key or isinstance(error, ChildLost) or is_caused_by_machine:  # cannot be stored
            row = to_row(result | ({"stderr": stderr} if stderr else {}), task.model, identity.key)
            return Done(task.model, identity.key, row["verdict"], row=row)
        return _store_result(job, task, identity, (result["verdict"], encode_result(result)), None, stderr)
    return _store_result(job, task, identity, answer.rendered, None if answer.output is None else output, [])


def _repeat_if_terminated(action: Callable[[], T], stop_event: threading.Event) -> T:
    """Return the result of an action. Repeat it if SIGTERM ended its child, because no model causes SIGTERM.

    Wait before the second call: if the machine shuts down, SIGTERM ends this process during the wait. If the run is
    stopped during the wait, raise the error of the first call.
    """
    try:
        return action()
    except ChildTerminated:
        if stop_event.wait(_SHUTDOWN):
            raise
        return action()


def _look_up(job: Job, task: Task, folder: Path) -> tuple[Identity, Verdict | None]:
    """Return the identity of a model, and its stored verdict; None if it is missing or its result is not reusable.

    If the verdict is None, a model at a URL is downloaded. The modules of the command are imported here, so that the
    timeout of the command does not count their imports.
    """
    command = load(job.command)
    for module in command.modules:
        import_module(module)
    identity = identify(job, task, folder)
    try:
        result = read_result(open_store(job.root), identity.key)
    except (MissingExtra, UsageError) as error:
        raise UnreadableResult(str(error)) from None
    if result is not None and _is_reusable(job, result):
        return identity, result["verdict"]
    if not identity.path:  # a model at a URL, which was not downloaded because the digests of its files were cached
        identity = identify(job, task, folder, downloads=True)
    return identity, None


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


def _make_request(job: Job, task: Task, identity: Identity, folder: Path) -> Request:
    """Return the request to run the command on a model. If it writes, it writes into `folder`."""
    command, options = load(job.command), options_of(job, task)
    # The shapes of the run are for many models, so they are used only for inputs that this model has.
    options["input_shapes"] = task.options.get("input_shapes") or {}
    if identity.inputs:
        options["inputs"] = identity.inputs
    is_written = job.writes or command.writes == "always"
    return Request(
        job.command,
        identity.path,
        options,
        partial(_render, job.command, identity, folder),
        output=folder / command.name_output(identity.path, options) if is_written else None,
        common_shapes=job.options.get("input_shapes") or {},
    )


def _render(command: str, identity: Identity, folder: Path, outcome: Outcome) -> tuple[Verdict, bytes]:
    """Return the verdict of an outcome, and its result as JSON. `folder` is the folder that the command wrote into."""
    findings = outcome.list_findings()
    messages = [finding["message"] for finding in findings if finding["message"]]
    more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
    is_clean = outcome.is_clean and not outcome.is_untested
    verdict: Verdict = "untested" if outcome.is_untested else "clean" if is_clean else "finding"
    parts: dict[str, Any] = {
        "verdict": verdict,
        "message": outcome.summary() if is_clean or not messages else messages[0] + more,
        "findings": findings,
        "result": outcome.to_json(),
    }
    if outcome.input_shapes:
        parts["input_shapes"] = outcome.input_shapes
    if outcome.output is not None:
        parts["output"] = f"{outputs_name(identity.key)}/{outcome.output.relative_to(folder).as_posix()}"
    return verdict, encode_result(make_result(command, identity.path, folder, parts))


def _describe_failure(job: Job, error: Exception) -> dict[str, Any]:
    """Build a dictionary for the result file of a model that failed, exceeded a limit or lost its process."""
    if not isinstance(error, ChildDied | MemoryError):
        message = str(error) if isinstance(error, SliceportError) else describe_unforeseen(error)
        shapes = error.input_shapes if isinstance(error, CommandFailed) else {}
        return {"verdict": "error", "message": message} | ({"input_shapes": shapes} if shapes else {})
    verdict, message = "crash", f"its process {error}."
    if isinstance(error, ChildTimedOut):
        verdict, message = "timeout", f"it {error}."
    elif is_out_of_memory(error):
        limit = "there is" if job.memory is None else f"its limit of {job.memory} bytes"
        verdict, message = "memory", f"it allocates more memory than {limit}."
    limits = {"timeout": job.timeout, "memory": job.memory}  # for `_is_reusable`
    return {"verdict": verdict, "message": message, "limits": limits}


def _store_result(
    job: Job, task: Task, identity: Identity, rendered: tuple[Verdict, bytes], output: Path | None, stderr: list[str]
) -> Done:
    """Store a result, the files in `output`, and the last lines of a process, unless the model has changed."""
    if not identity.is_current():
        # The row has no key, because the key belongs to the content before the change.
        row = make_failure_row(job.command, "error", "it was changed while it was read.", task.model)
        return Done(task.model, "", "error", row=row)
    store, key = open_store(job.root), identity.key
    verdict, data = rendered
    if output is not None:
        store.put_folder(outputs_name(key), output)
    if stderr:
        store.write(stderr_name(key), "".join(f"{line}\n" for line in stderr).encode("utf-8", "replace"))
    elif verdict in DEATHS:  # otherwise the row would show the stderr of an earlier run
        store.remove(stderr_name(key))
    store.write(result_name(key), data)  # last, so that the files which a result names always exist
    return Done(task.model, key, verdict)
