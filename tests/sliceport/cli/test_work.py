"""A command line is done by a child: whatever becomes of the child is a sentence, an exit code and no half files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from platforms import POSIX
from processes import assert_gone, children

pytestmark = POSIX

PREPARED = """
import os, signal, sys, time
import sliceport.api
from sliceport.sandbox import progress
from sliceport.sandbox import supervisor
from sliceport.cli.start import main
from sliceport.sandbox.child import is_expendable, this_process
from sliceport.sandbox.place import write_files
real = sliceport.api.rewrite

def rewrite(*arguments, **options):
    assert this_process.is_child
    {action}
    return real(*arguments, **options)

sliceport.api.rewrite = rewrite
sys.exit(main())
"""
MODEL = "rule_coalesce.onnx"


def rewrite(
    models: Path, folder: Path, action: str, *options: str, code: int = 2
) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Run the command with something that happens first in the child; return its last line on stderr, too."""
    words = [sys.executable, "-c", PREPARED.format(action=action), "rewrite", str(models / MODEL)]
    words += ["-o", str(folder / "o.onnx"), *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code, done.stderr
    assert (done.stdout == "") is (code == 2)
    *others, last = done.stderr.splitlines()
    assert not others
    return last.removeprefix(f"sliceport: '{models / MODEL}': "), done


KILLED = "its process was ended by SIGKILL; the system may have run out of memory."
TAKES_MORE = "it takes more than 512 MiB of memory; --memory 0 disables the limit."
MAY_NEED = "it may need more than 512 MiB of memory, and --memory 0 disables the limit."


@pytest.mark.parametrize(
    ("action", "options", "message"),
    [
        ("os.abort()", (), "its process was ended by SIGABRT."),
        ("os.kill(os.getpid(), signal.SIGKILL)", (), KILLED),
        ("supervisor.call(signal.raise_signal, signal.SIGKILL)", (), KILLED),
        ("os.write(2, b'what():  std::bad_alloc'); os.abort()", ("--memory", "512M"), TAKES_MORE),
        ("os.abort()", ("--memory", "512M"), f"its process was ended by SIGABRT; {MAY_NEED}"),
        ("os._exit(3)", (), "its process ended with exit code 3."),
        ("time.sleep(600)", ("--timeout", "0.5"), "it takes more than 0.5 s; --timeout 0 disables the limit."),
        ("bytearray(2**30)", ("--memory", "512M"), TAKES_MORE),
        ("raise MemoryError", (), "the model exceeds the memory of this machine."),
    ],
)
def test_a_child_that_dies_is_a_sentence_and_nothing_is_written(
    models: Path, tmp_path: Path, action: str, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "o.onnx").write_text("old")
    assert rewrite(models, tmp_path, action, "--overwrite", *options)[0] == message
    assert [file.name for file in tmp_path.iterdir()] == ["o.onnx"]
    assert (tmp_path / "o.onnx").read_text() == "old"


def test_what_a_child_wrote_before_it_died_is_removed(models: Path, tmp_path: Path) -> None:
    action = "write_files([arguments[1]], lambda folder: (folder / 'o.onnx').touch()); os._exit(3)"
    assert rewrite(models, tmp_path, action)[0] == "its process ended with exit code 3."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child outlives a parent that is killed")
def test_next_command_removes_what_a_killed_command_left(models: Path, tmp_path: Path) -> None:
    action = "write_files([arguments[1]], lambda folder: os.kill(os.getppid(), signal.SIGKILL) or time.sleep(600))"
    words = [sys.executable, "-c", PREPARED.format(action=action), "rewrite", str(models / MODEL)]
    killed = subprocess.run([*words, "-o", str(tmp_path / "o.onnx")], capture_output=True, check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    (scratch,) = tmp_path.iterdir()
    assert scratch.name.startswith(".sliceport-")
    old = tmp_path / ".sliceport-old-0123456789ab"  # replaced files that a killed command could not put back
    old.mkdir()
    rewrite(models, tmp_path, "pass", code=0)
    assert sorted(file.name for file in tmp_path.iterdir()) == [old.name, "o.onnx"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_the_imports_ends_the_command(number: signal.Signals) -> None:
    code = """
import os, signal, sys
from sliceport.cli.start import main
signal.signal(signal.SIGINT, signal.default_int_handler)
def end(event, words):
    if event == "import" and words[0] == "sliceport.cli.main":
        os.kill(os.getpid(), int(sys.argv.pop()))
sys.addaudithook(end)
main()
"""
    done = subprocess.run([sys.executable, "-c", code, str(int(number))], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (128 + number, "")
    assert done.stderr == ("sliceport: interrupted\n" if number == signal.SIGINT else "")


def test_a_crash_is_tried_again_isolated(models: Path, tmp_path: Path) -> None:
    last, _ = rewrite(models, tmp_path, "is_expendable() and os.abort()", code=0)
    assert last == f"sliceport: wrote {tmp_path / 'o.onnx'}"
    assert [file.name for file in tmp_path.iterdir()] == ["o.onnx"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the children of a process")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT", "SIGTERM"])  # Windows lacks the first
def test_a_child_ends_with_its_supervisor(models: Path, tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]
    code = PREPARED.format(action="progress.announce('begun'); signal.pause()")
    code = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
    words = [sys.executable, "-c", code, "rewrite", str(models / MODEL), "-o", str(tmp_path / "o.onnx")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "sliceport: begun\n"
        (_, child) = children(process.pid)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == (-number if name == "SIGKILL" else 128 + number)
    assert err == ("sliceport: interrupted\n" if number == signal.SIGINT else "")
    assert_gone([child])
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_ignored_where_it_was_ignored_before(models: Path, tmp_path: Path) -> None:
    code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code += PREPARED.format(action="progress.announce('begun'); time.sleep(1)")
    words = [sys.executable, "-c", code, "rewrite", str(models / MODEL), "-o", str(tmp_path / "o.onnx")]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "sliceport: begun\n"
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the children of a process")
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_does_not_disturb_the_clean_up(models: Path, tmp_path: Path, second: signal.Signals) -> None:
    """Both signals are pending when Python looks for them, and more come until the process ends."""
    code = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += PREPARED.format(action="progress.announce('begun'); signal.pause()")
    words = [sys.executable, "-c", code, "rewrite", str(models / MODEL), "-o", str(tmp_path / "o.onnx")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "sliceport: begun\n"
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        process.send_signal(second)
        process.send_signal(signal.SIGCONT)
        while process.poll() is None:
            process.send_signal(second)
            time.sleep(0.001)
        assert process.stderr.read() == "sliceport: interrupted\n"
    assert process.returncode == 128 + signal.SIGINT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("begin", ["", "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"])
def test_log_of_a_child_is_shown(models: Path, begin: str) -> None:
    """A process with threads does not fork its child."""
    code = f"import sys, threading, time\n{begin}\nfrom sliceport.cli.start import main\nsys.exit(main())"
    words = [sys.executable, "-c", code, "compare", str(models / "rule_glu.onnx"), "-vv"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    assert "ValueInfoProto not found" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="a terminal as Linux has it")
def test_child_that_logs_to_a_terminal_is_not_stopped(models: Path, tmp_path: Path) -> None:
    """`stty tostop` stops processes in the background that write to the terminal."""
    import termios

    terminal, end = os.openpty()
    attributes = termios.tcgetattr(end)
    attributes[3] |= termios.TOSTOP
    termios.tcsetattr(end, termios.TCSANOW, attributes)
    code = "import fcntl, termios\nfcntl.ioctl(2, termios.TIOCSCTTY, 0)\n"
    code += PREPARED.format(action="os.write(2, b'a log')")
    words = [sys.executable, "-c", code, "rewrite", str(models / MODEL), "-o", str(tmp_path / "o.onnx"), "-vv"]
    with subprocess.Popen(words, stdin=end, stdout=end, stderr=end, start_new_session=True) as process:
        os.close(end)
        timer = threading.Timer(60, process.kill)
        timer.start()
        with contextlib.suppress(OSError):  # the terminal is closed
            while os.read(terminal, 4096):
                pass
        timer.cancel()
    os.close(terminal)
    assert process.returncode == 0
