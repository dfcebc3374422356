"""A worker that dies, hangs or runs out of memory costs its call and nothing else."""

import errno
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from unittest.mock import Mock

import deadly_format
import pytest
import sandbox_calls
import sandbox_child
from processes import assert_gone, children, descriptors_left, ticks

from sliceport.errors import ModelError, UsageError, is_out_of_memory
from sliceport.sandbox import child, child_process, held_up, progress, supervisor
from sliceport.sandbox.child_process import ChildDied, ChildKilled, ChildNotStarted, ChildTerminated, ChildTimedOut
from sliceport.sandbox.held_up import is_held_up
from sliceport.sandbox.lock import locked
from sliceport.sandbox.progress import listen_to_progress


@pytest.fixture(scope="module", autouse=True)
def _children_are_interpreters() -> Iterator[None]:
    """Start the children as users' processes do."""
    supervisor.end_idle()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_process, "_start", sandbox_child.start_interpreter)
        yield
    supervisor.end_idle()


def test_a_call_returns_or_raises() -> None:
    assert supervisor.call(math.sqrt, 9, timeout=60) == 3
    with pytest.raises(ValueError, match="math domain error"):
        supervisor.call(math.sqrt, -1, timeout=60)


def test_a_call_that_may_take_less_than_the_one_before_is_ended_in_its_own_time() -> None:
    assert 0 < supervisor.call(child.seconds_left, timeout=600) <= 600
    assert supervisor.call(child.seconds_left) is None
    with pytest.raises(ChildTimedOut, match=r"^took longer than 0\.2 s$"):
        supervisor.call(time.sleep, 600, timeout=0.2)
    supervisor.call(time.sleep, 0, timeout=None)


@pytest.mark.skipif(sys.platform == "win32", reason="memory is not limited there")
def test_memory_is_limited() -> None:
    with pytest.raises(MemoryError):
        supervisor.call(bytearray, 2**28, timeout=60, memory=2**27)
    assert len(supervisor.call(bytes, 2**28, timeout=60)) == 2**28


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")
@pytest.mark.parametrize("memory", [2**40, 2**20, None])
def test_a_limit_of_memory_that_a_process_has_stays(memory: int | None) -> None:
    code = (
        "import resource, sys\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_DATA)\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**34, hard))\n"
        "from sandbox_calls import limits_of_memory_of_a_worker\n"
        f"within, after = limits_of_memory_of_a_worker({memory})\n"
        "assert within[0] < 2**34 if sys.argv[1:] else within == (2**34, hard), within\n"
        "assert after == (2**34, hard), after\n"
    )
    small = ["small"] if memory == 2**20 else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code, *small], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_is_printed_does_not_mix_with_answers(capfd: pytest.CaptureFixture[str]) -> None:
    assert supervisor.call(os.write, 1, b"noise", timeout=60) == 5
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_workers_of_its_own() -> None:
    parents = supervisor.call(os.getpid, timeout=60)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"%d" % supervisor.call(os.getpid, timeout=60))
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 20)) != parents
    assert supervisor.call(os.getpid, timeout=60) == parents


@pytest.mark.skipif(sys.platform not in ("linux", "win32"), reason="only they end a process with another")
def test_a_worker_at_work_ends_with_a_process_that_is_killed() -> None:
    """Even if it is deep in C, as here, where no thread of Python's gets its turn, and has no limit of time."""
    code = (
        "import os, re, threading\n"
        "from sliceport.sandbox import signals, supervisor\n"
        "print(supervisor.call(os.getpid, timeout=60), flush=True)\n"
        "supervisor.call(re.match, '(a+)+b', 'a' * 40, timeout=None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        begun = ticks(worker)
        while ticks(worker) < begun + 10:  # it is at work
            time.sleep(0.02)
        process.kill()
    assert_gone([worker])


def test_what_a_worker_that_dies_said_is_told() -> None:
    with pytest.raises(ChildDied) as died:
        supervisor.call(sandbox_calls.say_and_abort, "before\nlast words\n", timeout=60)
    assert died.value.stderr.splitlines()[:2] == ["before", "last words"]
    supervisor.call(os.write, 2, b"of the call before\n", timeout=60)
    with pytest.raises(ChildDied) as died:
        supervisor.call(sandbox_calls.say_and_abort, "of this call\n", timeout=60)
    assert died.value.stderr.splitlines()[0] == "of this call"


def test_what_a_worker_started_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "child"
    stop_event = threading.Event()
    args = (stop_event, sandbox_calls.start_a_child_and_hang, str(file))
    thread = threading.Thread(target=_call_and_ignore, args=args)
    thread.start()
    while not file.exists():
        time.sleep(0.02)
    supervisor.end_calls(threading.Event())  # of other calls
    assert thread.is_alive()
    supervisor.end_calls(stop_event)
    thread.join(60)
    assert not thread.is_alive()
    assert_gone([int(file.read_text())])
    _call_and_ignore(stop_event, time.sleep, 600)


def _call_and_ignore(stop_event: threading.Event, function: Callable[[Any], None], argument: object) -> None:
    with pytest.raises(ChildDied):
        supervisor.call(function, argument, timeout=600, stop_event=stop_event)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much a process has allocated")
def test_a_worker_that_keeps_much_memory_is_replaced() -> None:
    worn = supervisor.call(sandbox_calls.keep, 2**30 + 2**28, timeout=60, memory=2**31)
    assert supervisor.call(os.getpid, timeout=60) != worn
    assert_gone([worn])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds it")
def test_workers_of_a_worker_are_bounded_as_it_is() -> None:
    assert supervisor.call(sandbox_calls.let_another_take, 2**28, timeout=60, memory=2**30) == 2**28
    with pytest.raises(MemoryError):
        supervisor.call(sandbox_calls.let_another_take, 2**30, timeout=60, memory=2**29)
    with pytest.raises(MemoryError):
        supervisor.call(sandbox_calls.take, 2**30, timeout=60, memory=2**29)
    assert supervisor.call(sandbox_calls.take, 2**30, timeout=60, memory=None) == 2**30


@pytest.mark.skipif(not hasattr(os, "waitid") and sys.platform != "win32", reason="needs waitid")
def test_the_exit_code_of_a_worker_that_ends_itself_is_told() -> None:
    for _ in range(5):
        with pytest.raises(ChildDied, match=r"^ended with exit code 7$"):
            supervisor.call(sys.exit, 7, timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("name", "error"), [("SIGTERM", ChildTerminated), ("SIGKILL", ChildKilled)])
def test_a_worker_that_is_told_to_end_or_killed_is_told_from_others(name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"^was ended by {name}$"):
        supervisor.call(signal.raise_signal, signal.Signals[name], timeout=60)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs waitid")
def test_an_answer_that_comes_with_the_end_of_the_time_costs_the_next_call_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_late(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
        answer = read(stream)
        os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)  # until it is ended for the time it took
        return answer

    read = child.read_message
    worker = supervisor.call(os.getpid, timeout=60)
    monkeypatch.setattr(child_process, "read_message", read_late)
    assert supervisor.call(os.getpid, timeout=1) == worker
    monkeypatch.undo()
    assert supervisor.call(os.getpid, timeout=60) != worker


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs waitid")
def test_a_worker_that_somebody_ends_while_it_waits_costs_nothing() -> None:
    worker = supervisor.call(os.getpid, timeout=60)
    os.kill(worker, signal.SIGKILL)
    os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    assert supervisor.call(os.getpid, timeout=60) != worker


def test_errors_that_cannot_be_made_again_are_told() -> None:
    with pytest.raises(RuntimeError, match="^Awkward: this and that$"):
        supervisor.call(sandbox_calls.raise_awkward, timeout=60)


FAILS = "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running a node. Name:'{}' Status Message:"
TEXTS = (
    "std::bad_alloc",
    "OSError: [Errno 12] Cannot allocate memory",
    "Error parsing message with type 'onnx.ModelProto': Arena alloc failed",
    f"{FAILS} /core/bfc_arena.cc:360 void* Alloc(size_t) Failed to allocate memory for requested buffer of size 8\n",
    rf"{FAILS} D:\a\bfc.cc:1 onnxruntime::BFCArena::Alloc Failed to allocate memory for requested buffer of size 8",
    "Exception from src/core.cpp:105:\nLoading input model\nstd::bad_alloc\n\n",
)
LACKS = (MemoryError(), OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), *map(RuntimeError, TEXTS))
DIED = ChildDied("was ended by SIGABRT", "what():  std::bad_alloc")


@pytest.mark.parametrize(
    "name", ["std::bad_alloc", "alloc failed", "Failed to allocate memory for requested buffer of size 8"]
)
@pytest.mark.parametrize(
    "text", [f"{FAILS} invalid shape", "No graph in '/m/{}'.", "Cannot open /m/{}", 'In Node, ("{}", Slice)']
)
def test_name_in_an_error_is_not_a_lack_of_memory(text: str, name: str) -> None:
    assert not is_out_of_memory(RuntimeError(text.format(name)))


@pytest.mark.parametrize("error", [*LACKS, DIED, ModelError("'std::bad_alloc.onnx' is a folder.")], ids=repr)
def test_error_after_a_lack_of_memory_is_a_memory_error(error: Exception) -> None:
    expected = UsageError if isinstance(error, ModelError) else MemoryError
    with pytest.raises(expected, match="^output 'model' cannot be written"):
        supervisor.call(deadly_format.fail_to_write, error, timeout=60)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells the end of a process by a descriptor")
def test_the_end_of_a_worker_is_seen_though_a_process_of_its_holds_its_pipe() -> None:
    with pytest.raises(ChildDied, match="^ended with exit code 3$"):
        supervisor.call(sandbox_calls.fork_and_exit, 3, timeout=60)


def test_a_worker_that_cannot_be_started_is_told_from_one_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor.end_idle()
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(ChildNotStarted, match="could not be started"):
        supervisor.call(os.getpid, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the threads of a process")
def test_process_that_computes_is_held_up_unless_it_has_had_its_time() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "(while :; do :; done); true"]) as process:
        while not (busy := children(process.pid)[1:]):
            time.sleep(0.02)
        assert is_held_up(process.pid, 600)
        while ticks(busy[0]) < 2:
            time.sleep(0.02)
        assert not is_held_up(process.pid, 0.01)
        os.kill(busy[0], signal.SIGSTOP)
        while is_held_up(process.pid, 600):  # until it has stopped
            pass
        os.kill(busy[0], signal.SIGKILL)
    assert not is_held_up(process.pid, 600)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the threads of a process")
def test_thread_that_ends_while_threads_are_read_hides_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_fields(folder: Path) -> list[str]:
        if folder.parent.name == "task" and folder.name == str(process.pid):
            raise FileNotFoundError
        return read(folder)

    read = held_up._read_fields
    code = "import threading; threading.Thread(target=lambda: sum(0 for _ in iter(int, 1))).start()"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        while len(os.listdir(f"/proc/{process.pid}/task")) < 2:
            time.sleep(0.02)
        monkeypatch.setattr(held_up, "_read_fields", read_fields)
        try:
            assert is_held_up(process.pid, 600)
        finally:
            process.kill()


def test_file_that_cannot_be_locked_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    function = "msvcrt.locking" if sys.platform == "win32" else "fcntl.flock"
    monkeypatch.setattr(function, Mock(side_effect=OSError(errno.EINVAL, "no locks")))
    with pytest.raises(OSError, match="no locks"), locked(tmp_path / "file"):
        pass


def test_child_without_a_thread_for_its_time_limit_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Timer, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    with pytest.raises(ChildNotStarted, match=r"^could not be started \(can't start new thread\)$"):
        supervisor.call(os.getpid, timeout=60)


@pytest.mark.parametrize("kind", [RuntimeError, BrokenPipeError])  # the latter also reports a broken pipe of a child
def test_error_of_a_progress_listener_is_raised_as_it_is(kind: type[Exception]) -> None:
    def fail(_: str) -> None:
        raise kind("the terminal is closed")

    with listen_to_progress(fail), pytest.raises(kind, match=r"^the terminal is closed$"):
        supervisor.call(progress.say, "halfway", timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the descriptors of a process")
@pytest.mark.parametrize("forks", [True, False])
def test_child_that_cannot_start_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch, *, forks: bool) -> None:
    def fail() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(child_process, "_start", sandbox_child.start_interpreter)
    monkeypatch.setattr(os, "fork", fail)
    before = os.listdir("/proc/self/fd")
    for spare in range(20):
        with descriptors_left(spare), suppress(ChildNotStarted):
            child_process.ChildProcess(forks=forks).close()
        assert os.listdir("/proc/self/fd") == before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files in memory")
def test_child_needs_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    supervisor.end_idle()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert supervisor.call(math.sqrt, 9, timeout=60) == 3


INTERRUPTED = """
import math, os, queue, signal, sys, threading, time, _thread
from sliceport.sandbox import signals, supervisor
signal.signal(signal.SIGINT, signal.default_int_handler)
def interrupt():
    if sys.platform == "win32":
        _thread.interrupt_main()  # what the handler of Ctrl-C does there
    else:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
worker = supervisor.call(os.getpid, timeout=60)
timer = threading.Timer(0.5, interrupt)
try:
    timer.start()
    {wait}
except KeyboardInterrupt:
    timer.join()
    print(worker, supervisor.call(math.sqrt, 9, timeout=60), supervisor.call(os.getpid, timeout=60))
"""


@pytest.mark.parametrize(
    "wait", ["supervisor.call(time.sleep, 600, timeout=600)", "signals.get_interruptibly(queue.Queue())"]
)
def test_waiting_is_interrupted(wait: str) -> None:
    """By Ctrl-C, which ends no wait of Windows by itself; in a process of its own, as it may end that of the tests."""
    code = INTERRUPTED.replace("{wait}", wait)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    worker, root, next_worker = done.stdout.split()
    assert (root, worker == next_worker) == ("3.0", wait.startswith("signals"))  # an interrupted call ends its worker
    assert_gone([int(worker)])


def test_any_bound_of_memory_is_taken() -> None:
    assert supervisor.call(math.sqrt, 9, timeout=60, memory=10**12 * 2**40) == 3


def test_repeated_call_keeps_the_time_limit_of_both_calls() -> None:
    begun = time.monotonic()
    with pytest.raises(ChildTimedOut, match=r"^took longer than 2 s$"):
        supervisor.call_with_retry(sandbox_calls.crash_late_or_hang, 1.5, timeout=2.0)
    assert time.monotonic() - begun < 3.4
