"""Ctrl-C ends a command as interrupted, whatever libraries make of it, and none is left half imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PREPARED = """
import _thread, os, signal, sys, threading, time
from pathlib import Path
from sliceport.cli import interruption
from sliceport.cli.main import main
interruption.remember()

def work(*_, **__):
    for _ in range(600):
        time.sleep(0.1)
"""
INTERRUPTED_MODULE = """
import _thread, time
_thread.interrupt_main()
for _ in range(100):
    time.sleep(0.001)
{more}
is_complete = True
"""


def run(program: str, **modules: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, with modules that it can import beside it."""
    for name, text in modules.items():
        Path(f"{name}.py").write_text(text)
    words = [sys.executable, "-c", PREPARED + program]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=50)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_waits_for_an_import() -> None:
    done = run(
        """
try:
    with interruption.restored():
        import interrupted
        work()
except KeyboardInterrupt:
    assert interrupted.is_complete
    print("interrupted")
""",
        interrupted=INTERRUPTED_MODULE.format(more=""),
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_it_does_not_wait_for_ever() -> None:
    done = run(
        """
interruption._PATIENCE = 0.3
try:
    with interruption.restored():
        import interrupted
except KeyboardInterrupt:
    assert "interrupted" not in sys.modules
    print("interrupted")
""",
        interrupted=INTERRUPTED_MODULE.format(more="for _ in range(600): time.sleep(0.1)"),
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_it_is_not_raised_again_while_a_command_cleans_up() -> None:
    done = run("""
interruption._PAUSE = 0.3
try:
    with interruption.restored():
        try:
            _thread.interrupt_main()
            work()
        finally:
            for _ in range(20):
                _thread.interrupt_main()
                time.sleep(0.001)
            is_cleaned_up = True
except KeyboardInterrupt:
    print("interrupted", is_cleaned_up)
time.sleep(0.3)
try:
    _thread.interrupt_main()
    work()
except KeyboardInterrupt:
    print("interrupted again")
""")
    assert (done.stdout, done.stderr) == ("interrupted True\ninterrupted again\n", "")


@pytest.mark.parametrize("outcome", ["raise ImportError('cannot load')", "pass"])
def test_what_a_library_makes_of_it(outcome: str) -> None:
    done = run(f"""
try:
    with interruption.restored():
        try:
            _thread.interrupt_main()
            work()
        except KeyboardInterrupt:
            {outcome}
except KeyboardInterrupt:
    print("interrupted")
""")
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_an_error_that_nobody_interrupted_stays_itself() -> None:
    done = run("""
try:
    with interruption.restored():
        raise ImportError("cannot load")
except ImportError as error:
    print(error)
""")
    assert (done.stdout, done.stderr) == ("cannot load\n", "")


COMMAND = """
import sliceport.api

def lower(*_, **__):
    threading.Thread(target=work).start()  # an ordinary exit would wait for it
    try:
        _thread.interrupt_main()
        work()
    except KeyboardInterrupt:
        {outcome}

sliceport.api.lower = lower
Path("m.onnx").touch()
sys.argv = ["sliceport", "lower", "m.onnx"]
sys.exit(main())
"""


@pytest.mark.parametrize("outcome", ["raise", "raise ImportError('cannot load') from None"])
@pytest.mark.parametrize("limit", ["", "--timeout 0 --memory 0"])
def test_a_command_ends_at_once(outcome: str, limit: str) -> None:
    program = COMMAND.format(outcome=outcome).replace('"m.onnx"]', f'"m.onnx", *{limit.split()}]')
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sliceport: interrupted\n")


@pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there")
def test_a_forked_process_ends_without_a_word() -> None:
    done = run("""
child = os.fork()
if not child:
    _thread.interrupt_main()
    work()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert (done.stdout, done.stderr) == ("130\n", "")


def test_nothing_is_changed_where_it_is_ignored_or_handled_already() -> None:
    done = run("""
for handler in (signal.SIG_IGN, print):
    signal.signal(signal.SIGINT, handler)
    interruption.remember()
    interruption.end()
    assert signal.getsignal(signal.SIGINT) is handler
""")
    assert (done.returncode, done.stderr) == (0, "")
