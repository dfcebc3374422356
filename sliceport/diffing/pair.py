"""The comparison of two models: their values are matched by name and by content, to find the first that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sliceport.diffing.case import Located, compute_all, make_case
from sliceport.diffing.difference import Failure, Tolerance, compare_values, inner_tolerance_of
from sliceport.diffing.fingerprint import Fingerprint, Fingerprints, match_by_value
from sliceport.diffing.graph import Graph, GraphNode, find_ancestors, find_boundary
from sliceport.diffing.search import RANDOM_NOTE, find_named
from sliceport.diffing.side import RunFailed, Side
from sliceport.engines.engine import Array, Value

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
    """Two models that should compute the same. The constructor runs both models to match their values.

    Args:
        first: The model that is right by definition.
        second: The model to test.
        sides: The engines of the first and of the second model.
        names: For each input and output of the second model, its name in the first.
        runs: Sets of inputs of the first model: one on which an output differs, then more sets to match values by.

    Attributes:
        note: A sentence about how many values were matched, and how.
        is_matched: Whether any computed value was matched, apart from outputs that differ.

    Raises:
        BudgetSpent, MissingExtra, UsageError, ChildLost: See `Side.run`. `find_next_part` raises these errors, too.
    """

    def __init__(
        self,
        first: Graph,
        second: Graph,
        sides: tuple[Side, Side],
        names: Mapping[str, str],
        runs: Sequence[Mapping[str, Array]],
    ) -> None:
        self._first, self._second, self._sides, self._names, self._inputs = first, second, sides, names, runs[0]
        # Each of these maps names in the second model to names in the first. `_close` contains the equal values, too.
        self._equal: dict[str, str] = {}
        self._close: dict[str, str] = {}
        self._different: dict[str, str] = {}
        self._right_values = {name: runs[0][names.get(name, name)] for name in second.inputs}
        # Exporters that number values may give one name to unrelated values of the two models. Different operators
        # usually write such values. So names are trusted only if most shared names belong to the same operator in both
        # models. Two formats name operators differently, so their names of values are trusted without this check.
        operators = {name: node.op_type for node in first.nodes for name in node.writes}
        pairs = [(node.op_type, operators.get(name)) for node in second.nodes for name in node.writes]
        is_same = [operator == other for operator, other in pairs if other is not None]
        self._are_names_kept = first.format != second.format or sum(is_same) * 2 > len(is_same)
        counts = self._match(*self._run_both(runs))
        inner_differences = self._different.keys() - {*second.inputs, *second.outputs}
        self.is_matched = bool(inner_differences or self._close.keys() - set(second.inputs))
        counts_text = ", ".join(f"{count} {how}" for how, count in sorted(counts.items()))
        value_count = sum(len(node.writes) for node in second.nodes)
        self.note = f"values of the second model found in the first: {counts_text or 'none'}, of {value_count}"

    def _run_both(self, runs: Sequence[Mapping[str, Array]]) -> tuple[Fingerprints, Fingerprints]:
        """Run both models, and return the fingerprints of their values, first those of the first model.

        The models run on each set of inputs in `runs`. One set is enough if all values can be matched by their names:
        if names can be trusted, and each value of the second model has a namesake in the first.
        """
        kept: list[tuple[dict[str, Fingerprint], dict[str, Fingerprint]]] = []
        for inputs in runs:
            renamed = {name: inputs[self._names.get(name, name)] for name in self._second.inputs}
            expected, actual = (
                {name: Fingerprint.of(array) for name, array in compute_all(graph, side, arrays)}
                for graph, side, arrays in zip((self._first, self._second), self._sides, (inputs, renamed), strict=True)
            )
            # A run with other values than the first run is left out. After a failure, for example, values are missing.
            if not kept or (expected.keys(), actual.keys()) == (kept[0][0].keys(), kept[0][1].keys()):
                kept.append((expected, actual))
            if self._are_names_kept and expected.keys() >= {self._names.get(name, name) for name in actual}:
                break  # further runs are only needed to match values by their fingerprints
        first_expected, first_actual = kept[0]
        return (
            {name: tuple(prints[name] for prints, _ in kept) for name in first_expected},
            {name: tuple(prints[name] for _, prints in kept) for name in first_actual},
        )

    def _match(self, expected: Fingerprints, actual: Fingerprints) -> Counter[str]:
        """Match values of both models: fill `_equal`, `_close` and `_different`. Count the matches of each kind."""
        names_by_kind: dict[Any, list[str]] = {}
        for name, prints in expected.items():
            names_by_kind.setdefault(prints[0].kind, []).append(name)
        counts: Counter[str] = Counter()
        for name in dict.fromkeys((*actual, *(name for node in self._second.nodes for name in node.writes))):
            namesake = self._names.get(name, name)
            candidates = [namesake] if namesake in expected else []
            if name in actual and not (candidates and self._are_names_kept):
                candidates += names_by_kind.get(actual[name][0].kind, ())
            agreeing = (each for each in candidates if all(map(Fingerprint.agrees, expected[each], actual[name])))
            match = next(agreeing, None) if name in actual else None
            if match is not None:
                self._close[name] = match
                if all(a.digest == b.digest for a, b in zip(expected[match], actual[name], strict=True)):
                    self._equal[name] = match
                # Inputs do not count, because they match by definition.
                counts["by name" if match == namesake else "by value"] += name not in self._second.inputs
            elif namesake in expected and (self._are_names_kept or name in self._names):
                self._different[name] = namesake
        self._match_by_reads(set(expected).difference(self._close.values(), self._different.values()))
        counts["different"] = len(self._different)
        return +counts  # without counts of 0

    def _match_by_reads(self, unmatched: set[str]) -> None:
        """Match values that differ, if the nodes that write them correspond.

        Two nodes correspond if the values that they read are matched with each other, and if the nodes have the same
        operator or the same operators read their outputs. `unmatched` contains the values of the first model without a
        match. Values that are matched here are removed from `unmatched`.
        """
        nodes_by_reads: dict[tuple[str, ...], list[GraphNode]] = {}
        for node in self._first.nodes:
            nodes_by_reads.setdefault(node.reads, []).append(node)
        readers = [_list_readers(graph) for graph in (self._first, self._second)]
        matched = self._close | self._different
        for node in self._second.nodes:
            if not matched.keys().isdisjoint(node.writes):
                continue
            reads = tuple(matched.get(name, "") for name in node.reads)
            for other in nodes_by_reads.get(reads, ()):
                written_pairs = dict(zip(node.writes, other.writes, strict=False))
                is_alike = node.op_type == other.op_type or all(
                    readers[1][name] == readers[0][first_name] for name, first_name in written_pairs.items()
                )
                if is_alike and unmatched.issuperset(other.writes):
                    matched |= written_pairs
                    self._different |= written_pairs
                    unmatched.difference_update(other.writes)
                    break

    def find_next_part(self, output: str, tolerance: Tolerance | None) -> Located | None:
        """Return the first part of the second model whose value differs; None if there is no such part.

        Later calls take the value of this part from the first model, so that they find other parts.

        Args:
            output: The name of the output that the part leads to; empty for all outputs.
            tolerance: The accepted difference of computed values; None for the default of their type.
        """
        random_part: Located | None = None
        for located in self._find_parts(output, tolerance, is_failing=False):
            if len(located.case.nodes) > 1 or not located.case.culprit.is_random:
                return self._enter_body(located, tolerance)
            random_part = located._replace(case=replace(located.case, note=RANDOM_NOTE))
        return random_part

    def find_failing_part(self, failure: Failure) -> Located | None:
        """Return the part that causes a failure of the run of the second model; None if no such part was found."""
        for _ in range(_MAX_CANDIDATES):
            located = next(self._find_parts("", None, is_failing=True), None)
            if located is None:
                return None
            cause = self._confirm_cause(located, failure)
            if cause is not None:
                return self._enter_body(cause, None)
            # Values that turned out to be right are no candidates any more.
            self._different = {name: first for name, first in self._different.items() if name not in self._close}
        return None

    def _find_parts(self, output: str, tolerance: Tolerance | None, *, is_failing: bool) -> Iterator[Located]:
        """Yield the parts that do not compute the expected values; see `find_next_part`.

        If the second model runs (not `is_failing`), a part that does not run is left out, because its nodes run there.
        """
        # Later calls test close values again, because the tolerance of another output may be smaller.
        close = self._close if is_failing else dict(self._close)
        outputs = [name for name in ([output] if output else self._second.outputs) if name not in self._equal]
        needed: set[str] = set()
        for candidate in self._list_candidates(outputs, close):
            needed |= {candidate.counterpart, *candidate.inputs.values()}
            needed |= find_boundary(self._first, candidate.first_nodes)
        arrays = dict(compute_all(self._first, self._sides[0], self._inputs, needed))
        for candidate in self._list_candidates(outputs, close):
            located, name = self._locate(candidate, arrays, tolerance, close), candidate.output
            if located is not None and (is_failing or not located.case.failure.is_of_run):
                # The next parts take this value as equal. An output may have no entry in `_different`.
                close[name] = self._close[name] = self._equal[name] = self._different.pop(name, candidate.counterpart)
                yield located

    def _confirm_cause(self, located: Located, failure: Failure) -> Located | None:
        """Return a part if it causes the failure of the second model, otherwise None.

        A part that does not run is the cause if it fails like the model. A part that runs is the cause if the rest of
        the model fails with the value of the part, and runs with the expected value.
        """
        case, expected, _ = located
        if case.failure.is_of_run:
            # In a part with fixed sizes, the node may already fail when the engine infers shapes, with another message.
            is_named = case.numbers[-1] in find_named(self._second, failure)
            return located if is_named or case.failure.is_like(failure) else None
        actual = self._sides[1].try_run(case.model, case.inputs)
        fails = not isinstance(actual, Failure) and self._does_rest_fail(self._right_values | _list_arrays(actual))
        # Later parts are tested with the right value of this part.
        self._right_values |= _list_arrays(expected or {})
        if not fails or self._does_rest_fail(self._right_values):
            return None
        note = "with the right value in its place the second model runs, and with this value it fails"
        return located._replace(case=replace(case, note=note))

    def _does_rest_fail(self, known: Mapping[str, Array]) -> bool:
        """Return whether the nodes of the second model that compute the outputs from `known` values fail."""
        outputs = [name for name in self._second.outputs if name not in known]
        rest = make_case(self._second, find_ancestors(self._second, outputs, known), outputs, known)
        if rest is None or not outputs:
            return False
        rest = replace(rest, has_fixed_shapes=True)
        return isinstance(self._sides[1].try_run(rest.model, rest.inputs), Failure)

    def _list_candidates(self, outputs: Sequence[str], close: Mapping[str, str]) -> Iterator[_Candidate]:
        """Yield the parts to test: first those that compute a value that differs, then those that compute an output.

        First, each part begins at values of `close`. The caller may add values to `close` before it takes the next
        part. Then the parts are repeated, but begin at equal values, because small deviations may add up.
        """
        # The path begins at equal values alone, because the nodes before a close value may still be the cause.
        path = sorted(find_ancestors(self._second, outputs, self._equal))
        written = [name for number in path for name in self._second.nodes[number].writes]
        different = [name for name in written if name in self._different][:_MAX_CANDIDATES]
        targets = {name: self._different[name] for name in different}
        targets |= {name: self._names.get(name, name) for name in outputs}
        for matched, (name, counterpart) in product((close, self._equal), targets.items()):
            nodes = find_ancestors(self._second, [name], matched)
            inputs = {value: matched.get(value, value) for value in find_boundary(self._second, nodes)}
            first_nodes = find_ancestors(self._first, [counterpart], set(matched.values()))
            yield _Candidate(name, counterpart, nodes, first_nodes, inputs)

    def _locate(
        self, candidate: _Candidate, arrays: Mapping[str, Array], tolerance: Tolerance | None, close: dict[str, str]
    ) -> Located | None:
        """Run a part on values of the first model, and return the part if it fails or computes another value.

        If the part computes the expected value, add it to `close` and return None. Also return None if the first model
        lacks a value that the part needs.
        """
        output, counterpart, nodes, first_nodes, inputs = candidate
        values = {name: arrays[first_name] for name, first_name in inputs.items() if first_name in arrays}
        case = make_case(self._second, nodes, [output], values)
        first_case = make_case(self._first, first_nodes, [counterpart], arrays)
        if not nodes or case is None or first_case is None or counterpart not in arrays:
            return None
        case, expected = replace(case, has_fixed_shapes=True), arrays[counterpart]
        actual = self._sides[1].try_run(case.model, case.inputs)
        if isinstance(actual, Failure):
            failure: Failure | None = actual
        else:
            tolerance = tolerance or inner_tolerance_of(expected)
            failure = compare_values(output, actual.get(output), expected, tolerance).failure
        if failure is None:
            close[output] = counterpart
            return None
        return Located(replace(case, failure=failure, suspects=case.nodes), {output: expected}, first_case)

    def _enter_body(self, located: Located, tolerance: Tolerance | None) -> Located:
        """Search the runs of the bodies of a control flow node in order. Return the first part of a body that differs.

        Return `located` if no such part is found, or if `located` and its counterpart are not one control flow node
        each.
        """
        case, _, counterpart = located
        assert counterpart is not None
        if len(case.numbers) != 1 or len(counterpart.numbers) != 1:
            return located
        first_runs, second_runs = (
            part.graph.bodies(part.numbers[0], part.values, side.run)
            for part, side in zip((counterpart, case), self._sides, strict=True)
        )
        with suppress(RunFailed):  # the engine cannot run a body outside its node
            for first, second in zip(first_runs, second_runs, strict=False):
                expected, actual = (
                    side.try_run(body.graph.whole(), body.inputs)
                    for body, side in zip((first, second), self._sides, strict=True)
                )
                if isinstance(actual, Failure) and not case.failure.is_of_run:
                    break  # the body runs in the model, so that only the cut makes it fail
                # Both bodies run on the same values, but a format or an optimizer may have given them other names.
                names = match_by_value(first.inputs, second.inputs)
                if isinstance(expected, Failure) or isinstance(actual, Failure):
                    # Without values, outputs are matched by name, or else by position.
                    outputs = zip(second.graph.outputs, first.graph.outputs, strict=False)
                    names |= {name: name if name in first.graph.outputs else other for name, other in outputs}
                else:
                    names |= match_by_value(expected, actual, has_faults=True)
                # `_run_both` looks up an input of the second body by its name in `names`, or else by its own name. The
                # first body wins if both bodies have an input of one name, because `names` maps to its names.
                inputs = {**second.inputs, **first.inputs}
                inner = Pair(first.graph, second.graph, self._sides, names, [inputs])
                if isinstance(actual, Failure):
                    inner_part = inner.find_failing_part(actual)
                else:
                    inner_part = inner.find_next_part("", tolerance)
                if inner_part is not None:
                    scope = (f"{case.culprit}, {second.title}", *inner_part.case.scope)
                    note = inner_part.case.note
                    if case.failure.is_of_run and not isinstance(actual, Failure):
                        note = "the body runs alone, so that this difference may not be the cause"
                    inner_case = replace(inner_part.case, scope=scope, holder=case.culprit, note=note)
                    return inner_part._replace(case=inner_case)
        return located


def _list_arrays(values: Mapping[str, Value]) -> dict[str, Array]:
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def _list_readers(graph: Graph) -> dict[str, list[str]]:
    """Map each value to the sorted operators that read it. An output of the graph also has the reader ""."""
    readers: dict[str, list[str]] = {name: [] for node in graph.nodes for name in node.writes}
    for node in sorted(graph.nodes, key=lambda node: node.op_type):
        for name in node.reads:
            readers.setdefault(name, []).append(node.op_type)
    return {name: ["", *operators] if name in graph.outputs else operators for name, operators in readers.items()}
