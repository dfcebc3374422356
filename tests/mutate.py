"""Mutation testing: `python -m tests.mutate onnx_ops/slicing --budget 10` says which single changes no test notices.

Each mutant is the code with one change: a comparison, a number, an `and`, a condition, a statement left out. It is
compiled in memory in a forked process, which runs the doctests of its module and the test files that belong to it, and
stops at the first failure. A mutant that no test fails on is a survivor: a test is missing, or the change is none.
"""

from __future__ import annotations

import argparse
import ast
import copy
import doctest
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent
TESTS = {
    "onnx_ops/slicing": (
        ("slicing/test_region.py", "slicing/test_axis_slice.py", "slicing/test_axis.py", "slicing/test_fewest_axes.py"),
        ("slicing/test_spec.py", "test_vectors_strided_slice.py"),
        ("slicing/test_hypothesis.py", "slicing/test_selecting_hypothesis.py", "slicing/test_cover_exhaustive.py"),
        ("dml/test_lower.py", "test_random_graphs.py", "ov_ext/test_shapes.py"),
        ("passes/test_conditions.py", "passes/test_examples.py"),
    ),
    "onnx_ops/dml/output.py": (("dml/test_dxdispatch.py",), ("test_cli.py", "test_models.py")),
    "onnx_ops/dml": (
        ("dml/test_operators.py", "dml/test_tensor.py"),
        ("dml/test_lower.py",),
        ("test_random_graphs.py", "dml/test_dxdispatch.py", "test_models.py"),
    ),
    "onnx_ops/passes": (
        ("passes/test_examples.py",),
        ("passes/test_rules.py", "passes/test_conditions.py"),
        ("passes/test_rewrite.py", "passes/test_harden_directml.py", "model/test_left_out_outputs.py"),
    ),
}
"""The tests of a part in groups, those that fail soonest first."""
OPTIONS = (
    "-x",
    "-q",
    "--assert=plain",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-W",
    "ignore::pytest.PytestWarning",
)
LEAST_TIMEOUT = 60.0
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
    """Every mutant of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    places = list(_places(tree))
    for number, (node, _) in enumerate(places):
        for change in range(len(_changes(node))):
            twin = copy.deepcopy(tree)
            target, parent = list(_places(twin))[number]
            before = ast.unparse(_shown(target, parent))
            replaced = _changes(target)[change]
            if not _replace(twin, target, replaced):
                continue
            shown = replaced if isinstance(target, ast.stmt) else _shown(replaced, parent)
            line = getattr(node, "lineno", getattr(parent, "lineno", 0))
            yield Mutant(path, line, _short(before), _short(ast.unparse(shown)), ast.fix_missing_locations(twin))


def _short(text: str) -> str:
    return " ".join(text.split())[:90]


def _shown(node: ast.AST, parent: ast.AST) -> ast.AST:
    """What to show of a change: operators by the expression that they are in."""
    return node if isinstance(node, ast.expr | ast.stmt) else parent


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The nodes that may be changed, and their parents; not annotations, decorators, docstrings and messages."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases", "keywords_of_class"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            yield child, tree
            if not isinstance(child, ast.Raise):
                yield from _places(child)


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _changes(node: ast.AST) -> list[ast.AST]:
    """What a node may be changed into."""
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
        other = copy.deepcopy(node)
        other.ifs = []
        return [other]
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


def _replace(tree: ast.AST, target: ast.AST, new: ast.AST) -> bool:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is target:
                setattr(node, name, new)
                return True
            if isinstance(value, list):
                for i, item in enumerate(value):
                    if item is target:
                        value[i] = new
                        return True
    return False


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
    """`killed`, `survived` or `timed out`; the code as it is, without a mutant."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os._exit(_child(mutant, tests))
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return "survived" if status == 0 else "killed"
        time.sleep(0.02)
    os.killpg(pid, 9)
    os.waitpid(pid, 0)
    return "timed out"


def _child(mutant: Mutant | None, tests: Groups) -> int:
    """Run the tests with a mutant in place; 0 if nothing fails."""
    import pytest

    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)
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


def _preload() -> None:
    """Import what every mutant's process would import, and nothing of the project."""
    for name in ("hypothesis", "pytest", "numpy", "onnx", "onnx_ir", "onnx_ir.passes.common", "onnx.reference",
                 "onnxruntime", "ml_dtypes", "openvino", "onnxscript"):  # fmt: skip
        importlib.import_module(name)
    assert not [name for name in sys.modules if name.split(".")[0] in ("onnx_ops", "ov_ext")]


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
    parser.add_argument("--budget", type=float, default=10, metavar="MINUTES", help="how long to go on (10)")
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
    timeouts = {}
    for each in set(tests.values()):
        start = time.monotonic()
        if run(None, each, 3600) != "survived":
            print("the tests fail without a mutant", *each)
            return 2
        timeouts[each] = max(LEAST_TIMEOUT, 5 * (time.monotonic() - start))
    chosen = [mutant for path in files for mutant in mutants(path)]
    if options.lines:
        first, last = map(int, options.lines.split("-"))
        chosen = [mutant for mutant in chosen if first <= mutant.line <= last]
    random.Random(options.seed).shuffle(chosen)
    return _try(chosen, tests, timeouts, 60 * options.budget)


def _try(chosen: Sequence[Mutant], tests: dict[Path, Groups], timeouts: dict[Groups, float], budget: float) -> int:
    counts: Counter[str] = Counter()
    end = time.monotonic() + budget
    for mutant in chosen:
        if time.monotonic() > end:
            break
        groups = tests[mutant.path]
        said = run(mutant, groups, timeouts[groups])
        counts[said] += 1
        if said == "survived":
            print(mutant, flush=True)
        if counts.total() % PROGRESS == 0:
            print(f"{counts.total()} of {len(chosen)} tried", file=sys.stderr, flush=True)
    numbers = ", ".join(f"{counts[said]} {said}" for said in ("killed", "timed out", "survived"))
    print(f"{len(chosen)} mutants, {counts.total()} tried: {numbers}")
    return int(counts["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
