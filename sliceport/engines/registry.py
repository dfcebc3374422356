"""The installed engines, which register under the entry point group `sliceport.engines`.

Functions that return engines raise UsageError if an installed engine cannot be loaded; see `load_entry_points`.
"""

from __future__ import annotations

from functools import cache

from sliceport.engines.engine import Engine, ModelEngine, NodeEngine, OperatorEngine, OperatorValidator
from sliceport.engines.entry_points import load_entry_points

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


def describe_abilities(name: str) -> str:
    """Return what an engine for some formats runs, as a part of a sentence."""
    abilities = {"nodes": "formats", "whole models (see sliceport diff --on)": "model_formats"}
    formats = {ability: getattr(engines()[name], attribute, ()) for ability, attribute in abilities.items()}
    return " and ".join(f"{ability} of {', '.join(names)}" for ability, names in formats.items() if names)


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
