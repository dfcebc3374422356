"""`python -m ov_ext.native`: the path and the build of the operators in C++."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ov_ext.native import BUILD_COMMAND, find_library
from ov_ext.native.build import BuildError, build, find_openvino, missing_tools
from sliceport.wording import command_line_spelling

DONE, FAILED = 0, 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code. Only the library's path and help texts go to stdout."""
    parser = argparse.ArgumentParser("python -m ov_ext.native", description="The operators of ov_ext in C++.")
    parser.add_argument("--path", action="store_true", help="print the path of the library for the installed openvino")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    builder = actions.add_parser("build", help="build the library in the user's cache, if it is missing")
    builder.add_argument("--if-possible", action="store_true", help="exit with 0 if this machine cannot build it")
    options = parser.parse_args(arguments)
    try:
        with command_line_spelling():
            if options.action == "build":
                _build(if_possible=options.if_possible)
            elif options.path:
                _print_path()
            else:
                parser.print_help()
    except BuildError as error:
        _say(str(error))
        return FAILED
    return DONE


def _build(*, if_possible: bool) -> None:
    """Build the library and print its path.

    With `if_possible`, a machine that cannot build the library gets a note instead of an error.
    """
    if if_possible and (obstacle := _describe_obstacle()) is not None:
        _say(f"the operators in C++ cannot be built here: {obstacle}")
    else:
        sys.stdout.write(f"{build(_say)}\n")


def _describe_obstacle() -> str | None:
    """Return why this machine cannot build the library. Return None if it can, or if the library exists already."""
    try:
        _, version = find_openvino()
    except BuildError as error:
        return str(error)
    return None if find_library(version).path else missing_tools()


def _print_path() -> None:
    """Print the path of the library for the installed openvino, or raise BuildError if it is missing."""
    _, version = find_openvino()
    library = find_library(version)
    if library.path is None:
        raise BuildError(f"{library.reason}; run: {BUILD_COMMAND}")
    sys.stdout.write(f"{library.path}\n")


def _say(message: str) -> None:
    sys.stderr.write(f"ov_ext.native: {message}\n")


if __name__ == "__main__":
    sys.exit(main())
