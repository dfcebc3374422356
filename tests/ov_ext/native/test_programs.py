"""Programs in C++ use the operators, and nodes survive their factory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import openvino as ov
from amounts import long_only
from openvino_models import constant, parameter

import ov_ext.operators.strided_slice

LIBRARIES = Path(ov.__file__).parent / "libs"
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)}


def run(*words: object) -> str:
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@long_only
def test_a_program_opens_an_ir_with_our_operators_and_runs_it(built: Path, library: Path, tmp_path: Path) -> None:
    source = parameter([2, 3, 4])
    inputs = [source, constant([0, 1, 0]), constant([0, 0, 0]), constant([-1, 1, 2])]
    masks = {"begin_mask": [1, 0, 1], "end_mask": [1, 0, 1], "shrink_axis_mask": [0, 1]}
    node = ov_ext.operators.strided_slice.StridedSlice([value.output(0) for value in inputs], **masks)
    ov.save_model(ov.Model([node], [source], "m"), str(tmp_path / "m.xml"))
    printed = run(built / "tests" / "infer", library, tmp_path / "m.xml")
    assert printed.split("\n")[:2] == ["[2,2]", "16 18 4 6 "]


@long_only
def test_data_and_slices_of_every_kind_are_right(built: Path) -> None:
    """The program compares with plain loops; built with sanitizers, it also finds accesses out of bounds."""
    right, _, refused = run(built / "tests" / "exercise", 1, 250).partition(" slices are right, ")
    assert int(right) > 20_000
    assert 0 < int(refused.split()[0]) < 250


def test_nodes_outlive_the_factory_that_loaded_the_library(library: Path) -> None:
    """The factory may close the library, but the code of its nodes must stay."""
    script = """
import sys
import numpy as np, openvino as ov
from openvino import opset8
from openvino.utils.node_factory import NodeFactory
factory = NodeFactory()
factory.add_extension(sys.argv[1])
source = opset8.parameter([4], np.float32)
lists = [opset8.constant(np.array([value])).output(0) for value in (1, 3, 1)]
model = ov.Model([factory.create("Slice8", [source.output(0), *lists], {})], [source], "m")
del factory
print(ov.Core().compile_model(model, "CPU")([np.arange(4, dtype=np.float32)])[0].tolist())
"""
    assert run(sys.executable, "-c", script, library).strip() == "[1.0, 2.0]"
