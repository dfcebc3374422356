"""Failures: search for them, minimise them, and keep them as files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .child import check, check_many
from .modules import Case, Fuzzer, generate, load

BATCH = 25
MAX_TRIED = 400
"""Number of smaller cases that are tried for one failure."""


@dataclass(frozen=True)
class Failure:
    """A case that does not come out right, and the complaint about it."""

    fuzzer: str
    case: Case
    complaint: str

    @property
    def kind(self) -> str:
        """Kind of failure: the text up to the first colon."""
        return self.complaint.split(":")[0]

    def save(self, folder: Path) -> Path:
        """Write the failure into a folder, to a file named by the hash of the case."""
        digest = hashlib.sha256(json.dumps(self.case, sort_keys=True).encode()).hexdigest()[:10]
        path = folder / f"{self.fuzzer}-{digest}.json"
        run = f"python -m tests.fuzz --replay {path}"
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({"run": run, "fuzzer": self.fuzzer, "complaint": self.complaint, "case": self.case}, indent=1)
            + "\n",
            encoding="utf-8",
        )
        return path

    @staticmethod
    def load(path: Path) -> Failure:
        """Read a failure that was saved."""
        saved = json.loads(path.read_text(encoding="utf-8"))
        return Failure(saved["fuzzer"], saved["case"], saved["complaint"])


def find_failures(fuzzer: Fuzzer, seed: str, numbers: range) -> Iterator[Failure]:
    """Yield the failures among the cases of a seed."""
    for start in range(numbers.start, numbers.stop, BATCH):
        cases = [generate(fuzzer, seed, number) for number in range(start, min(start + BATCH, numbers.stop))]
        for case, complaint in zip(cases, check_many(fuzzer, cases), strict=True):
            if complaint is not None:
                yield Failure(fuzzer.NAME, case, complaint)


def minimise(failure: Failure) -> Failure:
    """Return the smallest case found that fails in the same way."""
    fuzzer = load(failure.fuzzer)
    tried = {_key(failure.case)}
    while (smaller := _find_smaller(fuzzer, failure, tried)) is not None:
        failure = smaller
    return failure


def _find_smaller(fuzzer: Fuzzer, failure: Failure, tried: set[str]) -> Failure | None:
    """Return a smaller case that fails in the same way, and note the cases that are tried."""
    for case in fuzzer.shrink(failure.case):
        if len(tried) > MAX_TRIED:
            return None
        if _key(case) not in tried:
            tried.add(_key(case))
            complaint = check(fuzzer, case)
            smaller = failure if complaint is None else Failure(failure.fuzzer, case, complaint)
            if smaller is not failure and smaller.kind == failure.kind:
                return smaller
    return None


def _key(case: Case) -> str:
    return json.dumps(case, sort_keys=True)
