"""Work that takes more than it may is interrupted wherever it is, and nothing is interrupted once it is over."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from guarded_calls import spin_for
from sliceport.limits import LimitExceeded, lifted, limited, seconds_left, uninterrupted

from sliceport import guarded, limits
from sliceport.cli.main import main
from sliceport.errors import ModelError
from sliceport.sandbox.place import write_files

ENOUGH = 60.0
"""Seconds after which a loop that should have been interrupted ends by itself."""


def test_processor_time_is_limited() -> None:
    message = r"^it takes more than 0.2 s of processor time; --timeout 0 sets no limit.$"
    with pytest.raises(ModelError, match=message), limited(0.2, None):
        spin_for(ENOUGH)
    spin_for(0.5)  # nothing counts any more


def test_waiting_takes_no_time() -> None:
    with limited(0.2, None):
        time.sleep(0.6)


def test_the_time_of_workers_counts() -> None:
    with pytest.raises(ModelError, match="of processor time"), limited(0.2, None):
        guarded.call(spin_for, 1.0, timeout=ENOUGH)
        for _ in range(100):
            time.sleep(0.1)


def test_what_has_limits_of_its_own_does_not_count() -> None:
    with limited(0.5, None):
        before = seconds_left()
        with lifted(), lifted():
            assert seconds_left() == float("inf")
            spin_for(0.8)
        assert before - 0.2 < seconds_left() <= before
        with pytest.raises(LimitExceeded):
            spin_for(ENOUGH)
    assert seconds_left() == float("inf")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is looked at on Linux alone")
def test_memory_is_limited() -> None:
    most = limits._memory_used() + 2**27
    message = r"^it takes more than \d+ MiB of memory; --memory 0 sets no limit.$"
    with pytest.raises(ModelError, match=message), limited(None, most):
        held = bytearray(2**28)
        held[:: 2**10] = b"x" * 2**18
        spin_for(ENOUGH)


def test_what_others_make_of_the_interruption_is_the_same_error() -> None:
    with pytest.raises(ModelError, match="of processor time"), limited(0.2, None):
        try:
            spin_for(ENOUGH)
        except KeyboardInterrupt:
            raise RuntimeError("a callback failed") from None


def test_an_interruption_that_gets_lost_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_TRIES", 3)
    lost = []
    with pytest.raises(ModelError, match="of processor time"), limited(0.2, None):
        try:
            spin_for(ENOUGH)
        except LimitExceeded:
            lost.append(1)
        spin_for(ENOUGH)
    assert lost


def test_an_import_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.joinpath("slowly_imported.py").write_text(
        "from guarded_calls import spin_for\nspin_for(0.6)\nis_complete = True\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ModelError, match="of processor time"), limited(0.2, None):
        import slowly_imported  # type: ignore[import-not-found]

        spin_for(ENOUGH)
    assert slowly_imported.is_complete


def test_an_error_of_the_work_stays_itself() -> None:
    with pytest.raises(ZeroDivisionError), limited(ENOUGH, None):
        raise ZeroDivisionError


def test_nothing_is_raised_after_the_end() -> None:
    ends = {True: 0, False: 0}
    for turn in range(10):
        exceeded = False
        try:
            with limited(0.05, None), contextlib.suppress(LimitExceeded):
                spin_for(0.05 + 0.02 * turn)
        except ModelError:
            exceeded = True
        ends[exceeded] += 1
        spin_for(0.02)
    spin_for(0.3)
    assert sum(ends.values()) == 10


def test_steps_that_belong_together_are_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    with pytest.raises(ModelError, match="of processor time"), limited(0.2, None):
        with uninterrupted(), uninterrupted():
            spin_for(0.5)
            done.append("first")
        done.append("second")
    assert done == ["first"]


def test_ctrl_c_waits_for_the_end_of_such_steps_too() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt) as caught, limited(ENOUGH, None):
        with uninterrupted():
            _thread.interrupt_main()
            done.append("first")
        done.append("second")
    assert done == ["first"]
    assert not isinstance(caught.value, LimitExceeded)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_without_a_limit(number: signal.Signals) -> None:
    done: list[object] = []
    before = signal.signal(number, lambda *_: done.append("signal"))
    try:
        with uninterrupted():
            _thread.interrupt_main(number)
            done.append("step")
        assert done == ["step", "signal"]
    finally:
        signal.signal(number, before)


def slow(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function after which time is up."""

    def call(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        spin_for(0.5)
        return result

    return call


@pytest.mark.parametrize(("function", "is_written"), [("mkdir", False), ("unlink", True), ("replace", True)])
def test_files_are_written_together_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, is_written: bool
) -> None:
    files = [tmp_path / "data", tmp_path / "model"]
    for file in files:
        file.write_text("old")
    monkeypatch.setattr(os, function, slow(getattr(os, function)))

    def write(folder: Path) -> None:
        for file in files:
            (folder / file.name).write_text("new")

    with contextlib.nullcontext() if is_written else pytest.raises(ModelError), limited(0.2, None):
        write_files(files, write, overwrite=True)
    assert {file.read_text() for file in files} == {"new" if is_written else "old"}
    assert sorted(tmp_path.iterdir()) == files


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """A model of Slices one after the other, all of which are read: rewriting it takes two seconds."""
    count = 1500
    nodes = " ".join(f"v{i + 1} = Slice(v{i}, one, end)" for i in range(count))
    outputs = ", ".join(f"float[n{i}] v{i + 1}" for i in range(count))
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[{count + 1}] v0) => ({outputs})
        <int64[1] one = {{1}}, int64[1] end = {{9223372036854775807}}> {{ {nodes} }}""")
    file = tmp_path / "m.onnx"
    onnx.save(model, file)
    return file


def test_a_command_says_so_and_leaves_nothing(chain: Path) -> None:
    words = ["rewrite", str(chain), "-o", str(chain.with_name("o.onnx")), "--timeout"]
    done = [  # in processes of their own: an import that is interrupted leaves half of a module
        subprocess.run(
            [sys.executable, "-m", "sliceport", *words, seconds], capture_output=True, text=True, check=False
        )
        for seconds in ("0.3", "0")
    ]
    assert [each.returncode for each in done] == [2, 0]
    sentence = "it takes more than 0.3 s of processor time; --timeout 0 sets no limit."
    assert (done[0].stdout, done[0].stderr) == ("", f"sliceport: '{chain}': {sentence}\n")
    assert sorted(file.name for file in chain.parent.iterdir()) == ["m.onnx", "o.onnx"]


@pytest.mark.parametrize(
    ("words", "function"),
    [
        (["lower", "MODEL"], "lower"),
        (["compare", "MODEL"], "compare"),
        (["rewrite", "MODEL", "-o", "o.onnx"], "rewrite"),
        (["harden", "MODEL", "-o", "o.onnx"], "harden"),
    ],
)
def test_all_commands_are_limited(
    chain: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    function: str,
) -> None:
    work: Callable[..., None] = lambda *_, **__: spin_for(ENOUGH)  # noqa: E731
    monkeypatch.setattr(f"sliceport.api.{function}", work)
    command = [str(chain) if word == "MODEL" else word for word in words]
    assert main([*command, "--timeout", "0.2"]) == 2
    assert "it takes more than 0.2 s of processor time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--timeout", "long", "--timeout must be a number of seconds, or 0 for any, got 'long'."),
        ("--timeout", "-1", "--timeout must be a number of seconds, or 0 for any, got '-1'."),
        ("--memory", "1M", "--memory must be at least 256M, or 0 for any, got '1M'."),
        ("--memory", "much", "--memory must be a size such as 512M or 4G, or 0 for any, got 'much'."),
    ],
)
def test_what_is_no_limit(
    chain: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, message: str
) -> None:
    assert main(["lower", str(chain), option, value]) == 2
    assert message in capsys.readouterr().err


def test_a_large_model_may_take_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def note(seconds: float, memory: int) -> contextlib.AbstractContextManager[None]:
        found.append((seconds, memory))
        return contextlib.nullcontext()

    monkeypatch.setattr("sliceport.cli.limits.limited", note)
    (tmp_path / "m.xml").write_bytes(b"<net/>")
    for size in (0, 2**20, 10 * 2**20, 110 * 2**20):
        with open(tmp_path / "m.bin", "wb") as file:
            file.truncate(size)
        main(["lower", str(tmp_path / "m.xml")])
    main(["lower", str(tmp_path / "missing.onnx")])
    small = (8.0, 800 * 2**20)
    assert found[:2] == [small, small]
    assert found[3:] == [(18.0, 800 * 2**20 + 8 * (100 * 2**20 + 6)), small]
