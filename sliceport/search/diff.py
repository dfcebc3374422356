"""`diff`, which compares one model on two engines, or two models, and finds the first node that differs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from math import prod
from pathlib import Path as FilePath
from typing import Any, SupportsIndex

from sliceport.arguments import read_inputs, read_seed
from sliceport.engines.engine import Array
from sliceport.engines.failure import Failure
from sliceport.engines.inputs import FoundInputs, describe_failed_search, find_inputs, more_inputs
from sliceport.engines.kept_runs import open_kept_runs
from sliceport.engines.registry import model_engines
from sliceport.engines.side import Budget, Side
from sliceport.engines.sizes import InputShapes, sizes_to_try
from sliceport.errors import ModelError, SliceportError, UsageError
from sliceport.sandbox import progress
from sliceport.search.comparison import Comparison, Run
from sliceport.search.explanation import explain
from sliceport.search.graph import Graph, find_static_values
from sliceport.search.report import DiffReport
from sliceport.search.setup import match_names, open_graph, read_engines, read_shapes, read_tolerances
from sliceport.verdict.difference import EXACT, OutputDiff, Outputs, Tolerance, Tolerances
from sliceport.verdict.untested import find_untested, mark_untested
from sliceport.verdict.verification import Verification
from sliceport.wording import spell

_SECONDS_TO_EXPLAIN = 60.0
"""Limit for the search for the node that decides a verification."""
_FEW = {True: 16, False: 1024}
"""The largest number of elements of an output that is compared on further inputs, for floats and for other elements."""
_RUNS_OF_FEW = 6
"""The number of these inputs, which are of ordinary magnitude: on others, engines round more."""
_LARGER, _MAX_LARGER = 8, 2**17
"""The factor of chosen sizes in one of these runs, and the most elements of all inputs in it."""
_MAX_CHOICES = 12
"""The number of choices of sizes to try if the engine under test does not run the model with the first one."""
_MATCHING_RUNS = 3
"""The number of sets of inputs to match values of two models. Values match if they agree on all of these sets."""
_SEED_STEP = 60
"""The distance of their seeds: seeds at this distance choose the same of up to 5 constants; see `DeclaredInput`."""


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
    tolerance: Tolerance | Mapping[str, Tolerance] | None = None,
    budget: float | None = None,
    resume: str | os.PathLike[str] | None = None,
) -> DiffReport:
    """Run a model on two engines, or two models, and compare the outputs; find the first node that differs.

    Args:
        model: A file's path, an `onnx.ModelProto`, an `onnx_ir.Model` or an `openvino.Model`; it is not changed.
        other: A second model that should compute the same, such as the model after an optimizer.
        on: With one model, the engine to test, which is required. With two models, the engine of the first model, which
            computes the expected outputs. Options follow the name, as in `onnxruntime-cpu:level=basic`.
        against: With one model, the engine that computes the expected outputs, or a folder of recorded outputs. With
            two models, the engine of the second one. The default is onnxruntime's CPU provider without optimization for
            ONNX, and `Model.evaluate` for OpenVINO. For two models of one format, the default is the engine `on`.
        input_shapes: Sizes for inputs whose shape the model leaves open, by name. Other open sizes are chosen.
        inputs: Arrays for inputs, by name; all other inputs get random arrays.
        seed: The seed of the first random inputs.
        seeds: The number of sets of random inputs to try. `diff` stops at the first set on which outputs differ.
        open_sizes: The size of all axes that the model leaves open; "primes" for distinct primes.
        tolerance: The accepted difference of computed outputs. A mapping has a tolerance for each named output, and one
            under an empty name for all other outputs. None stands for the default of each element type. An output
            whose elements are only moved must be equal.
        budget: Seconds for the comparison and the search; None for no limit.
        resume: A folder that keeps the results of runs, so that a later call with the same folder continues this call.

    Raises:
        UsageError: An option does not fit, `diff` cannot cut models of a format, the two models have different inputs
            or outputs, a recorded value cannot be read, or the folder of `resume` cannot be made.
        ModelError: A model cannot be read, neither engine runs its model, or the only model runs on `on` alone.
        MissingExtra: A package is not installed.
        BudgetSpent: The budget ends before the outputs are compared.
        ChildLost: The machine ended the process of a run, or did not start it.
    """
    if not isinstance(seeds, SupportsIndex) or seeds < 1:
        raise UsageError(f"{spell('seeds', '--seeds')} must be an integer from 1 up, got {seeds!r}.")
    search_budget = Budget(budget)
    first = open_graph(model)
    second = first if other is None else open_graph(other)
    arrays = read_inputs(inputs)
    # The name of an engine has priority over a folder of the same name.
    is_engine = (against or "").partition(":")[0] in model_engines()
    recorded = FilePath(against) if against and not is_engine and os.path.isdir(against) else None
    if recorded and (input_shapes or open_sizes is not None or inputs or seed or seeds > 1):
        options = spell("input_shapes, open_sizes, inputs, seed or seeds", "--input-shapes, --input, --seed or --seeds")
        raise UsageError(f"the inputs are those recorded in '{recorded}'; give no {options}.")
    shapes = {} if recorded else read_shapes(model, arrays, input_shapes, open_sizes)
    sides = read_engines(first, second, on, against, is_recorded=recorded is not None)
    kept_runs = None if resume is None else open_kept_runs(resume)
    # `sides` are the engines `on` and `against`. With one model, `against` is right by definition. With two models, the
    # first model is right by definition, and it runs on `on`.
    good_and_bad = sides if other is not None else sides[::-1]
    good, bad = (replace(side, budget=search_budget, kept_runs=kept_runs) for side in good_and_bad)
    tolerances = read_tolerances(second, tolerance)
    comparison = Comparison(first, second, good, bad, match_names(first, second), tolerances, arrays, (model, other))
    if recorded is not None:
        return _compare_recorded(comparison, recorded)
    return _compare_seeds(comparison, shapes, range(read_seed(seed), seed + seeds))


def name_deciding_node(verification: Verification, first: Graph, second: Graph, reference: Side) -> Verification:
    """Return a verification that failed, with a note on the first node of the changed model that decides, if found.

    Args:
        verification: The verification.
        first: The original model.
        second: The changed model.
        reference: The engine that computed the expected outputs of the original model.
    """
    if verification.failed_on is None:
        return verification
    side, run = verification.failed_on
    good, bad = (replace(each, budget=Budget(_SECONDS_TO_EXPLAIN)) for each in (reference, side))
    tolerances = Tolerances({"": EXACT if side == reference else None})
    try:
        comparison = Comparison(first, second, good, bad, match_names(first, second), tolerances, run.inputs)
        report = _compare_seeds(comparison, {}, [0])
    except SliceportError:  # no explanation is better than the loss of the verification
        return verification
    if report.part is None:
        return verification
    note = f"the first node that decides: {report.part.case.culprit_text} of the changed model"
    return replace(verification, notes=(*verification.notes, note))


def _compare_seeds(comparison: Comparison, shapes: InputShapes, seeds: Sequence[int]) -> DiffReport:
    """Compare the outputs for each seed until they differ, and search for the cause. Return the last report.

    Outputs that show nothing are compared on further inputs.
    """
    expected: list[Outputs] = []
    chosen: InputShapes = {}
    notes: tuple[str, ...] = ()
    for seed in seeds:
        run, found = _run_both(comparison, {**shapes, **chosen}, seed)
        chosen = chosen or found.sizes.chosen
        if not comparison.is_pair and isinstance(run.expected, Failure):
            raise _refuse_reference(comparison, run.expected)
        if not comparison.is_pair and found.sizes.chosen and isinstance(run.actual, Failure):
            run, chosen, notes = _try_other_sizes(comparison, run, chosen, shapes, seed)
        report = replace(comparison.report(run, seed), input_shapes=chosen, notes=notes)
        if not report.is_equal:
            return explain(comparison, run, report)
        assert not isinstance(run.expected, Failure)
        expected.append(run.expected)
    shapes = {**found.sizes.shapes, **chosen}
    others: Iterable[Mapping[str, Array]] = more_inputs(
        comparison.first, shapes, comparison.arrays, seed, found.attempt
    )
    # Few elements, such as a saturated probability or the index of a class, tell little in one run.
    few = any(prod(each.shape) <= _FEW["float" in each.element] for each in report.outputs)
    if few and comparison.is_pair:
        shapes |= _enlarge(comparison, chosen)
        larger = more_inputs(comparison.first, shapes, comparison.arrays, seed, found.attempt)
        others = chain(islice(larger, _RUNS_OF_FEW), others)
    return _test_more(comparison, report, run, expected, others, at_least=_RUNS_OF_FEW if few else 0)


def _enlarge(comparison: Comparison, chosen: InputShapes) -> dict[str, Sequence[int]]:
    """Return larger shapes than the chosen ones, for outputs of more elements; none if they would be too large."""
    declared = comparison.first.declared_shapes
    larger: dict[str, Sequence[int]] = {
        name: tuple(
            size if isinstance(dim, int) else size * _LARGER
            for dim, size in zip(declared.get(name) or (None,) * len(shape), shape, strict=True)
        )
        for name, shape in chosen.items()
    }
    return larger if sum(map(prod, larger.values())) <= _MAX_LARGER else {}


def _test_more(
    comparison: Comparison,
    report: DiffReport,
    run: Run,
    expected: list[Outputs],
    others: Iterable[Mapping[str, Array]],
    at_least: int,
) -> DiffReport:
    """Compare the outputs that show nothing on other inputs, too, until each shows something.

    Args:
        comparison: The models and engines.
        report: The report on the last of the runs so far, whose outputs are equal or close.
        run: The run of that report.
        expected: The expected outputs of all runs so far.
        others: Other inputs.
        at_least: The number of other inputs that both models run on in any case, if they can.
    """
    fixed = find_static_values(comparison.second)
    every = list(expected)  # also the expected outputs of inputs on which the second model did not run
    at_least += len(expected)
    for inputs in others:
        must_run = len(expected) < at_least
        pending = {each.name for each in report.outputs if each.status == "untested"}
        if len(every) > len(expected) and not find_untested(every, fixed) and not pending and not must_run:
            break
        result = comparison.run_first(inputs)
        if isinstance(result, Failure):
            continue
        every.append(result)
        told = find_untested(expected, fixed).keys() - find_untested([*expected, result], fixed).keys()
        if told or pending or must_run:
            other = replace(run, inputs=inputs, actual=comparison.run_second(inputs), expected=result)
            other_report = comparison.report(other, report.seed)
            if not other_report.is_equal:
                other_shapes = {name: inputs[name].shape for name in report.input_shapes}
                return explain(comparison, other, replace(other_report, input_shapes=other_shapes))
            expected.append(result)
            better = {each.name: each for each in other_report.outputs if each.name in pending | told}
            report = replace(report, outputs=tuple(better.get(each.name, each) for each in report.outputs))
    outputs = mark_untested(report.outputs, find_untested(every, fixed))
    return replace(report, outputs=outputs, runs=comparison.bad.budget.runs)


def _compare_recorded(comparison: Comparison, folder: FilePath) -> DiffReport:
    """Compare the outputs for each recorded data set in a folder until they differ, and search for the cause.

    An output is tested if it shows something in one of the data sets, or in all of them together.
    """
    first, second = comparison.first, comparison.second
    fixed = find_static_values(second)
    every: list[Outputs] = []
    tested: dict[str, OutputDiff] = {}
    for data_set in sorted(folder.glob("test_data_set_*")) or [folder]:  # a folder without data sets is one itself
        inputs, recorded = (
            {name: first.read_value(data_set / f"{kind}_{i}", name) for i, name in enumerate(names)}
            for kind, names in (("input", first.inputs), ("output", first.outputs))
        )
        every.append({name: recorded[comparison.names[name]] for name in second.outputs})
        run = Run(inputs, comparison.run_second(inputs), every[-1])
        report = replace(comparison.report(run), against=f"the recorded outputs in '{folder}'")
        marked = mark_untested(report.outputs, find_untested(every[-1:], fixed))
        if not report.is_equal:
            report = replace(report, outputs=marked)
            # A search takes the values within the model from `good`, so `good` must compute the recorded outputs.
            computed = comparison.run_first(inputs)
            if comparison.report(replace(run, actual=computed)).is_equal:
                return explain(comparison, replace(run, expected=computed), report)
            note = f"there is no search for a node, because {comparison.good} does not compute the recorded outputs"
            return replace(report, notes=(note,), runs=comparison.bad.budget.runs)
        tested |= {each.name: each for each in marked if each.status != "untested"}
    outputs = mark_untested(report.outputs, find_untested(every, fixed))
    return replace(report, outputs=tuple(tested.get(each.name, each) for each in outputs))


def _run_both(comparison: Comparison, shapes: InputShapes, seed: int) -> tuple[Run, FoundInputs]:
    """Run both engines on the caller's arrays, and on random arrays for the other inputs; see `find_inputs`.

    Return the runs, and the choice of their inputs.

    Raises:
        ModelError: Neither engine runs its model.
    """
    first, good, is_pair, arrays = comparison.first, comparison.good, comparison.is_pair, comparison.arrays
    progress.say(f"running the model on {good}")
    found = find_inputs(first, good, shapes, arrays, seed)
    seeds = range(seed + _SEED_STEP, seed + _MATCHING_RUNS * _SEED_STEP, _SEED_STEP) if is_pair else ()
    more = [first.make_inputs(arrays, found.sizes.shapes, each, found.attempt) for each in seeds]
    expected = comparison.rename_outputs(found.result)
    run = Run(found.arrays, comparison.run_second(found.arrays), expected, more)
    if isinstance(run.actual, Failure) and isinstance(run.expected, Failure):
        reason = describe_failed_search(good, found, arrays, "the first model" if is_pair else "the model")
        problem = "neither model runs: the second one" if is_pair else "neither engine runs the model:"
        raise ModelError(f"{problem} on {comparison.bad}, {run.actual.message}; {reason}")
    return run, found


def _try_other_sizes(
    comparison: Comparison, run: Run, chosen: InputShapes, shapes: InputShapes, seed: int
) -> tuple[Run, InputShapes, tuple[str, ...]]:
    """Try other sizes than the `chosen` ones of a run in which the engine under test fails, until both engines run.

    Return the run, its chosen sizes and a note on the failure. Return the given run and sizes if no others serve.
    """
    assert isinstance(run.actual, Failure)
    first = comparison.first
    choices = sizes_to_try(first.declared_shapes, shapes, first.size_factors)
    for sizes in sorted(choices, key=lambda each: sum(map(prod, each.shapes.values())))[:_MAX_CHOICES]:
        with suppress(ModelError, UsageError):
            other, _ = _run_both(comparison, sizes.shapes, seed)
            if not isinstance(other.actual, Failure) and not isinstance(other.expected, Failure):
                reason = f"{comparison.bad} does not run the model ({run.actual.message})"
                note = f"with {_join_shapes(chosen)}, {reason}; compared with {_join_shapes(sizes.chosen)}"
                return other, sizes.chosen, (note,)
    return run, chosen, ()


def _join_shapes(shapes: InputShapes) -> str:
    return "; ".join(f"{name} {list(shape)}" for name, shape in shapes.items())


def _refuse_reference(comparison: Comparison, failure: Failure) -> ModelError:
    """Return an error: the only model runs on the engine under test alone, so the model is not at fault."""
    first, good, bad = comparison.first, comparison.good, comparison.bad
    used = (good.engine.name, bad.engine.name)
    others = [name for name, each in model_engines().items() if first.format in each.model_formats and name not in used]
    choices = [each for each in (first.default_against, *others) if each and each not in (str(good), str(bad))]
    return ModelError(
        f"nothing can be compared, because {good.title}, which computes the expected outputs, does not run "
        f"the model: {failure.message}; choose another engine with {spell('against', '--against')}: "
        f"{', '.join(choices)}."
    )
