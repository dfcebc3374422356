"""The models, shapes and engines of a `diff`, from its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sliceport.arguments import read_input_shapes
from sliceport.engines.engine import Array
from sliceport.engines.side import Side, read_side
from sliceport.engines.sizes import InputShapes, shapes_for_open_sizes
from sliceport.errors import UsageError
from sliceport.formats import declared_shapes, format_of
from sliceport.search.graph import Diffable, Graph
from sliceport.verdict.difference import Tolerance, Tolerances
from sliceport.wording import spell


def read_shapes(
    model: Any, arrays: Mapping[str, Array], input_shapes: InputShapes | None, open_sizes: int | str | None
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of `arrays`, the shapes in `input_shapes` and, for `open_sizes`, shapes of other open inputs.

    `open_sizes` is the size of all open axes, or "primes" to choose distinct primes. If it is None, inputs with open
    sizes may be left without a shape; see `find_inputs`.

    Raises:
        UsageError: A shape or `open_sizes` is malformed, or no format reads the model.
        ModelError: The model cannot be read.
        MissingExtra: A package that reads the format is not installed.
    """
    shapes = {name: array.shape for name, array in arrays.items()} | read_input_shapes(input_shapes)
    if open_sizes is not None:
        shapes |= shapes_for_open_sizes(declared_shapes(model), shapes, open_sizes)
    return shapes


def read_tolerances(graph: Graph, tolerance: Tolerance | Mapping[str, Tolerance] | None) -> Tolerances:
    """Return the accepted differences of outputs, which a caller gave for each output or for all of them.

    Raises:
        UsageError: A name is not an output of the model.
    """
    tolerances = Tolerances(tolerance if isinstance(tolerance, Mapping) else {"": tolerance})
    unknown = [name for name in tolerances if name and name not in graph.outputs]
    if unknown:
        raise UsageError(f"a tolerance is given for {unknown[0]!r}, but the outputs are {', '.join(graph.outputs)}.")
    return tolerances


def open_graph(model: Any) -> Graph:
    """Read a model as a graph.

    Raises:
        UsageError: The model is of no known format, or `diff` cannot cut models of its format.
        ModelError: The model cannot be read.
        MissingExtra: A package that reads the format is not installed.
    """
    format_ = format_of(model)
    if not isinstance(format_, Diffable):
        raise UsageError(f"models of {format_.title} cannot be compared by diff.")
    return format_.open_graph(model)


def read_engines(
    first: Graph, second: Graph, on: str | None, against: str | None, *, is_recorded: bool
) -> tuple[Side, Side]:
    """Return the engine `on`, which runs the first model, and the engine `against`, which runs the second.

    If `first` is `second`, both engines run this model, and `on` is required. For two models of one format, `against`
    defaults to `on`. All other defaults are those of the graphs. If `is_recorded`, `against` is a folder of recorded
    outputs, and the default engine takes its place.

    Raises:
        UsageError: An engine is unknown or missing, does not run its model, or is given twice for one model.
    """
    option, is_pair = spell("on", "--on"), first is not second
    if on is None and not is_pair:
        example = spell(f'on="{first.example_engine}"', f"--on {first.example_engine}")
        raise UsageError(f"name the engine to test with {option}, as in {example}.")
    default_on, default_against = first.default_against, second.default_against
    if is_pair and on is not None and first.format == second.format:
        default_against = on
    engine_against = default_against if against is None or is_recorded else against
    sides = (
        read_side(on or default_on, first.format, option),
        read_side(engine_against, second.format, spell("against", "--against")),
    )
    if not is_pair and not is_recorded and str(sides[0]) == str(sides[1]):
        raise UsageError(f"there is nothing to compare: both engines are {str(sides[0])!r}.")
    return sides


def match_names(first: Graph, second: Graph) -> dict[str, str]:
    """Map each input and output of the second model to a name of the first model.

    If the first model has all input names of the second, these names are kept, and the first model may have more
    inputs. Otherwise inputs map by position. Outputs map likewise, but both models must have the same number of them.

    Raises:
        UsageError: The models have different inputs or different numbers of outputs, or an input and an output of the
            second model share a name, but map to different names.
    """
    names: dict[str, str] = {}
    for kind, first_names, second_names in (
        ("inputs", first.inputs, second.inputs),
        ("outputs", first.outputs, second.outputs),
    ):
        has_same = set(second_names) <= set(first_names)
        if len(first_names) != len(second_names) and (kind == "outputs" or not has_same):
            both = f"{', '.join(first_names)} and {', '.join(second_names)}"
            raise UsageError(f"the models have different {kind}: {both}.")
        for name, first_name in zip(second_names, second_names if has_same else first_names, strict=True):
            if names.setdefault(name, first_name) != first_name:
                raise UsageError(
                    f"the second model returns its input {name!r} as an output, but the matching output of the first "
                    f"model is {first_name!r}: return the input through an Identity with another name."
                )
    return names
