"""`diff`: whole models side by side, and the first node that differs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from sliceport import progress
from sliceport.arguments import read_input_shapes, read_inputs, read_seed
from sliceport.diffing.difference import (
    EXACT,
    Failure,
    OutputDiff,
    Tolerance,
    compare_outputs,
    describe_missing,
    narrow_tolerance_of,
    tolerance_of,
)
from sliceport.diffing.graph import Diffable, Graph
from sliceport.diffing.pair import Pair
from sliceport.diffing.report import DiffReport, Part
from sliceport.diffing.search import Case, Search, only_moves
from sliceport.diffing.side import Budget, BudgetSpent, RunFailed, Side, read_side
from sliceport.diffing.verify import ATTEMPTS
from sliceport.engines.engine import NamesCause, Value, WholeModel
from sliceport.engines.registry import model_engines
from sliceport.errors import ModelError, UsageError
from sliceport.formats import DeclaresShapes, InputShapes, format_of
from sliceport.open_shapes import choose_sizes
from sliceport.wording import example_shapes, spell

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_MATCHING_RUNS = 3
"""The number of inputs on which values of two models must agree to be the same value."""
DEFAULT_AGAINST = {"onnx": "onnxruntime-cpu:level=none", "openvino": "openvino"}
"""The engine that computes expected outputs by the format of the model."""


def diff(
    model: Any,
    other: Any = None,
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
) -> DiffReport:
    """Run a model on two engines, or two models, and compare the outputs; find the first node that differs.

    Args:
        model: A file's path, an `onnx.ModelProto`, an `onnx_ir.Model` or an `openvino.Model`; it is not changed.
        other: A second model that should compute the same, such as the model after an optimizer.
        on: The engine that is in question, with options as in `onnxruntime-cpu:level=basic`; for two models, the
            engine of the first one.
        against: The engine that computes the expected outputs, or a folder of recorded outputs; for two models, the
            engine of the second one.
        input_shapes: Sizes for inputs whose shape the model leaves open, by name.
        inputs: Arrays for inputs; random ones that fit are made for the others.
        seed: For the random inputs.
        seeds: The number of sets of random inputs that are tried until outputs differ.
        open_sizes: The size of all axes that the model leaves open; "primes" for distinct ones.
        tolerance: The accepted difference of computed outputs; None for the default of each type. Outputs of nodes
            that only move elements are exact.
        budget: Seconds for the search; None for no limit.

    Raises:
        UsageError: An option does not fit.
        ModelError: A model cannot be read, or neither engine runs it.
        MissingExtra: A package is not installed.
    """
    spent = Budget(budget)
    first = open_graph(model)
    second = first if other is None else open_graph(other)
    arrays = read_inputs(inputs)
    shapes = {name: array.shape for name, array in arrays.items()} | read_input_shapes(input_shapes)
    is_engine = (against or "").partition(":")[0] in model_engines()
    folder = FilePath(against) if against and not is_engine and os.path.isdir(against) else None
    if folder is None:
        shapes |= _choose_open_shapes(model, shapes, open_sizes)
    if other is None:
        bad, good = _read_sides(first.format, on, None if folder else against, spent, is_recorded=folder is not None)
    else:
        good, bad = _read_both_sides((first, second), on, against, spent)
    comparison = _Comparison(first, second, good, bad, match_names(first, second), tolerance)
    if folder is not None:
        return comparison.run_recorded(folder)
    return comparison.run(arrays, shapes, range(read_seed(seed), seed + seeds))


def _choose_open_shapes(model: Any, given: InputShapes, size: int | str | None) -> dict[str, tuple[int, ...]]:
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


def open_graph(model: Any) -> Graph:
    """Read a model as a graph.

    Raises:
        UsageError: No format takes the file, or its format takes no part.
        ModelError: The model cannot be read.
    """
    one = format_of(model)
    if not isinstance(one, Diffable):
        raise UsageError(f"models of {one.title} cannot be compared by diff.")
    return one.open_graph(model)


def _read_sides(
    format_name: str, on: str | None, against: str | None, budget: Budget, *, is_recorded: bool
) -> tuple[Side, Side]:
    """Return the engine in question and the other one, for one model."""
    option = spell("on", "--on")
    if on is None:
        example = spell('on="onnxruntime-dml"', "--on onnxruntime-dml")
        raise UsageError(f"name the engine that is in question with {option}, as in {example}.")
    expected = DEFAULT_AGAINST.get(format_name, "") if against is None else against
    bad = read_side(on, format_name, option, budget)
    good = read_side(expected, format_name, spell("against", "--against"), budget)
    if str(bad) == str(good) and not is_recorded:
        raise UsageError(f"there is nothing to compare: both engines are {str(bad)!r}.")
    return bad, good


def _read_both_sides(
    graphs: tuple[Graph, Graph], on: str | None, against: str | None, budget: Budget
) -> tuple[Side, Side]:
    """Return the engines of two models.

    Without `against`, the second engine is `on` if both models have one format, otherwise the default of its format.
    """
    first = DEFAULT_AGAINST[graphs[0].format] if on is None else on
    is_same = on is not None and graphs[0].format == graphs[1].format
    second = against or (first if is_same else DEFAULT_AGAINST[graphs[1].format])
    return (
        read_side(first, graphs[0].format, spell("on", "--on"), budget),
        read_side(second, graphs[1].format, spell("against", "--against"), budget),
    )


def match_names(first: Graph, second: Graph) -> dict[str, str]:
    """Return the names in the first model of inputs and outputs of the second: the same, or those in the same place.

    Raises:
        UsageError: The models have different inputs, or different numbers of outputs.
    """
    names: dict[str, str] = {}
    for kind, ours, theirs in (("inputs", first.inputs, second.inputs), ("outputs", first.outputs, second.outputs)):
        if len(ours) != len(theirs) and (kind == "outputs" or not set(theirs) <= set(ours)):
            raise UsageError(f"the models have different {kind}: {', '.join(ours)} and {', '.join(theirs)}.")
        has_same = set(theirs) <= set(ours)
        names |= dict(zip(theirs, theirs if has_same else ours, strict=False))
    return names


Result = Mapping[str, Value] | Failure


@dataclass(frozen=True)
class _Run:
    """The runs of both sides on one set of inputs.

    Attributes:
        inputs: The inputs, by their names in the first model.
        got: The outputs in question, by their names in the second model, or the failure of the run.
        expected: The expected outputs, by the same names, or the failure of the run.
        attempt: The attempt of `Graph.make_inputs`.
    """

    inputs: Mapping[str, Array]
    got: Result
    expected: Result
    attempt: int = 0


@dataclass(frozen=True)
class _Comparison:
    """A comparison of two models, which may be one.

    Attributes:
        first: The model that computes what is expected.
        second: The model in question.
        good: The engine of the first.
        bad: The engine of the second.
        names: The names in the first model of inputs and outputs of the second.
        tolerance: See `diff`.
    """

    first: Graph
    second: Graph
    good: Side
    bad: Side
    names: Mapping[str, str]
    tolerance: Tolerance | None

    def run(self, given: Mapping[str, Array], shapes: InputShapes, seeds: Sequence[int]) -> DiffReport:
        """Compare for one seed after the other, until the outputs differ."""
        for seed in seeds:
            run = self._run_both(given, shapes, seed)
            outputs, failure = self._compare(run)
            report = self._report(outputs, failure, seed)
            if failure is not None:
                try:
                    return self._explain(report, run, failure, self._make_matching_inputs(run, given, shapes, seed))
                except BudgetSpent as over:
                    return replace(report, notes=(f"{over}, before a node was found",))
        return report

    def run_recorded(self, folder: FilePath) -> DiffReport:
        """Compare with the recorded outputs of each data set in a folder, until the outputs differ."""
        source = f"the recorded outputs in '{folder}'"
        sets = self.first.read_recorded(folder)
        for inputs, expected in sets:
            run = _Run(inputs, _try(self.bad, self.second, inputs), expected)
            outputs, failure = self._compare(run)
            report = replace(self._report(outputs, failure, 0), against=source)
            if failure is not None:
                values = _try(self.good, self.first, inputs)
                if isinstance(values, Failure) or self._compare(replace(run, got=values))[1] is not None:
                    note = f"no node is searched, as {self.good} does not compute the recorded outputs"
                    return replace(report, notes=(note,))
                return replace(self._explain(report, replace(run, expected=values), failure, []), against=source)
        return report

    def _run_both(self, given: Mapping[str, Array], shapes: InputShapes, seed: int) -> _Run:
        """Run both sides on the first inputs that the good side runs on, or else those of the first attempt.

        Raises:
            ModelError: No side runs its model.
        """
        runs = []
        for attempt in range(ATTEMPTS):
            inputs = self.first.make_inputs(given, shapes, seed, attempt)
            expected = self._rename(_try(self.good, self.first, inputs))
            if not isinstance(expected, Failure):
                return _Run(inputs, self._run_second(inputs), expected, attempt)
            runs.append(_Run(inputs, expected, expected))
        first = replace(runs[0], got=self._run_second(runs[0].inputs))
        if isinstance(first.got, Failure) and isinstance(first.expected, Failure):
            raise ModelError(
                f"neither engine runs the model: on {self.bad}, {first.got.message}; on {self.good}, "
                f"{first.expected.message}."
            )
        return first

    def _make_matching_inputs(
        self, run: _Run, given: Mapping[str, Array], shapes: InputShapes, seed: int
    ) -> list[Mapping[str, Array]]:
        """Return the inputs of a run and more that the first model runs on, to match values of two models."""
        if self.first is self.second:
            return []
        seeds = range(seed + 1, seed + _MATCHING_RUNS)
        candidates = [self.first.make_inputs(given, shapes, later, run.attempt) for later in seeds]
        return [
            run.inputs,
            *(inputs for inputs in candidates if not isinstance(_try(self.good, self.first, inputs), Failure)),
        ]

    def _run_second(self, inputs: Mapping[str, Array]) -> Result:
        return _try(self.bad, self.second, {name: inputs[self.names[name]] for name in self.second.inputs})

    def _rename(self, outputs: Result) -> Result:
        """Return outputs of the first model by their names in the second."""
        if isinstance(outputs, Failure):
            return outputs
        return {name: outputs[self.names[name]] for name in self.second.outputs if self.names[name] in outputs}

    def _compare(self, run: _Run) -> tuple[tuple[OutputDiff, ...], Failure | None]:
        for result in (run.got, run.expected):
            if isinstance(result, Failure):
                return (), result
        assert not isinstance(run.got, Failure)
        assert not isinstance(run.expected, Failure)
        all_nodes = range(len(self.second.nodes))
        exact = {name: EXACT for name in run.got if only_moves(self.second, all_nodes, name)}
        outputs = compare_outputs(run.got, run.expected, dict.fromkeys(run.got, self.tolerance) | exact)
        return outputs, next((output.failure for output in outputs if output.failure is not None), None)

    def _report(self, outputs: tuple[OutputDiff, ...], failure: Failure | None, seed: int) -> DiffReport:
        sides = (self.bad, self.good) if self.first is self.second else (self.good, self.bad)
        on, against = (side.title for side in sides)
        return DiffReport(on, against, outputs, seed, "", failure, runs=self.bad.budget.runs)

    def _explain(
        self, report: DiffReport, run: _Run, failure: Failure, matching: Sequence[Mapping[str, Array]]
    ) -> DiffReport:
        """Add to a report the smallest case of a failure, and what is known about it."""
        is_good = isinstance(run.expected, Failure)
        bad, good = (self.good, self.bad) if is_good else (self.bad, self.good)
        report = replace(report, failed=bad.title if failure.is_of_run else "")
        unsteady = self._find_unsteady(run)
        if unsteady is not None:
            note = f"{unsteady} computes other outputs in each run, so no node is searched"
            return replace(report, notes=(note,), runs=bad.budget.runs)
        notes: tuple[str, ...] = ()
        expected, counterpart = None, ""
        if self.first is self.second:
            case = Search(self.first, bad, good, run.inputs, failure, self.tolerance).run()
        elif is_good:
            case, notes = None, (f"{good} alone runs its model",)
        else:
            pair = Pair(self.first, self.second, (good, bad), self.names, self.tolerance)
            outputs = self.second.outputs if failure.is_of_run else [failure.output]
            case, expected, counterpart, notes = pair.explain(matching, outputs)
        if case is None:
            notes += ("no part of the model that was cut out fails like the whole",)
        part = None if case is None else self._describe(case, bad, good, expected, counterpart)
        return replace(report, notes=notes, part=part, runs=bad.budget.runs)

    def _find_unsteady(self, run: _Run) -> Side | None:
        """Return the side whose outputs differ in a second run on the same inputs, if any."""
        for side, result, repeated in (
            (self.bad, run.got, self._run_second(run.inputs)),
            (self.good, run.expected, self._rename(_try(self.good, self.first, run.inputs))),
        ):
            if isinstance(result, Failure) or isinstance(repeated, Failure):
                if not (isinstance(result, Failure) and isinstance(repeated, Failure) and repeated.is_like(result)):
                    return side
            elif any(output.failure is not None for output in compare_outputs(repeated, result, {})):
                return side
        return None

    def _describe(self, case: Case, bad: Side, good: Side, expected: Result | None, counterpart: str) -> Part:
        """Add to a case what was expected and seen, its cause, and the known defects."""
        bad, good = (replace(side, budget=Budget()) for side in (bad, good))  # a search may have spent its own
        model = case.model
        got = _try_model(bad, model, case.inputs)
        cause = ""
        if expected is None:
            expected = _try_model(good, model, case.inputs)
            if isinstance(bad.engine, NamesCause):
                cause = bad.engine.find_cause(bad.options, lambda options: self._fails(case, bad, good, options))
        outputs = self._compare_part(case, got, expected)
        defects = tuple(case.graph.find_defects(model, bad.engine.name))
        return Part(case, bad, good, model, got, expected, outputs, cause, defects, counterpart)

    def _compare_part(self, case: Case, got: Result, expected: Result) -> tuple[OutputDiff, ...]:
        if isinstance(expected, Failure):
            return ()
        if isinstance(got, Failure):
            return describe_missing(expected, got)
        default = tolerance_of if self.first is self.second else narrow_tolerance_of
        tolerances = {
            name: EXACT if only_moves(case.graph, case.numbers, name) else self.tolerance or default(value)
            for name, value in expected.items()
        }
        return compare_outputs(got, expected, tolerances)

    def _fails(self, case: Case, bad: Side, good: Side, options: Mapping[str, str]) -> bool:
        other = replace(bad, options=options)
        return Search(case.graph, other, good, case.inputs, case.failure, self.tolerance).fails(case)


def _try(side: Side, graph: Graph, inputs: Mapping[str, Array]) -> Result:
    progress.say(f"running the model on {side}")
    return _try_model(side, graph.whole(), inputs)


def _try_model(side: Side, model: WholeModel, inputs: Mapping[str, Array]) -> Result:
    try:
        return side.run(model, inputs)
    except RunFailed as failed:
        return failed.failure
