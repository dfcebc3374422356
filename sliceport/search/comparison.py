"""The comparison of two models, or of one model on two engines, on given inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceport.engines.engine import Array
from sliceport.engines.failure import Failure
from sliceport.engines.side import Result, Side
from sliceport.sandbox import progress
from sliceport.search.case import Case
from sliceport.search.graph import Graph
from sliceport.search.report import DiffReport
from sliceport.verdict.difference import Tolerances
from sliceport.verdict.untested import excuse_nan

if TYPE_CHECKING:
    from sliceport.device import NodeRun


@dataclass(frozen=True)
class Run:
    """The runs of both engines on one set of inputs.

    Attributes:
        inputs: The inputs, by their names in the first model.
        actual: The outputs to test, by their names in the second model, or the failure of the run.
        expected: The expected outputs, by the same names, or the failure of the run.
        more_inputs: Inputs from other seeds, to match values of two models.
    """

    inputs: Mapping[str, Array]
    actual: Result
    expected: Result
    more_inputs: Sequence[Mapping[str, Array]] = ()


@dataclass(frozen=True)
class Comparison:
    """Two models, or one model, and the engines to compare them on.

    Attributes:
        first: The model that computes the expected outputs.
        second: The model to test; for one model, the same object as `first`.
        good: The engine that runs `first`.
        bad: The engine that runs `second`.
        names: For each input and output of the second model, its name in the first. Other values keep their names.
        tolerances: The accepted differences.
        arrays: The caller's arrays for inputs of the first model.
        models: Both models as the caller gave them.
        places: The nodes of the last run of `second` with their providers, if `bad` tells.
    """

    first: Graph
    second: Graph
    good: Side
    bad: Side
    names: Mapping[str, str]
    tolerances: Tolerances
    arrays: Mapping[str, Array]
    models: tuple[Any, Any] = (None, None)
    places: list[NodeRun] = field(default_factory=list)

    @property
    def is_pair(self) -> bool:
        """Whether there are two models."""
        return self.first is not self.second

    def name_in_first(self, name: str) -> str:
        """Return the name that a value of the second model should have in the first."""
        return self.names.get(name, name)

    def inputs_of_second(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return inputs of the first model by their names in the second."""
        return {name: inputs[self.names[name]] for name in self.second.inputs}

    def run_first(self, inputs: Mapping[str, Array]) -> Result:
        """Run the first model. Return its outputs by their names in the second model, or the failure of the run."""
        progress.say(f"running the model on {self.good}")
        return self.rename_outputs(self.good.try_run(self.first.whole(), inputs))

    def rename_outputs(self, outputs: Result) -> Result:
        """Return outputs of the first model by their names in the second model. Return a failure as it is."""
        if isinstance(outputs, Failure):
            return outputs
        # Engines leave out outputs of types that they cannot return.
        return {name: outputs[self.names[name]] for name in self.second.outputs if self.names[name] in outputs}

    def run_second(self, inputs: Mapping[str, Array]) -> Result:
        """Run the second model on inputs with names of the first. Return its outputs, or the failure of the run."""
        progress.say(f"running the model on {self.bad}")
        self.places.clear()
        return self.bad.try_run(self.second.whole(), self.inputs_of_second(inputs), self.places)

    def repeat(self, run: Run) -> Run:
        """Run both models again."""
        return replace(run, actual=self.run_second(run.inputs), expected=self.run_first(run.inputs))

    def report(self, run: Run, seed: int = 0) -> DiffReport:
        """Return a report on the outputs of a run. The report has no results of a search yet."""
        # `on` and `against` are the engines of the arguments of `diff`. With one model, `on` is the engine under test,
        # so it is `bad`. With two, `on` runs the first model, so it is `good`.
        on, against = (self.good, self.bad) if self.is_pair else (self.bad, self.good)
        report = DiffReport(on.title, against.title, (), seed, runs=self.bad.budget.runs)
        for side, result, ordinal in ((self.bad, run.actual, "second"), (self.good, run.expected, "first")):
            if isinstance(result, Failure):
                model = f"{ordinal} model" if self.is_pair else "model"
                return replace(report, failed=side.title, failed_model=model, failures=(result,))
        assert not isinstance(run.actual, Failure)
        assert not isinstance(run.expected, Failure)
        # `Case.compare` requires equal outputs if nodes only move elements, so the whole model is compared as a case.
        whole = Case(self.second, tuple(range(len(self.second.nodes))), (), {}, {})
        outputs = excuse_nan(whole.compare(run.actual, run.expected, self.tolerances.of_output), run.expected)
        failures = tuple(each.failure for each in outputs if each.failure is not None)
        return replace(report, outputs=outputs, failures=failures, values=run.actual, places=tuple(self.places))
