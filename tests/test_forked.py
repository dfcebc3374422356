"""Programs that `forked.py` runs end, print and import as programs in an interpreter of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from dask_cluster import wait_until
from forked import Forked, run
from platforms import POSIX


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('a', end='')", (0, "a", "")),
        ("import sys; print(*sys.argv); sys.exit(3)", (3, "-c more words\n", "")),
        ("import sys; sys.exit('why')", (1, "", "why\n")),
        ("import atexit; atexit.register(print, 'last'); raise SystemExit", (0, "last\n", "")),
        ("import os; os.write(1, b'a'); os.write(2, b'b')", (0, "a", "b")),
    ],
)
def test_exit_code_and_output_are_returned(code: str, expected: tuple[int, str, str]) -> None:
    done = run(["-c", code, "more", "words"])
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_an_error_is_a_traceback() -> None:
    done = run(["-c", "len(7)"])
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("TypeError: object of type 'int' has no len()\n")


@POSIX
def test_a_signal_that_ends_the_process_is_returned() -> None:
    assert run(["-c", "import os; print(5, flush=True); os.abort()"]).returncode == -6


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(["-c", "import time; time.sleep(600)"], timeout=1)


@pytest.mark.parametrize("words", [["-m", "sliceport"], ["-c", "import sliceport"]])
def test_modules_are_those_of_the_folder(tmp_path: Path, words: list[str]) -> None:
    """Ours are imported from the folder, although the server knows where others are."""
    (tmp_path / "sliceport.py").write_text("print(__name__, open('here').read())")
    (tmp_path / "here").write_text("there")
    done = run(words, tmp_path)
    name = "__main__" if words[0] == "-m" else "sliceport"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{name} there\n", "")


def test_a_program_leaves_nothing_to_the_next() -> None:
    assert run(["-c", "import sys, os; sys.left = 1; os.environ['LEFT'] = '1'; print(1)"]).stdout == "1\n"
    assert run(["-c", "import sys, os; print(hasattr(sys, 'left'), 'LEFT' in os.environ)"]).stdout == "False False\n"


def test_the_environment_is_that_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two"):
        monkeypatch.setenv("SLICEPORT_OF_A_TEST", value)
        code = "import os; print(os.environ['SLICEPORT_OF_A_TEST'], 'MALLOC_PERTURB_' in os.environ)"
        assert run(["-c", code]).stdout == f"{value} False\n"


@POSIX
def test_a_program_that_goes_on_gets_signals(tmp_path: Path) -> None:
    """Check that a program prints before its end, gets signals, and imports modules by its own environment."""
    (tmp_path / "of_a_test.py").write_text("import signal\nprint('there', flush=True)\nsignal.pause()\n")
    process = Forked(["-m", "of_a_test"], environment={**os.environ, "PYTHONPATH": str(tmp_path)})
    wait_until(lambda: process.said() == ("there\n", "") or process.poll() is not None, "what it says")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1
    assert process.said()[0] == "there\n"
    assert process.said()[1].endswith("KeyboardInterrupt\n")


@POSIX
def test_both_streams_may_be_in_one_file(tmp_path: Path) -> None:
    code = "import os; os.write(1, b'a'); os.write(2, b'b'); os.write(1, b'c'); os.abort()"
    process = Forked(["-c", code], log=tmp_path / "log")
    assert process.wait(60) == -signal.SIGABRT
    assert (tmp_path / "log").read_text() == "abc"
