"""The validator of operators: DirectML's own library creates each operator, and runs none."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from sliceport.directml.operators import Operator
from sliceport.engines.diagnosis import Diagnosis

_INSTALL = "run: sliceport directml install --validator"


class DirectMLValidate:
    """The engine that lets DirectML's library accept or refuse operators, in a child process."""

    name = "directml-validate"
    description = "DirectML accepts or refuses the descriptors; takes part by default if its validator is installed"

    def is_ready(self) -> bool:
        """Return whether the library is installed; see `OperatorValidator`."""
        from sliceport.device import install

        return install.is_validator_installed()

    def validate(self, operator: Operator) -> str:
        """Create an operator, and return the title of the library; see `OperatorValidator`.

        Raises:
            CallFailed: DirectML refuses the operator.
            DeviceError: The library is not installed, cannot be used on this machine, or crashed.
            InvalidDescriptor: A number does not fit its field.
            ChildLost: The machine ended the child process, or did not start it.
        """
        from sliceport.device import CallFailed, install, validator

        title = _validator_title()  # raises DeviceError if the library is not installed
        hresult = validator.create_operator(install.validator_folder(), operator)
        if hresult:
            raise CallFailed("CreateOperator", hresult, "")
        return title

    def diagnose(self) -> Iterator[Diagnosis]:
        """Yield the state of DirectML's validator."""
        from sliceport.device import status, validator

        state, detail = status.check_validator()
        # Installing the validator is of no use on a machine that cannot run the library.
        is_installable = state == "missing" and validator.missing_requirement() is None
        yield Diagnosis("DirectML's validator", state, detail, _INSTALL if is_installable else "")


@functools.cache
def _validator_title() -> str:
    """Check that DirectML's validator works, and return its title, such as `DirectML at feature level 6.4`.

    Raises:
        DeviceError: The library is not installed, cannot be used on this machine, or crashed.
        ChildLost: The machine ended the child process, or did not start it.
    """
    from sliceport.device import DeviceError, install, validator

    if not install.is_validator_installed():
        lacking = validator.missing_requirement()
        reason = f"not installed; {_INSTALL}" if lacking is None else f"unavailable: {lacking}"
        raise DeviceError(f"DirectML's validator is {reason}.")
    return validator.title(install.validator_folder())


ENGINE = DirectMLValidate()
