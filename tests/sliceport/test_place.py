"""Files and folders appear whole or not at all, whatever comes between, and nothing that is somebody else's goes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from command_line import Invoke
from onnx_models import parse, read_model
from platforms import POSIX

from onnx_ops.model.io import write_model
from sliceport.cli.main import main
from sliceport.errors import ModelError, UsageError
from sliceport.sandbox import place as beside
from sliceport.wording import json_text


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def lower(tmp_path: Path, models: Path) -> list[str]:
    """Return the words that lower a model to the folder `out`, perhaps over an earlier result."""
    return ["lower", str(models / "rule_coalesce.onnx"), "-o", str(tmp_path / "out"), "--overwrite"]


def fill_with(text: str) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        (folder / "mark").write_text(text)

    return fill


def write_all(files: list[Path]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for file in files:
            (folder / file.name).write_text("new")

    return write


def let_fail(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    fails: Callable[[int], bool],
    error: BaseException | type[BaseException],
) -> None:
    """Let `Path.rename` or `Path.replace` raise an error at the calls, counted from 1, that are to fail."""
    real, numbers = getattr(Path, method), count(1)

    def failing(path: Path, target: Path) -> Path:
        if fails(next(numbers)):
            raise error
        moved: Path = real(path, target)
        return moved

    monkeypatch.setattr(Path, method, failing)


class TestInterruptions:
    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError, ZeroDivisionError])
    @pytest.mark.parametrize("at", range(1, 3))
    def test_a_folder_is_the_old_one_or_the_new_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], at: int
    ) -> None:
        beside.fill_folder(tmp_path / "out", fill_with("old"), mark="mark")
        let_fail(monkeypatch, "rename", lambda number: number == at, error)
        with pytest.raises((error, UsageError)):
            beside.fill_folder(tmp_path / "out", fill_with("new"), mark="mark", overwrite=True)
        assert tree(tmp_path) == {"out/mark": b"old"}
        assert os.listdir(tmp_path) == ["out"]

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError, ZeroDivisionError])
    @pytest.mark.parametrize("had", [(), ("m",), ("m.data",), ("m.data", "m")])
    @pytest.mark.parametrize("at", range(5))
    def test_files_are_all_old_or_all_new(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], had: tuple[str, ...], at: int
    ) -> None:
        for name in had:
            (tmp_path / name).write_text("old")
        let_fail(monkeypatch, "replace", lambda number: number == at + 1, error)
        files = [tmp_path / "m.data", tmp_path / "m"]
        if at < (2 * len(files) if had else len(files)):
            with pytest.raises((error, UsageError)):
                beside.write_files(files, write_all(files), overwrite=True)
            assert tree(tmp_path) == dict.fromkeys(had, b"old")
        else:
            beside.write_files(files, write_all(files), overwrite=True)
            assert tree(tmp_path) == {"m": b"new", "m.data": b"new"}
        assert len(os.listdir(tmp_path)) == len(tree(tmp_path))

    @pytest.mark.parametrize("first", range(1, 4))
    def test_a_file_that_cannot_be_put_back_is_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
    ) -> None:
        files = [tmp_path / "m.data", tmp_path / "m"]
        for file in files:
            file.write_text(f"old {file.name}")
        let_fail(monkeypatch, "replace", lambda number: number > first, OSError(5, "Input/output error"))
        with pytest.raises(
            UsageError, match=r"cannot be put back \(Input/output error\): they are in '(.*)'\.$"
        ) as caught:
            beside.write_files(files, write_all(files), overwrite=True)
        aside = re.findall("'([^']*)'", str(caught.value))[-1]
        assert (Path(aside) / "m").read_text() == "old m"
        assert b"old m.data" in tree(tmp_path).values()

    def test_new_files_that_cannot_be_taken_back_stay(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        let_fail(monkeypatch, "replace", lambda number: number > 1, OSError(5, "Input/output error"))
        with pytest.raises(UsageError, match=r"m' cannot be written \(Input/output error\)\.$"):
            beside.write_files(both := [tmp_path / "m.data", tmp_path / "m"], write_all(both), overwrite=True)
        assert os.listdir(tmp_path) == ["m.data"]

    def test_a_file_that_is_removed_meanwhile_is_replaced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = [tmp_path / "m.data", tmp_path / "m"]
        for file in files:
            file.write_text("old")
        replace = Path.replace

        def removed(path: Path, target: Path) -> Path:
            if path in files:
                path.unlink()
            return replace(path, target)

        monkeypatch.setattr(Path, "replace", removed)
        beside.write_files(files, write_all(files), overwrite=True)
        assert tree(tmp_path) == {"m": b"new", "m.data": b"new"}
        assert len(os.listdir(tmp_path)) == len(files)

    def test_a_folder_that_cannot_be_put_back_is_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        beside.fill_folder(tmp_path / "out", fill_with("old"), mark="mark")
        let_fail(monkeypatch, "rename", lambda number: number > 1, OSError(5, "Input/output error"))
        with pytest.raises(UsageError, match="cannot be put back"):
            beside.fill_folder(tmp_path / "out", fill_with("new"), mark="mark", overwrite=True)
        assert list(tree(tmp_path).values()) == [b"old"]

    @POSIX
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_leaves_nothing_half_written(self, tmp_path: Path, models: Path, number: signal.Signals) -> None:
        code = (
            "import signal, sys, time; from sliceport.directml import dxdispatch\n"
            "from sliceport.cli.start import main\n"
            "from sliceport.sandbox import progress\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whatever the tests were started with
            "def slow(*_): progress.announce('begun'); time.sleep(60)\n"
            "dxdispatch.write_model = slow\n"
            "sys.exit(main())"
        )
        words = [sys.executable, "-c", code, "lower", str(models / "rule_coalesce.onnx"), "-o", str(tmp_path / "out")]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == b"sliceport: begun\n"
            assert len(list(tmp_path.iterdir())) == 1
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number
        assert b"Traceback" not in err
        assert list(tmp_path.iterdir()) == []


class TestKept:
    @pytest.mark.parametrize(
        "name",
        [
            *("weights.bin", "model.data", "model.onnx_data", "model.onnx.data", "model.bin", "model.notes.md"),
            *("model.onnx/mine", "dxdispatch/notes.txt", "dxdispatch/0.txt", "dxdispatch/more/0.json"),
            *("dxdispatch/my.json", "other/0.json"),
        ],
    )
    def test_a_folder_with_another_file_in_it_is_kept(
        self, tmp_path: Path, lower: list[str], invoke: Invoke, name: str
    ) -> None:
        """Check names like those of results, and weights put beside the annotated model as the README says."""
        invoke(*lower)
        mine = tmp_path / "out" / name
        if name.startswith("model.onnx/"):
            mine.parent.unlink()
        mine.parent.mkdir(exist_ok=True, parents=True)
        mine.write_bytes(b"mine")
        before = tree(tmp_path)
        assert "which is not overwritten; move it elsewhere" in invoke(*lower, code=2).err
        assert tree(tmp_path) == before

    def test_results_of_dxdispatch_are_replaced(self, tmp_path: Path, lower: list[str]) -> None:
        assert main(lower) == 0
        one = next((tmp_path / "out" / "dxdispatch").glob("*.json"))
        one.with_name(f"{one.stem}.output_0.npy").touch()
        assert main(lower) == 0

    @POSIX
    @pytest.mark.parametrize("target", ["real.onnx", "nowhere"])
    def test_a_link_is_replaced_and_its_target_kept(
        self, tmp_path: Path, models: Path, invoke: Invoke, target: str
    ) -> None:
        (tmp_path / "real.onnx").write_bytes(b"mine")
        (tmp_path / "link.onnx").symlink_to(target)
        arguments = ["rewrite", str(models / "rule_siblings.onnx"), "-o", str(tmp_path / "link.onnx")]
        assert "exists" in invoke(*arguments, code=2).err
        invoke(*arguments, "--overwrite")
        onnx.checker.check_model(tmp_path / "link.onnx")
        assert (tmp_path / "real.onnx").read_bytes() == b"mine"
        assert not (tmp_path / "nowhere").exists()

    def test_the_input_is_kept_without_overwrite(self, tmp_path: Path, models: Path, invoke: Invoke) -> None:
        data = (models / "rule_siblings.onnx").read_bytes()
        path = tmp_path / "m.onnx"
        path.write_bytes(data)
        invoke("rewrite", path, "-o", path, code=2)
        assert path.read_bytes() == data
        assert "Slice: now Split (siblings)" in invoke("rewrite", path, "-o", path, "--overwrite").out
        onnx.checker.check_model(path)
        invoke("lower", path, "-o", path, code=2)


class TestNames:
    @pytest.mark.parametrize("length", [200, 244, 245, 246, 250, 255])
    def test_names_may_be_as_long_as_a_file_system_takes(self, tmp_path: Path, models: Path, length: int) -> None:
        name = "n" * (length - 5) + ".onnx"
        assert main(["rewrite", str(models / "rule_siblings.onnx"), "-o", str(tmp_path / name)]) == 0
        assert main(["lower", str(models / "rule_siblings.onnx"), "-o", str(tmp_path / ("d" * length))]) == 0
        assert sorted(os.listdir(tmp_path)) == ["d" * length, name]

    @pytest.mark.parametrize("command", ["lower", "rewrite", "harden"])
    @pytest.mark.parametrize("name", ["n" * 300 + ".onnx", "n" * 5000 + ".onnx", "ä" * 128 + ".onnx"])
    def test_longer_names_are_refused(
        self, tmp_path: Path, models: Path, invoke: Invoke, command: str, name: str
    ) -> None:
        for overwrite in ([], ["--overwrite"]):
            arguments = [command, str(models / "rule_siblings.onnx"), "-o", str(tmp_path / name), *overwrite]
            out, err = invoke(*arguments, code=2)
            assert (out, err.count("\n")) == ("", 1)
            assert "cannot be made (File name too long)" in err or sys.platform == "win32"
        assert list(tmp_path.iterdir()) == []

    def test_a_name_with_a_null_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="cannot be made"):
            beside.fill_folder(tmp_path / "a\0b", fill_with("new"), mark="mark")

    def test_a_name_that_is_too_long_for_the_data_is_refused(self, tmp_path: Path) -> None:
        """The model's name fits, and that of its data does not."""
        path = external(tmp_path / "in")
        target = tmp_path / ("n" * 250 + ".onnx")
        with pytest.raises(UsageError, match="File name too long" if sys.platform != "win32" else "cannot be"):
            write_model(read_model(path), target)
        assert os.listdir(tmp_path) == ["in"]

    @pytest.mark.parametrize(
        "name",
        ["ab:c.onnx", "a?.onnx", "nul", "NUL.onnx", "com1.tar.gz", "COM\u00b2", "a.", "a ", "a\tb", "conin$", "aux .x"],
    )
    def test_names_that_windows_does_not_take_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """Among them names of devices, to which writing would succeed, and of streams of other files."""
        monkeypatch.setattr(sys, "platform", "win32")
        refusal = re.escape(f"output '{tmp_path / name}' has a name that Windows does not allow for files")
        with pytest.raises(UsageError, match=refusal):
            beside.fill_folder(tmp_path / name, fill_with("new"), mark="mark")
        with pytest.raises(UsageError, match=refusal):
            beside.write_files([tmp_path / name], lambda _: None)
        with pytest.raises(UsageError, match=refusal):
            beside.check_output(tmp_path / name, overwrite=False)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "name", ["console.onnx", "com10.onnx", "a.nul", ".a", "null", "a b.onnx", "lpt", "x.con.y"]
    )
    def test_names_that_resemble_devices_are_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setattr(sys, "platform", "win32")
        beside.check_output(tmp_path / name, overwrite=False)


class TestMove:
    """Windows renames no file that somebody has open, and replaces none."""

    @pytest.fixture(autouse=True)
    def _on_windows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "win32")

    @pytest.mark.parametrize("is_folder", [False, True])
    def test_a_move_waits_for_other_programs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_folder: bool
    ) -> None:
        name = "rename" if is_folder else "replace"
        source, refusals, rename = tmp_path / "new", [True, True], getattr(Path, name)

        def refuse(path: Path, target: Path) -> Path:
            if refusals.pop() if refusals else False:
                raise PermissionError(13, "Permission denied")
            moved: Path = rename(path, target)
            return moved

        if is_folder:
            source.mkdir()
        else:
            source.write_text("new")
            (tmp_path / "old").write_text("old")
        monkeypatch.setattr(Path, name, refuse)
        beside.move(source, tmp_path / "old")
        assert [path.name for path in tmp_path.iterdir()] == ["old"]
        assert refusals == []

    def test_a_move_waits_only_so_long(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(path: Path, target: Path) -> Path:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "replace", refuse)
        monkeypatch.setattr(beside, "_RETRY_TIME", 0.1)
        with pytest.raises(UsageError, match="cannot be written .Permission denied"):
            beside.write_files([tmp_path / "a"], lambda folder: (folder / "a").touch(), overwrite=True)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere an open file can be replaced")
def test_a_file_that_somebody_has_open_is_replaced_later(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with open(tmp_path / "a") as opened:
        timer = threading.Timer(0.3, opened.close)
        timer.start()
        beside.write_files([tmp_path / "a"], lambda folder: (folder / "a").touch(), overwrite=True)
        timer.join()
    assert (tmp_path / "a").read_text() == ""


def external(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    weights = np.arange(1, 1001, dtype=np.float32)
    (folder / "w.bin").write_bytes(weights.tobytes())
    model = parse("() => (float[500] a, float[500] b) { a, b = Split (w) }", 13)
    tensor = model.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT, dims=[1000])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


class TestWrite:
    @POSIX
    def test_weights_are_found_through_links(self, tmp_path: Path) -> None:
        path = external(tmp_path / "in")
        (tmp_path / "links").mkdir()
        (tmp_path / "links" / "m.onnx").symlink_to(path)
        (tmp_path / "links" / "w.bin").write_bytes(path.with_name("w.bin").read_bytes())
        source = tmp_path / "links" / "m.onnx"
        write_model(read_model(source), path.with_name("out.onnx"))
        assert onnx.load(path.with_name("out.onnx")).graph.initializer[0].raw_data[-4:] == np.float32(1000).tobytes()

    def test_a_model_that_cannot_be_written_leaves_nothing(self, tmp_path: Path, models: Path) -> None:
        model = read_model(models / "rule_siblings.onnx")
        next(iter(model.graph)).attributes["odd"] = ir.Attr("odd", ir.AttributeType.TENSOR, 7)
        with pytest.raises(ModelError, match="'out.onnx' cannot be written: "):
            write_model(model, tmp_path / "out.onnx")
        assert list(tmp_path.iterdir()) == []

    @POSIX
    @pytest.mark.parametrize("command", ["lower", "rewrite", "harden"])
    @pytest.mark.parametrize("limit", [100, 1000])
    def test_a_full_disk_leaves_nothing(self, tmp_path: Path, models: Path, command: str, limit: int) -> None:
        """A limit on the size of files fails in the middle of writing as a full disk does.

        Interpreters write no compiled files there: they would leave them cut off, for all who import them later.
        """
        code = (
            "import resource, signal, sys; from sliceport.cli.main import main\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
            "sys.exit(main(sys.argv[1:]))"
        )
        words = [command, str(models / "dynamo_bigbird.onnx"), "-o", str(tmp_path / "out.onnx")]
        command_line = [sys.executable, "-c", code, *words]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command_line, capture_output=True, check=False, timeout=120, env=environment)
        assert done.returncode == 2
        assert b"cannot be written" in done.stderr
        assert done.stderr.count(b"\n") == 1
        assert list(tmp_path.iterdir()) == []

    @POSIX
    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
    def test_a_read_only_folder_is_refused(self, tmp_path: Path, models: Path, invoke: Invoke) -> None:
        tmp_path.chmod(0o500)
        printed = invoke("lower", models / "rule_siblings.onnx", "-o", tmp_path / "out", code=2)
        assert "cannot be made (Permission denied)" in printed.err


class TestJson:
    def test_only_arrays_of_numbers_are_put_on_one_line(self) -> None:
        data = {
            "a[ 1, 2 ]": "[ 3, 4 ]",
            "numbers": [1, -2, 3],
            "none": [],
            "words": ["[ 5 ]", "b"],
            "nested": [[1], [2]],
        }
        text = json_text.to_text(data, flat=True)
        assert json.loads(text) == data
        assert '"numbers": [1, -2, 3],' in text
        assert '"a[ 1, 2 ]": "[ 3, 4 ]"' in text


@pytest.mark.parametrize("is_looked_for", [True, False])
def test_output_that_another_process_makes_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_looked_for: bool
) -> None:
    if not is_looked_for:  # it appears between the last look and the rename
        monkeypatch.setattr(os.path, "lexists", lambda _: False)
    target, data, model = (tmp_path / name for name in ("folder", "data", "model"))

    def fill(folder: Path) -> None:
        (folder / "mark").write_text("ours")
        target.mkdir()
        (target / "mark").write_text("theirs")

    with pytest.raises(UsageError, match="exists; give another|cannot be written"):
        beside.fill_folder(target, fill, mark="mark")
    assert (target / "mark").read_text() == "theirs"

    def write(folder: Path) -> None:
        for name in ("data", "model"):
            (folder / name).write_text("ours")
        model.write_text("theirs")

    for files in ([data, model], [model]):
        with pytest.raises(UsageError, match="exists; give another|cannot be written"):
            beside.write_files(files, write)
        assert model.read_text() == "theirs"
        model.unlink()
        data.unlink(missing_ok=True)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
