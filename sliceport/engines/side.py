"""One side of a comparison: an engine with its options, whose runs may crash, hang or lack memory.

The good side computes the expected values, and the bad side is tested.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceport.defects.engines import REPORTED_TITLES
from sliceport.engines.custom_ops import custom_ops
from sliceport.engines.engine import Array, ModelEngine, PlacesNodes, Value, WholeModel
from sliceport.engines.failure import Failure, Kind
from sliceport.engines.kept_runs import KeptRuns
from sliceport.engines.registry import model_engines
from sliceport.errors import MissingExtra, SliceportError, UsageError, is_out_of_memory, unknown_name
from sliceport.sandbox import supervisor
from sliceport.sandbox.child import seconds_left, this_process
from sliceport.sandbox.child_process import ChildDied, ChildLost, ChildTimedOut
from sliceport.wording import shorten

if TYPE_CHECKING:
    from sliceport.device import NodeRun

Result = Mapping[str, Value] | Failure
_SHARE = 0.75
"""The share of the time left by --timeout that a search may take. The rest is for the report."""
_MAX_REASON = 1000
"""Limit for the characters of an engine's reason, because nodes of control flow repeat the reason of a node in them."""


class BudgetSpent(SliceportError):
    """An error: the time for the search is over."""


class RunFailed(SliceportError):
    """An error: an engine did not finish a run.

    Attributes:
        failure: The kind of the failure, and a message.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass
class Budget:
    """The time that a search may take, and the number of its runs.

    Attributes:
        seconds: The time from the creation of this object; None for no limit.
        runs: The number of runs so far.
    """

    seconds: float | None = None
    runs: int = 0
    _start: float = field(default_factory=time.monotonic)

    def remaining(self) -> float | None:
        """Return the remaining seconds; None for no limit.

        Raises:
            BudgetSpent: No time is left.
        """
        if self.seconds is None:
            return None
        remaining = self._start + self.seconds - time.monotonic()
        if remaining <= 0:
            raise BudgetSpent(f"the search was ended after {self.seconds:g} s")
        return remaining

    def end_before_timeout(self) -> None:
        """Shorten `seconds` if --timeout is set, so that time is left for the report."""
        left = seconds_left()
        if left is not None:
            seconds = round(time.monotonic() - self._start + _SHARE * left, 1)
            self.seconds = seconds if self.seconds is None else min(seconds, self.seconds)


@dataclass(frozen=True)
class Side:
    """An engine with its options.

    Attributes:
        engine: The engine.
        options: Its options.
        budget: The time and the number of runs of the search, shared by both sides.
        kept_runs: The results of earlier runs; None to run everything.
    """

    engine: ModelEngine
    options: Mapping[str, str]
    budget: Budget = field(default_factory=Budget)
    kept_runs: KeptRuns | None = None

    def __post_init__(self) -> None:
        if custom_ops() and "custom_ops" in self.engine.options:
            object.__setattr__(self, "options", {"custom_ops": custom_ops(), **self.options})

    def __str__(self) -> str:
        options = ",".join(name if value == "yes" else f"{name}={value}" for name, value in self.options.items())
        return f"{self.engine.name}:{options}" if options else self.engine.name

    @property
    def title(self) -> str:
        """The name of the engine, with its options and version."""
        return f"{self} {self.engine.version()}"

    def in_declared_types(self) -> Side:
        """Return this side, computing in the types that models declare, unless its options say otherwise."""
        return replace(self, options={**getattr(self.engine, "exact_options", {}), **self.options})

    def run(self, model: WholeModel, inputs: Mapping[str, Array]) -> dict[str, Value]:
        """Run a model, or read the kept result of an earlier run. Return the outputs by name.

        Raises:
            RunFailed: The engine refuses the model, fails, crashes or lacks memory.
            MemoryError: The limit of this process leaves the engine too little memory.
            BudgetSpent: The time is over.
            MissingExtra: A package is not installed.
            UsageError: The engine does not accept an option or an input.
            ChildLost: The machine ended the process of the run, or did not start it.
        """
        result = self.try_run(model, inputs)
        if isinstance(result, Failure):
            raise RunFailed(result)
        return dict(result)

    def try_run(self, model: WholeModel, inputs: Mapping[str, Array], places: list[NodeRun] | None = None) -> Result:
        """Do as `run`, but return a failure instead of raising RunFailed.

        If the engine is `PlacesNodes` and does run the model, `places` gets each node with the provider that ran it.
        """
        if self.kept_runs is None:
            return self._run(model, inputs, places)
        path = self.kept_runs.path_of(self.title, model, inputs)
        result = self.kept_runs.read(path)
        if result is None:
            result = self._run(model, inputs, places)
            self.kept_runs.write(path, result)
        return result

    def _run(self, model: WholeModel, inputs: Mapping[str, Array], places: list[NodeRun] | None = None) -> Result:
        """Run a model without `kept_runs`: in a child process, or in this process if the engine isolates its runs."""
        timeout = self.budget.remaining()
        self.budget.runs += 1
        try:
            if places is not None and isinstance(self.engine, PlacesNodes):
                placed_outputs, nodes = self.engine.run_and_place(model, inputs, self.options)
                places += nodes
                return placed_outputs
            if getattr(self.engine, "is_isolated", False):  # an optional attribute; see `ModelEngine`
                return _run_checked(self.engine, model, inputs, self.options)  # `run_model` takes no time limit
            outputs: dict[str, Value] = supervisor.call(
                _run_in_child, self.engine.name, model, dict(inputs), dict(self.options), timeout=timeout
            )
        except (MissingExtra, UsageError, ChildLost):  # the caller or the machine is at fault, not the engine
            raise
        except ChildTimedOut:
            self.budget.remaining()  # raises BudgetSpent, unless the child was ended a moment before the time was over
            raise BudgetSpent("a run took longer than the time that was left") from None
        except (ChildDied, MemoryError) as error:
            if this_process.memory is not None and is_out_of_memory(error):  # the limit is at fault, not the engine
                raise MemoryError from error
            if isinstance(error, MemoryError):
                return Failure("memory", "", "it needs more memory than is available")
            return Failure("crash", "", f"its process {error}")
        except SliceportError as error:
            kind: Kind = getattr(error, "kind", "error")  # an engine's error may tell more; see `ModelEngine`
            return Failure(kind, "", shorten(str(error), _MAX_REASON).rstrip("."))
        except Exception as error:  # an engine of another package may raise anything
            return Failure("error", "", f"{type(error).__name__}: {shorten(str(error)).rstrip('.')}")
        return outputs


def _run_in_child(
    name: str, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]
) -> dict[str, Value]:
    """Run a model on the engine called `name`. The engine itself is not passed, because it need not be picklable."""
    return _run_checked(model_engines()[name], model, inputs, options)


def _run_checked(
    engine: ModelEngine, model: WholeModel, inputs: Mapping[str, Array], options: Mapping[str, str]
) -> dict[str, Value]:
    """Run a model, and check the outputs. Raise UsageError if an engine of another package returns no such outputs."""
    outputs: Any = engine.run_model(model, inputs, options)
    if not isinstance(outputs, dict):
        problem = f"{type(outputs).__name__} in place of a dict of outputs by name"
    elif wrong := [name for name, value in outputs.items() if not _is_value(value)]:
        problem = f"{type(outputs[wrong[0]]).__name__} for the output {wrong[0]!r} in place of a NumPy array"
    else:
        return outputs
    raise UsageError(f"run_model of the engine {engine.name!r} returns {problem}.")


def _is_value(value: object) -> bool:
    """Return whether an object is a `Value`."""
    import numpy as np

    return value is None or isinstance(value, np.ndarray) or (isinstance(value, tuple) and all(map(_is_value, value)))


def read_side(text: str, format_name: str, option: str) -> Side:
    """Return the side that a text describes: an engine and its options, as in `onnxruntime-cpu:level=basic,nodes`.

    Args:
        text: The name, and after a colon the options, separated by commas.
        format_name: The format of the models that the engine has to run.
        option: The name of the caller's option, for messages.

    Raises:
        UsageError: The engine or an option is unknown, an option has no value, or the engine does not run the format.
    """
    name, _, options_text = text.partition(":")
    engines = {key: engine for key, engine in model_engines().items() if format_name in engine.model_formats}
    # A known engine may run other formats only, or sliceport may be unable to run it at all (`REPORTED_TITLES`).
    if name not in engines and name in model_engines().keys() | REPORTED_TITLES:
        problem = f"sliceport cannot run {name!r} on models of the format {format_name} (see sliceport probe)"
        raise UsageError(f"{option}: {problem}; use {', '.join(engines)}.")
    if name not in engines:
        raise unknown_name(f"{option}: engine", name, list(engines))
    settings = [part.partition("=") for part in options_text.split(",") if part]
    flags = getattr(engines[name], "flags", ())  # an optional attribute; see `ModelEngine`
    options = {key: value or "yes" * (key in flags) for key, _, value in settings}
    for key, value in options.items():
        if key not in engines[name].options or not value or (key in flags and value not in ("yes", "no")):
            available = "; ".join(f"{key}={line}" for key, line in engines[name].options.items()) or "none"
            problem = "needs a valid value for" if key in engines[name].options else "has no option"
            raise UsageError(f"{option}: {name!r} {problem} {f'{key}={value}'!r}; its options are: {available}.")
    return Side(engines[name], options)
