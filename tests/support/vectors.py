"""Cases taken from the engines' own tests; `data/README.md` says which."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

DATA = Path(__file__).parents[1] / "data"


def load(name: str) -> list[dict[str, Any]]:
    """Return the cases of a file."""
    cases: list[dict[str, Any]] = json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))
    return cases


def array(tensor: dict[str, Any]) -> npt.NDArray[Any]:
    """Return a tensor of a case as an array."""
    dtype = (
        np.dtype(ml_dtypes.bfloat16)
        if tensor["dtype"] == "bfloat16"
        else np.dtype(object if tensor["dtype"] == "string" else tensor["dtype"])
    )
    return np.array(tensor["data"], dtype=dtype).reshape(tensor["shape"])
