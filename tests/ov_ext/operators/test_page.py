"""docs/strided_slice.md is current, and every case on it is true."""

from __future__ import annotations

from typing import Any

import pytest
from openvino_processes import answers
from strided_slice_page import DIFFERENCES, PAGE, Difference, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tests/support/of_pages/strided_slice_page.py"


def as_answer(found: tuple[tuple[int, ...], Any]) -> dict[str, Any]:
    return {"shape": list(found[0]), "values": list(map(float, found[1]))}


@pytest.mark.parametrize("entry", DIFFERENCES, ids=lambda entry: entry.text[:40])
def test_difference_is_as_the_page_has_it(entry: Difference) -> None:
    theirs, ours = answers(
        {**entry.case.to_json(), "engine": "reference", **how} for how in ({"as_written": True}, {"ours": True})
    )
    expected = entry.ours if entry.ours is not None else entry.result
    if entry.result is None and entry.ours is None:
        assert "error" in ours
    else:
        assert expected is not None
        assert ours == as_answer(expected)
    if entry.result is not None:
        assert theirs == as_answer(entry.result)
    elif entry.ours is None:
        assert "error" in theirs
    else:
        assert theirs != ours
