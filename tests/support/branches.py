"""Branches of Python functions that a run takes: both ways of each conditional jump in their bytecode."""

from __future__ import annotations

import dis
import itertools
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any


def functions_of(module: ModuleType) -> Iterator[CodeType]:
    """Yield the code of every function of a module, methods and comprehensions included."""
    source = Path(str(module.__file__)).read_text("utf-8")
    waiting = [compile(source, str(module.__file__), "exec")]
    while waiting:
        code = waiting.pop()
        waiting += [const for const in code.co_consts if isinstance(const, CodeType)]
        if code.co_flags & 2:  # CO_NEWLOCALS: a function rather than a module or the body of a class
            yield code


def trace_jumps(run: Callable[[], object], modules: list[ModuleType]) -> dict[tuple[str, str], set[tuple[int, int]]]:
    """Return the pairs of bytecode offsets that follow each other while `run` runs, by file and function."""
    files = {str(module.__file__) for module in modules}
    pairs: dict[tuple[str, str], set[tuple[int, int]]] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in files:
            return None
        frame.f_trace_opcodes, last = True, -1
        taken = pairs.setdefault((code.co_filename, f"{code.co_qualname}:{code.co_firstlineno}"), set())

        def follow(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "opcode":
                taken.add((last, frame.f_lasti))
                last = frame.f_lasti
            return follow

        return follow

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return pairs


def missing_branches(run: Callable[[], object], modules: list[ModuleType]) -> set[tuple[str, str]]:
    """Return the branches that `run` does not take: the function's name and the line of source."""
    pairs = trace_jumps(run, modules)
    missing = set()
    for code in [code for module in modules for code in functions_of(module)]:
        taken = pairs.get((code.co_filename, f"{code.co_qualname}:{code.co_firstlineno}"), set())
        instructions = list(dis.get_instructions(code))
        line = code.co_firstlineno
        for this, following in itertools.pairwise(instructions):
            line = this.positions.lineno or line if this.positions else line
            if ("JUMP" in this.opname and "_IF_" in this.opname) or this.opname == "FOR_ITER":
                targets = {target == following.offset for source, target in taken if source == this.offset}
                if targets != {True, False}:
                    missing.add((code.co_qualname, linecache.getline(code.co_filename, line).strip()))
        if not taken:
            missing.add((code.co_qualname, ""))
    return missing
