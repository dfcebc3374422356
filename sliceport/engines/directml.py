"""The real DirectML as an executor: our descriptors, compiled and dispatched by DirectML.dll."""

from __future__ import annotations

import atexit
import functools

import numpy as np
import numpy.typing as npt

from sliceport.directml import device
from sliceport.directml.operators import Operator

NAME = "directml"


@functools.cache
def shared_device() -> device.Device:
    """The one device of this process; it ends with the process.

    Raises:
        DeviceError: DirectML is not installed here.
    """
    opened = device.open(retries=True)
    atexit.register(opened.close)
    return opened


def run(operator: Operator, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
    """The bytes of each output of an operator, for its input tensor's bytes.

    Raises:
        DeviceError: DirectML refuses the operator, or the host program failed.
    """
    size = operator.input_tensor.total_tensor_size_in_bytes
    if data.size < size:
        data = np.concatenate([data, np.zeros(size - data.size, np.uint8)])  # buffers end at a multiple of 4 bytes
    return shared_device().run(operator, data)
