"""A run as a Parquet file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_rows import make_finding, make_row, make_rows

from sliceport.batch.parquet import write_parquet
from sliceport.batch.row import Row
from sliceport.errors import MissingExtra, UsageError

parquet = pytest.importorskip("pyarrow.parquet")


def test_a_line_is_a_model(tmp_path: Path) -> None:
    findings = [make_finding(), make_finding(engine="ov_ext", defect="a defect"), make_finding(operator="")]
    big = {"ends": [2**63 - 1], "name": "d\u202ee"}
    rows = [make_row("a"), make_row("b", "finding", *findings, result=big), make_row("c", "crash", result=None)]
    write_parquet(rows, tmp_path / "run.parquet")
    clean, found, crash = parquet.read_table(tmp_path / "run.parquet").to_pylist()
    assert found == {
        "model": "b",
        "key": "a1" * 32,
        "command": "compare",
        "verdict": "finding",
        "message": "It ended as finding.",
        "findings": 3,
        "reasons": ["mismatch"],
        "operators": ["Split"],
        "engines": ["openvino-cpu", "ov_ext"],
        "defects": ["a defect"],
        "result": json.dumps(big),
    }
    assert (clean["findings"], clean["reasons"], clean["engines"]) == (0, [], [])
    assert (crash["reasons"], crash["result"]) == (["crash"], None)


def test_rows_come_in_groups(tmp_path: Path) -> None:
    read = 0

    def rows() -> Iterator[Row]:
        nonlocal read
        for row in make_rows(2500, nodes=1):
            read += 1
            yield row

    write_parquet(rows(), tmp_path / "run.parquet")
    file = parquet.ParquetFile(tmp_path / "run.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [1000, 1000, 500]
    assert read == 2500
    assert file.read(["model"])["model"].to_pylist() == [row["model"] for row in make_rows(2500, nodes=1)]
    file.close()


def test_large_results_make_groups_small(tmp_path: Path) -> None:
    write_parquet((make_row(str(i), result={"text": "x" * 2**22}) for i in range(9)), tmp_path / "run.parquet")
    file = parquet.ParquetFile(tmp_path / "run.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [4, 4, 1]
    file.close()


def test_no_rows_make_a_table_with_columns(tmp_path: Path) -> None:
    write_parquet([], tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    assert table.num_rows == 0
    assert table.column_names[:2] == ["model", "key"]


def test_names_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    rows = [make_row("a\udc80é", "finding", make_finding(operator="\udc81"), result={"name": "\udc82"})]
    write_parquet(rows, tmp_path / "run.parquet")
    (line,) = parquet.read_table(tmp_path / "run.parquet").to_pylist()
    assert (line["model"], line["operators"]) == (r"a\udc80é", [r"\udc81"])
    assert json.loads(line["result"]) == {"name": "\udc82"}


def test_an_existing_file_is_kept_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists; give another name or overwrite=True"):
        write_parquet([make_row()], path)
    assert path.read_text() == "mine"
    write_parquet([make_row()], path, overwrite=True)
    assert parquet.read_table(path).num_rows == 1


def test_nothing_is_left_of_a_run_that_cannot_be_read(tmp_path: Path) -> None:
    def rows() -> Iterator[Row]:
        yield make_row()
        raise UsageError("line 2 is not JSON.")

    with pytest.raises(UsageError, match="line 2"):
        write_parquet(rows(), tmp_path / "run.parquet")
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r'pyarrow is needed by --parquet.*pip install "sliceport\[parquet\]"'):
        write_parquet([], tmp_path / "run.parquet")
