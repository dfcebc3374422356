"""The streams of the command line: whatever they are, and whatever names and libraries put into them."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import unicodedata
from pathlib import Path

import onnx
import pytest
from command_line import Invoke
from onnx import TensorProto, helper
from platforms import POSIX
from terminal import in_terminal

from onnx_ops import lowering
from sliceport.cases import catalogue
from sliceport.cli import console
from sliceport.cli.main import main
from sliceport.errors import OutputError
from sliceport.report import table
from sliceport.sandbox import progress
from sliceport.wording import shell

COALESCE = "rule_coalesce.onnx"
HOSTILE = [
    "a\x1b[31mred", "b\x00\x07\x7f", "c\x9b2J", "d\u202egnp.exe", "e\u200b\u2060\ufeff", "f\u2066\u2069",
    "g\r\nrefused: no", "h\u2028\u2029", "i\U000e0041",
]  # fmt: skip


def hostile_model(name: str, size: int | str = 4) -> onnx.ModelProto:
    """Build a Split with names that contain `name`."""
    node = helper.make_node("Split", [name], [f"{name}1", f"{name}2"], name=name, axis=0)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size])]
    outputs = [helper.make_tensor_value_info(f"{name}{i}", TensorProto.FLOAT, None) for i in (1, 2)]
    graph = helper.make_graph([node], name, inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


def save(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


class TestNames:
    @pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
    @pytest.mark.parametrize("command", ["lower", "compare", "rewrite", "harden"])
    def test_names_are_escaped_on_a_terminal(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, command: str
    ) -> None:
        for size in (4, "n\x1b[2J", 0):
            path = save(hostile_model(name, size), tmp_path)
            output = ["-o", str(tmp_path / "out.onnx"), "--overwrite"] if command in ("rewrite", "harden") else []
            main([command, str(path), *output, "-v"])
            captured = capsys.readouterr()
            for line in (captured.out + captured.err).split("\n"):
                assert line.isprintable(), line
        assert "\nrefused: no" not in captured.out

    @pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
    def test_names_never_reach_errors_raw(self, invoke: Invoke, tmp_path: Path, name: str) -> None:
        model = hostile_model(name)
        model.graph.node[0].input[0] = f"{name}?"
        err = invoke("lower", save(model, tmp_path), code=2).err
        assert err[:-1].isprintable()
        assert err[-1] == "\n"
        assert invoke("lower", tmp_path / name.replace("\0", ""), code=2).err[:-1].isprintable()

    @pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
    def test_are_left_as_they_are_in_json_which_is_ascii(self, invoke: Invoke, tmp_path: Path, name: str) -> None:
        path = save(hostile_model(name), tmp_path)
        out = invoke("lower", path, "--format", "json", "-o", tmp_path / "out").out
        assert out.isascii()
        assert json.loads(out)["nodes"][0]["name"] == name
        written = (tmp_path / "out" / "program.json").read_bytes()
        assert written.isascii()
        assert json.loads(written) == json.loads(out)

    def test_everything_that_acts_or_hides_is_escaped_and_nothing_else(self) -> None:
        for code in range(0x110000):
            character = chr(code)
            acts = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs") and code != 32
            assert (table.printable(character) == character) is not acts, hex(code)

    def test_lone_surrogates_and_numbers_that_json_lacks(self, capsys: pytest.CaptureFixture[str]) -> None:
        console.emit_json({"a": ["\udcff", float("inf"), float("nan"), 1.5], "b": "ä"})
        out = capsys.readouterr().out
        assert out.isascii()
        assert json.loads(out, parse_constant=pytest.fail) == {"a": ["\udcff", None, None, 1.5], "b": "ä"}


class TestOptions:
    @pytest.mark.parametrize("order", range(6))
    def test_options_may_stand_before_the_model(self, invoke: Invoke, tmp_path: Path, order: int) -> None:
        text = '<ir_version: 9, opset_import: ["" : 11]> '
        text += (
            "g (float[n] a, float[m] b) => (float[k] c, float[k] d, float[l] e) { c, d = Split (a) e, f = Split (b) }"
        )
        path = str(save(onnx.parser.parse_model(text), tmp_path))
        a, b = ("--input-shapes", "a:4"), ("--input-shapes", "b:[6]")
        arguments = [
            [*a, *b, path], [path, *a, *b], [*a, "b:6", path], [path, *a, "b:6"], [*a, path, *b],
            ["--input-shapes=a:4", *b, "--", path],
        ][order]  # fmt: skip
        assert "2 nodes: 2 lowered" in invoke("lower", "-q", *arguments).out

    def test_arrays_may_stand_before_the_model(self, models: Path, tmp_path: Path) -> None:
        import numpy as np

        np.save(tmp_path / "x.npy", np.arange(60, dtype=np.float32).reshape(4, 3, 5))
        array = f"x={tmp_path / 'x.npy'}"
        assert main(["compare", "--input", array, str(models / COALESCE)]) == 0
        assert main(["compare", str(models / COALESCE), "--input", array]) == 0

    @pytest.mark.parametrize("path", [r"C:\models\m.onnx", "C:m.onnx", "a:b/m", "m.onnx", "m"])
    def test_a_file_is_no_shape(self, invoke: Invoke, path: str) -> None:
        assert f"'{path}': it cannot be read" in invoke("lower", "--input-shapes", "x:1,16", path, code=2).err


NAMES = [
    "x", "two words", "it's", 'say "x"', "a:b", "a:1,2", "a,b", "-dash", "--input", "$HOME", "`id`", "a\\b", "x=1",
    "a;b|c&d", "Größe",
    "tab\tnew\nline", "\x1b[31m", "!x", "*", "",
]  # fmt: skip


class TestHints:
    def open_model(self, *names: str) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"batch{i}", "sequence", None, 8])
            for i, name in enumerate(names)
        ]
        nodes = [helper.make_node("Split", [name], [f"a{i}", f"b{i}"], axis=-1) for i, name in enumerate(names)]
        outputs = [helper.make_tensor_value_info(f"a{i}", TensorProto.FLOAT, None) for i in range(len(names))]
        graph = helper.make_graph(nodes, "g", inputs, outputs)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)

    @POSIX
    def test_are_accepted_as_printed(self, invoke: Invoke, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        bash = shutil.which("bash")
        if bash is None:
            pytest.skip("no bash to paste into")
        for names in ((name,) for name in NAMES if name):
            path = str(save(self.open_model(*names, "other"), tmp_path))
            (hint,) = set(re.findall(r"as in (--input-shapes.*) \(an example\)", invoke("lower", path, code=1).out))
            done = subprocess.run([bash, "-c", f"printf '%s\\0' {hint}"], capture_output=True, check=True)
            words = done.stdout.decode().split("\0")[:-1]
            for arguments in (["lower", path, *words], ["lower", *words, path]):
                assert main(arguments) == 0, hint
                assert capsys.readouterr().out.splitlines()[-1].startswith("2 ")

    def test_a_symbol_has_one_size(self, invoke: Invoke, tmp_path: Path) -> None:
        example = shell.join(["--input-shapes", "x:1,16,16,8", "y:1,16,16,8"])
        assert f"as in {example} (an example)" in invoke("lower", save(self.open_model("x", "y"), tmp_path), code=1).out

    def test_what_is_no_number_is_said(self, invoke: Invoke, tmp_path: Path) -> None:
        path = str(save(self.open_model("x"), tmp_path))
        printed = invoke("lower", path, "--input-shapes", "x:batch,16,16,8", code=2)
        assert "'x:batch,16,16,8' must be written NAME:1,3,224,224" in printed.err

    def test_quoting_on_windows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "win32")
        words = ["plain", "two words", 'say "x"', "C:\\a b\\", "x:1,16", "a&b", "50%", "end\\,\\"]
        expected = [
            "plain",
            '"two words"',
            r'"say \"x\""',
            '"C:\\a b\\\\"',
            '"x:1,16"',
            '"a&b"',
            '"50%"',
            '"end\\,\\\\"',
        ]
        assert [shell.join([word]) for word in words] == expected


def sliceport(*arguments: object, redirected: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own, whose streams a shell redirects as `redirected` says."""
    words = [sys.executable, "-m", "sliceport", *map(str, arguments)]
    return subprocess.run(
        ["/bin/sh", "-c", f'"$@" {redirected}', "sh", *words],
        capture_output=True, check=False, timeout=120, env={**os.environ, **environment},
    )  # fmt: skip


@POSIX
class TestStreams:
    @pytest.mark.parametrize("format_", ["text", "json"])
    def test_stdout_that_is_closed(self, models: Path, format_: str) -> None:
        done = sliceport("lower", models / COALESCE, "--format", format_, redirected=">&-")
        assert (done.returncode, done.stderr) == (2, b"sliceport: the result cannot be written: stdout is closed.\n")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
    @pytest.mark.parametrize("arguments", [["lower", COALESCE], ["--version"], []])
    def test_stdout_that_is_full(self, models: Path, arguments: list[str]) -> None:
        words = [models / word if word == COALESCE else word for word in arguments]
        done = sliceport(*words, redirected=">/dev/full")
        message = b"sliceport: the result cannot be written to stdout (No space left on device).\n"
        assert (done.returncode, done.stderr) == (2, message)

    @pytest.mark.parametrize("redirected", ["2>/dev/full", ">/dev/null 2>&- <&-"])
    @pytest.mark.parametrize(("model", "code"), [(COALESCE, 0), ("rule_rank_limit.onnx", 1), ("none.onnx", 2)])
    def test_other_streams_that_are_closed_or_full(self, models: Path, redirected: str, model: str, code: int) -> None:
        assert sliceport("lower", models / model, redirected=redirected).returncode == code

    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
    @pytest.mark.parametrize("format_", ["text", "json"])
    def test_stdout_may_have_any_encoding(self, tmp_path: Path, encoding: str, format_: str) -> None:
        path = save(hostile_model("Größe 大きさ \x1b"), tmp_path)
        done = sliceport("lower", path, "--format", format_, PYTHONIOENCODING=encoding)
        assert (done.returncode, done.stderr) == (0, b"")
        assert "lowered" in done.stdout.decode(encoding)

    @pytest.mark.parametrize("format_", ["text", "json"])
    def test_a_reader_that_has_enough(self, models: Path, format_: str) -> None:
        """`| head -1`: more than a pipe holds."""
        command = [sys.executable, "-m", "sliceport", "lower", str(models / "dynamo_bigbird.onnx"), "--format", format_]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
        process.stderr.close()

    @pytest.mark.parametrize("words", [("lower", "--help"), ("defects",)])
    def test_commands_end_silently_for_a_reader_that_has_enough(self, words: tuple[str, ...]) -> None:
        done = sliceport(*words, redirected="| true")
        assert (done.returncode, done.stderr) == (0, b"")


def test_streams_that_python_closed_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.StringIO())
        getattr(sys, name).close()
    assert main(["lower", "none.onnx"]) == 2
    console.say("a message")
    with pytest.raises(OutputError, match="stdout is closed"):
        console.emit("a result")
    assert (console.width(), console.can_show_status()) == (None, False)


@POSIX  # the child is forked with the patch; Windows starts another process
class TestNoise:
    PROGRAM = """
import logging, os, sys, warnings
from onnx_ops import lowering
from sliceport.cli.start import main
plain = lowering.read_any
def read_any(path):
    os.write(1, b"printed\\n")
    os.write(2, b"I0000 1.cc:1] from C++\\n")
    logging.getLogger("library").error("from a log")
    logger = logging.getLogger("stubborn")
    logger.setLevel(logging.WARNING)
    logger.warning("from a stubborn log")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("from a warning", stacklevel=1)
    return plain(path)
lowering.read_any = read_any
sys.exit(main())
"""

    def lower(self, models: Path, option: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", self.PROGRAM, "lower", str(models / COALESCE), "--format", "json", option]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)

    def test_of_libraries_stays_off_the_streams(self, models: Path) -> None:
        done = self.lower(models, "-v")
        assert json.loads(done.stdout)
        assert done.stderr == ""

    def test_is_on_stderr_when_asked_for(self, models: Path) -> None:
        done = self.lower(models, "-vv")
        assert json.loads(done.stdout)
        for words in ("printed", "from C++", "from a log", "from a stubborn log", "from a warning"):
            assert words in done.stderr


class TestUnforeseen:
    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (
                ZeroDivisionError("by\nnothing"),
                "internal error (ZeroDivisionError: by nothing); -vv shows where; please report it with this model.",
            ),
            (KeyError(), "internal error (KeyError); -vv shows where"),
            (OSError(5, "Input/output error"), "(OSError: [Errno 5] Input/output error)"),
            (MemoryError(), "the model exceeds the memory of this machine"),
            (RuntimeError("std::bad_alloc"), "the model exceeds the memory of this machine"),
            (RecursionError("deep"), "the model exceeds the nesting depth of this machine"),
            (ValueError("x" * 5000), f"(ValueError: {'x' * 300}…)"),
        ],
    )
    def test_is_a_sentence_that_names_the_file(
        self, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
    ) -> None:
        def failing(_path: str | os.PathLike[str]) -> None:
            raise error

        monkeypatch.setattr(lowering, "read_any", failing)
        err = invoke("lower", "some.onnx", code=2).err
        assert err.startswith("sliceport: 'some.onnx': ")
        assert message in err
        assert (err.count("\n"), err[-2:]) == (1, ".\n")
        for loud in (["-vv"], ["-v", "-v"], ["-vvv"], ["-qvv"], ["--verbose", "-v"]):
            assert "Traceback" in invoke("lower", "some.onnx", *loud, code=2).err
        assert "Traceback" not in invoke("lower", "some.onnx", "-v", code=2).err

    def test_abbreviated_options_show_the_traceback(self, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(catalogue, "read_catalogue", lambda: 1 / 0)
        assert "Traceback" in invoke("cases", "--export", "folder", "--verb", "--verbos", code=2).err


class TestWidth:
    ROWS = (("node", "op", "becomes"), ("a" * 30, "Slice-13", "#0 SLICE1 " + "offsets " * 8), ("b", "Split-13", ""))

    def test_a_table_that_fits_is_as_it_is(self) -> None:
        assert table.table(self.ROWS, 200) == table.table(self.ROWS, None)
        assert table.table(self.ROWS, None).splitlines()[3] == f"{'b'.ljust(30)}  Split-13"

    @pytest.mark.parametrize("columns", range(20, 130, 3))
    def test_cells_go_on_below_whole(self, columns: int) -> None:
        text = table.table(self.ROWS, columns)
        assert max(map(len, text.splitlines())) <= max(columns, 32)
        assert text.split() == [word for line in table.table(self.ROWS, columns).splitlines() for word in line.split()]
        for row in self.ROWS:
            for cell in row[:2]:
                assert cell in text

    def test_wide_characters_count_twice(self) -> None:
        marked = ("e\u0301", "☀\ufe0f", "\u0915\u0941")  # marks take no column, whatever their combining class is
        rows = (("name", "op"), ("大きさ", "Slice"), *((name, "Split") for name in marked))
        lines = table.table(rows, None).splitlines()
        assert [table.display_width(line[: line.index("S")]) for line in lines[2:]] == [8, 8, 8, 8]
        assert [*map(table.display_width, marked)] == [1, 1, 1]

    def test_line_of_blanks_stays_a_line(self) -> None:
        assert table.wrap(" " * 30, 20) == [""]

    @POSIX
    def test_on_a_terminal_of_80_columns(self, models: Path) -> None:
        out = in_terminal("lower", models / "rule_siblings.onnx", "-v").splitlines()
        assert max(map(len, out)) <= 80
        assert "  #1 SPLIT FLOAT32 [2,32] axis 1 into [12,20]" in [line.rstrip() for line in out]

    @POSIX
    def test_a_pipe_has_any_width(self, models: Path) -> None:
        out = sliceport("lower", models / "rule_siblings.onnx", "-v", COLUMNS="40").stdout.decode().splitlines()
        assert max(map(len, out)) > 80


class TestProgress:
    class Terminal:
        closed = False

        def __init__(self) -> None:
            self.text = ""
            self.was_shown = threading.Event()

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> None:
            self.text += text
            if "thinking" in text:
                self.was_shown.set()

        def flush(self) -> None:
            pass

    def test_is_shown_after_a_while_and_gone_at_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = self.Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(console, "_DELAY", 0.01)
        with console.prepared_streams(loud=False), console.showing_progress():
            progress.say("thinking of m.onnx")
            assert terminal.was_shown.wait(60)
            console.say("a message")
        shown, _, rest = terminal.text.rpartition("sliceport: a message\n")
        assert "sliceport: thinking of m.onnx (" in shown
        assert re.search(r"\r +\r$", shown)
        assert rest == "" or re.search(r"\r +\r$", rest)

    def test_line_fits_the_terminal_of_stderr(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = self.Terminal()
        terminal.fileno = lambda: 2  # type: ignore[attr-defined]
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(os, "get_terminal_size", lambda file: os.terminal_size((40 if file == 2 else 200, 24)))
        with console.showing_progress():
            console.show_status("m" * 100)
        assert len(terminal.text.partition("\r")[0]) == 39

    def test_nothing_is_shown_elsewhere(self, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
        monkeypatch.setattr(console, "_DELAY", 0.0)
        assert invoke("compare", models / COALESCE).err == ""
