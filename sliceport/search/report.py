"""The result of `diff`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sliceport.defects.defect import Defect
from sliceport.engines.engine import Value
from sliceport.engines.failure import Failure
from sliceport.engines.side import Result, Side
from sliceport.engines.sizes import InputShapes
from sliceport.search.case import Case
from sliceport.verdict.difference import OutputDiff
from sliceport.wording.html_table import html_table

if TYPE_CHECKING:
    from sliceport.device import NodeRun

_MAX_LISTED = 20


@dataclass(frozen=True)
class Part:
    """The smallest part of a model that fails.

    Attributes:
        case: The part, with its inputs and its failure.
        bad: The engine at fault.
        good: The other engine.
        actual: The outputs of the engine at fault, or its failure.
        expected: The outputs of the other engine, or its failure.
        outputs: The comparison of each output; it may be empty if an engine did not run the part.
        cause: The component of the engine that is to blame, as a sentence without a full stop, or an empty string.
        defects: The known defects that explain the failure.
        explained: The outputs that differ because of this part; empty if only one output of the model differs.
    """

    case: Case
    bad: Side
    good: Side
    actual: Result
    expected: Result
    outputs: tuple[OutputDiff, ...] = ()
    cause: str = ""
    defects: tuple[Defect, ...] = ()
    explained: tuple[str, ...] = ()

    @property
    def counterpart(self) -> str:
        """The nodes of the first of two models that compute the same value; empty for one model."""
        counterpart = self.case.counterpart
        return "" if counterpart is None else ", ".join(map(str, counterpart.nodes)) or "an input or a constant"

    @property
    def fusion(self) -> str:
        """A sentence that blames a fusion; empty if no fusion is to blame."""
        reason = "if the values between these nodes are also outputs, the result is right"
        return f"a fusion is to blame: {reason}" if self.case.is_fusion else ""

    @property
    def sentences(self) -> list[str]:
        """The findings, one sentence each."""
        defects = [f"a known defect: {defect.id} ({defect.reason})" for defect in self.defects]
        return [*self.sentences_without_defects, *(defects or ["not a known defect"])]

    @property
    def sentences_without_defects(self) -> list[str]:
        """All findings apart from the known defects, one sentence each."""
        case = self.case
        count = len(case.nodes)
        listed = ", ".join(map(str, case.nodes[:_MAX_LISTED])) + ", ..." * (count > _MAX_LISTED)
        inside = f" in {'; '.join(case.scope)}" if case.scope else ""
        lines = [f"first node that {'fails' if case.failure.is_of_run else 'differs'}: {case.culprit_text}{inside}"]
        if count > 1:
            failure = "failure" if case.failure.is_of_run else "difference"
            # With suspects, it is not proved that the failure needs all of these nodes.
            needs = f"the smallest model with the {failure} has" if case.suspects else f"the {failure} needs"
            lines.append(f"{needs} {count} nodes{' together' * (not case.suspects)}: {listed}")
        lines.append(f"{case.failure.output or 'the run'}: {case.failure.message}")
        counterpart = f"its counterpart in the first model: {self.counterpart}" if self.counterpart else ""
        explained = f"causes the difference in: {', '.join(self.explained)}" if self.explained else ""
        return [*lines, *filter(None, (counterpart, self.fusion, self.cause, case.note, explained))]

    def to_json(self) -> dict[str, Any]:
        """Return the part as JSON values."""
        case = self.case
        return {
            "node": case.culprit.name,
            "op_type": case.culprit.op_type,
            "scope": list(case.scope),
            "nodes": [{"name": node.name, "op_type": node.op_type} for node in case.nodes],
            "suspects": [{"name": node.name, "op_type": node.op_type} for node in case.suspects],
            **asdict(case.failure),
            "is_fusion": case.is_fusion,
            "cause": self.cause,
            "counterpart": self.counterpart,
            "note": case.note,
            "defects": [defect.id for defect in self.defects],
            "explained": list(self.explained),
        }


@dataclass(frozen=True)
class DiffReport:
    """The result of a comparison.

    Attributes:
        on: The engine `on` of `diff`, with its options and version.
        against: The engine `against` of `diff`, likewise, or the source of recorded outputs.
        outputs: The comparison of each output; empty if an engine did not run the model.
        seed: The seed of the random inputs.
        failed: The engine that did not run its model, or an empty string.
        failed_model: The model that did not run: `model`, or of two models `first model` or `second model`.
        failures: The failure of the run, or of each output that differs.
        parts: For each failure, the smallest part that causes it. A part that causes several failures occurs once.
        notes: Sentences about the search, such as the reason why a failure has no part.
        places: The nodes of the tested model with the providers that ran them, if its engine tells.
        values: The outputs of the tested model by name; empty if it did not run.
        runs: The number of runs that engines made until the search ended. Reading a kept result does not count.
        input_shapes: The shapes of inputs that `diff` chose, because the caller gave none.
    """

    on: str
    against: str
    outputs: tuple[OutputDiff, ...]
    seed: int
    failed: str = ""
    failed_model: str = "model"
    failures: tuple[Failure, ...] = ()
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    runs: int = 0
    places: tuple[NodeRun, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict, repr=False, compare=False)
    input_shapes: InputShapes = field(default_factory=dict)

    @property
    def is_equal(self) -> bool:
        """Whether no output differs."""
        return not self.failures

    @property
    def is_untested(self) -> bool:
        """Whether no output shows anything, so that nothing was compared."""
        return bool(self.outputs) and all(output.status == "untested" for output in self.outputs)

    @property
    def failure(self) -> Failure | None:
        """The first failure; None if all outputs are equal or close."""
        return next(iter(self.failures), None)

    @property
    def part(self) -> Part | None:
        """The first part; None if the search found no part."""
        return next(iter(self.parts), None)

    @property
    def failure_sentence(self) -> str:
        """The sentence about the engine that did not run its model; empty if both engines ran."""
        return f"{self.failed} does not run the {self.failed_model}: {self.failures[0].message}" if self.failed else ""

    @property
    def placement(self) -> list[str]:
        """A line for each provider, with the operators that it ran."""
        lines = []
        for provider in sorted({node.provider for node in self.places}):
            operators = Counter(node.op_type for node in self.places if node.provider == provider)
            lines.append(f"{provider}: {', '.join(f'{count} {name}' for name, count in operators.most_common())}")
        return lines

    @property
    def sentences(self) -> list[str]:
        """The sentences about all parts, and the notes."""
        return [*(sentence for part in self.parts for sentence in part.sentences), *self.notes]

    def __repr__(self) -> str:
        result = "untested" if self.is_untested else "equal" if self.is_equal else "different"
        return f"<DiffReport: {self.on} against {self.against}: {result}>"

    def _repr_html_(self) -> str:
        rows = [(each.name, each.element, list(each.shape), each.status, each.detail) for each in self.outputs]
        outputs = html_table(repr(self)[1:-1], ("output", "elements", "shape", "result", "detail"), rows)
        findings = [[sentence] for sentence in self.sentences]
        return outputs + (html_table("", ("findings",), findings) if findings else "")

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "schema_version": 1,
            "on": self.on,
            "against": self.against,
            "equal": self.is_equal and not self.is_untested,
            "seed": self.seed,
            "outputs": [output.to_json() for output in self.outputs],
            "failed": self.failed,
            "failed_model": self.failed_model if self.failed else "",
            "failure": None if self.failure is None else self.failure.message,
            "part": None if self.part is None else self.part.to_json(),
            "parts": [part.to_json() for part in self.parts],
            "notes": list(self.notes),
            "nodes": [asdict(node) for node in self.places],
            "runs": self.runs,
            "input_shapes": {name: list(shape) for name, shape in self.input_shapes.items()},
        }
