"""Completion in shells, and help in colour."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Invoke
from platforms import POSIX
from terminal import in_terminal

from sliceport.cli.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_the_commands_and_options(shell: str, invoke: Invoke) -> None:
    script = invoke("completion", shell).out
    for word in ("lower", "compare", "rewrite", "harden", "directml", "feature-level", "openvino-cpu"):
        assert word in script


@POSIX
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["sliceport", "comp"], ["compare", "completion"]),
        (["sliceport", "harden", "--target", "open"], ["opencv", "openvino-cpu"]),
        (["sliceport", "lower", "--feat"], ["--feature-level"]),
        (["sliceport", "lower", "m.on"], ["m.onnx"]),
        (["sliceport", "check", "m.on"], ["m.onnx"]),
        (["sliceport", "diff", "m.onnx", "m.on"], ["m.onnx"]),
        (["sliceport", "check", "m.onnx", "--model-explorer", "m.on"], ["m.onnx"]),
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


def test_without_shtab_the_extra_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert 'pip install "sliceport[cli]"' in invoke("completion", "bash", code=2).err


@POSIX
def test_help_is_coloured_on_a_terminal_only() -> None:
    words = ("compare", "--help")
    assert "\x1b[" in in_terminal(*words)
    for plain in (in_terminal(*words, NO_COLOR="1"), in_terminal(*words, TERM="dumb")):
        assert "\x1b[" not in plain
        assert "dml-emulator" in plain
    done = subprocess.run([sys.executable, "-m", "sliceport", "compare", "--help"], capture_output=True, check=True)
    assert b"\x1b[" not in done.stdout
