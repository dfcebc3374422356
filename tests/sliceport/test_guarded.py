"""A worker that dies, hangs or runs out of memory costs its call and nothing else."""

import math
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import deadly
import pytest

from sliceport import guarded


def test_answers() -> None:
    assert guarded.call(math.sqrt, 9, timeout=60) == 3
    with pytest.raises(ValueError, match="math domain error"):
        guarded.call(math.sqrt, -1, timeout=60)


def test_one_worker_serves_call_after_call() -> None:
    assert guarded.call(os.getpid, timeout=60) == guarded.call(os.getpid, timeout=60) != os.getpid()


def test_death_is_an_error_and_the_next_call_succeeds() -> None:
    with pytest.raises(guarded.WorkerDied, match="ended by SIGABRT|exit code"):
        guarded.call(os.abort, timeout=60)
    assert guarded.call(math.sqrt, 4, timeout=60) == 2


def test_a_call_that_never_ends_is_ended() -> None:
    with pytest.raises(guarded.WorkerTimedOut, match="took longer than 0.5 s"):
        guarded.call(time.sleep, 600, timeout=0.5)


@pytest.mark.skipif(sys.platform == "win32", reason="memory is not limited there")
def test_memory_is_limited() -> None:
    with pytest.raises(MemoryError):
        guarded.call(bytearray, 2**28, timeout=60, memory=2**27)
    assert len(guarded.call(bytes, 2**28, timeout=60)) == 2**28


def test_what_is_printed_does_not_mix_with_answers(capfd: pytest.CaptureFixture[str]) -> None:
    assert guarded.call(os.write, 1, b"noise", timeout=60) == 5
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_workers_of_its_own() -> None:
    parents = guarded.call(os.getpid, timeout=60)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"%d" % guarded.call(os.getpid, timeout=60))
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 20)) != parents
    assert guarded.call(os.getpid, timeout=60) == parents


@pytest.mark.skipif(sys.platform == "win32", reason="there a call ends first")
def test_a_worker_ends_with_its_process_in_the_middle_of_a_call(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = "import sys, deadly; from sliceport import guarded; "
    program += "guarded.call(deadly.hold, sys.argv[1], timeout=3600)"
    found = os.pathsep.join([str(Path(deadly.__file__).parent), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen([sys.executable, "-c", program, str(pipe)], env={**os.environ, "PYTHONPATH": found})
    with pipe.open("rb", buffering=0) as held:
        assert held.read(4) == b"here"
        process.kill()
        process.wait()
        ended, _, _ = select.select([held], [], [], 60)
        assert ended
        assert held.read(1) == b""
