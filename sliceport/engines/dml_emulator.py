"""The emulator of DirectML's descriptors as an executor: needs no DirectML and no device."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sliceport.directml import emulator
from sliceport.directml.operators import Operator

NAME = "dml-emulator"


def run(operator: Operator, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
    """The bytes of each output of an operator, for its input tensor's bytes.

    Raises:
        InvalidDescriptor: The operator breaks a rule.
    """
    size = operator.input_tensor.total_tensor_size_in_bytes
    if data.size < size:
        data = np.concatenate([data, np.zeros(size - data.size, np.uint8)])  # buffers end at a multiple of 4 bytes
    return emulator.run(operator, data)
