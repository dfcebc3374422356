"""`make_inputs` makes random inputs that engines accept."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from sliceport.diffing.inputs import DeclaredInput, make_inputs


@pytest.mark.parametrize("dtype", [np.dtype(np.int64), np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint2)])
@pytest.mark.parametrize(("attempt", "least", "greatest"), [(1, 1, 99), (2, 0, 1), (3, 0, 0)])
def test_each_attempt_has_its_range_of_integers(
    dtype: np.dtype[np.generic], attempt: int, least: int, greatest: int
) -> None:
    (array,) = make_inputs([DeclaredInput("x", dtype, (1000,))], {}, {}, 0, attempt).values()
    assert array.dtype == dtype
    assert least <= array.astype(int).min()
    assert array.astype(int).max() <= greatest
