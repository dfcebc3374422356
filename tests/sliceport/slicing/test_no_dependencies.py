"""The core stands on the standard library alone, and importing the packages loads no framework."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import sliceport.slicing

FRAMEWORKS = ("numpy", "onnx", "onnx_ir", "onnxscript", "ml_dtypes", "onnxruntime", "openvino", "rich")
RUNTIMES = ("onnxruntime", "openvino", "torch", "rich")
DIRECTML = [f"sliceport.directml.{name}" for name in ("abi", "lower", "operators", "program", "strided_copy", "views")]
SLICING = Path(sliceport.slicing.__file__).parent


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("sliceport, onnx_ops, sliceport.slicing.node, sliceport.defects.table", FRAMEWORKS),
        (f"sliceport.directml, {', '.join(DIRECTML)}", FRAMEWORKS),
        ("sliceport.cli.main, onnx_ops.lowering", RUNTIMES),
    ],
)
def test_modules_load_no_framework(modules: str, absent: Sequence[str]) -> None:
    code = f"import sys, {modules}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("file", sorted(SLICING.glob("*.py")), ids=lambda file: file.stem)
def test_slice_arithmetic_is_of_integers_and_the_standard_library(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        assert not isinstance(node, ast.Div), "true division makes floats"
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for name in names:
            assert (
                name == "sliceport.errors"
                or name.startswith("sliceport.slicing")
                or name.split(".")[0] in sys.stdlib_module_names
            ), f"line {node.lineno} imports {name}"
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float)), f"line {node.lineno}"
        assert not (isinstance(node, ast.Name) and node.id == "float"), f"line {node.lineno}"
