"""The matching of two models: for each value of the second model, the value of the first that it should equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sliceport.engines.engine import Array
from sliceport.search.case import compute_all
from sliceport.search.comparison import Comparison
from sliceport.search.fingerprint import Fingerprint, Fingerprints
from sliceport.search.graph import Graph, GraphNode


class Matches:
    """The matches between the values of two models, which this class runs on their engines.

    Args:
        comparison: The models and engines.
        runs: Sets of inputs by their names in the first model. Only the first set is used if names are trusted, and
            each value of the second model has a namesake in the first.

    Attributes:
        equal: Values of the second model that are equal to a value of the first, with the name of that value.
        close: Values that agree within the tolerance, likewise. It contains `equal`.
        different: Values that differ from the value that they should equal, likewise.
    """

    def __init__(self, comparison: Comparison, runs: Sequence[Mapping[str, Array]]) -> None:
        self._comparison, self._first, self._second = comparison, comparison.first, comparison.second
        self.equal: dict[str, str] = {}
        self.close: dict[str, str] = {}
        self.different: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        # Exporters that number values may give one name to unrelated values of the two models. Different operators
        # usually write such values. So names are trusted only if most shared names belong to the same operator in both
        # models. The operators of two formats cannot be compared, so names are trusted if the formats differ.
        operators = {name: node.op_type for node in self._first.nodes for name in node.writes}
        pairs = [(node.op_type, operators.get(name)) for node in self._second.nodes for name in node.writes]
        are_equal = [operator == other for operator, other in pairs if other is not None]
        self._trusts_names = self._first.format != self._second.format or sum(are_equal) * 2 > len(are_equal)
        self._match_values(*self._fingerprint_values(runs))

    def _fingerprint_values(self, runs: Sequence[Mapping[str, Array]]) -> tuple[Fingerprints, Fingerprints]:
        """Run both models on the sets of inputs. Return the fingerprints of the first and second model's values."""
        comparison = self._comparison
        prints_of_runs: list[tuple[dict[str, Fingerprint], dict[str, Fingerprint]]] = []
        for inputs in runs:
            expected = _fingerprint(compute_all(comparison.first, comparison.good, inputs))
            actual = _fingerprint(compute_all(comparison.second, comparison.bad, comparison.inputs_of_second(inputs)))
            first_run = prints_of_runs[0] if prints_of_runs else (expected, actual)
            # A run that computes values of other names than the first run, for example after a failure, is left out.
            if (expected.keys(), actual.keys()) == (first_run[0].keys(), first_run[1].keys()):
                prints_of_runs.append((expected, actual))
            if self._trusts_names and expected.keys() >= set(map(comparison.name_in_first, actual)):
                break  # further runs are only needed to match values by their fingerprints
        first, second = zip(*prints_of_runs, strict=True)
        return _join_runs(first), _join_runs(second)

    @property
    def note(self) -> str:
        """A sentence about how many values were matched, and how."""
        counts_text = ", ".join(f"{count} {how}" for how, count in sorted(self._counts.items()) if count)
        value_count = sum(len(node.writes) for node in self._second.nodes)
        return f"matched {sum(self._counts.values())} of {value_count} values of the second model: {counts_text}"

    @property
    def has_computed(self) -> bool:
        """Whether any computed value is matched, not counting outputs that differ."""
        inner_differences = self.different.keys() - {*self._second.inputs, *self._second.outputs}
        return bool(inner_differences or self.close.keys() - set(self._second.inputs))

    def _match_values(self, expected: Fingerprints, actual: Fingerprints) -> None:
        """Match values by names or fingerprints, and the others by the nodes that write them. Count the matches."""
        names_by_kind: dict[Any, list[str]] = {}
        for name, prints in expected.items():
            names_by_kind.setdefault(prints[0].kind, []).append(name)
        written = [name for node in self._second.nodes for name in node.writes]
        for name in dict.fromkeys((*actual, *written)):  # a value without a fingerprint may still have a namesake
            namesake = self._comparison.name_in_first(name)
            # Trusted names decide for all values. Names always decide for inputs and outputs, because a wrong output
            # may equal any other value by chance.
            must_match_namesake = namesake in expected and (self._trusts_names or name in self._comparison.names)
            candidates = [namesake] if namesake in expected else []
            if name in actual and not must_match_namesake:
                candidates += names_by_kind.get(actual[name][0].kind, ())
            agreeing = (each for each in candidates if all(map(Fingerprint.agrees, expected[each], actual[name])))
            match = next(agreeing, None) if name in actual else None
            if match is not None:
                self.close[name] = match
                if all(a.digest == b.digest for a, b in zip(expected[match], actual[name], strict=True)):
                    self.equal[name] = match
                # Inputs do not count, because they match by definition.
                self._counts["by name" if match == namesake else "by value"] += name not in self._second.inputs
            elif must_match_namesake:
                self.different[name] = namesake
        self._match_by_reads(set(expected).difference(self.close.values(), self.different.values()))
        self._counts["different"] = len(self.different)

    def _match_by_reads(self, unmatched: set[str]) -> None:
        """Match the outputs of nodes that correspond. Add the matches to `different`, because no fingerprints agree.

        Two nodes correspond if the values that they read match, and if either their operators or the operators that
        read their outputs are equal. `unmatched` contains the values of the first model without a match. Values
        that are matched here are removed from `unmatched`.
        """
        nodes_by_reads: dict[tuple[str, ...], list[GraphNode]] = {}
        for node in self._first.nodes:
            nodes_by_reads.setdefault(node.reads, []).append(node)
        first_readers, second_readers = _list_readers(self._first), _list_readers(self._second)
        matched = self.close | self.different
        for node in self._second.nodes:
            if not matched.keys().isdisjoint(node.writes):
                continue
            reads = tuple(matched.get(name, "") for name in node.reads)
            for first_node in nodes_by_reads.get(reads, ()):
                written = dict(zip(node.writes, first_node.writes, strict=False))
                is_alike = node.op_type == first_node.op_type or all(
                    second_readers[name] == first_readers[first_name] for name, first_name in written.items()
                )
                if is_alike and unmatched.issuperset(first_node.writes):
                    matched |= written
                    self.different |= written
                    unmatched.difference_update(first_node.writes)
                    break


def _fingerprint(values: Iterable[tuple[str, Array]]) -> dict[str, Fingerprint]:
    """Return the fingerprints of values by name."""
    return {name: Fingerprint.of(array) for name, array in values}


def _join_runs(runs: Sequence[Mapping[str, Fingerprint]]) -> Fingerprints:
    """Return the fingerprints in all runs for each value of the first run."""
    return {name: tuple(prints[name] for prints in runs) for name in runs[0]}


def _list_readers(graph: Graph) -> dict[str, list[str]]:
    """Map each value to the sorted operators that read it. An output of the graph also has the reader ""."""
    readers: dict[str, list[str]] = {name: [] for node in graph.nodes for name in node.writes}
    for node in sorted(graph.nodes, key=lambda node: node.op_type):
        for name in node.reads:
            readers.setdefault(name, []).append(node.op_type)
    return {name: ["", *operators] if name in graph.outputs else operators for name, operators in readers.items()}


def match_by_value(first: Mapping[str, Array], second: Mapping[str, Array]) -> dict[str, str]:
    """Map names of values of `second` to names of values of `first` that agree with them, preferably their namesakes.

    A value of `first` is used at most once. A value of `second` without such a match is left out.
    """
    expected, actual = _fingerprint(first.items()), _fingerprint(second.items())
    names: dict[str, str] = {}
    # Values that agree with their namesake come first, so that no other value takes the namesake.
    for name in sorted(actual, key=lambda name: name not in expected or not actual[name].agrees(expected[name])):
        free = (each for each in (name, *expected) if each in expected and each not in names.values())
        match = next((each for each in free if actual[name].agrees(expected[each])), None)
        if match is not None:
            names[name] = match
    return names
