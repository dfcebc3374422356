"""Verification that a changed model computes the same outputs as the original model on several inputs.

Attributes called `before` are about the original model, and attributes called `after` about the changed model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sliceport.engines.engine import Array, Value
from sliceport.engines.inputs import FoundInputs, ModelToRun, find_inputs_that_run, run_whole_model
from sliceport.engines.side import RunFailed, Side
from sliceport.engines.sizes import InputShapes
from sliceport.errors import ModelError, SliceportError, UsageError
from sliceport.progress import say
from sliceport.verdict.difference import EXACT, Tolerance, compare_outputs
from sliceport.wording import list_names, phrase_for_shapes

Result = TypeVar("Result")
_SEEDS = 3
"""The number of seeds of random inputs at the first sizes of open axes."""


class NotVerified(SliceportError):
    """An error: the verification of a changed model came to no result."""


@dataclass(frozen=True)
class Difference:
    """An output that a changed model computes differently.

    Attributes:
        output: The name of the output; empty for a difference of the whole model.
        message: One sentence.
    """

    output: str
    message: str


@dataclass(frozen=True)
class InputRun:
    """A run of the original model on the engine that computes the expected outputs.

    Attributes:
        inputs: The arrays that the model ran on.
        outputs: The outputs that the reference computed.
        label: A description of the inputs, as the end of a sentence; empty for the first run.
        is_repeat: Whether the run repeats the first run with another seed or other sizes of open axes.
        has_other_sizes: Whether its sizes of open axes differ from those of the first run.
        chosen_shapes: The shapes that were chosen, because the caller gave none.
    """

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Value]
    label: str = ""
    is_repeat: bool = False
    has_other_sizes: bool = False
    chosen_shapes: InputShapes = field(default_factory=dict)


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        runs: The runs of the original model.
        differences: The outputs that the changed model computes differently.
        notes: Sentences about comparisons that were left out, or that accepted rounding.
        equality: The sentence about a verification without differences.
    """

    runs: tuple[InputRun, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    equality: str = "all outputs are bit-equal on onnxruntime's CPU provider"

    @property
    def is_equal(self) -> bool:
        """Whether the changed model ran, and no output differs by more than is accepted."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """Return the verification as JSON values."""
        return {
            "different_outputs": list(dict.fromkeys(each.output for each in self.differences if each.output)),
            "differences": [difference.message for difference in self.differences],
            "notes": list(self.notes),
            "input_shapes": {name: list(shape) for run in self.runs[:1] for name, shape in run.chosen_shapes.items()},
        }

    def __str__(self) -> str:
        results = [difference.message for difference in self.differences] or [self.equality]
        return "\n".join([*results, *self.notes])


@dataclass(frozen=True)
class Trial:
    """One comparison of the models on each run.

    Attributes:
        where: The engine as the end of a sentence, such as `on openvino-cpu`.
        after: The engine of the changed model.
        before: The engine of the original model; None for the reference, whose outputs each `InputRun` contains.
        tolerance_of: A function of an expected and an actual value that returns the accepted difference, for engines
            that round differently; None if all outputs must be equal bit for bit.
        exact: The outputs that must be equal bit for bit, although there is a tolerance.
    """

    where: str
    after: Side
    before: Side | None = None
    tolerance_of: Callable[[Value, Value], Tolerance] | None = None
    exact: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verifier:
    """A model before and after a change.

    Attributes:
        before: The original model.
        after: The changed model.
        reference: The engine that computes the expected outputs.
        names: For each input and output of the changed model that was renamed, its name in the original model.
        notes: Sentences about comparisons that were left out, or that accepted rounding.
    """

    before: ModelToRun
    after: ModelToRun
    reference: Side
    names: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def make_runs(
        self, shapes: InputShapes, arrays: Mapping[str, Array], seed: int, *, tries_empty: bool = False
    ) -> list[InputRun]:
        """Return runs of the original model with several seeds and sizes of open axes. Add a note for each failed run.

        Args:
            shapes: The shapes of `arrays`, and shapes for other inputs with open sizes. For inputs that have no shape
                here, sizes are chosen; see `sizes_to_try`.
            arrays: Arrays for inputs. All other inputs get random arrays.
            seed: The first seed.
            tries_empty: Whether the last run has the size 0 for all open axes. Engines often differ at this size.

        Raises:
            UsageError: An input does not fit, or the chosen sizes are too large.
            ModelError: The reference does not run the model on any inputs that were tried.
            MemoryError: The reference lacks memory.
            BudgetSpent, MissingExtra, ChildLost: See `Side.run`.
        """
        first = self._run_before(shapes, arrays, seed)
        sizes = first.sizes
        runs = [InputRun(first.arrays, first.outputs, chosen_shapes=sizes.chosen)]
        if set(self.before.inputs) <= arrays.keys():  # the caller gives all inputs, so that all runs would be the same
            return runs
        repeats = [(f" with seed {other}", sizes.shapes, other) for other in range(seed + 1, seed + _SEEDS)]
        other_shapes = [other.shapes for other in sizes.others(has_empty=tries_empty)]
        repeats += [(phrase_for_shapes(others), others, seed) for others in other_shapes]
        for label, run_shapes, run_seed in repeats:
            try:
                repeat = self._run_before(run_shapes, arrays, run_seed)
                has_other_sizes = run_shapes != sizes.shapes
                runs.append(InputRun(repeat.arrays, repeat.outputs, label, True, has_other_sizes, run_shapes))
            except (ModelError, UsageError):
                self.notes.append(f"not compared{label}: the original model does not run on these inputs")
        return runs

    def _run_before(self, shapes: InputShapes, arrays: Mapping[str, Array], seed: int) -> FoundInputs:
        """Return inputs that the original model runs on, and its outputs; see `find_inputs_that_run`."""
        say(f"running the original model on {self.reference}")
        return find_inputs_that_run(self.before, self.reference, shapes, arrays, seed, "the original model")

    def compare(self, runs: Sequence[InputRun], trials: Sequence[Trial]) -> Verification:
        """Compare the outputs of both models on the inputs of each run. Stop after the first run in which they differ.

        Raises:
            NotVerified: No trial compares the models. Or an output cannot be compared, or varies from run to run. In
                a run with `is_repeat`, such an output only adds a note.
            MemoryError: An engine lacks memory.
            BudgetSpent, MissingExtra, UsageError, ChildLost: See `Side.run`.
        """
        differences: list[Difference] = []
        skipped: set[str] = set()
        for run in runs:
            if differences:
                break
            for trial in trials:
                if trial.where in skipped:
                    continue
                try:
                    differences += self._compare(trial, run)
                except _NotComparedError as error:
                    self.notes.append(f"not compared {trial.where}{run.label}, {error}")
                    if run is runs[0]:  # the engine does not run the original model, so later runs would fail, too
                        skipped.add(trial.where)
                except NotVerified as error:
                    if not run.is_repeat:
                        raise
                    self.notes.append(str(error))  # the engine may read outside a tensor, so that its outputs vary
        notes = tuple(dict.fromkeys(self.notes))
        if len(skipped) == len(trials):
            raise NotVerified("; ".join(notes))
        return Verification(tuple(runs), tuple(differences), notes)

    def _compare(self, trial: Trial, run: InputRun) -> Iterator[Difference]:
        """Run the changed model on the inputs of a run, and yield the differences from the original model.

        The expected outputs are those of the engine `trial.before`, or `run.outputs` if it is None.

        Raises:
            _NotComparedError: An engine of the trial does not run the original model. Or the trial has `before`, the
                inputs have other sizes of open axes than in the first run, and the changed model fails with an error.
            NotVerified: An output cannot be compared, or the outputs of the original model vary from run to run.
            MemoryError, BudgetSpent, MissingExtra, UsageError, ChildLost: See `compare`.
        """
        where = f"{trial.where}{run.label}"
        expected = run.outputs
        if trial.before is not None:
            say(f"running the original model {where}")
            expected = self._try_before(trial.before, run)
        say(f"running the changed model {where}")
        names_after = {self.names.get(name, name): name for name in self.after.inputs}
        inputs = {names_after.get(name, name): array for name, array in run.inputs.items()}
        try:
            actual = run_whole_model(trial.after, self.after, inputs)
        except RunFailed as failed:
            if trial.before is None and trial.after != self.reference:
                # If the original model fails on this engine, too, the change is not at fault, and this line raises.
                self._try_before(trial.after, run)
            if trial.before is not None and run.has_other_sizes and failed.failure.kind == "error":
                # This need not be a fault: an optimizer may rely on sizes that the model is made for, although the
                # original model also runs at other sizes.
                raise _NotComparedError(f"because the changed model fails: {failed}") from None
            # The failure proves nothing if the original model does not compute the same outputs again.
            self._check_is_steady(trial, run, expected, where)
            yield Difference("", f"{where} the original model runs, and the changed model does not: {failed}.")
            return
        actual = {self.names.get(name, name): value for name, value in actual.items()}
        yield from self._list_differences(trial, run, expected, actual, where)

    def _list_differences(
        self, trial: Trial, run: InputRun, expected: Mapping[str, Value], actual: Mapping[str, Value], where: str
    ) -> list[Difference]:
        """Return the differences of outputs. In a trial on one engine, note each output that differs only by rounding.

        Raises:
            NotVerified: See `_compare`.
        """
        missing = [name for name in self.before.outputs if name not in expected or name not in actual]
        if missing:
            raise NotVerified(f"{where} an engine does not return values of the type of {list_names(missing)}.")
        tolerances = dict.fromkeys(expected, EXACT)
        if trial.tolerance_of is not None:
            inexact = expected.keys() - trial.exact
            tolerances |= {name: trial.tolerance_of(expected[name], actual[name]) for name in inexact}
        differences = []
        for output in compare_outputs(actual, expected, tolerances):
            if output.status == "different":
                differences.append(Difference(output.name, f"output {output.name!r} differs {where}: {output.detail}."))
            elif output.status == "close" and trial.after == (trial.before or self.reference):
                # On two engines, the other engine may cause the rounding instead of the change, so there is no note.
                rounding = f"by up to {output.absolute:.1g} ({output.relative:.1g} of its largest value), by rounding"
                self.notes.append(f"output {output.name!r} differs {where} {rounding}.")
        if differences:
            self._check_is_steady(trial, run, expected, where)
        return differences

    def _try_before(self, side: Side, run: InputRun) -> dict[str, Value]:
        """Return the outputs of the original model on an engine. Raise `_NotComparedError` if it fails."""
        try:
            return run_whole_model(side, self.before, run.inputs)
        except RunFailed as failed:
            raise _NotComparedError(f"because the original model fails: {failed}") from None

    def _check_is_steady(self, trial: Trial, run: InputRun, expected: Mapping[str, Value], where: str) -> None:
        """Run the original model again. Raise NotVerified if it fails, or if its outputs differ from `expected`."""
        say("running the original model once more")
        try:
            repeated = run_whole_model(trial.before or self.reference, self.before, run.inputs)
        except RunFailed as failed:
            raise NotVerified(f"{where} the original model ran once, but failed when repeated ({failed}).") from None
        outputs = compare_outputs(repeated, expected, dict.fromkeys(expected, EXACT))
        varying = [output.name for output in outputs if output.status == "different"]
        if varying:
            names = list_names(varying)
            raise NotVerified(f"{where} the original model computes different values in each run for {names}.")


class _NotComparedError(Exception):
    """An error: the models are not compared on an engine."""


def verify_or_refuse(verify: Callable[[], Result]) -> Result:
    """Return the result of `verify`, which verifies a changed model.

    Raises:
        NotVerified: `verify` raised a SliceportError, so the model must not be kept. Other errors pass through.
    """
    try:
        return verify()
    except SliceportError as error:
        raise NotVerified(f"the changed model could not be verified, so it is not kept: {error}") from error
