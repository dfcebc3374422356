"""Long runs: `python -m tests.fuzz [NAME…] --minutes N --seed S`; `--replay FILE` runs a saved failure again."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from pathlib import Path

from .child import check
from .failures import BATCH, Failure, find_failures, minimise
from .modules import NAMES, load

KEPT_OF_A_KIND = 3
BREAKING = "breaking"
"""The fuzzer that this is tested with."""


def main() -> int:
    """Fuzz, or replay; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"fuzzers to run: {', '.join(NAMES)} (all)")
    parser.add_argument("--minutes", type=float, default=1, help="how long to run (1)")
    parser.add_argument("--seed", default="0", help="what the cases follow from (0)")
    parser.add_argument("--save", type=Path, default=Path("fuzz_failures"), metavar="DIR", help="where failures go")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run a saved failure again, and nothing else")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {*NAMES, BREAKING}
    if unknown:
        parser.error(f"there is no fuzzer {', '.join(sorted(unknown))}, only {', '.join(NAMES)}")
    if arguments.replay is not None:
        return replay(arguments.replay)
    return run(arguments.names or [*NAMES], arguments.minutes, arguments.seed, arguments.save)


def replay(path: Path) -> int:
    """Check the case of a saved failure."""
    saved = Failure.load(path)
    complaint = check(load(saved.fuzzer), saved.case)
    print(complaint or "right")
    return int(complaint is not None)


def run(chosen: list[str], minutes: float, seed: str, folder: Path) -> int:
    """Run the fuzzers in turn until the time is over."""
    end = time.monotonic() + 60 * minutes
    cases: Counter[str] = Counter()
    kinds: Counter[tuple[str, str]] = Counter()
    for start in itertools.count(0, BATCH):
        for name in chosen:
            if time.monotonic() >= end:
                return summarise(chosen, cases, kinds)
            for failure in find_failures(load(name), seed, range(start, start + BATCH)):
                kinds[name, failure.kind] += 1
                if kinds[name, failure.kind] <= KEPT_OF_A_KIND:
                    smallest = minimise(failure)
                    print(f"{name}: {smallest.complaint}\n  {smallest.save(folder)}", flush=True)
            cases[name] += BATCH
    raise AssertionError("the loop has no end")


def summarise(chosen: list[str], cases: Counter[str], kinds: Counter[tuple[str, str]]) -> int:
    """Print the counts."""
    for name in chosen:
        failed = sum(count for (fuzzer, _), count in kinds.items() if fuzzer == name)
        print(f"{name}: {cases[name]} cases, {failed} failed")
    for (name, kind), count in kinds.most_common():
        print(f"  {count} {name}: {kind}")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
