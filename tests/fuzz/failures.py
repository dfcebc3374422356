"""Failures: found, made small, and kept as files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .child import Checker
from .modules import Case, generate

BATCH = 25
MAX_TRIED = 400
"""Smaller cases that are tried for one failure."""


@dataclass(frozen=True)
class Failure:
    """A case that does not come out right, and what is said of it."""

    fuzzer: str
    case: Case
    said: str

    @property
    def kind(self) -> str:
        """Kind of failure: the text up to the first colon."""
        return self.said.split(":")[0]

    def save(self, folder: Path) -> Path:
        """Write it into a folder, named by what it is."""
        digest = hashlib.sha256(json.dumps(self.case, sort_keys=True).encode()).hexdigest()[:10]
        path = folder / f"{self.fuzzer}-{digest}.json"
        run = f"python -m tests.fuzz --replay {path}"
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({"run": run, "fuzzer": self.fuzzer, "said": self.said, "case": self.case}, indent=1) + "\n",
            encoding="utf-8",
        )
        return path

    @staticmethod
    def load(path: Path) -> Failure:
        """Read one that was saved."""
        saved = json.loads(path.read_text(encoding="utf-8"))
        return Failure(saved["fuzzer"], saved["case"], saved["said"])


def find_failures(checker: Checker, seed: str, numbers: range) -> Iterator[Failure]:
    """Return the failures among the cases of a seed."""
    for start in range(numbers.start, numbers.stop, BATCH):
        cases = [generate(checker.fuzzer, seed, number) for number in range(start, min(start + BATCH, numbers.stop))]
        for case, said in zip(cases, checker.check_many(cases), strict=True):
            if said is not None:
                yield Failure(checker.fuzzer.NAME, case, said)


def minimise(checker: Checker, failure: Failure) -> Failure:
    """Return the smallest case found that fails in the same way."""
    tried = {_key(failure.case)}
    left = MAX_TRIED
    while left:
        for case in checker.fuzzer.shrink(failure.case):
            if _key(case) in tried:
                continue
            tried.add(_key(case))
            left -= 1
            said = checker.check(case)
            smaller = failure if said is None else Failure(failure.fuzzer, case, said)
            if smaller is not failure and smaller.kind == failure.kind:
                failure = smaller
                break
            if not left:
                return failure
        else:
            return failure
    return failure


def _key(case: Case) -> str:
    return json.dumps(case, sort_keys=True)
