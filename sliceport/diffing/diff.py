"""`diff`: whole models side by side, and the first node that differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceport import progress
from sliceport.arguments import check_path, read_input_shapes, read_inputs, read_seed
from sliceport.diffing.difference import Failure, OutputDiff, Tolerance, compare_outputs
from sliceport.diffing.graph import Diffable, Graph
from sliceport.diffing.report import DiffReport, Part
from sliceport.diffing.search import Case, Search, only_moves
from sliceport.diffing.side import Budget, BudgetSpent, RunFailed, Side, read_side
from sliceport.engines.engine import NamesCause, Value, WholeModel
from sliceport.errors import ModelError, UsageError
from sliceport.formats import DeclaresShapes, InputShapes, Path, format_of
from sliceport.open_shapes import choose_sizes
from sliceport.wording import example_shapes, spell

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_ATTEMPTS = 4
DEFAULT_AGAINST = {"onnx": "onnxruntime-cpu:level=none", "openvino": "openvino"}
"""The engine that computes expected outputs by the format of the model."""


def diff(
    model: Path,
    other: Path | None = None,
    *,
    on: str | None = None,
    against: str | None = None,
    input_shapes: InputShapes | None = None,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    seeds: int = 1,
    open_sizes: int | str | None = None,
    tolerance: Tolerance | None = None,
    budget: float | None = None,
    locates: bool = True,
) -> DiffReport:
    """Run a model on two engines, or two models, and compare the outputs; find the first node that differs.

    Args:
        model: The model's file.
        other: A second model, which should compute the same, such as the model after an optimizer.
        on: The engine that is in question, with options as in `onnxruntime-cpu:level=basic`; for two models, that of
            the first one.
        against: The engine that computes what is expected, or for two models that of the second one.
        input_shapes: Sizes for inputs whose shape the model leaves open, by name.
        inputs: Arrays for inputs; random ones that fit are made for the others.
        seed: For the random inputs.
        seeds: The number of sets of random inputs that are tried until outputs differ.
        open_sizes: The size of all axes that the model leaves open; "primes" for distinct ones.
        tolerance: The accepted difference of computed outputs; None for the default of each type. Outputs of nodes
            that only move elements are exact.
        budget: Seconds for the search; None for no limit.
        locates: Whether to search the node behind a difference.

    Raises:
        UsageError: An option does not fit.
        ModelError: A model cannot be read, or neither engine runs it.
        MissingExtra: A package is not installed.
    """
    check_path(model, "model")
    if other is not None:
        raise UsageError("two models cannot be compared yet.")
    spent = Budget(budget)
    graph = open_graph(model)
    bad, good = _read_sides(graph.format, on, against, spent)
    arrays = read_inputs(inputs)
    shapes = {name: array.shape for name, array in arrays.items()} | read_input_shapes(input_shapes)
    shapes |= _choose_open_shapes(model, shapes, open_sizes)
    return _Comparison(graph, bad, good, arrays, shapes, tolerance, locates).run(range(read_seed(seed), seed + seeds))


def _choose_open_shapes(model: Path, given: InputShapes, size: int | str | None) -> dict[str, tuple[int, ...]]:
    """Return shapes for the inputs with open shapes that have none.

    Raises:
        UsageError: The model has such inputs, and the caller wants no sizes to be chosen.
    """
    format_ = format_of(model)
    declared = format_.declared_shapes(model) if isinstance(format_, DeclaresShapes) else {}
    dims = {name: shape for name, shape in declared.items() if name not in given}
    still_open = {
        name: None if shape is None else [dim if isinstance(dim, int | str) else None for dim in shape]
        for name, shape in dims.items()
        if shape is None or not all(isinstance(dim, int) for dim in shape)
    }
    if isinstance(size, int):
        return {
            name: tuple(dim if isinstance(dim, int) else size for dim in shape or ())
            for name, shape in still_open.items()
        }
    chosen = choose_sizes(declared, given) if size is not None else {}
    missing = {name: shape for name, shape in still_open.items() if name not in chosen}
    if missing:
        auto = spell("open_sizes='primes'", "--input-shapes auto")
        raise UsageError(
            f"{', '.join(map(repr, missing))} leave{'s' * (len(missing) == 1)} sizes open: give {auto}, which chooses "
            f"them, or {example_shapes(missing)} (an example)."
        )
    return chosen


def open_graph(model: Path) -> Graph:
    """Read a model's file as a graph.

    Raises:
        UsageError: No format takes the file, or its format takes no part.
        ModelError: The model cannot be read.
    """
    one = format_of(model)
    if not isinstance(one, Diffable):
        raise UsageError(f"models of {one.title} cannot be compared by diff.")
    return one.open_graph(model)


def _read_sides(format_name: str, on: str | None, against: str | None, budget: Budget) -> tuple[Side, Side]:
    option = spell("on", "--on")
    if on is None:
        example = spell('on="onnxruntime-dml"', "--on onnxruntime-dml")
        raise UsageError(f"name the engine that is in question with {option}, as in {example}.")
    expected = DEFAULT_AGAINST.get(format_name, "") if against is None else against
    bad = read_side(on, format_name, option, budget)
    good = read_side(expected, format_name, spell("against", "--against"), budget)
    if str(bad) == str(good):
        raise UsageError(f"there is nothing to compare: both engines are {str(bad)!r}.")
    return bad, good


@dataclass(frozen=True)
class _Run:
    """The runs of both sides on one set of inputs.

    Attributes:
        inputs: The inputs.
        got: The outputs of the bad side, or its failure.
        expected: The outputs of the good side, or its failure.
    """

    inputs: Mapping[str, Array]
    got: Mapping[str, Value] | Failure
    expected: Mapping[str, Value] | Failure


@dataclass
class _Comparison:
    graph: Graph
    bad: Side
    good: Side
    given: Mapping[str, Array]
    shapes: InputShapes
    tolerance: Tolerance | None
    locates: bool
    _inputs: Mapping[str, Array] = field(default_factory=dict)

    def run(self, seeds: Sequence[int]) -> DiffReport:
        """Compare for one seed after the other, until the outputs differ."""
        for seed in seeds:
            run = self._run_both(seed)
            outputs, failure = self._compare(run)
            if failure is not None:
                return self._explain(run, seed, outputs, failure)
        return DiffReport(self.bad.title, self.good.title, outputs, seed, runs=self.bad.budget.runs)

    def _run_both(self, seed: int) -> _Run:
        """Run both sides on the first inputs that the good side runs on, or else those of the first attempt.

        Raises:
            ModelError: No side runs the model.
        """
        first: _Run | None = None
        for attempt in range(_ATTEMPTS):
            inputs = self.graph.make_inputs(self.given, self.shapes, seed, attempt)
            expected = _try(self.good, self.graph, inputs)
            if isinstance(expected, Failure) and first is None:
                first = _Run(inputs, _try(self.bad, self.graph, inputs), expected)
            if not isinstance(expected, Failure):
                self._inputs = inputs
                return _Run(inputs, _try(self.bad, self.graph, inputs), expected)
        assert first is not None
        if isinstance(first.got, Failure) and isinstance(first.expected, Failure):
            raise ModelError(
                f"neither engine runs the model: on {self.bad}, {first.got.message}; on {self.good}, "
                f"{first.expected.message}."
            )
        self._inputs = first.inputs
        return first

    def _compare(self, run: _Run) -> tuple[tuple[OutputDiff, ...], Failure | None]:
        for result in (run.got, run.expected):
            if isinstance(result, Failure):
                return (), result
        assert not isinstance(run.got, Failure)
        assert not isinstance(run.expected, Failure)
        every = range(len(self.graph.nodes))
        exact = {name: Tolerance() for name in run.got if only_moves(self.graph, every, name)}
        tolerances = dict.fromkeys(run.got, self.tolerance) | exact
        outputs = compare_outputs(run.got, run.expected, tolerances)
        return outputs, next((output.failure for output in outputs if output.failure is not None), None)

    def _explain(self, run: _Run, seed: int, outputs: tuple[OutputDiff, ...], failure: Failure) -> DiffReport:
        """Search the smallest case of a failure, and what is known about it."""
        bad, good = (self.good, self.bad) if isinstance(run.expected, Failure) else (self.bad, self.good)
        failed = bad.title if failure.is_of_run else ""
        report = DiffReport(self.bad.title, self.good.title, outputs, seed, failed, failure)
        unsteady = [
            side for side, result in ((self.bad, run.got), (self.good, run.expected)) if self._is_unsteady(side, result)
        ]
        if unsteady:
            note = f"{unsteady[0]} gives something else each time, so no node is searched"
            return replace(report, notes=(note,), runs=bad.budget.runs)
        if not self.locates:
            return replace(report, runs=bad.budget.runs)
        case = Search(self.graph, bad, good, run.inputs, failure, self.tolerance).run()
        notes = () if case else ("no part of the model that was cut out fails like the whole",)
        part = None if case is None else self._describe(case, bad, good)
        return replace(report, notes=notes, part=part, runs=bad.budget.runs)

    def _is_unsteady(self, side: Side, result: Mapping[str, Value] | Failure) -> bool:
        """Return whether a side gives something else for the same inputs."""
        again = _try(side, self.graph, self._inputs)
        if isinstance(result, Failure) or isinstance(again, Failure):
            return not (isinstance(result, Failure) and isinstance(again, Failure) and again.is_like(result))
        return any(output.failure is not None for output in compare_outputs(again, result, {}))

    def _describe(self, case: Case, bad: Side, good: Side) -> Part:
        """Add to a case what was expected and seen, its cause, and the known defects."""
        model = case.model
        got, expected = _try_model(bad, model, case.inputs), _try_model(good, model, case.inputs)
        cause = ""
        if isinstance(bad.engine, NamesCause):
            with suppress(BudgetSpent):
                cause = bad.engine.find_cause(
                    bad.options,
                    lambda options: Search(
                        case.graph, bad.with_options(options), good, case.inputs, case.failure, self.tolerance
                    ).fails(case),
                )
        return Part(
            case, bad, good, model, got, expected, cause, tuple(case.graph.find_defects(model, bad.engine.name))
        )


def _try(side: Side, graph: Graph, inputs: Mapping[str, Array]) -> Mapping[str, Value] | Failure:
    progress.say(f"running the model on {side}")
    return _try_model(side, graph.whole(), inputs)


def _try_model(side: Side, model: WholeModel, inputs: Mapping[str, Array]) -> Mapping[str, Value] | Failure:
    try:
        return side.run(model, inputs)
    except RunFailed as failed:
        return failed.failure
