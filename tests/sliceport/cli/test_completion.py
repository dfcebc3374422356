"""Completion in shells, and help in colour."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from platforms import POSIX

from sliceport.cli.completion import SHELLS
from sliceport.cli.main import main


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_the_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("lower", "compare", "rewrite", "harden", "directml", "feature-level", "openvino-cpu"):
        assert word in script


@POSIX
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["sliceport", "comp"], ["compare", "completion"]),
        (["sliceport", "harden", "--target", "open"], ["openvino-cpu"]),
        (["sliceport", "lower", "--feat"], ["--feature-level"]),
        (["sliceport", "lower", "m.on"], ["m.onnx"]),
    ],
)
def test_bash_completes(words: list[str], completed: list[str], tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    script = subprocess.run(
        [sys.executable, "-m", "sliceport", "completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    quoted = " ".join(f"'{word}'" for word in words)
    ask = f"""
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
_shtab_sliceport
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash"], input=script + ask, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert sorted(line.strip() for line in done.stdout.splitlines()) == completed


def test_without_shtab_the_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert 'pip install "sliceport[cli]"' in capsys.readouterr().err


def show_help(columns: int = 80, **environment: str) -> str:
    """What `sliceport compare --help` writes to a terminal."""
    import pty

    parent, child = pty.openpty()
    names = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    names |= {"TERM": "xterm-256color", "COLUMNS": str(columns), **environment}
    process = subprocess.Popen([sys.executable, "-m", "sliceport", "compare", "--help"], stdout=child, env=names)
    os.close(child)
    parts = []
    while True:
        try:
            part = os.read(parent, 2**16)
        except OSError:  # the terminal is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(parent)
    assert process.wait(60) == 0
    return b"".join(parts).decode()


@POSIX
def test_help_is_coloured_on_a_terminal_only() -> None:
    assert "\x1b[" in show_help()
    for plain in (show_help(NO_COLOR="1"), show_help(TERM="dumb")):
        assert "\x1b[" not in plain
        assert "dml-emulator" in plain
    done = subprocess.run([sys.executable, "-m", "sliceport", "compare", "--help"], capture_output=True, check=True)
    assert b"\x1b[" not in done.stdout
