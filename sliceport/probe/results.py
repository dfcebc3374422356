"""The results of a probe: the node at fault, or the range that is still open."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from sliceport.arguments import read_inputs
from sliceport.defects.engines import PLACES
from sliceport.engines.engine import Array
from sliceport.engines.failure import Failure, Kind
from sliceport.engines.inputs import ATTEMPTS
from sliceport.engines.kept_runs import digest_run
from sliceport.engines.side import Side, read_side
from sliceport.errors import UsageError
from sliceport.probe.folder import Round, list_aliases
from sliceport.probe.rounds import WAYS, Cut, NodePath, State, refuse_damage
from sliceport.search.case import Case, compute_all
from sliceport.search.graph import find_boundary, only_moves
from sliceport.search.report import DiffReport, Part
from sliceport.search.setup import open_graph, read_tolerances
from sliceport.verdict.difference import EXACT, OutputDiff, Tolerance, Tolerances
from sliceport.wording import count_of, shorten

_SPECIAL: Mapping[float, Kind] = {1e308: "nan", 1e307: "infinity"}
"""The numbers that programs on a device write for differences that are not finite, because JSON lacks such numbers."""
_Outcome = tuple[OutputDiff, ...] | Failure
"""The comparison of the outputs of a cut, or the failure of its run."""
_Verdicts = Mapping[Cut, Failure | None]
"""The cuts that fail like the whole model, each with its failure, and the cuts that are right, with None."""


class Reading(NamedTuple):
    """The report on the results of a probe, and the next round.

    Once the search is over, the next round is None. Only then does the report name a part.
    """

    report: DiffReport
    next_round: Round | None


def read_results(
    model: Any,
    file: str | os.PathLike[str],
    *,
    inputs: Mapping[str, Array] | None = None,
    tolerance: Tolerance | Mapping[str, Tolerance] | None = None,
) -> Reading:
    """Read the results of a probe.

    Args:
        model: The model that the probe was written for.
        file: The results.
        inputs: The arrays that the caller of `probe` gave for inputs.
        tolerance: See `diff`; `ulps` cannot be used, because a probe does not measure ulps.

    Raises:
        UsageError: The file is damaged or incomplete, or belongs to another model, other inputs or another version of
            sliceport; or an option does not fit.
        ModelError: The model cannot be read.
        MissingExtra, ChildLost: See `Side.run`.
    """
    name = os.fspath(file)
    data = _load(name)
    state = State.from_json(data["state"])
    graph = open_graph(model)
    if digest_run("model", graph.whole(), {}) != state.model:
        raise UsageError(f"the results in '{name}' are of another model.")
    if state.anonymise:
        with refuse_damage("their state"):
            state = state.renamed(*({alias: name for name, alias in names.items()} for names in list_aliases(graph)))
    arrays = read_inputs(inputs)
    for attempt in range(ATTEMPTS):  # the reference may have run only in a later attempt; see `find_inputs_that_run`
        values = graph.make_inputs(arrays, state.shapes, state.seed, attempt)
        if digest_run("inputs", graph.whole(), values) == state.inputs:
            break
    else:
        raise UsageError("the results are of other inputs; give the arrays that the probe was written with.")
    if not data["cuts"].keys() <= state.cuts.keys():
        raise UsageError(f"'{name}' mixes the results of two probes; run probe.py again.")
    tolerances = read_tolerances(graph, tolerance)
    if any(each is not None and each.ulps for each in tolerances.values()):
        raise UsageError("a probe does not measure ulp; give a tolerance with abs or rel.")
    path = NodePath(graph)
    with refuse_damage("the description of the device"):
        runtime, version, place, platform = (data["device"][key] for key in ("runtime", "version", "place", "platform"))
    if not 0 <= state.low < state.high <= len(path.numbers):
        raise UsageError("the results are damaged: they do not fit the model.")
    good = read_side(state.reference, graph.format, "the reference of the results")
    # Reports need no more of the engine than its name and version.
    device: Any = SimpleNamespace(name=f"{runtime} {place}", version=lambda: f"{version} on {platform}")
    bad = Side(device, {})
    return _Results(Round(graph, good, values, state), path, bad, data["cuts"], tolerances).read()


def _load(name: str) -> dict[str, Any]:
    """Return the content of a file of results, or raise a UsageError."""
    try:
        with open(name, encoding="utf-8") as opened:
            data = json.load(opened)
    except OSError as error:
        raise UsageError(f"'{name}' cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        raise UsageError(f"'{name}' is not complete JSON; run probe.py again.") from None
    keys = {"state", "device", "cuts"}
    if not isinstance(data, dict) or not keys <= data.keys() or not isinstance(data["cuts"], dict):
        raise UsageError(f"'{name}' does not hold the results of a probe.")
    return data


@dataclass(frozen=True)
class _Results:
    """The results of a round.

    Attributes:
        round: The round.
        path: The path of the model.
        bad: The device.
        data: The results of the cuts by name, without cuts that did not run.
        tolerances: See `diff`.
    """

    round: Round
    path: NodePath
    bad: Side
    data: Mapping[str, Any]
    tolerances: Tolerances

    @cached_property
    def outcomes(self) -> dict[Cut, _Outcome]:
        """For each cut that ran, the comparison of its outputs or the failure of its run."""
        return {cut: self._compare(name, cut) for name, cut in self.round.state.cuts.items() if name in self.data}

    @property
    def missing_count(self) -> int:
        """The number of cuts that did not run."""
        return len(self.round.state.cuts) - len(self.outcomes)

    def read(self) -> Reading:
        """Return the report, and the next round unless the search is over.

        Raises:
            UsageError: The result of the whole model is missing, or the results are damaged.
        """
        state = self.round.state
        report = DiffReport(self.bad.title, self.round.good.title, (), state.seed)
        if state.failure is None:  # these are the first results
            outcome = next((outcome for cut, outcome in self.outcomes.items() if cut.is_whole(state)), None)
            if outcome is None:
                lack = f"{self.missing_count} of {count_of(len(state.cuts), 'model')} have no result"
                raise UsageError(f"the result of the whole model is missing ({lack}); run probe.py again.")
            if isinstance(outcome, Failure):
                report = replace(report, failed=self.bad.title)
            else:
                report = replace(report, outputs=outcome)
            state = replace(state, failure=_failure_of(outcome))
        failure = state.failure
        if failure is None:
            return Reading(report, None)
        report = replace(report, failures=(failure,))
        failures = {cut: _failure_of(outcome) for cut, outcome in self.outcomes.items()}
        failing = {cut: each for cut, each in failures.items() if each is not None and each.is_like(failure)}
        # A cut is right if it does not fail. If the whole model does not run, a cut that runs is right with any values.
        right = [cut for cut, each in failures.items() if each is None or (failure.is_of_run and not each.is_of_run)]
        # Cuts that fail in another way have no verdict.
        verdicts: _Verdicts = {**dict.fromkeys(right), **failing}
        judge = self._judge_last_round if state.is_last else self._judge_round
        return judge(report, state, verdicts)

    def _judge_round(self, report: DiffReport, state: State, verdicts: _Verdicts) -> Reading:
        """Report the node at fault if it fails alone. Otherwise plan the next round, or end without a node."""
        failing = [cut for cut, each in verdicts.items() if each is not None]
        sizes = [cut.size for cut in failing if cut.kind == "prefix"]
        high = min(sizes, default=state.high)
        right = [cut.size for cut, each in verdicts.items() if each is None and cut.kind == "prefix"]
        # A right prefix that is longer than a failing one does not narrow the range.
        low = max([state.low, *(size for size in right if size < high)])
        if not sizes and self.missing_count and state.high not in right:  # a cut that did not run may be one that fails
            # If the failure needs nodes before the front, prefixes that begin there are right and prove nothing.
            return self._plan_next_round(report, state if state.front else replace(state, low=low))
        if not sizes and state.front:  # the failure needs nodes before the front, so the next round includes them
            return self._plan_next_round(report, replace(state, front=0))
        if not sizes:
            return self._build_reading(report, "no part of the model that was cut out fails like the whole")
        last_node = [self.path.numbers[high - 1]]
        alone = next((cut for cut in failing if self.path.nodes_of(cut) == last_node), None)
        if low == high - 1 and alone is not None:
            return self._report_part(report, alone, verdicts)
        # Plan the last round if one node remains, or if a complete round has not narrowed the range.
        if low == high - 1 or ((low, high) == (state.low, state.high) and not self.missing_count):
            return self._plan_next_round(report, replace(state, low=low, high=high, is_last=True))
        # A prefix begins at the front, which is before the range by as many nodes as the range has, but at least
        # `WAYS`, because the failure may need these nodes. If a round after the first began at front 0, the front stays
        # 0, as it may have been moved back (see above).
        may_move_front = state.round == 1 or state.front > 0
        front = max(0, low - max(high - low, WAYS)) if may_move_front else 0
        return self._plan_next_round(report, replace(state, low=low, high=high, front=front))

    def _judge_last_round(self, report: DiffReport, state: State, verdicts: _Verdicts) -> Reading:
        """Report the first cut that fails. If no cut fails, repeat the round if some cuts did not run."""
        # A `spread` has the same nodes as the previous cut, and only shows whether a fusion is to blame.
        part = next((cut for cut in state.cuts.values() if verdicts.get(cut) and cut.kind != "spread"), None)
        if part is not None:
            return self._report_part(report, part, verdicts)
        if self.missing_count:
            return self._plan_next_round(report, state)
        note = f"no part that ends with {self._describe_node(state.high)} fails like the whole"
        return self._build_reading(report, note)

    def _plan_next_round(self, report: DiffReport, state: State) -> Reading:
        """Return a report on the nodes that may still be at fault, and the next round."""
        count, last = state.high - state.low, self._describe_node(state.high)
        text = (
            f"the first node that differs is one of {count}: {self._describe_node(state.low + 1)} to {last}"
            if count > 1
            else f"first node that differs: {last}, together with nodes before it"
        )
        # A round in which all models run divides the range by `WAYS`. The limit is generous: it counts a round for each
        # halving. The 2 stands for a round that moves the front back to 0, and for the last round.
        most_rounds = (len(self.path.numbers) - 1).bit_length() + 2
        round_text = f"these are the results of round {state.round} of at most {most_rounds}, if all models run"
        reading = self._build_reading(report, text, round_text)
        next_state = replace(state, round=state.round + 1, cuts={})
        return reading._replace(next_round=replace(self.round, state=next_state))

    def _build_reading(self, report: DiffReport, *notes: str) -> Reading:
        """Return the report with these notes, and a note on cuts that did not run. The next round is None."""
        if self.missing_count:
            notes = (*notes, f"{count_of(self.missing_count, 'model')} of this probe did not run")
        return Reading(replace(report, notes=notes), None)

    def _report_part(self, report: DiffReport, cut: Cut, verdicts: _Verdicts) -> Reading:
        """Return the final report, with the nodes of a cut as the part at fault."""
        graph, good, failure = self.path.graph, self.round.good, verdicts[cut]
        assert failure is not None
        values = dict(compute_all(graph, good, self.round.inputs, find_boundary(graph, self.path.nodes_of(cut))))
        case = self.path.case_of(cut, values)
        if case is None:  # `good` failed to compute a value that the cut reads
            return self._build_reading(report, f"first node that differs: {self._describe_node(cut.size)}")
        # The device cannot fuse the nodes of a `spread` cut. If such a cut is right, a fusion of its nodes is to blame.
        right_spreads = {(each.depth, each.size) for each in verdicts if each.kind == "spread" and not verdicts[each]}
        is_fusion = cut.kind == "around" and (cut.depth, cut.size) in right_spreads
        case = replace(case, failure=failure, is_fusion=is_fusion, note=self._find_caveat(case))
        expected = case.run(good)
        # The name of the engine ends in the name of its provider or device.
        engine = PLACES.get(self.bad.engine.name.rpartition(" ")[2], "")
        shapes = {name: self.round.inputs[name].shape for name in graph.inputs}
        defects = tuple(graph.find_defects(case.nodes, shapes, engine))
        outcome = self.outcomes[cut]
        compared = () if isinstance(outcome, Failure) else outcome
        part = Part(case, self.bad, good, failure, expected, compared, defects=defects)
        return self._build_reading(replace(report, parts=(part,)))

    def _find_caveat(self, case: Case) -> str:
        """Return the reason why the part at fault may be smaller than a case, or an empty string."""
        # The round that finds a part also runs its last node alone, unless a probe cannot hold values of this node.
        if not any(self.path.nodes_of(cut) == list(case.numbers[-1:]) for cut in self.round.state.cuts.values()):
            return f"a probe cannot hold values that {case.culprit} reads or writes, so it did not run alone"
        if next(case.graph.bodies(case.numbers[-1], case.values, self.round.good.run), None) is not None:
            return f"a probe does not enter bodies: any node in a body of {case.culprit} may be the one at fault"
        return ""

    def _describe_node(self, size: int) -> str:
        """Return, as text, the last of the first `size` nodes of the path."""
        return str(self.path.graph.nodes[self.path.numbers[size - 1]])

    def _compare(self, name: str, cut: Cut) -> _Outcome:
        """Return the comparison of the outputs of a cut, or the failure of its run."""
        result = self.data[name]
        with refuse_damage(f"the result of {name}"):
            if "kind" in result:
                return Failure(result["kind"], "", shorten(result["detail"]))  # no output: the whole run failed
            pairs = zip((self.path.values[i] for i in cut.outputs), result["outputs"], strict=True)
            return tuple(_compare_measures(out, each, self._tolerance_for(cut, out, each)) for out, each in pairs)

    def _tolerance_for(self, cut: Cut, output: str, measures: Mapping[str, Any]) -> Tolerance:
        """Return the accepted difference of an output of a cut."""
        value = np.empty(0, measures.get("element", "float32"))  # only the type matters; `measures` may lack it
        choose = self.tolerances.of_output if cut.is_whole(self.round.state) else self.tolerances.of_inner
        # Moving elements does not round them.
        return EXACT if only_moves(self.path.graph, self.path.nodes_of(cut), output) else choose(output, value)


def _failure_of(outcome: _Outcome) -> Failure | None:
    """Return the failure of a run, or the failure of the first output that differs; None if all are right."""
    if isinstance(outcome, Failure):
        return outcome
    return next((output.failure for output in outcome if output.failure is not None), None)


def _compare_measures(name: str, measures: Mapping[str, Any], tolerance: Tolerance) -> OutputDiff:
    """Build the comparison of an output from the result of `measure` on the device. `tolerance.ulps` is not used."""
    if "kind" in measures:
        return OutputDiff(name, status="different", kind=measures["kind"], detail=measures["detail"])
    about: dict[str, Any] = {"element": measures["element"], "shape": tuple(measures["shape"]), "tolerance": tolerance}
    if not measures["unequal"]:
        return OutputDiff(name, **about)
    error, largest = float(measures["absolute"]), float(measures["largest"])
    special = _SPECIAL.get(error)
    if special is None:
        about |= {"absolute": error, "relative": error / (largest or 1.0)}
        if tolerance != EXACT and error <= max(tolerance.absolute, tolerance.relative * largest):
            return OutputDiff(name, status="close", **about)
    got, expected = (str(np.frombuffer(bytes(measures[key]), about["element"])[0]) for key in ("got", "expected"))
    sample = (str([int(i) for i in np.unravel_index(measures["at"], about["shape"])]), got, expected)
    counts = f"{measures['unequal']} of {prod(about['shape'])} elements are not equal"
    detail = f"at index {sample[0]}, computed {sample[1]}, expected {sample[2]} ({counts})"
    # EXACT values are only moved, and compared by their bits, so a NaN is nothing special.
    kind = "values" if special is None or tolerance == EXACT else special
    return OutputDiff(name, status="different", kind=kind, detail=detail, samples=(sample,), **about)
