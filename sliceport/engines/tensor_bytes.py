"""The bytes of a tensor, as engines read and return them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class TensorBytes:
    """The bytes of a tensor that a model reads or computes.

    Attributes:
        data: Its elements, packed.
        shape: Its sizes.
    """

    data: npt.NDArray[np.uint8]
    shape: tuple[int, ...]
