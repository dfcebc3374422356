"""One model of a batch: what identifies its result, and the work itself, each in a process that may end badly.

`process` is what a worker of whatever kind does with a task. The work happens in a child process (`sliceport.guarded`),
so that a model that crashes, never ends or takes too much memory costs nobody else anything. The result is stored under
the hash of all that it depends on, so that doing a task twice does no harm.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeGuard

from sliceport import guarded
from sliceport.array_file import load_array
from sliceport.batch.commands import COMMANDS, Outcome
from sliceport.batch.row import FAILURES, VERDICTS, Finding, Row, Verdict
from sliceport.batch.sources import is_url
from sliceport.batch.store import Store, open_store
from sliceport.errors import ModelError, SliceportError, UsageError
from sliceport.formats import DeclaresShapes, ManyFiles, format_of
from sliceport.json_text import finite
from sliceport.shell import join
from sliceport.unforeseen import describe_unforeseen
from sliceport.wording import command_line

SCHEMA_VERSION = 1
MODEL = "{model}"
"""What stands for the model's path in a result, which depends on the content alone."""
_OUTPUT = "output"
"""The folder that a command writes into, within that of its task; messages do not name it."""
_PREPARATION = 60.0
"""Seconds for the start of a process, besides what a model may take."""
_SHUTDOWN = 5.0
"""Seconds in which this process will have ended, too, if that of a model was told to."""


@dataclass(frozen=True)
class Job:
    """What all tasks of a run have in common.

    Attributes:
        command: The command's name.
        options: Its options, as `Command.run` takes them.
        versions: What computes; see `sliceport.batch.versions`.
        root: The folder or URL of the results.
        timeout: Seconds that a model may take; None for any.
        memory: Bytes that each process of a model may allocate; None for any.
        writes: Whether the files that the command writes are kept.
        chooses_shapes: Whether open sizes of inputs are chosen.
        retries: Whether what failed before is done again.
    """

    command: str
    options: Mapping[str, Any]
    versions: Mapping[str, str]
    root: str
    timeout: float | None = None
    memory: int | None = None
    writes: bool = False
    chooses_shapes: bool = False
    retries: bool = False


@dataclass(frozen=True)
class Task:
    """One model.

    Attributes:
        model: Its name, as the user gave it.
        location: Its absolute path or URL.
        options: What differs from the options of the job.
    """

    model: str
    location: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """What became of a task.

    Attributes:
        model: The model's name.
        key: The name of its result; empty where the model could not be read, and `row` is all there is.
        verdict: The verdict.
        message: The result in a sentence.
        findings: How much was found.
        cached: Whether the result was there before.
        seconds: What it took.
        row: The row of a model that could not be read.
    """

    model: str
    key: str
    verdict: Verdict
    message: str
    findings: int = 0
    cached: bool = False
    seconds: float = 0.0
    row: Row | None = None


@dataclass(frozen=True)
class _Identity:
    """A model that was found.

    Attributes:
        key: The name of its result.
        path: Where it lies on this machine.
        done: What became of it, where its result is there already.
        state: By what a change of its files shows.
    """

    key: str
    path: str
    done: Done | None
    state: tuple[tuple[Any, ...], ...] = ()


def result_name(key: str) -> str:
    """The file of a result. 256 folders share them, as folders of many files are slow."""
    return f"results/{key[:2]}/{key}.json"


class GivenUp(Exception):
    """The run was stopped while a model was under way."""


def process(job: Job, task: Task, scratch: Path, is_stopped: threading.Event) -> Done:
    """Do a task, unless its result is there already. What is wrong with the model is its result.

    Args:
        job: What all tasks have in common.
        task: The model.
        scratch: A local folder for what is written on the way.
        is_stopped: Set before processes under way are ended.

    Raises:
        GivenUp: It is set.
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
    identity: _Identity | None = None
    try:
        identity = _call(is_stopped, _identify, job, task, folder, timeout=patience, memory=job.memory)
        assert identity is not None
        if identity.done is not None:
            return identity.done
        done: Done = _call(is_stopped, _execute, job, task, identity, folder, timeout=job.timeout, memory=job.memory)
    except UnreadableResult:
        raise
    except guarded.WorkerNotStarted as error:  # it is so for all models
        if is_stopped.is_set():
            raise GivenUp from None
        raise UsageError(f"a process for '{task.model}' {error}.") from None
    except Exception as error:
        if isinstance(error, guarded.WorkerDied | MemoryError) and is_stopped.is_set():
            raise GivenUp from None
        if identity is None:
            return _unstored(job, task, "", task.location, folder, _failure(job, error))
        if isinstance(error, guarded.WorkerKilled | guarded.WorkerTerminated):
            return _unstored(job, task, identity.key, identity.path, folder, _failure(job, error))
        if not isinstance(error, guarded.WorkerDied | MemoryError):
            raise
        stored = _to_result(job, identity.path, folder, _failure(job, error))
        open_store(job.root).write(result_name(identity.key), _to_bytes(stored))
        return _summarize(task, identity.key, stored)
    return done


def _call(is_stopped: threading.Event, function: Callable[..., Any], *args: Any, **limits: Any) -> Any:
    """`guarded.call`, and again where its process was told to end, which says nothing of the model.

    Where the whole machine shuts down, this process ends before the second time.
    """
    try:
        return guarded.call(function, *args, **limits)
    except guarded.WorkerTerminated:
        if is_stopped.wait(_SHUTDOWN):
            raise
        return guarded.call(function, *args, **limits)


class UnreadableResult(UsageError):
    """What is wrong with the folder of the results, not with a model."""


def _identify(job: Job, task: Task, folder: Path) -> _Identity:
    """Find a model and its result, and load what the work needs, so that the time for it is the model's own."""
    command = COMMANDS[job.command]
    for module in command.modules:
        import_module(module)
    path = _fetch(task.location, folder)
    one = format_of(path)
    beside = one.files_beside(path) if isinstance(one, ManyFiles) else ()
    inputs = [file for file in _options(job, task).get("inputs", {}).values() if not is_url(file)]
    files = (path, *(os.path.join(os.path.dirname(path), name) for name in beside), *inputs)
    state = tuple(map(_state_of, files))
    key = _make_key(job, task, path, beside, folder)
    try:
        stored = read_result(open_store(job.root), key)
    except UsageError as error:
        raise UnreadableResult(str(error)) from None
    if stored is None or not _is_valid(job, stored):
        return _Identity(key, path, None, state)
    return _Identity(key, path, _summarize(task, key, stored, cached=True), state)


def _state_of(file: str) -> tuple[Any, ...]:
    """By what a change of a file shows: while it is read, nobody keeps others from it."""
    try:
        status = os.stat(file)
    except OSError:
        return (file,)
    return file, status.st_size, status.st_mtime_ns


def _make_key(job: Job, task: Task, path: str, names: Sequence[str], folder: Path) -> str:
    """The hash of all that a result depends on.

    Of the other files of a model its key has names, sizes and times of change, as weights may be larger than all else.

    Raises:
        ModelError: The model cannot be read.
    """
    try:
        content = _digest(path)
        beside = []
        for name in names:
            try:
                status = os.stat(os.path.join(os.path.dirname(path), name))
                beside.append([name, status.st_size, status.st_mtime_ns])
            except OSError:
                beside.append([name, None, None])
    except OSError as error:
        raise ModelError(f"it cannot be read ({error.strerror or error}).") from None
    options = _options(job, task)
    depends = {
        "schema_version": SCHEMA_VERSION,
        "command": job.command,
        "options": options,
        "inputs": {name: _digest_input(file, folder) for name, file in options.get("inputs", {}).items()},
        "chooses_shapes": job.chooses_shapes,
        "writes": job.writes,
        "versions": dict(job.versions),
        "format": format_of(path).name,
        "content": content,
        "beside": beside,
    }
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode("ascii")).hexdigest()


def _options(job: Job, task: Task) -> dict[str, Any]:
    return {**job.options, **task.options}


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_input(file: str, folder: Path) -> str | None:
    try:
        return _digest(_fetch(file, folder))
    except (OSError, UsageError):
        return None  # the work says what is wrong with it


def _fetch(location: str, folder: Path) -> str:
    """A local copy of what lies at a URL, and of the files beside it; a path as it is.

    Raises:
        UsageError: It cannot be read.
    """
    if not is_url(location):
        return location
    from sliceport.batch.remote import download

    folder.mkdir(exist_ok=True)
    return download(location, tempfile.mkdtemp(dir=folder))


def read_result(store: Store, key: str) -> dict[str, Any] | None:
    """A result; None where there is none, or one that was cut off when a machine lost its power.

    Raises:
        UsageError: It cannot be read.
    """
    data = store.read(result_name(key))
    if data is None:
        return None
    try:
        result = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return result if is_result(result) else None


_FINDING_PARTS = frozenset(Finding.__annotations__)


def _is_finding(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and data.keys() == _FINDING_PARTS
        and all(isinstance(text, str) for text in data.values())
    )


def is_result(data: Any) -> TypeGuard[dict[str, Any]]:
    """Whether data have the parts of a result and their types, whatever somebody made of the file."""
    return (
        isinstance(data, dict)
        and data.get("schema_version") == SCHEMA_VERSION
        and all(isinstance(data.get(name), str) for name in ("command", "verdict", "message"))
        and data["verdict"] in VERDICTS
        and isinstance(data.get("findings"), list)
        and all(
            isinstance(found, dict)
            and found.keys() == _FINDING_PARTS
            and all(isinstance(x, str) for x in found.values())
            for found in data["findings"]
        )
        and isinstance(data.get("result"), dict | None)
        and isinstance(data.get("output", ""), str)
        and isinstance(data.get("stderr", []), list)
        and isinstance(data.get("input_shapes", {}), dict)
        and isinstance(limits := data.get("limits", {}), dict)
        and all(name in ("timeout", "memory") for name in limits)
        and all(isinstance(limit, int | float | None) for limit in limits.values())
    )


def _is_valid(job: Job, stored: Mapping[str, Any]) -> bool:
    """Whether a result need not be made again: its limits were not lower, and what it wrote is there."""
    if job.retries and stored["verdict"] in FAILURES:
        return False
    for name, limit in stored.get("limits", {}).items():
        allowed = getattr(job, name)
        if limit is not None and (allowed is None or allowed > limit):
            return False
    return "output" not in stored or open_store(job.root).changed(stored["output"]) > 0


def _execute(job: Job, task: Task, identity: _Identity, folder: Path) -> Done:
    """Do the work and store its result, if it is one of the model alone."""
    command = COMMANDS[job.command]
    key, path = identity.key, identity.path
    output = folder / _OUTPUT if job.writes or command.always_writes else None
    chosen: dict[str, list[int]] = {}
    is_disturbed = False
    try:
        if output is not None:
            output.mkdir(parents=True)
        options = _options(job, task)
        given = _fitting_shapes(path, job.options) | dict(task.options.get("input_shapes") or {})
        if job.chooses_shapes:
            from sliceport.batch.shapes import choose_shapes

            chosen = {name: list(shape) for name, shape in choose_shapes(path, given).items()}
        if given or chosen:
            options["input_shapes"] = chosen | given
        if options.get("inputs"):
            options["inputs"] = {name: load_array(_fetch(file, folder)) for name, file in options["inputs"].items()}
        with command_line():
            made = _verdict_of(command.run(path, output, options))
    except Exception as error:  # whatever a library raises is about the file that it was given
        made = _failure(job, error)
        is_disturbed = _is_of_machine(error)
    if chosen:
        made["input_shapes"] = chosen
    if guarded.circumstances().is_short:
        made.setdefault("limits", {"memory": job.memory})
    if is_disturbed or guarded.circumstances().is_disturbed:
        made.pop("output", None)
        return _unstored(job, task, key, path, folder, made)
    if tuple(_state_of(file) for file, *_ in identity.state) != identity.state:
        changed = {"verdict": "error", "message": "it was changed while it was read."}
        return _unstored(job, task, "", path, folder, changed)
    folder_name = f"outputs/{key[:2]}/{key}"
    if "output" in made:
        made["output"] = f"{folder_name}/{made['output']}"
    try:
        result = _to_result(job, path, folder, made)
        data = _to_bytes(result)
    except (TypeError, ValueError, RecursionError, AttributeError) as error:  # JSON cannot hold what a format gives
        result = _to_result(job, path, folder, _failure(job, error))
        data = _to_bytes(result)
    store = open_store(job.root)
    if output is not None and "output" in result:
        store.put_folder(folder_name, output)
    store.write(result_name(key), data)
    return _summarize(task, key, result)


_OF_MACHINE = frozenset(
    getattr(errno, name, None)
    for name in ("ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EIO", "EROFS", "ESTALE")
)
"""Errors that say nothing of a model: what it is given another time is another."""


def _is_of_machine(error: BaseException | None) -> bool:
    """Whether an error comes from one of the system that the next time may be without."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _OF_MACHINE:
            return True
        error = error.__cause__ or error.__context__
    return False


def _fitting_shapes(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes given for all models, those of inputs that this one lacks left out."""
    given = dict(options.get("input_shapes") or {})
    one = format_of(path)
    if not given or not isinstance(one, DeclaresShapes):
        return given
    declared = one.declared_shapes(path)
    return {name: shape for name, shape in given.items() if name in declared}


def _verdict_of(outcome: Outcome) -> dict[str, Any]:
    made: dict[str, Any] = {
        "verdict": "clean" if outcome.is_clean else "finding",
        "message": outcome.message if outcome.is_clean else _describe_findings(outcome),
        "findings": list(outcome.findings),
        "result": outcome.data,
    }
    return made if outcome.output is None else made | {"output": outcome.output}


def _describe_findings(outcome: Outcome) -> str:
    """The first finding that says something, and how many more there are."""
    said = [found["message"] for found in outcome.findings if found["message"]]
    if not said:
        return outcome.message
    return said[0] + (f" (and {len(said) - 1} more)" if len(said) > 1 else "")


def _failure(job: Job, error: Exception) -> dict[str, Any]:
    """The verdict on a model that fails, takes too much of something, or ended its process."""
    limits: dict[str, Any] = {"limits": {"timeout": job.timeout, "memory": job.memory}}
    if isinstance(error, guarded.WorkerDied):
        said = {"stderr": error.stderr.splitlines()[-_MAX_LINES:]} | limits
        if isinstance(error, guarded.WorkerTimedOut):
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


_MAX_LINES = 20


def _to_result(job: Job, path: str, folder: Path, made: Mapping[str, Any]) -> dict[str, Any]:
    """A result, the same wherever the model lies and is worked on."""
    whole = {
        "schema_version": SCHEMA_VERSION,
        "command": job.command,
        "verdict": "error",
        "message": "",
        "findings": [],
        "result": None,
        **made,
    }
    whole["message"] = whole["message"].removeprefix(f"'{path}': ")
    output, escaped, literal = f"{folder / _OUTPUT}{os.sep}", _escape(path), _escape(repr(path)[1:-1])

    def hide(text: str) -> str:
        hidden = _escape(text.replace(output, "")).replace(escaped, MODEL)
        return hidden if literal == escaped else hidden.replace(literal, MODEL)

    hidden = {key: _map_texts(value, hide) for key, value in whole.items()}
    if isinstance(line := (whole["result"] or {}).get("command"), str):  # for a shell: a path may be quoted in it
        hidden["result"]["command"] = _escape(line).replace(_escape(join([path])), MODEL)
    return hidden


def _to_bytes(result: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(result, sort_keys=True, allow_nan=False)
    except ValueError:
        text = json.dumps(finite(result), sort_keys=True, allow_nan=False)
    return text.encode("ascii") + b"\n"


def _escape(text: str) -> str:
    return text.replace(MODEL, f"{{{MODEL}}}") if MODEL in text else text


_HIDDEN = re.compile(re.escape(f"{{{MODEL}}}") + "|" + re.escape(MODEL))


def _show_path(value: Any, model: str) -> Any:
    def show(text: str) -> str:
        return _HIDDEN.sub(lambda match: model if match[0] == MODEL else MODEL, text) if MODEL in text else text

    return _map_texts(value, show)


def _map_texts(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_texts(one, change) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(one, change) for one in value]
    return value


def to_row(result: Mapping[str, Any], model: str, key: str) -> Row:
    """The row of a model with a result."""
    named = ("verdict", "message", "findings", "result", "input_shapes", "stderr", "output")
    shown = {name: _show_path(result[name], model) for name in named if name in result}
    if isinstance(line := (result["result"] or {}).get("command"), str):
        shown["result"]["command"] = _show_path(line, join([model]))
    command = result["command"]
    return {"schema_version": SCHEMA_VERSION, "model": model, "key": key, "command": command, **shown}  # type: ignore[typeddict-item]


def _summarize(task: Task, key: str, result: Mapping[str, Any], *, cached: bool = False) -> Done:
    message = _show_path(result["message"], task.model)
    return Done(task.model, key, result["verdict"], message, len(result["findings"]), cached)


def _unstored(job: Job, task: Task, key: str, path: str, folder: Path, made: Mapping[str, Any]) -> Done:
    """What became of a model where that is no result of its content: the journal alone has it."""
    row = to_row(_to_result(job, path, folder, made), task.model, key)
    return Done(task.model, key, row["verdict"], row["message"], len(row["findings"]), row=row)
