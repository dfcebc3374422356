"""Verification that a changed model computes the same outputs as the original model on several inputs.

Attributes called `before` are about the original model, and attributes called `after` about the changed model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sliceport.engines.engine import Array, Value
from sliceport.engines.failure import Failure
from sliceport.engines.inputs import FoundInputs, ModelToRun, find_inputs_that_run, more_inputs, try_whole_model
from sliceport.engines.side import Result, Side
from sliceport.engines.sizes import InputShapes
from sliceport.errors import ModelError, SliceportError, UsageError
from sliceport.sandbox.progress import say
from sliceport.verdict.difference import EXACT, OutputDiff, Tolerance, compare_outputs, compare_values
from sliceport.verdict.untested import find_untested
from sliceport.wording import list_names, phrase_for_shapes

_MAX_ROUNDING = 0.3
"""The largest difference, as a fraction of the largest expected magnitude, that the original model may excuse."""
_SEEDS = 3
"""The number of seeds of random inputs at the first sizes of open axes."""


class NotVerified(SliceportError):
    """An error: the verification of a changed model came to no result."""


@dataclass(frozen=True)
class InputRun:
    """A run of the original model on the engine that computes the expected outputs.

    Attributes:
        inputs: The arrays that the model ran on.
        outputs: The outputs that the reference computed.
        label: A description of the inputs, as the end of a sentence; empty for the first run.
        is_repeat: Whether the run repeats the first run with another seed or other sizes of open axes.
        chosen_shapes: The shapes that were chosen, because the caller gave none.
    """

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Value]
    label: str = ""
    is_repeat: bool = False
    chosen_shapes: InputShapes = field(default_factory=dict)


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        runs: The runs of the original model.
        differences: The outputs that the changed model computes differently, or its failures to run. Each message is
            one sentence.
        notes: Sentences about comparisons that were left out, that accepted rounding, or that show nothing.
        equality: The sentence about a verification without differences.
        untested: The outputs whose values show nothing in any run, each with the reason.
        failed_on: The engine and the run in which the first difference was found; None without a difference.
        is_excused: Whether an output differs, but not by more than before the change; a note says by how much.
    """

    runs: tuple[InputRun, ...]
    differences: tuple[Failure, ...]
    notes: tuple[str, ...] = ()
    equality: str = "all outputs are bit-equal"
    untested: Mapping[str, str] = field(default_factory=dict)
    failed_on: tuple[Side, InputRun] | None = None
    is_excused: bool = False

    @property
    def is_equal(self) -> bool:
        """Whether the changed model ran, and no output differs by more than is accepted."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """Return the verification as JSON values."""
        return {
            "different_outputs": list(dict.fromkeys(each.output for each in self.differences if each.output)),
            "differences": [difference.message for difference in self.differences],
            "untested": dict(self.untested),
            "notes": list(self.notes),
            "input_shapes": {name: list(shape) for run in self.runs[:1] for name, shape in run.chosen_shapes.items()},
        }

    @property
    def summary(self) -> str:
        """The first difference, or the sentence about a verification without differences."""
        if self.differences:
            return self.differences[0].message
        if self.runs and {name for run in self.runs for name in run.outputs} <= self.untested.keys():
            return "no output was verified, because none shows anything"
        return "no output differs by more than before the change" if self.is_excused else self.equality

    def __str__(self) -> str:
        differences = [difference.message for difference in self.differences[1:]]
        untested = [f"output {name!r} is untested, because {reason}" for name, reason in self.untested.items()]
        return "\n".join([self.summary, *differences, *untested, *self.notes])


NOTHING_CHANGED = Verification((), (), equality="nothing to change, and nothing to compare")


@dataclass(frozen=True)
class Trial:
    """One comparison of both models on one engine, in each run.

    Attributes:
        where: The engine as the end of a sentence, such as `on` and its name.
        side: The engine.
        tolerance_of: A function of an expected and an actual value that returns the accepted difference, for engines
            that round differently; None if all outputs must be equal bit for bit.
        exact: The outputs that must be equal bit for bit, although there is a tolerance.
        is_target: Whether the model was changed for this engine. Then a note says what the original model does there.
        is_slow: Whether only the first run, and the run with other defaults, take part.
        is_plain: Whether the engine computes node by node like the reference, so that a change moves no rounding.
    """

    where: str
    side: Side
    tolerance_of: Callable[[Value, Value], Tolerance] | None = None
    exact: frozenset[str] = frozenset()
    is_target: bool = False
    is_slow: bool = False
    is_plain: bool = False

    def tolerance_for(self, name: str, expected: Value, actual: Value) -> Tolerance:
        """Return the accepted difference of an output."""
        return EXACT if self.tolerance_of is None or name in self.exact else self.tolerance_of(expected, actual)


@dataclass(frozen=True)
class Verifier:
    """A model before and after a change.

    Attributes:
        before: The original model.
        after: The changed model.
        reference: The engine that computes the expected outputs.
        names: For each input and output of the changed model that was renamed, its name in the original model.
        notes: Sentences about comparisons that were left out, or that accepted rounding.
        noted: The engines and outputs that have a note on rounding, each with whether the output differs, although not
            by more than before the change.
        vague: For each output whose tolerance would also accept wrong values, the reason.
        told: The outputs that some comparison has shown to be right.
        fixed: See `find_untested`.
    """

    before: ModelToRun
    after: ModelToRun
    reference: Side
    names: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    noted: dict[tuple[str, str], bool] = field(default_factory=dict)
    vague: dict[str, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    fixed: Collection[str] = ()

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
                runs.append(InputRun(repeat.arrays, repeat.outputs, label, True, run_shapes))
            except (ModelError, UsageError):
                self.notes.append(f"not compared{label}: the original model does not run on these inputs")
        for inputs in more_inputs(self.before, sizes.shapes, arrays, seed, first.attempt):
            outputs = [run.outputs for run in runs]
            untested = find_untested(outputs, self.fixed)
            if not untested:
                break
            result = try_whole_model(self.reference, self.before, inputs)
            if isinstance(result, Failure):
                continue
            if untested.keys() - find_untested([*outputs, result], self.fixed).keys():
                runs.append(InputRun(inputs, result, " with inputs of another kind", is_repeat=True))
        return runs

    def _run_before(self, shapes: InputShapes, arrays: Mapping[str, Array], seed: int) -> FoundInputs:
        """Return inputs that the original model runs on, and its outputs; see `find_inputs_that_run`."""
        say(f"running the original model on {self.reference}")
        return find_inputs_that_run(self.before, self.reference, shapes, arrays, seed, "the original model")

    def compare(self, runs: Sequence[InputRun], trials: Sequence[Trial]) -> Verification:
        """Compare the outputs of both models on the inputs of each run. Stop after the first run in which they differ.

        An output counts as different only if the original model does not compute it as wrongly on the same engine.

        Args:
            runs: The runs of the original model.
            trials: The engines to compare on.

        Raises:
            NotVerified: No trial compares the models. Or an output cannot be compared, or varies from run to run. In
                a run with `is_repeat`, such an output only adds a note.
            MemoryError: An engine lacks memory.
            BudgetSpent, MissingExtra, UsageError, ChildLost: See `Side.run`.
        """
        differences: list[Failure] = []
        failed_on: tuple[Side, InputRun] | None = None
        skipped: set[str] = set()
        for run in runs:
            if differences:
                break
            for trial in trials:
                if trial.where in skipped or (trial.is_slow and run.is_repeat):
                    continue
                try:
                    new = self._compare(trial, run)
                    failed_on = failed_on or ((trial.side, run) if new else None)
                    differences += new
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
        vague = {name: reason for name, reason in self.vague.items() if name not in self.told}
        untested = {} if differences else vague | find_untested([run.outputs for run in runs], self.fixed)
        is_excused = any(self.noted.values())
        return Verification(
            tuple(runs), tuple(differences), notes, untested=untested, failed_on=failed_on, is_excused=is_excused
        )

    def _compare(self, trial: Trial, run: InputRun) -> list[Failure]:
        """Run the changed model on the inputs of a run, and return the differences from the reference.

        Raises:
            _NotComparedError: The engine does not run the original model either, or its adapter lacks the changed one.
            NotVerified: An output cannot be compared, or the outputs of the original model vary from run to run.
            MemoryError, BudgetSpent, MissingExtra, UsageError, ChildLost: See `compare`.
        """
        where = f"{trial.where}{run.label}"
        say(f"running the changed model {where}")
        names_after = {self.names.get(name, name): name for name in self.after.inputs}
        inputs = {names_after.get(name, name): array for name, array in run.inputs.items()}
        result = try_whole_model(trial.side, self.after, inputs)
        if isinstance(result, Failure):
            if result.kind == "adapter":
                raise _NotComparedError(f"because the adapter does not run the changed model ({result.message})")
            before = run.outputs if trial.side == self.reference else self._try_before(trial, run)
            if isinstance(before, Failure):
                raise _NotComparedError(f"because neither model runs: {result.message}")
            self._check_is_steady(run, where)
            message = f"{where} the original model runs, and the changed model does not: {result.message}."
            return [Failure(result.kind, "", message)]
        actual = {self.names.get(name, name): value for name, value in result.items()}
        missing = [name for name in self.before.outputs if name not in run.outputs or name not in actual]
        if missing:
            raise NotVerified(f"{where} an engine does not return values of the type of {list_names(missing)}.")
        outputs = compare_outputs(actual, run.outputs, trial.tolerance_for)
        wrong = [output for output in outputs if output.kind]
        self.vague.update({output.name: output.detail for output in outputs if output.status == "untested"})
        nothing = find_untested([run.outputs], self.fixed)
        self.told.update(
            each.name for each in outputs if each.status in ("equal", "close") and each.name not in nothing
        )
        if trial.side != self.reference and (wrong or (trial.is_target and not run.is_repeat)):
            wrong = self._excuse_wrong(trial, run, actual, wrong)
        elif trial.side == self.reference:  # on two engines, the other engine may round, so there is no note
            for output in outputs:
                if output.status == "close":
                    measures = f"by up to {output.absolute:.1g} ({output.relative:.1g} of its largest value)"
                    text = f"output {output.name!r} differs {where} {measures}, by rounding."
                    self._note(trial, output, text, is_excused=False)
        if wrong:
            self._check_is_steady(run, where)
        return [
            Failure(each.kind or "values", each.name, f"output {each.name!r} differs {where}: {each.detail}.")
            for each in wrong
        ]

    def _excuse_wrong(
        self, trial: Trial, run: InputRun, actual: Mapping[str, Value], wrong: Sequence[OutputDiff]
    ) -> list[OutputDiff]:
        """Return the `wrong` outputs of the changed model that the original model does not compute as wrongly.

        Add a note for each other one and, if the engine is the target, a note on the original model.
        """
        where = f"{trial.where}{run.label}"
        before = self._try_before(trial, run)
        if isinstance(before, Failure):
            self.notes.append(f"{where} the original model does not run: {before.message}")
            return list(wrong)
        # An engine may return outputs of types that the reference lacks, or lack some of its outputs.
        expected = {name: value for name, value in run.outputs.items() if name in before}
        before = {name: before[name] for name in expected}
        originals = {each.name: each for each in compare_outputs(before, expected, trial.tolerance_for)}
        guilty = []
        for output in wrong:
            name, original = output.name, originals.get(output.name)
            if original is None or not original.kind:
                guilty.append(output)
                continue
            tolerance = trial.tolerance_for(name, before[name], actual[name])
            is_same = not compare_values(name, actual[name], before[name], tolerance).kind
            # The change may move rounding to other elements. A wrong selection is far more than rounding.
            is_as_bad = original.kind == output.kind and output.relative <= min(2 * original.relative, _MAX_ROUNDING)
            if is_same or (is_as_bad and output.relative > 0 and not trial.is_plain):
                text = f"output {name!r} differs {where} as it did before the change: {output.detail}"
                self._note(trial, output, text, is_excused=True)
            else:
                guilty.append(output)
        if trial.is_target and not guilty and not run.is_repeat:
            wrong_names = {each.name for each in wrong}
            mended = [each for name, each in originals.items() if each.kind and name not in wrong_names]
            for each in mended:
                self.notes.append(f"output {each.name!r} differs {where} before the change only: {each.detail}")
            if not mended and not wrong:
                self.notes.append(f"{where} the original model is right on these inputs, too: no defect showed")
        return guilty

    def _note(self, trial: Trial, output: OutputDiff, text: str, *, is_excused: bool) -> None:
        """Add a note on an output, but only the first one on an engine."""
        if (trial.where, output.name) not in self.noted:
            self.noted[trial.where, output.name] = is_excused
            self.notes.append(text)

    def _try_before(self, trial: Trial, run: InputRun) -> Result:
        """Run the original model on the engine of a trial."""
        say(f"running the original model {trial.where}{run.label}")
        return try_whole_model(trial.side, self.before, run.inputs)

    def _check_is_steady(self, run: InputRun, where: str) -> None:
        """Run the original model again. Raise NotVerified if it fails, or if its outputs differ from those before."""
        say("running the original model once more")
        repeated = try_whole_model(self.reference, self.before, run.inputs)
        if isinstance(repeated, Failure):
            problem = f"ran once, but failed when repeated ({repeated.message})"
            raise NotVerified(f"{where} the original model {problem}.")
        outputs = compare_outputs(repeated, run.outputs, lambda *_: EXACT)
        varying = [output.name for output in outputs if output.status == "different"]
        if varying:
            names = list_names(varying)
            raise NotVerified(f"{where} the original model computes different values in each run for {names}.")


class _NotComparedError(Exception):
    """An error: the models are not compared on an engine."""


def write_verified(
    write: Callable[[Callable[..., bool]], None], verify: Callable[..., Verification] | None, *, is_changed: bool
) -> Verification | None:
    """Write a model, keep it only if it passes a verification, and return the verification.

    Args:
        write: A function that writes the model, calls the function that it gets with what it wrote, and keeps the model
            if that function returns True.
        verify: A function that verifies what `write` wrote; None to verify nothing.
        is_changed: Whether the model was changed at all. If not, there is nothing to verify.

    Raises:
        NotVerified: `verify` raised a SliceportError, so the model is not kept. Other errors pass through.
    """
    verification = None if verify is None else NOTHING_CHANGED

    def accept(*written: Any) -> bool:
        nonlocal verification
        if verify is None or not is_changed:
            return True
        try:
            verification = verify(*written)
        except SliceportError as error:
            raise NotVerified(f"the changed model could not be verified, so it is not kept: {error}") from error
        return verification.is_equal

    write(accept)
    return verification
