"""Two models side by side: values matched by name and by content, and the first node whose value differs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sliceport import progress
from sliceport.diffing.difference import Failure, Tolerance, compare_values, narrow_tolerance_of, widen
from sliceport.diffing.graph import Graph
from sliceport.diffing.search import Case, find_ancestors, find_static_values, make_case
from sliceport.diffing.side import RunFailed, Side
from sliceport.engines.engine import Value

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_CHUNK_BYTES = 2**28
_MAX_CHUNK = 512
_MAX_CANDIDATES = 10


@dataclass(frozen=True)
class Fingerprint:
    """A fingerprint of a value, which takes little memory.

    Attributes:
        kind: Its element type and shape.
        digest: The hash of its bytes.
        sums: Sums of its elements with random signs, each over the square root of their number.
        bound: The largest difference of `sums` that rounding may cause.
    """

    kind: tuple[str, tuple[int, ...]]
    digest: bytes
    sums: tuple[complex, ...]
    bound: float

    @classmethod
    def of(cls, array: Array) -> Fingerprint:
        """Return the fingerprint of an array."""
        flat = np.ascontiguousarray(array).reshape(-1)
        data = repr(flat.tolist()).encode() if flat.dtype == object else flat.tobytes()
        sums: tuple[complex, ...] = ()
        bound, tolerance = 0.0, narrow_tolerance_of(flat)
        if tolerance.absolute and flat.size:
            wide = np.nan_to_num(widen(flat), nan=1e3, posinf=1e6, neginf=-1e6)
            signs = np.random.default_rng(0).integers(0, 2, (3, flat.size), np.int8) * 2 - 1
            sums = tuple(complex(signs[i] @ wide) / flat.size**0.5 for i in range(3))
            bound = max(tolerance.absolute, tolerance.relative * float(np.abs(wide).max()))
        return cls((array.dtype.name, array.shape), hashlib.blake2b(data, digest_size=16).digest(), sums, bound)

    def agrees(self, other: Fingerprint) -> bool:
        """Return whether another value is equal, or close as far as the sums show."""
        if self.kind != other.kind or not self.sums:
            return self.kind == other.kind and self.digest == other.digest
        return all(abs(a - b) <= self.bound for a, b in zip(self.sums, other.sums, strict=True))


def fingerprint_values(graph: Graph, side: Side, inputs: Mapping[str, Array]) -> dict[str, Fingerprint]:
    """Return the fingerprint of every value that is an array, by name. Only a few values are in memory at a time."""
    names = [name for node in graph.nodes for name in node.writes]
    fingerprints = {name: Fingerprint.of(array) for name, array in inputs.items()}
    size = 16
    while names:
        progress.say(f"computing the values of the model: {len(names)} left")
        chunk, names = names[:size], names[size:]
        model = graph.cut(find_ancestors(graph, chunk), chunk, inputs, {})
        try:
            values = side.run(model, inputs)
        except RunFailed:
            if len(chunk) > 1:  # one of them cannot be an output, or its node fails
                names, size = chunk + names, max(1, len(chunk) // 4)
            else:
                names = _without_dependents(graph, names, chunk[0])
            continue
        fingerprints |= {name: Fingerprint.of(value) for name, value in values.items() if isinstance(value, np.ndarray)}
        used = sum(value.nbytes for value in values.values() if isinstance(value, np.ndarray))
        size = max(1, min(_MAX_CHUNK, len(chunk) * _CHUNK_BYTES // max(used, 1)))
    return fingerprints


@dataclass(frozen=True)
class Pair:
    """Two models that should compute the same.

    Attributes:
        first: The model that is right by definition.
        second: The other one.
        sides: The engine of each.
        names: The names in the first model of inputs and outputs of the second.
    """

    first: Graph
    second: Graph
    sides: tuple[Side, Side]
    names: Mapping[str, str]
    tolerance: Tolerance | None = None

    def explain(
        self, runs: Sequence[Mapping[str, Array]], outputs: Sequence[str]
    ) -> tuple[Case | None, dict[str, Value] | None, str, tuple[str, ...]]:
        """Return the smallest part of the second model whose value differs first.

        Also return what is expected of it, its counterpart in the first model, and notes.

        Args:
            runs: Inputs of the first model; values that match do so on all of them.
            outputs: The outputs of the second model that may differ on the first of these inputs.
        """
        matched = self._match(runs)
        names = [name for node in self.second.nodes for name in node.writes]
        counts = Counter(matched[name][1] for name in names if name in matched)
        listed = ", ".join(f"{count} {how}" for how, count in sorted(counts.items()))
        notes: tuple[str, ...] = (f"of {len(names)} values of the second model were matched: {listed or 'none'}",)
        located = self._locate(runs[0], matched, outputs)
        if located is None:
            return None, None, "", notes
        case, right, expected = located
        counterpart = ", ".join(map(str, right.nodes)) or "an input or a constant"
        return (*self._enter(case, right, expected), counterpart, notes)

    def _enter(self, case: Case, counterpart: Case, expected: dict[str, Value]) -> tuple[Case, dict[str, Value]]:
        """Return the smallest differing part of the first body run that differs, with its expected values.

        If the case or its counterpart is not one node of control flow, or no run of a body differs, return `case` and
        `expected`.

        Args:
            case: A part of the second model.
            counterpart: The same part of the first model.
            expected: The values that are expected of the case.
        """
        if len(case.numbers) != 1 or len(counterpart.numbers) != 1:
            return case, expected
        first_runs, second_runs = (
            part.graph.bodies(part.numbers[0], part.given, side.run)
            for part, side in zip((counterpart, case), self.sides, strict=True)
        )
        with suppress(RunFailed):  # the engine runs the bodies only within their node
            for first, second in zip(first_runs, second_runs, strict=False):
                second_and_first_names = zip(
                    (*second.graph.inputs, *second.graph.outputs),
                    (*first.graph.inputs, *first.graph.outputs),
                    strict=False,
                )
                names = dict(second_and_first_names)
                inner = Pair(first.graph, second.graph, self.sides, names, self.tolerance)
                located = inner._locate(first.inputs, inner._match([first.inputs]), second.graph.outputs)
                if located is not None:
                    deeper, values = inner._enter(*located)
                    scope = (f"{case.culprit}, {second.title}", *deeper.scope)
                    return replace(deeper, scope=scope, holder=case.culprit), values
        return case, expected

    def _match(self, runs: Sequence[Mapping[str, Array]]) -> dict[str, tuple[str, str]]:
        """Return for each value of the second model its counterpart in the first, and how it was matched."""
        second = [{name: inputs[self.names.get(name, name)] for name in self.second.inputs} for inputs in runs]
        expected = _transpose([fingerprint_values(self.first, self.sides[0], inputs) for inputs in runs])
        got = _transpose([fingerprint_values(self.second, self.sides[1], inputs) for inputs in second])
        are_names_kept = self._are_names_kept()
        by_kind: dict[Any, list[str]] = {}
        for name, fingerprints in expected.items():
            by_kind.setdefault(fingerprints[0].kind, []).append(name)
        matched = {}
        for name, fingerprints in got.items():
            same = self.names.get(name, name)
            if same in expected and _agree(expected[same], fingerprints):
                matched[name] = (same, "by name")
                continue
            others = () if same in expected and are_names_kept else by_kind.get(fingerprints[0].kind, ())
            other = next((other for other in others if _agree(expected[other], fingerprints)), None)
            if other is not None:
                matched[name] = (other, "by value")
            elif same in expected:
                matched[name] = (same, "different")
        missing = (name for node in self.second.nodes for name in node.writes if name not in got)
        named = ((name, self.names.get(name, name)) for name in missing)
        return matched | {name: (same, "different") for name, same in named if same in expected}

    def _are_names_kept(self) -> bool:
        """Return whether equal names mean equal values: not if an exporter numbers them."""
        operators = {name: node.op_type for node in self.first.nodes for name in node.writes}
        same = [node.op_type == operators[n] for node in self.second.nodes for n in node.writes if n in operators]
        return sum(same) * 2 > len(same)

    def _locate(
        self, inputs: Mapping[str, Array], matched: Mapping[str, tuple[str, str]], outputs: Sequence[str]
    ) -> tuple[Case, Case, dict[str, Value]] | None:
        """Return the parts of the second and the first model that compute the first value that differs.

        Also return the expected value, by its name in the second model.
        """
        same = {name: value for name, (value, how) in matched.items() if how != "different"}
        are_names_kept = self._are_names_kept()
        candidates = [
            (name, matched[name][0])
            for number in _walk(self.second, outputs, same)[0]
            for name in self.second.nodes[number].writes
            if are_names_kept and name in matched and name not in same
        ]
        last = [(output, self.names.get(output, output)) for output in outputs]
        for target, counterpart in dict.fromkeys([*candidates[:_MAX_CANDIDATES], *last]):
            numbers, boundary = _walk(self.second, [target], same)
            origin, needed = _walk(self.first, [counterpart], set(same.values()))
            arrays = self._arrays(inputs, {*needed, *(same.get(name, name) for name in boundary), counterpart})
            if not numbers or arrays is None:
                continue
            given = {name: arrays[same.get(name, name)] for name in boundary}
            case = _make_fixed_case(self.second, numbers, target, given)
            right = _make_fixed_case(self.first, origin, counterpart, {name: arrays[name] for name in needed})
            failure = self._failure_of(case, arrays[counterpart])
            if failure is not None:
                return replace(case, failure=failure), right, {target: arrays[counterpart]}
        return None

    def _failure_of(self, case: Case, expected: Array) -> Failure | None:
        try:
            got = self.sides[1].run(case.model, case.inputs)
        except RunFailed as failed:
            return failed.failure
        (name,) = case.outputs
        return compare_values(name, got.get(name), expected, self.tolerance or narrow_tolerance_of(expected)).failure

    def _arrays(self, inputs: Mapping[str, Array], names: Collection[str]) -> dict[str, Array] | None:
        """Return values of the first model by name; None if it cannot be run for them."""
        computed = [name for name in names if name not in inputs]
        values: dict[str, Value] = {name: array for name, array in inputs.items() if name in names}
        if computed:
            model = self.first.cut(find_ancestors(self.first, computed), computed, inputs, {})
            try:
                values |= self.sides[0].run(model, inputs)
            except RunFailed:
                return None
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        return arrays if arrays.keys() >= set(names) else None


def _without_dependents(graph: Graph, names: Sequence[str], value: str) -> list[str]:
    """Return names of values without those that are computed from a value."""
    dependents = {value}
    for node in graph.nodes:
        if not dependents.isdisjoint(node.reads):
            dependents.update(node.writes)
    return [name for name in names if name not in dependents]


def _transpose(runs: Sequence[Mapping[str, Fingerprint]]) -> dict[str, tuple[Fingerprint, ...]]:
    return {name: tuple(run[name] for run in runs) for name in runs[0] if all(name in run for run in runs)}


def _agree(a: tuple[Fingerprint, ...], b: tuple[Fingerprint, ...]) -> bool:
    return all(one.agrees(other) for one, other in zip(a, b, strict=True))


def _walk(graph: Graph, targets: Sequence[str], known: Collection[str]) -> tuple[list[int], list[str]]:
    """Return the nodes that values are computed from, back to known values, in order; and these known values."""
    makers = {name: i for i, node in enumerate(graph.nodes) for name in node.writes}
    front, numbers, boundary = list(targets), set(), dict[str, None]()
    while front:
        name = front.pop()
        if name not in makers or (name in known and name not in targets):
            boundary[name] = None
        elif makers[name] not in numbers:
            numbers.add(makers[name])
            front += graph.nodes[makers[name]].reads
    return sorted(numbers), list(boundary)


def _make_fixed_case(graph: Graph, numbers: Sequence[int], output: str, given: Mapping[str, Array]) -> Case:
    failure = Failure("values", output, "it differs")  # a placeholder until the case has run
    case = make_case(graph, numbers, [output], given, failure, find_static_values(graph))
    return replace(case, has_fixed_shapes=True)
