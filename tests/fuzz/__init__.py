"""Fuzzers that stay: `test_fuzz.py` draws their cases, and hypothesis makes a case that fails small.

A fuzzer is a module of this package that `modules.py` names, with
  * `BUDGET`: the number of cases that a long run of the suite tries; see `tests/support/amounts.py`;
  * `generate(random)`: a case, all of it drawn from the `random.Random` that is passed;
  * `check(case)`: None if the case comes out right, else a sentence. `check` runs in a process of its own, so it may
    crash or hang;
  * or, instead of `check`, `check_many(cases)`, which answers for many cases at once and looks after its processes
    itself.
"""
