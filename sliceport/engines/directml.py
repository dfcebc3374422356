"""The engine that runs operators on the real DirectML: DirectML.dll compiles and dispatches the descriptors."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sliceport.directml.operators import Operator
from sliceport.engines.diagnosis import Diagnosis

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sliceport import device


@functools.cache
def shared_device() -> device.Device:
    """Return the one device of this process, opened by the first call. The device is closed when the process ends.

    Raises:
        DeviceError: DirectML is not installed, or cannot run on this machine.
    """
    from sliceport import device

    shared = device.open(retries=True)  # a retry distinguishes a refusal from a failure that does not repeat
    atexit.register(shared.close)
    return shared


class DirectML:
    """The engine that runs operators on the real DirectML."""

    name = "directml"
    description = "the descriptors on the real DirectML"

    def run_operator(self, operator: Operator, data: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
        """Run an operator; see `OperatorEngine`.

        Raises:
            DeviceError: DirectML refuses the operator or is not installed, or the process that runs DirectML failed.
            InvalidDescriptor: A number does not fit its field, or `data` ends before the input tensor does.
        """
        return shared_device().run(operator, data)

    def diagnose(self) -> Iterator[Diagnosis]:
        """Yield the state of DirectML's installation and the result of its self-test."""
        from sliceport.device.status import status

        report = status()
        if report["self_test"] == "passed":
            yield Diagnosis("DirectML", "ok", f"{report['packages']}, {report['backend']}, {report['adapter']}")
        elif report["installed"]:
            yield Diagnosis("DirectML", "broken", f"self-test {report['self_test']}", "run: sliceport directml status")
        elif report["missing"] is not None:
            yield Diagnosis("DirectML", "missing", f"it cannot be installed here: {report['missing']}")
        else:
            yield Diagnosis("DirectML", "missing", "not installed", "run: sliceport directml install")


ENGINE = DirectML()
