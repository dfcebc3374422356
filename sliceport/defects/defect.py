"""What a defect of an engine is, as a value; and what comes out of a minimal case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """A model, or an operator, that shows a defect; `str` gives it on one line."""

    def to_json(self) -> dict[str, Any]:
        """The case as JSON values."""
        ...


@dataclass(frozen=True)
class Output:
    """What one output holds.

    Attributes:
        elements: Which elements of the data, by their indices.
        shape: Its shape; None for a vector of them.
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
    """These outputs."""

    outputs: tuple[Output, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.outputs))


@dataclass(frozen=True)
class Unwritten:
    """Outputs of which at least one lies in memory that was never written, or that is not the input's.

    Attributes:
        shape: The shape of the first; None where all shapes are right.
    """

    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return "memory that was never written"


@dataclass(frozen=True)
class Fails:
    """An error whose message has these words; any error where there are none."""

    message: str = ""

    def __str__(self) -> str:
        return f"an error: {self.message}" if self.message else "an error"


@dataclass(frozen=True)
class EndsProcess:
    """The end of the process, by this signal."""

    signal: int

    def __str__(self) -> str:
        return f"the end of the process by signal {self.signal}"


@dataclass(frozen=True)
class Bits:
    """Elements with these bits."""

    bits: tuple[int, ...]

    def __str__(self) -> str:
        return f"bits {', '.join(map(hex, self.bits))}"


@dataclass(frozen=True)
class Accepts:
    """An operator that is created."""

    def __str__(self) -> str:
        return "no error"


Outcome = Gives | Unwritten | Fails | EndsProcess | Bits | Accepts


def gives(*outputs: Sequence[int], shape: tuple[int, ...] | None = None) -> Gives:
    """Outputs by the indices of their elements; a single one may have a shape of its own."""
    return Gives(
        tuple(Output(elements if isinstance(elements, range) else tuple(elements), shape) for elements in outputs)
    )


@dataclass(frozen=True)
class Example:
    """A minimal case.

    Attributes:
        case: The model or operator. Its data are all different, and none is 0.
        right: What has to come out.
        seen: By engine what comes out. Engines that are right may be named, too.
    """

    case: Case
    right: Outcome
    seen: Mapping[str, Outcome]


@dataclass(frozen=True)
class Divergence:
    """What one engine does.

    Attributes:
        engine: Its name in `TITLES`.
        does: What it does, as the end of a sentence that begins with the engine.
        versions: The versions that it was seen with.
        issues: Where it is reported: `owner/repository#number`.
        is_unsafe: Whether it ends the process, or may, as it reads or frees memory that is not its own: no such node is
            run in the process of the user.
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
    """Something that engines do wrong.

    Attributes:
        id: Its name.
        trigger: What a model or operator must have for it, as a noun phrase.
        right: What is right, and by which document or engine.
        divergences: What each engine does instead.
        examples: Minimal cases; each divergence is seen in one.
        handling: What becomes of such a node: `harden` has it `rewritten` where it can; it is `named` and left; it is
            `avoided`, as sliceport writes and runs nothing of the kind; or it is `unseen`, because it only shows when
            the model runs.
        workaround: What becomes of it in detail, or what a user can do.
        is_contested: Whether engines disagree about what the node computes, so that no pass of `rewrite` touches it or
            infers from it.
    """

    id: str
    trigger: str
    right: str
    divergences: tuple[Divergence, ...]
    examples: tuple[Example, ...] = field(hash=False)
    handling: Handling
    workaround: str
    is_contested: bool = False

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that are wrong."""
        return tuple(divergence.engine for divergence in self.divergences)

    @property
    def engines_right(self) -> tuple[str, ...]:
        """The engines that were seen to be right."""
        return tuple(dict.fromkeys(e for example in self.examples for e in example.seen if e not in self.engines))

    def examples_on(self, engine: str) -> tuple[Example, ...]:
        """The examples in which an engine is wrong."""
        return tuple(one for one in self.examples if one.seen.get(engine, one.right) != one.right)

    @property
    def remedy(self) -> str:
        """What becomes of such a node, and what a user can do."""
        handling = _HANDLINGS[self.handling]
        if self.is_contested and self.handling == "named":
            return f"{handling}, {_CONTESTED}; {self.workaround}"
        return ": ".join(filter(None, (handling, self.workaround)))

    @property
    def effect(self) -> str:
        """What each engine does, as a sentence without a full stop."""
        return "; ".join(map(str, self.divergences))

    @property
    def reason(self) -> str:
        """Why a node is rewritten, named or left, as the end of a sentence."""
        if not self.is_contested:
            return f"given {self.trigger}, {self.effect}"
        others = "".join(f"; {TITLES[engine]} is right" for engine in self.engines_right)
        return f"engines disagree about it: {self.right}; {self.effect}{others}"

    def is_unsafe_on(self, engine: str) -> bool:
        """Whether an engine ends the process of such a node, or may."""
        return any(divergence.engine == engine and divergence.is_unsafe for divergence in self.divergences)

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON values."""
        return {
            "id": self.id,
            "trigger": self.trigger,
            "right": self.right,
            "divergences": [
                {
                    "engine": divergence.engine,
                    "does": divergence.does,
                    "versions": list(divergence.versions),
                    "issues": list(divergence.issues),
                    "is_unsafe": divergence.is_unsafe,
                }
                for divergence in self.divergences
            ],
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
