"""A command line on a terminal of 80 columns."""

from __future__ import annotations

import os
import subprocess
import sys


def in_terminal(*arguments: object, code: int = 0, **variables: str) -> str:
    """Run a command line on a terminal and return the text that it writes; `code` is the expected exit code."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    environment = {**inherited, "TERM": "xterm-256color", **variables}
    words = [sys.executable, "-m", "sliceport", *map(str, arguments)]
    with subprocess.Popen(words, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
        os.close(ours)
        assert process.wait(60) == code
    return b"".join(parts).decode()
