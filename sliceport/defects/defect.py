"""A defect of an engine as a value, with minimal cases and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from sliceport.defects.engines import TITLES

Handling = Literal["rewritten", "named", "avoided", "unseen"]
_HANDLINGS = {
    "rewritten": "`harden` rewrites it",
    "named": "`harden` names it and leaves it",
    "avoided": "",
    "unseen": "nothing finds it before the model runs",
}
_CONTESTED = "as a replacement would change what an engine computes"


class Case(Protocol):
    """A model or an operator that shows a defect; its `str` is one line."""

    def to_json(self) -> dict[str, Any]:
        """Return the case as JSON values."""
        ...


@dataclass(frozen=True)
class Output:
    """The content of one output.

    Attributes:
        elements: Indices of the elements of the data.
        shape: The shape of the output; None for a vector.
    """

    elements: Sequence[int]
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        sizes = "" if self.shape is None else f" as {list(self.shape)}"
        if isinstance(self.elements, range) and len(self.elements) > 1:
            return f"elements {self.elements[0]} to {self.elements[-1]}{sizes}"
        listed = ", ".join(map(str, self.elements))
        return f"element{'s' * (len(self.elements) != 1)} {listed}{sizes}" if self.elements else f"nothing{sizes}"


@dataclass(frozen=True)
class Gives:
    """The outcome that the outputs have these contents."""

    outputs: tuple[Output, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.outputs))


@dataclass(frozen=True)
class Unwritten:
    """The outcome that an output holds memory that was never written, or that is outside the input.

    Attributes:
        shape: The shape of the first output; None if all shapes are right.
    """

    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return "memory that was never written"


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
    """Build `Gives` from the element indices of each output; `shape` is the shape of every output."""
    return Gives(
        tuple(Output(elements if isinstance(elements, range) else tuple(elements), shape) for elements in outputs)
    )


@dataclass(frozen=True)
class Example:
    """A minimal case.

    Attributes:
        case: The model or operator. Its data are distinct and not 0.
        right: The right outcome.
        seen: The actual outcome by engine, which may be right.
    """

    case: Case
    right: Outcome
    seen: Mapping[str, Outcome]


@dataclass(frozen=True)
class Divergence:
    """The wrong behaviour of one engine.

    Attributes:
        engine: Its name in `TITLES`.
        does: The behaviour, as the end of a sentence that begins with the engine.
        versions: The versions that show it.
        issues: The reports about it: `owner/repository#number`.
        is_unsafe: Whether it ends the process or may do so, because it reads or frees memory of others. Such a node is
            never run in the process of the user.
    """

    engine: str
    does: str
    versions: tuple[str, ...]
    issues: tuple[str, ...] = ()
    is_unsafe: bool = False

    def __str__(self) -> str:
        issues = f" ({', '.join(self.issues)})" if self.issues else ""
        return f"{TITLES[self.engine]} {self.does}{issues}"


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A case in which an engine differs from its specification, or from other engines.

    Attributes:
        id: Its name.
        trigger: The model or operator that shows it, as a noun phrase.
        right: The right behaviour, with the document or engine that decides.
        divergences: The wrong behaviour of each engine.
        examples: Minimal cases; each divergence occurs in at least one.
        handling: The treatment of such a node. `rewritten`: `harden` rewrites it if it can; `named`: `harden` reports
            and keeps it; `avoided`: sliceport neither writes nor runs such nodes; `unseen`: nothing finds it before
            the model runs.
        workaround: Details of the handling, or advice to the user.
        is_contested: Whether engines disagree about the result of the node, so that no pass of `rewrite` touches it or
            infers from it.
    """

    id: str
    trigger: str
    right: str
    divergences: tuple[Divergence, ...]
    examples: tuple[Example, ...] = field(hash=False)
    handling: Handling = "rewritten"
    workaround: str
    is_contested: bool = False

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that are wrong."""
        return tuple(divergence.engine for divergence in self.divergences)

    @property
    def correct_engines(self) -> tuple[str, ...]:
        """The engines whose outcomes in the examples are right."""
        return tuple(dict.fromkeys(e for example in self.examples for e in example.seen if e not in self.engines))

    def examples_on(self, engine: str) -> tuple[Example, ...]:
        """Return the examples in which an engine is wrong."""
        return tuple(one for one in self.examples if one.seen.get(engine, one.right) != one.right)

    @property
    def remedy(self) -> str:
        """The handling of such a node, and the workaround."""
        handling = _HANDLINGS[self.handling]
        if self.is_contested and self.handling == "named":
            return f"{handling}, {_CONTESTED}; {self.workaround}"
        return ": ".join(filter(None, (handling, self.workaround)))

    @property
    def effect(self) -> str:
        """The behaviour of each engine, as a sentence without a full stop."""
        return "; ".join(map(str, self.divergences))

    @property
    def reason(self) -> str:
        """The reason why a node is rewritten, named or kept, as the end of a sentence."""
        if not self.is_contested:
            return f"given {self.trigger}, {self.effect}"
        others = "".join(f"; {TITLES[engine]} is right" for engine in self.correct_engines)
        return f"engines disagree about it: {self.right}; {self.effect}{others}"

    def is_unsafe_on(self, engine: str) -> bool:
        """Whether such a node ends the engine's process, or may do so."""
        return any(divergence.engine == engine and divergence.is_unsafe for divergence in self.divergences)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return {
            "id": self.id,
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
