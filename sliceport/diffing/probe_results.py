"""The results of a probe: the node at fault, or the range that is still open."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sliceport.arguments import read_inputs
from sliceport.diffing.case import compute_all
from sliceport.diffing.difference import (
    EXACT,
    Failure,
    Kind,
    OutputDiff,
    Tolerance,
    narrow_tolerance_of,
    tolerance_of,
)
from sliceport.diffing.graph import Graph, find_boundary, only_moves
from sliceport.diffing.probe import WAYS, Cut, Path, State, digest, digest_inputs
from sliceport.diffing.probe_folder import Probe, write_round
from sliceport.diffing.report import DiffReport, Part
from sliceport.diffing.setup import open_graph
from sliceport.diffing.side import Side, read_side
from sliceport.errors import UsageError
from sliceport.wording import count_of, shorten

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_ENGINES = {
    "CPUExecutionProvider": "onnxruntime-cpu",
    "DmlExecutionProvider": "onnxruntime-dml",
    "CPU": "openvino-cpu",
}
"""The names that the table of defects has for places of runs; others have no entries."""


@dataclass(frozen=True)
class _Device:
    """The engine of a run elsewhere, as reports name it."""

    name: str
    runtime: str
    description: str = "a run elsewhere"
    model_formats: tuple[str, ...] = ()

    def version(self) -> str:
        return self.runtime

    @property
    def options(self) -> Mapping[str, str]:
        return {}

    def run_model(self, *_: Any) -> Any:
        raise UsageError(f"{self.name} is not on this machine.")


@dataclass(frozen=True)
class Reading:
    """The findings in the results of a probe.

    Attributes:
        report: The findings; without a part while the search goes on.
        next_state: The state of the next round; None if the search is over.
        graph: The model.
        good: The side that computes the expected values.
        inputs: The inputs of the model.
    """

    report: DiffReport
    next_state: State | None
    graph: Graph
    good: Side
    inputs: Mapping[str, Array]

    def write_next(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> Probe:
        """Write the next probe; see `write_round`."""
        assert self.next_state is not None
        return write_round(self.graph, self.good, self.inputs, self.next_state, directory, overwrite=overwrite)


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
        inputs: The arrays for inputs that the probe was written with.
        tolerance: See `diff`; the number of floats between elements is not measured.

    Raises:
        UsageError: The file is damaged, or belongs to another model, other inputs or another version.
        ModelError: The model cannot be read.
    """
    data = _load(file)
    state = State.from_json(data["state"])
    graph = open_graph(model)
    whole = graph.whole()
    if digest(whole.data, whole.weights) != state.model:
        raise UsageError(f"the results in '{os.fspath(file)}' are of another model.")
    arrays = graph.make_inputs(read_inputs(inputs), state.shapes, state.seed, state.attempt)
    if digest_inputs(arrays) != state.inputs:
        raise UsageError("the results are of other inputs; give the arrays that the probe was written with.")
    if not data["cuts"].keys() <= state.cuts.keys():
        raise UsageError(f"'{os.fspath(file)}' mixes the results of two probes; run probe.py again.")
    tolerances = tolerance if isinstance(tolerance, Mapping) else {"": tolerance}
    if any(each is not None and each.ulps for each in tolerances.values()):
        raise UsageError("a probe does not measure ulp; give a tolerance with abs or rel.")
    good = read_side(state.reference, graph.format, "the reference of the results")
    path, device = Path(graph), data["device"]
    is_described = isinstance(device, dict) and {"runtime", "version", "place", "platform"} <= device.keys()
    if not is_described or not 0 <= state.low < state.high <= len(path.numbers):
        raise UsageError("the results are damaged: they do not fit the model.")
    report, next_state = _Results(state, path, good, arrays, data["cuts"], device, tolerances).read()
    return Reading(report, next_state, graph, good, arrays)


def _load(file: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a file of results."""
    name = os.fspath(file)
    try:
        with open(file, encoding="utf-8") as opened:
            data = json.load(opened)
    except OSError as error:
        raise UsageError(f"'{name}' cannot be read ({error.strerror}).") from None
    except ValueError:
        raise UsageError(f"'{name}' is not complete JSON; run probe.py again.") from None
    keys = {"state", "device", "cuts"}
    if not isinstance(data, dict) or not keys <= data.keys() or not isinstance(data["cuts"], dict):
        raise UsageError(f"'{name}' does not hold the results of a probe.")
    return data


@dataclass(frozen=True)
class _Verdicts:
    """The cuts that fail like the whole model with their failures, those that are right, and notes about others."""

    failing: dict[Cut, Failure]
    right: set[Cut]
    notes: list[str]
    is_complete: bool


@dataclass(frozen=True)
class _Results:
    """Results with the model that they are of.

    Attributes:
        state: The state of the search.
        path: The nodes.
        good: The side that computes the expected values.
        inputs: The inputs of the model.
        data: The results of the cuts by name; those that did not run are missing.
        device: The description of the device.
        tolerances: See `diff`.
    """

    state: State
    path: Path
    good: Side
    inputs: Mapping[str, Array]
    data: Mapping[str, Any]
    device: Any
    tolerances: Mapping[str, Tolerance | None]

    def read(self) -> tuple[DiffReport, State | None]:
        """Return the report, and the state of the next round unless the search is over."""
        outcomes = {cut: self._compare(name, cut) for name, cut in self.state.cuts.items() if name in self.data}
        missing = [cut for cut in self.state.cuts.values() if cut not in outcomes]
        failure = self.state.failure
        report = DiffReport(self._side.title, self.good.title, (), self.state.seed)
        if failure is None:
            whole = next((cut for cut in self.state.cuts.values() if self._is_whole(cut)), None)
            if whole is None or whole not in outcomes:
                lack = f"{len(missing)} of {count_of(len(self.state.cuts), 'model')} have no result"
                raise UsageError(f"the results lack those of the whole model ({lack}); run probe.py again.")
            outcome = outcomes[whole]
            report = (
                replace(report, failed=self._side.title)
                if isinstance(outcome, Failure)
                else replace(report, outputs=outcome)
            )
            failure = next(iter(_failures_of(outcome)), None)
            if failure is None:
                return report, None
        notes = [f"{count_of(len(missing), 'model')} of this probe did not run"] if missing else []
        verdicts = _Verdicts({}, set(), notes, is_complete=not missing)
        for cut, outcome in outcomes.items():
            failures = _failures_of(outcome)
            if failures and failures[0].is_like(failure):
                verdicts.failing[cut] = failures[0]
            elif not failures or (failure.is_of_run and not failures[0].is_of_run):
                verdicts.right.add(cut)
        report = replace(report, failures=(failure,))
        state = replace(self.state, failure=failure)
        return self._finish(report, state, verdicts) if state.is_last else self._narrow(report, state, verdicts)

    def _narrow(self, report: DiffReport, state: State, verdicts: _Verdicts) -> tuple[DiffReport, State | None]:
        """Return the report, and the state with a smaller range, from cuts up to different nodes."""
        sizes = [cut.size for cut in verdicts.failing if cut.kind == "prefix"]
        if not sizes and state.front:  # values in front of the cuts belong to the failure
            return self._continue(report, state.advance(front=0), verdicts)
        if not sizes:
            return _end(report, verdicts, "no part of the model that was cut out fails like the whole")
        high = min(sizes)
        low = max([state.low, *(cut.size for cut in verdicts.right if cut.kind == "prefix" and cut.size < high)])
        last = [self.path.numbers[high - 1]]
        alone = next((cut for cut in verdicts.failing if cut.size == high and self.path.nodes_of(cut) == last), None)
        if low == high - 1 and alone is not None:
            return self._name(report, alone, verdicts)
        if low == high - 1 or ((low, high) == (state.low, state.high) and verdicts.is_complete):
            return self._continue(report, state.advance(low=low, high=high, is_last=True), verdicts)
        is_cut_at_front = state.round == 1 or state.front > 0
        front = max(0, low - max(high - low, WAYS)) if is_cut_at_front else 0
        return self._continue(report, state.advance(low=low, high=high, front=front), verdicts)

    def _finish(self, report: DiffReport, state: State, verdicts: _Verdicts) -> tuple[DiffReport, State | None]:
        """Return the report on the smallest part around the last node that fails."""
        parts = [cut for cut in state.cuts.values() if cut in verdicts.failing and cut.kind != "spread"]
        if parts:
            return self._name(report, parts[0], verdicts)
        if not verdicts.is_complete:
            return self._continue(report, state.advance(), verdicts)
        return _end(report, verdicts, f"no part that ends with {self._node(state.high)} fails like the whole")

    def _continue(self, report: DiffReport, state: State, verdicts: _Verdicts) -> tuple[DiffReport, State]:
        count = state.high - state.low
        last = self._node(state.high)
        text = (
            f"the first node that differs is one of {count}: {self._node(state.low + 1)} to {last}"
            if count > 1
            else f"first node that differs: {last}, together with nodes before it"
        )
        ending = f"round {self.state.round} of at most {_most_rounds(len(self.path.numbers))} is read"
        return replace(report, notes=(text, ending, *verdicts.notes)), state

    def _name(self, report: DiffReport, cut: Cut, verdicts: _Verdicts) -> tuple[DiffReport, None]:
        """Return the report with the part of the model that a cut is."""
        graph = self.path.graph
        values = dict(self.inputs)
        values |= compute_all(graph, self.good, self.inputs, find_boundary(graph, self.path.nodes_of(cut)))
        case = self.path.case_of(cut, values)
        if case is None:
            return _end(report, verdicts, f"first node that differs: {self._node(cut.size)}")
        is_fusion = any((c.kind, c.start, c.size) == ("spread", cut.start, cut.size) for c in verdicts.right)
        case = replace(case, failure=verdicts.failing[cut], is_fusion=is_fusion)
        expected = self.good.try_run(case.model, case.inputs)
        name = _ENGINES.get(self.device["place"], self._side.engine.name)
        defects = tuple(graph.find_defects(case.model, name))
        outputs = self._compare(next(name for name, each in self.state.cuts.items() if each == cut), cut)
        compared = () if isinstance(outputs, Failure) else outputs
        part = Part(case, self._side, self.good, case.model, case.failure, expected, compared, defects=defects)
        return _end(replace(report, parts=(part,)), verdicts)

    @property
    def _side(self) -> Side:
        device = self.device
        name = f"{device['runtime']} {device['place']}"
        return Side(_Device(name, f"{device['version']} on {device['platform']}"), {})

    def _node(self, size: int) -> str:
        return str(self.path.graph.nodes[self.path.numbers[size - 1]])

    def _is_whole(self, cut: Cut) -> bool:
        return self.state.round == 1 and cut.kind == "prefix" and cut.size == self.state.high

    def _compare(self, name: str, cut: Cut) -> tuple[OutputDiff, ...] | Failure:
        """Return the comparison of the outputs of a cut, or the failure of its run."""
        names, result = self.path.names_of(cut), self.data[name]
        try:
            if "kind" in result:
                return Failure(result["kind"], "", shorten(result["detail"]))
            pairs = list(zip(names, result["outputs"], strict=True))
            return tuple(_judge(output, measures, self._tolerance(cut, output, measures)) for output, measures in pairs)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UsageError(f"the results are damaged: those of {name} cannot be read.") from None

    def _tolerance(self, cut: Cut, output: str, measures: Mapping[str, Any]) -> Tolerance:
        """Return the accepted difference of an output of a cut."""
        if only_moves(self.path.graph, self.path.nodes_of(cut), output):
            return EXACT
        value = np.empty(0, measures.get("element", "float32"))
        default = tolerance_of(value) if self._is_whole(cut) else narrow_tolerance_of(value)
        return self.tolerances.get(output, self.tolerances.get("")) or default


def _failures_of(outcome: tuple[OutputDiff, ...] | Failure) -> list[Failure]:
    if isinstance(outcome, Failure):
        return [outcome]
    return [output.failure for output in outcome if output.failure is not None]


def _end(report: DiffReport, verdicts: _Verdicts, *notes: str) -> tuple[DiffReport, None]:
    return replace(report, notes=(*notes, *verdicts.notes)), None


def _most_rounds(count: int) -> int:
    """Return the bound of the number of rounds for a number of nodes."""
    return (count - 1).bit_length() + 2


def _judge(name: str, measures: Mapping[str, Any], tolerance: Tolerance) -> OutputDiff:
    """Return the comparison of an output that its measures tell."""
    if "kind" in measures:
        return OutputDiff(name, status="different", kind=measures["kind"], detail=measures["detail"])
    about: dict[str, Any] = {"element": measures["element"], "shape": tuple(measures["shape"]), "tolerance": tolerance}
    if not measures["unequal"]:
        return OutputDiff(name, **about)
    error, largest = float(measures["absolute"]), float(measures["largest"])
    about |= {"absolute": error, "relative": error / (largest or 1.0)}
    special: Kind | Literal[""] = "nan" if measures["nan"] else "infinity" if measures["infinity"] else ""
    if tolerance != EXACT and not special and error <= max(tolerance.absolute, tolerance.relative * largest):
        return OutputDiff(name, status="close", **about)
    kind = special if special and tolerance != EXACT else "values"
    sample = (str(measures["at"]), measures["got"], measures["expected"])
    counts = f"{measures['unequal']} of {prod(measures['shape'])} elements are not equal"
    detail = f"at index {sample[0]}, {sample[1]} for {sample[2]} ({counts})"
    return OutputDiff(name, status="different", kind=kind, detail=detail, samples=(sample,), **about)
