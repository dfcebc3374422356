"""The self-test of an installation."""

from __future__ import annotations

import numpy as np

from sliceport.directml.device.client import Device
from sliceport.directml.operators import Slice1
from sliceport.directml.tensor import BufferTensor, DataType


def passes_self_test(opened: Device) -> bool:
    """Run example 2 of DML_SLICE1's page, and return whether its values are right.

    Raises:
        DeviceError: The host program failed.
    """
    four, two = BufferTensor.of(DataType.FLOAT32, (1, 1, 4, 4)), BufferTensor.of(DataType.FLOAT32, (1, 1, 2, 2))
    operator = Slice1(four, two, 4, (0, 0, 0, 1), (1, 1, 4, 3), (1, 1, -2, 2))
    (result,) = opened.run(operator, np.arange(1, 17, dtype=np.float32).view(np.uint8))
    return np.array_equal(result.view(np.float32), [14, 16, 6, 8])
