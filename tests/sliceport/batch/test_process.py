"""One model of a batch: it has one result, even if it ends the process that works on it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import deadly_format
import numpy as np
import onnx
import pytest
import sandbox_child
from platforms import POSIX, ended_by

from sliceport.batch import process as process_module
from sliceport.batch.process import RunStopped, process_model
from sliceport.batch.result import (
    fill_in_model,
    make_result,
    read_result,
    read_stderr,
    result_name,
    stderr_name,
    to_row,
)
from sliceport.batch.store import Folder
from sliceport.batch.task import Done, Job, Task
from sliceport.errors import UsageError
from sliceport.formats import formats
from sliceport.sandbox import child_process, supervisor
from sliceport.sandbox.child_process import ChildTerminated
from sliceport.wording.shell import join

MODELS = Path(__file__).parents[3] / "models"
SEGFAULTED = "ended with exit code 11" if sys.platform == "win32" else "was ended by SIGSEGV"
GLU, STRINGS = MODELS / "rule_glu.onnx", MODELS / "rule_strings.onnx"


@pytest.fixture(scope="module")
def _deadly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let processes that are started take the models of the throw-away format."""
    formats()  # this process remembers those that it has found: not this one, which goes again
    folder = str(deadly_format.install(tmp_path_factory.mktemp("site")))
    supervisor.end_idle()
    sys.path.insert(0, folder)
    yield
    sys.path.remove(folder)
    supervisor.end_idle()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job("lower", str(tmp_path / "run"), versions={"sliceport": "1"}, timeout=60.0, memory=2**31)


def do(job: Job, model: Path, name: str = "", **options: object) -> Done:
    scratch = Path(job.root, "scratch")
    scratch.mkdir(parents=True, exist_ok=True)
    done = process_model(job, Task(name or str(model), os.path.abspath(model), options), scratch, threading.Event())
    assert not list(scratch.iterdir())
    return done


def result(job: Job, done: Done) -> dict[str, object]:
    found = read_result(Folder(job.root), done.key)
    assert found is not None
    return found


def message_of(job: Job, done: Done) -> str:
    message = fill_in_model(result(job, done)["message"], done.model) if done.row is None else done.row["message"]
    return str(message)


def deadly(folder: Path, action: str) -> Path:
    file = folder / f"{action.replace(' ', '_')}.deadly"
    file.write_text(action)
    return file


def test_a_result_has_what_the_command_prints(job: Job) -> None:
    import sliceport

    done = do(job, GLU)
    assert (done.verdict, done.cached, done.row) == ("clean", False, None)
    made = result(job, done)
    assert made["result"] == json.loads(json.dumps(sliceport.lower(GLU).to_json()))
    assert len(done.key) == 64
    assert os.listdir(Path(job.root, "results")) == [done.key[:2]]


def test_findings_are_named(job: Job) -> None:
    done = do(job, STRINGS)
    assert done.verdict == "finding"
    assert message_of(job, done).startswith("Slice 'slice_y': not lowered: DirectML has no data type")
    assert result(job, done)["findings"] == [
        {
            "reason": "unsupported_type",
            "operator": "Slice",
            "engine": "",
            "defect": "",
            "node": "slice_y",
            "message": message_of(job, done),
        }
    ]


def test_a_result_is_of_the_content_not_of_the_name(job: Job, tmp_path: Path) -> None:
    copy = tmp_path / "a copy.onnx"
    shutil.copy(STRINGS, copy)
    first, second = do(job, STRINGS), do(job, copy, "given/name.onnx")
    assert second.cached
    assert second.key == first.key
    refusing = do(job, tmp_path / "none.onnx", "given/none.onnx")
    assert refusing.row is not None
    assert refusing.row["message"] == "it cannot be read (No such file or directory)."


def test_store_that_cannot_be_opened_ends_the_run(job: Job) -> None:
    with pytest.raises(UsageError, match=r"^'gs://bucket/run' cannot be opened: gcsfs is not installed; run: pip"):
        do(replace(job, root="gs://bucket/run"), GLU)


@pytest.mark.parametrize(
    "other",
    [
        {"command": "compare"},
        {"options": {"feature_level": "4.0"}},
        {"versions": {"sliceport": "2"}},
        {"options": {"open_sizes": "primes"}},
        {"writes": True},
    ],
)
def test_whatever_a_result_depends_on_makes_it_another(job: Job, other: dict[str, object]) -> None:
    first = do(job, GLU)
    second = do(replace(job, **other), GLU)  # type: ignore[arg-type]
    assert not second.cached
    assert second.key != first.key


def test_options_of_a_model_and_the_arrays_that_they_name_count(job: Job, tmp_path: Path) -> None:
    job = replace(job, command="compare", options={"seed": 1})
    file = tmp_path / "x.npy"
    keys = {do(job, GLU).key, do(job, GLU, seed=2).key}
    for value in (1, 2):
        np.save(file, np.full((2, 4), value, np.float32))
        done = do(job, GLU, inputs={"x": str(file)})
        assert done.verdict == "clean", message_of(job, done)
        keys.add(done.key)
    assert len(keys) == 4
    file.write_text("no array")
    done = do(job, GLU, inputs={"x": str(file)})
    assert done.verdict == "error"
    assert re.search("holds no|cannot be read", message_of(job, done))


def test_a_result_that_was_cut_off_is_made_again(job: Job) -> None:
    done = do(job, GLU)
    file = Path(job.root, result_name(done.key))
    whole = file.read_bytes()
    for cut in (0, 1, len(whole) // 2, len(whole) - 2):
        file.write_bytes(whole[:cut])
        assert not do(job, GLU).cached
        assert file.read_bytes() == whole


def test_a_result_of_another_form_is_made_again(job: Job) -> None:
    done = do(job, STRINGS)
    file = Path(job.root, result_name(done.key))
    whole = file.read_bytes()
    others: list[Any] = [[], None, [json.loads(whole)], {}, json.loads(whole) | {"schema_version": 2}]
    for data in others:
        file.write_text(json.dumps(data))
        assert read_result(Folder(job.root), done.key) is None, data
    assert not do(job, STRINGS).cached
    assert file.read_bytes() == whole


@pytest.mark.skipif(sys.platform == "win32", reason="quotes of another shell")
def test_the_command_of_a_result_names_each_model_as_the_shell_has_it(job: Job, tmp_path: Path) -> None:
    job = replace(job, command="compare")
    names = ["it's $(touch x).onnx", "plain.onnx", "new\nline.onnx", "{model}.onnx"]
    for first in names:
        shutil.rmtree(job.root, ignore_errors=True)
        (tmp_path / first).write_bytes(GLU.read_bytes())
        done = do(job, tmp_path / first)
        stored = result(job, done)
        assert str(tmp_path) not in json.dumps(stored)
        for name in names:
            line = to_row(stored, name, done.key)["result"]["command"]  # type: ignore[index]
            assert line.startswith(f"sliceport compare {join([name])} --seed"), line
        done = do(replace(job, command="check", options={"fail_on": []}), tmp_path / first)
        stored = result(job, done)
        assert str(tmp_path) not in json.dumps(stored)
        for name in names:
            rules = to_row(stored, name, done.key)["result"]["rules"]  # type: ignore[index]
            assert {rule["help"] for rule in rules.values()} == {f"sliceport harden {join([name])} -o OUT"}


def test_a_format_that_fails_to_tell_what_lies_beside_fails_for_its_model_alone(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of a format")

    monkeypatch.setattr(supervisor, "call", fail)
    done = do(job, GLU)
    assert (done.verdict, done.key) == ("error", "")
    assert message_of(job, done) == "internal error (ZeroDivisionError: of a format); please report it with this model."


def test_run_ends_if_no_process_can_be_started(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor.end_idle()
    monkeypatch.setattr(child_process, "_start", sandbox_child.start_interpreter)
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(UsageError, match=r"^a process for '.*' could not be started \(there is no Python to run\)\.$"):
        do(job, GLU)


def test_names_of_paths_come_back_as_given(job: Job, tmp_path: Path) -> None:
    folder = tmp_path / "{model}"
    folder.mkdir()
    file = folder / "it's {model}.onnx"
    file.write_bytes(b"\x0anonsense")
    done = do(job, file, "given.onnx")
    assert done.verdict == "error"
    stored = Path(job.root, result_name(done.key)).read_text()
    assert str(tmp_path) not in stored
    row = to_row(result(job, done), "given.onnx", done.key)
    assert row["message"].startswith("it is not an ONNX model")


def test_a_rewritten_model_is_kept_with_its_result(job: Job) -> None:
    job = replace(job, command="harden")
    done = do(job, GLU)
    made = result(job, done)
    assert made["output"] == f"outputs/{done.key[:2]}/{done.key}/model.onnx"
    output = Path(job.root, str(made["output"]))
    assert output.is_file()
    assert do(job, GLU).cached
    output.unlink()
    assert not do(job, GLU).cached
    assert output.is_file()


def test_copy_of_a_model_at_a_url_is_not_kept_with_the_output(job: Job, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    task = Task("model", f"file://{GLU.as_posix()}")
    done = process_model(replace(job, command="harden"), task, tmp_path, threading.Event())
    assert os.listdir(Path(job.root, "outputs", done.key[:2], done.key)) == ["model.onnx"]


def test_a_hardened_ir_has_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """OpenVINO names new nodes by a count that goes on in a process, so we name them."""
    pytest.importorskip("openvino")
    import sliceport

    for name in ("first", "second"):
        sliceport.harden(MODELS / "rule_new_axis.xml", tmp_path / f"{name}.xml")
    assert (tmp_path / "first.xml").read_bytes() == (tmp_path / "second.xml").read_bytes()


def test_what_lower_writes_is_kept_if_it_is_wanted(job: Job) -> None:
    done = do(replace(job, writes=True), GLU)
    assert result(job, done)["output"] == f"outputs/{done.key[:2]}/{done.key}/program/program.json"
    assert {"program.json", "model.onnx"} <= set(
        os.listdir(Path(job.root, f"outputs/{done.key[:2]}/{done.key}/program"))
    )


def test_messages_name_options_of_the_command_line(job: Job) -> None:
    done = do(job, MODELS / "rule_symbolic.onnx")
    example = join(["--input-shapes", "x:1,16,8"])
    assert message_of(job, done).endswith(f"are open: give sizes, as in {example} (an example). (and 1 more)")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_what_is_no_file_is_not_waited_for(job: Job, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "folder.onnx").mkdir()
    for name in ("pipe.onnx", "folder.onnx"):
        done = do(job, tmp_path / name)
        assert (done.verdict, message_of(job, done)) == ("error", "it is a folder, a pipe or a device, not a file.")


def test_results_have_no_path_of_the_machine(job: Job, tmp_path: Path) -> None:
    folder, scratch = tmp_path / "zoo", tmp_path / "run" / "scratch" / "1"
    library, temporary = Path(sys.prefix, "a.so"), Path(tempfile.gettempdir(), "b")
    message = f"'{folder / 'm.data'}' and '{scratch / 'x'}', '{library}', '{temporary}', '{folder / 'm.onnx'}'"
    node = f"/block{temporary}"  # has the name of a folder in the middle
    made = make_result("lower", str(folder / "m.onnx"), scratch / "output", {"message": f"{message} at '{node}'"})
    assert made["message"] == f"'m.data' and 'x', 'a.so', 'b', '{{model}}' at '{node}'"


def test_folder_inside_the_folder_of_the_model_is_removed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    message = f"{tmp_path / '.venv' / 'lib' / 'a.py'} of {tmp_path / 'm.onnx'}"
    made = make_result("lower", str(tmp_path / "m.onnx"), Path("/run/output"), {"message": message})
    assert made["message"] == f"{Path('lib', 'a.py')} of {{model}}"


def test_the_command_of_a_result_has_no_path_of_the_machine(tmp_path: Path) -> None:
    path, output = str(tmp_path / "a b" / "m.onnx"), tmp_path / "scratch" / "output"
    line = f"sliceport compare {join([path])} -o {output / 'x'} {{model}}"
    made = make_result("compare", path, output, {"message": "", "result": {"command": line}})
    assert made["result"]["command"] == "sliceport compare {model} -o x {{model}}"


def test_messages_name_existing_files_without_their_folder_and_nodes_in_full() -> None:
    message = f"{MODELS}/rule_glu.onnx, '{sys.executable}': '/model/layers.0/Slice' of https://a.org/usr/bin."
    made = make_result("lower", "/model/m.onnx", Path("/run/output"), {"message": message})
    python = os.path.relpath(sys.executable, sys.prefix)
    assert made["message"].endswith(f"rule_glu.onnx, '{python}': '/model/layers.0/Slice' of https://a.org/usr/bin.")
    assert not made["message"].startswith("/")


def test_messages_name_no_scratch_folder(job: Job, tmp_path: Path) -> None:
    """The result cannot be verified, and the message names the output."""
    np.save(tmp_path / "x.npy", np.zeros((1, 2, 5, 6), np.int64))
    job = replace(job, command="rewrite", options={"verify": True, "inputs": {"x": str(tmp_path / "x.npy")}})
    done = do(job, MODELS / "dynamo_half_rotary.onnx")
    assert done.verdict == "error"
    assert "the changed model could not be verified" in message_of(job, done)
    assert str(tmp_path) not in Path(job.root, result_name(done.key)).read_text()


def test_open_sizes_are_chosen_and_told(job: Job) -> None:
    job = replace(job, options={"open_sizes": "primes"})
    done = do(job, MODELS / "dynamo_phi_dyn.onnx")
    assert done.verdict == "clean", message_of(job, done)
    chosen = result(job, done)["input_shapes"]
    assert isinstance(chosen, dict)
    assert list(chosen) == ["x"]
    assert all(isinstance(size, int) for size in chosen["x"])
    assert "input_shapes" not in result(job, do(job, GLU))
    given = do(job, MODELS / "dynamo_phi_dyn.onnx", input_shapes={"x": (1, 16)})
    assert given.verdict == "clean", message_of(job, given)
    assert given.key != done.key


def test_open_sizes_fit_the_arrays(job: Job, tmp_path: Path) -> None:
    graph = "g (float[n, 6] x, float[n, k] z) => (float[m] y) { y = Slice <starts = [0], ends = [1]> (x) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 4, opset_import: ["" : 9]> {graph}'), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((4, 6), np.float32))
    for open_sizes, chosen in (("primes", [4, 23]), (7, [4, 7])):
        options = {"open_sizes": open_sizes, "inputs": {"x": str(tmp_path / "x.npy")}}
        done = do(replace(job, command="compare", options=options), tmp_path / "m.onnx")
        assert done.verdict == "clean", message_of(job, done)
        assert result(job, done)["input_shapes"] == {"z": chosen}


@pytest.mark.usefixtures("_deadly")
class TestDeadlyModels:
    @pytest.mark.parametrize(
        ("action", "verdict", "message"),
        [
            ("abort", "crash", f"its process {ended_by('SIGABRT')}."),
            ("segfault", "crash", f"its process {SEGFAULTED}."),
            ("exit", "crash", "its process ended with exit code 3."),
            ("end", "crash", "its process ended with exit code 0."),
            ("bad_alloc", "memory", "it allocates more memory than its limit of 2147483648 bytes."),
            ("lack memory", "memory", "it allocates more memory than its limit of 2147483648 bytes."),
            ("refuse", "error", "it is refused."),
            (
                "raise",
                "error",
                "internal error (ZeroDivisionError: it divides by 0); please report it with this model.",
            ),
        ],
    )
    def test_ends_its_process_alone(self, job: Job, tmp_path: Path, action: str, verdict: str, message: str) -> None:
        done = do(job, deadly(tmp_path, action))
        assert (done.verdict, message_of(job, done)) == (verdict, message)
        again = do(job, deadly(tmp_path, action))
        assert (again.cached, again.verdict, message_of(job, again)) == (True, verdict, message)

    def test_failure_is_tried_again_if_that_is_wanted(self, job: Job, tmp_path: Path) -> None:
        for action, verdict in (("exit", "crash"), ("refuse", "error")):
            for retries, cached in ((False, False), (True, False), (False, True)):
                done = do(replace(job, retries=retries), deadly(tmp_path, action))
                assert (done.cached, done.verdict) == (cached, verdict)

    @pytest.mark.parametrize(
        ("action", "verdict", "message"),
        [
            pytest.param("kill", "crash", "its process was ended by SIGKILL.", marks=POSIX),
            ("fill the disk", "error", "output 'model' cannot be written ([Errno 28] No space left on device)."),
            pytest.param("lose a worker", "crash", "its process was ended by SIGKILL.", marks=POSIX),
        ],
    )
    def test_what_is_the_machines_is_no_result_of_the_model(
        self, job: Job, tmp_path: Path, action: str, verdict: str, message: str
    ) -> None:
        for _ in range(2):
            done = do(job, deadly(tmp_path, action))
            assert (done.verdict, done.cached) == (verdict, False)
            assert done.row is not None
            assert message in done.row["message"]
            assert read_result(Folder(job.root), done.key) is None

    def test_what_is_changed_while_it_is_read_has_no_result(self, job: Job, tmp_path: Path) -> None:
        done = do(job, deadly(tmp_path, "change"))
        assert (done.verdict, message_of(job, done), done.key) == ("error", "it was changed while it was read.", "")
        assert not Path(job.root, "results").exists()

    @pytest.mark.skipif(sys.platform == "win32", reason="memory is not limited there")
    def test_more_memory_than_a_part_of_it_had_makes_a_result_again(self, job: Job, tmp_path: Path) -> None:
        model = deadly(tmp_path, "use up memory")
        assert not do(job, model).cached
        assert do(job, model).cached
        assert do(replace(job, memory=2**30), model).cached
        assert not do(replace(job, memory=2**32), model).cached

    def test_numbers_that_json_lacks_are_null(self, job: Job, tmp_path: Path) -> None:
        done = do(job, deadly(tmp_path, "be infinite"))
        assert (done.verdict, result(job, done)["result"]) == ("clean", {"a": [None, None, 1.5]})

    def test_what_json_cannot_hold_is_told(self, job: Job, tmp_path: Path) -> None:
        done = do(job, deadly(tmp_path, "be odd"))
        assert (done.verdict, result(job, done)["result"]) == ("error", None)
        assert "not JSON serializable" in message_of(job, done)

    def test_stderr_of_a_crash_is_kept_beside_its_result(self, job: Job, tmp_path: Path) -> None:
        done = do(job, deadly(tmp_path, "say and abort"))
        assert "stderr" not in result(job, done)
        assert read_stderr(Folder(job.root), done.key) == ["Assertion `size > 0' failed."]

    def test_stderr_of_an_earlier_run_is_removed(self, job: Job, tmp_path: Path) -> None:
        model = deadly(tmp_path, "use up memory")
        Folder(job.root).write(stderr_name(do(job, model).key), b"an earlier crash")
        assert read_stderr(Folder(job.root), do(replace(job, retries=True), model).key) == []

    @pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux")
    def test_memory_is_bounded(self, job: Job, tmp_path: Path) -> None:
        file = deadly(tmp_path, "allocate")
        done = do(job, file)
        assert done.verdict == "memory"
        assert message_of(job, done) == "it allocates more memory than its limit of 2147483648 bytes."
        assert do(job, file).cached
        more = do(replace(job, memory=2**34), file)
        assert (more.cached, more.verdict) == (False, "error")
        assert do(job, file).verdict == "error"

    @pytest.mark.parametrize("action", ["hang", "spin"])
    def test_one_that_never_ends_is_ended(self, job: Job, tmp_path: Path, action: str) -> None:
        file = deadly(tmp_path, action)
        done = do(replace(job, timeout=0.5), file)
        assert (done.verdict, message_of(job, done)) == ("timeout", "it took longer than 0.5 s.")
        assert do(replace(job, timeout=0.25), file).cached
        longer = do(replace(job, timeout=0.75), file)
        assert (longer.cached, message_of(job, longer)) == (False, "it took longer than 0.75 s.")

    def test_a_run_that_is_stopped_leaves_no_result(self, job: Job, tmp_path: Path) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        stopped, raised = threading.Event(), []

        def work() -> None:
            try:
                process_model(job, Task("hang", str(deadly(tmp_path, "hang"))), scratch, stopped)
            except RunStopped as error:
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        stopped.wait(0.3)
        supervisor.end_calls(stopped)
        thread.join(60)
        assert len(raised) == 1
        assert not Path(job.root, "results").exists()
        assert not list(scratch.iterdir())


def test_a_folder_that_cannot_be_written_is_told(job: Job, tmp_path: Path) -> None:

    (tmp_path / "run" / "scratch").mkdir(parents=True)
    (tmp_path / "run" / "results").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        do(job, GLU)


def test_a_process_that_is_told_to_end_says_nothing_of_the_model(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that shuts down tells all that run there; this one goes on."""
    called = []
    real = supervisor.call

    def call(function: Any, *args: Any, **limits: Any) -> Any:
        called.append(function.__name__)
        if len(called) in (1, 3):
            raise ChildTerminated("was ended by SIGTERM")
        return real(function, *args, **limits)

    monkeypatch.setattr(supervisor, "call", call)
    monkeypatch.setattr(process_module, "_SHUTDOWN", 0)
    assert do(job, GLU).verdict == "clean"
    assert called == ["_look_up", "_look_up", "run_command", "run_command"]
