"""The engine that emulates DirectML. It needs neither DirectML nor a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceport.directml.operators import Operator

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class DmlEmulator:
    """The engine that runs operators by the formulas of DirectML's documentation."""

    name = "dml-emulator"
    description = "the descriptors, by the formulas of DirectML's documentation"

    def run_operator(self, operator: Operator, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
        """Run an operator; see `OperatorEngine`.

        Raises:
            InvalidDescriptor: The operator breaks a rule of DirectML.
        """
        from sliceport.directml import emulator

        return emulator.run(operator, data)


ENGINE = DmlEmulator()
