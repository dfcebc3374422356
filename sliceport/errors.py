"""Errors and refusals.

Every message is one sentence. It names the operator and node, the rule, the wrong value and the remedy, where they
exist. It must be understandable inside another library's traceback.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Rule = Literal["list", "sizes", "count", "no sizes", "uneven", "num_outputs above", "num_outputs below"]
"""Rules for parameters of slicing nodes. The table of defects has a separate entry for each of these rules."""


class SliceportError(Exception):
    """Base of the errors of sliceport."""


class InvalidSlice(SliceportError, ValueError):
    """A node breaks its operator's specification (step 0, parts that do not sum, an axis out of range, ...).

    Attributes:
        rule: The rule that the node breaks, if the table of defects has a separate entry for that rule; else None.
    """

    def __init__(self, message: str = "", rule: Rule | None = None) -> None:
        super().__init__(message)
        self.rule = rule


class UnsupportedSlice(SliceportError, ValueError):
    """A legal node that is not lowered (strings, too many dimensions, sizes beyond UINT32, an unknown shape, ...)."""


class DynamicSlice(SliceportError, ValueError):
    """A node whose shape or parameters are known at run time only."""


class InvalidDescriptor(SliceportError, ValueError):
    """A DirectML struct breaks a rule that its documentation states."""


class ModelError(SliceportError, ValueError):
    """A model, or a file that belongs to it, cannot be read or is not well-formed."""


class UsageError(SliceportError, ValueError):
    """An option or argument that cannot be used, such as a shape for an input that the model lacks."""


class OutputError(SliceportError, OSError):
    """The result cannot be written to stdout."""


class MissingExtra(SliceportError, ImportError):
    """An optional package is needed and not installed; the message names the extra that installs it."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> MissingExtra:
        """Return the error for a package that `extra` installs. `purpose`, such as `by --html`, follows "is needed"."""
        return cls(f'{package} is needed {purpose}, but it is not installed; run: pip install "sliceport[{extra}]".')


_LACKS_OF_MEMORY = (
    "std::bad_alloc",  # C++
    "bad allocation",  # C++ on Windows
    "Arena alloc failed",  # protobuf
    "Cannot allocate memory",  # the system
    r"Failed to allocate memory for requested buffer of size \d+",  # onnxruntime
)
_OUT_OF_MEMORY = re.compile(
    # A message ends with such a text. A place may precede it: `file.cc:9 name(…)`, on Windows `file.cc:9 ns::name`.
    rf"(?m)^(.*([:)\]]|::\w+) +)?({'|'.join(_LACKS_OF_MEMORY)})\s*\Z"
    r"|^ *what\(\): +std::bad_alloc$"  # a C++ program that ends prints this
)
"""Errors for a lack of memory. Names that look like such errors are quoted in messages, so the pattern skips them."""


def list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the errors that led to it, the latest first."""
    seen: set[int] = set()  # chains of errors can be circular
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__  # `from None` keeps the context and only hides it


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one that led to it, means that there was not enough memory."""
    for cause in list_causes(error):
        # A SliceportError may quote a name that looks like a lack of memory, so only a child's `stderr` counts.
        text = getattr(cause, "stderr", "") if isinstance(cause, SliceportError) else str(cause)
        is_enomem = isinstance(cause, OSError) and cause.errno == errno.ENOMEM  # its text differs between systems
        if isinstance(cause, MemoryError) or is_enomem or _OUT_OF_MEMORY.search(text):
            return True
    return False


def model_error(message: str, cause: BaseException) -> ModelError | MemoryError:
    """Return a ModelError with a message, or a MemoryError if `cause` is a lack of memory."""
    return MemoryError(message) if is_out_of_memory(cause) else ModelError(message)


def unknown_name(kind: str, name: object, known: Sequence[str]) -> UsageError:
    """Return the error for a name that is not in `known`. Its message lists these names and suggests a similar one."""
    from difflib import get_close_matches

    nearest = get_close_matches(name, known, 1) if isinstance(name, str) else []
    hint = f", did you mean {nearest[0]!r}?" if nearest else ""
    return UsageError(f"{kind} {name!r} is not known{hint or ';'} known are {', '.join(known)}.")


def check_names(kind: str, names: Iterable[object], known: Iterable[str]) -> None:
    """Raise the UsageError of `unknown_name` for the first name that is not known."""
    choices = list(dict.fromkeys(known))
    for name in names:
        if name not in choices:
            raise unknown_name(kind, name, choices)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a node is not lowered: a stable code for programs and a sentence for people.

    Codes:
      * `invalid`: the node breaks its operator's specification, or an output may overlap itself in its layout.
      * `missing_shape`: the shape of its input is not known.
      * `dynamic_parameter`: starts, ends, axes, steps or split are known at run time only.
      * `missing_parameter`: a parameter is stored in an external data file that does not exist.
      * `unsupported_type`: no DirectML data type carries the elements.
      * `unaligned_type`: elements smaller than a byte (or than the level's smallest type) are cut inside a byte.
      * `rank_limit`: more dimensions remain after coalescing than the operator accepts at this feature level.
      * `size_limit`: a size, stride, offset or element count beyond what DirectML addresses.
      * `feature_level`: the operator that is needed does not exist at this feature level.
    """

    code: str
    message: str
