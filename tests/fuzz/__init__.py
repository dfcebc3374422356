"""Fuzzers that stay: `make test` runs a fixed number of cases from fixed seeds, `python -m tests.fuzz` any number.

A fuzzer is a module of this package that is named in `modules.py`, with
  * `NAME`: what it is called on the command line;
  * `BUDGET`: how many cases `make test` runs, some seconds' worth on two cores;
  * `generate(random)`: a case, which JSON can hold: all of it comes from the `random.Random` that is given;
  * `check(case)`: None if the case comes out right, else a sentence. What it says up to the first colon is the kind of
    failure, which a smaller case must share: no names and no numbers there. It runs in a process of its own, so it may
    crash or hang;
  * `shrink(case)`: smaller cases to try in its place, the smallest first;
  * optionally `check_many(cases)`, which answers for many at once and looks after its processes itself; it is asked
    instead of `check`.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
if str(TESTS) not in sys.path:  # as under pytest, so that fuzzers may use what the tests are made of
    sys.path.insert(0, str(TESTS))
