"""A defect of an engine as a value, with minimal cases and their outcomes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from sliceport.defects.engines import ALL_TITLES

Kind = Literal["invalid", "fragile", "defect"]
Evidence = Literal["proved", "reported"]
Handling = Literal["rewritten", "named", "found", "avoided", "unseen"]
_HANDLINGS = {
    "rewritten": "`harden` rewrites it",
    "named": "`harden` names it and leaves it",
    "unseen": "nothing finds it before the model runs",
}
"""The beginning of `Defect.remedy`. For the other handlings, the remedy is the workaround alone."""
_CONTESTED = "because a replacement would change what an engine computes"
"""The reason why `harden` leaves a contested node."""


class Case(Protocol):
    """A model or an operator that shows a defect; its `str` is one line."""

    def to_json(self) -> dict[str, Any]:
        """Return the case as JSON values."""


@dataclass(frozen=True)
class Output:
    """The content of one output.

    Attributes:
        elements: The elements of the output, as positions in the flattened input data.
        shape: The shape of the output; None for a vector.
    """

    elements: Sequence[int]
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        sizes = "" if self.shape is None else f" as {list(self.shape)}"
        if not self.elements:
            return f"nothing{sizes}"
        if isinstance(self.elements, range) and len(self.elements) > 1 and self.elements.step == 1:
            return f"elements {self.elements[0]} to {self.elements[-1]}{sizes}"
        return f"{'element' if len(self.elements) == 1 else 'elements'} {', '.join(map(str, self.elements))}{sizes}"


@dataclass(frozen=True)
class Gives:
    """The outcome that the outputs have certain contents."""

    outputs: tuple[Output, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.outputs))


@dataclass(frozen=True)
class Unwritten:
    """The outcome that an output contains memory that was never written, or memory outside the input.

    Attributes:
        shape: The shape of the first output; None if all shapes are right.
    """

    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return "memory that was never written or is outside the input"


@dataclass(frozen=True)
class Fails:
    """The outcome of an error whose message contains `message`, which may be empty."""

    message: str = ""

    def __str__(self) -> str:
        return f"an error: {self.message}" if self.message else "an error"


@dataclass(frozen=True)
class EndsProcess:
    """The outcome that a signal ends the process."""

    signal: int

    def __str__(self) -> str:
        return f"the end of the process by signal {self.signal}"


@dataclass(frozen=True)
class Bits:
    """The outcome that the output's elements have these bits."""

    bits: tuple[int, ...]

    def __str__(self) -> str:
        return f"bits {', '.join(map(hex, self.bits))}"


@dataclass(frozen=True)
class Accepts:
    """The outcome that the operator is created without an error."""

    def __str__(self) -> str:
        return "no error"


Outcome = Gives | Unwritten | Fails | EndsProcess | Bits | Accepts


def gives(*outputs: Sequence[int], shape: tuple[int, ...] | None = None) -> Gives:
    """Return a `Gives` with an output for each sequence of elements. If `shape` is None, the outputs are vectors."""
    return Gives(
        tuple(Output(elements if isinstance(elements, range) else tuple(elements), shape) for elements in outputs)
    )


@dataclass(frozen=True)
class Example:
    """A minimal case with its outcomes.

    Attributes:
        case: The model or operator. The elements of its data are distinct and not 0.
        right: The right outcome.
        seen: The actual outcome on each engine that ran the case. It may be right.
    """

    case: Case
    right: Outcome
    seen: Mapping[str, Outcome]


@dataclass(frozen=True)
class Divergence:
    """The wrong behavior of one engine.

    Attributes:
        engine: Its name in `ALL_TITLES`.
        does: The behavior, as the end of a sentence that begins with the engine.
        versions: The versions in which the behavior was seen.
        issues: The reports about it: `owner/repository#number`.
        is_unsafe: Whether the engine may end the process, because it reads or frees memory that it does not own. A node
            with such a defect never runs in the process of the user.
        since: The first version that shows the behavior; empty if that version is not known.
        until: The first later version that is right; empty if no such version is known.
        target: The target of `harden` whose form of slicing avoids the behavior, or an empty string.
    """

    engine: str
    does: str
    versions: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    is_unsafe: bool = False
    since: str = ""
    until: str = ""
    target: str = ""

    def __str__(self) -> str:
        issues = f" ({', '.join(self.issues)})" if self.issues else ""
        return f"{ALL_TITLES[self.engine]} {self.does}{issues}"

    def may_affect(self, version: str) -> bool:
        """Return whether a version may show the behavior: it is at least `since` and below `until`, if these are known.

        >>> Divergence("tensorrt", "fails", ("7.0",), until="8.0").may_affect("8.6.1")
        False
        """
        key = version_key(version)
        return (not self.since or key >= version_key(self.since)) and (not self.until or key < version_key(self.until))

    @property
    def seen_in(self) -> str:
        """The versions in which the behavior was seen; if none are known, the limits `since` and `until`."""
        limits = [f"{word} {version}" for word, version in (("from", self.since), ("before", self.until)) if version]
        return ", ".join(self.versions or limits)


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key for a version: its numbers up to the first letter, `-` or `+`, without trailing zeros.

    >>> version_key("2025.2") < version_key("2025.10.1-rc2"), version_key("10"), version_key("10.0.0rc1")
    (True, (10,), (10,))
    """
    # OpenVINO puts the number and the hash of a build after "-"; PEP 440 puts a local version after "+".
    release = re.sub(r"(\.0*)+$", "", re.split(r"[^\d.]", version)[0])
    return tuple(map(int, re.findall(r"\d+", release)))


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A case in which an engine differs from its specification, or from other engines.

    Attributes:
        id: Its name.
        trigger: The model or operator that shows it, as a noun phrase.
        right: The right behavior, with the document or engine that decides.
        divergences: The wrong behavior of each engine.
        examples: Minimal cases. Each divergence of a proved entry occurs in at least one of them.
        clean: Similar cases without the defect: the engines are right about them, and nothing finds or rewrites them.
        handling: The treatment of a node that shows the defect. `rewritten`: `harden` rewrites the node if possible;
            `named`: `harden` reports and keeps it; `found`: only `check` names it; `avoided`: sliceport neither writes
            nor runs it; `unseen`: nothing finds it before the model runs.
        workaround: Details of the handling, or advice to the user.
        is_contested: Whether engines disagree about the result of the node, so that no pass of `rewrite` changes the
            node or infers from it.
        kind: The kind of finding that `check` reports. `invalid`: the node breaks the standard of its operator;
            `fragile`: the node is right for some sizes of an open axis only; `defect`: the node is right, but engines
            are wrong.
        evidence: `proved` by a test on each engine; or `reported`, in the `issues` of the divergences or by a single
            run of their `versions`.
    """

    id: str
    trigger: str
    right: str
    divergences: tuple[Divergence, ...]
    examples: tuple[Example, ...] = field(hash=False)  # an example holds a mapping, which has no hash
    clean: tuple[Example, ...] = field(default=(), hash=False)
    handling: Handling = "rewritten"
    workaround: str
    is_contested: bool = False
    kind: Kind = "defect"
    evidence: Evidence = "proved"

    @property
    def rule(self) -> str:
        """The name of the defect in reports and files: its id with only lower-case letters, digits and `-`."""
        return re.sub(r"[^a-z0-9]+", "-", self.id.lower()).strip("-")

    @property
    def engines(self) -> tuple[str, ...]:
        """The names of the engines that are wrong."""
        return tuple(divergence.engine for divergence in self.divergences)

    @property
    def correct_engines(self) -> tuple[str, ...]:
        """The engines that ran examples and are not wrong."""
        return tuple(
            dict.fromkeys(engine for example in self.examples for engine in example.seen if engine not in self.engines)
        )

    def divergence_on(self, engine: str) -> Divergence:
        """Return the wrong behavior of an engine, which must be one of `engines`."""
        return next(divergence for divergence in self.divergences if divergence.engine == engine)

    def examples_on(self, engine: str) -> tuple[Example, ...]:
        """Return the examples in which an engine is wrong."""
        return tuple(example for example in self.examples if example.seen.get(engine, example.right) != example.right)

    @property
    def remedy(self) -> str:
        """The workaround, after the clause in `_HANDLINGS`, if there is one for `handling`.

        A clause says why `harden` leaves a contested node.
        """
        handling = _HANDLINGS.get(self.handling, "")
        if self.is_contested and self.handling == "named":
            return f"{handling}, {_CONTESTED}; {self.workaround}"
        return ": ".join(filter(None, (handling, self.workaround)))

    @property
    def effect(self) -> str:
        """The wrong behavior of each engine, as a sentence without a full stop."""
        return "; ".join(map(str, self.divergences))

    @property
    def reason(self) -> str:
        """The reason why a node is rewritten, reported or kept, as the end of a sentence."""
        if not self.is_contested:
            return f"given {self.trigger}, {self.effect}"
        others = "".join(f"; {ALL_TITLES[engine]} is right" for engine in self.correct_engines)
        return f"engines disagree about it: {self.right}; {self.effect}{others}"

    def is_unsafe_on(self, engine: str) -> bool:
        """Return whether a node that shows the defect may end the engine's process."""
        return any(divergence.engine == engine and divergence.is_unsafe for divergence in self.divergences)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return {
            "id": self.id,
            "rule": self.rule,
            "kind": self.kind,
            "evidence": self.evidence,
            "trigger": self.trigger,
            "right": self.right,
            "divergences": [asdict(divergence) for divergence in self.divergences],
            "handling": self.handling,
            "workaround": self.workaround,
            "is_contested": self.is_contested,
            "examples": [
                {
                    "case": example.case.to_json(),
                    "right": str(example.right),
                    "seen": {engine: str(outcome) for engine, outcome in example.seen.items()},
                }
                for example in self.examples
            ],
        }
