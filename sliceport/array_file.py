"""Reading an array from a file that the user names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sliceport.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt


def load_array(file: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Load the array in a `.npy` file.

    Raises:
        UsageError: The file cannot be read or does not hold a single array.
    """
    import numpy as np

    try:
        array = np.load(os.fspath(file), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"input file '{os.fspath(file)}' cannot be read ({reason}).") from None
    if not isinstance(array, np.ndarray):
        raise UsageError(f"input file '{os.fspath(file)}' holds no single array.")
    return array
