"""program.hpp as text; tests/sliceport/device/test_cpp.py runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from onnx_models import save

import sliceport
from sliceport.directml.cpp import _quote, to_header
from sliceport.directml.program import Program

MODELS = Path(__file__).parents[3] / "models"
NAMES = """(float[4,6] x, int64[1] open) => (y, z, w) <int64[1] zero = {0}, int64[1] two = {2}> {
    [first] y = Slice (x, zero, two)  [second] z = Slice (x, zero, two)  [refused] w = Slice (x, open, two)
}"""


def header_of(program: Program) -> str:
    return to_header(program.nodes, program.feature_level)


def test_equal_descriptors_are_one_operator(tmp_path: Path) -> None:
    header = header_of(sliceport.lower(save(NAMES, tmp_path / "model.onnx")))
    assert "std::array<DML_OPERATOR_DESC, 1> operators" in header
    assert re.findall(r'    \{"(\w+)", (\d+), \{"x", 0\}, (\w+), 1\},', header) == [
        ("first", "0", "outputs_0"),
        ("second", "0", "outputs_1"),
    ]


def test_refused_node_is_a_comment_of_one_line(tmp_path: Path) -> None:
    header = header_of(sliceport.lower(save(NAMES, tmp_path / "model.onnx")))
    (line,) = [line for line in header.splitlines() if line.startswith("// refused: ")]
    assert "Slice 'refused'" in line


def test_aliases_are_comments_and_no_call_is_an_empty_array() -> None:
    header = header_of(sliceport.lower(MODELS / "rule_identity.onnx"))
    assert "// alias: " in header
    assert "inline constexpr std::array<Call, 0> calls{};" in header
    header = header_of(sliceport.lower(MODELS / "rule_siblings.onnx", views=True))
    assert '"r" is "x" from byte 48 on, with sizes [2, 5, 4] and strides [32, 4, 1]\n' in header


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "trigraph??/", "größe", "\U0001f600", "a*/b"])
def test_names_are_literals_that_a_compiler_reads_back(tmp_path: Path, name: str) -> None:
    literal = _quote(name)
    assert re.fullmatch(r'"[ -~]*"', literal)
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "name.cpp").write_text(f"#include <cstdio>\nint main() {{ std::fputs({literal}, stdout); }}\n")
    subprocess.run([compiler, str(tmp_path / "name.cpp"), "-o", str(tmp_path / "name")], check=True)
    assert subprocess.run([str(tmp_path / "name")], capture_output=True, check=True).stdout.decode() == name


def test_lower_writes_the_header(tmp_path: Path) -> None:
    program = sliceport.lower(MODELS / "rule_siblings.onnx")
    program.write(tmp_path / "out")
    assert (tmp_path / "out" / "program.hpp").read_text() == header_of(program)
    program.write(tmp_path / "out", overwrite=True)
