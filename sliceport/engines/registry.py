"""The installed engines, which register under the entry point group `sliceport.engines`.

Functions that return engines raise UsageError if an installed engine cannot be loaded; see `load_entry_points`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from sliceport.arguments import read_names
from sliceport.engines.engine import Engine, ModelEngine, NodeEngine, OperatorEngine, OperatorValidator
from sliceport.entry_points import load_entry_points
from sliceport.errors import UsageError, unknown_name
from sliceport.wording import spell

if TYPE_CHECKING:
    from sliceport.formats import Format

GROUP = "sliceport.engines"


@cache
def engines() -> dict[str, Engine]:
    """Return all installed engines by name, including model engines."""
    return load_entry_points(GROUP, describe_misfit)


def describe_misfit(engine: object) -> str:
    """Return why an object is not an engine, as the end of a sentence; empty if it is an engine."""
    if isinstance(engine, OperatorEngine | OperatorValidator | NodeEngine | ModelEngine):
        return ""
    return (
        "is not an engine: it needs name, description, and the members of an operator engine (run_operator), "
        "a validator (is_ready, validate), a node engine (formats, run_node) or a model engine "
        "(model_formats, options, version, run_model)"
    )


def engines_for_nodes(format_name: str) -> dict[str, Engine]:
    """Return the engines that can be compared on the slicing nodes of a model format, by name."""
    return {
        name: engine
        for name, engine in engines().items()
        # These two kinds take DirectML operators, which do not depend on the format of the model.
        if isinstance(engine, OperatorEngine | OperatorValidator)
        or (isinstance(engine, NodeEngine) and format_name in engine.formats)
    }


def model_engines() -> dict[str, ModelEngine]:
    """Return the engines that run whole models, by name."""
    return {name: engine for name, engine in engines().items() if isinstance(engine, ModelEngine)}


def choose_engines(names: Iterable[str] | None, format_: Format) -> list[Engine]:
    """Return the engines to compare with the reference engine of a format, without the reference engine itself.

    Args:
        names: Names of engines; None for the default engines of the format and the validators that are ready.
        format_: The format of the model.

    Raises:
        UsageError: `names` is not a sequence of names, contains an unknown name, or names no engine but the reference.
    """
    available, reference = engines_for_nodes(format_.name), format_.reference[0]
    if names is None:
        ready = (name for name, each in available.items() if isinstance(each, OperatorValidator) and each.is_ready())
        names = (*format_.default_executors, *ready)
    option = spell("executors", "--executors")
    requested = read_names(names, option)
    for name in requested:
        if name != reference and name not in available:
            raise unknown_name("executor", name, list(dict.fromkeys((reference, *available))))
    chosen = [available[name] for name in dict.fromkeys(requested) if name != reference]
    if not chosen:
        others = ", ".join(name for name in available if name != reference)
        raise UsageError(f"nothing to compare {reference!r} with; name another engine in {option}: {others}.")
    return chosen
