"""The search for the first part of a model that computes a value of another model wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sliceport.engines.engine import Array
from sliceport.engines.failure import Failure
from sliceport.engines.side import RunFailed
from sliceport.search.case import Case, compute, compute_all, make_case, select_arrays
from sliceport.search.comparison import Comparison
from sliceport.search.graph import Body, find_ancestors, find_boundary
from sliceport.search.matching import Matches, match_by_value
from sliceport.search.search import RANDOM_NOTE, enter_body
from sliceport.verdict.difference import Tolerances, compare_values

_MAX_CANDIDATES = 50
"""The largest number of different values to try. Later values usually differ only because an earlier value does."""


class _Candidate(NamedTuple):
    """A part of the second model that may be wrong.

    Attributes:
        output: The name of the value that the part computes.
        counterpart: The name of the value of the first model that `output` should equal.
        nodes: The numbers of its nodes in the second model.
        first_nodes: The numbers of the nodes that compute `counterpart` in the first model.
        inputs: The names of the values that the part reads, each with the name of its match in the first model.
    """

    output: str
    counterpart: str
    nodes: Sequence[int]
    first_nodes: Sequence[int]
    inputs: Mapping[str, str]


class Pair:
    """Two models that should compute the same, with their matched values in the attribute `matches`.

    Args:
        comparison: The models and engines.
        runs: See `Matches`.

    Raises:
        BudgetSpent, MissingExtra, UsageError, ChildLost: See `Side.run`. All methods raise these errors.
    """

    def __init__(self, comparison: Comparison, runs: Sequence[Mapping[str, Array]]) -> None:
        self.matches, self._comparison, self._first_inputs = Matches(comparison, runs), comparison, runs[0]
        self._first, self._good = comparison.first, comparison.good
        self._second, self._bad = comparison.second, comparison.bad
        # The values that a run of the rest of the second model starts from; see `_confirm_cause`.
        self._inputs = self._right_values = comparison.inputs_of_second(runs[0])
        # The outputs of the second model, and the values that no node reads: an engine runs their nodes, too.
        read = {name for node in self._second.nodes for name in node.reads}
        unread = [name for node in self._second.nodes for name in node.writes if name not in read]
        self._ends = list(dict.fromkeys((*self._second.outputs, *unread)))

    def find_next_part(self, output: str, tolerances: Tolerances) -> Case | None:
        """Return the first part of the second model, or of a body in it, whose value differs, otherwise None.

        Later calls find other parts. A node that draws random numbers is returned only if no other part differs.

        Args:
            output: The name of the output that the part leads to; empty for all outputs.
            tolerances: The accepted differences of computed values.
        """
        random_part: Case | None = None
        # A copy: later calls test close values again, because the tolerance of another output may be smaller.
        right = dict(self.matches.close)
        for case in self._find_parts([output] if output else self._second.outputs, right, tolerances):
            if case.failure.is_of_run:  # the whole second model runs, so the failure comes from cutting it
                continue
            self._use_first_value(case, right)
            if len(case.nodes) > 1 or not case.culprit.is_random:
                return self._enter_body(case, tolerances)
            random_part = replace(case, note=RANDOM_NOTE)
        return random_part

    def find_failing_part(self, failure: Failure) -> Case | None:
        """Return the part that causes a failure of the run of the second model; None if no such part was found."""
        right = dict(self.matches.close)
        for _ in range(_MAX_CANDIDATES):
            case = next(self._find_parts(self._ends, right, Tolerances()), None)
            if case is None:
                return None
            self._use_first_value(case, right)
            cause = self._confirm_cause(case, failure)
            if cause is not None:
                return self._enter_body(cause, Tolerances())
            # `_find_parts` has added values that are right. They are not tested again.
            for name in right:
                self.matches.different.pop(name, None)
        return None

    def _use_first_value(self, case: Case, right: dict[str, str]) -> None:
        """Let later parts read the first model's value instead of the value that this part computes."""
        assert case.counterpart is not None
        matches, name = self.matches, case.outputs[0]
        right[name] = matches.close[name] = matches.equal[name] = case.counterpart.outputs[0]
        matches.different.pop(name, None)

    def _find_parts(self, outputs: Sequence[str], right: dict[str, str], tolerances: Tolerances) -> Iterator[Case]:
        """Yield the parts that do not run, or that do not compute the expected values.

        Args:
            outputs: The names of the outputs that the parts lead to.
            right: For each value that the parts take from the first model, its name there. Each value that is found
                to be right is added. The caller may add values between two parts.
            tolerances: See `find_next_part`.
        """
        outputs = [name for name in outputs if name not in self.matches.equal]
        needed: set[str] = set()
        for candidate in self._list_candidates(outputs, right):
            needed |= {candidate.counterpart, *candidate.inputs.values()}
            needed |= find_boundary(self._first, candidate.first_nodes)
        arrays = dict(compute_all(self._first, self._good, self._first_inputs, needed))
        # The parts are listed again, because `right` now grows with each part, so that later parts become smaller.
        for candidate in self._list_candidates(outputs, right):
            case = self._test_candidate(candidate, arrays, tolerances, right)
            if case is not None:
                yield case

    def _confirm_cause(self, case: Case, failure: Failure) -> Case | None:
        """Return a part if it causes the failure of the second model, otherwise None. Later calls use its right value.

        A part is the cause in each of these cases:

        1. It does not run, and fails like the model.
        2. It does not run, and the rest runs with the right value, or the model up to this part does not run either.
        3. It runs, and the rest fails with the value of the part, and runs with the right value.

        In the cases 2 and 3, the part gets a note.
        """
        is_of_run = case.failure.is_of_run
        if is_of_run and case.failure.is_like(failure):
            return case  # case 1
        written = self._second.nodes[case.numbers[-1]].writes
        if is_of_run:
            note, joint, may_be_cause = "alone, it fails in another way than the second model", "which", True
        else:
            note, joint = "the second model fails with the value of this part", "and"
            actual = replace(case, outputs=written).run(self._bad)
            may_be_cause = not isinstance(actual, Failure) and not self._does_run(
                self._ends, self._right_values | select_arrays(actual)
            )
        # Later parts are tested with the right values of this part: all outputs of its node, since a cut that needs one
        # of them would compute all.
        values = select_arrays(case.expected or {})
        matched = self.matches.different | self.matches.close
        others = {name: matched[name] for name in written if name in matched and name not in values}
        arrays = compute(self._first, self._good, self._first_inputs, others.values()) or {}
        values |= {name: arrays[other] for name, other in others.items() if other in arrays}
        self._right_values = {**self._right_values, **values}
        if may_be_cause and self._does_run(self._ends, self._right_values):
            return replace(case, note=f"{note}, {joint} runs with the right value")
        if is_of_run and not self._does_run(case.outputs, self._inputs):
            return replace(case, note=note)
        return None

    def _does_run(self, outputs: Sequence[str], known: Mapping[str, Array]) -> bool:
        """Return whether the second model computes `outputs` from known values; False if it needs other inputs."""
        outputs = [name for name in outputs if name not in known]
        rest = make_case(self._second, find_ancestors(self._second, outputs, known), outputs, known)
        if not outputs or rest is None:
            return not outputs
        return not isinstance(replace(rest, has_fixed_shapes=True).run(self._bad), Failure)  # as in `_test_candidate`

    def _list_candidates(self, outputs: Sequence[str], right: Mapping[str, str]) -> Iterator[_Candidate]:
        """Yield parts that compute the first `_MAX_CANDIDATES` different values, then parts that compute `outputs`.

        Each part begins at values of `right`. Then all parts are repeated, but begin at equal values, because small
        deviations of close values may add up. The caller may add to `right` and `matches.equal` between two parts.
        """
        matches = self.matches
        # The path begins at equal values alone, because the nodes before a close value may still be the cause.
        path = sorted(find_ancestors(self._second, outputs, matches.equal))
        written = [name for number in path for name in self._second.nodes[number].writes]
        different = [name for name in written if name in matches.different][:_MAX_CANDIDATES]
        targets = {name: matches.different[name] for name in different}
        targets |= {name: self._comparison.name_in_first(name) for name in outputs}
        for known in (right, matches.equal):
            for name, counterpart in targets.items():
                nodes = find_ancestors(self._second, [name], known)
                inputs = {value: known.get(value, value) for value in find_boundary(self._second, nodes)}
                first_nodes = find_ancestors(self._first, [counterpart], set(known.values()))
                yield _Candidate(name, counterpart, nodes, first_nodes, inputs)

    def _test_candidate(
        self, candidate: _Candidate, arrays: Mapping[str, Array], tolerances: Tolerances, right: dict[str, str]
    ) -> Case | None:
        """Run a part on values of the first model, and return the part if it fails or its value differs.

        If its value is within the tolerance, add its output to `right` and return None. Also return None if the part
        has no nodes, or if a value of the first model is missing.
        """
        output, counterpart, nodes, first_nodes, inputs = candidate
        values = {name: arrays[first_name] for name, first_name in inputs.items() if first_name in arrays}
        case = make_case(self._second, nodes, [output], values)
        first_case = make_case(self._first, first_nodes, [counterpart], arrays)
        if not nodes or case is None or first_case is None or counterpart not in arrays:
            return None
        # Values of the first model need not fit the sizes that the second one declares.
        case, expected = replace(case, has_fixed_shapes=True), arrays[counterpart]
        actual = case.run(self._bad)
        if isinstance(actual, Failure):
            failure: Failure | None = actual
        else:
            tolerance = tolerances.of_inner(output, expected)
            failure = compare_values(output, actual.get(output), expected, tolerance).failure
        if failure is None:
            right[output] = counterpart
            return None
        suspects = case.nodes if len(case.nodes) > 1 else ()
        return replace(case, failure=failure, suspects=suspects, expected={output: expected}, counterpart=first_case)

    def _enter_body(self, case: Case, tolerances: Tolerances) -> Case:
        """Search the runs of the bodies of a control flow node in order, and return the first part that differs.

        Return `case` if no part of a body differs, if a body does not run alone although the node runs, or if `case`
        and its counterpart are not one control flow node each.
        """
        counterpart = case.counterpart
        if counterpart is None or len(case.numbers) != 1 or len(counterpart.numbers) != 1:
            return case

        def locate(first: Body, second: Body) -> Case | None:
            actual = self._bad.try_run(second.graph.whole(), second.inputs)
            if isinstance(actual, Failure) and not case.failure.is_of_run:
                raise RunFailed(actual)  # the body runs in the model, so that only the cut makes it fail
            # `Matches` reads the inputs of both bodies from one dict. It looks up an input of the second body by the
            # name of its match in the first body, or else by its own name. The first body has the right arrays, so
            # they win if both bodies have a name.
            inputs = {**second.inputs, **first.inputs}
            names = _match_bodies(first, second)
            inner = Pair(replace(self._comparison, first=first.graph, second=second.graph, names=names), [inputs])
            if isinstance(actual, Failure):
                return inner.find_failing_part(actual)
            part = inner.find_next_part("", tolerances) if second.is_run else None
            if part is not None and case.failure.is_of_run:
                return replace(part, note="the body runs alone, so that this difference may not be the cause")
            return part

        first_runs = counterpart.graph.bodies(counterpart.numbers[0], counterpart.values, self._good.run)
        second_runs = case.graph.bodies(case.numbers[0], case.values, self._bad.run)
        bodies = zip(first_runs, second_runs, strict=False)  # one model may run more iterations
        return enter_body(case, bodies, locate) or case


def _match_bodies(first: Body, second: Body) -> dict[str, str]:
    """Map the names of the second body's inputs and outputs to names of the first body.

    A format or an optimizer may have given other names to the same inputs, so inputs are matched by value, even if the
    body returns them. All other outputs are matched by name or position, because a wrong output may equal another one.
    An input without a match keeps its name, under which the caller also finds its value.
    """
    first_names, second_names = first.graph.outputs, second.graph.outputs
    has_same_names = set(second_names) <= set(first_names)
    outputs = dict(zip(second_names, second_names if has_same_names else first_names, strict=False))
    return outputs | {name: name for name in second.inputs} | match_by_value(first.inputs, second.inputs)
