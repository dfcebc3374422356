"""Mutation testing: `python -m tests.mutate sliceport/slicing --budget 10` says which single changes no test notices.

Each mutant is the code with one change: a comparison, a number, an `and`, a condition, a statement left out. A process
that has collected the tests is forked for it, the function's code replaced, and the tests run to the first failure; a
change outside functions is imported in a process of its own. A mutant that no test fails on is a survivor: a test is
missing, or the change makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import copy
import doctest
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import itertools
import os
import pickle
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
_SLICING, _DIRECTML, _ONNX, _PASSES = "sliceport/slicing", "sliceport/directml", "onnx_ops", "onnx_ops/passes"
TESTS = {
    "sliceport/slicing": (
        tuple(f"{_SLICING}/test_{name}.py" for name in ("region", "axis_slice", "axis", "fewest_axes", "check")),
        (f"{_SLICING}/test_spec.py", f"{_ONNX}/lowering/test_vectors_strided_slice.py"),
        tuple(f"{_SLICING}/test_{name}.py" for name in ("hypothesis", "selecting_hypothesis", "cover_exhaustive")),
        (f"{_DIRECTML}/test_lower.py", f"{_ONNX}/lowering/test_random_graphs.py", "ov_ext/test_shapes.py"),
        (f"{_PASSES}/test_conditions.py", f"{_PASSES}/test_examples.py"),
    ),
    "sliceport/directml/dxdispatch.py": (
        (f"{_DIRECTML}/test_dxdispatch.py",),
        ("sliceport/cli/test_cli.py", "test_models.py"),
    ),
    "sliceport/directml": (
        (f"{_DIRECTML}/test_operators.py", f"{_DIRECTML}/test_tensor.py"),
        (f"{_DIRECTML}/test_lower.py",),
        (f"{_ONNX}/lowering/test_random_graphs.py", f"{_DIRECTML}/test_dxdispatch.py", "test_models.py"),
    ),
    "onnx_ops/infer": (
        (f"{_ONNX}/infer/test_exact.py", f"{_ONNX}/infer/test_propagate.py"),
        (f"{_ONNX}/infer/test_differential.py",),
    ),
    "onnx_ops/passes": (
        (f"{_PASSES}/test_examples.py",),
        (f"{_PASSES}/test_rules.py", f"{_PASSES}/test_conditions.py"),
        (f"{_PASSES}/test_rewrite.py", f"{_PASSES}/test_harden_directml.py", f"{_ONNX}/test_left_out_outputs.py"),
    ),
}
"""The tests of a part in groups, those that fail soonest first."""
OPTIONS = "-x -q --assert=plain --tb=no -p no:cacheprovider -p no:xdist -W ignore::pytest.PytestWarning".split()  # noqa: SIM905
MIN_TIMEOUT = 60.0
SLOW_TIMEOUT = 3600.0
PROGRESS = 20
SWAPS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Mutant:
    """A file with one change."""

    path: Path
    line: int
    before: str
    after: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


def mutants(path: Path) -> Iterator[Mutant]:
    """Return every mutant of a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for number, (node, parent) in enumerate(_places(ast.parse(text))):
        for change in range(len(_changes(node))):
            tree = ast.parse(text)
            target, around = next(itertools.islice(_places(tree), number, None))
            before = ast.unparse(_shown(target, around))
            replaced = _changes(target)[change]
            _replace(around, target, replaced)
            shown = replaced if isinstance(target, ast.stmt) else _shown(replaced, around)
            line = getattr(node, "lineno", getattr(parent, "lineno", 0))
            yield Mutant(path, line, _short(before), _short(ast.unparse(shown)), ast.fix_missing_locations(tree))


def _short(text: str) -> str:
    return " ".join(text.split())[:90]


def _shown(node: ast.AST, parent: ast.AST) -> ast.AST:
    """Return the node to show for a change: an operator by its expression."""
    return node if isinstance(node, ast.expr | ast.stmt) else parent


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Return the nodes that may be changed, and their parents; not annotations, decorators, docstrings and messages."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            yield child, tree
            if not isinstance(child, ast.Raise):
                yield from _places(child)


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword) and node.arg == "strict":  # an assertion
        return True
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _changes(node: ast.AST) -> list[ast.AST]:
    """Return the replacements of a node."""
    if type(node) in SWAPS:
        return [other() for other in SWAPS[type(node)]]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return [ast.Constant(not node.value)]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return [ast.Constant(node.value + 1), ast.Constant(node.value - 1)]
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare | ast.Constant):
        other = copy.deepcopy(node)
        other.test = ast.UnaryOp(ast.Not(), other.test)
        return [other]
    if isinstance(node, ast.comprehension) and node.ifs:
        whole = copy.deepcopy(node)
        whole.ifs = []
        return [whole]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        return [node.operand]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in NAMES:
        return [ast.Name(NAMES[node.id], ast.Load())]
    if isinstance(node, ast.Raise | ast.AugAssign | ast.Break) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        return [ast.Pass()]
    if isinstance(node, ast.Continue):
        return [ast.Break()]
    return []


def _replace(parent: ast.AST, target: ast.AST, new: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is target:
            setattr(parent, name, new)
        elif isinstance(value, list):
            setattr(parent, name, [new if item is target else item for item in value])


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from its mutated tree."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.name = _module_name(mutant.path)

    def find_spec(
        self, fullname: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        where = str(ROOT / self.mutant.path)
        return importlib.util.spec_from_file_location(fullname, where, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.mutant.tree, str(ROOT / self.mutant.path), "exec"), module.__dict__)


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def run(mutant: Mutant | None, tests: Groups, timeout: float) -> str:
    """Return `killed`, `survived` or `timed out`; the code as it is, without a mutant."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os._exit(_child(mutant, tests))
    return _wait(pid, timeout)


def _wait(pid: int, timeout: float) -> str:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.02)
    os.killpg(pid, 9)
    os.waitpid(pid, 0)
    return "timed out"


def _be_quiet() -> None:
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)


def _child(mutant: Mutant | None, tests: Groups) -> int:
    """Run the tests with a mutant in place; 0 if nothing fails."""
    import pytest

    _be_quiet()
    try:
        if mutant is not None:
            finder = _Finder(mutant)
            sys.meta_path.insert(0, finder)
            module = importlib.import_module(finder.name)
            if doctest.testmod(module).failed:
                return 1
        return int(any(pytest.main([*OPTIONS, *group]) for group in tests))
    except BaseException:
        return 1


Function = tuple[str, str]
"""The file and the qualified name of a function."""


def _outer_functions(code: CodeType) -> dict[str, CodeType]:
    """Return the functions of a module that are in no other function, by their qualified names."""
    found = {}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & inspect.CO_NEWLOCALS and each.co_flags & inspect.CO_OPTIMIZED:
                found[each.co_qualname] = each
            else:
                found |= _outer_functions(each)  # a class
    return found


def _skeleton(code: CodeType) -> object:
    """Return a module's code without that of its functions."""
    functions = set(_outer_functions(code).values())
    consts = [
        None if each in functions else _skeleton(each) if isinstance(each, CodeType) else repr(each)
        for each in code.co_consts
    ]
    return code.co_code, consts, code.co_names


def _changed_functions(mutant: Mutant) -> dict[str, CodeType] | None:
    """Return the functions that a mutant changes, by their qualified names; None where it changes more than them."""
    path = str(ROOT / mutant.path)
    source = ast.parse((ROOT / mutant.path).read_text(encoding="utf-8"))
    before, after = compile(source, path, "exec"), compile(mutant.tree, path, "exec")
    if _skeleton(before) != _skeleton(after):
        return None
    old = _outer_functions(before)
    return {name: code for name, code in _outer_functions(after).items() if code != old[name]}


def _live_functions(paths: Iterable[Path]) -> dict[Function, list[FunctionType]]:
    """Return the functions of modules that are imported."""
    files = {str(ROOT / path) for path in paths}
    found: dict[Function, list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # conftest.py freezes what is imported, and get_objects leaves that out
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in files:
            found[each.__code__.co_filename, each.__code__.co_qualname].append(each)
    assert found, "no function of these files is imported, so no mutant would be tried"
    return found


class _Forks:
    """A plugin of pytest: once the tests are collected, each mutant is tried in a fork, by the tests that reach it."""

    def __init__(self, chosen: Sequence[tuple[Mutant, dict[str, CodeType]]], report: Report, budget: float) -> None:
        self.chosen = chosen
        self.report = report
        self.budget = budget
        self.live: dict[Function, list[FunctionType]] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "reached"
            said = _wait(self._fork(session, partial(self._record, session, log)), SLOW_TIMEOUT)
            if said != "survived":
                failed = log.read_text(encoding="utf-8") if log.exists() else "their process"
                print(f"without a mutant, {failed} fails", flush=True)
                raise session.Failed
            reached: list[tuple[float, set[Function]]] = pickle.loads(log.read_bytes())
        self.live = _live_functions({mutant.path for mutant, _ in self.chosen})
        gc.freeze()
        end = time.monotonic() + self.budget
        for mutant, changed in self.chosen:
            if time.monotonic() > end:
                break
            functions = {(str(ROOT / mutant.path), name) for name in changed}
            pairs = zip(session.items, reached, strict=True)
            found = sorted([(took, i, item) for i, (item, (took, ran)) in enumerate(pairs) if ran & functions])
            items = [item for _, _, item in found]
            pid = self._fork(session, partial(self._try, session, mutant, changed, items))
            self.report.add(mutant, _wait(pid, MIN_TIMEOUT + 10 * sum(took for took, _, _ in found)))
        return True

    def _fork(self, session: Any, do: Callable[[], bool]) -> int:
        pid = os.fork()
        if pid:
            return pid
        os.setsid()
        _be_quiet()
        session.config.pluginmanager.unregister(name="terminalreporter")
        try:
            os._exit(0 if do() else 1)
        except BaseException:
            os._exit(1)

    def _record(self, session: Any, log: Path) -> bool:
        """Run all tests, and write how long each took and what functions it reached; whether all passed."""
        paths = {str(ROOT / mutant.path) for mutant, _ in self.chosen}
        found = []
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            ran: set[Function] = set()

            def record(frame: Any, event: str, _: object, ran: set[Function] = ran) -> None:
                if event == "call" and frame.f_code.co_filename in paths:
                    ran.add((frame.f_code.co_filename, frame.f_code.co_qualname.split(".<locals>")[0]))

            start = time.monotonic()
            sys.setprofile(record)
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.setprofile(None)
            found.append((time.monotonic() - start, ran))
            if session.testsfailed:
                log.write_text(item.nodeid, encoding="utf-8")
                return False
        log.write_bytes(pickle.dumps(found))
        return True

    def _try(self, session: Any, mutant: Mutant, changed: Mapping[str, CodeType], items: Sequence[Any]) -> bool:
        """Whether all tests pass with the mutant in place."""
        for name, code in changed.items():
            for function in self.live[str(ROOT / mutant.path), name]:
                function.__code__ = code
        for item in items:
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if session.testsfailed:
                return False
        return True


class Report:
    """Counts of killed and surviving mutants."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.counts: Counter[str] = Counter()

    def add(self, mutant: Mutant, said: str) -> None:
        """Count a mutant, and print it if it survived."""
        self.counts[said] += 1
        if said == "survived":
            print(mutant, flush=True)
            print("    " + (ROOT / mutant.path).read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip())
        if self.counts.total() % PROGRESS == 0:
            print(f"{self.counts.total()} of {self.total} tried", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        numbers = ", ".join(f"{self.counts[said]} {said}" for said in ("killed", "timed out", "survived"))
        return f"{self.total} mutants, {self.counts.total()} tried: {numbers}"


def _preload() -> None:
    """Import what every mutant's process would import, and nothing of the project."""
    for name in ("hypothesis", "pytest", "numpy", "onnx", "onnx_ir", "onnx_ir.passes.common", "onnx.reference",
                 "onnxruntime", "ml_dtypes", "openvino", "onnxscript"):  # fmt: skip
        importlib.import_module(name)
    assert not [name for name in sys.modules if name.split(".")[0] in ("sliceport", "onnx_ops", "ov_ext")]


def _files(paths: Sequence[str]) -> list[Path]:
    found = [
        file for path in paths for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py"))
    ]
    return [file.resolve().relative_to(ROOT) for file in sorted(found)]


def _tests_of(path: Path) -> Groups:
    groups = next(groups for part, groups in TESTS.items() if path.is_relative_to(part))
    return tuple(tuple(str(ROOT / "tests" / name) for name in group) for group in groups)


def main() -> int:
    """Try mutants until the time is over; 1 if some survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files or folders of the project")
    parser.add_argument(
        "--budget",
        type=float,
        default=10,
        metavar="MINUTES",
        help="how long to go on with the mutants of a part, after its tests have run once (10)",
    )
    parser.add_argument("--seed", default="0", help="which mutants come first (0)")
    parser.add_argument("--lines", help="only mutants of these lines, FIRST-LAST")
    parser.add_argument("--tests", nargs="+", help="test files instead of those that belong to the paths")
    options = parser.parse_args()
    os.chdir(ROOT)

    sys.path[:0] = [str(ROOT)]
    sys.dont_write_bytecode = True
    _preload()
    files = _files(options.paths)
    given = tuple((str(ROOT / test),) for test in options.tests or ())
    tests = {path: given or _tests_of(path) for path in files}
    chosen = [mutant for path in files for mutant in mutants(path)]
    if options.lines:
        first, last = map(int, options.lines.split("-"))
        chosen = [mutant for mutant in chosen if first <= mutant.line <= last]
    random.Random(options.seed).shuffle(chosen)
    survived = False
    for groups in dict.fromkeys(tests.values()):
        survived |= _try([mutant for mutant in chosen if tests[mutant.path] == groups], groups, 60 * options.budget)
    return int(survived)


def _try(chosen: Sequence[Mutant], groups: Groups, budget: float) -> bool:
    """Try mutants that have the same tests, those in functions first, all in a process that imports the project."""
    changes = [(mutant, _changed_functions(mutant)) for mutant in chosen]
    pid = os.fork()
    if pid == 0:
        import pytest

        report = Report(len(chosen))
        plugin = _Forks([(mutant, changed) for mutant, changed in changes if changed is not None], report, budget)
        modules = sorted({str(ROOT / mutant.path) for mutant in chosen})
        files = [name for group in groups for name in group]
        code = pytest.main([*OPTIONS, *modules, *files], plugins=[plugin])
        print(f"in functions: {report}", flush=True)
        os._exit(2 if code not in (0, 5) else int(report.counts["survived"] > 0))
    survived = os.waitpid(pid, 0)[1] != 0
    others = [mutant for mutant, changed in changes if changed is None]
    report = Report(len(others))
    end = time.monotonic() + budget
    for mutant in others:
        if time.monotonic() > end:
            break
        report.add(mutant, run(mutant, groups, SLOW_TIMEOUT))
    print(f"outside functions: {report}", flush=True)
    return survived or report.counts["survived"] > 0


if __name__ == "__main__":
    sys.exit(main())
