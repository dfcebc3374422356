"""The real DirectML as an engine: descriptors that DirectML.dll compiles and dispatches."""

from __future__ import annotations

import atexit
import functools
from typing import TYPE_CHECKING

from sliceport.directml.operators import Operator

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sliceport.directml import device


@functools.cache
def shared_device() -> device.Device:
    """The one device of this process; it ends with the process.

    Raises:
        DeviceError: DirectML is not installed here.
    """
    from sliceport.directml import device

    opened = device.open(retries=True)
    atexit.register(opened.close)
    return opened


class DirectML:
    """Runs operators on the real DirectML."""

    name = "directml"
    description = "the descriptors on the real DirectML"

    def run_operator(self, operator: Operator, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
        """See `OperatorEngine`.

        Raises:
            DeviceError: DirectML refuses the operator, or the host program failed.
        """
        return shared_device().run(operator, data)


ENGINE = DirectML()
