"""The start of the command line: signals are handled before the other modules are imported, which takes a while."""

from __future__ import annotations

import gc
import os
import signal
import sys

from sliceport.sandbox.signals import Stopped, stoppable


def main() -> int:
    """Run the command line of this process. Return its exit code, or end the process by `os._exit` after a signal."""
    try:
        with stoppable():
            from sliceport.cli.main import run_command_line  # takes a while, so signals are handled already

            code = run_command_line(sys.argv[1:], is_supervised=True)
    except Stopped as stopped:
        if stopped.number == signal.SIGINT and sys.stderr is not None:
            print("sliceport: interrupted", file=sys.stderr, flush=True)
        # A normal exit would restore the default handlers, and another signal could then change the exit code.
        os._exit(128 + stopped.number)
    gc.freeze()  # the process ends, so a search for garbage in its modules is wasted time
    return code
