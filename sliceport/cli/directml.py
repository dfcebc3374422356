"""`sliceport directml`: install the real DirectML."""

from __future__ import annotations

import argparse

from sliceport.cli.console import emit, emit_json, say
from sliceport.cli.parser import Commands
from sliceport.commands.options import add_format, add_verbose
from sliceport.sandbox import progress


def add(commands: Commands) -> None:
    """Add `sliceport directml` and its actions to the parser."""
    directml = commands.add_parser("directml", help="install the real DirectML, on which diff runs models")
    actions = directml.add_subparsers(dest="action", metavar="ACTION")
    install = actions.add_parser("install", help="install it into the user's cache")
    install.add_argument(
        "--if-possible", action="store_true", help="exit with 0 if it cannot be installed on this machine"
    )
    install.add_argument(
        "--validator", action="store_true", help="install only the library that accepts or refuses descriptors, 25 MB"
    )
    status = actions.add_parser("status", help="print whether it is installed and works")
    add_format(status)
    uninstall = actions.add_parser("uninstall", help="remove everything that was installed")
    for action, function in ((install, _install), (status, _status), (uninstall, _uninstall)):
        add_verbose(action)
        action.set_defaults(run=function)


def _install(options: argparse.Namespace) -> None:
    """Install the validator. Without --validator, also install DirectML, even if the validator cannot be installed."""
    from sliceport.device import DeviceError, install

    try:
        emit(f"DirectML's validator is installed in {install.install_validator(say)}")
    except DeviceError as error:
        if options.validator and not options.if_possible:
            raise
        say(str(error))  # DirectML itself does not need the validator
    if not options.validator:
        reason = install.missing_requirement()
        if reason is not None and options.if_possible:
            say(f"DirectML cannot be installed here: {reason}")
            return
        emit(f"DirectML is installed in {install.install(say)}")
    for other in install.other_folders():
        emit(f"{other} is of another version; sliceport directml uninstall removes all versions")


def _uninstall(_: argparse.Namespace) -> None:
    from sliceport.device import install

    emit("DirectML is removed" if install.uninstall() else "DirectML was not installed")


def _status(options: argparse.Namespace) -> bool:
    """Print the state of DirectML, and return whether it passed its self-test."""
    from sliceport.device import status

    progress.say("starting DirectML")
    report = status.status()
    if options.format == "json":
        emit_json(report)
    else:
        emit(status.status_text(report))
    return bool(report["self_test"] == "passed")
