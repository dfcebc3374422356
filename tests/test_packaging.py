"""The metadata of the installed distribution: version, types and requirements."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from pathlib import Path

import pytest

import onnx_ops
import ov_ext
import sliceport

PACKAGES = [Path(package.__path__[0]) for package in (sliceport, onnx_ops, ov_ext)]
MODULES = {"onnx-ir": "onnx_ir", "ml-dtypes": "ml_dtypes", "rich-argparse": "rich_argparse"}
"""Import names that differ from the name of the distribution."""


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("sliceport") == onnx_ops.__version__


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_packages_are_typed(package: Path) -> None:
    assert (package / "py.typed").is_file()


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(str(node.module).split(".")[0])
    return found


def test_what_is_imported_is_required_and_the_reverse() -> None:
    # A module of integrations is for the users of another tool, who have it.
    files = [path for package in PACKAGES for path in package.rglob("*.py") if path.parent.name != "integrations"]
    modules = set().union(*map(imported, files))
    ours = {package.name for package in PACKAGES}
    requirements = importlib.metadata.requires("sliceport")
    assert requirements is not None
    required = {re.split(r"[^\w.-]", line)[0] for line in requirements}
    needed = {MODULES.get(name, name) for name in required}
    assert modules - set(sys.stdlib_module_names) - ours == needed
