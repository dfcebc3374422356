"""Runs that `diff` keeps: a damaged file counts as none, and what the machine did is not kept."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sliceport.engines import kept_runs
from sliceport.engines.engine import WholeModel
from sliceport.engines.failure import Failure, Kind
from sliceport.engines.kept_runs import open_kept_runs

OUTPUTS = {"y": np.arange(100, dtype=np.float32), "z": np.array([1, 2], ml_dtypes.bfloat16)}


def as_zip(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def as_npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        as_npy(np.zeros(3)),
        as_zip(failure=np.array(["error"])),
        as_zip(**{"nothing y": np.zeros(3)}),
        as_zip(**{"int64 y": np.zeros(3, np.int8)}),
    ],
    ids=["empty", "cut", "an array", "half a failure", "unknown type", "other type"],
)
def test_damaged_file_counts_as_none(tmp_path: Path, data: bytes) -> None:
    runs, place = open_kept_runs(tmp_path), tmp_path / "run.npz"
    place.write_bytes(data)
    assert runs.read(place) is None
    runs.write(place, OUTPUTS)
    assert runs.read(place) is not None


def test_no_changed_byte_gives_other_outputs(tmp_path: Path) -> None:
    runs, place = open_kept_runs(tmp_path), tmp_path / "run.npz"
    runs.write(place, OUTPUTS)
    data = place.read_bytes()
    unread = 0
    for at in range(len(data)):
        place.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        result = runs.read(place)
        if result is None:
            unread += 1
        elif not isinstance(result, Failure) and result.keys() == OUTPUTS.keys():
            arrays = {name: array for name, array in result.items() if isinstance(array, np.ndarray)}
            assert all(np.array_equal(arrays[name], array) for name, array in OUTPUTS.items())
        else:
            pytest.fail(f"byte {at} changes what is kept to {result}")
    assert unread > len(data) // 2


def test_types_that_numpy_lacks_are_read_in_a_new_process(tmp_path: Path) -> None:
    open_kept_runs(tmp_path).write(tmp_path / "run.npz", OUTPUTS)
    program = (
        "import sys; from pathlib import Path; from sliceport.engines.kept_runs import open_kept_runs\n"
        "print(open_kept_runs(sys.argv[1]).read(Path(sys.argv[1], 'run.npz'))['z'].dtype)"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "bfloat16\n"


@pytest.mark.parametrize(("kind", "is_kept"), [("error", True), ("crash", False), ("memory", False)])
def test_failures_that_may_be_of_the_machine_are_not_kept(tmp_path: Path, kind: Kind, is_kept: bool) -> None:
    runs, place = open_kept_runs(tmp_path), tmp_path / "run.npz"
    runs.write(place, Failure(kind, "", "it ended"))
    assert place.exists() is is_kept


def test_run_that_cannot_be_kept_leaves_no_file(tmp_path: Path) -> None:
    runs, place = open_kept_runs(tmp_path), tmp_path / "run.npz"
    place.mkdir()
    runs.write(place, OUTPUTS)
    assert list(tmp_path.iterdir()) == [place]


def test_another_version_does_not_use_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, model = open_kept_runs(tmp_path), WholeModel("onnx", b"", ("x",), ("y",))
    place = runs.path_of("engine 1", model, OUTPUTS)
    assert place == runs.path_of("engine 1", model, OUTPUTS)
    monkeypatch.setattr(kept_runs, "__version__", "another")
    assert place != runs.path_of("engine 1", model, OUTPUTS)
