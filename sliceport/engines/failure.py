"""The failure of a run, or of one output of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "error", "adapter", "crash", "memory", "missing", "structure", "type", "shape", "nan", "infinity", "values"
]  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """A failure of a run.

    Attributes:
        kind: `error`, `adapter` (only this machine's adapter does not run it), `crash` and `memory` are about the whole
            run, the other kinds about one output.
        output: The name of the output; empty for a failure of the whole run.
        message: One sentence without a full stop, or the end of one.
    """

    kind: Kind
    output: str
    message: str

    @property
    def is_of_run(self) -> bool:
        """Whether the whole run failed, so that it has no outputs."""
        return not self.output

    def is_like(self, other: Failure) -> bool:
        """Return whether two failures are alike.

        Failures of runs must have the same kind, and the same message apart from names, numbers and paths. Any two
        differences of outputs are alike, because later nodes may change the kind of a difference.
        """
        if self.is_of_run or other.is_of_run:
            return self.kind == other.kind and _strip_names(self.message) == _strip_names(other.message)
        return True


def _strip_names(message: str) -> str:
    """Return the start of a message without the names, numbers and paths that change when a model is cut."""
    # Remove text in quotes or parentheses, paths, and the word after "node", "name" and so on.
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\S*/\S*", " ", message)
    plain = re.sub(r"(?i)\b(node|name|input|output|initializer)s?:? ?\S+", " ", plain)
    # Only the first 200 characters count, because `shorten` may have removed the end of either message.
    return " ".join(re.sub(r"0x[0-9a-f]+|\d+|[{}\[\],.]", " ", plain).split())[:200]
