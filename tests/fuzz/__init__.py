"""Fuzzers that stay: `make test` runs a fixed number of cases from fixed seeds, `python -m tests.fuzz` any number.

A fuzzer is a module of this package that `modules.py` names, with
  * `NAME`: its name on the command line;
  * `BUDGET`: the number of cases that a long run of the suite tries; see `tests/support/amounts.py`;
  * `generate(random)`: a case of JSON values, all of it drawn from the `random.Random` that is passed;
  * `check(case)`: None if the case comes out right, else a sentence. The text before its first colon is the kind of
    failure, which a smaller case must share: no names and no numbers there. `check` runs in a process of its own, so it
    may crash or hang;
  * `shrink(case)`: smaller cases to try instead, the smallest first;
  * optionally `check_many(cases)`, which answers for many cases at once and looks after its processes itself. It is
    called instead of `check`.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
if str(TESTS) not in sys.path:  # as under pytest, so that fuzzers can use the tests' modules
    sys.path[:0] = map(str, (TESTS, TESTS / "support", *(TESTS / "support").glob("[a-z]*/")))
