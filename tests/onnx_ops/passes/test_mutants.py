"""Each mutant of `mutants.py` still finds the piece of code that it changes."""

from __future__ import annotations

import pytest
from pass_cases.mutants import PACKAGES, mutants


@pytest.mark.parametrize("name", mutants())
def test_its_piece_is_there_once(name: str) -> None:
    file, piece, instead = mutants()[name]
    assert (PACKAGES / f"{file}.py").read_text().count(piece) == 1
    assert instead != piece
