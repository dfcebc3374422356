"""The engines that are installed, ours and others', by the entry point group `sliceport.engines`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from sliceport.arguments import read_names
from sliceport.engines.engine import Engine, NodeEngine, OperatorEngine, runs_format
from sliceport.entry_points import load_entry_points
from sliceport.errors import UsageError, unknown_name
from sliceport.wording import spell

GROUP = "sliceport.engines"


@cache
def engines() -> dict[str, Engine]:
    """All engines by name.

    Raises:
        UsageError: See `load_entry_points`.
    """
    return load_entry_points(GROUP, complain)


def complain(engine: object) -> str:
    """Why an object is no engine, as the end of a sentence; empty where it is one."""
    is_engine = isinstance(engine, OperatorEngine | NodeEngine)
    return "" if is_engine else "is no engine: it needs name, description and run_operator or run_node"


def engines_of(format_name: str) -> dict[str, Engine]:
    """The engines that take part in comparisons of models of a format, by name."""
    return {name: engine for name, engine in engines().items() if runs_format(engine, format_name)}


def choose_engines(names: Iterable[str], format_name: str, reference: str) -> list[Engine]:
    """The engines with these names, without the reference, which always takes part.

    Args:
        names: The names that were asked for.
        format_name: The format of the model.
        reference: The name of what computes the expected values.

    Raises:
        UsageError: They are no names, a name is not known, or none but the reference is given.
    """
    known = engines_of(format_name)
    asked = read_names(names, spell("executors", "--executors"))
    for name in asked:
        if name != reference and name not in known:
            raise unknown_name("executor", name, list(dict.fromkeys((reference, *known))))
    chosen = [known[name] for name in dict.fromkeys(asked) if name != reference]
    if not chosen:
        others = ", ".join(name for name in known if name != reference)
        option = spell("executors", "--executors")
        raise UsageError(f"nothing to compare {reference!r} with; name another in {option}: {others}.")
    return chosen
