"""program.hpp in a program of its own, on the real DirectML, against the emulator."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import mingw
import numpy as np
import pytest
from running import run_call

import sliceport
from sliceport import device
from sliceport.directml.cpp import to_header
from sliceport.directml.emulator import Bytes
from sliceport.directml.program import Program

MODELS = Path(__file__).parents[3] / "models"
HERE = Path(__file__).parent


def pattern(name: str, size: int) -> Bytes:
    """Return the bytes of a value that no operator writes; run_programs.cpp computes the same."""
    seed = 0
    for byte in name.encode():
        seed = (seed * 31 + byte) % 2**32
    return ((np.arange(size, dtype=np.uint64) * 2654435761 + seed) % 2**32 >> 13).astype(np.uint8)


def emulate(program: Program) -> Iterator[str]:
    """Yield the outputs of a program's operators as hexadecimal digits."""
    values: dict[str, Bytes] = {}
    for call in program.calls:
        size = call.input.byte_offset + -(-call.operator.input_tensor.total_tensor_size_in_bytes // 4) * 4
        values.setdefault(call.input.value, pattern(call.input.value, size))
        if values[call.input.value].size < size:  # another operator reads less of it
            values[call.input.value] = pattern(call.input.value, size)
        results = run_call(call, values)
        values |= results
        yield from (results[binding.value].tobytes().hex() for binding in call.outputs)


def test_programs_of_all_models_in_cpp_equal_the_emulator(directml: device.Device) -> None:
    if not mingw.folder().is_dir():
        pytest.skip("no mingw-w64 beside the installed DirectML: run python tests/support/of_processes/mingw.py")
    paths = sorted(MODELS.glob("*.onnx"))
    lowered = [sliceport.lower(path) for path in paths]
    lowered += [sliceport.lower(path, views=True, feature_level="2.0") for path in paths]
    programs = list(
        {to_header(program.nodes, program.feature_level): program for program in lowered}.values()
    )  # by #pragma once, equal files are one
    place = mingw.folder() / mingw.HOME.lstrip("/")
    includes, names = ["#pragma once"], []
    for i, program in enumerate(programs):
        (place / f"program_{i}.hpp").write_text(to_header(program.nodes, program.feature_level), encoding="ascii")
        includes += [f"namespace p{i} {{", f'#include "program_{i}.hpp"', "}"]
        names.append(f"p{i}::sliceport_program")
    calls = " ".join(f"run({name})" for name in names)
    (place / "programs.hpp").write_text("\n".join([*includes, f"#define EACH_PROGRAM(run) {calls}", ""]))
    shutil.copy(HERE / "run_programs.cpp", place)
    compiled = mingw.compile_program("run_programs", "-I/mingw/usr/include/directx")
    assert compiled.returncode == 0, compiled.stderr[-3000:]
    done = mingw.run_program("run_programs")
    expected = [line for program in programs for line in emulate(program)]
    assert len(expected) > 200
    assert done.stdout.split() == expected
